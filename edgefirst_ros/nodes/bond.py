"""A bond with a lifecycle manager (nav2_lifecycle_manager): heartbeats for as long as the node is active.

The protocol is that of bond_core: both sides publish ``bond/msg/Status`` on one topic under the node's name.
Who hears nothing of the other for ``heartbeat_timeout``, or hears that it is not active, counts it as gone.
The heartbeats come from the node's own executor, so a node that hangs falls silent.
"""

from __future__ import annotations

import uuid
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rosidl_runtime_py.utilities import get_message
from std_msgs.msg import Header

TOPIC, KIND = "bond", "bond/msg/Status"
TIMEOUT_S = 4.0
"""What nav2's nodes and managers take."""
DEPTH = 100
MISSING = (
    "no bond with a lifecycle manager: the package bond is not installed (apt install ros-$ROS_DISTRO-bond); "
    "without it set bond_timeout: 0.0 in the manager"
)


def status_class() -> Any:  # noqa: ANN401 - a generated message class, or None
    """``bond/msg/Status``, None where the package is not installed."""
    try:
        return get_message(KIND)
    except (ImportError, AttributeError, ValueError):
        return None


class Bond:
    """Says that the node is active, from when it is made until it is broken by either side.

    Args:
        node: whose name the bond has.
        status: ``bond/msg/Status``.
        period_s: between heartbeats.
    """

    def __init__(self, node: Node, status: Any, period_s: float) -> None:  # noqa: ANN401 - generated
        self._node = node
        self._status = status
        self._period_s = period_s
        self._instance = str(uuid.uuid4())
        self._is_whole = True
        self._publisher = node.create_publisher(status, TOPIC, DEPTH)
        self._subscription = node.create_subscription(status, TOPIC, self._hear, DEPTH)
        # Not the node's clock: with simulated time it may stand still.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(period_s, self._beat, clock=steady)

    def close(self) -> None:
        """Break the bond, if it is not broken yet."""
        self._break()
        self._node.destroy_timer(self._timer)
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)

    def _beat(self) -> None:
        if self._is_whole:
            self._say(active=True)

    def _hear(self, message: Any) -> None:  # noqa: ANN401 - generated
        is_other = message.id == self._node.get_name() and message.instance_id != self._instance
        if is_other and not message.active:
            self._break()

    def _break(self) -> None:
        if self._is_whole:
            self._is_whole = False
            self._say(active=False)

    def _say(self, *, active: bool) -> None:
        self._publisher.publish(
            self._status(
                header=Header(stamp=self._node.get_clock().now().to_msg()),
                id=self._node.get_name(),
                instance_id=self._instance,
                active=active,
                heartbeat_timeout=TIMEOUT_S,
                heartbeat_period=self._period_s,
            )
        )
