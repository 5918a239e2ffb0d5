"""What is said before a conversion against what it makes, and what is said of topics that never come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.hints import absences
from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import TopicMap
from edgefirst_ros.model.reasons import Code, Finding, Reason
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.offline.forecast import forecast
from edgefirst_ros.simulation import DriveOptions

WRONG = "topics: {lidar_points: {topic: lidar/pionts}, gps: {topic: gps}}\n"


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DriveOptions(
        seconds=2,
        fps=10,
        width=160,
        height=90,
        lidar_points=64,
        cube_hz=2,
        cube_shape=(1, 20, 2, 8),
        imu_hz=50,
    )
    return simulate(tmp_path_factory.mktemp("drive"), options).mcap


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a misspelt topic."""
    path = tmp_path_factory.mktemp("config") / "wrong.yaml"
    path.write_text(WRONG)
    return path


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.long(cases=2)
@pytest.mark.parametrize(
    "values", [{}, {"select": {"require": "all"}}, {"rate_hz": 4.0}, {"topics": {"imu": {"topic": ""}}}]
)
def test_what_is_said_beforehand_comes(drive: Path, tmp_path: Path, values: dict[str, Any]) -> None:
    config = build_config({"ego": {"smoothing": "lag"}, **values})
    said = forecast([drive], config)
    made = convert([drive], tmp_path, config).report
    assert (said["samples"], said["complete"]) == (made["samples"], made["complete"])
    assert said["missing"] == made["sequences"][0]["missing"]
    for topic, account in made["topics"].items():
        told = said["topics"][topic]
        assert told["messages"] == account["received"]
        unused = account["refused"] + account["skipped"]
        assert sum(told["ignored"].values()) >= unused - account["reasons"].get("skipped", {}).get(
            Reason.NOT_SELECTED, 0
        )
        found = made["sequences"][0]["clocks"].get(topic)
        assert told["clock"] == (found["finding"] if found else None)
    roles = {topic: told["role"] for topic, told in said["topics"].items()}
    assert roles["/lidar/points"] == "lidar_points"
    assert roles["/radar/cube"] == "radar_cube"
    assert said["topics"]["/lidar/points"]["rate_hz"] == pytest.approx(10, rel=0.05)
    if "topics" in values:
        assert roles["/imu"] is None
        assert list(said["topics"]["/imu"]["ignored"]) == ["no use for sensor_msgs/msg/Imu on this topic"]


def test_a_dry_run_writes_nothing(drive: Path, tmp_path: Path) -> None:
    before = sorted(drive.parent.iterdir())
    code, out, _ = run("convert", drive, "-o", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "would become 20 samples of 20 reference frames, 4 of them complete" in " ".join(out.split())
    assert "would lack radar/cube" in out
    assert "/lidar/points" in out
    code, out, _ = run("convert", drive, "-o", tmp_path / "out", "--dry-run", "--json", "--every", "2")
    assert json.loads(out)["samples"] == 10
    assert not list(tmp_path.iterdir())
    assert sorted(drive.parent.iterdir()) == before


def test_info_says_what_a_configuration_would_make(drive: Path, wrong: Path) -> None:
    code, out, _ = run("info", drive, "--config", wrong)
    assert code == 0
    assert "would become 20 samples" in " ".join(out.split())
    assert "ignored: /lidar/points" in out
    assert "topics.lidar_points.topic is lidar/pionts" in out
    code, out, _ = run("info", drive, "--config", wrong, "--json")
    conversion = json.loads(out)["conversion"]
    assert conversion["samples"] == 20
    assert conversion["topics"]["/lidar/points"]["role"] is None
    assert "conversion" not in json.loads(run("info", drive, "--json")[1])


def missing(topics: dict[str, Any], came: dict[str, int], *, known: bool = False) -> list[Finding]:
    config = build_config({"topics": topics})
    accounts = {topic: {"type": "", "received": n, "refused": 0} for topic, n in came.items()}
    found = absences(config, TopicMap(config, ""), accounts, known=known)
    return [each for each in found if each.code is Code.MISSING]
