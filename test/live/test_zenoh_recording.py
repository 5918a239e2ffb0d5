"""Recording over Zenoh, as processes over loopback: own bytes again, also after a wrong configuration."""

from __future__ import annotations

import pytest

from edgefirst_ros.sources.session import is_usable
from edgefirst_ros.sources.zenoh import UnusedTopics, wide_keys


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
    assert wide_keys(namespace) == (("maivin/**",) if namespace == "maivin" else ("**",))


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
