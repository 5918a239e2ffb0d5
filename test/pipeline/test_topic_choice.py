"""A recording and a live capture in which several topics fit: both take the same one, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from livedrive import HOST, NOON_NS, SEQUENCE, check_sums, messages, output_files
from recorded import record
from written import Written

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert

LIDAR = "/lidar/points"
REAR, FRONT = "/sensors/rear/points", "/sensors/front/points"
VALUES = {
    "topics": {"lidar_points": {"topic": "/sensors/.*/points"}},
    "formats": ["edgefirst", "ncore", "l5kit"],
    "ego": {"smoothing": "lag"},
    "min_free_mb": 0,
}


def two_lidars() -> Iterator[RawMessage]:
    """The drive, its lidar on two topics; the one that is last by name comes first, and every other sweep."""
    sweeps = 0
    for message in messages():
        if message.topic != LIDAR:
            yield message
            continue
        sweeps += 1
        if sweeps % 2:
            yield message._replace(topic=REAR)
        yield message._replace(topic=FRONT)


def offline_and_live(
    folder: Path, values: dict[str, Any], content: list[RawMessage]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reports of a conversion and of a capture of the same messages."""
    config = build_config(values)
    recording = record(folder / f"{SEQUENCE}.mcap", content)
    offline = convert([recording], folder / "offline", config, dataset="same")
    live = LiveCapture(config, folder / "live", HOST, now_ns=lambda: NOON_NS)
    live.start("same", sequence=SEQUENCE)
    for message in content:
        live.put(message)
    (finished,) = live.stop(60.0)
    return offline.report, finished.report


@pytest.mark.long
def test_the_same_topic_is_taken_live_and_from_a_recording(tmp_path: Path) -> None:
    reports = offline_and_live(tmp_path, VALUES, [*two_lidars()])
    for report in reports:
        check_sums(report)
        topics = report["topics"]
        assert topics[FRONT]["written"] == topics[FRONT]["received"] - topics[FRONT]["unpaired"] > 20
        assert topics[REAR]["skipped"] == topics[REAR]["received"]
        assert topics[REAR]["reasons"]["skipped"] == {
            f"topics.lidar_points takes {FRONT}": topics[REAR]["received"]
        }
        (note,) = [note for note in report["notes"] if "lidar_points" in note]
        assert f"takes {FRONT}, the first by name; it fits {REAR} as well" in note
    files = output_files(tmp_path / "live")
    assert files == output_files(tmp_path / "offline")
    assert Written(tmp_path / "live" / "edgefirst" / "same").of_kind("lidar.pcd")


A, B = "/lidar_a/points", "/lidar_b/points"
TWO = {
    "topics": {
        "lidar_points": {"topic": A},
        "lidar_b": {"role": "lidar_points", "topic": B, "required": "always"},
    },
    "formats": ["edgefirst", "ncore", "l5kit"],
    "ego": {"smoothing": "lag"},
    "min_free_mb": 0,
}


def lidars_of_two_entries() -> Iterator[RawMessage]:
    """The drive with two lidars, of which the first misses every third sweep, the second every fourth."""
    sweeps = 0
    for message in messages():
        if message.topic != LIDAR:
            yield message
            continue
        sweeps += 1
        if sweeps % 4:
            yield message._replace(topic=B)
        if sweeps % 3:
            yield message._replace(topic=A)


def test_a_role_is_of_one_topic_in_the_whole_dataset(tmp_path: Path) -> None:
    """Of two lidars samples take the first, but for L5Kit's; what they leave out is counted by format."""
    reports = offline_and_live(tmp_path, TWO, [*lidars_of_two_entries()])
    for report in reports:
        check_sums(report)
        first, second = report["topics"][A], report["topics"][B]
        assert first["written_to"]["edgefirst"] == first["received"] - first["unpaired"] > 10
        assert first["left_out"] == {}
        assert second["written_to"].keys() == {"ncore"}
        assert second["written_to"]["ncore"] == second["received"]
        told = {f"samples take lidar_points from {A}": second["received"]}
        assert second["left_out"] == {"edgefirst": told, "l5kit": told}
        assert B not in report["sequences"][0]["missing"], "whatever its entry requires"
    assert output_files(tmp_path / "live") == output_files(tmp_path / "offline")
    clouds = Written(tmp_path / "live" / "edgefirst" / "same").of_kind("lidar.pcd")
    assert len(clouds) == reports[1]["sequences"][0]["companions"][A]["paired"]


def test_the_sensor_of_the_reference_s_device_is_taken(tmp_path: Path) -> None:
    """The second device's lidar, as the reference is that device's camera."""

    def two_devices() -> Iterator[RawMessage]:
        for message in messages():
            if message.topic == LIDAR:
                yield message._replace(topic="/one/lidar/points")
            yield message._replace(topic=f"/two{message.topic}")

    values = {
        "prefix": "two",
        "topics": {
            "lidar_points": {"topic": "/one/lidar/points"},
            "lidar_two": {"role": "lidar_points", "topic": "lidar/points"},
        },
        "ego": {"smoothing": "lag"},
    }
    recording = record(tmp_path / f"{SEQUENCE}.mcap", two_devices())
    report = convert([recording], tmp_path / "out", build_config(values)).report
    one, two = report["topics"]["/one/lidar/points"], report["topics"]["/two/lidar/points"]
    assert one["reasons"] == {
        "skipped": {"samples take lidar_points from /two/lidar/points": one["received"]}
    }
    assert two["written"] == two["received"] - two["unpaired"] > 20
