"""What decodes the files of a sample: one table for datasets and their check, which thus cannot disagree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.formats.edgefirst.read.pcd import read_pcd
from edgefirst_ros.formats.edgefirst.read.pictures import decode_gray, decode_rgb, taken_ns
from edgefirst_ros.messages.radar import Axis

Axes = dict[str, npt.NDArray[np.float64]]


def decode_cube(data: bytes) -> tuple[npt.NDArray[np.complex64] | npt.NDArray[np.float32], Axes]:
    """A radar.png as an array with the axes of the message, and the place of each bin on each axis.

    Range bins begin at the radar; the middle Doppler bin (number bins ÷ 2) has speed 0, positive is receding.
    Bins of other axes are counted from 0. Where the file does not say how large a bin is, places are NaN.

    Raises:
        DecodeError: it is neither a radar.png of this package nor one of the vendor's layout.
    """
    found = read_cube(data)
    values = found.cube.astype(np.float32)
    array = values.view(np.complex64) if found.is_complex else values
    axes: Axes = {}
    for axis, bins, scale in zip(found.layout, array.shape, found.scales, strict=True):
        name, first = axis.name.lower(), bins // 2 if axis is Axis.DOPPLER else 0
        if name in axes:
            name = f"{name}_{len(axes)}"
        axes[name] = (np.arange(bins) - first) * (scale if axis in {Axis.RANGE, Axis.DOPPLER} else 1.0)
    return array, axes


CAMERA = ("camera.jpeg", "camera.png", "camera.jpg", "jpeg", "jpg", "png")
"""The files of which a sample has one for its picture."""
DECODERS: Mapping[str, tuple[tuple[str, ...], Callable[[bytes], Any]]] = {
    "time_ns": (CAMERA, taken_ns),
    "image": (CAMERA, decode_rgb),
    "lidar": (("lidar.pcd",), read_pcd),
    "radar": (("radar.pcd",), read_pcd),
    "cube": (("radar.png",), decode_cube),
    "depth": (("depth.png",), decode_gray),
    "lidar_depth": (("lidar.png",), decode_gray),
    "lidar_reflect": (("lidar.jpeg",), decode_gray),
}
"""By key, the files that it is in and what decodes them."""
