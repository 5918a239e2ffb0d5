"""Small clips with known pictures, and a caller that uses a stream as the pipeline does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.batches import EncodedPicture
from edgefirst_ros.video.gops import AccessUnit, Gop
from edgefirst_ros.video.headers import head, is_key_head
from edgefirst_ros.video.pictures import Picture
from edgefirst_ros.video.stream import VideoStream

STEP_NS = 33_333_333
START_NS = 1_773_483_630_000_000_000
LOOKAHEAD_NS = 20 * STEP_NS
WIDTH, HEIGHT = 96, 64


@dataclass(frozen=True)
class Shot:
    """One access unit: its picture's number in display order, and that as time."""

    number: int
    packet: VideoPacket
    key: bool
    step_ns: int = STEP_NS
    shift_ns: int = 0

    @property
    def time_ns(self) -> int:
        return START_NS + self.number * self.step_ns + self.shift_ns


def is_keyframe(packet: VideoPacket) -> bool:
    """Whether decoding can start there."""
    return is_key_head(packet.codec, head(packet))


def access_unit(number: int, packet: VideoPacket) -> AccessUnit:
    """A packet as decoders take it."""
    group = Gop(0, packet.codec, hidden_reorder=False, linked=True)
    return AccessUnit(number, 0, packet.data, group)


def read_shots(path: Path) -> tuple[Shot, ...]:
    """A stream from a file, with the numbers that libavcodec shows its pictures by."""
    codec: Codec = "h264" if path.suffix == ".264" else "h265"
    parser = av.CodecContext.create("h264" if codec == "h264" else "hevc", "r")
    data = [bytes(part) for packets in (path.read_bytes(), b"") for part in parser.parse(packets)]
    places = [Shot(place, VideoPacket(codec, each), key=False) for place, each in enumerate(data)]
    order = {place: number for number, place in enumerate(decode_plainly(places))}
    return tuple(replace(shot, number=order[shot.number]) for shot in places)


@dataclass(frozen=True)
class Clip:
    """Access units in decode order, and what a decoder makes of all of them, by display number."""

    name: str
    shots: tuple[Shot, ...]
    truth: dict[int, npt.NDArray[np.uint8]]

    def without(self, lost: Iterable[int]) -> list[Shot]:
        gone = set(lost)
        return [shot for place, shot in enumerate(self.shots) if place not in gone]


def paint(number: int, width: int = WIDTH, height: int = HEIGHT) -> npt.NDArray[np.uint8]:
    """A moving texture with the number burnt in: 8 cells of 8 px, the highest bit first."""
    y, x = np.mgrid[0:height, 0:width]
    waves = np.sin((x + 3 * number) / 5) * np.cos((y - 2 * number) / 7)
    noise = np.random.default_rng(number).normal(0, 12, (height, width))
    grey = np.clip(128 + 70 * waves + noise, 0, 255)
    picture = np.stack([grey, np.roll(grey, 9, 1), 255 - grey], 2).astype(np.uint8)
    for bit in range(8):
        picture[:8, 8 * bit : 8 * bit + 8] = 255 * (number >> (7 - bit) & 1)
    return picture


def burnt_in(rgb: npt.NDArray[np.uint8], bits: int = 8, cell: int = 8) -> int:
    """Read the number back."""
    cells = rgb[:cell, : bits * cell].reshape(cell, bits, cell, 3).mean((0, 2, 3))
    return int("".join("1" if level > 127 else "0" for level in cells), 2)


def encode_shots(
    encoder: str,
    options: dict[str, str],
    *,
    frames: int,
    first: int = 0,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    setup: Callable[[av.VideoCodecContext], None] | None = None,
    picture: Callable[[int], av.VideoFrame] | None = None,
) -> tuple[Shot, ...]:
    codec: Codec = "h264" if encoder == "libx264" else "h265"
    context = av.CodecContext.create(encoder, "w")
    assert isinstance(context, av.VideoCodecContext)
    context.width, context.height = size
    context.pix_fmt = "yuv420p"
    context.framerate = 30
    context.options = options
    if setup:
        setup(context)
    packets = []
    for number in range(first, first + frames):
        frame = picture(number) if picture else av.VideoFrame.from_ndarray(paint(number, *size))
        frame = frame.reformat(format=context.pix_fmt)
        frame.pts = number
        packets += context.encode(frame)
    packets += context.encode(None)
    return tuple(
        Shot(packet.pts, VideoPacket(codec, bytes(packet)), packet.is_keyframe) for packet in packets
    )


def decode_plainly(shots: Iterable[Shot]) -> dict[int, npt.NDArray[np.uint8]]:
    """What one thread makes of the units fed one after the other, by display number."""
    shots = list(shots)
    context = av.CodecContext.create("h264" if shots[0].packet.codec == "h264" else "hevc", "r")
    assert isinstance(context, av.VideoCodecContext)
    context.thread_count = 1
    frames = []
    for shot in shots:
        packet = av.Packet(shot.packet.data)
        packet.pts = shot.number
        frames += context.decode(packet)
    frames += context.decode(None)
    return {frame.pts: frame.to_ndarray(format="rgb24") for frame in frames if frame.pts is not None}


def _x264(**options: str) -> dict[str, str]:
    return {"preset": "medium", "threads": "1", "g": "12", "sc_threshold": "0", **options}


def _x265(params: str) -> dict[str, str]:
    common = "log-level=none:frame-threads=1:pools=none:keyint=12:min-keyint=12:scenecut=0:repeat-headers=1"
    return {"preset": "medium", "x265-params": f"{common}:{params}"}


RECIPES: dict[str, tuple[str, dict[str, str]]] = {
    "h264-p": ("libx264", _x264(bf="0")),
    "h264-b": ("libx264", _x264(bf="2", **{"b-pyramid": "none", "b_strategy": "0"})),
    "h264-pyramid": ("libx264", _x264(bf="3", **{"b-pyramid": "normal", "b_strategy": "0"})),
    "h264-open": ("libx264", _x264(bf="3", **{"b_strategy": "0", "x264-params": "open-gop=1"})),
    "h265-p": ("libx265", _x265("bframes=0:open-gop=0")),
    "h265-pyramid": ("libx265", _x265("bframes=3:b-adapt=0:open-gop=0")),
    "h265-open": ("libx265", _x265("bframes=3:b-adapt=0:open-gop=1")),
}


def recipe(name: str, **changes: str) -> tuple[str, dict[str, str]]:
    """A recipe with some of its options changed."""
    encoder, options = RECIPES[name]
    return encoder, {**options, **changes}


@dataclass
class Played:
    """What came of a clip: verdicts by time, pictures of those asked for, refusals of the same.

    ``elsewhere`` is how many of the pictures were decoded elsewhere.
    """

    verdicts: dict[int, str | None]
    pictures: dict[int, npt.NDArray[np.uint8]]
    errors: dict[int, DecodeError]
    elsewhere: int = 0


def play(
    stream: VideoStream,
    arrivals: Iterable[Shot],
    *,
    wanted: Callable[[int], bool] | None = None,
    window: int = 6,
    lookahead_ns: int = LOOKAHEAD_NS,
) -> Played:
    """Use a stream as the pipeline does: verdicts trail arrival, the caller blocks on its oldest picture."""
    played = Played({}, {}, {})
    waiting: list[Shot] = []
    asked: deque[tuple[int, Future[Picture]]] = deque()

    def collect(most: int) -> None:
        while len(asked) > most:
            number, future = asked.popleft()
            stream.flush()
            try:
                picture = future.result(timeout=60)
                played.pictures[number] = picture.rgb()
                played.elsewhere += isinstance(picture, EncodedPicture)
            except DecodeError as error:
                played.errors[number] = error

    def judge(until_ns: int | None) -> None:
        waiting.sort(key=lambda shot: shot.time_ns)
        while waiting and (until_ns is None or waiting[0].time_ns <= until_ns):
            shot = waiting.pop(0)
            verdict = stream.judge(shot.time_ns)
            played.verdicts[shot.number] = verdict.reason
            if verdict.reason is None and (wanted is None or wanted(shot.number)):
                asked.append((shot.number, stream.request(verdict)))
            collect(window)
            stream.release(shot.time_ns)

    newest_ns = START_NS
    for shot in arrivals:
        stream.push(shot.time_ns, shot.packet)
        waiting.append(shot)
        newest_ns = max(newest_ns, shot.time_ns)
        judge(newest_ns - lookahead_ns)
    judge(None)
    stream.close()
    collect(0)
    return played


@cache
def make_clip(name: str) -> Clip:
    encoder, options = RECIPES[name]
    shots = encode_shots(encoder, options, frames=44)
    return Clip(name, shots, decode_plainly(shots))
