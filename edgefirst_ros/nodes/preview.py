"""Previews for RViz and Foxglove: each sample's picture and clouds, and the sensors' mounts as static tf."""

from __future__ import annotations

import queue
import threading
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import rclpy
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, TransformStamped, Vector3
from geometry_msgs.msg import Transform as Pose
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CompressedImage, PointCloud2, PointField
from sensor_msgs_py import point_cloud2
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from edgefirst_ros.config.topics import TF
from edgefirst_ros.model.pointcloud import CODES, PointCloud
from edgefirst_ros.model.sample import Role, Sample
from edgefirst_ros.model.transform import Transform, bare
from edgefirst_ros.nodes.diagnostics import Level, log

DEPTH = 5
TF_NODE_SUFFIX = "_preview_tf"
"""Suffix of the nodes that publish a preview's transforms, so that no capture subscribes to them."""
UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"
"""rclpy's name for a publisher's node until discovery has delivered its real name."""
CLOUDS: Mapping[str, tuple[Role, ...]] = {
    "lidar": (Role.LIDAR_POINTS, Role.LIDAR_CLUSTERS),
    "radar": (Role.RADAR_TARGETS, Role.RADAR_CLUSTERS),
}
_FIELDS = {code: datatype for datatype, code in CODES.items()}


class Preview:
    """Publishes samples from a thread of its own, and skips those that it has no time for.

    ``show`` may be called from any thread and never blocks. Messages are built only while there are
    subscribers.

    Args:
        node: the publishing node.
        tf_topic: topic for the sensors' transforms; empty: do not publish them.
    """

    def __init__(self, node: Node, tf_topic: str = "") -> None:
        self._node = node
        qos = QoSProfile(depth=DEPTH)
        self._image = node.create_publisher(CompressedImage, "~/preview/image/compressed", qos)
        self._clouds = {name: node.create_publisher(PointCloud2, f"~/preview/{name}", qos) for name in CLOUDS}
        self._samples: queue.Queue[Sample | None] = queue.Queue(DEPTH)
        self._has_complained = False
        self._transforms = StaticTransforms(node, tf_topic) if tf_topic else None
        self._thread = threading.Thread(target=self._run, name="preview", daemon=True)
        self._thread.start()

    def show(self, sample: Sample) -> None:
        """Queue a sample for publishing; drop it if the queue is full."""
        if self._transforms is not None:
            self._transforms.show(sample.calibration.transforms)
        try:
            self._samples.put_nowait(sample)
        except queue.Full:
            return

    @property
    def tf_topic(self) -> str:
        """Topic that transforms are being published on, empty while none are."""
        return self._transforms.topic if self._transforms is not None and self._transforms.publishing else ""

    def update_transforms(self) -> None:
        """Publish the sensors' transforms if they have changed; called periodically by the executor."""
        if self._transforms is None:
            return
        try:
            self._transforms.update()
        except Exception as error:  # noqa: BLE001 - a preview that fails must not disturb the capture
            self._complain(f"cannot publish transforms for the preview: {error}")

    def close(self) -> None:
        """Stop publishing."""
        if self._transforms is not None:
            self._transforms.close()
        while True:
            try:
                self._samples.put_nowait(None)
                break
            except queue.Full:
                with suppress(queue.Empty):
                    self._samples.get_nowait()
        self._thread.join(1.0)
        for publisher in (self._image, *self._clouds.values()):
            self._node.destroy_publisher(publisher)

    def _run(self) -> None:
        while (sample := self._samples.get()) is not None:
            try:
                self._publish(sample)
            except Exception as error:  # noqa: BLE001 - a preview that fails must not disturb the capture
                self._complain(f"cannot publish the preview: {error}")

    def _complain(self, text: str) -> None:
        if not self._has_complained:
            log(self._node.get_logger(), Level.WARN, text)
            self._has_complained = True

    def _publish(self, sample: Sample) -> None:
        stamp = Time(sec=sample.time_ns // 1_000_000_000, nanosec=sample.time_ns % 1_000_000_000)
        if sample.image is not None and self._image.get_subscription_count():
            camera = sample.companions.get(Role.CAMERA)
            header = Header(stamp=stamp, frame_id="" if camera is None else bare(camera.frame_id))
            # array: assigning bytes to a message's byte array is a hundred times slower.
            data = array("B", sample.image.data)
            self._image.publish(CompressedImage(header=header, format=sample.image.format, data=data))
        for name, publisher in self._clouds.items():
            if publisher.get_subscription_count():
                found = next((sample.companions[r] for r in CLOUDS[name] if r in sample.companions), None)
                if found is not None and isinstance(found.datum, PointCloud):
                    header = Header(stamp=stamp, frame_id=bare(found.frame_id))
                    publisher.publish(cloud_message(header, found.datum))


def cloud_message(header: Header, cloud: PointCloud) -> Any:  # noqa: ANN401 - sensor_msgs/PointCloud2, untyped
    """A cloud as sensor_msgs/PointCloud2: its scalar fields unchanged, array fields left out."""
    points = cloud.points
    kinds = {name: points.dtype[name].newbyteorder("=") for name in points.dtype.names or ()}
    kinds = {name: kind for name, kind in kinds.items() if kind.str[1:] in _FIELDS}
    packed = np.empty(len(points), list(kinds.items()))
    fields, offset = [], 0
    for name, kind in kinds.items():
        packed[name] = points[name]
        fields.append(PointField(name=name, offset=offset, datatype=_FIELDS[kind.str[1:]], count=1))
        offset += kind.itemsize
    if not packed.size:
        return PointCloud2(header=header, height=1, fields=fields, point_step=packed.dtype.itemsize)
    return point_cloud2.create_cloud(header, fields, packed)


class StaticTransforms:
    """Publishes transforms as one latched tf2_msgs/TFMessage while no other node publishes that type there.

    ``show`` may be called from any thread; ``update`` and ``close`` only from the executor's.

    The device's own ``tf_static`` may have the same name with the type geometry_msgs/TransformStamped. DDS
    keeps topics of one name and two types apart, but not every implementation does so within one participant;
    therefore the publisher has a participant of its own.

    Args:
        node: the node that shows the preview; its namespace and remappings apply.
        topic: topic to publish on; tf2's listeners read /tf_static.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node = node
        self.topic: str = node.resolve_topic_name(topic)
        self._name = f"{node.get_name()}{TF_NODE_SUFFIX}"
        self._wanted: Mapping[str, Transform] = {}
        self._shown: Mapping[str, Transform] = {}
        self._own: Any = None
        self._publisher: Any = None
        self._reported = ""

    @property
    def publishing(self) -> bool:
        """Whether transforms are being published now."""
        return self._publisher is not None

    def show(self, transforms: Mapping[str, Transform]) -> None:
        """Publish these, by child frame, at the next ``update``."""
        self._wanted = transforms

    def update(self) -> None:
        """Publish what has changed, or stop if another node publishes there by now."""
        others = self._others()
        if others:
            self._withdraw()
            self._report(others)
            return
        wanted = self._wanted
        if wanted == self._shown:
            return
        if self._publisher is None:
            latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
            self._publisher = self._own_node().create_publisher(TFMessage, self.topic, latched)
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

    def _own_node(self) -> Node:
        """A node in a participant of its own; it only publishes, so it need not be spun."""
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
        """Other nodes that publish transforms there; a placeholder if this node itself subscribes there."""
        node, mine = self._node, f"{self._node.get_namespace().rstrip('/')}/{self._name}"
        names = [
            f"{info.node_namespace.rstrip('/')}/{info.node_name}"
            for info in node.get_publishers_info_by_topic(self.topic)
            if info.topic_type == TF
        ]
        unknown = [name for name in names if name.endswith(UNKNOWN_NODE)]
        if self.publishing and mine not in names:
            unknown = unknown[1:]
        # Of two previews always the same one continues.
        others = [
            n for n in names if n not in {mine, *unknown} and not (n.endswith(TF_NODE_SUFFIX) and n > mine)
        ]
        listening = any(
            (info.topic_type, info.node_name, info.node_namespace)
            == (TF, node.get_name(), node.get_namespace())
            for info in node.get_subscriptions_info_by_topic(self.topic)
        )
        return sorted({*others, *unknown}) or ["a robot whose transforms are captured"] * listening

    def _report(self, others: list[str]) -> None:
        names = ", ".join(others)
        if names == self._reported:
            return
        self._reported = names
        if any(name.endswith(TF_NODE_SUFFIX) for name in others):
            level = Level.WARN
            text = (
                f"preview: {names} already publishes its frames on {self.topic}. Give each device a "
                "namespace and tf_topic:=tf_static, and start one RViz for each with /tf_static remapped"
            )
        else:
            level, text = Level.OK, f"preview: {names} publishes {self.topic}, so this node does not"
        log(self._node.get_logger(), level, text)


def tf_message(transforms: Iterable[Transform]) -> Any:  # noqa: ANN401 - tf2_msgs/TFMessage, untyped
    """Static transforms as tf2_msgs/TFMessage, without those whose parent has no name, which tf2 refuses."""
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
