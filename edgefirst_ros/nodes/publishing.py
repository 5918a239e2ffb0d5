"""What a node publishes about itself: diagnostics, status, and its lifecycle bond."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Header

from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.nodes.diagnostics import Diagnostic

BOND_TOPIC, BOND_TYPE = "bond", "bond/msg/Status"
BOND_TIMEOUT_S = 4.0
"""The default of nav2's nodes and managers."""


def latched(node: Node, kind: type, topic: str, depth: int = 1) -> Any:  # noqa: ANN401 - rclpy's, untyped
    """A publisher whose last messages late subscribers receive."""
    qos = QoSProfile(depth=depth, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    return node.create_publisher(kind, topic, qos)


@dataclass(eq=False)
class StatusPublisher:
    """``/diagnostics`` with every diagnostic, and the summary on the latched ``~/status``."""

    node: Node

    def __post_init__(self) -> None:
        self._name = self.node.get_fully_qualified_name().strip("/")
        self._diagnostics = self.node.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        self._status = latched(self.node, DiagnosticStatus, "~/status")

    def publish(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Publish all of them; the first is the summary."""
        statuses = [self.message(each) for each in diagnostics]
        array = DiagnosticArray(status=statuses)
        array.header.stamp = self.node.get_clock().now().to_msg()
        self._diagnostics.publish(array)
        self._status.publish(statuses[0])

    def message(self, diagnostic: Diagnostic) -> Any:  # noqa: ANN401 - a generated message, untyped
        """One as diagnostic_msgs/DiagnosticStatus."""
        values = diagnostic.values
        pairs = values.items() if isinstance(values, Mapping) else values
        return DiagnosticStatus(
            level=bytes([diagnostic.level]),
            name=visible(f"{self._name}: {diagnostic.name}"),
            message=visible(diagnostic.message),
            hardware_id=socket.gethostname(),
            values=[KeyValue(key=visible(k), value=visible(str(v))) for k, v in pairs],
        )


@dataclass(eq=False)
class Bond:
    """A bond with a lifecycle manager (nav2_lifecycle_manager): heartbeats while the node is active.

    The protocol is bond_core's: both sides publish ``bond/msg/Status`` on one topic under the node's name. A
    side that hears nothing for ``heartbeat_timeout``, or hears that the other is not active, takes the bond
    for broken. The node's own executor sends the heartbeats, so a node that hangs stops sending them.

    Attributes:
        node: the node that the bond is named after.
        status: ``bond/msg/Status``.
        period_s: time between heartbeats.
    """

    node: Node
    status: Any
    period_s: float

    def __post_init__(self) -> None:
        self._instance, self._is_whole = str(uuid.uuid4()), True
        qos = QoSProfile(depth=100)
        self._publisher = self.node.create_publisher(self.status, BOND_TOPIC, qos)
        self._subscription = self.node.create_subscription(self.status, BOND_TOPIC, self._on_status, qos)
        # Not the node's clock, which may stand still in simulated time.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = self.node.create_timer(self.period_s, self._publish, clock=steady)

    def close(self) -> None:
        """Break the bond if it still holds, and stop listening."""
        self._break()
        self.node.destroy_timer(self._timer)
        self.node.destroy_subscription(self._subscription)
        self.node.destroy_publisher(self._publisher)

    def _on_status(self, message: Any) -> None:  # noqa: ANN401 - generated
        is_other = message.id == self.node.get_name() and message.instance_id != self._instance
        if is_other and not message.active:
            self._break()

    def _break(self) -> None:
        self._publish(active=False)
        self._is_whole = False

    def _publish(self, *, active: bool = True) -> None:
        if self._is_whole:
            self._publisher.publish(
                self.status(
                    header=Header(stamp=self.node.get_clock().now().to_msg()),
                    id=self.node.get_name(),
                    instance_id=self._instance,
                    active=active,
                    heartbeat_timeout=BOND_TIMEOUT_S,
                    heartbeat_period=self.period_s,
                )
            )
