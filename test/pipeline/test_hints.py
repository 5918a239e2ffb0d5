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
from edgefirst_ros.model.reasons import Code
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


@pytest.mark.parametrize(
    ("topics", "came", "missing"),
    [
        ({"camera": {"topic": "camera/jpeg"}}, "/camera/jpeg", False),
        ({"camera": {"topic": "/front"}, "again": {"role": "camera", "topic": "/front"}}, "/front", False),
        ({"camera": {"topic": "/front"}, "rear": {"role": "camera", "topic": "/rear"}}, "/front", True),
        (
            {"odometry": {"topic": "/odom"}, "tf_odometry": {"role": "odometry", "topic": "/tf"}},
            "/odom",
            False,
        ),
    ],
)
def test_an_entry_whose_topic_came_or_is_replaced_is_never_one_of_which_nothing_came(
    topics: dict[str, Any], came: str, missing: bool
) -> None:
    config = build_config({"topics": topics})
    kind = "nav_msgs/msg/Odometry" if came == "/odom" else JPEG
    routes = TopicMap(config, "", [(came, kind)])
    found = absences(config, routes, {came: {"type": kind, "received": 5, "refused": 0}})
    assert (Code.MISSING in {each.code for each in found}) is missing


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
