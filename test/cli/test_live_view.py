"""What people see of a capture, on a terminal, in a log and when the terminal is gone."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from edgefirst_ros.cli import liveview
from edgefirst_ros.cli.liveview import LiveView, line
from edgefirst_ros.cli.terminal import print_report
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.reasons import Code, Finding, Reason
from edgefirst_ros.pipeline.ledger import Ledger


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
    assert "queue 25%; disk 64.0 GB free (5.0 h left)" in text
    assert "Hz: camera/h264 30; 1 connected" in text
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
    assert "98,765" not in text
    for words in ("1,234", "25%", "5.0 h left", "1,200"):
        assert words in text


@pytest.mark.parametrize(
    ("more", "marked"),
    [
        ({"age_s": 5.5}, True),
        ({"age_s": 4.5}, False),
        ({"age_s": 5.5, "usual_hz": 0.5}, False),
        ({"age_s": 6.5, "usual_hz": 0.5}, True),
        ({"age_s": None}, False),
    ],
)
def test_a_topic_that_stopped_is_marked(more: dict[str, Any], marked: bool) -> None:
    table = liveview._table(status(topics={"/imu": row(**more)}))
    assert [each.style for each in table.rows] == ["yellow" if marked else None]


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


def test_a_disk_that_fills_is_told_once_but_not_of_the_first_seconds_rate() -> None:
    console = Console(file=io.StringIO(), width=200)
    rate = {"bytes_per_s": 10e6, "spare_bytes": 60 * 8 * 10_000_000}
    with LiveView(console, quiet=False) as view:
        view.update(status(**rate, elapsed_s=1.0), 1, [])
        assert "disk: full" not in shown(console)
        for _ in range(2):
            view.update(status(**rate, elapsed_s=9.0), 1, [])
        view.update(status(**rate | {"spare_bytes": -1}, elapsed_s=10.0), 1, [])
    assert [line for line in shown(console).splitlines() if line.startswith("disk: ")] == [
        "disk: full in 8 min at this rate",
        "disk: full: less than min_free_mb is left",
    ]


def test_quiet_shows_nothing() -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    with LiveView(console, quiet=True) as view:
        view.update(status(), 1, ["a note"])
    assert shown(console) == ""


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


def test_a_report_names_what_was_lost_upstream_where_anything_was() -> None:
    for lost in (0, 37):
        console = Console(file=io.StringIO(), width=140)
        ledger = Ledger()
        ledger.lose("/imu", "sensor_msgs/msg/Imu", 5, 100, Reason.QUEUE_FULL)
        account = ledger.snapshot()["/imu"] | {"lost_upstream": lost}
        report = {"topics": {"/imu": account}, "sequences": [], "formats": {}, "notes": [], "warnings": []}
        print_report(console, report)
        assert ("upstream" in shown(console)) == ("37" in shown(console)) == bool(lost)
        assert f"/imu: 5 dropped: {Reason.QUEUE_FULL}" in shown(console)


def test_what_is_shed_is_told_with_what_would_help() -> None:
    shedding = status(
        shed={"ncore": (300, 900)},
        shedding={"ncore": 0.5},
        help="what would help: fewer formats",
        topics={"/camera/h264": row(dropped=10, shed=10)},
    )
    assert "shed ncore 300 of 900 samples" in line(shedding, 1)
    assert "shed" not in line(status(), 1)
    text = io.StringIO()
    with LiveView(Console(file=text, width=200), quiet=False) as view:
        view.update(shedding, 1, ())
        view.update(shedding, 1, ())
    assert text.getvalue().count("shedding ncore (50% written); what would help: fewer formats") == 1
    text = io.StringIO()
    Console(file=text, width=200).print(liveview._panel(shedding, 1))
    assert "shed: ncore 300 of 900 samples; what would help: fewer formats" in text.getvalue()
    assert "10" not in text.getvalue().partition("/camera/h264")[2].splitlines()[0]
