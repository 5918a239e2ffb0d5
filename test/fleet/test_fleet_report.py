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
from edgefirst_ros.fleet.page import page
from edgefirst_ros.fleet.report import fleet_report, put_report

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
        "core_hours": 0.5,
        "samples": 15,
        "bytes_read": 2000,
        "bytes_written": 1000,
        "grades": {"unknown": 2},
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
    assert not found.tags & {"link", "img", "iframe"}
    assert found.links == []
    assert "url(" not in text
    assert "color-scheme: light dark" in text


def test_nothing_runs_or_loads_in_the_page_even_if_markup_got_into_it() -> None:
    text = page(fleet_report([], []))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    for kind, of in (("script", "<script>"), ("style", "<style>")):
        (held,) = re.findall(rf"{of}(.*?)</{kind}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(held.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy[1]


def test_names_cannot_be_markup() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J\u061c\u200b"
    text = page(
        fleet_report(
            [note(hostile, **{hostile: pairing(1.0)})], [{"drive": "c", "reason": hostile, "inputs": []}]
        )
    )
    assert "<script>alert" not in text
    assert not set(text) & set("\x1b\u061c\u200b")
    assert len(re.findall(r"&lt;script&gt;", text)) == 4, "in tables: failure, sensor, pairing twice"
    assert len(re.findall(r"\\u003cscript\\u003e", text)) == 1, "in the data: its name"


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


def dated(drive: str, day: int, device: str = "m1", **topics: dict[str, Any]) -> dict[str, Any]:
    made = note(drive, **topics)
    made["report"] |= {"grade": "good", "device": device, "start_ns": (20_000 + day) * 86_400 * 10**9 + 7}
    return made


class TestTrends:
    def rows(self, *notes: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = fleet_report(notes, [])["trends"]
        return found

    def test_a_sensor_that_loses_more_than_before_comes_first(self) -> None:
        sound, bad = {"received": 1000}, {"received": 1000, "dropped": 80, "lost_upstream": 20}
        days = [
            dated(f"d{d}", d, lidar=bad if d > 6 else sound, gps={**sound, "refused": 500}) for d in range(10)
        ]
        first, second = self.rows(*days)
        assert (first["device"], first["sensor"]) == ("m1", "lidar")
        assert first["change"] == "9.8% lost in the last 3 days with drives, before 0.0%"
        assert (second["sensor"], second["change"]) == ("gps", ""), "it was as bad before"
        assert first["days"] == [20_000 + d for d in range(10)]
        assert first["lost_ppm"] == [*[0] * 7, *[98039] * 3]

    def test_a_sensor_that_is_not_there_any_more(self) -> None:
        days = [dated(f"d{d}", d, gps={}, **({"lidar": {}} if d < 8 else {})) for d in range(11)]
        changes = {row["sensor"]: row["change"] for row in self.rows(*days)}
        assert changes == {"lidar": "in 0 of the last 3 drives, before in 8 of 8", "gps": ""}

    def test_devices_are_apart_and_days_add_up(self) -> None:
        days = [
            dated("a", 1, "m1", gps=pairing(3.0)),
            dated("b", 1, "m1", gps={}),
            dated("c", 1, "m2", gps={}),
        ]
        found = {row["device"]: row for row in self.rows(*days)}
        assert found["m1"]["drives"] == [2]
        assert found["m1"]["pairing_ms"] == [0.2]
        assert found["m2"]["drives"] == [1]

    def test_notes_of_earlier_versions_have_none(self) -> None:
        assert self.rows(note("a", gps={})) == []


def test_five_thousand_drives_fit_in_a_page(tmp_path: Path) -> None:
    track = [[45.5 + n / 700, -73.5 - n / 300] for n in range(16)]
    notes = []
    for n in range(5000):
        made = dated(
            f"raivin-{n % 50:02}_2026_03_14_10_20_30-{n:04}", n // 50, f"raivin-{n % 50:02}", gps={}, imu={}
        )
        made["report"] |= {"track": track, "warnings": ["something is to be said of this drive"]}
        notes.append(made)
    text = page(fleet_report(notes, []))
    assert len(text) < 5_000_000


def test_drives_are_linked_to_their_own_pages() -> None:
    made = note("a")
    made["files"]["edgefirst/x/capture_report.html"] = 5
    assert fleet_report([made], [])["drives"][0]["page"] == "a/edgefirst/x/capture_report.html"
    assert '"a/edgefirst/x/capture_report.html"' in page(fleet_report([made], []))
