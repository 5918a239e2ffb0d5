"""Cameras: video packets, still images and calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Codec = Literal["h264", "h265"]


@dataclass(frozen=True, slots=True)
class VideoPacket:
    """One Annex-B access unit (foxglove_msgs/CompressedVideo)."""

    codec: Codec
    data: bytes


@dataclass(frozen=True, slots=True)
class CompressedImage:
    """An encoded still image (sensor_msgs/CompressedImage); ``format`` is "jpeg" or "png"."""

    format: Literal["jpeg", "png"]
    data: bytes


@dataclass(frozen=True, slots=True)
class RawImage:
    """Uncompressed pixels (sensor_msgs/Image).

    ``pixels`` is (height, width) or (height, width, channels), uint8 or uint16 in native byte
    order; ``encoding`` is the ROS name (rgb8, bgr8, mono8, mono16, 16UC1, ...).
    """

    encoding: str
    pixels: npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CameraInfo:
    """Camera calibration (sensor_msgs/CameraInfo).

    ``k`` is (3, 3), ``r`` (3, 3), ``p`` (3, 4), float64, pixels with pixel-centred origin; ``d`` in the
    order of ``distortion_model``.
    """

    width: int
    height: int
    distortion_model: str
    d: tuple[float, ...]
    k: npt.NDArray[np.float64]
    r: npt.NDArray[np.float64]
    p: npt.NDArray[np.float64]
