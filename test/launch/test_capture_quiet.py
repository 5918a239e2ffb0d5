"""What a capture's log says: no warning while all is well, and what may be meant when it is not."""

from __future__ import annotations

import json
import re
from pathlib import Path

from livedrive import drive
from rosgraph import Graph, needs_ros

pytestmark = needs_ros

MACHINE = re.compile(r"receive buffer|disk: full in")
"""Warnings about the machine that the test runs on."""


def warnings(log: str) -> list[str]:
    return [
        line
        for line in log.splitlines()
        if re.search(r"\[(WARN|ERROR|FATAL)\]|warning:", line, re.IGNORECASE) and not MACHINE.search(line)
    ]


def test_two_sessions_and_a_split_of_a_normal_drive_warn_of_nothing(graph: Graph, tmp_path: Path) -> None:
    node = graph.capture(tmp_path / "out", "ego.wait_s:=2.0", "formats:=[edgefirst,ncore]")
    graph.activate()
    status = graph.status()
    first = status()["session"]
    graph.spin(4.5)  # a node may be there before the sensors are
    players = [graph.player(drive(), "--restamp")]
    assert players[0].join(60.0) == 0, players[0].text
    assert graph.trigger("/capture/stop")[0]
    assert graph.trigger("/capture/start")[0]
    players.append(graph.player(drive(), "--restamp"))
    graph.wait(
        "messages",
        lambda: status()["session"] not in {"none", first} and int(status()["received"]) > 50,
        alive=[node],
    )
    assert graph.trigger("/capture/split")[0]
    assert players[1].join(60.0) == 0, players[1].text
    assert graph.change("deactivate")
    assert warnings(node.text) == [], node.text
    reports = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("capture_report.json")]
    assert len(reports) == 3
    assert all(report["warnings"] == report["hints"] == [] for report in reports)
