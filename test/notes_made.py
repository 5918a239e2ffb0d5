"""A sound note of each kind that a fleet's conversion leaves in its output."""

from __future__ import annotations

from typing import Any

from edgefirst_ros.fleet.keys import Key
from edgefirst_ros.fleet.notes import DONE, FAILED, PLAN, RUNNING

KEY = Key("d" * 16, "a" * 16, "5" * 16)
_ACCOUNT = {
    **dict.fromkeys(("received", "decoded", "refused", "skipped", "unpaired", "dropped", "written"), 3),
    "type": "sensor_msgs/msg/PointCloud2",
    "lost_upstream": 1,
    "pairing_error_ms": {"p50": 0.1, "p95": 0.2, "max": 0.3},
}
SOUND: dict[str, dict[str, Any]] = {
    DONE: {
        "drive": "a",
        "key": str(KEY),
        "recorded_s": 3600.0,
        "seconds": 900.0,
        "inputs": [{"uri": "s3://b/a.mcap", "size": 1000, "tag": "1"}],
        "files": {"a.zip": 300, "a.arrow": 200},
        "report": {
            "dataset": "a-dataset",
            "samples": 10,
            "lost": {"refused": 1},
            "faults": 0,
            "warnings": ["something"],
            "topics": {"lidar": _ACCOUNT},
        },
    },
    FAILED: {"drive": "b", "key": str(KEY), "reason": "x", "inputs": [{"uri": "/b.mcap"}], "again": True},
    RUNNING: {"drive": "d" * 16, "run": "r", "pid": 7, "unix_s": 1, "attempts": 2, "host": "h"},
    PLAN: {"unix_s": 1, "drives": {"a": str(KEY)}},
}
