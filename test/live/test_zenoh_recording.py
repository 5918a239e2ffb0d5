"""Recording over Zenoh, as processes over loopback: own bytes again, also after a wrong configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
import zenoh
from zenoh import ext
from zenoh_loopback import await_condition, free_endpoint

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.session import is_usable
from edgefirst_ros.sources.zenoh import OtherTopics, UnusedTopics, ZenohSource, overhear, wide_key
from edgefirst_ros.sources.zenohlink import CDR, Outlet, open_session


@pytest.mark.parametrize(
    ("namespace", "key", "expected"),
    [
        ("", "rt/camera/h264", "/camera/h264"),
        ("", "camera/h264", "/camera/h264"),
        ("", "maivin/camera/h264", "/camera/h264"),
        ("", "other/camera/h264", None),
        ("", "maivin/foo/bar", "/foo/bar"),
        ("", "maivin/imu", None),
        ("", "maivin/camera/info", "/camera/info"),
        ("maivin", "maivin/camera/h264", "/camera/h264"),
        ("maivin", "maivin/imu", None),
        ("rt", "rt/camera/h264", "/camera/h264"),
        ("rt", "camera/h264", "/camera/h264"),
        ("rt", "rt/imu", None),
        ("rt", "imu", None),
        ("rt", "maivin/camera/h264", None),
        ("", "exact/name", None),
    ],
)
def test_names_of_what_nothing_uses(namespace: str, key: str, expected: str | None) -> None:
    unused = UnusedTopics(
        ["imu", "/exact/name"], namespace, lambda *_: True, lambda prefix: prefix != "other"
    )
    found = unused.topic(key, "application/cdr;foo_msgs/Foo", "maivin")
    assert found == (None if expected is None else (expected, "foo_msgs/msg/Foo"))
    assert unused.topic(key, "text/plain", "maivin") is None
    assert wide_key(namespace) == ("maivin/**" if namespace == "maivin" else "**")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sensor_msgs/msg/PointCloud2", True),
        ("sensor_msgs/PointCloud2", True),
        ("sensor_msgs/msg/Image", False),
        ("rcl_interfaces/msg/Log", False),
    ],
)
def test_what_is_recorded_besides(kind: str, expected: bool) -> None:
    assert is_usable("/front/any", kind) is expected


def test_of_other_names_only_those_of_the_device_are_told() -> None:
    """Hints of one robot name no topics of another one in the network."""
    endpoint = free_endpoint()
    with open_session([], [endpoint]) as robots, open_session([endpoint], []) as session:
        other_topics = OtherTopics(session, Config(), (), "maivin-1")
        other_topics.watch({"camera"}, 60.0)
        outlets = [Outlet(robots, f"maivin-{number}/front/jpeg") for number in (2, 1)]

        def is_told() -> bool:
            for outlet in outlets:
                outlet.put("sensor_msgs/msg/CompressedImage", bytes(8))
            return bool(other_topics.found())

        await_condition("a topic", is_told)
        assert [each.topic for each in other_topics.found()] == ["/maivin-1/front/jpeg"]


def test_what_a_robot_latched_before_is_asked_for(tmp_path: Path) -> None:
    """As a bridge keeps it: published once, before anybody listened."""
    config, endpoint = tmp_path / "robot.json5", free_endpoint()
    config.write_text("{timestamping: {enabled: true}}")
    heard: list[RawMessage] = []
    with open_session([], [endpoint], config) as robot, open_session([endpoint], []) as session:
        kept = ext.declare_advanced_publisher(robot, "tf_static", cache=ext.CacheConfig(max_samples=10))
        kept.put(b"mount", encoding=zenoh.Encoding(CDR).with_schema("tf2_msgs/msg/TFMessage"))
        with open_session([endpoint], []) as other:
            await_condition("a look", lambda: "/tf_static" in overhear(other, 0.2).topics)
        with ZenohSource(session, Config(), heard.append):
            await_condition("a mount", lambda: bool(heard))
    assert [(each.topic, each.data) for each in heard] == [("/tf_static", b"mount")]
