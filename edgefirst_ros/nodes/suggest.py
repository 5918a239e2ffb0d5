"""Listens to all of the ROS graph and prints a configuration for it: ``ros2 run edgefirst_ros suggest``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.utilities import remove_ros_args

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.nodes.graph import RosGraph, message_class, receiving_qos
from edgefirst_ros.offline.inputs import is_foreign
from edgefirst_ros.sources.suggest import Look

LOOK_EVERY_S = 0.5
"""Publishers are discovered one after the other."""
MOST_TOPICS, DEPTH = 1000, 100
SHARED = frozenset({"/tf", "/tf_static"})


@dataclass(eq=False)
class Listener:
    """Subscribes to every topic of a type that can be used, as raw bytes.

    Attributes:
        node: that subscribes.
        root: of the robot's topics; those elsewhere are another one's, but for transforms.
    """

    node: Node
    root: str = "/"
    look: Look = field(default_factory=Look)

    def subscribe(self) -> None:
        """To what is there now; topics that cannot be used are noted with their type."""
        graph, known = RosGraph(self.node), self.look.topics
        for topic, kinds in graph.published().items():
            is_ours = topic.startswith(self.root) or topic in SHARED
            if not is_ours or topic in known or len(known) >= MOST_TOPICS:
                continue
            kind = full_type(kinds[0])
            self.look.expect(topic, kind)
            if (made_of := message_class(kind)) is not None and known[topic].can_be_decoded:
                offers = graph.offers(topic)
                latched, reliable = any(o.latched for o in offers), all(o.reliable for o in offers)
                qos = receiving_qos(DEPTH, latched=latched, reliable=latched or reliable)
                self.node.create_subscription(made_of, topic, partial(self._take, topic, kind), qos, raw=True)

    def _take(self, topic: str, kind: str, data: bytes, info: Mapping[str, int]) -> None:
        times = info["received_timestamp"], info["source_timestamp"]
        if (clock := self.node.get_clock()).ros_time_is_active:
            times = (clock.now().nanoseconds,) * 2
        self.look.feed(RawMessage(topic, kind, data, *times, 0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Listen, and print; 2 if there is nothing that samples could begin with."""
    given = list(sys.argv if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="suggest", description="Print a configuration of what is published."
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to listen (default: 5)")
    parser.add_argument("--prefix", default="", help="of the robot's topics, in the node's namespace")
    parser.add_argument("--if-needed", action="store_true", help="print nothing where none is needed")
    asked = parser.parse_args(remove_ros_args(given)[1:])
    rclpy.init(args=given)
    node = Node("suggest")
    try:
        root = f"{node.get_namespace().rstrip('/')}/{asked.prefix}".rstrip("/")
        listener = Listener(node, f"{root}/")
        end_s, look_s = time.monotonic() + asked.seconds, 0.0
        while (now_s := time.monotonic()) < end_s:
            if now_s >= look_s:
                listener.subscribe()
                look_s = now_s + LOOK_EVERY_S
                there = [(seen.topic, seen.type) for seen in listener.look.topics.values()]
                if asked.if_needed and not is_foreign(there, Config()):
                    return 0
            rclpy.spin_once(node, timeout_sec=0.05)
        found = listener.look.suggestion("the ROS graph")
        sys.stdout.write(found.parameters)
        sys.stderr.write("".join(f"warning: {topic}: {why}\n" for topic, why in found.unusable.items()))
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
