"""Recordings nobody would want: steps, garbage, wrong types, disorder, hostile names, a sensor that dies."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from recorded import messages, record
from written import Written

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.executor import Backlog
from edgefirst_ros.pipeline.ledger import COLUMNS
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.timing.align import Reorder

OPTIONAL = {"topics": {n: {"required": "never"} for n in ("radar_targets", "lidar_points", "model")}}


def converted(path: Path, values: dict[str, Any] | None = None) -> Written:
    out = path.parent / f"out-{path.stem}"
    convert([path], out, build_config(values or OPTIONAL), dataset="d")
    written = Written(out / "edgefirst" / "d")
    for topic, account in written.report["topics"].items():
        assert account["received"] == sum(account[c] for c in COLUMNS), topic
    return written


def test_a_pause_starts_a_new_sequence_with_its_own_name(tmp_path: Path) -> None:
    first = messages(seconds=2.0)
    second = messages(seconds=2.0, start_ns=DriveOptions().start_ns + 3600 * 10**9)
    written = converted(record(tmp_path / "host-1_2026_05_01_09_00_00.mcap", [*first, *second]))
    sequences = written.report["sequences"]
    assert [s["name"] for s in sequences] == ["host-1_2026_05_01_09_00_00", "host-1_2026_05_01_10_00_00"]
    assert [s["sample"] for s in sequences] == [20, 20]
    assert "nothing received for" in written.report["notes"][0]
    assert {n.split("/")[0] for n in written.files()} == {s["name"] for s in sequences}


def test_garbage_is_refused_and_counted_and_stops_nothing(tmp_path: Path) -> None:
    clean = messages(seconds=4.0)
    rng = random.Random(4)
    dirty: list[RawMessage] = []
    planted: dict[str, int] = {}
    for message in clean:
        dirty.append(message)
        if rng.random() < 0.1:
            cut = message.data[: rng.randrange(12)]
            dirty.append(
                message._replace(data=cut + rng.randbytes(rng.randrange(1, 20)) if len(cut) > 8 else cut)
            )
            planted[message.topic] = planted.get(message.topic, 0) + 1
    written = converted(record(tmp_path / "g_2026_05_01_09_00_00.mcap", dirty))
    plain = converted(record(tmp_path / "c_2026_05_01_09_00_00.mcap", clean))
    for topic, count in planted.items():
        more = written.report["topics"][topic]["refused"] - plain.report["topics"][topic]["refused"]
        assert more == count, topic
    assert written.report["samples"] == plain.report["samples"] == 40


def test_a_topic_of_another_type_is_refused_with_both_named(tmp_path: Path) -> None:
    content = messages(seconds=2.0)
    swapped = [m._replace(topic="/lidar/points") if m.topic == "/imu" else m for m in content]
    written = converted(record(tmp_path / "x_2026_05_01_09_00_00.mcap", swapped))
    reasons = written.report["topics"]["/lidar/points"]["reasons"]["refused"]
    expected = "sensor_msgs/msg/PointCloud2 or sensor_msgs/msg/LaserScan"
    assert list(reasons) == [f"type sensor_msgs/msg/Imu, expected {expected}"]
    assert written.report["samples"] == 20


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("jitter_ms", [20, 300])
def test_disorder_within_the_look_ahead_changes_no_byte(tmp_path: Path, jitter_ms: int) -> None:
    """Clocks are given, for finding them rests on the times of arrival, which are what is disturbed."""
    content = messages(seconds=3.0, clock="realtime")
    rng = random.Random(jitter_ms)
    shuffled = sorted(content, key=lambda m: m.receive_ns + rng.randrange(jitter_ms * 1_000_000))
    values = {"topics": {name: {**rule, "clock": "stamp"} for name, rule in OPTIONAL["topics"].items()}}
    for name in ("camera", "imu", "gps"):
        values["topics"].setdefault(name, {})["clock"] = "stamp"
    for name in ("camera_info", "radar_info", "tf"):
        values["topics"].setdefault(name, {})["clock"] = "receive"
    written = [
        converted(record(tmp_path / sub / "h_2026_05_01_09_00_00.mcap", order), values)
        for sub, order in (("o1", content), ("o2", shuffled))
        if (tmp_path / sub).mkdir() is None
    ]
    assert written[0].files() == written[1].files()
    assert written[0].table.equals(written[1].table)
    assert written[0].report["samples"] == 30


@pytest.mark.long
def test_a_lidar_that_dies_does_not_end_the_dataset(tmp_path: Path) -> None:
    content = messages(seconds=12.0, model_hz=0.0)
    start = content[0].receive_ns
    dying = [m for m in content if m.topic != "/lidar/points" or m.receive_ns < start + 3 * 10**9]
    written = converted(
        record(tmp_path / "h_2026_05_01_09_00_00.mcap", dying), {"select": {"require": "all"}}
    )
    frames = sorted(written.of_kind("camera.jpeg"))
    assert frames[:29] == list(range(29))
    assert not {f for f in frames if 32 <= f <= 78}, (
        "while it counts as alive, frames without it are left out"
    )
    assert set(range(82, 120)) <= set(frames)
    assert "no lidar/points close enough" in str(written.report["topics"]["/camera/h264"]["reasons"])


def test_without_memory_to_wait_in_everything_is_accounted_for_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raw pictures of a fast camera fill every queue; what leaves it early finds its companions late."""
    for name in ("timing.clock.MOST_HELD_BYTES", "pipeline.emission.MOST_WAITING_BYTES"):
        monkeypatch.setattr(f"edgefirst_ros.{name}", 50_000)
    monkeypatch.setattr(Reorder.__init__, "__defaults__", (50_000,))
    monkeypatch.setattr(Backlog.__init__, "__defaults__", (1,))
    content = messages(seconds=4.0, clock="realtime")
    values = {**OPTIONAL, "formats": ["edgefirst", "ncore"], "ncore": {"unknown_pose": "cut"}}
    written = converted(record(tmp_path / "h_2026_05_01_09_00_00.mcap", content), values)
    assert written.report["totals"]["received"] == len(content)
    assert written.report["samples"] > 20
