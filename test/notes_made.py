"""A sound note of each kind that the conversion of many drives leaves in its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgefirst_ros.fleet.notes import BEGUN, DONE, FAILED, Key

KEY = Key("d" * 12, "a" * 12, "5" * 12)
SOUND: Mapping[str, Mapping[str, Any]] = {
    DONE: {
        "drive": "a", "dataset": "a-dataset", "grade": "good", "page": "edgefirst/a/capture_report.html",
        "samples": 10, "bytes_read": 1000, "bytes_written": 500, "recorded_s": 3600.0, "seconds": 900.0,
        "core_s": 1800.0, "lost": {"refused": 1}, "warnings": ["something"], "faults": 0, "note": "",
    },
    FAILED: {"drive": "a", "reason": "x"},
    BEGUN: {"drive": "a", "host": "h", "pid": 7, "unix_s": 1},
}  # fmt: skip
