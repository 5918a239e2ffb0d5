"""The report over all drives, and its page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from edgefirst_ros.fleet.notes import DONE
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.report import fleet_report, page, put_report

ACCOUNT = {
    **dict.fromkeys(("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written"), 0),
    "type": "sensor_msgs/msg/Image",
    "lost_upstream": 0,
    "pairing_error_ms": None,
}


def note(
    drive: str,
    samples: int = 10,
    recorded_s: float = 3600.0,
    lost: dict[str, int] | None = None,
    **topics: dict[str, Any],
) -> dict[str, Any]:
    return {
        "drive": drive,
        "recorded_s": recorded_s,
        "seconds": 900.0,
        "inputs": [{"uri": f"s3://b/{drive}.mcap", "size": 1000, "tag": "1"}],
        "files": {"a.zip": 300, "a.arrow": 200},
        "report": {
            "dataset": f"{drive}-dataset",
            "samples": samples,
            "lost": lost or {},
            "faults": 0,
            "warnings": [],
            "topics": {name: {**ACCOUNT, **counts} for name, counts in topics.items()},
        },
    }


def pairing(worst: float) -> dict[str, Any]:
    return {"pairing_error_ms": {"p50": 0.1, "p95": 0.2, "max": worst}}


def test_totals_are_sums() -> None:
    report = fleet_report(
        [
            note("b", samples=5, lost={"dropped": 2}, lidar={"written": 3}),
            note("a", lidar={"written": 4}, gps={}),
        ],
        [{"drive": "c", "reason": "broken", "inputs": []}],
    )
    assert report["totals"] == {
        "drives": 2,
        "failed": 1,
        "hours": 2.0,
        "job_hours": 0.5,
        "samples": 15,
        "bytes_read": 2000,
        "bytes_written": 1000,
        "lost": {"dropped": 2},
    }
    assert report["sensors"]["lidar"]["drives"] == 2
    assert report["sensors"]["lidar"]["written"] == 7
    assert report["sensors"]["gps"]["drives"] == 1
    assert [each["drive"] for each in report["drives"]] == ["a", "b"]
    assert report["drives"][0]["speed"] == 4.0


def test_the_worst_pairing_errors_come_first() -> None:
    notes = [note(f"d{n:02}", lidar=pairing(float(n)), radar=pairing(0.5)) for n in range(30)]
    worst = fleet_report(notes, [])["worst_pairing"]
    assert [each["max"] for each in worst] == [float(n) for n in range(29, 9, -1)]
    assert worst[0] == {"drive": "d29", "topic": "lidar", "p50": 0.1, "p95": 0.2, "max": 29.0}


class Found(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in {"src", "href"} and value]


def test_the_page_needs_nothing_else_and_is_for_light_and_dark() -> None:
    text = page(fleet_report([note("a", lidar=pairing(1.0))], [{"drive": "c", "reason": "x", "inputs": []}]))
    found = Found(text)
    assert not found.tags & {"script", "link", "img", "iframe"}
    assert found.links == []
    assert "url(" not in text
    assert "color-scheme: light dark" in text


def test_nothing_runs_or_loads_in_the_page_even_if_markup_got_into_it() -> None:
    text = page(fleet_report([], []))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "script-src 'none'" in policy[1]
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy[1]


def test_names_cannot_be_markup() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J\u061c\u200b"
    text = page(
        fleet_report(
            [note(hostile, **{hostile: pairing(1.0)})], [{"drive": "c", "reason": hostile, "inputs": []}]
        )
    )
    assert "<script" not in text
    assert not set(text) & set("\x1b\u061c\u200b")
    assert len(re.findall(r"&lt;script&gt;", text)) == 5


def test_an_empty_fleet_has_a_page() -> None:
    assert "nothing" in page(fleet_report([], []))


def test_runs_that_end_at_once_write_one_report(tmp_path: Path) -> None:
    """Each run notes a drive, then reports; what the last one writes has all of them."""
    output = open_output(str(tmp_path))

    def end_of_run(number: int) -> None:
        output.notes.put(f"{DONE}/{number:02}", {"key": "", **note(f"drive{number:02}")})
        put_report(output)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(end_of_run, range(40)))
    report = json.loads((tmp_path / "fleet_report.json").read_bytes())
    assert [drive["drive"] for drive in report["drives"]] == [f"drive{n:02}" for n in range(40)]
    assert "drive39" in (tmp_path / "fleet_report.html").read_text()
    assert not list(tmp_path.glob("*.new"))
