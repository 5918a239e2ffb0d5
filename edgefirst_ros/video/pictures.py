"""Pictures of any origin, converted to RGB and encoded on demand; uncompressed images as pictures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import av
import numpy as np
import numpy.typing as npt
import simplejpeg
from av.video.reformatter import Interpolation, VideoReformatter

from edgefirst_ros.codecs.png import encode_rgb
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import RawImage
from edgefirst_ros.messages.pixels import ENCODINGS
from edgefirst_ros.sample import CameraImage

Rgb = npt.NDArray[np.uint8]
"""(height, width, 3) uint8, C-contiguous."""

_BITEXACT = Interpolation.BILINEAR | Interpolation.BITEXACT
_thread = threading.local()
_Array = npt.NDArray[Any]
_BAYER = "bayer_"
_HALF_HEIGHT = frozenset({"nv12", "nv21", "i420", "yv12"})


class Picture:
    """A picture: a decoded frame, an RGB array, or four tiles.

    Safe to use from several threads.

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

        Colour matrix and range are the stream's; BT.601 and limited range if it does not state them.
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
    """A frame as RGB, bit-exact on every machine. A frame must not be converted on two threads at once."""
    # Preparing a conversion costs as much as converting a picture, so each thread keeps its own.
    reformatter = getattr(_thread, "reformatter", None)
    if reformatter is None:
        reformatter = _thread.reformatter = VideoReformatter()
    rgb: av.VideoFrame = reformatter.reformat(frame, format="rgb24", interpolation=_BITEXACT, threads=1)
    return np.ascontiguousarray(rgb.to_ndarray(), np.uint8)


def stitch(tl: Picture, tr: Picture, bl: Picture, br: Picture) -> Picture:
    """One picture from its four quarters.

    Source: camera/h264/tl, tr, bl, br of the device (4K as four tiles with identical stamps).

    Raises:
        DecodeError: the tiles are not of one size.
    """
    sizes = {(tile.width, tile.height) for tile in (tl, tr, bl, br)}
    if len(sizes) > 1:
        found = ", ".join(f"{width}x{height}" for width, height in sorted(sizes))
        raise DecodeError(f"tiles of different sizes: {found}")
    return Picture((tl, tr, bl, br))


def encode(picture: Picture, format: Literal["jpeg", "png"], quality: int = 90) -> CameraImage:  # noqa: A002 the dataset's word for it
    """Encode a picture; releases the GIL.

    Args:
        picture: what to encode.
        format: "jpeg" is baseline JFIF, 4:2:0; "png" is lossless, 8-bit RGB.
        quality: of JPEG, 1 to 100.
    """
    rgb = picture.rgb()
    if format == "jpeg":
        data = simplejpeg.encode_jpeg(rgb, quality, "RGB", "420", fastdct=False)
    else:
        data = encode_rgb(rgb)
    return CameraImage(format, bytes(data), picture.width, picture.height)


def picture_of(image: RawImage, significant_bits: int = 16) -> Picture:
    """The picture of an uncompressed image, 8 bits a channel.

    Gray, RGB, BGR (8UC3, 8UC4, 16UC3 and 16UC4 are BGR, as in OpenCV), without alpha; chroma-subsampled YUV
    (BT.601, limited range); Bayer mosaics, interpolated linearly by libswscale. A wider sample v becomes
    round(255 v / (2^bits − 1)), at most 255.

    Source: sensor_msgs/Image, sensor_msgs/image_encodings.hpp.

    Args:
        image: as decoded.
        significant_bits: of the samples of a 16-bit encoding; bayer_rggb12 and the like name their own.

    Raises:
        DecodeError: the encoding is no picture's, or the pixels do not have its shape.
    """
    encoding, pixels = image.encoding, image.pixels
    if encoding.startswith(_BAYER):
        order, bits = encoding.removeprefix(_BAYER)[:4], int(encoding.removeprefix(_BAYER)[4:])
        layout: _Layout | None = (1, bits, lambda mosaic: _demosaiced(order, mosaic))
    else:
        layout = _LAYOUTS.get(encoding)
    if layout is None:
        found = f"not a camera picture: image encoding {encoding[:40]}"
        raise DecodeError(f"{found}, expected one of {ENCODINGS}, but not 32FC1")
    channels, bits, convert = layout
    shape = pixels.shape[2:] == (() if channels == 1 else (channels,))
    if pixels.dtype != (np.uint8 if bits == 8 else np.uint16) or not shape or not pixels.size:
        raise DecodeError(f"camera picture whose pixels do not match image encoding {encoding}")
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
        raise DecodeError("camera picture: Bayer mosaic smaller than 2x2 pixels")
    # libswscale ends the process at an odd size; a column mirrored has the colours of the pattern.
    whole = np.pad(mosaic, ((0, height % 2), (0, width % 2)), mode="reflect")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(whole), format=f"{_BAYER}{order}8")
    return Picture(np.ascontiguousarray(_converted(frame)[:height, :width]))


def _picked(*channels: int) -> Callable[[_Array], Picture]:
    return lambda pixels: Picture(np.ascontiguousarray(pixels[:, :, channels]))


def _gray(pixels: _Array) -> Picture:
    return Picture(np.repeat(pixels[:, :, None], 3, axis=2))


def _frame(name: str) -> Callable[[_Array], Picture]:
    def wrap(pixels: _Array) -> Picture:
        rows, columns = pixels.shape[:2]
        if columns % 2 or (name in {"nv12", "yuv420p"} and rows % 3):
            raise DecodeError("camera picture of odd size with subsampled chroma")
        return Picture(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=name))

    return wrap


def _nv21(pixels: _Array) -> Picture:
    """NV21, as NV12 by swapping U and V."""
    rows, columns = pixels.shape
    if columns % 2 or rows % 3:
        raise DecodeError("camera picture of odd size with subsampled chroma")
    luma = rows * 2 // 3
    pairs = pixels[luma:].reshape(-1, columns // 2, 2)[:, :, ::-1].reshape(-1, columns)
    return _frame("nv12")(np.concatenate([pixels[:luma], pairs]))


def _yv12(pixels: _Array) -> Picture:
    """YV12, as I420 by swapping the U and V planes."""
    rows, columns = pixels.shape
    if columns % 2 or rows % 3:
        raise DecodeError("camera picture of odd size with subsampled chroma")
    first, second = np.split(pixels[rows * 2 // 3 :].reshape(-1), 2)
    colours = np.concatenate([second, first]).reshape(-1, columns)
    return _frame("yuv420p")(np.concatenate([pixels[: rows * 2 // 3], colours]))


def _nv24(pixels: _Array) -> Picture:
    """NV24: all luma, then U and V of every pixel."""
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
    "mono8": (1, 8, _gray),
    "8UC1": (1, 8, _gray),
    "mono16": (1, 16, _gray),
    "16UC1": (1, 16, _gray),
    "yuv422": (2, 8, lambda pixels: _frame("yuyv422")(pixels[:, :, ::-1])),
    "yuv422_yuy2": (2, 8, _frame("yuyv422")),
    "nv12": (1, 8, _frame("nv12")),
    "nv21": (1, 8, _nv21),
    "nv24": (1, 8, _nv24),
    "i420": (1, 8, _frame("yuv420p")),
    "yv12": (1, 8, _yv12),
}
"""By encoding as ``messages.pixels`` returns it: channels, bits, and the conversion to a picture."""
