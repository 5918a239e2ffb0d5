"""Depth and reflectivity images in the format's units."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import simplejpeg

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import RawImage

MAX_MM = 0xFFFF


def depth_mm(image: RawImage) -> npt.NDArray[np.uint16]:
    """Depth in millimetres (height, width); 0 is unknown, 65535 is 65.535 m or more.

    16-bit images are in millimetres, float images in metres, where NaN is unknown. Source: REP 118.

    Raises:
        DecodeError: the image has another type.
    """
    pixels = _single_channel(image)
    if pixels.dtype == np.uint16:
        return pixels.astype(np.uint16, copy=False)
    if pixels.dtype == np.float32:
        millimetres = np.nan_to_num(pixels.astype(np.float64) * 1000.0, nan=0.0, posinf=MAX_MM, neginf=0.0)
        return np.rint(millimetres).clip(0, MAX_MM).astype(np.uint16)
    raise DecodeError(f"depth image of encoding {image.encoding}")


def reflectivity(image: RawImage) -> npt.NDArray[np.uint8]:
    """Reflectivity 0 to 255 (height, width).

    Raises:
        DecodeError: the image is not 8-bit gray.
    """
    pixels = _single_channel(image)
    if pixels.dtype != np.uint8:
        raise DecodeError(f"reflectivity image of encoding {image.encoding}")
    return pixels.astype(np.uint8, copy=False)


def encode_gray_jpeg(pixels: npt.NDArray[np.uint8], quality: int) -> bytes:
    """Encode pixels (height, width) as a gray JPEG.

    Raises:
        DecodeError: the image has no pixels.
    """
    if not pixels.size:
        raise DecodeError("image without pixels")
    gray = np.ascontiguousarray(pixels)[:, :, np.newaxis]
    return bytes(simplejpeg.encode_jpeg(gray, quality=quality, colorspace="GRAY", colorsubsampling="Gray"))


def _single_channel(image: RawImage) -> npt.NDArray[np.generic]:
    pixels = image.pixels
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        return pixels[:, :, 0]
    if pixels.ndim != 2:
        raise DecodeError(f"image of encoding {image.encoding} where one channel is expected")
    return pixels
