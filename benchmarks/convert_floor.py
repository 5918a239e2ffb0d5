"""What a conversion to EdgeFirst cannot do without: its codecs alone, and a plain loop around them.

    python benchmarks/convert_floor.py plan RECORDING PLAN [--rate HZ | --keyframes]
    python benchmarks/convert_floor.py floor|loop|jpegs RECORDING PLAN FILE

``plan`` converts once, and notes which messages the samples are of. ``floor`` prints the CPU seconds of every
codec as JSON: each message in the plan is decoded and encoded once, however many samples it is in, and the
bytes of every file are written once. ``loop`` is what a script would do with the same libraries in one thread
for the same files: it is told what belongs together, and has no clocks, accounting, annotations or recovery.
``jpegs`` writes every picture of the camera and nothing else by libavcodec alone, in one thread, as
``ffmpeg -q:v 2`` does: decoder, swscale and its own JPEG encoder.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import av
import lz4.frame

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.prepare.clouds import (
    RangeGrid,
    encode_gray_jpeg,
    encode_lidar,
    encode_radar,
    project,
)
from edgefirst_ros.formats.edgefirst.prepare.cube import encode_cube
from edgefirst_ros.formats.edgefirst.prepare.sample import JPEG_QUALITY
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import encode_gray
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import RadarCube
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage, Role, Sample
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.video.headers import head, is_key_head
from edgefirst_ros.video.pictures import Picture, encode

Made = TypeVar("Made")
Files = Sequence[tuple[str, bytes]]
"""Kind and content."""
Plan = Sequence[Mapping[str, int]]
"""For each sample, the running numbers of its messages by role."""
BEST_SCALE = 2
"""ffmpeg's usual scale of quantisers begins here; smaller files than ours all the same."""
OPTIONS = EdgeFirstOptions()
GRID = RangeGrid(*OPTIONS.lidar_image_size)


class Clock:
    """CPU seconds of this thread by name."""

    def __init__(self) -> None:
        self.taken_s: defaultdict[str, float] = defaultdict(float)

    def of(self, name: str, call: Callable[..., Made], *given: Any) -> Made:  # noqa: ANN401 - of any call
        """Call, and count its time."""
        start_s = time.thread_time()
        made = call(*given)
        self.taken_s[name] += time.thread_time() - start_s
        return made


def make_plan(recording: Path, rate_hz: float | None, *, keyframes: bool) -> Plan:
    """The messages of every sample, in order."""
    from edgefirst_ros.offline.convert import convert  # noqa: PLC0415 - the loop does without

    samples: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        config = build_config({"rate_hz": rate_hz or 0.0, "select": {"keyframes": keyframes}})
        convert([recording], Path(folder), config, committed=lambda sample: samples.append(_light(sample)))
    return [{role.value: m.arrival for role, m in sample.companions.items()} for sample in samples]


def _light(sample: Sample) -> Sample:
    """Without data."""
    from dataclasses import replace  # noqa: PLC0415

    companions = {role: m._replace(datum=None) for role, m in sample.companions.items()}
    return replace(sample, companions=companions, image=None)


class Video:
    """Decodes a video in one thread, by group of pictures, no further than the last wanted picture."""

    def __init__(self, wanted: frozenset[int], clock: Clock) -> None:
        self._wanted, self._clock = wanted, clock
        self._units: list[tuple[int, bytes]] = []
        self._codec = ""
        self._decoder: av.VideoCodecContext | None = None

    def feed(self, arrival: int, packet: VideoPacket) -> Iterator[tuple[int, Picture]]:
        """The wanted pictures of the group before, if the packet begins another."""
        if is_key_head(packet.codec, head(packet)):
            yield from self.flush()
        self._codec = packet.codec
        self._units.append((arrival, packet.data))

    def flush(self) -> Iterator[tuple[int, Picture]]:
        """The wanted pictures of the last group."""
        units, self._units = self._units, []
        last = max((n for n, (arrival, _) in enumerate(units) if arrival in self._wanted), default=-1)
        if last < 0:
            return
        if self._decoder is None:
            self._decoder = av.CodecContext.create("hevc" if self._codec == "h265" else "h264", "r")
            self._decoder.thread_count = 1
        for arrival, data in units[: last + 1]:
            packet = av.Packet(len(data))
            packet.update(data)
            packet.pts = arrival
            yield from self._shown(self._clock.of("video", self._decoder.decode, packet))
        yield from self._shown(self._clock.of("video", self._decoder.decode, None))
        self._decoder.flush_buffers()

    def _shown(self, frames: Sequence[av.VideoFrame]) -> Iterator[tuple[int, Picture]]:
        for frame in frames:
            if frame.pts in self._wanted:
                yield int(frame.pts), Picture(frame)


def encoded(datum: object, clock: Clock) -> Files:
    """The files of a cube or cloud."""
    if isinstance(datum, RadarCube):
        return [("radar.png", clock.of("radar PNG", encode_cube, datum))]
    if not isinstance(datum, PointCloud):
        return []
    if datum.has("speed"):
        return [("radar.pcd", clock.of("PCD", encode_radar, datum).data)]
    image = clock.of("range images", project, datum, GRID)
    files = [
        ("lidar.pcd", clock.of("PCD", encode_lidar, datum).data),
        ("lidar.png", clock.of("range images", encode_gray, image.range_mm)),
    ]
    if image.reflectivity is not None:
        gray = image.reflectivity
        jpeg = clock.of("range images", encode_gray_jpeg, gray, JPEG_QUALITY)
        files.append(("lidar.jpeg", jpeg))
    return files


def made_files(messages: Iterator[RawMessage], plan: Plan, clock: Clock) -> Iterator[tuple[int, Files]]:
    """Running number and files of every message that is in a sample."""
    wanted = frozenset(number for sample in plan for number in sample.values())
    pictures = frozenset(sample[Role.CAMERA] for sample in plan)
    video = Video(pictures, clock)

    def encode_all(shown: Iterator[tuple[int, Picture]]) -> Iterator[tuple[int, Files]]:
        for arrival, picture in shown:
            image = clock.of("picture JPEG", encode, picture, "jpeg")
            yield arrival, [("camera.jpeg", image.data)]

    for message in messages:
        try:
            datum = decode(message).datum if message.arrival in wanted or "camera" in message.topic else None
        except DecodeError:
            continue
        if isinstance(datum, VideoPacket):
            yield from encode_all(video.feed(message.arrival, datum))
        elif message.arrival in wanted and (files := encoded(datum, clock)):
            yield message.arrival, files
    yield from encode_all(video.flush())


def floor(recording: Path, plan: Plan, out: Path) -> dict[str, float]:
    """CPU seconds by codec."""
    clock = Clock()
    _decompress(recording, clock)
    uses: defaultdict[int, int] = defaultdict(int)
    for sample in plan:
        for number in sample.values():
            uses[number] += 1
    messages = McapRecording(recording).messages()
    with out.open("wb", buffering=0) as stream:
        for arrival, files in made_files(messages, plan, clock):
            for _, data in files:
                # isal's leaves vector registers in a state in which libavcodec takes 1.8 times as long in the
                # same thread; a conversion has threads of their own for both.
                clock.of("CRC and write", zlib.crc32, data)
                for _ in range(uses[arrival]):
                    clock.of("CRC and write", stream.write, data)
        clock.of("CRC and write", os.fsync, stream.fileno())
    return dict(clock.taken_s)


def _decompress(recording: Path, clock: Clock) -> None:
    """Read and decompress every chunk."""
    from mcap.reader import make_reader  # noqa: PLC0415 - only the floor reads chunks

    with recording.open("rb") as stream:
        summary = make_reader(stream).get_summary()
        for index in () if summary is None else summary.chunk_indexes:
            stream.seek(index.chunk_start_offset + index.chunk_length - index.compressed_size)
            data = clock.of("read and lz4", stream.read, index.compressed_size)
            if index.compression == "lz4":
                clock.of("read and lz4", lz4.frame.decompress, data)


def loop(recording: Path, plan: Plan, out: Path) -> None:
    """Every sample into a stored ZIP as soon as its files are there."""
    last_use = {number: place for place, sample in enumerate(plan) for number in sample.values()}
    there: dict[int, Files] = {}
    following = 0
    roles = (Role.CAMERA, Role.RADAR_TARGETS, Role.RADAR_CUBE, Role.LIDAR_POINTS)
    needed = [{sample[role] for role in roles if role in sample} for sample in plan]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for arrival, files in made_files(McapRecording(recording).messages(), plan, Clock()):
            there[arrival] = files
            while following < len(plan) and needed[following] <= there.keys():
                for number in needed[following]:
                    for kind, data in there[number]:
                        archive.writestr(f"{following:06d}.{kind}", data)
                for number in [n for n in there if last_use[n] <= following]:
                    del there[number]
                following += 1
    with out.open("rb") as stream:
        os.fsync(stream.fileno())
    if following < len(plan):
        raise SystemExit(f"the loop wrote {following} of {len(plan)} samples")


def jpegs(recording: Path, out: Path) -> None:
    """Every picture of the camera."""
    decoder: av.VideoCodecContext | None = None
    encoder: av.VideoCodecContext | None = None
    with out.open("wb", buffering=0) as stream:

        def write(frames: Sequence[av.VideoFrame]) -> None:
            nonlocal encoder
            for frame in frames:
                if encoder is None:
                    encoder = av.CodecContext.create("mjpeg", "w")
                    encoder.width, encoder.height, encoder.pix_fmt = frame.width, frame.height, "yuvj420p"
                    encoder.time_base, encoder.thread_count = Fraction(1, 30), 1
                    encoder.qmin = encoder.qmax = BEST_SCALE
                frame.pts = None
                for packet in encoder.encode(frame.reformat(format="yuvj420p")):
                    stream.write(packet)

        for message in McapRecording(recording).messages():
            if "camera" not in message.topic or not isinstance(datum := decode(message).datum, VideoPacket):
                continue
            if decoder is None:
                decoder = av.CodecContext.create("hevc" if datum.codec == "h265" else "h264", "r")
                decoder.thread_count = 1
            packet = av.Packet(len(datum.data))
            packet.update(datum.data)
            write(decoder.decode(packet))
        if decoder is not None:
            write(decoder.decode(None))
        os.fsync(stream.fileno())


def main() -> None:
    """Do one of the four."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["plan", "floor", "loop", "jpegs"])
    parser.add_argument("recording", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--keyframes", action="store_true")
    given = parser.parse_args()
    if given.what == "plan":
        plan = make_plan(given.recording, given.rate, keyframes=given.keyframes)
        times = [message.receive_ns for message in McapRecording(given.recording).messages()]
        recorded = (max(times) - min(times)) / 1e9, len(times)
        given.plan.write_text(json.dumps({"samples": plan, "recorded": recorded}))
        return
    plan = json.loads(given.plan.read_text())["samples"]
    if given.what == "floor":
        print(json.dumps(floor(given.recording, plan, given.out)))
    elif given.what == "jpegs":
        jpegs(given.recording, given.out)
    else:
        loop(given.recording, plan, given.out)


if __name__ == "__main__":
    main()
