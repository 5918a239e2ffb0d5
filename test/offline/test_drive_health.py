"""Sensors of a whole drive that fail while they go on sending: what the report, page and table say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from faulty import FaultyOptions, GpsErrors

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.reasons import Code, Severity
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report.judge import Verdict, judge
from edgefirst_ros.report.models import parsed
from edgefirst_ros.report.page.make import make_page

SMALL: dict[str, Any] = {
    "seconds": 10, "fps": 10, "width": 160, "height": 90, "lidar_points": 1500, "lidar_hz": 5, "imu_hz": 20,
    "radar_hz": 1, "cube_hz": 0, "model_hz": 1, "clock": "realtime",
}  # fmt: skip


def drive(folder: Path, **options: Any) -> tuple[Verdict, dict[str, Any]]:  # noqa: ANN401
    recording = simulate(folder, FaultyOptions(**{**SMALL, **options})).mcap
    config = build_config({"formats": ["edgefirst"], "ego": {"smoothing": "lag"}})
    report = convert([recording], folder / "out", config, dataset="d").report
    return judge(parsed(report)), report


def found(verdict: Verdict, code: Code) -> tuple[float, float]:
    """Begin and end of the only finding of a code, in seconds since the drive's start."""
    (finding,) = [each for each in verdict.findings if each.code is code]
    start_s = FaultyOptions().start_ns / 1e9
    return (finding.begin_ns or 0) / 1e9 - start_s, (finding.end_ns or 0) / 1e9 - start_s


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verdict, dict[str, Any]]:
    """A camera that goes black and comes back, and a lidar that freezes for good."""
    folder = tmp_path_factory.mktemp("faulty")
    verdict, report = drive(folder, black=((3.0, 6.0),), frozen={"lidar/points": ((5.0, 10.0),)})
    return folder / "out" / "edgefirst" / "d", verdict, report


def test_each_is_found_when_it_was(faulty: tuple[Path, Verdict, dict[str, Any]]) -> None:
    _, verdict, report = faulty
    assert found(verdict, Code.BLACK) == pytest.approx((3.0, 6.0), abs=0.15)
    assert found(verdict, Code.FROZEN) == pytest.approx((5.0, 10.0), abs=0.3)
    assert verdict.grade == "fair"
    assert sum("is black" in each or "is frozen" in each for each in report["warnings"]) == 2


def test_the_page_says_so_at_its_top_and_shows_it(faulty: tuple[Path, Verdict, dict[str, Any]]) -> None:
    page = make_page(faulty[0]).read_text()
    head = page[: page.index('<section id="attention"')]
    assert "is black for" in head
    assert "is frozen" in head
    assert "black: camera/h264" in page  # a thumbnail


def test_a_row_a_sample_has_the_measures(faulty: tuple[Path, Verdict, dict[str, Any]]) -> None:
    dataset = edgefirst_ros.open(faulty[0]).with_keys(["quality"])
    rows = [dataset[n]["quality"] for n in range(len(dataset))]
    assert len(rows) == faulty[2]["samples"]
    dark = [n for n, row in enumerate(rows) if row["camera_luminance"] < 5]
    assert (min(dark), max(dark), len(dark)) == (
        pytest.approx(30, abs=1),
        pytest.approx(59, abs=1),
        len(dark),
    )
    lidar = [row["lidar_repeated"] for row in rows if "lidar_repeated" in row]
    assert lidar[0] == 0
    assert lidar[-1] == 1
    assert {row["lidar_points"] for row in rows if "lidar_points" in row} != set()


def test_of_a_drive_that_stands_nothing_is_broken(tmp_path: Path) -> None:
    gps = GpsErrors(sigma_m=(0.3, 0.5))  # without noise the receiver would be taken for frozen
    verdict, _ = drive(tmp_path, seconds=6, stops=((0.0, 6.0),), traffic="none", gps=gps)
    broken = [each for each in verdict.findings if each.code in {Code.FROZEN, Code.BLACK, Code.BLANK}]
    assert {each.severity for each in broken} <= {Severity.NOTE}
