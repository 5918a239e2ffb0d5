"""Listens to all of the ROS graph and prints a configuration for it: ``ros2 run edgefirst_ros suggest``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from edgefirst_ros.config.topics import full_type
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.nodes.graph import RosGraph, receiving_qos
from edgefirst_ros.sources.suggest import Look

LOOK_EVERY_S = 0.5
"""Publishers are discovered one after the other."""
MOST_TOPICS, DEPTH = 1000, 100


class Listener:
    """Subscribes to every topic of a type that can be used, as raw bytes.

    Args:
        node: that subscribes.
    """

    def __init__(self, node: Node) -> None:
        self.look = Look()
        self._node = node
        self._graph = RosGraph(node)
        self._heard: set[str] = set()

    def subscribe(self) -> None:
        """To what is there now; topics that cannot be used are noted with their type."""
        for topic, kinds in self._graph.topics():
            if topic in self._heard or len(self._heard) >= MOST_TOPICS:
                continue
            offers = self._graph.offers(topic)
            if not offers:
                continue
            self._heard.add(topic)
            kind = full_type(kinds[0])
            self.look.expect(topic, kind)
            message_class = self._graph.message_class(kind)
            if message_class is None or not self.look.topics[topic].can_be_decoded:
                continue
            qos = receiving_qos(DEPTH, latched=any(offer.latched for offer in offers))
            self._node.create_subscription(message_class, topic, self._taking(topic, kind), qos, raw=True)

    def _taking(self, topic: str, kind: str) -> Callable[[bytes, Mapping[str, int]], None]:
        # rclpy counts the parameters of a function to know whether it wants the times.
        def take(data: bytes, info: Mapping[str, int]) -> None:
            times = info["received_timestamp"], info["source_timestamp"]
            self.look.feed(RawMessage(topic, kind, data, *times, 0))

        return take


def main(arguments: Sequence[str] | None = None) -> int:
    """Listen, and print; 2 if there is nothing that samples could begin with."""
    given = list(sys.argv if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="suggest", description="Print a configuration for what is published."
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to listen (default: 5)")
    asked = parser.parse_args(remove_ros_args(given)[1:])
    rclpy.init(args=given)
    node = Node("suggest")
    try:
        listener, end_s = Listener(node), time.monotonic() + asked.seconds
        look_s = 0.0
        while time.monotonic() < end_s:
            if time.monotonic() >= look_s:
                listener.subscribe()
                look_s = time.monotonic() + LOOK_EVERY_S
            rclpy.spin_once(node, timeout_sec=0.05)
        found = listener.look.suggestion("the ROS graph")
        sys.stdout.write(found.text)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except (KeyboardInterrupt, ExternalShutdownException):
        return 130
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
