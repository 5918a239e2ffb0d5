"""use_sim_time: receive times are of /clock, at any pace, from 0, through pauses and resets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from livedrive import check_sums
from rosgraph import Graph, needs_ros

from edgefirst_ros.model.reasons import Reason

pytestmark = needs_ros

FRAMES = 35
SENSORS = ("/camera/h264", "/gps", "/imu", "/lidar/points", "/radar/targets")


def levels(messages: list[Any], topic: str) -> list[str]:
    """What was said of a topic, each time."""
    return [each.message for array in messages for each in array.status if each.name == f"capture: {topic}"]


def captured(graph: Graph, output: Path, recording: Path, *options: str) -> tuple[dict[str, Any], int]:
    """The report of a capture of simulated time, and how many messages were sent."""
    node = graph.capture(output, "use_sim_time:=true", "name:=drive", "host:=sim")
    graph.activate()
    status = graph.status()
    player = graph.player(recording, "--simulate", *options)
    assert player.join(90.0) == 0, player.text
    played = int(player.text.split()[-1])
    graph.wait("every message", lambda: int(status().get("received", 0)) == played, alive=[node])
    assert graph.change("deactivate")
    report: dict[str, Any] = json.loads((output / "edgefirst/drive/capture_report.json").read_text())
    check_sums(report)
    return report, played


def test_a_simulation_at_another_pace_is_one_sequence(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    from diagnostic_msgs.msg import DiagnosticArray  # noqa: PLC0415

    heard = graph.listen(DiagnosticArray, "/diagnostics")
    report, played = captured(graph, tmp_path, recorded_drive, "--rate", "0.6", "--pause", "1.5")
    assert not [text for text in levels(heard, "/imu") if "slow" in text or "silent" in text]
    assert report["totals"]["received"] == played
    assert report["topics"]["/tf_static"]["refused"] == report["topics"]["/camera/info"]["refused"] == 0
    assert len(report["sequences"]) == 1, report["notes"]
    clocks = report["sequences"][0]["clocks"]
    assert {name: clocks[name]["offset_ns"] for name in SENSORS} == dict.fromkeys(SENSORS, 0)
    assert [note for note in report["notes"] if "sequence" in note or "later than" in note] == []
    # A busy machine may shed samples; their times and pairs are those of the simulation all the same.
    assert report["samples"] >= FRAMES // 2
    for topic in ("/lidar/points", "/model/output"):
        assert report["topics"][topic]["pairing_error_ms"]["max"] < 5.0


def test_a_simulation_that_is_reset_begins_another_sequence(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    report, played = captured(graph, tmp_path, recorded_drive, "--rounds", "2")
    assert report["totals"]["received"] == played
    assert len(report["sequences"]) == 2, report["notes"]
    assert "new sequence: the receiver's clock was set back" in report["notes"]
    # A busy machine may shed samples, after their pictures were decoded; nothing else may be missing.
    camera = report["topics"]["/camera/h264"]
    shed = sum(
        count for why, count in camera["reasons"].get("dropped", {}).items() if why.startswith(Reason.SHED)
    )
    assert camera["written"] + shed == 2 * FRAMES, camera
