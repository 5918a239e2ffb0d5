"""Hints for what was configured and did not come: in reports, errors and on the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from livedrive import HOST, drive, messages
from recorded import record
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.hints import ExistingTopic, absences
from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import TopicMap
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.reasons import Code, Severity
from edgefirst_ros.model.sample import Role
from edgefirst_ros.offline.inputs import open_recordings

CLOUD, IMAGE, JPEG = "sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
LASER = "sensor_msgs/msg/LaserScan"
LIDAR, SAME = "/lidar/points", "the same name in the namespace"
MEANT = {Code.OTHER_NAME, Code.RAW_PACKETS, Code.UNUSABLE}
CAMERA = {"topic": "/camera/image_raw/compressed"}


def hints(topics: dict[str, Any], there: dict[str, str], **more: Any) -> dict[Role, str]:  # noqa: ANN401
    config = build_config({"topics": topics, **more})
    routes = TopicMap(config, config.prefix or "", list(there.items()))
    accounts = {}
    for topic, kind in there.items():
        route = routes.route(topic)
        wrong = route is not None and kind not in {JPEG, CLOUD, IMAGE, "sensor_msgs/msg/Imu"}
        accounts[topic] = {"type": kind, "received": 5, "refused": 5 * wrong}
    found = [each for each in absences(config, routes, accounts) if each.code in MEANT]
    roles = {rule.topic: rule.role for rule in config.topics.values()}
    return {roles[each.topics[0]]: each.text for each in found}


def test_the_raw_picture_is_there_where_the_compressed_one_is_configured() -> None:
    assert hints(
        {"camera": CAMERA}, {"/camera/image_raw": IMAGE, "/camera/camera_info2": "std_msgs/msg/Empty"}
    ) == {Role.CAMERA: f"/camera/image_raw ({IMAGE}) is there; topics.camera.topic is {CAMERA['topic']}"}


@pytest.mark.parametrize(
    ("kind", "driver"),
    [
        ("velodyne_msgs/msg/VelodyneScan", "velodyne_pointcloud"),
        ("velodyne_msgs/VelodyneScan", "velodyne_pointcloud"),
        ("ouster_ros/msg/PacketMsg", "ouster_ros"),
        ("ouster_sensor_msgs/msg/PacketMsg", "ouster_ros"),
        ("ouster_msgs/msg/PacketMsg", "ros2_ouster"),
        ("hesai_ros_driver/msg/UdpFrame", "hesai_ros_driver"),
        ("pandar_msgs/msg/PandarScan", "nebula_ros"),
        ("rslidar_msg/msg/RslidarPacket", "rslidar_sdk"),
    ],
)
def test_raw_packets_of_a_lidar_are_named_with_what_makes_clouds_of_them(kind: str, driver: str) -> None:
    (text,) = hints({}, {"/sensor/packets": kind}).values()
    assert text.startswith("/sensor/packets has a lidar's raw packets")
    assert f"run {driver} on them" in text


def test_points_in_a_makers_own_message_are_named_with_what_sends_usual_ones() -> None:
    (text,) = hints({}, {"/livox/lidar": "livox_ros_driver2/msg/CustomMsg"}).values()
    assert text.startswith("/livox/lidar has points in a message of the lidar's maker: run livox_ros_driver2")


@pytest.mark.parametrize(
    ("configured", "there", "text"),
    [
        (
            {"lidar_points": {"topic": "/lidar/points"}},
            {"/robot1/lidar/points": CLOUD, "/robot1/radar/points": CLOUD},
            f"/robot1/lidar/points ({CLOUD}) is there; topics.lidar_points.topic is {LIDAR}: {SAME} /robot1",
        ),
        (
            {"lidar_points": {"topic": "/lidar/points"}},
            {"/lidar/points": "sensor_msgs/msg/Range"},
            f"/lidar/points is there but of type sensor_msgs/msg/Range; supported: {CLOUD}, {LASER}",
        ),
        (
            {"lidar_points": {"topic": "/top/.*"}},
            {"/a/scan": CLOUD, "/velodyne_points": CLOUD},
            f"/velodyne_points ({CLOUD}), /a/scan ({CLOUD}) are there; topics.lidar_points.topic is /top/.*",
        ),
        ({"lidar_points": {"topic": "/lidar"}}, {"/lidar": CLOUD, "/lidar2": CLOUD}, None),
        ({"lidar_points": {"topic": "/lidar"}}, {"/radar/points": CLOUD, "/map": IMAGE}, None),
    ],
)
def test_what_a_role_may_be_called_instead(
    configured: dict[str, Any], there: dict[str, str], text: str | None
) -> None:
    assert hints({"camera": {"topic": "/map"}, **configured}, there).get(Role.LIDAR_POINTS) == text


def test_a_role_that_nobody_asked_for_gets_a_hint_only_where_there_is_no_doubt() -> None:
    there = {
        "/cam/h264": JPEG,
        "/imu/data": "sensor_msgs/msg/Imu",
        "/velodyne": CLOUD,
        "/lidar/points_raw": CLOUD,
    }
    found = hints({"camera": {"topic": "/cam/h264"}}, there)
    assert set(found) == {Role.IMU, Role.LIDAR_POINTS}
    assert found[Role.LIDAR_POINTS].startswith("/lidar/points_raw (")


def test_another_prefix_is_named() -> None:
    found = hints({}, {"maivin-1/imu": "sensor_msgs/msg/Imu"}, prefix="maivin-2")
    assert found[Role.IMU].endswith("topics.imu.topic is imu, and prefix is 'maivin-2', not 'maivin-1'")


def test_what_a_publisher_cannot_give_is_said() -> None:
    trouble = "offers BEST_EFFORT where RELIABLE is asked for"
    config = build_config({"topics": {"camera": CAMERA}})
    around = [ExistingTopic(CAMERA["topic"], JPEG, trouble)]
    found = absences(config, TopicMap(config, ""), {}, around)
    assert [(each.code, each.severity) for each in found] == [
        (Code.UNUSABLE, Severity.ERROR),
        (Code.NO_REFERENCE, Severity.WARNING),
    ]
    assert trouble in found[0].text


@pytest.mark.parametrize(
    ("reference", "is_lost"),
    [("camera", True), ("lidar/points", False), ("lidar_points", False), ("radar_targets", True)],
)
def test_that_the_reference_has_not_come_is_found(reference: str, is_lost: bool) -> None:
    config = build_config({"reference": reference})
    accounts = {"/lidar/points": {"type": CLOUD, "received": 5, "refused": 0}}
    found = absences(config, TopicMap(config, ""), accounts)
    assert (Code.NO_REFERENCE in {each.code for each in found}) is is_lost


def test_a_whole_drive_needs_no_hint() -> None:
    shown = json.loads(CliRunner().invoke(app, ["info", str(drive()), "--json"]).output)
    assert shown["hints"] == []


def renamed(folder: Path, old: str, new: str) -> Path:
    every = (m._replace(topic=new) if m.topic == old else m for m in messages())
    return record(folder / "drive.mcap", every)


def test_a_recording_without_the_reference_is_refused_with_what_may_be_meant(tmp_path: Path) -> None:
    path = renamed(tmp_path, "/camera/h264", "/front/video")
    config = build_config({"topics": {"camera": {"topic": "/camera/h264"}}})
    with pytest.raises(
        ConfigError, match=r"/front/video \(foxglove_msgs/msg/CompressedVideo\) is there; topics"
    ):
        open_recordings([path], config)


def test_converting_and_looking_name_the_lidar_under_its_other_name(tmp_path: Path) -> None:
    path = renamed(tmp_path, "/lidar/points", "/lidar/points_raw")
    text = f"/lidar/points_raw ({CLOUD}) is there; topics.lidar_points.topic is lidar/points"
    run = CliRunner().invoke(
        app, ["convert", str(path), "-o", str(tmp_path / "out"), "--json", "--every-n", "10"]
    )
    assert run.exit_code == 0, run.output
    assert [h for h in json.loads(run.stdout)["hints"] if "lidar" in h] == [text]
    shown = CliRunner().invoke(app, ["info", str(path)]).output
    assert f"hint: {text}" in " ".join(shown.split())


def test_a_live_session_tells_what_else_was_there(tmp_path: Path) -> None:
    config = build_config({"topics": {"camera": CAMERA}, "min_free_mb": 0, "prefix": ""})
    live = LiveCapture(config, tmp_path, HOST)
    live.other_topics = lambda: [ExistingTopic("/camera/image_raw", IMAGE)]
    live.start("one")
    (finished,) = live.stop(10.0)
    assert finished.report["hints"] == []
    assert finished.report["warnings"][1:] == [
        f"/camera/image_raw ({IMAGE}) is there; topics.camera.topic is /camera/image_raw/compressed"
    ]
