"""What is captured over DDS is, byte for byte, what converting the recording gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from livedrive import SEQUENCE, check_sums
from places import contents
from rosgraph import Graph, needs_ros

from edgefirst_ros.config.files import load_values
from edgefirst_ros.config.model import MAIVIN_TOPICS, build_config
from edgefirst_ros.offline.convert import convert

pytestmark = needs_ros

REPORT = "capture_report.json"


def same_clocks(path: Path, formats: list[str]) -> Path:
    """A configuration in which no time hangs on when a message came, and no pose on what comes much later.

    The drive is stamped with one clock, so the stamp is the time; a known latency shows that offsets hold.
    """
    topics: dict[str, dict[str, object]] = {name: {"clock": "stamp"} for name in MAIVIN_TOPICS}
    topics["model"]["offset_ms"] = -3.0
    values: dict[str, Any] = {"topics": topics, "formats": formats, "host": "maivin-sim", "min_free_mb": 1.0}
    values["ego"] = {"smoothing": "lag"}
    values["overload"] = {"latency_s": 0.0}  # a busy machine may not leave samples out
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
    return path


def files(root: Path) -> dict[str, bytes]:
    return contents(root, REPORT)


def accounts(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The accounts by topic; the middleware pads messages, so their bytes differ."""
    return {
        topic: {name: value for name, value in account.items() if name != "bytes"}
        for topic, account in report["topics"].items()
    }


def test_live_equals_replay(graph: Graph, tmp_path: Path, recorded_drive: Path) -> None:
    given = same_clocks(tmp_path / "config.yaml", ["edgefirst", "ncore", "l5kit"])
    live, offline = tmp_path / "live", tmp_path / "offline"
    node = graph.start(
        *("python3", "-m", "edgefirst_ros.nodes.capture", "--ros-args", "--params-file", str(given)),
        *("-p", f"output:={live}", "-p", "name:=drive", "-p", f"session:={SEQUENCE}"),
        *("-p", "stop_within_s:=60.0"),  # a busy machine has more left to write than the default allows for
    )
    graph.activate()
    status = graph.status()
    player = graph.player(recorded_drive, "--settle", "3")
    assert player.join(60.0) == 0, player.text
    played = int(player.text.split()[-1])
    graph.wait("every message", lambda: int(status().get("received", 0)) == played, alive=[node])
    assert graph.change("deactivate")

    report = json.loads((live / "edgefirst" / "drive" / REPORT).read_text())
    check_sums(report)
    assert report["totals"]["received"] == played
    assert report["totals"]["dropped"] == 0, report["topics"]
    assert report["samples"] >= 30

    config = build_config(load_values(given))
    conversion = convert([recorded_drive], offline, config, dataset="drive")
    expected = files(offline)
    assert len(expected) >= 6
    assert files(live).keys() == expected.keys()
    different = [name for name, data in files(live).items() if data != expected[name]]
    assert not different
    assert report["samples"] == conversion.report["samples"]
    assert accounts(report) == accounts(conversion.report)
