"""How a capture may end: by signals, by a kill, by a full disk; what was committed is never lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from livedrive import check_sums
from rosgraph import Graph, Process, needs_ros

from edgefirst_ros.formats.edgefirst.recover import recover

pytestmark = needs_ros

LONGEST_S = 20.0
"""Far more than a node is given for its end, for a machine with much else to do; less than for ever."""


def recording_node(graph: Graph, output: Path, drive: Path, *parameters: str, samples: int = 5) -> Process:
    """A node in the middle of a session that has committed so many samples."""
    node = graph.capture(output, "name:=monday", *parameters)
    graph.activate()
    status = graph.status()
    player = graph.player(drive, "--restamp")
    graph.wait("samples", lambda: int(status().get("samples", 0)) >= samples, alive=[player, node])
    return node


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_finishes_the_session(
    graph: Graph, tmp_path: Path, recorded_drive: Path, number: signal.Signals
) -> None:
    node = recording_node(graph, tmp_path / "out", recorded_drive)
    asked_s = time.monotonic()
    node.send(number)
    assert node.join() == 0
    took_s = time.monotonic() - asked_s
    folder = tmp_path / "out" / "edgefirst" / "monday"
    names = ["capture_report.json", "monday.arrow", "monday.manifest", "monday.zip", "quality.parquet"]
    assert sorted(p.name for p in folder.iterdir()) == names
    report = json.loads((folder / "capture_report.json").read_text())
    check_sums(report)
    assert report["samples"] >= 5
    assert took_s < LONGEST_S


def test_an_idle_node_ends_at_the_first_signal(graph: Graph, tmp_path: Path) -> None:
    node = graph.capture(tmp_path / "out")
    assert graph.change("configure")
    graph.spin(1.0)
    node.send(signal.SIGINT)
    assert node.join(LONGEST_S) == 0


def test_what_was_committed_before_a_kill_is_recovered(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    node = recording_node(graph, tmp_path / "out", recorded_drive, samples=8)
    node.send(signal.SIGKILL)
    assert node.join() == -signal.SIGKILL
    folder = tmp_path / "out" / "edgefirst" / "monday"
    assert not (folder / "monday.arrow").exists()
    found = recover(folder)
    assert not found.was_finished
    assert found.kept["samples"] >= 8
    assert found.lost["samples"] == 0
    written = sorted(path.name for path in folder.iterdir() if path.suffix != ".json")
    assert written == ["monday.arrow", "monday.manifest", "monday.zip", "quality.parquet"]


def test_a_full_disk_ends_the_session_finished(graph: Graph, tmp_path: Path, recorded_drive: Path) -> None:
    free_mb = shutil.disk_usage(tmp_path).free / 1e6
    # Others write to this disk and tidy up, too: far more room than they need or leave meanwhile.
    node = recording_node(
        graph, tmp_path / "out", recorded_drive, f"min_free_mb:={free_mb - 1500:.1f}", samples=3
    )
    diagnostics, status = graph.diagnostics(), graph.status()
    with (tmp_path / "filler").open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, 3_000_000_000)
    graph.wait("the end of the session", lambda: status()["state"] == "inactive", alive=[node])
    (tmp_path / "filler").unlink()
    assert status()["level"] == "2"
    assert "less than min_free_mb" in status()["message"]
    graph.wait("the disk's diagnostics", lambda: "capture: disk" in diagnostics)
    assert graph.state() == "inactive"
    report = json.loads((tmp_path / "out/edgefirst/monday/capture_report.json").read_text())
    check_sums(report)
    assert "less than min_free_mb" in report["ended"]
    assert report["samples"] >= 3
    assert (tmp_path / "out/edgefirst/monday/monday.arrow").exists()
