"""Camera topics of a drive: pictures as video or JPEG, damaged on request, and the truth about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import av
import numpy as np
import simplejpeg
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter

from edgefirst_ros.messages.camera import Codec
from edgefirst_ros.simulation.camera import Pixels, burn_number, number_cell_px
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.schedule import CAMERA_FIRST_NS, Channel

JPEG_QUALITY = 90
SLICE_HEADER_BYTES = 24
DAMAGES = ("overwritten", "cut short", "cut out")


class EncodedPicture(NamedTuple):
    """One encoded picture in decode order; ``picture`` is its number in display order."""

    data: bytes
    picture: int
    keyframe: bool


def access_units(
    pictures: Iterable[Pixels],
    codec: Codec,
    *,
    width: int,
    height: int,
    fps: int,
    bframes: int,
    mbit_s: float = 0.0,
) -> Iterator[EncodedPicture]:
    """Encode RGB pictures as Annex B: a closed GOP per second, parameter sets in every key frame."""
    encoder = av.CodecContext.create("libx264" if codec == "h264" else "libx265", "w")
    if not isinstance(encoder, VideoCodecContext):
        raise TypeError(f"{encoder.name} is not a video encoder")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.framerate, encoder.time_base = Fraction(fps), Fraction(1, fps)
    encoder.thread_count = 1
    lookahead = bframes + 1 if bframes else 0
    rules = f"keyint={fps}:min-keyint={fps}:scenecut=0:open-gop=0:bframes={bframes}:b-adapt=0"
    rules += f":rc-lookahead={lookahead}"
    if mbit_s:
        encoder.bit_rate = round(mbit_s * 1e6)
        rules += f":vbv-maxrate={mbit_s * 1e3:.0f}:vbv-bufsize={mbit_s * 1e3:.0f}"
    if codec == "h264":
        encoder.options = {"preset": "superfast", "tune": "zerolatency", "x264-params": rules}
        quality = "20"
    else:
        still = "log-level=none:pools=none:frame-threads=1:info=0"
        encoder.options = {
            "preset": "ultrafast",
            "tune": "zerolatency",
            "x265-params": f"{rules}:{still}",
        }
        quality = "22"
    if not mbit_s:
        encoder.options |= {"crf": quality}
    converter = VideoReformatter()  # caches what depends on the size
    for number, pixels in enumerate(pictures):
        frame = converter.reformat(
            av.VideoFrame.from_ndarray(pixels, format="rgb24"), format="yuv420p", threads=1
        )
        frame.pts = number
        yield from map(_unit, encoder.encode(frame))
    yield from map(_unit, encoder.encode(None))


def jpegs(pictures: Iterable[Pixels]) -> Iterator[EncodedPicture]:
    """Encode RGB pictures as JPEGs."""
    for number, pixels in enumerate(pictures):
        data = simplejpeg.encode_jpeg(pixels, quality=JPEG_QUALITY, colorspace="RGB", colorsubsampling="420")
        yield EncodedPicture(data, number, keyframe=True)


def _unit(packet: av.Packet[Any]) -> EncodedPicture:
    return EncodedPicture(bytes(packet), int(packet.pts or 0), packet.is_keyframe)


def damaged(unit: EncodedPicture, kind: str, rng: np.random.Generator) -> EncodedPicture:
    """The unit with damaged picture data: a part overwritten, or the end or the middle removed.

    Parameter sets and slice headers stay intact.
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
    return EncodedPicture(data, unit.picture, unit.keyframe)


class Video:
    """The encoder of one topic, whose messages ``channel`` sends.

    Args:
        faults: random series that decides which units are damaged, and how.
        parts: the picture's width and height are the camera's divided by this.
    """

    channel: Channel

    def __init__(self, options: DriveOptions, frames: int, faults: np.random.Generator, parts: int) -> None:
        self._options = options
        self._frames = frames
        self._size = options.width // parts, options.height // parts
        self._damaged = faults.random(frames) < options.damage_video
        self._faults = faults
        self._sent: list[tuple[int, EncodedPicture, str]] = []

    def units(self, picture: Callable[[int], Pixels]) -> Iterator[tuple[int, EncodedPicture]]:
        """Every unit with its number in decode order."""
        options, (width, height) = self._options, self._size
        numbered = (self._numbered(picture(number), number) for number in range(self._frames))
        if options.jpeg:
            yield from enumerate(jpegs(numbered))
            return
        yield from enumerate(
            access_units(
                numbered,
                options.codec,
                width=width,
                height=height,
                fps=options.fps,
                bframes=options.bframes,
                mbit_s=options.mbit_s,
            )
        )

    def _numbered(self, pixels: Pixels, number: int) -> Pixels:
        """A picture with its number: a frozen one shows an old number, a black one none."""
        options = self._options
        time_s = (CAMERA_FIRST_NS + number * 1_000_000_000 // options.fps) / 1e9
        if options.is_black(time_s):
            return pixels
        return burn_number(pixels, number - round((time_s - options.shown_s("camera", time_s)) * options.fps))

    def send(self, number: int, unit: EncodedPicture) -> EncodedPicture:
        """Record that a unit is sent, and return its bytes as sent, possibly damaged."""
        kind = ""
        if self._damaged[number]:
            kind = DAMAGES[int(self._faults.integers(len(DAMAGES)))]
            unit = damaged(unit, kind, self._faults)
        self._sent.append((number, EncodedPicture(b"", unit.picture, unit.keyframe), kind))
        return unit

    def truth(self) -> dict[str, Any]:
        """The truth about the messages of the topic, by their index in the recording."""
        options, (width, height) = self._options, self._size
        messages = [self._sent[i] for i in self.channel.made]
        stamps, true = self.channel.stamp_ns, self.channel.true_ns
        return {
            "format": "jpeg" if options.jpeg else options.codec,
            "width": width,
            "height": height,
            "fps": options.fps,
            "frames": self._frames,
            "keyframes": [i for i, (_, unit, _) in enumerate(messages) if unit.keyframe],
            "presentation": [unit.picture for _, unit, _ in messages],
            "units": [number for number, _, _ in messages],
            "dropped": sorted(set(range(self._frames)) - {number for number, _, _ in messages}),
            "damaged": [[i, kind] for i, (_, _, kind) in enumerate(messages) if kind],
            "same_stamp": np.flatnonzero(stamps != true).tolist(),
            "number_cell_px": number_cell_px(width),
        }
