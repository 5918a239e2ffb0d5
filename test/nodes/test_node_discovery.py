"""Which subscriptions a graph leads to: prefixes, types, latched values, what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.config.topics import TYPES, TopicMap
from edgefirst_ros.nodes.discovery import (
    Offer,
    SubscriptionPlan,
    TopicMatch,
    WantedSubscription,
    choose_prefix,
    expected_type,
    history_depth,
    plan_subscriptions,
    wire_names,
)

VIDEO, CLOUD = "foxglove_msgs/msg/CompressedVideo", "sensor_msgs/msg/PointCloud2"
TF, TF_MESSAGE = "geometry_msgs/msg/TransformStamped", "tf2_msgs/msg/TFMessage"
NONE: dict[str, Any] = {"topics": {}}


def look(
    graph: dict[str, Sequence[Offer]],
    config: Config | None = None,
    *,
    prefix: str = "",
    namespace: str = "/",
    missing: Sequence[str] = (),
    **more: Any,  # noqa: ANN401 - any argument of plan_subscriptions
) -> SubscriptionPlan:
    return plan_subscriptions(
        config or Config(),
        prefix,
        namespace,
        offers=lambda topic: graph.get(topic, ()),
        installed=lambda kind: kind.partition("/")[0] not in missing,
        **{"unlisted": False, **more},
    )


def found(result: SubscriptionPlan, entry: str) -> TopicMatch:
    return next(f for f in result.matches if f.entry == entry)


@pytest.mark.parametrize(
    ("published", "namespace", "prefix"),
    [
        (["/camera/h264", "/imu"], "/", ""),
        (["/rt/camera/h264", "/rt/imu"], "/", "rt"),
        (["/camera/frame", "/rt/camera/h264"], "/", "rt"),
        (["/maivin-7/camera/h264", "/maivin-7/imu"], "/", "maivin-7"),
        (["/car/maivin-7/camera/h264"], "/car", "maivin-7"),
        (["/car/rt/camera/h264"], "/car", "rt"),
        (["/car/camera/h264", "/bike/camera/h264"], "/car", ""),
        (["/bike/camera/h264"], "/car", ""),
        (["/camera/h264", "/robot/imu", "/robot/gps", "/robot/camera/h264"], "/", ""),
        ([], "/", ""),
        (["/unrelated"], "/", ""),
    ],
)
def test_the_prefix_is_found(published: list[str], namespace: str, prefix: str) -> None:
    assert choose_prefix(Config(), published, namespace) == (prefix, "")


def test_a_remapped_topic_is_no_devices_prefix() -> None:
    moved = {"/car/camera/h264": "/car/front/camera/h264", "/car/imu": "/other/imu"}
    for there in moved.values():
        assert choose_prefix(Config(), [there], "/car", lambda name: moved.get(name, name)) == ("", "")
    assert choose_prefix(Config(), ["/car/front/camera/h264"], "/car") == ("front", "")


def test_two_devices_are_told_apart_by_the_user() -> None:
    prefix, problem = choose_prefix(Config(), ["/a/camera/h264", "/b/camera/h264"], "/")
    assert prefix == ""
    assert "a, b" in problem
    assert "parameter prefix" in problem
    config = build_config({"prefix": "/b/"})
    assert choose_prefix(config, ["/a/camera/h264", "/b/camera/h264"], "/") == ("b", "")


def test_names_on_the_wire() -> None:
    assert wire_names("/fix", "rt", "/car") == ["/fix"]
    assert wire_names("imu", "", "/") == ["/imu"]
    assert wire_names("imu", "", "/car") == ["/car/imu"]
    assert wire_names("imu", "rt", "/car") == ["/car/rt/imu", "/car/imu"]
    assert wire_names("imu", "maivin-7", "/") == ["/maivin-7/imu"]


def test_what_is_published_is_subscribed_to_under_its_plain_name() -> None:
    result = look(
        {"/rt/camera/h264": [Offer(VIDEO)], "/rt/lidar/points": [Offer(CLOUD)], "/other": [Offer(CLOUD)]},
        prefix="rt",
    )
    assert result.subscriptions == {
        WantedSubscription("/rt/camera/h264", VIDEO, "/camera/h264"),
        WantedSubscription("/rt/lidar/points", CLOUD, "/lidar/points"),
    }
    routes = TopicMap(Config(), "")
    assert all(routes.route(each.canonical) is not None for each in result.subscriptions)


def test_a_generation_that_mixes_bare_and_prefixed_names_is_taken_whole() -> None:
    result = look({"/rt/camera/h264": [Offer(VIDEO)], "/lidar/points": [Offer(CLOUD)]}, prefix="rt")
    assert {each.topic for each in result.subscriptions} == {"/rt/camera/h264", "/lidar/points"}


def test_another_type_is_reported_and_the_rest_goes_on() -> None:
    result = look({"/camera/h264": [Offer("std_msgs/msg/String")], "/lidar/points": [Offer(CLOUD)]})
    assert {each.topic for each in result.subscriptions} == {"/lidar/points"}
    problem = found(result, "camera").problem
    assert "is std_msgs/msg/String" in problem
    assert VIDEO in problem


def test_a_package_that_is_not_installed_is_reported_and_the_rest_goes_on() -> None:
    result = look(
        {"/radar/cube": [Offer("edgefirst_msgs/msg/RadarCube")], "/lidar/points": [Offer(CLOUD)]},
        missing=["edgefirst_msgs"],
    )
    assert {each.topic for each in result.subscriptions} == {"/lidar/points"}
    assert "not installed" in found(result, "radar_cube").problem
    assert "build edgefirst_msgs" in found(result, "radar_cube").problem
    assert found(result, "radar_cube").announced


def test_of_several_types_on_a_topic_the_usable_ones_are_taken() -> None:
    result = look({"/tf_static": [Offer(TF), Offer(TF_MESSAGE, latched=True), Offer("std_msgs/msg/Empty")]})
    assert result.subscriptions == {
        WantedSubscription("/tf_static", TF, "/tf_static"),
        WantedSubscription("/tf_static", TF_MESSAGE, "/tf_static", latched=True),
    }
    assert "std_msgs/msg/Empty" in found(result, "tf").problem


def test_latched_values_are_asked_for_where_they_last() -> None:
    graph = {
        "/camera/info": [Offer("sensor_msgs/msg/CameraInfo", latched=True)],
        "/lidar/points": [Offer(CLOUD, latched=True)],
    }
    latched = {each.topic: each.latched for each in look(graph).subscriptions}
    assert latched == {"/camera/info": True, "/lidar/points": False}


def test_publishers_that_keep_values_and_others_that_do_not_are_both_heard() -> None:
    result = look({"/tf_static": [Offer(TF_MESSAGE, latched=True), Offer(TF_MESSAGE)]})
    assert {each.latched for each in result.subscriptions} == {True, False}


def test_a_publisher_that_dies_keeps_its_subscription() -> None:
    jpeg = {"/camera/h264": [Offer("sensor_msgs/msg/CompressedImage")]}
    before = look(jpeg, unlisted=True)
    after = look({}, unlisted=True, held=before.subscriptions)
    assert after.subscriptions == before.subscriptions
    assert not found(after, "camera").announced
    other = look({"/camera/h264": [Offer(VIDEO)]}, unlisted=True, held=before.subscriptions)
    assert WantedSubscription("/camera/h264", VIDEO, "/camera/h264") in other.subscriptions
    assert (
        WantedSubscription("/camera/h264", "sensor_msgs/msg/CompressedImage", "/camera/h264")
        not in other.subscriptions
    )


def test_the_devices_topics_are_subscribed_to_before_anybody_announces_them() -> None:
    config = build_config({"topics": {"odometry": {"topic": "/odom"}, "imu": {"topic": ""}}})
    result = look({}, config, unlisted=True, namespace="/car")
    topics = {each.topic: each.type for each in result.subscriptions}
    assert topics["/car/camera/h264"] == VIDEO
    assert topics["/car/tf_static"] == TF
    assert "/odom" not in topics  # a robot's own topics announce themselves
    assert "/car/imu" not in topics
    assert not any(f.announced for f in result.matches)
    assert not look({}, config).subscriptions


def test_a_topic_that_an_entry_names_in_full_is_no_others_under_a_prefix() -> None:
    """As of several devices, of which the default names would take one's once more."""
    graph = {"/front/camera/h264": [Offer(VIDEO)], "/front/lidar/points": [Offer(CLOUD)]}
    topics = {"front": {"role": "camera", "topic": "/front/camera/h264"}}
    result = look(graph, build_config({"topics": topics}), prefix="front", unlisted=True)
    taken = [each for each in result.subscriptions if each.topic == "/front/camera/h264"]
    assert [each.canonical for each in taken] == ["/front/camera/h264"]
    assert found(result, "front").announced
    assert not found(result, "camera").announced
    assert found(result, "lidar_points").canonical == "/lidar/points"


def test_types_that_are_not_installed_are_not_tried() -> None:
    result = look({}, unlisted=True, missing=["edgefirst_msgs"])
    assert not any(each.type.startswith("edgefirst_msgs") for each in result.subscriptions)
    assert any(each.type == VIDEO for each in result.subscriptions)


def test_expected_types_are_acceptable_ones() -> None:
    for rule in Config().topics.values():
        assert expected_type(rule) in TYPES[rule.role], rule.topic
    topics = Config().topics
    assert expected_type(topics["camera_jpeg"]) == "sensor_msgs/msg/CompressedImage"
    assert expected_type(topics["model_boxes2d"]) == "edgefirst_msgs/msg/Detect"
    assert expected_type(topics["model"]) == "edgefirst_msgs/msg/Model"


def test_remapped_topics_are_looked_for_where_they_are() -> None:
    config = build_config({"topics": {"camera": {"topic": "/camera/image"}}})
    result = look(
        {"/front/image": [Offer("sensor_msgs/msg/Image")]},
        config,
        resolve=lambda topic: "/front/image" if topic == "/camera/image" else topic,
    )
    assert result.subscriptions == {
        WantedSubscription("/front/image", "sensor_msgs/msg/Image", "/camera/image")
    }


def test_two_entries_of_one_topic_make_one_subscription() -> None:
    config = build_config(
        {"topics": {"lidar_points": {"topic": "/points"}, "radar_targets": {"topic": "/points"}}}
    )
    assert len(look({"/points": [Offer(CLOUD)]}, config).subscriptions) == 1


@pytest.mark.parametrize(
    ("entry", "hz", "kind", "least", "most"),
    [
        ("imu", 200.0, "sensor_msgs/msg/Imu", 400, 1000),
        ("imu", 800.0, "sensor_msgs/msg/Imu", 1600, 1600),
        ("tf", 0.0, TF_MESSAGE, 1000, 1000),
        ("camera", 0.0, VIDEO, 120, 120),
        ("camera", 120.0, VIDEO, 240, 240),
        ("camera", 0.0, "sensor_msgs/msg/Image", 60, 60),
        ("lidar_points", 10.0, CLOUD, 20, 60),
        ("lidar_points", 55.5, CLOUD, 111, 111),
        ("radar_cube", 1e9, "edgefirst_msgs/msg/RadarCube", 10_000, 10_000),
    ],
)
def test_two_seconds_of_a_topic_are_kept(entry: str, hz: float, kind: str, least: int, most: int) -> None:
    rule = build_config({"topics": {entry: {"expected_hz": hz}}}).topics[entry]
    assert least <= history_depth(rule, kind) <= most


def test_every_subscription_knows_its_depth() -> None:
    config = build_config({"topics": {"imu": {"expected_hz": 1000.0}}})
    offered = look({"/imu": [Offer("sensor_msgs/msg/Imu")]}, config)
    assert {each.depth for each in offered.subscriptions if each.topic == "/imu"} == {2000}
    unheard = look({}, config, unlisted=True)
    assert {each.depth for each in unheard.subscriptions if each.topic == "/imu"} == {2000}


def choosing(topic: object, graph: dict[str, Sequence[Offer]], **more: Any) -> SubscriptionPlan:  # noqa: ANN401 - as look
    config = build_config({"topics": {"lidar_points": {"topic": topic}, "imu": {"topic": "/s/imu"}}})
    return look(graph, config, published=graph, **more)


def test_of_topics_that_match_the_first_by_name_is_taken_once_the_graph_is_known() -> None:
    graph: dict[str, Sequence[Offer]] = {
        "/s/b/points": [Offer(CLOUD)],
        "/s/imu": [Offer(CLOUD)],
        "/s/cam": [Offer("sensor_msgs/msg/Image")],
    }
    first = choosing("/s/.*", graph)
    assert not first.subscriptions
    graph["/s/a/points"] = [Offer(CLOUD)]
    second = choosing("/s/.*", graph, before={"lidar_points": found(first, "lidar_points").fitting})
    assert not second.subscriptions
    third = choosing("/s/.*", graph, before={"lidar_points": found(second, "lidar_points").fitting})
    assert third.subscriptions == {WantedSubscription("/s/a/points", CLOUD, "/s/a/points")}
    taken = found(third, "lidar_points")
    assert (taken.topic, taken.canonical) == ("/s/a/points", "/s/a/points")
    assert "takes /s/a/points, the first by name; it fits /s/b/points as well" in taken.note
    graph["/s/0/points"] = [Offer(CLOUD)]
    later = choosing("/s/.*", graph, held=third.subscriptions)
    assert later.subscriptions == third.subscriptions
    assert "which was there before" in found(later, "lidar_points").note
    assert (
        choosing("/s/.*", {}, held=third.subscriptions).subscriptions == set()
    )  # its publisher is not in the graph any more


def test_of_a_list_the_first_that_is_there_is_taken_under_the_prefix_too() -> None:
    graph = {"/car/rt/lidar/b": [Offer(CLOUD)], "/car/rt/lidar/a": [Offer(CLOUD)]}
    asked = ["lidar/none", "lidar/b", "lidar/.*"]
    before = {"lidar_points": ("/car/rt/lidar/b", "/car/rt/lidar/a")}
    result = choosing(asked, graph, prefix="rt", namespace="/car", before=before)
    assert result.subscriptions == {WantedSubscription("/car/rt/lidar/b", CLOUD, "/lidar/b")}
    assert "which is named first" in found(result, "lidar_points").note
    config = build_config({"topics": {"lidar_points": {"topic": asked}}})
    assert all(TopicMap(config, "").route(each.canonical) for each in result.subscriptions)
