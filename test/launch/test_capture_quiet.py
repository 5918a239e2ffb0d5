"""What a capture's log says: no warning while all is well, and what may be meant when it is not."""

from __future__ import annotations

import json
import re
from pathlib import Path

from livedrive import drive
from rosgraph import Graph, needs_ros

pytestmark = needs_ros

MACHINE = re.compile(r"receive buffer|disk: full in")
"""Warnings about the machine that the test runs on."""


def warnings(log: str) -> list[str]:
    return [
        line
        for line in log.splitlines()
        if re.search(r"\[(WARN|ERROR|FATAL)\]|warning:", line, re.IGNORECASE) and not MACHINE.search(line)
    ]


def test_two_sessions_and_a_split_of_a_normal_drive_warn_of_nothing(graph: Graph, tmp_path: Path) -> None:
    node = graph.capture(tmp_path / "out", "ego.wait_s:=2.0", "formats:=[edgefirst,ncore]")
    graph.activate()
    status = graph.status()
    first = status()["session"]
    graph.spin(4.5)  # a node may be there before the sensors are
    players = [graph.player(drive(), "--restamp")]
    assert players[0].join(60.0) == 0, players[0].text
    assert graph.trigger("/capture/stop")[0]
    assert graph.trigger("/capture/start")[0]
    players.append(graph.player(drive(), "--restamp"))
    graph.wait(
        "messages",
        lambda: status()["session"] not in {"none", first} and int(status()["received"]) > 50,
        alive=[node],
    )
    assert graph.trigger("/capture/split")[0]
    assert players[1].join(60.0) == 0, players[1].text
    assert graph.change("deactivate")
    assert warnings(node.text) == [], node.text
    reports = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("capture_report.json")]
    assert len(reports) == 3
    assert all(report["warnings"] == report["hints"] == [] for report in reports)


def test_a_session_without_its_camera_says_which_one_may_be_meant(graph: Graph, tmp_path: Path) -> None:
    from rclpy.qos import qos_profile_sensor_data  # noqa: PLC0415
    from sensor_msgs.msg import Image, PointCloud2, Range  # noqa: PLC0415

    for kind, topic in (
        (Image, "/camera/image_raw"),
        (Range, "/range"),
        (PointCloud2, "/top/points"),
        (PointCloud2, "/clusters"),
        (PointCloud2, "/s/rear/points"),
    ):
        graph.node.create_publisher(kind, topic, qos_profile_sensor_data)  # best effort
    camera = "/camera/image_raw/compressed"
    given = [f"topics.camera.topic:={camera}", "topics.lidar_points.topic:=/range", "unlisted:=false"]
    given += ["topics.radar_targets.topic:=['/none', '/s/.*/points']", "topics.imu.topic:=''"]
    given += ["topics.lidar_clusters.topic:=/clusters"]
    given += ["qos_overrides./clusters.subscription.reliability:=reliable"]
    node = graph.capture(tmp_path / "out", *given)
    graph.activate()
    status = graph.status()
    hint = f"/camera/image_raw (sensor_msgs/msg/Image) is there; topics.camera.topic is {camera}"
    graph.wait("a hint", lambda: status().get("hint 1") == hint, 20.0, [node])
    assert status()["message"].startswith(f"no camera yet; {hint}")
    there = "/range is there but of type sensor_msgs/msg/Range; supported: "
    (wrong,) = (text for text in status().values() if text.startswith(there))
    assert "sensor_msgs/msg/PointCloud2" in wrong
    graph.wait("its subscription", lambda: graph.node.count_subscribers("/s/rear/points") == 1, 10.0, [node])
    assert graph.node.count_subscribers("/top/points") == 0
    assert graph.change("deactivate")
    assert f"hint: {hint}" in node.text
    (report,) = (json.loads(path.read_text()) for path in (tmp_path / "out").rglob("capture_report.json"))
    assert {hint, wrong} <= set(report["warnings"])  # somebody named them
    said = "/clusters is there but nothing is received from test"
    (weak,) = (each for each in report["hints"] if each.startswith(said))
    assert "reliab" in weak.lower()
