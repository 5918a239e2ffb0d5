"""A drive with a pinhole and a fisheye camera as EdgeFirst and as NCore, made once for all tests."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from drives import simulated
from PIL import Image

import edgefirst_ros
from edgefirst_ros.simulation import DriveOptions, MoreSensor, Recording, Truth

SIDE = MoreSensor(
    "camera", "side/image/compressed", "side_optical", (0.5, 0.7, 1.5), (0.0, 10.0, 60.0), 5.0, 20.0,
    model="fisheye", info="side/camera_info",
)  # fmt: skip
OPTIONS = DriveOptions(seconds=3.0, fps=5, width=384, height=216, lidar_points=1500, more=(SIDE,))
SIZE = 384, 216
EGO = slice(180, None), slice(100, 300)
"""Rows and columns of the picture that show the vehicle, as the mask of the tests says."""


def drive() -> Recording:
    return simulated(OPTIONS)


@cache
def truth() -> Truth:
    return Truth.read(drive().truth)


@cache
def folder() -> Path:
    """With the outputs edgefirst/d and ncore/..., and the mask masks/camera_optical.png."""
    kept = Path(tempfile.mkdtemp(prefix="edgefirst-surveyed-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    ego = np.zeros(SIZE[::-1], np.uint8)
    ego[EGO] = 255
    (kept / "masks").mkdir()
    Image.fromarray(ego).save(kept / "masks" / "camera_optical.png")
    edgefirst_ros.convert(
        drive().mcap,
        kept / "out",
        name="d",
        page=False,
        formats=["edgefirst", "ncore"],
        topics={"side": {"role": "camera", "topic": "/side/image/compressed"},
                "side_info": {"role": "camera_info", "topic": "/side/camera_info", "required": "never"}},
        ncore={"ego_masks": {"camera_optical": {"ego": str(kept / "masks" / "camera_optical.png")}}},
    )  # fmt: skip
    return kept
