"""Decoded pictures of any origin, brought to RGB only when somebody needs the pixels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import Interpolation, VideoReformatter

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import RawImage

Rgb = npt.NDArray[np.uint8]
"""(height, width, 3) uint8, C-contiguous."""

_BITEXACT = Interpolation.BILINEAR | Interpolation.BITEXACT
_thread = threading.local()


class Picture:
    """One picture: a decoder's frame, an RGB array, or four tiles of a larger picture.

    Safe to read from several threads: a decoder's frame must not be converted on two at once.

    Attributes:
        width: pixels.
        height: pixels.
    """

    def __init__(self, source: av.VideoFrame | Rgb | tuple[Picture, Picture, Picture, Picture]) -> None:
        self._source = source
        self._lock = threading.Lock()
        if isinstance(source, av.VideoFrame):
            self.width, self.height = source.width, source.height
        elif isinstance(source, np.ndarray):
            self.height, self.width = source.shape[:2]
        else:
            self.width, self.height = 2 * source[0].width, 2 * source[0].height

    def rgb(self) -> Rgb:
        """The pixels, (height, width, 3) uint8, C-contiguous; video is converted anew at every call.

        Colour matrix and range are those the stream states; BT.601 and limited range where it is silent,
        as libswscale has it.
        """
        source = self._source
        if isinstance(source, np.ndarray):
            return source
        if isinstance(source, av.VideoFrame):
            with self._lock:
                return _converted(source)
        whole = np.empty((self.height, self.width, 3), np.uint8)
        tile_height, tile_width = self.height // 2, self.width // 2
        for place, tile in enumerate(source):
            top, left = place // 2 * tile_height, place % 2 * tile_width
            whole[top : top + tile_height, left : left + tile_width] = tile.rgb()
        return whole


def _converted(frame: av.VideoFrame) -> Rgb:
    # Preparing a conversion costs as much as converting a picture, so each thread keeps its own.
    reformatter = getattr(_thread, "reformatter", None)
    if reformatter is None:
        reformatter = _thread.reformatter = VideoReformatter()
    converted: av.VideoFrame = reformatter.reformat(frame, format="rgb24", interpolation=_BITEXACT, threads=1)
    return np.ascontiguousarray(converted.to_ndarray(), np.uint8)


def stitch(tl: Picture, tr: Picture, bl: Picture, br: Picture) -> Picture:
    """One picture of twice the width and height from its four quarters.

    Source: camera/h264/tl, tr, bl, br of the device (4K as four tiles with identical stamps).

    Raises:
        DecodeError: the tiles are not of one size.
    """
    sizes = {(tile.width, tile.height) for tile in (tl, tr, bl, br)}
    if len(sizes) > 1:
        found = ", ".join(f"{width}x{height}" for width, height in sorted(sizes))
        raise DecodeError(f"tiles of different sizes: {found}")
    return Picture((tl, tr, bl, br))


def picture_of(image: RawImage) -> Picture:
    """The picture of an uncompressed image.

    8-bit grey, RGB, BGR (8UC3 and 8UC4 are BGR, as OpenCV has them), alpha left out, packed 4:2:2 and NV12
    (BT.601, limited range).

    Source: sensor_msgs/Image, sensor_msgs/image_encodings.hpp.

    Raises:
        DecodeError: an encoding that is no picture, or pixels of another shape than it has.
    """
    layout = _LAYOUTS.get(image.encoding)
    if layout is None:
        raise DecodeError(f"no camera picture: image encoding {image.encoding[:40]}")
    channels, convert = layout
    pixels = image.pixels
    shape = pixels.shape[2:] == (() if channels == 1 else (channels,))
    if pixels.dtype != np.uint8 or not shape or not pixels.size:
        raise DecodeError(f"camera picture of unfit pixels for image encoding {image.encoding}")
    return convert(pixels)


def raw_size(image: RawImage) -> tuple[int, int]:
    """Width and height of an uncompressed image in pixels."""
    rows, columns = image.pixels.shape[:2]
    return columns, rows * 2 // 3 if image.encoding == "nv12" else rows


def _picked(*channels: int) -> Callable[[npt.NDArray[Any]], Picture]:
    return lambda pixels: Picture(np.ascontiguousarray(pixels[:, :, channels]))


def _grey(pixels: npt.NDArray[Any]) -> Picture:
    return Picture(np.repeat(pixels[:, :, None], 3, axis=2))


def _swapped(pixels: npt.NDArray[Any]) -> Picture:
    return _frame("yuyv422")(pixels[:, :, ::-1])


def _frame(name: str) -> Callable[[npt.NDArray[Any]], Picture]:
    def wrap(pixels: npt.NDArray[Any]) -> Picture:
        rows, columns = pixels.shape[:2]
        if columns % 2 or (name == "nv12" and rows % 3):
            raise DecodeError("camera picture of odd size with shared colours")
        return Picture(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=name))

    return wrap


_LAYOUTS: dict[str, tuple[int, Callable[[npt.NDArray[Any]], Picture]]] = {
    "rgb8": (3, _picked(0, 1, 2)),
    "rgba8": (4, _picked(0, 1, 2)),
    "bgr8": (3, _picked(2, 1, 0)),
    "bgra8": (4, _picked(2, 1, 0)),
    "8UC3": (3, _picked(2, 1, 0)),
    "8UC4": (4, _picked(2, 1, 0)),
    "mono8": (1, _grey),
    "8UC1": (1, _grey),
    "yuv422": (2, _swapped),
    "yuv422_yuy2": (2, _frame("yuyv422")),
    "nv12": (1, _frame("nv12")),
}
"""By the encodings that messages/pixels delivers: channels, and how they become a picture."""
