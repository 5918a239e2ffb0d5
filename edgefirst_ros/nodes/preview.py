"""What is being saved, published for RViz and Foxglove: each sample's picture and clouds with one stamp."""

from __future__ import annotations

import queue
import threading
from array import array
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CompressedImage, PointCloud2, PointField
from sensor_msgs_py import point_cloud2
from std_msgs.msg import Header

from edgefirst_ros.messages.pointcloud import PointCloud
from edgefirst_ros.messages.transform import bare
from edgefirst_ros.nodes.statictransforms import StaticTransforms
from edgefirst_ros.sample import Role, Sample

DEPTH = 5
CLOUDS: Mapping[str, tuple[Role, ...]] = {
    "lidar": (Role.LIDAR_POINTS, Role.LIDAR_CLUSTERS),
    "radar": (Role.RADAR_TARGETS, Role.RADAR_CLUSTERS),
}
_FIELDS = {
    "i1": PointField.INT8,
    "u1": PointField.UINT8,
    "i2": PointField.INT16,
    "u2": PointField.UINT16,
    "i4": PointField.INT32,
    "u4": PointField.UINT32,
    "f4": PointField.FLOAT32,
    "f8": PointField.FLOAT64,
}


class Preview:
    """Publishes samples from a thread of its own; what it has no time for is left out.

    ``show`` may be called from any thread and never waits. A message is made only while somebody subscribes.

    Args:
        node: that publishes.
        tf_topic: where the sensors' places are published, as tf2 reads them; empty: nowhere.
    """

    def __init__(self, node: Node, tf_topic: str = "") -> None:
        self._node = node
        qos = QoSProfile(depth=DEPTH)
        self._image = node.create_publisher(CompressedImage, "~/preview/image/compressed", qos)
        self._clouds = {name: node.create_publisher(PointCloud2, f"~/preview/{name}", qos) for name in CLOUDS}
        self._samples: queue.Queue[Sample | None] = queue.Queue(DEPTH)
        self._told = False
        self._places = StaticTransforms(node, tf_topic) if tf_topic else None
        self._thread = threading.Thread(target=self._run, name="preview", daemon=True)
        self._thread.start()

    def show(self, sample: Sample) -> None:
        """Publish a sample soon, or not at all if there is no time for it."""
        if self._places is not None:
            self._places.show(sample.calibration.transforms)
        try:
            self._samples.put_nowait(sample)
        except queue.Full:
            return

    @property
    def tf_topic(self) -> str:
        """Where the sensors' places are being published, empty while they are not."""
        return self._places.topic if self._places is not None and self._places.publishing else ""

    def look(self) -> None:
        """Publish where the sensors are, if that is new; to be called now and then by the executor."""
        if self._places is None:
            return
        try:
            self._places.look()
        except Exception as error:  # noqa: BLE001 - a preview that fails must not disturb the capture
            self._complain(f"no transforms for previews: {error}")

    def close(self) -> None:
        """Stop publishing."""
        if self._places is not None:
            self._places.close()
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
                self._complain(f"no preview: {error}")

    def _complain(self, text: str) -> None:
        if not self._told:
            self._node.get_logger().warning(text)
            self._told = True

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
    """A cloud as sensor_msgs/PointCloud2, with its fields as they came, those of several numbers left out."""
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
