"""Who takes messages: the node itself while they arrive, the executor while none do or time is simulated."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from livedrive import check_sums
from rosgraph import Graph, needs_ros

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage

pytestmark = needs_ros

LATE = Path(__file__).with_name("late.py")
ARRIVE_S = 0.3
"""By then what was published has arrived, of which the middleware says nothing while it waits."""


class Receiver:
    """Subscriptions to /imu and /gps, both published by the same node."""

    def __init__(self, graph: Graph) -> None:
        from rclpy.qos import QoSProfile  # noqa: PLC0415
        from sensor_msgs.msg import Imu, NavSatFix  # noqa: PLC0415

        from edgefirst_ros.nodes.subscriptions import Subscriptions  # noqa: PLC0415

        self.simulated_ns: int | None = None
        self.received: list[RawMessage] = []
        self._kinds = {"/imu": Imu, "/gps": NavSatFix}
        self.publishers = {
            topic: graph.node.create_publisher(kind, topic, QoSProfile(depth=1000))
            for topic, kind in self._kinds.items()
        }
        self._subscriptions = Subscriptions(
            graph.node,
            Config(),
            self.received.append,
            simulated_ns=lambda: self.simulated_ns,
            unlisted=False,
        )

        def subscribed() -> bool:
            self._subscriptions.update()
            return all(each.get_subscription_count() for each in self.publishers.values())

        graph.wait("subscriptions", subscribed)

    def publish(self, *topics: str) -> None:
        for topic in topics:
            self.publishers[topic].publish(self._kinds[topic]())
        time.sleep(ARRIVE_S)

    def receive(self) -> bool:
        return self._subscriptions.receive()

    def update(self) -> None:
        self._subscriptions.update()

    def close(self) -> None:
        self._subscriptions.close()

    @property
    def topics(self) -> list[str]:
        return [message.topic for message in self.received]


@pytest.fixture
def receiver(graph: Graph) -> Iterator[Receiver]:
    made = Receiver(graph)
    yield made
    made.close()


def test_what_has_arrived_is_taken_at_once_and_topics_take_turns(receiver: Receiver) -> None:
    receiver.publish(*["/gps", "/imu"] * 20, *["/imu"] * 20)
    assert receiver.receive()
    assert sorted(receiver.topics[:2]) == ["/gps", "/imu"]
    assert receiver.topics == receiver.topics[:2] * 20 + ["/imu"] * 20
    times = [message.receive_ns for message in receiver.received]
    assert times == sorted(times)


def test_the_executor_takes_messages_only_after_none_came_for_a_while(
    graph: Graph, receiver: Receiver
) -> None:
    graph.spin(0.2)
    receiver.publish("/imu")
    graph.spin(0.2)
    assert receiver.topics == ["/imu"]
    assert not receiver.receive()  # ARRIVE_S is longer than it waits
    receiver.publish("/imu", "/gps")
    assert receiver.receive()
    assert receiver.topics[1:] in (["/imu", "/gps"], ["/gps", "/imu"])
    receiver.publish("/gps")
    graph.spin(0.2)
    assert len(receiver.topics) == 3
    assert receiver.receive()
    assert receiver.topics[3:] == ["/gps"]


def test_while_something_else_is_asked_for_nothing_is_lost_or_repeated(
    graph: Graph, receiver: Receiver
) -> None:
    """Another publisher offers less; the first one goes on meanwhile."""
    from builtin_interfaces.msg import Time  # noqa: PLC0415
    from rclpy.qos import qos_profile_sensor_data  # noqa: PLC0415
    from sensor_msgs.msg import Imu  # noqa: PLC0415
    from std_msgs.msg import Header  # noqa: PLC0415

    graph.node.create_publisher(Imu, "/imu", qos_profile_sensor_data)
    for second in range(10):
        receiver.update()
        for number in range(20):
            receiver.publishers["/imu"].publish(Imu(header=Header(stamp=Time(sec=second, nanosec=number))))
        time.sleep(0.1)
        receiver.receive()
    stamps = [decode(message).stamp_ns for message in receiver.received]
    assert stamps == [second * 10**9 + number for second in range(10) for number in range(20)]


def report_of(output: Path) -> dict[str, Any]:
    (path,) = output.glob("edgefirst/*/capture_report.json")
    report: dict[str, Any] = json.loads(path.read_text())
    check_sums(report)
    return report


def test_every_message_of_a_topic_of_1_khz_is_received(graph: Graph, tmp_path: Path) -> None:
    from rclpy.qos import QoSProfile  # noqa: PLC0415
    from sensor_msgs.msg import Imu  # noqa: PLC0415

    publisher = graph.node.create_publisher(Imu, "/imu", QoSProfile(depth=1000))
    node = graph.capture(tmp_path / "out")
    graph.activate()
    status = graph.status()
    graph.wait("its subscription", publisher.get_subscription_count, alive=[node])
    graph.spin(0.5)  # the other side of a match is not told when this one is
    start_s = time.monotonic()
    for number in range(2000):
        time.sleep(max(0.0, start_s + number / 1000 - time.monotonic()))
        message = Imu()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 1_000_000_000)
        publisher.publish(message)
    for _ in range(500):
        publisher.publish(message)  # at once
    graph.wait("every message", lambda: int(status()["received"]) == 2500, 20.0, [node])
    assert graph.trigger("/capture/pause")[0]
    assert graph.change("deactivate")
    assert report_of(tmp_path / "out")["topics"]["/imu"]["received"] == 2500


@pytest.mark.long
def test_a_node_that_stood_still_drops_nothing_as_late(graph: Graph, tmp_path: Path) -> None:
    """Three seconds of a fast topic and of a slow one wait, more than the look-ahead."""
    from sensor_msgs.msg import Imu, PointCloud2  # noqa: PLC0415

    node = graph.capture(tmp_path / "out", "name:=monday", "qos_overrides./imu.subscription.depth:=5000")
    imu = graph.node.create_publisher(Imu, "/imu", 10)
    points = graph.node.create_publisher(PointCloud2, "/lidar/points", 10)
    graph.activate()
    graph.wait("both", lambda: imu.get_subscription_count() and points.get_subscription_count())
    graph.spin(0.5)
    for turn in range(1400):
        if turn in (400, 1000):
            node.send(signal.SIGSTOP if turn == 400 else signal.SIGCONT)
        moved = Imu()
        moved.header.stamp = graph.node.get_clock().now().to_msg()
        imu.publish(moved)
        if turn % 20 == 0:
            points.publish(PointCloud2(header=moved.header))
        time.sleep(0.005)
    graph.spin(1.0)
    assert graph.change("deactivate")
    report = json.loads((tmp_path / "out/edgefirst/monday/capture_report.json").read_text())
    account = report["topics"]["/imu"]
    assert (account["received"], account["dropped"]) == (1400, 0), account


def test_what_has_arrived_when_the_node_is_deactivated_is_delivered(graph: Graph, tmp_path: Path) -> None:
    given = ("-p", f"output:={tmp_path / 'out'}", "-p", "min_free_mb:=1.0")
    late = graph.start(sys.executable, str(LATE), "--ros-args", *given)
    assert late.join(60.0) == 0, late.text
    assert report_of(tmp_path / "out")["topics"]["/imu"]["received"] == 20
