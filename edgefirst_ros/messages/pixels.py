"""Uncompressed images: what an encoding's name says about its bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import sensor_msgs

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import array

_Pixels = npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | npt.NDArray[np.float32]

_LAYOUTS: dict[str, tuple[str, str, int]] = {
    "rgb8": ("rgb8", "u1", 3),
    "bgr8": ("bgr8", "u1", 3),
    "rgba8": ("rgba8", "u1", 4),
    "bgra8": ("bgra8", "u1", 4),
    "mono8": ("mono8", "u1", 1),
    "mono16": ("mono16", "u2", 1),
    "8uc1": ("8UC1", "u1", 1),
    "8uc3": ("8UC3", "u1", 3),
    "8uc4": ("8UC4", "u1", 4),
    "16uc1": ("16UC1", "u2", 1),
    "32fc1": ("32FC1", "f4", 1),
    "yuv422": ("yuv422", "u1", 2),
    "uyvy": ("yuv422", "u1", 2),
    "yuv422_yuy2": ("yuv422_yuy2", "u1", 2),
    "yuyv": ("yuv422_yuy2", "u1", 2),
    "nv12": ("nv12", "u1", 1),
}
"""Spelling on the wire in lower case → name, element, channels (sensor_msgs/image_encodings.hpp)."""
_NAME = re.compile(r"[A-Za-z0-9_ .,:;/+-]{0,40}")


def quoted(name: object) -> str:
    """A name from a message, fit for a reason that is counted: short, and one for all that is no name."""
    text = str(name)
    return f'"{text}"' if _NAME.fullmatch(text) else "that is unreadable"


def pixels_of(message: sensor_msgs.Image) -> tuple[str, _Pixels]:
    """Encoding and pixels of a sensor_msgs/Image, contiguous and in native byte order.

    Raises:
        DecodeError: the encoding is not known, or size, step and data disagree.
    """
    layout = _LAYOUTS.get(str(message.encoding).strip().lower())
    if layout is None:
        raise DecodeError(f"image encoding {quoted(message.encoding)}")
    encoding, element, channels = layout
    width, height, step = int(message.width), int(message.height), int(message.step)
    if not width * height:
        raise DecodeError("image without pixels")
    planar = encoding == "nv12"
    if (width % 2 and (channels == 2 or planar)) or (height % 2 and planar):
        raise DecodeError("image of odd size with shared colours")
    rows = height * 3 // 2 if planar else height
    dtype = np.dtype((">" if message.is_bigendian else "<") + element)
    row_bytes = width * channels * dtype.itemsize
    if step < row_bytes:
        raise DecodeError("image rows overlap")
    raw = array(message.data, np.uint8)
    if len(raw) < step * (rows - 1) + row_bytes:
        raise DecodeError("image data is shorter than declared")
    shape, strides = (rows, width, channels), (step, channels * dtype.itemsize, dtype.itemsize)
    strided: npt.NDArray[Any] = np.ndarray(shape, dtype, raw.data, 0, strides)
    if channels == 1:
        strided = strided[:, :, 0]
    pixels: _Pixels = np.ascontiguousarray(strided, dtype.newbyteorder("="))
    pixels.flags.writeable = False
    return encoding, pixels
