"""Diagnostics, status and events on their topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from edgefirst_ros.live.session import Split
from edgefirst_ros.nodes.diagnostics import Entry, Level
from edgefirst_ros.nodes.sessions import split_values


class StatusPublisher:
    """``/diagnostics`` for everything, ``~/status`` for the one that sums it up, kept for latecomers."""

    def __init__(self, node: Node, hardware_id: str) -> None:
        self._node = node
        self._hardware_id = hardware_id
        self._name = node.get_fully_qualified_name().strip("/")
        self._diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._status = node.create_publisher(DiagnosticStatus, "~/status", latched)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Publish all entries; the first is the summary."""
        statuses = [self._message(entry) for entry in entries]
        array = DiagnosticArray(status=statuses)
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._diagnostics.publish(array)
        self._status.publish(statuses[0])

    def _message(self, entry: Entry) -> Any:  # noqa: ANN401 - a generated message, untyped
        return DiagnosticStatus(
            level=bytes([entry.level]),
            name=f"{self._name}: {entry.name}",
            message=entry.message,
            hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in entry.values],
        )


class SplitPublisher:
    """``~/events/split`` for whoever takes sessions away as they end, kept for latecomers.

    A diagnostic_msgs/DiagnosticStatus like ``~/status``: typed keys and values that every ROS 2 has, where
    rosbag2_interfaces/WriteSplitEvent has no place for more than one path, and is not everywhere.
    """

    def __init__(self, node: Node, hardware_id: str) -> None:
        self._hardware_id = hardware_id
        self._name = node.get_fully_qualified_name().strip("/")
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._events = node.create_publisher(DiagnosticStatus, "~/events/split", latched)

    def publish(self, split: Split) -> None:
        """Tell that a session is complete and another one under way."""
        values = [KeyValue(key=key, value=value) for key, value in split_values(split)]
        self._events.publish(
            DiagnosticStatus(
                level=bytes([Level.OK]),
                name=f"{self._name}: split",
                message=f"{split.closed.summary}; {split.opened} follows",
                hardware_id=self._hardware_id,
                values=values,
            )
        )
