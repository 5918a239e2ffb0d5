"""A recording and a live capture in which several topics fit: both take the same one, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from livedrive import HOST, NOON_NS, SEQUENCE, check_sums, messages, output_files
from recorded import record
from typer.testing import CliRunner
from written import Written

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.messages.measurement import RawMessage
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


def test_the_same_topic_is_taken_live_and_from_a_recording(tmp_path: Path) -> None:
    config = build_config(VALUES)
    recording = record(tmp_path / f"{SEQUENCE}.mcap", two_lidars())
    offline = convert([recording], tmp_path / "offline", config, dataset="same")
    live = LiveCapture(config, tmp_path / "live", HOST, now_ns=lambda: NOON_NS)
    live.start("same", sequence=SEQUENCE)
    for message in two_lidars():
        live.put(message)
    (finished,) = live.stop(60.0)
    for report in (offline.report, finished.report):
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


def test_info_says_which_topic_convert_would_take(tmp_path: Path) -> None:
    recording = record(tmp_path / f"{SEQUENCE}.mcap", two_lidars())
    config = tmp_path / "c.yaml"
    config.write_text("topics: {lidar_points: {topic: [/none, '/sensors/.*/points']}}")
    shown = CliRunner().invoke(app, ["info", str(recording), "--config", str(config)]).output
    assert f"takes {FRONT}, the first by name" in " ".join(shown.split())
