"""JPEG and PNG of others, whose sizes are looked at before memory is taken for their pixels.

PNG is read and written here, many times faster than libraries do; compressed images become pixels: PNG of 16
bits, and depth of compressed_depth_image_transport.

Source: PNG third edition, clauses 5, 11.2 and 11.3.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, cast
from warnings import catch_warnings

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image, UnidentifiedImageError

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pixels import Pixels, quoted
from edgefirst_ros.model.zlib_backend import compress, crc32

if TYPE_CHECKING:
    import av


SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, RGB = 0, 2

_HEADER = struct.Struct(">IIBBBBB")
_FRAME_BYTES = 12
MOST_CHUNKS = 100_000
"""Of a picture; encoders write its pixels in pieces of 8 KiB and more."""
_FILTER_NONE, _FILTER_UP = 0, 2

GrayPixels = npt.NDArray[np.bool_] | npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


class PngHeader(NamedTuple):
    """Size in pixels, bits per sample and colour type."""

    width: int
    height: int
    depth: int
    colour: int


def read_header(data: bytes) -> PngHeader | None:
    """The header of a PNG; None if the data does not begin with one. Its checksum is not verified."""
    begin = len(SIGNATURE) + 8
    if not data.startswith(SIGNATURE) or len(data) < begin + 10:
        return None
    return PngHeader(*struct.unpack_from(">IIBB", data, begin))


def chunk(kind: bytes, data: bytes) -> bytes:
    """One PNG chunk: length, type, data, CRC over type and data."""
    return len(data).to_bytes(4, "big") + kind + data + crc32(data, crc32(kind)).to_bytes(4, "big")


def chunks(data: bytes, *, verify: bool = True) -> Iterator[tuple[bytes, int, int]]:
    """Type of every chunk up to IEND, and the offsets at which its data start and end.

    Args:
        data: the file; bytes after IEND are ignored.
        verify: whether to verify checksums.

    Raises:
        DecodeError: no PNG signature, a wrong checksum, too many chunks, or the file ends before IEND.
    """
    if not data.startswith(SIGNATURE):
        raise DecodeError("not a PNG")
    at, kind, view, count = len(SIGNATURE), b"", memoryview(data), 0
    while kind != b"IEND":
        count += 1
        if count > MOST_CHUNKS:
            raise DecodeError(f"PNG of more than {MOST_CHUNKS:,} chunks")
        if at + _FRAME_BYTES > len(data):
            raise DecodeError("PNG ends before its IEND")
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            raise DecodeError(f"PNG ends inside {kind!r}")
        if verify and crc32(view[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise DecodeError(f"PNG chunk {kind!r} is damaged")
        yield kind, at + 8, end
        at = end + 4


def encode_rgb(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encode pixels (height, width, 3) as an 8-bit RGB PNG.

    Raises:
        DecodeError: there are no pixels, which PNG cannot express.
    """
    height, width = pixels.shape[:2]
    flat = pixels.reshape(height, 3 * width)
    rows = np.empty((height, 1 + 3 * width), np.uint8)
    # Adjacent rows are similar: their difference compresses far better than the pixels, and is quick to make.
    rows[:, 0] = _FILTER_UP
    rows[:1, 1:] = flat[:1]
    np.subtract(flat[1:], flat[:-1], out=rows[1:, 1:])
    return _file(PngHeader(width, height, 8, RGB), rows, {})


def encode_gray(pixels: GrayPixels, text: Mapping[str, str] | None = None) -> bytes:
    """Encode pixels as a gray PNG with unfiltered rows, as filters do not help against sensor noise.

    Args:
        pixels: (height, width); bool is written with 1 bit, uint8 with 8 bits, uint16 with 16 bits.
        text: tEXt chunks before the image data, by keyword (1 to 79 characters); Latin-1.

    Raises:
        DecodeError: there are no pixels, which PNG cannot express.
    """
    height, width = pixels.shape
    depth, packed = _packed(pixels)
    rows = np.empty((height, 1 + packed.shape[1]), np.uint8)
    rows[:, 0] = _FILTER_NONE
    rows[:, 1:] = packed
    return _file(PngHeader(width, height, depth, GRAY), rows, text or {})


def _packed(pixels: GrayPixels) -> tuple[int, npt.NDArray[np.uint8]]:
    if pixels.dtype == np.bool_:
        return 1, np.packbits(pixels, axis=1)
    if pixels.dtype == np.uint8:
        return 8, pixels.astype(np.uint8, copy=False)
    big_endian = np.ascontiguousarray(pixels, ">u2").view(np.uint8)
    return 16, big_endian.reshape(len(pixels), 2 * pixels.shape[1])


def _file(header: PngHeader, rows: npt.NDArray[np.uint8], text: Mapping[str, str]) -> bytes:
    if not header.width or not header.height:
        raise DecodeError("image without pixels")
    parts = [SIGNATURE, chunk(b"IHDR", _HEADER.pack(*header, 0, 0, 0))]
    for keyword, value in text.items():
        parts.append(chunk(b"tEXt", keyword.encode("latin-1") + b"\0" + value.encode("latin-1")))
    parts += [chunk(b"IDAT", compress(rows.data.cast("B"))), chunk(b"IEND", b"")]
    return b"".join(parts)


JPEG = b"\xff\xd8"
MOST_PIXELS = 48 << 20
"""Of a picture: 8000 x 6000 and 8K fit, and its pixels take less than half a gigabyte while it is decoded."""
SOS = 0xDA
"""Marker that begins a scan of a JPEG."""
_SCAN = b"\xff\xda"
_FRAMES = frozenset({*range(0xC0, 0xD0)}) - {0xC4, 0xC8, 0xCC}
_MARKER = re.compile(rb"\xff++(.)", re.DOTALL)
_BARE = frozenset({0x00, 0x01, *range(0xD0, 0xDA)})
"""Markers without a length, and a zero, which makes a byte of data of what looks like one."""
_MOST_STEPS = 1 << 16
"""Of a JPEG's header: segments, and bytes between them, of which there may be any number. Pillow goes over
them one by one: a megabyte, which packs to a kilobyte, takes half a second."""
_LONGEST_HEADER = 1 << 24
"""Bytes of a JPEG's header: a colour profile of the greatest size fits. Pillow puts the segments of an Exif
together by copying what it has each time: 40 MB of them take four seconds."""
_MOST_SCANNED = 1 << 29
"""Pixels times scans of a JPEG: each scan of a progressive one goes over all pixels, however short it is."""


def check_size(width: int, height: int, most: int = MOST_PIXELS) -> None:
    """Refuse a picture that would take all memory.

    Raises:
        DecodeError: it has more pixels than any camera.
    """
    if width * height > most:
        raise DecodeError(f"a picture of {width} x {height} pixels, more than {most:,}")


def check_header(data: bytes) -> None:
    """Refuse what is no picture of plausible size, by its header.

    Raises:
        DecodeError: it is neither a JPEG nor a PNG, is damaged, or has more pixels than any camera.
    """
    if data.startswith(JPEG):
        try:
            height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        except ValueError as error:
            raise DecodeError("JPEG is damaged or cut short") from error
        check_size(width, height)
        check_size(width, height * max(1, data.count(_SCAN)), _MOST_SCANNED)
        for _ in jpeg_segments(data):
            pass
    elif (header := read_header(data)) is not None:
        check_size(header.width, header.height)
        _check_chunks(data)
    else:
        raise DecodeError("it is neither a JPEG nor a PNG")


def open_picture(data: bytes) -> Image.Image:
    """A JPEG or PNG of plausible size, not decoded yet; Pillow may warn of its EXIF.

    Raises:
        DecodeError: see ``check_header``.
        OSError: it is damaged.
    """
    check_header(data)
    return Image.open(BytesIO(data), formats=("JPEG", "PNG"))


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Marker of each segment of a JPEG's header, and the offsets at which it starts and ends.

    The header of the first scan is the last; there is none if the data end before it, or something else than
    fill bytes lies between two segments.

    Raises:
        DecodeError: the header takes more steps than any.
    """
    at, steps = len(JPEG), 0
    while (found := _MARKER.match(data, at)) is not None:
        start, marker = found.end() - 2, found[1][0]
        steps += 1 + start - at
        if steps > _MOST_STEPS or start > _LONGEST_HEADER:
            raise DecodeError("JPEG whose header has no end")
        at = found.end()
        if marker not in _BARE:
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
            yield marker, start, at
        if marker == SOS:
            return


def _check_chunks(data: bytes) -> None:
    """Refuse a PNG of more chunks than any has; of other damage its reader tells."""
    count = 0
    try:
        for _ in chunks(data, verify=False):
            count += 1
    except DecodeError:
        if count >= MOST_CHUNKS:
            raise


_DEPTH_HEADER = struct.Struct("<iff")
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Channels by PNG colour type of 16-bit images, which have no palette."""
_FORMATS = {1: "gray16le", 2: "ya16le", 3: "rgb48le", 4: "rgba64le"}
_DEFLATE_MOST = 1032
"""The highest compression ratio of deflate."""
_MOST_PIXELS = 1 << 25
_LONGEST_NUMBER = 10


_BY_PILLOW = ("JPEG", "PNG", "WEBP", "TIFF", "AVIF")
_MOSAIC = re.compile("bayer_(rggb|bggr|gbrg|grbg)")


def is_plain(data: bytes, encoding: str) -> bool:
    """Whether a JPEG or PNG can be written as it is: no other file can, nor CMYK, nor a mosaic of colours.

    Args:
        data: the file.
        encoding: what its pixels are, as the message says.
    """
    if data.startswith(SIGNATURE):
        channels = 1 if (header := read_header(data)) is not None and header.colour == GRAY else 3
    elif data.startswith(JPEG):
        frames = (start for marker, start, _ in jpeg_segments(data) if marker in _FRAMES)
        channels = next((data[start + 9] for start in frames if len(data) > start + 9), 3)
    else:
        return False
    return channels == 3 or (channels == 1 and not _MOSAIC.match(encoding))


def unpacked(data: bytes, encoding: str) -> tuple[str, Pixels]:
    """ROS encoding and pixels of a picture that Pillow reads.

    Args:
        data: the file, which is not ``is_plain``.
        encoding: as there.

    Raises:
        DecodeError: it is none, is damaged, or has more pixels than any camera.
    """
    Image.init()  # AVIF is read by versions of Pillow that have it
    formats = [each for each in _BY_PILLOW if each in Image.OPEN]
    try:
        with catch_warnings(action="ignore"), Image.open(BytesIO(data), formats=formats) as opened:
            check_size(*opened.size)
            mode = opened.mode
            is_gray = mode in {"1", "L", "I;16", "I;16B"}
            plain = opened if is_gray and mode != "1" else opened.convert("L" if is_gray else "RGB")
            pixels = np.asarray(plain)
    except UnidentifiedImageError as error:
        raise DecodeError(f"it is none of {', '.join(formats)}; its format is {quoted(encoding)}") from error
    except DecodeError:
        raise
    except Exception as error:  # what Pillow raises on foreign bytes
        raise DecodeError("picture is damaged or cut short") from error
    if mode in {"F", "I"}:
        raise DecodeError("picture whose values have more than 16 bits")
    if not is_gray:
        return "rgb8", pixels
    bits = 8 * pixels.itemsize
    found = _MOSAIC.match(encoding)
    return f"{found[0]}{bits}" if found else f"mono{bits}", np.ascontiguousarray(pixels, f"=u{bits // 8}")


def png_bits(data: bytes) -> int:
    """Bits per sample by the header of a PNG; 0 if it is not a PNG."""
    header = read_header(data)
    return 0 if header is None else header.depth


def deep_png(data: bytes, encoding: str = "") -> tuple[str, Pixels]:
    """ROS encoding and pixels of a 16-bit PNG: native uint16 (height, width) or (height, width, 3 or 4).

    Alpha is dropped from gray pictures.

    Args:
        data: the file.
        encoding: as the message names it; a gray picture is 16UC1 or a mosaic if this is, else mono16.

    Raises:
        DecodeError: it is damaged, or declares more pixels than its size allows.
    """
    header = read_header(data)
    channels = None if header is None else _CHANNELS.get(header.colour)
    if header is None or channels is None or not header.width * header.height:
        raise DecodeError("PNG is damaged or cut short")
    width, height = header[:2]
    if channels * width * height > min(MOST_PIXELS, _DEFLATE_MOST * len(data) // 2):
        raise DecodeError("PNG declares more pixels than its bytes can hold")
    import av  # noqa: PLC0415 - libavcodec takes a moment to load, and few recordings hold such pictures

    context = av.CodecContext.create("png", "r")
    context.thread_count = 1
    context.options = {"err_detect": "crccheck+explode"}
    packet = av.Packet(len(data))
    packet.update(data)
    try:
        frames = [*context.decode(packet), *context.decode(None)]
    except av.FFmpegError as error:
        raise DecodeError("PNG is damaged or cut short") from error
    if len(frames) != 1 or frames[0].is_corrupt or (frames[0].width, frames[0].height) != (width, height):
        raise DecodeError("PNG is damaged or cut short")
    samples = _samples(frames[0], channels)
    if channels == 1:
        kept = encoding.upper() == "16UC1" or _MOSAIC.match(encoding) is not None
        return (encoding if kept else "mono16"), samples[:, :, 0]
    if channels == 2:
        return "mono16", np.ascontiguousarray(samples[:, :, 0])
    return {3: "rgb16", 4: "rgba16"}[channels], samples


def _samples(frame: av.VideoFrame, channels: int) -> npt.NDArray[np.uint16]:
    if frame.format.name != _FORMATS[channels].replace("le", "be"):
        raise DecodeError("PNG is damaged or cut short")
    plane = frame.planes[0]
    rows = np.frombuffer(memoryview(plane), ">u2").reshape(frame.height, plane.line_size // 2)
    wide = rows[:, : frame.width * channels].reshape(frame.height, frame.width, channels)
    return np.ascontiguousarray(wide, np.uint16)


def compressed_depth(data: bytes, format: str) -> tuple[str, Pixels]:  # noqa: A002 the message's word for it
    """ROS encoding and pixels (height, width) of a depth image.

    They are uint16 millimetres as 16UC1, or float32 metres as 32FC1, which is sent as quantised inverse depth
    and has NaN for unknown.

    Source: compressed_depth_image_transport (12 bytes of header, then a 16-bit PNG or RVL); A. D. Wilson,
    "Fast Lossless Depth Image Compression", 2017 (RVL).

    Args:
        data: ``data`` of the message.
        format: ``format`` of the message, such as ``16UC1; compressedDepth png``.

    Raises:
        DecodeError: its encoding or compression is not supported, or it is damaged.
    """
    encoding, _, packing = (part.strip() for part in format.partition(";"))
    packing = packing.removeprefix("compressedDepth").strip() or "png"
    if encoding.upper() not in {"16UC1", "MONO16", "32FC1"} or packing not in {"png", "rvl"}:
        raise DecodeError(
            f"compressed depth of format {quoted(format)}, expected 16UC1, mono16 or 32FC1 as png or rvl"
        )
    if len(data) <= _DEPTH_HEADER.size:
        raise DecodeError("compressed depth is cut short")
    _, scale, offset = _DEPTH_HEADER.unpack_from(data)
    body = data[_DEPTH_HEADER.size :]
    if packing == "rvl":
        values = _rvl(body)
    else:
        if png_bits(body) != 16:
            raise DecodeError("compressed depth without a 16-bit PNG")
        values = cast("npt.NDArray[np.uint16]", deep_png(body)[1])
        if values.ndim != 2:
            raise DecodeError("compressed depth without a 16-bit PNG of one channel")
    if encoding.upper() != "32FC1":
        return "16UC1", values
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        metres = np.float32(scale) / (values.astype(np.float32) - np.float32(offset))
    metres[(values == 0) | ~(metres > 0) | ~np.isfinite(metres)] = np.nan
    return "32FC1", metres


def _rvl(data: bytes) -> npt.NDArray[np.uint16]:
    if len(data) < 8:
        raise DecodeError("compressed depth is cut short")
    width, height = struct.unpack_from("<II", data)
    pixels = width * height
    if not 0 < pixels <= _MOST_PIXELS:
        raise DecodeError("compressed depth of an absurd size")
    numbers = _numbers(data[8:])
    out = np.zeros(pixels, np.uint16)
    at = place = previous = 0
    while at < pixels:
        if place + 2 > len(numbers):
            raise DecodeError("compressed depth is cut short")
        zeros, count = int(numbers[place]), int(numbers[place + 1])
        at, place = at + zeros, place + 2
        if not zeros + count or at + count > pixels or place + count > len(numbers):
            raise DecodeError("compressed depth is damaged")
        folded = numbers[place : place + count]
        levels = previous + np.cumsum((folded >> 1) ^ -(folded & 1))
        out[at : at + count] = levels.astype(np.uint16)
        previous = int(levels[-1]) if count else previous
        at, place = at + count, place + count
    return out.reshape(height, width)


def _numbers(data: bytes) -> npt.NDArray[np.int64]:
    """The numbers of an RVL stream: 3 bits per nibble, lowest first; the fourth bit says that more follow."""
    words = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
    nibbles = ((words[:, None] >> np.arange(28, -1, -4, dtype=np.uint32)) & 15).astype(np.int64).ravel()
    last = np.flatnonzero(nibbles < 8)
    if not len(last):
        return np.zeros(0, np.int64)
    nibbles = nibbles[: last[-1] + 1]
    starts = np.concatenate([[0], last[:-1] + 1])
    lengths = last - starts + 1
    if lengths.max() > _LONGEST_NUMBER:
        raise DecodeError("compressed depth is damaged")
    place = np.arange(len(nibbles)) - np.repeat(starts, lengths)
    return np.add.reduceat((nibbles & 7) << (3 * place), starts)
