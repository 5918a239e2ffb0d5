"""Which files are recordings, and what reads them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from edgefirst_ros.model.errors import RecordingError, extra
from edgefirst_ros.model.untrusted import open_regular
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.recording import Recording

BAGS = (".db3", ".bag")
SUFFIXES = (".mcap", *BAGS)
"""Endings of the names of recordings: MCAP, rosbag2 in SQLite, ROS 1."""
_LFS_POINTER = b"version https://git-lfs"
"""What a file in a repository begins with until its content is fetched."""


def open_recording(location: Location) -> Recording:
    """The recording in a file; MCAP unless its name says otherwise.

    Raises:
        RecordingNotFound: no such file.
        RecordingError: not a recording, or unreadable.
        ExtraNotInstalled: the library that reads it is missing.
    """
    _refuse_pointer(location)
    match location.suffix.lower():
        case ".db3":
            from edgefirst_ros.sources.rosbag2 import Rosbag2Recording  # noqa: PLC0415 - only where one is given

            return Rosbag2Recording(location)
        case ".bag":
            with extra("ros1"):
                from edgefirst_ros.sources.ros1bag import Ros1Recording  # noqa: PLC0415 - likewise

            return Ros1Recording(location)
    return McapRecording(location)


def _refuse_pointer(location: Location) -> None:
    if not isinstance(location, Path):
        return
    with suppress(OSError), open_regular(location, holes=True) as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise RecordingError(
                f"{location}: is a pointer of Git LFS, not the recording itself; `git lfs pull` in its "
                "repository fetches it"
            )
