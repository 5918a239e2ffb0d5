"""Pictures of any origin, converted and encoded on demand; uncompressed images as pictures.

What a picture looks like, by a few of its pixels: how bright, how rich in contrast, how sharp.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal, cast

import av
import numpy as np
import numpy.typing as npt
import simplejpeg
from av.filter import Graph
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from edgefirst_ros.model.camera import MAX_MM, RawImage, depth_mm
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import encode_gray, encode_rgb
from edgefirst_ros.model.pixels import ENCODINGS
from edgefirst_ros.model.sample import CameraImage, Look, SixteenBits
from edgefirst_ros.model.zlib_backend import crc32

GRID = 128
"""Pixels along the longer side that brightness and contrast are taken from."""
FIELDS = (9, 16)
"""Rows and columns of the fields by which pictures are compared, so that coding noise averages out."""
CROP = 128
"""Pixels along a side of the middle, whose sharpness is the picture's."""
LIT = 24
"""Levels of 255 above which something can be seen: noise of a covered camera stays below."""
DARKEST, BRIGHTEST = 2, 253
"""Levels up to and from which a pixel is clipped; codecs miss 0 and 255 by as much."""


def look_at(luma: npt.NDArray[np.uint8]) -> Look:
    """Measure a picture's luma, (height, width), full range."""
    height, width = luma.shape
    step = max(1, max(height, width) // GRID)
    seen = np.ascontiguousarray(luma[step // 2 :: step, step // 2 :: step])
    top, left = max(0, (height - CROP) // 2), max(0, (width - CROP) // 2)
    middle = luma[top : top + CROP, left : left + CROP].astype(np.int16)
    steps = np.abs(np.diff(middle, axis=1))
    return Look(
        luminance=round(float(seen.mean()), 2),
        contrast=round(float(seen.std()), 2),
        sharpness=round(float(steps.mean()), 3) if steps.size else 0.0,
        clipped=round(float(((seen <= DARKEST) | (seen >= BRIGHTEST)).mean()), 4),
        lit=round(float((seen > LIT).mean()), 4),
        fingerprint=crc32(seen),
        thumb=_thumb(seen),
    )


def _thumb(seen: npt.NDArray[np.uint8]) -> bytes:
    rows, columns = (size // fields for size, fields in zip(seen.shape, FIELDS, strict=True))
    if not rows or not columns:
        return b""
    fields = seen[: rows * FIELDS[0], : columns * FIELDS[1]].reshape(FIELDS[0], rows, FIELDS[1], columns)
    return bytes(fields.mean(axis=(1, 3)).astype(np.uint8).tobytes())


def look_at_jpeg(data: bytes) -> Look | None:
    """Measure a JPEG by the mean of each block of 8 pixels; None if it is not of the common kind."""
    try:
        blocks = simplejpeg.decode_jpeg(data, "GRAY", fastdct=True, min_height=1, min_width=1)
    except ValueError:
        return None
    return look_at(blocks[:, :, 0])


Rgb = npt.NDArray[np.uint8]
"""(height, width, 3) uint8, C-contiguous."""

Planes = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]
"""Y (height, width) and Cb and Cr (height / 2, width / 2) as JPEG has them: BT.601, full range."""

_MATRICES = {1: "bt709", 2: "bt470bg", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 9: "bt2020nc"}
"""libavfilter's name by AVColorSpace; a stream that does not state its matrix (2) is taken as BT.601."""
_OF_JPEG = frozenset({"bt470bg", "smpte170m"})
_FULL_RANGE = {"yuv420p": False, "yuvj420p": True}
"""Formats whose planes a JPEG takes, and whether their range is full if the stream does not state it."""
_TO_JPEG = "space=bt470bg:range=pc:format=yuv420p:iprimaries=bt709:primaries=bt709:itrc=bt709:trc=bt709"
"""Primaries and transfer are called the same on both sides, so that they stay as they are."""
_BITEXACT = Interpolation.BILINEAR | Interpolation.BITEXACT
_thread = threading.local()
_Array = npt.NDArray[Any]
_BAYER = "bayer_"
_GRAY = frozenset({"mono16", "16UC1"})
_DEEP = {
    "as_sent": (_GRAY, "gray of 16 bits"),
    "depth": (_GRAY | {"32FC1"}, "depth: 16UC1 or mono16 in millimetres, or 32FC1 in metres"),
}
"""By what is kept: encodings that have it, and what they are called."""
DEPTH_TEXT = {"Quantity": "depth along the optical axis", "Unit": "mm", "Unknown": "0"}
"""Texts in the PNG, which say its scale wherever the file goes."""
_HALF_HEIGHT = frozenset({"nv12", "nv21", "i420", "yv12"})


class Picture:
    """A picture: a decoded frame of video, an RGB array, or four tiles.

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

    def planes(self) -> Planes | None:
        """The planes of a JPEG of it, without a detour over RGB; converted anew at every call.

        None if it is no video of 8 bits and 4:2:0, or of an odd size or a colour matrix that is not known.
        Matrix and range as in ``rgb``.
        """
        source = self._source
        if isinstance(source, av.VideoFrame):
            with self._lock:
                return _jpeg_planes(source)
        if isinstance(source, np.ndarray):
            return None
        tiles = [tile.planes() for tile in source]
        known = [planes for planes in tiles if planes is not None]
        if len(known) < len(tiles):
            return None
        luma, blue, red = (np.block([[tl, tr], [bl, br]]) for tl, tr, bl, br in zip(*known, strict=True))
        return luma, blue, red


def _jpeg_planes(frame: av.VideoFrame) -> Planes | None:
    """A frame's planes as JPEG has them, bit-exact on every machine; None as in ``Picture.planes``."""
    matrix, is_full = _MATRICES.get(int(frame.colorspace)), _FULL_RANGE.get(frame.format.name)
    if matrix is None or is_full is None or frame.width % 2 or frame.height % 2:
        return None
    if frame.color_range != ColorRange.UNSPECIFIED:
        is_full = frame.color_range == ColorRange.JPEG
    if is_full and matrix in _OF_JPEG:
        return _planes(frame)
    if frame.format.name != "yuv420p":
        # The same samples under the name that the filter takes.
        frame = _reformatter().reformat(frame, format="yuv420p", dst_color_range=ColorRange.JPEG)
    frames = f"video_size={frame.width}x{frame.height}:pix_fmt=yuv420p:time_base=1/1000"
    frames += f":colorspace={int(frame.colorspace)}:range={int(frame.color_range)}"
    conversion = f"ispace={matrix}:irange={'pc' if is_full else 'tv'}:{_TO_JPEG}"
    made_for, graph = getattr(_thread, "graph", ("", None))
    if made_for != frames + conversion or graph is None:
        graph = _graph(frames, conversion)
        _thread.graph = frames + conversion, graph
    graph.push(frame)
    return _planes(cast("av.VideoFrame", graph.pull()))


def _planes(frame: av.VideoFrame) -> Planes:
    luma, blue, red = (
        np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        for plane in frame.planes
    )
    return luma, blue, red


def _graph(frames: str, conversion: str) -> Graph:
    """Converts frames; libswscale takes 4 to 10 times as long for that, and biases chroma."""
    graph = Graph()
    graph.threads = 1
    source, sink = graph.add("buffer", frames), graph.add("buffersink")
    convert = graph.add("colorspace", conversion)
    source.link_to(convert)
    convert.link_to(sink)
    graph.configure()
    return graph


def _reformatter() -> VideoReformatter:
    """Preparing a conversion costs as much as converting a picture, so each thread keeps its own."""
    reformatter: VideoReformatter | None = getattr(_thread, "reformatter", None)
    if reformatter is None:
        reformatter = _thread.reformatter = VideoReformatter()
    return reformatter


def _converted(frame: av.VideoFrame) -> Rgb:
    """A frame as RGB, bit-exact on every machine. A frame must not be converted on two threads at once."""
    rgb = _reformatter().reformat(frame, format="rgb24", interpolation=_BITEXACT, threads=1)
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
    planes = picture.planes() if format == "jpeg" else None
    if planes is not None:
        look, data = look_at(planes[0]), simplejpeg.encode_jpeg_yuv_planes(*planes, quality, fastdct=False)
    else:
        rgb = picture.rgb()
        look = look_at(rgb[:, :, 1])  # green is most of luma
        is_jpeg = format == "jpeg"
        data = (
            simplejpeg.encode_jpeg(rgb, quality, "RGB", "420", fastdct=False) if is_jpeg else encode_rgb(rgb)
        )
    return CameraImage(format, bytes(data), picture.width, picture.height, look)


def encode_deep(image: RawImage, values: SixteenBits) -> CameraImage:
    """A gray picture as PNG of 16 bits, with its values as they are, or depth in millimetres.

    Of depth, 0 is what was not measured: NaN and infinity, too. Nobody looks at such pictures.

    Raises:
        DecodeError: it has other pixels.
    """
    encodings, wanted = _DEEP[values]
    if image.encoding not in encodings or image.pixels.ndim != 2:
        raise DecodeError(
            f"sixteen_bits is {values}, but image encoding {image.encoding[:40]} is not {wanted}"
        )
    height, width = image.pixels.shape
    png = encode_gray(depth_mm(image, infinite_mm=0), DEPTH_TEXT if values == "depth" else None)
    return CameraImage("png", png, width, height, values=values)


def beyond_depth(image: RawImage) -> int:
    """How many pixels of depth in metres are farther than 16 bits of millimetres say."""
    if image.pixels.dtype != np.float32:
        return 0
    far = np.isfinite(image.pixels) & (image.pixels >= (MAX_MM + 0.5) / 1000)
    return int(np.count_nonzero(far))


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


def has_open_depth(image: RawImage) -> bool:
    """Whether the encoding leaves open how many bits of a sample are in use; bayer_rggb12 does not."""
    return image.pixels.dtype == np.uint16 and not image.encoding.endswith(("10", "12", "14"))


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
        return Picture(_converted(av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=name)))

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
    return Picture(_converted(av.VideoFrame.from_ndarray(np.ascontiguousarray(planes), format="yuv444p")))


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
