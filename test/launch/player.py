"""Publishes a recording's messages, byte for byte, at its own rate: what the device's bridge would do.

Waits until every topic has its subscriber, prints ``playing``, plays, prints ``played N`` and exits. With
``--simulate`` it is a simulation: ``/clock`` goes from 0 at the rate, stamps are of that time, and what a
robot says of its sensors comes once before the clock begins.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import rclpy
from builtin_interfaces.msg import Time
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from rosidl_runtime_py.utilities import get_message

from edgefirst_ros.config.topics import full_type
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.mcap import McapRecording

MATCH_S = 30.0
TICK_S = 0.01
RESET_S = 1.0
"""A simulation takes so long to begin again."""
BEGIN_NS = 200_000_000
"""Simulated time of the first message."""
EARLY = ("tf_static", "camera/info")


def restamped(data: bytes, shift_ns: int) -> bytes:
    """A little-endian message that begins with its stamp, at another time."""
    seconds, nanoseconds = struct.unpack_from("<iI", data, 4)
    seconds, nanoseconds = divmod(seconds * 1_000_000_000 + nanoseconds + shift_ns, 1_000_000_000)
    return data[:4] + struct.pack("<iI", seconds, nanoseconds) + data[12:]


class Simulation:
    """Plays messages at a rate, with a ``/clock`` that says how far it is."""

    def __init__(self, node: Node, messages: list[RawMessage], rate: float) -> None:
        self._messages = messages
        self._rate = rate
        self._first_ns = messages[0].receive_ns
        self._clock = node.create_publisher(Clock, "/clock", 10)
        self.published = 0

    def early(self, publishers: dict[str, Publisher]) -> None:
        """What comes while there is no time yet."""
        for name in EARLY:
            message = next(m for m in self._messages if m.topic.strip("/") == name)
            publishers[message.topic].publish(restamped(message.data, -self._first_ns))
            self.published += 1
        time.sleep(0.5)

    def play(self, publishers: dict[str, Publisher], pause_s: float) -> None:
        """From 0 to the end, with a pause in the middle in which the clock stands still."""
        time.sleep(RESET_S)  # what is under way arrives while its own time is told
        for _ in range(round(RESET_S / TICK_S)):
            self._tell(0)
            time.sleep(TICK_S)
        start_s = time.monotonic()
        for number, message in enumerate(self._messages):
            if number == len(self._messages) // 2:
                self._wait(start_s := start_s + pause_s, message, still=True)
            self._wait(start_s, message)
            publishers[message.topic].publish(restamped(message.data, BEGIN_NS - self._first_ns))
            self.published += 1

    def _wait(self, start_s: float, until: RawMessage, *, still: bool = False) -> None:
        """Until a message's time has come, or, with the clock ``still``, until it goes on."""
        due_ns = until.receive_ns - self._first_ns + BEGIN_NS
        frozen_ns = due_ns - 1
        while (passed_s := time.monotonic() - start_s) * self._rate < (frozen_ns if still else due_ns) / 1e9:
            self._tell(frozen_ns if still else min(due_ns, round(passed_s * self._rate * 1e9)))
            time.sleep(TICK_S)
        self._tell(due_ns)

    def _tell(self, now_ns: int) -> None:
        now_ns = max(0, now_ns)
        stamp = Time(sec=now_ns // 1_000_000_000, nanosec=now_ns % 1_000_000_000)
        self._clock.publish(Clock(clock=stamp))


def made(
    node: Node, recording: McapRecording, arguments: argparse.Namespace, qos: QoSProfile
) -> Iterator[tuple[str, Publisher]]:
    """Publishers by the recording's topics, without those whose type the workspace does not have."""
    for info in recording.topics():
        bare, name = info.topic.strip("/"), full_type(info.schema)
        if bare in arguments.skip:
            continue
        try:
            kind = get_message(name)
        except (AttributeError, ModuleNotFoundError):  # edgefirst_msgs as published lacks RadarInfo
            sys.stdout.write(f"not played: {info.topic}, since {name} is not in the sourced workspace\n")
        else:
            yield info.topic, node.create_publisher(kind, f"{arguments.namespace}/{bare}", qos)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("recording", type=Path)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="play so much of it")
    parser.add_argument("--skip", nargs="*", default=[], help="topics left out")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--best-effort", action="store_true")
    parser.add_argument("--no-wait", action="store_true", help="play to whoever is there")
    parser.add_argument("--settle", type=float, default=0.5, help="seconds between a match and the start")
    parser.add_argument("--lose", nargs=2, default=["", "1"], help="topic, and N: every Nth is left out")
    parser.add_argument("--restamp", action="store_true", help="as if recorded now: stamps move along")
    parser.add_argument("--simulate", action="store_true", help="with /clock, from 0")
    parser.add_argument("--rounds", type=int, default=1, help="simulations, each of which begins at 0")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each stands still for")
    arguments = parser.parse_args()
    recording = McapRecording(arguments.recording)
    rclpy.init(args=[])
    node = rclpy.create_node("player")
    reliability = ReliabilityPolicy.BEST_EFFORT if arguments.best_effort else ReliabilityPolicy.RELIABLE
    qos = QoSProfile(depth=100, reliability=reliability)
    publishers = dict(made(node, recording, arguments, qos))
    deadline = time.monotonic() + MATCH_S
    while not arguments.no_wait and not all(p.get_subscription_count() for p in publishers.values()):
        if time.monotonic() > deadline:
            alone = [topic for topic, p in publishers.items() if not p.get_subscription_count()]
            sys.stdout.write(f"never matched: {', '.join(alone)}\n")
            sys.stdout.flush()
            return 1
        rclpy.spin_once(node, timeout_sec=0.1)
    time.sleep(arguments.settle)  # the other side of a match is not told when this one is
    sys.stdout.write("playing\n")
    sys.stdout.flush()
    if arguments.simulate:
        simulation = Simulation(
            node, [m for m in recording.messages() if m.topic in publishers], arguments.rate
        )
        simulation.early(publishers)
        for _ in range(arguments.rounds):
            simulation.play(publishers, arguments.pause)
        time.sleep(0.5)
        sys.stdout.write(f"played {simulation.published}\n")
        sys.stdout.flush()
        return 0
    start_s, start_ns, first_ns = time.monotonic(), time.time_ns(), None
    counts, published = Counter[str](), 0
    for message in recording.messages():
        if message.topic not in publishers:
            continue
        first_ns = message.receive_ns if first_ns is None else first_ns
        due_s = (message.receive_ns - first_ns) / 1e9
        if due_s > arguments.seconds:
            break
        bare = message.topic.strip("/")
        counts[bare] += 1
        if bare == arguments.lose[0] and counts[bare] % int(arguments.lose[1]) == 0:
            continue
        time.sleep(max(0.0, start_s + due_s / arguments.rate - time.monotonic()))
        data = message.data
        if arguments.restamp:
            data = restamped(data, start_ns - first_ns)
        publishers[message.topic].publish(data)
        published += 1
    time.sleep(0.5)
    # What ends sends nothing again.
    all(publisher.wait_for_all_acked(Duration(seconds=5)) for publisher in publishers.values())
    sys.stdout.write(f"played {published}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
