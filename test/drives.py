"""Simulated drives: each is made once for all tests that take one with the same options."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from edgefirst_ros.simulation import DriveOptions, Recording
from edgefirst_ros.simulation import simulate as make

_drives: dict[str, Recording] = {}


@cache
def _kept() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="edgefirst-drives-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def simulated(options: DriveOptions) -> Recording:
    """A drive that every test shares, for reading only."""
    key = repr(options)
    if key not in _drives:
        _drives[key] = make(_kept() / str(len(_drives)), options)
    return _drives[key]


def simulate(folder: Path, options: DriveOptions) -> Recording:
    """What the simulator writes into this folder; the files are the test's own."""
    shared = simulated(options)
    place = shared.truth.parent
    shutil.copytree(place, folder, dirs_exist_ok=True)
    return Recording(
        folder / shared.mcap.relative_to(place),
        folder / shared.truth.relative_to(place),
        tuple(folder / path.relative_to(place) for path in shared.files),
    )
