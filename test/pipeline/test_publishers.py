"""Two publishers on one topic are found, said and kept apart; one publisher never is taken for two."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from edgefirst.schemas import foxglove_msgs
from edgefirst.schemas.builtin_interfaces import Time
from envelopes import Post
from resized import COMMON, HOST, LARGE, SMALL, START_NS, recorded, spliced
from written import Written

from edgefirst_ros.cli.shared import exit_code
from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.camera import RawImage, VideoPacket
from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.reasons import Code, Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import Datum, RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.publishers import Publishers
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import parsed
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording

SEQUENCE = f"{HOST}_2026_05_01_09_00_00"
IMU = Imu(None, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81))
YEAR_MS = 365 * 86_400_000.0


def picture(width: int, height: int = 48) -> RawImage:
    return RawImage("rgb8", np.zeros((height, width, 3), np.uint8))


def cloud(*names: str, count: int = 5) -> PointCloud:
    return PointCloud(np.zeros(count, [(name, np.float32) for name in names]), 1, count)


@dataclass(frozen=True)
class Said:
    """A message: when it was measured and received, and what tells of its publisher."""

    at_ms: float
    received_ms: float
    frame_id: str
    datum: Datum


def every(
    period_ms: float,
    count: int,
    *,
    since_ms: float = 0.0,
    late_ms: float = 5.0,
    frame_id: str = "frame",
    datum: Datum = IMU,
) -> list[Said]:
    times = (since_ms + n * period_ms for n in range(count))
    return [Said(at, at + late_ms, frame_id, datum) for at in times]


def merged(*streams: Iterable[Said]) -> list[Said]:
    return sorted((each for stream in streams for each in stream), key=lambda said: said.received_ms)


LOOK_AHEAD_NS = 1_000_000_000


def watched(messages: Iterable[Said], name: str = "imu") -> tuple[dict[str, Any], list[Envelope]]:
    """What is found of one topic, and its messages that are used, as is known once they are in order."""
    post, publishers = Post(Config()), Publishers()
    waiting: deque[Envelope] = deque()
    used = []

    def settle(before_ns: float) -> None:
        while waiting and waiting[0].receive_ns < before_ns:
            envelope = waiting.popleft()
            if not envelope.is_of_other:
                used.append(envelope)

    for said in messages:
        envelope = post.envelope(name, said.at_ms, said.datum)
        envelope.decoded = Stamped(envelope.stamp_ns, said.frame_id, said.datum)
        envelope.receive_ns = envelope.stamp_ns + round((said.received_ms - said.at_ms) * 1e6)
        publishers.see(envelope)
        settle(envelope.receive_ns - LOOK_AHEAD_NS)
        if not envelope.is_of_other:
            waiting.append(envelope)
    settle(inf)
    return {each["sign"]: each["values"] for each in publishers.found.values()}, used


def frames(envelopes: Sequence[Envelope]) -> list[str]:
    return [each.decoded.frame_id for each in envelopes]


class TestTwo:
    def test_frame_ids(self) -> None:
        a, b = every(10, 40, frame_id="a"), every(10, 40, since_ms=53, frame_id="b")
        found, envelopes = watched(merged(a, b))
        assert found == {"frames": ["a", "b"]}
        assert frames(envelopes) == ["a"] * 40

    def test_a_rare_one_beside_a_fast_one(self) -> None:
        fast, rare = every(10, 600, frame_id="a"), every(2000, 3, since_ms=503, frame_id="b")
        found, envelopes = watched(merged(fast, rare))
        assert found == {"frames": ["a", "b"]}
        assert frames(envelopes).count("a") == 600
        assert frames(envelopes).count("b") == 2  # which were in their place before the third one came

    def test_sizes_of_pictures(self) -> None:
        large, small = every(33, 20, datum=picture(64)), every(33, 20, since_ms=9, datum=picture(32))
        found, envelopes = watched(merged(large, small), "camera")
        assert found == {"layouts": ["64x48 (rgb8)", "32x48 (rgb8)"]}
        assert all(each.decoded.datum is large[0].datum for each in envelopes)

    def test_fields_of_clouds(self) -> None:
        a, b = every(100, 9, datum=cloud("x", "y")), every(100, 9, since_ms=40, datum=cloud("x", "y", "t"))
        assert watched(merged(a, b), "lidar_points")[0] == {"layouts": ["x y", "x y t"]}

    def test_clocks(self) -> None:
        a = every(10, 60)
        b = altered(every(10, 60, since_ms=4), at_ms=lambda _, said: said.at_ms - YEAR_MS)
        found, envelopes = watched(merged(a, b))
        assert list(found) == ["clocks"]
        assert [e.stamp_ns >= START_NS for e in envelopes] == [True] * 60

    @pytest.mark.parametrize("period_ms", [5.0, 7.3])
    def test_latencies(self, period_ms: float) -> None:
        a, b = every(5, 400), every(period_ms, 300, since_ms=1.5, late_ms=31)
        found, envelopes = watched(merged(a, b))
        assert list(found) == ["stamps"]
        assert len(envelopes) == 700  # whose a message is, is not told for certain

    def test_where_the_first_ends_the_other_one_is_used(self) -> None:
        a, b = every(100, 50, frame_id="a"), every(100, 300, since_ms=40, frame_id="b")
        _, envelopes = watched(merged(a, b))
        assert frames(envelopes)[:50] == ["a"] * 50
        later = [each for each in envelopes if each.decoded.frame_id == "b"]
        assert frames(envelopes)[50:] == ["b"] * len(later)
        # Nobody knows before 10 s that the first one is gone.
        assert later[0].time_ns - START_NS == pytest.approx(14.9e9, abs=0.1e9)

    def test_a_third_one_of_before_is_not_waited_for(self) -> None:
        starts = {"a": 0, "b": 5_040, "c": 5_070}
        streams = (every(100, 50, since_ms=start, frame_id=name) for name, start in starts.items())
        assert frames(watched(merged(*streams))[1]) == ["a"] * 50 + ["b"] * 50


def altered(messages: Iterable[Said], **changes: Callable[[int, Said], Any]) -> list[Said]:
    """With values that are found for each message and its number, by receipt."""
    made = (
        replace(each, **{name: change(number, each) for name, change in changes.items()})
        for number, each in enumerate(messages)
    )
    return merged(made)


def reordered(messages: Iterable[Said], within_ms: float) -> list[Said]:
    chance = random.Random(5)
    return altered(messages, received_ms=lambda _, said: said.received_ms + chance.uniform(0, within_ms))


def resent(part: int) -> list[Said]:
    """Every so many-th message is sent again and comes 60 ms late."""
    return altered(every(20, 400), received_ms=lambda n, said: said.received_ms + 60 * (n % part == 0))


WIDE, NARROW = picture(64), picture(32)
FIRST = every(33, 60, frame_id="a", datum=WIDE)
SWITCHED = [*FIRST, *every(33, 60, since_ms=1_980, frame_id="b", datum=NARROW)]
BACK = [*SWITCHED, *every(33, 60, since_ms=3_960, frame_id="a", datum=WIDE)]
FAST = every(5, 400)
SILENT: dict[str, tuple[str, list[Said]]] = {
    "one": ("imu", FAST),
    "one change": ("camera", SWITCHED),
    "one change, out of order": ("camera", reordered(SWITCHED, 2_500)),
    "changed and back": ("camera", BACK),
    "out of order": ("imu", reordered(every(5, 2_000), 2_500)),
    "a little out of order": ("imu", reordered(every(5, 2_000), 12)),
    "sent again, every second": ("imu", resent(2)),
    "sent again, every third": ("imu", resent(3)),
    "sent again, every seventh": ("imu", resent(7)),
    "delivered twice": ("imu", merged(FAST, every(5, 400, late_ms=31))),
    "in bunches": ("imu", altered(FAST, received_ms=lambda _, said: -(-said.at_ms // 50) * 50)),
    "in bunches of one stamp": ("imu", altered(FAST, at_ms=lambda _, said: said.at_ms // 50 * 50)),
    "each frame id once": ("imu", altered(FAST, frame_id=lambda n, _: str(n))),
    "an epoch twice": ("gps", merged(every(100, 300), every(100, 300, since_ms=-40, late_ms=60))),
    "calibration by many nodes": ("camera_info", merged(every(10, 90, frame_id="a"), every(10, 90))),
    "alternating exposure": ("camera", altered(FIRST, at_ms=lambda n, said: said.at_ms + n % 2 * 4)),
    "targets come and go": ("radar_targets", altered(FAST, datum=lambda n, _: cloud("x", "y", count=n % 3))),
    "a clock that is set": ("imu", altered(FAST, at_ms=lambda n, said: said.at_ms + YEAR_MS * (n > 150))),
    "no stamps": ("imu", altered(FAST, at_ms=lambda _, __: -START_NS / 1e6)),
}


@pytest.mark.parametrize("name", SILENT)
def test_one_publisher_is_not_taken_for_two(name: str) -> None:
    topic, messages = SILENT[name]
    found, envelopes = watched(messages, topic)
    assert found == {}
    assert len(envelopes) == len(messages)


def test_a_real_device_has_one_publisher_a_topic(recording: Path) -> None:
    publishers, post = Publishers(), Post(Config())
    names = {f"/{rule.topic}": name for name, rule in Config().topics.items()}
    for message in McapRecording(recording).messages():
        if message.topic in names:
            envelope = post.envelope(names[message.topic], 0)
            envelope.decoded, envelope.receive_ns = decode(message), message.receive_ns
            publishers.see(envelope)
    assert publishers.found == {}


VALUES: dict[str, Any] = {"topics": {n: {"required": "never"} for n in ("radar_targets", "model")}}


def drive(
    size: tuple[int, int] = SMALL, *, later_ms: int = 0, jpeg: bool = False, imu_hz: float = 50.0
) -> list[RawMessage]:
    start_ns = START_NS + later_ms * 1_000_000
    made = {
        **COMMON,
        "width": size[0],
        "height": size[1],
        "start_ns": start_ns,
        "imu_hz": imu_hz,
        "jpeg": jpeg,
    }
    return list(McapRecording(simulated(DriveOptions(**made)).mcap).messages())


def with_frame(message: RawMessage, frame_id: str) -> RawMessage:
    stamp_ns, _, video = decode(message)
    assert isinstance(video, VideoPacket)
    made = foxglove_msgs.CompressedVideo(Time.from_nanos(stamp_ns), frame_id, video.data, video.codec)
    return message._replace(data=made.to_bytes())


def mixed(mine: list[RawMessage], others: Iterable[RawMessage]) -> list[RawMessage]:
    return list(heapq.merge(mine, others, key=lambda message: message.receive_ns))


def two_cameras() -> tuple[str, list[RawMessage], list[RawMessage]]:
    mine = drive()
    others = [m for m in drive(later_ms=33) if m.topic == "/camera/h264"]
    return "/camera/h264", mine, mixed(mine, (with_frame(m, "camera_b") for m in others))


def two_sizes(since_ms: int = 0) -> tuple[str, list[RawMessage], list[RawMessage]]:
    mine = drive(jpeg=True)
    others = [m for m in drive(LARGE, later_ms=33, jpeg=True) if m.topic == "/camera/jpeg"]
    since_ns = START_NS + since_ms * 1_000_000
    return "/camera/jpeg", mine, mixed(mine, (m for m in others if m.receive_ns >= since_ns))


def two_imus() -> tuple[str, list[RawMessage], list[RawMessage]]:
    mine = drive()
    others = (m for m in drive(later_ms=7) if m.topic == "/imu")
    return "/imu", mine, mixed(mine, (_of_frame(m, "imu_b") for m in others))


def _of_frame(message: RawMessage, frame_id: str) -> RawMessage:
    """Another frame id in place of the empty one, which is followed by three bytes of padding."""
    name = frame_id.encode() + b"\x00"
    assert message.data[12:17] == b"\x01\x00\x00\x00\x00"
    body = message.data[4:12] + len(name).to_bytes(4, "little") + name
    return message._replace(data=message.data[:4] + body + b"\x00" * (-len(body) % 8) + message.data[20:])


def converted(folder: Path, messages: list[RawMessage]) -> Written:
    path = recorded(folder / f"{SEQUENCE}.mcap", messages)
    convert([path], folder / "out", build_config(VALUES), dataset="d")
    return Written(folder / "out" / "edgefirst" / "d")


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("case", [two_cameras, lambda: two_sizes(1_000), two_imus])
def test_the_dataset_is_that_of_the_first_publisher_alone(case: Any, tmp_path: Path) -> None:  # noqa: ANN401
    topic, alone, both = case()
    one, two = converted(tmp_path / "one", alone), converted(tmp_path / "two", both)
    assert two.files() == one.files()
    assert len(two.report["sequences"]) == 1
    others = len(both) - len(alone)
    account = two.report["topics"][topic]
    assert account["reasons"]["refused"] == {Reason.OTHER_PUBLISHER: others}
    assert two.report["codes"][Reason.OTHER_PUBLISHER] == "other_publisher"
    (warning,) = two.report["warnings"]
    assert warning.startswith(f"two publishers send {topic.strip('/')}: ")
    assert warning.endswith("give each a topic of its own")
    verdict = judge(parsed(two.report))
    assert verdict.grade != "good"
    assert Code.PUBLISHERS in {each.code for each in verdict.findings}
    assert exit_code(two.report, strict=True) == 1
    assert not one.report["warnings"]
    assert one.report["publishers"] == {}


def test_imus_of_one_frame_are_told_by_their_stamps(tmp_path: Path) -> None:
    mine = drive(imu_hz=200.0)
    others = (m for m in drive(later_ms=2, imu_hz=200.0) if m.topic == "/imu")
    late_ns = 31_000_000
    late = (m._replace(receive_ns=m.receive_ns + late_ns, publish_ns=m.publish_ns + late_ns) for m in others)
    report = converted(tmp_path, mixed(mine, late)).report
    (warning,) = report["warnings"]
    assert warning.startswith("two publishers send imu: stamps go back again and again")
    assert judge(parsed(report)).grade == "fair"
    assert exit_code(report, strict=True) == 1


def test_a_live_capture_says_it_at_once_and_has_what_a_conversion_has(tmp_path: Path) -> None:
    topic, _, both = two_sizes()
    live = LiveCapture(build_config({**VALUES, "min_free_mb": 0}), tmp_path / "live", HOST)
    live.start("d", sequence=SEQUENCE)
    for message in both:
        live.put(message)
    (done,) = live.stop(60)
    offline = converted(tmp_path, both).report
    for key in ("samples", "totals", "topics", "publishers", "warnings"):
        assert done.report[key] == offline[key], key
    assert topic in done.report["publishers"]


def test_a_change_in_mid_drive_is_no_second_publisher(tmp_path: Path) -> None:
    report = converted(tmp_path, spliced(SMALL, LARGE, SMALL, jpeg=True)).report
    assert report["publishers"] == {}
    assert not report["warnings"]
