"""Uncompressed images to pictures: colours in every order, grey, shared colours, and Bayer mosaics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import RawImage
from edgefirst_ros.messages.pixels import ENCODINGS
from edgefirst_ros.video.picture import Picture, converted

_Array = npt.NDArray[Any]
_BAYER = "bayer_"
_HALF_HEIGHT = frozenset({"nv12", "nv21", "i420", "yv12"})


def picture_of(image: RawImage, significant_bits: int = 16) -> Picture:
    """The picture of an uncompressed image, 8 bits a channel.

    Grey, RGB, BGR (8UC3, 8UC4, 16UC3 and 16UC4 are BGR, as OpenCV has them), alpha left out, shared colours
    (BT.601, limited range), and Bayer mosaics, whose missing colours libswscale interpolates linearly. Of
    wider samples v becomes round(255 v / (2^bits − 1)), the same for every picture; greater ones are white.

    Source: sensor_msgs/Image, sensor_msgs/image_encodings.hpp.

    Args:
        image: as decoded.
        significant_bits: of samples of encodings that say 16; bayer_rggb12 and the like say it themselves.

    Raises:
        DecodeError: an encoding that is no picture, or pixels of another shape than it has.
    """
    encoding, pixels = image.encoding, image.pixels
    if encoding.startswith(_BAYER):
        order, bits = encoding.removeprefix(_BAYER)[:4], int(encoding.removeprefix(_BAYER)[4:])
        layout: _Layout | None = (1, bits, lambda mosaic: _demosaiced(order, mosaic))
    else:
        layout = _LAYOUTS.get(encoding)
    if layout is None:
        found = f"no camera picture: image encoding {encoding[:40]}"
        raise DecodeError(f"{found}, expected any but 32FC1 of {ENCODINGS}")
    channels, bits, convert = layout
    shape = pixels.shape[2:] == (() if channels == 1 else (channels,))
    if pixels.dtype != (np.uint8 if bits == 8 else np.uint16) or not shape or not pixels.size:
        raise DecodeError(f"camera picture of unfit pixels for image encoding {encoding}")
    return convert(pixels if bits == 8 else _narrowed(pixels, significant_bits if bits == 16 else bits))


def raw_size(image: RawImage) -> tuple[int, int]:
    """Width and height of an uncompressed image in pixels."""
    rows, columns = image.pixels.shape[:2]
    if image.encoding in _HALF_HEIGHT:
        return columns, rows * 2 // 3
    return columns, rows // 3 if image.encoding == "nv24" else rows


def _narrowed(samples: _Array, bits: int) -> npt.NDArray[np.uint8]:
    most = (1 << bits) - 1
    shades = (np.arange(most + 1, dtype=np.uint32) * 255 + most // 2) // most
    return shades.astype(np.uint8)[np.minimum(samples, most)]


def _demosaiced(order: str, mosaic: _Array) -> Picture:
    height, width = mosaic.shape
    if height < 2 or width < 2:
        raise DecodeError("camera picture of a mosaic without all colours")
    # libswscale ends the process at an odd size; a column mirrored has the colours of the pattern.
    whole = np.pad(mosaic, ((0, height % 2), (0, width % 2)), mode="reflect")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(whole), format=f"{_BAYER}{order}8")
    return Picture(np.ascontiguousarray(converted(frame)[:height, :width]))


def _picked(*channels: int) -> Callable[[_Array], Picture]:
    return lambda pixels: Picture(np.ascontiguousarray(pixels[:, :, channels]))


def _grey(pixels: _Array) -> Picture:
    return Picture(np.repeat(pixels[:, :, None], 3, axis=2))


def _swapped(pixels: _Array) -> Picture:
    return _frame("yuyv422")(pixels[:, :, ::-1])


def _frame(name: str) -> Callable[[_Array], Picture]:
    def wrap(pixels: _Array) -> Picture:
        rows, columns = pixels.shape[:2]
        if columns % 2 or (name in {"nv12", "yuv420p"} and rows % 3):
            raise DecodeError("camera picture of odd size with shared colours")
        return Picture(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=name))

    return wrap


def _crossed(pixels: _Array) -> Picture:
    """NV21 as NV12: its colours come the other way round."""
    rows, columns = pixels.shape
    if columns % 2 or rows % 3:
        raise DecodeError("camera picture of odd size with shared colours")
    luma = rows * 2 // 3
    pairs = pixels[luma:].reshape(-1, columns // 2, 2)[:, :, ::-1].reshape(-1, columns)
    return _frame("nv12")(np.concatenate([pixels[:luma], pairs]))


def _exchanged(pixels: _Array) -> Picture:
    """YV12 as I420: its planes of colour come the other way round."""
    rows, columns = pixels.shape
    if columns % 2 or rows % 3:
        raise DecodeError("camera picture of odd size with shared colours")
    first, second = np.split(pixels[rows * 2 // 3 :].reshape(-1), 2)
    colours = np.concatenate([second, first]).reshape(-1, columns)
    return _frame("yuv420p")(np.concatenate([pixels[: rows * 2 // 3], colours]))


def _unshared(pixels: _Array) -> Picture:
    """NV24: every pixel has its own two colours, after all luma."""
    rows, columns = pixels.shape
    if rows % 3:
        raise DecodeError("camera picture whose planes differ in size")
    luma, colours = pixels[: rows // 3], pixels[rows // 3 :].reshape(rows // 3, columns, 2)
    planes = np.stack([luma, colours[:, :, 0], colours[:, :, 1]])
    return Picture(av.VideoFrame.from_ndarray(np.ascontiguousarray(planes), format="yuv444p"))


_Layout = tuple[int, int, Callable[[_Array], Picture]]

_LAYOUTS: dict[str, _Layout] = {
    "rgb8": (3, 8, _picked(0, 1, 2)),
    "rgba8": (4, 8, _picked(0, 1, 2)),
    "bgr8": (3, 8, _picked(2, 1, 0)),
    "bgra8": (4, 8, _picked(2, 1, 0)),
    "rgb16": (3, 16, _picked(0, 1, 2)),
    "rgba16": (4, 16, _picked(0, 1, 2)),
    "bgr16": (3, 16, _picked(2, 1, 0)),
    "bgra16": (4, 16, _picked(2, 1, 0)),
    "8UC3": (3, 8, _picked(2, 1, 0)),
    "8UC4": (4, 8, _picked(2, 1, 0)),
    "16UC3": (3, 16, _picked(2, 1, 0)),
    "16UC4": (4, 16, _picked(2, 1, 0)),
    "mono8": (1, 8, _grey),
    "8UC1": (1, 8, _grey),
    "mono16": (1, 16, _grey),
    "16UC1": (1, 16, _grey),
    "yuv422": (2, 8, _swapped),
    "yuv422_yuy2": (2, 8, _frame("yuyv422")),
    "nv12": (1, 8, _frame("nv12")),
    "nv21": (1, 8, _crossed),
    "nv24": (1, 8, _unshared),
    "i420": (1, 8, _frame("yuv420p")),
    "yv12": (1, 8, _exchanged),
}
"""By the encodings that messages/pixels delivers: channels, bits, and how they become a picture."""
