"""What people see of a capture, on a terminal, in a log and when the terminal is gone."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from edgefirst_ros.cli import liveview
from edgefirst_ros.cli.liveview import LiveView, line
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.reasons import Code, Finding


def row(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any column
    usual = {
        "received": 1200,
        "dropped": 0,
        "refused": 0,
        "lost_upstream": 0,
        "rate_hz": 30.0,
        "usual_hz": 30.0,
        "age_s": 0.03,
        "latency_ms": 25.0,
    }
    return usual | changes


def status(**changes: Any) -> LiveStatus:  # noqa: ANN401 - any field
    usual: dict[str, Any] = {
        "session": "maivin_2026_05_01_12_00_00-dataset",
        "samples": 1234,
        "received": 98765,
        "dropped": 7,
        "bytes_written": 456_000_000,
        "queue_fill": 0.25,
        "free_bytes": 64_000_000_000,
        "topics": {
            "/camera/h264": row(),
            "/radar/cube": row(rate_hz=0.0, age_s=9.0, dropped=7, lost_upstream=3, latency_ms=None),
        },
        "warnings": (),
        "failure": "",
        "silent": {"lidar_points": ("lidar/points",)},
        "elapsed_s": 75.0,
        "bytes_per_s": 2_000_000.0,
        "spare_bytes": 36_000_000_000,
    }
    return LiveStatus(**(usual | changes))


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_line_says_all_that_matters() -> None:
    text = line(status(), 1)
    for words in (
        "1:15: 1,234 samples",
        "456 MB",
        "98,765 messages received",
        "7 dropped",
        "3 lost upstream",
    ):
        assert words in text
    assert "queue 25%, 0.0 s behind, disk 64.0 GB free (5.0 h left)" in text
    assert "1 connected, 98,765 messages" in text
    assert text.endswith("Hz: camera/h264 30")
    assert "not connected" in line(status(bytes_per_s=0.0), 0)
    assert "h left" not in line(status(bytes_per_s=0.0), 0)
    assert "nothing is received" in line(status(topics={}), 0)


def test_a_terminal_shows_every_topic_in_its_place() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with LiveView(console, quiet=False) as view:
        view.update(status(), 2, [])
    text = shown(console)
    for words in ("/camera/h264", "/radar/cube", "2 connected", "waiting for lidar_points (lidar/points)"):
        assert words in text
    for words in ("1,234", "25%", "5.0 h left", "1,200"):
        assert words in text


def test_a_log_gets_a_line_now_and_then_and_what_changes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=300)
    view = LiveView(console, quiet=False)
    view.update(status(), 0, [])
    assert shown(console) == ""
    view.update(status(), 1, ["more than one device"])
    first = shown(console)
    assert "note: more than one device" in first
    assert "1 connected" in first
    assert "waiting for lidar_points" in first
    view.update(status(), 1, ["more than one device"])
    assert shown(console) == first
    view.update(status(warnings=("new sequence: the wall clock was stepped",)), 0, [])
    rest = shown(console).removeprefix(first)
    assert "note: new sequence: the wall clock was stepped" in rest
    assert "not connected" in rest
    assert "nothing yet" not in rest
    found = {"/gps": Finding(Code.REFUSED, "50 of the last 50 messages were refused: no fix (status)")}
    for _ in range(2):
        view.update(status(findings=found), 0, [])
    assert shown(console).count("/gps: 50 of the last 50 messages were refused") == 1
    monkeypatch.setattr(liveview, "LINE_EVERY_S", 0.0)
    view.update(status(silent={}), 0, [])
    assert "every sensor has sent something" in shown(console)


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, _: str) -> int:
        raise OSError(5, "Input/output error")

    def flush(self) -> None:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_that_is_gone_ends_nothing(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with LiveView(console, quiet=False) as view:
        view.update(status(), 1, [])
        console.file = Gone()
        view.update(status(), 0, ["note"])
        view.update(status(), 1, ["another"])
