"""Drives of a few seconds, at different times, that the tests of catalogue and selection share."""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from drives import simulated
from faulty import Truth

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions

SMALL: dict[str, Any] = {
    "fps": 5,
    "model_hz": 5.0,
    "width": 160,
    "height": 96,
    "lidar_points": 64,
    "lidar_hz": 5.0,
    "cube_hz": 0.0,
    "radar_hz": 0.0,
    "imu_hz": 20.0,
    "clock": "realtime",
}
HOUR_NS = 3_600_000_000_000
START_NS = DriveOptions().start_ns
STOP_S = (5.0, 9.0)


@cache
def _kept() -> Path:
    folder = Path(mkdtemp(prefix="edgefirst-chosen-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def long_drive() -> tuple[Path, Truth]:
    """A drive with a stop in its middle, of whose pictures every second one has boxes, and its truth."""
    made = simulated(DriveOptions(**{**SMALL, "model_hz": 2.5}, seconds=14.0, stops=(STOP_S,)))
    convert([made.mcap], _kept() / "long", build_config({}), dataset="long")
    return _kept() / "long" / "edgefirst" / "long", Truth.read(made.truth)


@cache
def twelve() -> Path:
    """The folder of twelve drives of two seconds, an hour after one another, as a fleet has them."""
    for number in range(12):
        options = DriveOptions(**SMALL, seconds=2.0, seed=number, start_ns=START_NS + number * HOUR_NS)
        name = f"drive{number:02d}"
        convert([simulated(options).mcap], _kept() / "sets" / name, build_config({}), dataset=name)
    return _kept() / "sets"


def copied(folder: Path) -> Path:
    """The same in another place, to be changed."""
    shutil.copytree(twelve(), folder / "sets")
    return folder / "sets"
