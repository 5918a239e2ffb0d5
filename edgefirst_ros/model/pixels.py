"""Pixels of uncompressed images in the encodings of sensor_msgs/Image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import sensor_msgs

from edgefirst_ros.model.cdr import array
from edgefirst_ros.model.errors import DecodeError

Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Packed:
    """Interleaved channels: ROS name, element type, channels, and whether pairs of pixels share chroma."""

    name: str
    element: str
    channels: int = 1
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class _Planar:
    """An 8-bit luma plane, then chroma planes; ``halves``: their width and height in halves of the luma's."""

    name: str
    planes: int
    halves: tuple[int, int]


_PACKED = {
    "rgb8": _Packed("rgb8", "u1", 3),
    "bgr8": _Packed("bgr8", "u1", 3),
    "rgba8": _Packed("rgba8", "u1", 4),
    "bgra8": _Packed("bgra8", "u1", 4),
    "rgb16": _Packed("rgb16", "u2", 3),
    "bgr16": _Packed("bgr16", "u2", 3),
    "rgba16": _Packed("rgba16", "u2", 4),
    "bgra16": _Packed("bgra16", "u2", 4),
    "mono8": _Packed("mono8", "u1"),
    "mono16": _Packed("mono16", "u2"),
    "8uc1": _Packed("8UC1", "u1"),
    "8uc3": _Packed("8UC3", "u1", 3),
    "8uc4": _Packed("8UC4", "u1", 4),
    "16uc1": _Packed("16UC1", "u2"),
    "16uc3": _Packed("16UC3", "u2", 3),
    "16uc4": _Packed("16UC4", "u2", 4),
    "32fc1": _Packed("32FC1", "f4"),
    "yuv422": _Packed("yuv422", "u1", 2, pairs=True),
    "uyvy": _Packed("yuv422", "u1", 2, pairs=True),
    "yuv422_yuy2": _Packed("yuv422_yuy2", "u1", 2, pairs=True),
    "yuyv": _Packed("yuv422_yuy2", "u1", 2, pairs=True),
    **{
        f"bayer_{order}{bits}": _Packed(f"bayer_{order}{bits}", "u1" if bits == 8 else "u2")
        for order in ("rggb", "bggr", "gbrg", "grbg")
        for bits in (8, 10, 12, 14, 16)
    },
}
_PLANAR = {
    "nv12": _Planar("nv12", 1, (2, 1)),
    "nv21": _Planar("nv21", 1, (2, 1)),
    "nv24": _Planar("nv24", 1, (4, 2)),
    "i420": _Planar("i420", 2, (1, 1)),
    "yuv420": _Planar("i420", 2, (1, 1)),
    "yv12": _Planar("yv12", 2, (1, 1)),
}
_LAYOUTS: dict[str, _Packed | _Planar] = {**_PACKED, **_PLANAR}
"""Encoding in lower case to layout. Source: sensor_msgs/image_encodings.hpp; drivers add nv12, i420, yv12,
and Bayer patterns of 10 to 14 bits in two bytes."""
_NAMES = sorted({layout.name for layout in _LAYOUTS.values() if not layout.name.startswith("bayer_")})
ENCODINGS = ", ".join(["bayer_(rggb|bggr|gbrg|grbg)(8|10|12|14|16)", *_NAMES])
"""The supported encodings, for error messages."""
_NAME = re.compile(r"[A-Za-z0-9_ .,:;/+-]{0,40}")


def quoted(name: object) -> str:
    """A name from a message in quotes; "that is unreadable" for any that is long or has unusual characters.

    Refused messages are counted by reason, so damaged names must not each give a reason of their own.
    """
    text = str(name)
    return f'"{text}"' if _NAME.fullmatch(text) else "that is unreadable"


def pixels_of(message: sensor_msgs.Image) -> tuple[str, Pixels]:
    """Encoding and pixels of a sensor_msgs/Image, as ``RawImage`` has them; read-only.

    Never allocates more than the message contains, whatever size it declares.

    Raises:
        DecodeError: unknown encoding, no pixels, or size, step and data contradict each other.
    """
    layout = _LAYOUTS.get(str(message.encoding).strip().lower())
    if layout is None:
        raise DecodeError(f"image encoding {quoted(message.encoding)}, expected one of {ENCODINGS}")
    width, height = int(message.width), int(message.height)
    if not width * height:
        raise DecodeError("image without pixels")
    raw = array(message.data, np.uint8)
    if isinstance(layout, _Planar):
        pixels: Pixels = _planar(layout, raw, (height, width), int(message.step))
    else:
        order = ">" if message.is_bigendian else "<"
        pixels = _packed(layout, raw, (height, width), int(message.step), order)
    pixels.flags.writeable = False
    return layout.name, pixels


def _packed(
    layout: _Packed, raw: npt.NDArray[np.uint8], size: tuple[int, int], step: int, order: str
) -> Pixels:
    height, width = size
    if layout.pairs and width % 2:
        raise DecodeError("image of odd size with subsampled chroma")
    dtype, channels = np.dtype(order + layout.element), layout.channels
    row_bytes = width * channels * dtype.itemsize
    _check(raw, step, row_bytes, step * (height - 1) + row_bytes)
    strides = (step, channels * dtype.itemsize, dtype.itemsize)
    strided: npt.NDArray[Any] = np.ndarray((height, width, channels), dtype, raw.data, 0, strides)
    if channels == 1:
        strided = strided[:, :, 0]
    return np.ascontiguousarray(strided, dtype.newbyteorder("="))


def _planar(
    layout: _Planar, raw: npt.NDArray[np.uint8], size: tuple[int, int], step: int
) -> npt.NDArray[np.uint8]:
    """Luma and chroma without row padding, one after the other, in rows of the picture's width."""
    height, width = size
    across, down = layout.halves
    if (width % 2 and across != 4) or (height % 2 and down == 1):
        raise DecodeError("image of odd size with subsampled chroma")
    shapes = [(height, width, step)]
    shapes += [(height * down // 2, width * across // 2, step * across // 2)] * layout.planes
    total = sum(rows * stride for rows, _, stride in shapes)
    padding = shapes[-1][2] - shapes[-1][1]
    _check(raw, step, width, total - padding)
    planes, at = [], 0
    for rows, columns, stride in shapes:
        plane: npt.NDArray[np.uint8] = np.ndarray((rows, columns), np.uint8, raw.data, at, (stride, 1))
        planes.append(plane.reshape(-1))
        at += rows * stride
    return np.concatenate(planes).reshape(-1, width)


def _check(raw: npt.NDArray[np.uint8], step: int, row_bytes: int, total: int) -> None:
    if step < row_bytes:
        raise DecodeError("image rows overlap")
    if len(raw) < total:
        raise DecodeError("image data is shorter than declared")
