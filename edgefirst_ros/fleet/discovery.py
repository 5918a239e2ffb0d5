"""The drives of a fleet, named by where they were found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgefirst_ros.fleet.keys import FleetDrive, InputFile
from edgefirst_ros.naming import readable
from edgefirst_ros.offline.drives import NUMBERED
from edgefirst_ros.offline.units import DriveFiles, find_drive_files
from edgefirst_ros.sources.location import Location, Url, location_of
from edgefirst_ros.sources.recording import device_host


def discover(inputs: Sequence[str | Location]) -> tuple[list[FleetDrive], list[str]]:
    """All drives of files, folders and URLs, and notes on what was left out.

    A drive is named by its place below the input, as ``monday/bag``; of several files by what their names
    have in common.

    Raises:
        RecordingNotFound: an input does not exist, or holds no recordings.
        RecordingError: a store cannot be listed.
        ConfigError: a URL that cannot be read.
    """
    tops = [top if isinstance(top, Url) else top.absolute() for top in map(location_of, inputs)]
    found = find_drive_files(tops)
    drives = [
        FleetDrive(
            readable(_name(drive, tops)),
            tuple(InputFile(str(part.path), part.size, part.version) for part in drive.parts),
        )
        for drive in found.drives
    ]
    return drives, [found.note] if found.note else []


def _name(drive: DriveFiles, tops: Sequence[Location]) -> str:
    first = drive.parts[0].path
    is_split = len(drive.parts) > 1 and device_host(first.stem) is None
    numbered = NUMBERED.fullmatch(first.stem) if is_split else None
    name = numbered["drive"] if numbered else first.stem
    folders = max((_below(first.parent, top) for top in tops), key=len)
    return "/".join(folders if folders and folders[-1] == name else [*folders, name])


def _below(folder: Location, top: Location) -> list[str]:
    """The names of the folders from ``top`` down to this one; none if it is elsewhere."""
    if isinstance(folder, Path):
        is_below = isinstance(top, Path) and folder.is_relative_to(top)
        return list(folder.relative_to(top).parts) if is_below else []  # type: ignore[arg-type]
    head = f"{top}/"
    return str(folder)[len(head) :].split("/") if str(folder).startswith(head) else []
