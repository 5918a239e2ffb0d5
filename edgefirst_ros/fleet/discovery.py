"""The drives of a fleet from paths and URLs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgefirst_ros.errors import RecordingNotFound
from edgefirst_ros.fleet.keys import FleetDrive, InputFile


def discover(inputs: Sequence[str]) -> tuple[list[FleetDrive], list[str]]:
    """All drives, named by their place below the input, and notes on what was left out."""
    drives = []
    for text in inputs:
        top = Path(text)
        files = sorted(top.rglob("*.mcap")) if top.is_dir() else [top]
        for path in files:
            if not path.exists():
                raise RecordingNotFound(f"{path}: no such recording")
            status = path.stat()
            name = path.relative_to(top).with_suffix("").as_posix() if top.is_dir() else path.stem
            file = InputFile(str(path.absolute()), status.st_size, str(status.st_mtime_ns))
            drives.append(FleetDrive(name, (file,)))
        if not files:
            raise RecordingNotFound(f"{top}: holds no recordings")
    return drives, []
