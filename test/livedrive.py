"""One small drive that the tests of live capture share, its messages, and a comparison of datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from drives import simulated
from faulty import FaultyOptions
from places import contents

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ledger import COLUMNS
from edgefirst_ros.sources.mcap import McapRecording

HOST = "maivin-sim"
FORMATS = ("edgefirst", "ncore", "l5kit")
SEQUENCE = "maivin-sim_2026_05_01_09_00_00"
NOON_NS = 1_777_636_800_000_000_000
"""Wall clock of captures in tests, for the names of sessions only."""


@cache
def drive(cube_shape: tuple[int, int, int, int] = (1, 100, 2, 64)) -> Path:
    """A recording of 3.5 s whose every frame has companions of every sensor."""
    options = FaultyOptions(
        seconds=3.5,
        fps=10,
        width=320,
        height=180,
        lidar_points=640,
        cube_shape=cube_shape,
        cube_hz=18.0,
        model_hz=10.0,
        imu_hz=50.0,
        gps_hz=5.0,
        clock="realtime",
        host=HOST,
    )
    return simulated(options).mcap


@cache
def messages() -> tuple[RawMessage, ...]:
    """The drive's messages in the order of their receipt."""
    return tuple(McapRecording(drive()).messages())


@cache
def two_clocks(seconds: float) -> tuple[RawMessage, ...]:
    """Messages of a smaller drive with jitter, by receipt, whose sensors have two clocks."""
    options = FaultyOptions(
        seconds=seconds,
        fps=5,
        width=160,
        height=96,
        lidar_points=200,
        cube_shape=(1, 16, 1, 8),
        cube_hz=18.0,
        model_hz=5.0,
        imu_hz=50.0,
        gps_hz=5.0,
        clock="mixed",
        host=HOST,
        jitter={"*": 3.0},
    )
    return tuple(McapRecording(simulated(options).mcap).messages())


REPORTS = ("capture_report.json", "capture_report.html")


def dataset_files(output: Path) -> dict[str, bytes]:
    """All files of all datasets below an output folder, by path; no recordings, and no reports."""
    return contents(output, ".mcap", *REPORTS)


def live_and_converted(
    folder: Path, messages: Iterable[RawMessage], values: Mapping[str, Any], host: str
) -> tuple[dict[str, bytes], dict[str, bytes], dict[str, Any]]:
    """Dataset files of a capture of these messages, those of its recording converted, and its report."""
    values = {**values, "ego": {"smoothing": "lag"}, "overload": {"latency_s": 0}, "record": True}
    live = LiveCapture(build_config(values), folder / "live", host)
    live.start("d")
    for message in messages:
        live.put(message)
    (done,) = live.stop(120)
    (recording,) = (folder / "live" / "recordings").glob("*.mcap")
    convert([recording], folder / "again", build_config(values | {"record": False}))
    return dataset_files(folder / "live"), dataset_files(folder / "again"), done.report


def output_files(output: Path, formats: Sequence[str] = FORMATS) -> dict[str, bytes]:
    """All that was written below an output folder, by path; not the report of how it came to be."""
    found = contents(output, *REPORTS)
    assert {path.partition("/")[0] for path in found} >= set(formats), found.keys()
    return found


def check_sums(report: dict[str, dict[str, dict[str, int]]]) -> None:
    """Every message is in one column."""
    for topic, account in report["topics"].items():
        assert account["received"] == sum(account[column] for column in COLUMNS), (topic, account)
