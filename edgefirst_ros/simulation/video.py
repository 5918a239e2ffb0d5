"""Pictures to the messages of a camera: video, JPEG or raw, and the truth about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import av
import numpy as np
import simplejpeg
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter

from edgefirst_ros.simulation.camera import Pixels
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.schedule import Channel

NUMBER_BITS = 24


def burn_number(pixels: Pixels, number: int) -> Pixels:
    """The picture with its number as 24 square cells from the top left, highest bit first, white = 1."""
    cell = number_cell_px(pixels.shape[1])
    bits = [255 * (number >> bit & 1) for bit in reversed(range(NUMBER_BITS))]
    marked = pixels.copy()
    marked[:cell, : cell * NUMBER_BITS] = np.repeat(np.array(bits, np.uint8), cell)[None, :, None]
    return marked


def number_cell_px(width: int) -> int:
    """Side of one cell in pixels: 16, or less if 24 of them do not fit."""
    return min(16, width // NUMBER_BITS)


class EncodedPicture(NamedTuple):
    """One encoded picture in decode order; ``picture`` is its number in display order."""

    data: bytes
    picture: int
    keyframe: bool


def access_units(pictures: Iterable[Pixels], options: DriveOptions) -> Iterator[EncodedPicture]:
    """Encode RGB pictures as Annex B: a closed GOP per second, parameter sets in every key frame."""
    codec, fps, bframes, mbit_s = options.codec, options.fps, options.bframes, options.mbit_s
    encoder = av.CodecContext.create("libx264" if codec == "h264" else "libx265", "w")
    if not isinstance(encoder, VideoCodecContext):
        raise TypeError(f"{encoder.name} is not a video encoder")
    encoder.width, encoder.height, encoder.pix_fmt = options.width, options.height, "yuv420p"
    encoder.framerate, encoder.time_base = Fraction(fps), Fraction(1, fps)
    encoder.thread_count = 1
    rules = f"keyint={fps}:min-keyint={fps}:scenecut=0:open-gop=0:bframes={bframes}:b-adapt=0"
    rules += f":rc-lookahead={bframes + 1 if bframes else 0}"
    if mbit_s:
        encoder.bit_rate = round(mbit_s * 1e6)
        rules += f":vbv-maxrate={mbit_s * 1e3:.0f}:vbv-bufsize={mbit_s * 1e3:.0f}"
    if codec == "h265":
        rules += ":log-level=none:pools=none:frame-threads=1:info=0"
    name, preset, quality = ("x264", "superfast", "20") if codec == "h264" else ("x265", "ultrafast", "22")
    encoder.options = {"preset": preset, "tune": "zerolatency", f"{name}-params": rules}
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


def raw(pictures: Iterable[Pixels]) -> Iterator[EncodedPicture]:
    """RGB pictures as they are, row by row."""
    for number, pixels in enumerate(pictures):
        yield EncodedPicture(pixels.tobytes(), number, keyframe=True)


def jpegs(pictures: Iterable[Pixels]) -> Iterator[EncodedPicture]:
    """Encode RGB pictures as JPEGs."""
    for number, pixels in enumerate(pictures):
        data = simplejpeg.encode_jpeg(pixels, quality=90, colorspace="RGB", colorsubsampling="420")
        yield EncodedPicture(data, number, keyframe=True)


STILLS = {"jpeg": jpegs, "raw": raw}


def _unit(packet: av.Packet[Any]) -> EncodedPicture:
    return EncodedPicture(bytes(packet), int(packet.pts or 0), packet.is_keyframe)


class Video:
    """The encoder of one topic, whose messages ``channel`` sends.

    Args:
        options: those of its camera.
        form: jpeg, raw, or the codec.
        frames: how many pictures there are.
    """

    channel: Channel

    def __init__(self, options: DriveOptions, form: str, frames: int) -> None:
        self._options, self._form, self._frames = options, form, frames
        self._sent: list[tuple[int, EncodedPicture]] = []

    def units(self, picture: Callable[[int], Pixels]) -> Iterator[tuple[int, EncodedPicture]]:
        """Every unit with its number in decode order."""
        numbered = (self._numbered(picture(number), number) for number in range(self._frames))
        yield from enumerate(
            STILLS[self._form](numbered) if self._form in STILLS else access_units(numbered, self._options)
        )

    def _numbered(self, pixels: Pixels, number: int) -> Pixels:
        return burn_number(pixels, number)

    def send(self, number: int, unit: EncodedPicture) -> bytes:
        """Record that a unit is sent, and return its bytes."""
        self._sent.append((number, unit._replace(data=b"")))
        return unit.data

    def truth(self) -> dict[str, Any]:
        """The truth about the messages of the topic, by their index in the recording."""
        options = self._options
        messages = [self._sent[i] for i in self.channel.made]
        return {
            "format": self._form,
            "width": options.width,
            "height": options.height,
            "fps": options.fps,
            "frames": self._frames,
            "keyframes": [i for i, (_, unit) in enumerate(messages) if unit.keyframe],
            "presentation": [unit.picture for _, unit in messages],
            "units": [number for number, _ in messages],
            "number_cell_px": number_cell_px(options.width),
        }
