"""Decoded pictures of any origin, brought to RGB only when somebody needs the pixels."""

from __future__ import annotations

import threading

import av
import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import RawImage

Rgb = npt.NDArray[np.uint8]
"""(height, width, 3) uint8, C-contiguous."""


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
        """The pixels, (height, width, 3) uint8, C-contiguous; converted anew at every call."""
        source = self._source
        if isinstance(source, np.ndarray):
            return source
        if isinstance(source, av.VideoFrame):
            with self._lock:
                return np.ascontiguousarray(source.to_ndarray(format="rgb24"))
        whole = np.empty((self.height, self.width, 3), np.uint8)
        tile_height, tile_width = self.height // 2, self.width // 2
        for place, tile in enumerate(source):
            top, left = place // 2 * tile_height, place % 2 * tile_width
            whole[top : top + tile_height, left : left + tile_width] = tile.rgb()
        return whole


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
    """The picture of an uncompressed image message."""
    raise NotImplementedError(image.encoding)
