"""A rig of several devices over DDS: one node takes all, and its recording converts to the same bytes."""

from __future__ import annotations

from pathlib import Path

import yaml
from livedrive import dataset_files
from rigdrive import CLOCKS, recorded_rig, settings
from rosgraph import Graph, needs_ros

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.sources.mcap import McapRecording

pytestmark = needs_ros


def test_a_rig_is_what_converting_its_recording_gives(graph: Graph, tmp_path: Path) -> None:
    live, given, rig = tmp_path / "live", tmp_path / "rig.yaml", recorded_rig(tmp_path)
    values = settings("edgefirst", "ncore") | {"overload": {"latency_s": 0.0}, "min_free_mb": 1.0}
    given.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
    node = graph.start(
        *("python3", "-m", "edgefirst_ros.nodes.capture", "--ros-args", "--params-file", str(given)),
        *("-p", f"output:={live}", "-p", "session:=s", "-p", "record:=true", "-p", "stop_within_s:=60.0"),
    )
    graph.activate()
    player = graph.player(rig)
    assert player.join(60.0) == 0, player.text
    played, recording = int(player.text.split()[-1]), live / "recordings" / "s.mcap"
    graph.wait(
        "every message on disk",
        lambda: recording.exists() and len(list(McapRecording(recording).messages())) == played,
        alive=[node],
    )
    assert graph.change("deactivate")
    config = build_config(values | {"ego": {"smoothing": "lag"}})
    done = convert([recording], tmp_path / "again", config)
    assert dataset_files(tmp_path / "again") == dataset_files(live)
    (sequence,) = done.report["sequences"]
    assert sequence["cameras"].keys() == CLOCKS.keys() - {"front"}
    assert all(each["sample"] > 17 for each in sequence["cameras"].values())
