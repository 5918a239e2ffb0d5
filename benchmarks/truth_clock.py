"""Clocks and latencies: another clock's offset, topics that die, and masks that carry no stamp."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from faults import Latency, Truth
from PIL import Image
from scenarios import Figure, at_least, at_most, driven, exactly, scenario, seconds, simulated, told

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.model.sample import RawMessage, Sample
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.simulation import Recording
from edgefirst_ros.simulation.sensors import Lidar
from edgefirst_ros.simulation.world import transform
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes

RARE = {"cube_hz": 0.0, "gps_hz": 2.0, "model_hz": 5.0}
MASKS = {"masks": True, "mask_size": (96, 54), "lidar_hz": 0.0, "radar_hz": 0.0, "gps_hz": 1.0, "fps": 30}


def stored(folder: Path, what: str) -> dict[str, bytes]:
    """The records of NCore stores with this in their name."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob(f"*{what}*.itar")):
        with tarfile.open(path, "r:") as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member)
                found[member.name] = b"" if file is None else file.read()
    return found


def lidar_px(folder: Path, truth: Truth) -> float:
    """RMS distance in the nearest picture of points placed by their written time from where they are."""
    records = stored(folder, "-lidar")
    (key,) = (k for k in records if k.startswith("lidars/") and k.endswith("/frames/.zattrs"))
    written_ns = np.array(json.loads(records[key])["frames_timestamps_us"])[:, -1] * 1000
    sweeps_ns, pictures_ns = truth.true_ns("/lidar/points"), truth.true_ns("/camera/h264")
    lidar = Lidar(truth.world, 2048)
    width, height = truth.world.camera.width, truth.world.camera.height
    squares = []
    for time_ns in written_ns:
        true_ns = int(sweeps_ns[np.abs(sweeps_ns - time_ns).argmin()])
        shown_ns = int(pictures_ns[np.abs(pictures_ns - true_ns).argmin()])
        points = lidar.sweep(truth.seconds(true_ns))
        xyz = np.stack([points[axis] for axis in "xyz"], axis=1).astype(np.float64)
        there, depth_m = truth.project(transform(truth.sensor("lidar", true_ns), xyz), shown_ns)
        placed, _ = truth.project(transform(truth.sensor("lidar", int(time_ns)), xyz), shown_ns)
        inside = (depth_m > 2) & np.all((there > 0) & (there < (width, height)), axis=1)
        squares.append(((placed - there)[inside] ** 2).sum(axis=1))
    return float(np.sqrt(np.concatenate(squares).mean()))


def offset(report: dict[str, Any], truth: Truth, topic: str = "/lidar/points") -> tuple[float, float]:
    """Error of the offset of a topic's clock, and its stated uncertainty, in ms."""
    clock = report["sequences"][0]["clocks"][topic]
    off_ns = clock["offset_ns"] - truth.data["realtime_minus_monotonic_ns"]
    return off_ns / 1e6, clock["uncertainty_ns"] / 1e6


@scenario(
    "clock offset", "lidar to camera < 0.5 px RMS at 1280 x 720 without options, and the uncertainty holds"
)
def clock_offset(folder: Path) -> Iterator[Figure]:
    """The usual latencies; an IMU of another latency; no IMU at all."""
    drives: list[tuple[str, dict[str, Any]]] = [
        ("usual", {}),
        ("imu 1 ms", {"latency": Latency(imu=1.0)}),
        ("imu 5 ms", {"latency": Latency(imu=5.0)}),
        ("no imu", {"imu_hz": 0.0}),
        ("lidar alone, 80 ms", {"imu_hz": 0.0, "radar_hz": 0.0, "latency": Latency(lidar=80.0)}),
    ]
    for name, options in drives:
        size = {"width": 1280, "height": 720, "fps": 10, "lidar_points": 640}
        done, truth = driven(folder / name, ("ncore",), seconds=seconds(5), **(RARE | size | options))
        error_ms, sure_ms = offset(done.report, truth)
        px = lidar_px(folder / name / "out", truth)
        yield (
            at_most(f"{name}: lidar to camera", px, 0.5, "px")
            if name in {"usual", "no imu"}
            else told(f"{name}: lidar to camera", px, "px")
        )
        yield at_most(f"{name}: offset off by", abs(error_ms), sure_ms + 0.05, "ms")


@scenario("dead topics", "sensors that die move no clock: one sequence, no jump")
def dead_topics(folder: Path) -> Iterator[Figure]:
    """Radar and IMU die, then the camera does; a drive of a minute and more."""
    tiny = {"width": 192, "height": 108, "fps": 10, "lidar_points": 320, "imu_hz": 100.0, **RARE}
    end_s = seconds(70)
    cases = {
        "radar and imu": {"radar": ((end_s * 0.3, end_s),), "imu": ((end_s * 0.35, end_s),)},
        "camera": {"camera": ((end_s * 0.4, end_s),)},
    }
    for name, silent in cases.items():
        values = {"reference": "lidar_points"}
        done, truth = driven(folder / name, ("ncore",), values, seconds=end_s, silent=silent, **tiny)
        yield exactly(f"{name} die: sequences", len(done.report["sequences"]), 1)
        yield at_most(f"{name} die: offset off by", abs(offset(done.report, truth)[0]), 0.5, "ms")


@scenario("masks", "a mask is of exactly the picture it is written with: IoU 1.0")
def masks(folder: Path) -> Iterator[Figure]:
    """Labels of NCore against the truth of the picture at their time."""
    end_s = seconds(8)
    cases: dict[str, dict[str, Any]] = {
        "half the camera's rate": {},
        "every picture": {"model_hz": 30.0},
        "no model/output": {"silent": {"model/output": ((0.0, end_s),)}},
        "silences": {"silent": {"model/mask": ((2.0, 3.0), (5.0, 5.4))}},
        "twice the jitter": {"jitter": {"model/mask": 2.0, "model/output": 2.0}},
    }
    for name, options in cases.items():
        small = {**MASKS, "width": 192, "height": 108}
        done, truth = driven(folder / name, ("ncore",), seconds=end_s, **(small | options))
        ious = list(mask_ious(folder / name / "out", truth))
        yield at_least(f"{name}: least IoU", min(ious, default=0.0), 1.0)
        yield at_least(f"{name}: written", len(ious) / done.report["topics"]["/model/mask"]["received"], 0.9)


def mask_ious(folder: Path, truth: Truth) -> Iterator[float]:
    """By label, the share of pixels of either that agree."""
    records = stored(folder, "segmentation")
    pictures_ns = truth.true_ns("/camera/h264")
    for key in (k.removesuffix("/data/.zarray") for k in records if k.endswith("/data/.zarray")):
        png = read_array(records.__getitem__, f"{key}/data").tobytes()
        classes: npt.NDArray[np.uint8] = np.asarray(Image.open(io.BytesIO(png)))
        label_ns = int(key.rpartition("/")[2]) * 1000
        shown_ns = int(pictures_ns[np.abs(pictures_ns - label_ns).argmin()])
        true = truth.mask(shown_ns, (classes.shape[1], classes.shape[0]))
        either = (true > 0) | (classes > 0)
        yield float((true == classes)[either].mean()) if either.any() else 1.0


Change = Callable[[RawMessage], RawMessage]
CAMERAS = ("/camera/h264", "/camera/info", "/model/output")
REALTIME = (*CAMERAS, "/gps")
MONOTONIC = ("/imu", "/lidar/points", "/radar/targets", "/radar/info")


def stamped_later(message: RawMessage, by_ns: int) -> RawMessage:
    """A message whose stamp is moved."""
    whole, rest = struct.unpack_from("<iI", message.data, 4)
    whole, rest = divmod(whole * 1_000_000_000 + rest + by_ns, 1_000_000_000)
    return message._replace(data=message.data[:4] + struct.pack("<iI", whole, rest) + message.data[12:])


def stamp_ns(message: RawMessage) -> int:
    """When it says that it was measured."""
    whole, rest = struct.unpack_from("<iI", message.data, 4)
    return int(whole * 1_000_000_000 + rest)


class Stepped:
    """What becomes of a drive's messages once some stamps, and perhaps the receiver's clock, have jumped."""

    def __init__(self, messages: list[RawMessage], at_ns: int, topics: tuple[str, ...], by_ms: float) -> None:
        by_ns = round(by_ms * 1e6)
        self.at_ns = at_ns
        self.samples: list[Sample] = []
        self.found_s = float("nan")
        pipeline = Pipeline(build_config({}), [], self.samples.append)
        pipeline.begin_source(sorted({(m.topic, m.schema) for m in messages}), "maivin-sim")
        offset_ns = min(m.receive_ns - stamp_ns(m) for m in messages if m.topic == "/imu")
        self.true_ns: dict[tuple[str, int], int] = {}
        for number, message in enumerate(messages):
            base_ns = offset_ns if message.topic in MONOTONIC else 0
            true_ns = stamp_ns(message) + base_ns
            moved = message.topic in topics and true_ns >= at_ns
            seen = stamped_later(message, by_ns) if moved else message
            self.true_ns[message.topic, number] = true_ns
            before = len(pipeline.notes)
            pipeline.feed(seen._replace(arrival=number))
            if any("stepped" in note for note in pipeline.notes[before:]):
                self.found_s = (message.receive_ns - at_ns) / 1e9
        pipeline.end_source()
        pipeline.complete()
        pipeline.close()
        self.notes = pipeline.notes
        self.sequences = len(pipeline.sequences)

    @property
    def wrong(self) -> int:
        """Samples that hold a measurement more than 20 ms from where it is in relation to the reference."""
        count = 0
        for sample in self.samples:
            off = [
                m.time_ns - self.true_ns[m.topic, m.arrival]
                for m in sample.companions.values()
                if (m.topic, m.arrival) in self.true_ns
            ]
            count += bool(off) and max(off) - min(off) > 20_000_000
        return count


@scenario(
    "clock steps", "steps of 50 to 900 ms found within 2 s of data, no sample paired across; none invented"
)
def clock_steps(folder: Path) -> Iterator[Figure]:
    """Clocks that stamp jump in the middle of a drive, with usual and with no jitter of the receipt."""
    end_s = seconds(14)
    small = {"width": 192, "height": 108, "fps": 10, "lidar_points": 320, **RARE, "gps_hz": 10.0}
    for noise, options in {"usual jitter": {}, "no jitter": {"jitter": {"*": 0.0}}}.items():
        made = simulated(folder / noise, seconds=end_s, **(small | options))
        messages = list(McapRecording(made.mcap).messages())
        at_ns = messages[0].receive_ns + round(end_s / 2 * 1e9)
        found: list[float] = []
        wrong = sequences = 0
        cases = {
            "real-time": REALTIME,
            "camera's": CAMERAS,
            "monotonic": MONOTONIC,
            "all": REALTIME + MONOTONIC,
        }
        for topics in cases.values():
            for by_ms in (-900, -50, 50, 700):
                done = Stepped(messages, at_ns, topics, by_ms)
                found.append(done.found_s)
                wrong += done.wrong
                sequences += done.sequences
        yield at_most(f"{noise}: latest of {len(found)} steps found after", float(np.max(found)), 2.0, "s")
        yield exactly(f"{noise}: samples paired wrong", wrong, 0)
        yield exactly(f"{noise}: sequences a step", sequences / len(found), 2.0)
    for name, options in {
        "jitter of the receipt x 5": {"jitter": {"*": 5.0}},
        "stalls of a second": {"stalls": {"*": (0.01, 1000.0)}},
        "sensors that die": {"silent": {"imu": ((end_s / 3, end_s / 2),), "camera": ((end_s / 2, end_s),)}},
    }.items():
        made = simulated(folder / name, seconds=end_s, **(small | options))
        done = Stepped(list(McapRecording(made.mcap).messages()), 0, (), 0)
        yield exactly(f"{name}: sequences", done.sequences, 1)
        yield exactly(f"{name}: steps said", sum("stepped" in n or "jumped" in n for n in done.notes), 0)


@dataclass(slots=True, eq=False)
class Known(MessageTimes):
    """A message that knows its true time."""

    true_ns: int


class Dated:
    """The times that a drive's messages get, by topic: true time, and how far off the time found is."""

    def __init__(self, made: Recording) -> None:
        truth, config = Truth.read(made.truth), build_config({})
        rules = {f"/{rule.topic.strip('/')}": rule.times for rule in config.topics.values() if rule.topic}
        self._finder: ClockFinder[Known] = ClockFinder()
        self.found: dict[str, list[tuple[int, int]]] = {}
        self.refused = 0
        self.boundaries = 0
        true_ns = {topic: iter(truth.true_ns(topic)) for topic in truth.data["counts"]}
        for m in McapRecording(made.mcap).messages():
            if m.topic not in self.found and m.topic in rules:
                self._finder.rule(m.topic, rules[m.topic])
            self.found.setdefault(m.topic, [])
            times = m.topic, stamp_ns(m), m.publish_ns, m.receive_ns
            self._take(self._finder.feed(Known(*times, int(next(true_ns[m.topic])))))
        self._take(self._finder.flush())

    def _take(self, events: Iterable[Known | Boundary]) -> None:
        for event in events:
            if isinstance(event, Boundary):
                self.boundaries += 1
            elif event.refusal is not None:
                self.refused += 1
            else:
                self.found[event.topic].append((event.true_ns, event.time_ns - event.true_ns))

    def windows_held(self, topic: str) -> float:
        """Share of windows of 10 s in which no time of a topic is farther off than stated in the end.

        Of several sequences the most that is stated counts.
        """
        stated_ns = max(f.uncertainty_ns or 0 for f in self._finder.findings if f.topic == topic)
        worst: dict[int, int] = {}
        for true_ns, off_ns in self.found[topic]:
            window = true_ns // 10_000_000_000
            worst[window] = max(worst.get(window, 0), abs(off_ns))
        return sum(off_ns <= stated_ns for off_ns in worst.values()) / len(worst)

    def off_ms(self, topic: str) -> float:
        """How far a topic's times are off at worst."""
        return max(abs(off_ns) for _, off_ns in self.found[topic]) / 1e6

    def stated_ms(self, topic: str) -> float:
        """How far they are off by what is stated."""
        return next(f.uncertainty_ns or 0 for f in self._finder.findings if f.topic == topic) / 1e6


TINY = {"width": 192, "height": 108, "fps": 5, "lidar_points": 64, "cube_hz": 0.0, "model_hz": 0.0}


@scenario("restarts", "a publisher that returns with other stamps loses nothing, and both parts are right")
def restarts(folder: Path) -> Iterator[Figure]:
    """Each kind of topic; with stamps of other clocks, and of one that begins anew."""
    bounds_ms = {"camera/h264": 10, "lidar/points": 40, "imu": 10, "gps": 60, "radar/targets": 12}
    for by_s in (37.0, -100.0, -2.0, 0.0):
        for dead_s in (0.2, 1.0, 5.0):
            refused, worst = 0, 0.0
            for topic, bound_ms in bounds_ms.items():
                anew_s = -1_777_625_000.0 if topic in {"camera/h264", "gps"} else -137.0
                jump = (6.0, dead_s, by_s or anew_s)
                made = simulated(
                    folder / f"{by_s} {dead_s} {topic}",
                    seconds=seconds(14),
                    restarts={topic: (jump,)},
                    **(TINY | {"gps_hz": 10.0, "imu_hz": 100.0}),
                )
                dated = Dated(made)
                refused += dated.refused
                worst = max(worst, dated.off_ms(f"/{topic}") / bound_ms)
            what = f"{by_s:+g} s" if by_s else "anew"
            yield exactly(f"{what} after {dead_s:g} s: refused", refused, 0)
            yield at_most(f"{what} after {dead_s:g} s: off, of the bound by kind", worst, 1)


@scenario("drift", "what is stated of another clock holds in 95 % of windows of 10 s, over ten minutes")
def drift(folder: Path) -> Iterator[Figure]:
    """A quartz of 50 ppm, a bad wireless link, both."""
    cases: dict[str, dict[str, Any]] = {
        "none": {},
        "50 ppm": {"drift_ppm": 50.0},
        "-50 ppm": {"drift_ppm": -50.0},
        "WiFi": {"wifi_ms": (5.0, 5.0, 200.0)},
        "WiFi and 50 ppm": {"wifi_ms": (5.0, 5.0, 200.0), "drift_ppm": 50.0},
    }
    for name, options in cases.items():
        slow = TINY | {"gps_hz": 5.0, "imu_hz": 100.0, "lidar_hz": 5.0, "fps": 10}
        dated = Dated(simulated(folder / name, seconds=seconds(600), **(slow | options)))
        yield at_most(f"{name}: sequences", dated.boundaries + 1, 1)
        for topic in ("/imu", "/lidar/points"):
            yield at_least(f"{name}: {topic} holds", dated.windows_held(topic), 0.95)
        yield told(f"{name}: /imu off by", dated.off_ms("/imu"), "ms")
        yield told(f"{name}: /imu stated", dated.stated_ms("/imu"), "ms")
