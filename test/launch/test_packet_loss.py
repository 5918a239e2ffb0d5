"""A network that loses one packet in fifty: what is offered as reliable arrives whole, as at a recorder."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from livedrive import messages
from rosgraph import Graph, needs_ros

pytestmark = needs_ros

LOSSY = "<Internal><Test><XmitLossiness>20</XmitLossiness></Test></Internal></Domain>"
"""Cyclone DDS itself drops so many packets of a thousand, also those that ask for lost ones again."""


def received(graph: Graph, drive: Path, tmp_path: Path, *options: str) -> Mapping[str, int]:
    """How many messages of each topic a capture got."""
    given = graph.environment.get("CYCLONEDDS_URI", "<CycloneDDS><Domain></Domain></CycloneDDS>")
    graph.environment["CYCLONEDDS_URI"] = given.replace("</Domain>", LOSSY)
    capture = graph.capture(tmp_path / "out", "formats:=[edgefirst]")
    graph.activate()
    player = graph.player(drive, "--settle", "3", *options)
    graph.wait("the end of the drive", lambda: player.code is not None, 120.0, [capture])
    assert player.code == 0, player.text
    graph.spin(3.0)
    capture.send(signal.SIGINT)
    assert capture.join() == 0, capture.text
    (report,) = (tmp_path / "out").rglob("capture_report.json")
    topics = json.loads(report.read_text())["topics"]
    return {topic: account["received"] for topic, account in topics.items()}


def sent(counts: Mapping[str, int]) -> Mapping[str, int]:
    every = Counter(each.topic for each in messages())
    return {topic: every[topic] for topic in counts}


@pytest.mark.long
def test_nothing_that_is_offered_as_reliable_is_lost(
    graph: Graph, recorded_drive: Path, tmp_path: Path
) -> None:
    counts = received(graph, recorded_drive, tmp_path)
    assert len(counts) >= 8
    assert counts == sent(counts)


@pytest.mark.long
def test_what_is_offered_as_best_effort_is_lost(graph: Graph, recorded_drive: Path, tmp_path: Path) -> None:
    counts = received(graph, recorded_drive, tmp_path, "--best-effort")
    assert 0.5 < sum(counts.values()) / sum(sent(counts).values()) < 0.995
