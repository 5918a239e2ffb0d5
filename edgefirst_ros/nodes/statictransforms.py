"""The sensors' places as tf2 reads them, so that RViz can show previews in one frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import rclpy
from geometry_msgs.msg import Quaternion, TransformStamped, Vector3
from geometry_msgs.msg import Transform as Pose
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from edgefirst_ros.messages.transform import Transform, bare
from edgefirst_ros.nodes.diagnostics import Level
from edgefirst_ros.nodes.log import log
from edgefirst_ros.topics import TF

SUFFIX = "_preview_tf"
"""Ends the names of nodes that publish what a preview shows: nothing that a capture should take."""
UNKNOWN = "_NODE_NAME_UNKNOWN_"
"""How a publisher's node is called until the graph has told its name."""


class StaticTransforms:
    """Republishes transforms as one latched tf2_msgs/TFMessage, while nobody else publishes such there.

    ``show`` may be called from any thread; ``look`` and ``close`` from the executor's.

    The device's own ``tf_static`` may have the same name, as geometry_msgs/TransformStamped. DDS tells topics
    of one name and two types apart, though not every implementation within one participant: this has its own.

    Args:
        node: whose previews these are for; its namespace and remappings hold.
        topic: where; tf2's listeners read /tf_static.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node = node
        self.topic: str = node.resolve_topic_name(topic)
        self._name = f"{node.get_name()}{SUFFIX}"
        self._wanted: Mapping[str, Transform] = {}
        self._shown: Mapping[str, Transform] = {}
        self._own: Any = None
        self._publisher: Any = None
        self._told = ""

    @property
    def publishing(self) -> bool:
        """Whether anything is published now."""
        return self._publisher is not None

    def show(self, transforms: Mapping[str, Transform]) -> None:
        """Publish these, by child frame, at the next look."""
        self._wanted = transforms

    def look(self) -> None:
        """Publish what is new, or stop if somebody else has come to publish there."""
        others = self._others()
        if others:
            self._withdraw()
            self._tell(others)
            return
        wanted = self._wanted
        if wanted == self._shown:
            return
        if self._publisher is None:
            latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
            self._publisher = self._apart().create_publisher(TFMessage, self.topic, latched)
        self._publisher.publish(tf_message(wanted.values()))
        self._shown = wanted

    def close(self) -> None:
        """Stop publishing."""
        self._withdraw()
        if self._own is not None:
            self._own.destroy_node()
            self._own.context.try_shutdown()
            self._own = None

    def _withdraw(self) -> None:
        if self._publisher is not None:
            self._own.destroy_publisher(self._publisher)
            self._publisher, self._shown = None, {}

    def _apart(self) -> Node:
        """A node in a participant of its own; it only publishes, so nobody has to spin it."""
        if self._own is None:
            context = rclpy.Context()
            domain = self._node.context.get_domain_id()
            rclpy.init(
                args=[], context=context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
            )
            self._own = rclpy.create_node(
                self._name,
                context=context,
                namespace=self._node.get_namespace(),
                use_global_arguments=False,
                enable_rosout=False,
                start_parameter_services=False,
            )
        return self._own

    def _others(self) -> list[str]:
        """Who else publishes transforms there; and this node, if it listens there for a robot's."""
        node, mine = self._node, f"{self._node.get_namespace().rstrip('/')}/{self._name}"
        names = [
            f"{info.node_namespace.rstrip('/')}/{info.node_name}"
            for info in node.get_publishers_info_by_topic(self.topic)
            if info.topic_type == TF
        ]
        unknown = [name for name in names if name.endswith(UNKNOWN)]
        if self.publishing and mine not in names:
            unknown = unknown[1:]
        # Of two previews one goes on, always the same.
        others = [n for n in names if n not in {mine, *unknown} and not (n.endswith(SUFFIX) and n > mine)]
        listening = any(
            (info.topic_type, info.node_name, info.node_namespace)
            == (TF, node.get_name(), node.get_namespace())
            for info in node.get_subscriptions_info_by_topic(self.topic)
        )
        return sorted({*others, *unknown}) or ["whoever was heard there"] * listening

    def _tell(self, others: list[str]) -> None:
        told = ", ".join(others)
        if told == self._told:
            return
        self._told = told
        if any(name.endswith(SUFFIX) for name in others):
            level, text = (
                Level.WARN,
                (
                    f"previews: {self.topic} has the frames of {told}. Give each device its own: a "
                    "namespace for each with tf_topic:=tf_static, and an RViz with /tf_static remapped"
                ),
            )
        else:
            level, text = Level.OK, f"previews: {self.topic} is published by {told}, so not by this node"
        log(self._node.get_logger(), level, text)


def tf_message(transforms: Iterable[Transform]) -> Any:  # noqa: ANN401 - tf2_msgs/TFMessage, untyped
    """Static transforms as tf2_msgs/TFMessage, those left out that tf2 refuses: of a frame without a name."""
    return TFMessage(
        transforms=[
            TransformStamped(
                header=Header(frame_id=bare(each.parent)),
                child_frame_id=bare(each.child),
                transform=Pose(
                    translation=Vector3(**dict(zip("xyz", each.translation_m, strict=True))),
                    rotation=Quaternion(**dict(zip("xyzw", each.rotation_xyzw, strict=True))),
                ),
            )
            for each in transforms
            if bare(each.parent)
        ]
    )
