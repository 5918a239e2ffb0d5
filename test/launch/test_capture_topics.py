"""What a graph may do to a capture: topics late, missing, of another type, publishers that die and return."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from livedrive import check_sums, drive
from rosgraph import Graph, needs_ros

pytestmark = needs_ros


def finished(output: Path, form: str = "edgefirst") -> dict[str, Any]:
    (path,) = (output / form).rglob("*capture_report.json")
    report: dict[str, Any] = json.loads(path.read_text())
    check_sums(report)
    return report


def test_what_is_missing_or_wrong_is_reported_and_the_rest_goes_on(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    from sensor_msgs.msg import MultiEchoLaserScan  # noqa: PLC0415
    from std_msgs.msg import String  # noqa: PLC0415

    graph.node.create_publisher(MultiEchoLaserScan, "/echo/scan", 10)
    node = graph.capture(
        tmp_path / "out", "topics.lidar_depth.required:=never", "topics.odometry.topic:=/odom"
    )
    graph.node.create_publisher(String, "/lidar/depth", 10)
    graph.activate()
    diagnostics, status = graph.diagnostics(), graph.status()
    graph.wait("the wrong type in the log", lambda: "/lidar/depth: is std_msgs/msg/String" in node.text)
    graph.wait("the missing topic", lambda: "capture: /odom" in diagnostics)
    assert diagnostics["capture: /odom"].message == "no publisher"
    graph.wait("the wrong type", lambda: "capture: /lidar/depth" in diagnostics)
    assert "expected sensor_msgs/msg/Image" in diagnostics["capture: /lidar/depth"].message
    graph.wait("no camera", lambda: "no camera yet" in status()["message"])
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("samples", lambda: int(status()["samples"]) >= 5, alive=[player])
    assert player.join() == 0
    graph.wait(
        "every sweep",
        lambda: (
            (found := diagnostics.get("capture: /lidar/points")) and dict(pairs(found))["received"] == "35"
        ),
    )
    assert "/odom" in status()["not there"]
    assert graph.change("deactivate")
    report = finished(tmp_path / "out")
    assert report["samples"] >= 20
    unread = "echo/scan is not in the dataset: sensor_msgs/msg/MultiEchoLaserScan is not used"
    assert unread in report["warnings"]


def test_hints_of_a_robot_name_no_topics_of_another(graph: Graph, tmp_path: Path) -> None:
    from sensor_msgs.msg import CompressedImage  # noqa: PLC0415

    graph.capture(tmp_path / "out", namespace="/r1")
    graph.activate("/r1/capture")
    status = graph.status("/r1/capture")
    for topic in ("/r1/front/jpeg", "/r2/camera/jpeg"):
        graph.node.create_publisher(CompressedImage, topic, 10)
    graph.wait("a hint", lambda: "/r1/front/jpeg" in status().get("hint 1", ""))
    assert not [hint for name, hint in status().items() if name.startswith("hint") and "/r2" in hint]


def test_topics_are_found_under_the_devices_prefix(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    graph.capture(tmp_path / "out")
    graph.activate()
    status = graph.status()
    player = graph.player(recorded_drive, "--restamp", "--namespace", "/rt")
    graph.wait("samples", lambda: int(status().get("samples", 0)) >= 5, alive=[player])
    graph.wait("the prefix", lambda: status()["prefix"] == "rt", alive=[player])
    assert player.join() == 0
    assert graph.change("deactivate")
    report = finished(tmp_path / "out")
    assert "/camera/h264" in report["topics"]
    assert report["topics"]["/camera/h264"]["received"] == 35


def test_a_publisher_that_dies_and_returns_goes_on_in_the_same_session(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    graph.capture(tmp_path / "out")
    graph.activate()
    status, diagnostics = graph.status(), graph.diagnostics()
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("samples", lambda: int(status().get("samples", 0)) >= 5, alive=[player])
    session = status()["session"]
    player.send(signal.SIGKILL)
    player.join()
    graph.wait("silence", lambda: "silent for" in diagnostics["capture: /camera/h264"].message)
    graph.wait("the dead publisher", lambda: "no publisher" in diagnostics["capture: /camera/h264"].message)
    before = int(status()["samples"])
    again = graph.player(recorded_drive, "--restamp")
    graph.wait("more samples", lambda: int(status()["samples"]) >= before + 5, alive=[again])
    assert status()["session"] == session
    assert again.join() == 0
    assert graph.change("deactivate")
    assert finished(tmp_path / "out")["topics"]["/camera/h264"]["received"] > 35


def latch_transform(graph: Graph) -> Any:  # noqa: ANN401 - a generated message
    """Publish a mount as a robot does, once and for all who come later; the mount."""
    from geometry_msgs.msg import TransformStamped  # noqa: PLC0415
    from rclpy.qos import DurabilityPolicy, QoSProfile  # noqa: PLC0415
    from tf2_msgs.msg import TFMessage  # noqa: PLC0415

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    robot = graph.node.create_publisher(TFMessage, "/tf_static", latched)
    transform = TransformStamped(child_frame_id="lidar")
    transform.header.frame_id = "base_link"
    transform.transform.rotation.w = 1.0
    robot.publish(TFMessage(transforms=[transform]))
    return transform


def test_two_nodes_that_publish_one_topic_are_named(graph: Graph, tmp_path: Path) -> None:
    """Their messages need not differ in anything but what they say."""
    from sensor_msgs.msg import Imu  # noqa: PLC0415

    node = graph.capture(tmp_path / "out")
    graph.activate()
    diagnostics = graph.diagnostics()
    with graph.another("other") as other:
        both = [each.create_publisher(Imu, "/imu", 10) for each in (graph.node, other)]

        def publish() -> None:
            for number, publisher in enumerate(both):
                message = Imu()
                message.header.stamp = graph.node.get_clock().now().to_msg()
                message.linear_acceleration.z = 9.81 + number
                message.orientation.w = 1.0
                publisher.publish(message)

        def is_said() -> bool:
            publish()
            found = diagnostics.get("capture: /imu")
            return found is not None and "two publishers send imu: " in found.message

        graph.wait("the diagnostics", is_said)
        (level,) = diagnostics["capture: /imu"].level
        assert (level, diagnostics["capture: /imu"].message) == (1, f"{SEVERAL}")
        graph.wait("the log", lambda: SEVERAL in node.text)
        assert graph.change("deactivate")
    assert SEVERAL in finished(tmp_path / "out")["warnings"]


SEVERAL = "two publishers send imu: /other and /test; give each a topic of its own"


def test_latched_transforms_of_a_robot_are_heard_though_they_came_before(
    graph: Graph, tmp_path: Path
) -> None:
    from geometry_msgs.msg import TransformStamped  # noqa: PLC0415

    transform = latch_transform(graph)
    graph.capture(tmp_path / "out")
    graph.activate()
    diagnostics = graph.diagnostics()
    graph.wait("the transforms", lambda: "capture: /tf_static" in diagnostics)
    graph.wait("one message", lambda: ("received", "1") in pairs(diagnostics["capture: /tf_static"]))
    device = graph.node.create_publisher(TransformStamped, "/tf_static", 10)
    graph.wait("two subscriptions", lambda: device.get_subscription_count() == 1)
    graph.spin(0.5)
    device.publish(transform)
    graph.wait("both", lambda: ("received", "2") in pairs(diagnostics["capture: /tf_static"]))
    assert graph.change("deactivate")
    assert finished(tmp_path / "out")["topics"]["/tf_static"]["received"] == 2


def test_latched_transforms_are_asked_for_again_in_each_session(graph: Graph, tmp_path: Path) -> None:
    latch_transform(graph)
    node = graph.capture(tmp_path / "out")
    graph.activate()
    status, diagnostics = graph.status(), graph.diagnostics()

    def is_heard() -> bool:
        found = diagnostics.get("capture: /tf_static")
        return found is not None and ("received", "1") in pairs(found)

    graph.wait("the transform", is_heard)
    for name, count in (("stop", 0), ("start", 0), ("split", 1)):
        session = status()["session"]
        assert graph.trigger(f"/capture/{name}")[0]
        graph.wait(f"the {name}", lambda session=session: status()["session"] != session)
        graph.wait("its end", lambda count=count: node.text.count("follows: split") == count)
        if name != "stop":
            diagnostics.clear()
            graph.wait(f"the transform after the {name}", is_heard, alive=[node])


def pairs(status: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - a generated message
    return [(v.key, v.value) for v in status.values]


def test_quality_of_service_is_as_offered_or_overridden(graph: Graph, tmp_path: Path) -> None:
    from rclpy.qos import DurabilityPolicy, ReliabilityPolicy, qos_profile_sensor_data  # noqa: PLC0415
    from sensor_msgs.msg import Imu, NavSatFix, PointCloud2  # noqa: PLC0415

    override = "qos_overrides./lidar/points.subscription.reliability:=best_effort"
    graph.capture(tmp_path / "out", override, "unlisted:=false")
    graph.node.create_publisher(PointCloud2, "/lidar/points", 10)
    graph.node.create_publisher(NavSatFix, "/gps", qos_profile_sensor_data)
    graph.node.create_publisher(Imu, "/imu", 10)
    graph.activate()

    def asked(topic: str) -> tuple[int, int]:
        def found() -> Any:  # noqa: ANN401 - rclpy's endpoint information
            return next(iter(graph.node.get_subscriptions_info_by_topic(topic)), None)

        qos = graph.wait(f"a subscription to {topic}", found).qos_profile
        return qos.reliability, qos.durability

    assert asked("/imu") == (ReliabilityPolicy.RELIABLE, DurabilityPolicy.VOLATILE)
    assert asked("/gps") == (ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)
    assert asked("/lidar/points") == (ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE)
    assert not graph.node.get_subscriptions_info_by_topic("/camera/h264")
    # One more publisher offers less: who asked for more would not receive it.
    graph.node.create_publisher(Imu, "/imu", qos_profile_sensor_data)
    graph.wait("less", lambda: asked("/imu") == (ReliabilityPolicy.BEST_EFFORT, DurabilityPolicy.VOLATILE))


def test_a_topic_that_another_of_its_list_replaces_goes_on_in_a_sequence_of_its_own(
    graph: Graph, tmp_path: Path
) -> None:
    """Subscription and use change over together."""
    from sensor_msgs.msg import Imu, PointCloud2  # noqa: PLC0415
    from sensor_msgs_py.point_cloud2 import create_cloud_xyz32  # noqa: PLC0415
    from std_msgs.msg import Header  # noqa: PLC0415

    names = "['/old/points','/new/points']"
    node = graph.capture(
        *(tmp_path / "out", f"topics.lidar_points.topic:={names}", "reference:=lidar_points"),
        *("formats:=[ncore]", "lookahead_s:=0.2"),
    )
    graph.activate()
    status = graph.status()

    def publish(topic: str, samples: int) -> None:
        cloud, imu = (graph.node.create_publisher(k, t, 10) for k, t in ((PointCloud2, topic), (Imu, "/imu")))

        def is_enough() -> bool:
            header = Header(stamp=graph.node.get_clock().now().to_msg(), frame_id="lidar")
            cloud.publish(create_cloud_xyz32(header, [(1.0, 2.0, 3.0)]))
            graph.spin(0.05)
            return int(status()["samples"]) >= samples

        graph.wait(topic, is_enough)
        graph.node.destroy_publisher(cloud)
        graph.node.destroy_publisher(imu)

    publish("/old/points", 10)
    before = int(status()["samples"])
    publish("/new/points", before + 10)
    assert "topics.lidar_points takes /new/points now, as /old/points is gone" in node.text
    assert graph.change("deactivate")
    report = finished(tmp_path / "out", "ncore")
    assert [each["sample"] > 0 for each in report["sequences"]] == [True, True]
    assert "/old/points is gone" in report["sequences"][0]["ended"]


def test_previews_show_what_is_saved_with_one_stamp(
    graph: Graph, tmp_path: Path, recorded_drive: Path
) -> None:
    from sensor_msgs.msg import CompressedImage, PointCloud2  # noqa: PLC0415
    from sensor_msgs_py import point_cloud2  # noqa: PLC0415

    graph.capture(tmp_path / "out", "preview:=true")
    graph.activate()
    status = graph.status()
    images = graph.listen(CompressedImage, "/capture/preview/image/compressed")
    clouds = {name: graph.listen(PointCloud2, f"/capture/preview/{name}") for name in ("lidar", "radar")}
    player = graph.player(recorded_drive, "--restamp")
    graph.wait("pictures", lambda: len(images) >= 10, alive=[player])
    assert player.join() == 0
    graph.spin(1.0)
    stamps = [
        {(m.header.stamp.sec, m.header.stamp.nanosec) for m in each} for each in (images, *clouds.values())
    ]
    assert stamps[0] == stamps[1] == stamps[2]
    assert len(stamps[0]) == len(images)
    assert images[0].format == "jpeg"
    assert bytes(images[0].data[:3]) == b"\xff\xd8\xff"
    lidar = clouds["lidar"][0]
    assert [f.name for f in lidar.fields] == ["x", "y", "z", "reflect"]
    assert lidar.point_step == 13
    assert len(point_cloud2.read_points(lidar)) == lidar.width > 50
    assert [f.name for f in clouds["radar"][0].fields] == ["x", "y", "z", "speed", "power", "rcs"]
    assert int(status()["samples"]) >= len(images)
    offered = dict(graph.node.get_topic_names_and_types()).get("/tf_static", [])
    assert "tf2_msgs/msg/TFMessage" not in offered


def test_what_was_lost_upstream_and_what_we_dropped_are_counted_apart(graph: Graph, tmp_path: Path) -> None:
    # A queue that no cube fits into, but seconds of everything else: each cube is dropped, and nothing else.
    cubes = drive(cube_shape=(1, 200, 4, 128))
    graph.capture(tmp_path / "out", "queue_mb:=0.35")
    graph.activate()
    diagnostics, status = graph.diagnostics(), graph.status()
    player = graph.player(cubes, "--restamp", "--lose", "imu", "10")
    graph.wait("drops", lambda: "dropping" in message_of(diagnostics, "/radar/cube"), alive=[player])
    graph.wait("losses", lambda: "losing" in message_of(diagnostics, "/imu"), alive=[player])
    assert player.join() == 0

    def told() -> bool:
        """Whether all that came is counted: the summary and the topics' entries are messages of their own."""
        topics = [dict(pairs(found)) for name, found in diagnostics.items() if name.startswith("capture: /")]
        return int(status()["dropped"]) == sum(int(topic["dropped"]) for topic in topics)

    graph.spin(1.2)
    graph.wait("a summary of the topics' counts", told)
    imu, cube = dict(pairs(diagnostics["capture: /imu"])), dict(pairs(diagnostics["capture: /radar/cube"]))
    assert int(imu["lost upstream"]) >= 5
    assert imu["dropped"] == "0"
    assert cube["dropped"] == cube["received"] != "0"
    assert int(status()["samples"]) > 0
    assert graph.change("deactivate")
    report = finished(tmp_path / "out")
    assert (lost := report["topics"]["/imu"]["lost_upstream"]) >= 5
    assert [each for each in report["warnings"] if f"{lost} of imu" in each]


def message_of(diagnostics: dict[str, Any], topic: str) -> str:
    found = diagnostics.get(f"capture: {topic}")
    return "" if found is None else str(found.message)
