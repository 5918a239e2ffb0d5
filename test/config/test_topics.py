"""All three generations of names, other robots, and two devices at once."""

from __future__ import annotations

import pytest

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.config.topics import TopicMap, choose_reference, find_prefix
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import Role

RELATIVE = ["camera/h264", "camera/info", "radar/cube", "lidar/points", "imu", "gps", "tf_static"]


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (["/" + n for n in RELATIVE], ""),
        (["/rt/" + n for n in RELATIVE], "rt"),
        (["camera/h264", *("rt/" + n for n in RELATIVE[1:])], "rt"),
        (["maivin-042/" + n for n in RELATIVE], "maivin-042"),
        ([*("/" + n for n in RELATIVE), "/ouster/imu"], ""),
        (["/rosout"], ""),
    ],
)
def test_the_prefix_of_every_generation_is_found(names: list[str], prefix: str) -> None:
    config = Config()
    assert find_prefix(names, config) == prefix
    routes = TopicMap(config, prefix)
    if len(names) > 1:
        assert {r.rule.role for n in names if (r := routes.route(n)) is not None} >= {
            Role.CAMERA,
            Role.RADAR_CUBE,
            Role.GPS,
        }


def test_two_devices_are_ambiguous_until_one_is_chosen() -> None:
    names = [f"{host}/{n}" for host in ("maivin-1", "maivin-2") for n in RELATIVE]
    with pytest.raises(ConfigError, match=r"'maivin-1', 'maivin-2'.*--prefix"):
        find_prefix(names, Config())
    config = build_config({"prefix": "maivin-2"})
    routes = TopicMap(config, find_prefix(names, config))
    assert routes.route("maivin-1/imu") is None
    assert routes.route("maivin-2/imu") is not None


@pytest.mark.parametrize("prefix", ["", "rt", "maivin-1"])
@pytest.mark.parametrize("name", ["camera/jpeg", "/camera/jpeg"])
def test_an_entry_of_the_users_comes_before_a_default_one_of_the_same_topic(prefix: str, name: str) -> None:
    """``camera_jpeg`` names it by default."""
    config = build_config({"prefix": prefix, "topics": {"camera": {"topic": name}}})
    topics = ["/camera/jpeg"] if name.startswith("/") else [f"{prefix}/camera/jpeg".strip("/")]
    for topic in [*topics, "/camera/jpeg"] if prefix == "rt" else topics:
        route = TopicMap(config, prefix).route(topic)
        assert route is not None
        assert route.name == "camera"


def test_another_robots_topics_are_taken_by_their_full_names() -> None:
    config = build_config(
        {
            "topics": {
                "camera": {"topic": "/front/image_raw"},
                "scan": {"role": "lidar_points", "topic": "/velodyne"},
            }
        }
    )
    names = ["/front/image_raw", "/velodyne", "/gps"]
    routes = TopicMap(config, find_prefix(names, config))
    assert choose_reference(config, names, routes) == (Role.CAMERA, {"/front/image_raw"})
    route = routes.route("/velodyne")
    assert route is not None
    assert (route.name, route.rule.role) == ("scan", Role.LIDAR_POINTS)


def test_the_reference_is_found_by_topic_entry_or_role() -> None:
    names = ["/" + n for n in RELATIVE]
    for wanted in ("lidar/points", "/lidar/points", "lidar_points"):
        config = build_config({"reference": wanted})
        assert choose_reference(config, names, TopicMap(config, "")) == (Role.LIDAR_POINTS, {"/lidar/points"})


def test_of_several_cameras_the_video_is_the_reference() -> None:
    names = ["/camera/jpeg", "/camera/h264"]
    assert choose_reference(Config(), names, TopicMap(Config(), ""))[1] == {"/camera/h264"}


def test_four_tiles_are_one_reference() -> None:
    names = [f"/camera/h264/{t}" for t in ("tl", "tr", "bl", "br")]
    assert choose_reference(Config(), names, TopicMap(Config(), ""))[1] == set(names)
