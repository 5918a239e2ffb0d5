"""Reports to make pages of, and what a page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from edgefirst_ros.model.reasons import Reason

START_NS = 1_777_626_000_000_000_000
SECTIONS = (
    *("attention", "drive", "samples", "times", "track", "pictures", "accounting"),
    "configuration",
)


def stream(
    role: str,
    begin_s: float,
    end_s: float,
    hz: float,
    pauses_s: tuple[tuple[float, float], ...] = (),
) -> dict[str, Any]:
    """A topic of a sequence."""
    return {
        "role": role,
        "messages": round((end_s - begin_s) * hz),
        "first_ns": ns(begin_s),
        "last_ns": ns(end_s),
        "usual_interval_ms": 1000 / hz,
        "frame_id": role,
        "pauses": {
            "count": len(pauses_s),
            "total_s": sum(b - a for a, b in pauses_s),
            "longest_ns": [[ns(a), ns(b)] for a, b in pauses_s],
        },
        "latency_ms": {"p50": 3, "p95": 5, "max": 9, "bin_ms": 1.0, "from_ms": 2.0, "counts": [3, 4, 1]},
    }


def ns(since_start_s: float) -> int:
    """A time of the drive."""
    return START_NS + round(since_start_s * 1e9)


def report(streams: dict[str, dict[str, Any]], *, samples: int = 540, frames: int = 540) -> dict[str, Any]:
    """A report of one sequence."""
    return {
        "dataset": "monday",
        "samples": samples,
        "formats": {"edgefirst": {"samples": samples, "messages": 9, "left_out": {}}},
        "topics": {topic: account(each["messages"]) for topic, each in streams.items()},
        "sequences": [
            {
                "name": "s",
                "start_ns": START_NS,
                "reference_frames": frames,
                "sample": samples,
                "incomplete": frames - samples,
                "ended": "end of the recording",
                "clocks": {},
                "streams": streams,
            }
        ],
        "pairing": {},
        "timeline": {"start_ns": START_NS, "bin_ns": 10**9, "bins": [], "topics": {}, "reference_frames": {}},
        "codes": {reason.value: reason.code for reason in Reason},
        "notes": [],
        "hints": [],
        "warnings": [],
        "configuration": {},
        "versions": {},
    }


def account(received: int, kind: str = "sensor_msgs/msg/PointCloud2") -> dict[str, Any]:
    """What became of a topic's messages: all were written."""
    return {"type": kind, "received": received, "written": received, "reasons": {}, "refused_parts": {}}


def data_of(page: str) -> dict[str, Any]:
    """What the page's script draws."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    values: dict[str, Any] = json.loads(found[1])
    return values


def section(page: str, name: str) -> str:
    """The markup of a section."""
    found = re.search(rf'<section id="{name}">(.*?)</section>', page, re.S)
    assert found is not None, name
    return found[1]


def verdict(page: str) -> str:
    """The verdict as text."""
    found = re.search(r'<p id="verdict"[^>]*>(.*?)</p>', page, re.S)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1])


def lane_of(page: str, topic: str) -> dict[str, Any]:
    """What is drawn of a topic."""
    names = re.findall(r'<div class="lane-name"><b>(.*?)</b>.*?data-lane="(\d+)"', page)
    number = next(int(n) for name, n in names if name == topic)
    lane: dict[str, Any] = data_of(page)["lanes"][number]
    return lane


def read(path: Path) -> str:
    """A page."""
    return path.read_text(encoding="utf-8")
