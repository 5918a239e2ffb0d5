"""The intrinsics of the picture at hand, judged by the pixels of the picture that they were measured on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from edgefirst.schemas import sensor_msgs
from edgefirst.schemas.builtin_interfaces import Time
from edgefirst.schemas.std_msgs import Header

from edgefirst_ros.model.camera import (
    TILES,
    CameraInfo,
    Intrinsics,
    Tile,
    decode_camera_info,
    picture_intrinsics,
)

K = np.array([[1400.0, 0, 955.5], [0, 1390.0, 548.0], [0, 0, 1]])
FULL = CameraInfo(1920, 1080, "plumb_bob", (0.0,) * 5, K, np.eye(3), np.eye(3, 4))
RAYS = np.array([[-0.4, -0.3], [0.0, 0.0], [0.35, 0.31]])
CORNER = RAYS * K[[0, 1], [0, 1]] + K[:2, 2] + 0.5
"""Where the rays meet the full picture, from the corner of its first pixel."""


def shown(found: Intrinsics | None) -> npt.NDArray[np.float64]:
    assert found is not None
    return RAYS * found.focal_px + found.principal_px


def test_a_picture_of_the_size_told() -> None:
    found = picture_intrinsics(FULL)
    assert np.allclose(shown(found), CORNER)
    assert found is not None
    assert (found.size, found.derived, found.assumed) == ((1920, 1080), "", "")


@pytest.mark.parametrize("size", [(960, 540), (854, 480), (3840, 2160)])
def test_a_scaled_picture(size: tuple[int, int]) -> None:
    found = picture_intrinsics(FULL, size)
    assert np.allclose(shown(found), CORNER * np.array(size) / [1920, 1080])
    assert found is not None
    assert (found.derived, found.assumed) == ("scaled from 1920x1080", "")


def test_region_and_binning_cut_and_bin_the_pixels() -> None:
    """A pixel of the picture is 2 by 3 pixels of the full one, the first beginning at (320, 90)."""
    info = replace(FULL, binning=(2, 3), roi=(320, 90, 1280, 900))
    assert info.picture_size == (640, 300)
    found = picture_intrinsics(info, (640, 300))
    assert np.allclose(shown(found), (CORNER - [320, 90]) / [2, 3])
    assert found is not None
    assert found.derived
    assert found.assumed == ""
    half = picture_intrinsics(info, (320, 150))
    assert np.allclose(shown(half), (CORNER - [320, 90]) / [4, 6])
    whole = picture_intrinsics(info, (1920, 1080))
    assert np.allclose(shown(whole), CORNER), "the region is of another stream of the camera"


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("told", ["whole", "scaled", "tile"])
def test_a_tile_is_a_quarter_of_the_picture(tile: Tile, told: str) -> None:
    column, row = TILES[tile]
    offset = np.array([column * 960, row * 540])
    info = FULL
    if told == "scaled":
        k = np.array([[700.0, 0, 477.5], [0, 695.0, 273.75], [0, 0, 1]])
        info = replace(FULL, width=960, height=540, k=k)
    elif told == "tile":
        k = K.copy()
        k[:2, 2] -= offset
        info = replace(FULL, width=960, height=540, k=k)
    found = picture_intrinsics(info, (960, 540), tile)
    assert np.allclose(shown(found), CORNER - offset)
    assert found is not None
    assert found.assumed == ""


@pytest.mark.parametrize("k", [np.zeros((3, 3)), np.full((3, 3), np.nan), -K])
def test_no_focal_length_no_intrinsics(k: npt.NDArray[np.float64]) -> None:
    assert picture_intrinsics(replace(FULL, k=k), (640, 480)) is None


def decoded(roi: tuple[int, int, int, int], binning: tuple[int, int]) -> CameraInfo:
    x, y, width, height = roi
    message = sensor_msgs.CameraInfo(
        Header(Time(1, 0), "camera_optical"), 1080, 1920, "plumb_bob",
        d=[0.0] * 5, k=K.ravel().tolist(), r=np.eye(3).ravel().tolist(), p=np.eye(3, 4).ravel().tolist(),
        binning_x=binning[0], binning_y=binning[1],
        roi=sensor_msgs.RegionOfInterest(x, y, height, width, do_rectify=True),
    )  # fmt: skip
    return decode_camera_info(message.to_bytes()).datum


def test_region_and_binning_come_from_the_wire() -> None:
    told = decoded((16, 8, 640, 480), (2, 4))
    assert (told.roi, told.binning, told.picture_size) == ((16, 8, 640, 480), (2, 4), (320, 120))
    for roi in ((0, 0, 0, 0), (0, 0, 1920, 1080), (5, 5, 0, 0)):
        plain = decoded(roi, (0, 0))
        assert (plain.roi, plain.binning, plain.picture_size) == (None, (1, 1), (1920, 1080))
