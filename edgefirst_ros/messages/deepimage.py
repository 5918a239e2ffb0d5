"""Compressed images that are decoded to pixels: 16-bit PNG, and depth of compressed_depth_image_transport."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from edgefirst_ros.codecs.png import read_header
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.pixels import Pixels, quoted

if TYPE_CHECKING:
    import av

_HEADER = struct.Struct("<iff")
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Channels by PNG colour type of 16-bit images, which have no palette."""
_FORMATS = {1: "gray16le", 2: "ya16le", 3: "rgb48le", 4: "rgba64le"}
_DEFLATE_MOST = 1032
"""The highest compression ratio of deflate."""
_MOST_PIXELS = 1 << 25
_LONGEST_NUMBER = 10


def png_bits(data: bytes) -> int:
    """Bits per sample by the header of a PNG; 0 if it is not a PNG."""
    header = read_header(data)
    return 0 if header is None else header.depth


def deep_png(data: bytes, encoding: str = "") -> tuple[str, Pixels]:
    """ROS encoding and pixels of a 16-bit PNG: native uint16 (height, width) or (height, width, 3 or 4).

    Alpha is dropped from gray pictures.

    Args:
        data: the file.
        encoding: as the message names it; a gray picture is 16UC1 if this is, else mono16.

    Raises:
        DecodeError: it is damaged, or declares more pixels than its size allows.
    """
    header = read_header(data)
    channels = None if header is None else _CHANNELS.get(header.colour)
    if header is None or channels is None or not header.width * header.height:
        raise DecodeError("PNG is damaged or cut short")
    width, height = header[:2]
    if 2 * channels * width * height > _DEFLATE_MOST * len(data):
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
        return ("16UC1" if encoding.upper() == "16UC1" else "mono16"), samples[:, :, 0]
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
    if len(data) <= _HEADER.size:
        raise DecodeError("compressed depth is cut short")
    _, scale, offset = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
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
