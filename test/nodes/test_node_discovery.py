"""Which subscriptions a graph leads to: prefixes, types, latched values, what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.config.topics import TopicMap
from edgefirst_ros.nodes.discovery import (
    Discovery,
    Offer,
    SubscriptionPlan,
    TopicMatch,
    WantedSubscription,
    choose_prefix,
)

VIDEO, CLOUD = "foxglove_msgs/msg/CompressedVideo", "sensor_msgs/msg/PointCloud2"
IMU, LIDAR = "sensor_msgs/msg/Imu", {"role": "lidar_points"}
TF, TF_MESSAGE = "geometry_msgs/msg/TransformStamped", "tf2_msgs/msg/TFMessage"


def look(
    graph: dict[str, Sequence[Offer]],
    config: Config | None = None,
    *,
    namespace: str = "/",
    missing: Sequence[str] = (),
    **more: Any,  # noqa: ANN401 - any attribute of Discovery
) -> SubscriptionPlan:
    return Discovery(
        config or Config(),
        {topic: sorted({offer.type for offer in offers}) for topic, offers in graph.items()},
        namespace,
        offers=lambda topic: graph.get(topic, ()),
        installed=lambda kind: kind.partition("/")[0] not in missing,
        **{"unlisted": False, **more},
    ).plan()


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
    assert "'a', 'b'" in problem
    assert "parameter prefix" in problem
    config = build_config({"prefix": "/b/"})
    assert choose_prefix(config, ["/a/camera/h264", "/b/camera/h264"], "/") == ("b", "")


def test_what_is_published_is_subscribed_to_under_its_plain_name() -> None:
    result = look(
        {"/rt/camera/h264": [Offer(VIDEO)], "/rt/lidar/points": [Offer(CLOUD)], "/other": [Offer(CLOUD)]},
    )
    assert result.subscriptions == {
        WantedSubscription("/rt/camera/h264", VIDEO, "/camera/h264"),
        WantedSubscription("/rt/lidar/points", CLOUD, "/lidar/points"),
    }
    routes = TopicMap(Config(), "")
    assert all(routes.route(each.canonical) is not None for each in result.subscriptions)


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


def test_what_every_publisher_sends_again_is_asked_for_again() -> None:
    graph = {
        "/imu": [Offer(IMU, reliable=True)] * 2,
        "/lidar/points": [Offer(CLOUD, reliable=True), Offer(CLOUD)],
        "/camera/info": [Offer("sensor_msgs/msg/CameraInfo", latched=True, reliable=True)],
    }
    reliable = {each.topic: each.reliable for each in look(graph).subscriptions}
    assert reliable == {"/imu": True, "/lidar/points": False, "/camera/info": True}


def test_a_topic_that_another_entry_names_in_full_is_subscribed_to_once() -> None:
    """The default entry of the same topic has nothing left to subscribe to, announced or not."""
    topics = {
        "front": {"role": "camera", "topic": "/camera/jpeg"},
        "top": {**LIDAR, "topic": "/lidar/points"},
    }
    graph = {"/camera/jpeg": [Offer("sensor_msgs/msg/CompressedImage")], "/lidar/points": [Offer(CLOUD)]}
    names = [
        each.topic for each in look(graph, build_config({"topics": topics}), unlisted=True).subscriptions
    ]
    assert sorted(n for n in names if n.strip("/") in {"camera/jpeg", "lidar/points"}) == sorted(graph)
    named = {"top": {**LIDAR, "topic": "lidar/points"}}
    assert TopicMap(build_config({"topics": named}), "").route("/lidar/points").name == "top"  # type: ignore[union-attr]


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


def test_one_of_several_topics_is_taken_once_two_looks_agree_and_kept() -> None:
    config = build_config({"topics": {"lidar_points": {"topic": ".*/scan b/points a/points"}}})
    one = {"/x/scan": [Offer(CLOUD)]}
    several = {**one, "/b/points": [Offer(CLOUD)], "/a/points": [Offer("std_msgs/msg/String")]}

    def taken(graph: dict[str, Sequence[Offer]], **more: Any) -> tuple[list[str], str]:  # noqa: ANN401
        result = look(graph, config, **more)
        match = found(result, "lidar_points")
        return [each.topic for each in result.subscriptions], f"{match.topic}, {match.note}"

    first, second = look(one, config), look(several, config)
    assert taken(one) == ([], "/x/scan, ")
    assert taken(several, before=first)[0] == []
    topics, note = taken(several, before=second)
    assert topics == ["/x/scan"]
    assert note.startswith("/x/scan, topics.lidar_points takes /x/scan, which is named first; it fits /")
    held = look({"/b/points": [Offer(CLOUD)]}, config, before=look({"/b/points": [Offer(CLOUD)]}, config))
    topics, note = taken(several, held=held.subscriptions)
    assert topics == ["/b/points"]
    assert "takes /b/points, which was there before; it fits" in note
    assert taken(one, held=held.subscriptions, before=first)[0] == ["/x/scan"]
    assert taken({}, held=held.subscriptions)[0] == ["/b/points"]


def test_a_topic_of_several_types_is_one_topic() -> None:
    config = build_config({"topics": {"front": {"role": "camera", "topic": ".*/view"}}})
    jpeg, raw = "sensor_msgs/msg/CompressedImage", "sensor_msgs/msg/Image"
    graph = {"/a/view": [Offer(jpeg), Offer(raw), Offer("std_msgs/msg/String")]}
    result = look(graph, config, before=look(graph, config))
    assert {each.type for each in result.subscriptions} == {jpeg, raw}
    assert found(result, "front").note == ""
    assert "is std_msgs/msg/String" in found(result, "front").problem


def test_names_of_a_generation_that_mixes_the_prefix_rt_are_found_in_a_namespace() -> None:
    graph = {"/car/rt/camera/h264": [Offer(VIDEO)], "/car/imu": [Offer(IMU)], "/imu": [Offer(IMU)]}
    result = look(graph, namespace="/car")
    assert {(each.topic, each.canonical) for each in result.subscriptions} == {
        ("/car/rt/camera/h264", "/camera/h264"),
        ("/car/imu", "/imu"),
    }


def test_a_topic_that_another_entry_takes_is_not_missed() -> None:
    config = build_config(
        {"topics": {"lidar_points": {"topic": "/points"}, "top": {**LIDAR, "topic": "/points"}}}
    )
    result = look({"/points": [Offer(CLOUD)]}, config)
    assert found(result, "lidar_points").announced
    assert found(result, "top").announced


def test_other_topics_of_the_device_are_for_the_recording_alone() -> None:
    best_effort, latched = Offer("std_msgs/msg/String"), Offer("std_msgs/msg/String", True, True)
    graph = {
        "/rt/camera/h264": [Offer(VIDEO)],
        "/rt/a": [latched, best_effort],
        "/rt/b": [latched],
        "/c": [latched],
    }
    plan = look(graph, recorded=lambda _, kind: kind.endswith("String"))
    unused = {each for each in plan.subscriptions if not each.is_used}
    assert unused == {
        WantedSubscription("/rt/a", "std_msgs/msg/String", "/a", is_used=False),
        WantedSubscription("/rt/b", "std_msgs/msg/String", "/b", True, True, is_used=False),
    }
