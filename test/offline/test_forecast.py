"""What is said before a conversion against what it makes, and what is said of topics that never come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from livedrive import messages
from recorded import record
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.hints import absences
from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import TopicMap
from edgefirst_ros.model.reasons import Code, Finding, Reason
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.offline.forecast import forecast, outline
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


@pytest.mark.parametrize(
    "values", [{}, {"complete": True}, {"rate_hz": 4.0}, {"topics": {"imu": {"topic": ""}}}]
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


def test_the_rate_is_of_the_messages_not_of_the_shortest_sequence(
    drive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rest of two messages 2.5 ms apart has 400 Hz."""

    def rest(*arguments: Any, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - as it is called
        report = outline(*arguments, **options)
        (sequence,) = report["sequences"]
        streams = {topic: each | {"messages": 2} for topic, each in sequence["streams"].items()}
        rates_hz = dict.fromkeys(sequence["rates_hz"], 400.0)
        return report | {"sequences": [sequence, sequence | {"streams": streams, "rates_hz": rates_hz}]}

    monkeypatch.setattr("edgefirst_ros.offline.forecast.outline", rest)
    said = forecast([drive], build_config({"ego": {"smoothing": "lag"}}))
    assert said["topics"]["/lidar/points"]["rate_hz"] == pytest.approx(11, abs=1)


def test_a_dry_run_writes_nothing(drive: Path, tmp_path: Path) -> None:
    before = sorted(drive.parent.iterdir())
    code, out, _ = run("convert", drive, "-o", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "would become 20 samples of 20 reference frames, 4 of them complete" in " ".join(out.split())
    assert "would lack radar/cube" in out
    assert "/lidar/points" in out
    code, out, _ = run("convert", drive, "-o", tmp_path / "out", "--dry-run", "--json", "--every-n", "2")
    assert json.loads(out)["samples"] == 10
    assert not list(tmp_path.iterdir())
    assert sorted(drive.parent.iterdir()) == before


def test_info_counts_the_pauses_that_a_report_has(tmp_path: Path) -> None:
    every = [m for m in messages() if m.topic == "/imu"]
    first_ns = every[0].receive_ns
    some = [m for m in messages() if m.topic != "/imu" or not 5 * 10**8 < m.receive_ns - first_ns < 10**9]
    path = record(tmp_path / "drive.mcap", some)
    topics = json.loads(run("info", path, "--whole", "--json")[1])["topics"]
    assert (topics["/imu"]["gaps"], topics["/imu"]["longest_gap_s"]) == (1, pytest.approx(0.5, abs=0.05))
    assert {topic for topic, each in topics.items() if each["gaps"]} == {"/imu"}
    report = convert([path], tmp_path / "out", build_config({"rate_hz": 2.0})).report
    assert report["sequences"][0]["streams"]["/imu"]["pauses"]["count"] == 1


def test_a_dry_run_of_many_drives_says_what_is_to_do(drive: Path, tmp_path: Path) -> None:
    code, out, said = run("convert", drive, "-o", tmp_path / "out", "--dry-run", "--jobs", "2")
    assert code == 0
    assert "1 drive, 0 done, 0 failed before: 1 to convert" in out + said
    assert not (tmp_path / "out").exists()


def test_a_misspelt_topic_is_a_warning_with_the_names_there_are(
    drive: Path, wrong: Path, tmp_path: Path
) -> None:
    arguments = ("convert", drive, "-o", tmp_path, "--config", wrong, "--no-report", "--quiet", "--rate", "2")
    code, _, said = run(*arguments)
    text = "/lidar/points (sensor_msgs/msg/PointCloud2) is there; topics.lidar_points.topic is lidar/pionts"
    assert code == 0
    assert text in said
    assert "topics.gps" not in said
    code, _, said = run(*arguments, "--strict", "--overwrite")
    assert code == 1
    assert text in said


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


CAME = {"/camera/h265": 9, "/imu": 9, "/gps": 9, "/radar/targets": 9, "/lidar/points": 0}


@pytest.mark.parametrize(
    ("topics", "entries"),
    [
        ({}, []),
        ({"lidar_points": {"topic": "lidar/points"}}, ["lidar_points"]),
        ({"lidar_points": {"topic": "lidar/points", "required": "never"}}, []),
        ({"lidar_points": {"topic": ""}}, []),
        ({"camera": {"topic": "camera/h264"}}, []),
        ({"camera": {"topic": "camera/h246"}}, ["camera"]),
        ({"left": {"role": "camera", "topic": "/left/image"}}, ["left"]),
        ({"gps": {"topic": "/fix"}}, ["gps"]),
        ({"odometry": {"topic": "/odom"}}, []),
        ({"tf": {"topic": "tf_static"}}, ["tf"]),
    ],
)
def test_what_is_named_and_never_came(topics: dict[str, Any], entries: list[str]) -> None:
    config = build_config({"topics": topics})
    assert [each.topics[0] for each in missing(topics, CAME)] == [config.topics[e].topic for e in entries]


def test_odometry_takes_the_place_of_a_gps_that_is_not_there() -> None:
    topics = {"gps": {"topic": "/fix"}, "odometry": {"topic": "/odom"}}
    assert missing(topics, {"/odom": 5}) == []


def test_what_is_sent_once_may_have_come_before() -> None:
    assert missing({"tf": {"topic": "tf_static"}}, {"/imu": 5}, known=True) == []


def test_the_nearest_names_come_first_and_are_few() -> None:
    came = {f"/lidar/point{n}": 1 for n in range(9)} | {"/imu": 1, "/lidar/points": 1}
    (found,) = missing({"lidar_points": {"topic": "/lidar/pointz"}}, came)
    assert found.topics == ("/lidar/pointz", "/lidar/point0", "/lidar/point1", "/lidar/point2")
    (found,) = missing({"lidar_points": {"topic": "/velodyne"}}, came)
    assert found.topics == ("/velodyne",)


def test_what_a_whole_set_of_values_names_is_only_what_differs() -> None:
    """As of a node's parameters, and of a recorded session."""
    values = build_config({}).model_dump(mode="json")
    values["topics"]["gps"]["topic"] = "/fix"
    assert build_config(values).named == {"gps"}
