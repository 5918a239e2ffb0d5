"""Pictures to what the camera topic carries: access units or JPEGs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import av
import numpy as np
import simplejpeg
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter

from edgefirst_ros.messages.camera import Codec
from edgefirst_ros.simulation.camera import Pixels

JPEG_QUALITY = 90
SLICE_HEADER_BYTES = 24
DAMAGES = ("overwritten", "cut short", "cut out")


class AccessUnit(NamedTuple):
    """One encoded picture, in the encoder's order; ``picture`` counts in display order."""

    data: bytes
    picture: int
    keyframe: bool


def access_units(
    pictures: Iterable[Pixels], codec: Codec, *, width: int, height: int, fps: int, bframes: int
) -> Iterator[AccessUnit]:
    """Annex-B access units of RGB pictures, a closed GOP a second, parameter sets in every key frame."""
    encoder = av.CodecContext.create("libx264" if codec == "h264" else "libx265", "w")
    if not isinstance(encoder, VideoCodecContext):
        raise TypeError(f"{encoder.name} is not a video encoder")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.framerate, encoder.time_base = Fraction(fps), Fraction(1, fps)
    encoder.thread_count = 1
    lookahead = bframes + 1 if bframes else 0
    rules = f"keyint={fps}:min-keyint={fps}:scenecut=0:open-gop=0:bframes={bframes}:b-adapt=0"
    rules += f":rc-lookahead={lookahead}"
    if codec == "h264":
        encoder.options = {"preset": "superfast", "tune": "zerolatency", "crf": "20", "x264-params": rules}
    else:
        still = "log-level=none:pools=none:frame-threads=1:info=0"
        encoder.options = {
            "preset": "ultrafast",
            "tune": "zerolatency",
            "crf": "22",
            "x265-params": f"{rules}:{still}",
        }
    converter = VideoReformatter()  # keeps what it computed for the size
    for number, pixels in enumerate(pictures):
        frame = converter.reformat(
            av.VideoFrame.from_ndarray(pixels, format="rgb24"), format="yuv420p", threads=1
        )
        frame.pts = number
        yield from map(_unit, encoder.encode(frame))
    yield from map(_unit, encoder.encode(None))


def jpegs(pictures: Iterable[Pixels]) -> Iterator[AccessUnit]:
    """The same pictures as JPEGs, each complete in itself."""
    for number, pixels in enumerate(pictures):
        data = simplejpeg.encode_jpeg(pixels, quality=JPEG_QUALITY, colorspace="RGB", colorsubsampling="420")
        yield AccessUnit(data, number, keyframe=True)


def _unit(packet: av.Packet[Any]) -> AccessUnit:
    return AccessUnit(bytes(packet), int(packet.pts or 0), packet.is_keyframe)


def damaged(unit: AccessUnit, kind: str, rng: np.random.Generator) -> AccessUnit:
    """The unit with a fault in the bytes of its picture: a stretch overwritten, the end or the middle lost.

    Parameter sets and slice headers stay: what is known of the picture is right, the picture is not.
    """
    start = max(unit.data.rfind(b"\x00\x00\x01"), 0) + SLICE_HEADER_BYTES
    left = len(unit.data) - start
    if left < 8:
        start, left = len(unit.data) // 2, len(unit.data) - len(unit.data) // 2
    first = start + int(rng.integers(left // 4 + 1))
    last = first + max(1, left // 3)
    data = {
        "overwritten": unit.data[:first] + rng.bytes(last - first) + unit.data[last:],
        "cut short": unit.data[:last],
        "cut out": unit.data[:first] + unit.data[last:],
    }[kind]
    return AccessUnit(data, unit.picture, unit.keyframe)
