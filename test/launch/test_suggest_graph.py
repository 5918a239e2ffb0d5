"""What is published in a graph becomes a configuration, with which a capture takes all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from livedrive import check_sums
from rosgraph import Graph, needs_ros
from written import Written

pytestmark = needs_ros

PICTURES = 60
ROBOT = str(Path(__file__).with_name("robot.py"))
SUGGEST = (sys.executable, "-m", "edgefirst_ros.nodes.suggest")


def test_a_robot_that_nobody_described_is_captured_as_suggested(graph: Graph, tmp_path: Path) -> None:
    """Latched transforms and calibration are heard, too, though they were sent before."""
    suggest = graph.start(*SUGGEST, "--seconds", "6")
    robot = graph.start(sys.executable, ROBOT, "--pictures", str(PICTURES))
    assert suggest.join(60.0) == 0, suggest.text
    given = yaml.safe_load(suggest.text)["/**"]["ros__parameters"]
    assert {name: rule["topic"] for name, rule in given["topics"].items()} == {
        "camera": "/camera/image_raw/compressed",
        "camera_info": "/camera/camera_info",
        "lidar_points": "/points",
        "imu": "/imu/data",
        "gps": "/fix",
        "odometry": "/odometry/filtered",
        "tf": "/tf_static",
    }
    assert robot.join(60.0) == 0, robot.text

    path = tmp_path / "robot.yaml"
    path.write_text(suggest.text)
    node = graph.start(
        *(sys.executable, "-m", "edgefirst_ros.nodes.capture", "--ros-args", "--params-file", str(path)),
        *("-p", f"output:={tmp_path / 'out'}", "-p", "min_free_mb:=1.0", "-p", "name:=tour"),
        *("-p", "overload.latency_s:=0.0"),
    )
    graph.activate()
    status = graph.status()
    again = graph.start(sys.executable, ROBOT, "--pictures", str(PICTURES))
    assert again.join(60.0) == 0, again.text
    graph.wait("samples", lambda: int(status()["received"]) >= PICTURES * 5, alive=[node])
    assert graph.change("deactivate")
    report = Written(tmp_path / "out" / "edgefirst" / "tour").report
    check_sums(report)
    for topic in ("/camera/image_raw/compressed", "/points"):
        assert report["topics"][topic]["written"] == PICTURES
    assert report["topics"]["/odometry/filtered"]["received"] > 4 * PICTURES


def test_an_empty_graph_has_nothing_that_samples_could_begin_with(graph: Graph) -> None:
    suggest = graph.start(*SUGGEST, "--seconds", "1")
    assert suggest.join(60.0) == 2
    assert "no camera and no lidar" in suggest.text
