"""Decoded pictures of any origin, brought to RGB only when somebody needs the pixels."""

from __future__ import annotations

import threading

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import Interpolation, VideoReformatter

from edgefirst_ros.errors import DecodeError

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
                return converted(source)
        whole = np.empty((self.height, self.width, 3), np.uint8)
        tile_height, tile_width = self.height // 2, self.width // 2
        for place, tile in enumerate(source):
            top, left = place // 2 * tile_height, place % 2 * tile_width
            whole[top : top + tile_height, left : left + tile_width] = tile.rgb()
        return whole


def converted(frame: av.VideoFrame) -> Rgb:
    """A frame's pixels as RGB, the same on every machine; not for one frame on two threads at once."""
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
