"""Previews for RViz and Foxglove: each sample's picture and clouds, and the sensors' mounts.

All are on topics of the node's own, which are not captured, and where no device publishes.
"""

from __future__ import annotations

import queue
import threading
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, TransformStamped, Vector3
from geometry_msgs.msg import Transform as Pose
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, PointCloud2, PointField
from sensor_msgs_py import point_cloud2
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from edgefirst_ros.model.pointcloud import CODES, PointCloud
from edgefirst_ros.model.sample import Role, Sample
from edgefirst_ros.model.transform import Transform, bare
from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.nodes.publishing import latched

CLOUDS: Mapping[str, tuple[Role, ...]] = {
    "lidar": (Role.LIDAR_POINTS, Role.LIDAR_CLUSTERS),
    "radar": (Role.RADAR_TARGETS, Role.RADAR_CLUSTERS),
}
_FIELDS = {code: datatype for datatype, code in CODES.items()}


class Preview:
    """Publishes samples from a thread of its own, and skips those that it has no time for.

    ``show`` may be called from any thread and never blocks. Messages are built only while there are
    subscribers.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._image = node.create_publisher(CompressedImage, "~/preview/image/compressed", 5)
        self._clouds = {name: node.create_publisher(PointCloud2, f"~/preview/{name}", 5) for name in CLOUDS}
        self._transforms = latched(node, TFMessage, "~/preview/tf_static")
        self._samples: queue.Queue[Sample] = queue.Queue(5)
        self._shown: Mapping[str, Transform] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="preview", daemon=True)
        self._thread.start()

    def show(self, sample: Sample) -> None:
        """Queue a sample for publishing; drop it if the queue is full."""
        with suppress(queue.Full):
            self._samples.put_nowait(sample)

    def close(self) -> None:
        """Stop publishing."""
        self._ended.set()
        self._thread.join(1.0)
        for publisher in (self._image, self._transforms, *self._clouds.values()):
            self._node.destroy_publisher(publisher)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._publish(self._samples.get(timeout=0.2))
            except queue.Empty:
                continue
            except Exception as error:  # noqa: BLE001 - a preview that fails must not disturb the capture
                text = visible(f"cannot publish the preview: {error}")
                self._node.get_logger().warning(text, once=True)

    def _publish(self, sample: Sample) -> None:
        if (transforms := sample.calibration.transforms) != self._shown:
            self._transforms.publish(tf_message(transforms.values()))
            self._shown = transforms
        stamp = Time(sec=sample.time_ns // 1_000_000_000, nanosec=sample.time_ns % 1_000_000_000)
        if sample.image is not None and self._image.get_subscription_count():
            camera = sample.companions.get(Role.CAMERA)
            header = Header(stamp=stamp, frame_id="" if camera is None else bare(camera.frame_id))
            # array: assigning bytes to a message's byte array is a hundred times slower.
            data = array("B", sample.image.data)
            self._image.publish(CompressedImage(header=header, format=sample.image.format, data=data))
        for name, publisher in self._clouds.items():
            of = CLOUDS[name] if publisher.get_subscription_count() else ()
            found = next((sample.companions[role] for role in of if role in sample.companions), None)
            if found is not None and isinstance(found.datum, PointCloud):
                header = Header(stamp=stamp, frame_id=bare(found.frame_id))
                publisher.publish(cloud_message(header, found.datum))


def cloud_message(header: Header, cloud: PointCloud) -> Any:  # noqa: ANN401 - sensor_msgs/PointCloud2, untyped
    """A cloud as sensor_msgs/PointCloud2: its scalar fields unchanged, array fields left out."""
    points = cloud.points
    kinds = [(name, points.dtype[name].newbyteorder("=")) for name in points.dtype.names or ()]
    packed = np.empty(len(points), [(name, kind) for name, kind in kinds if kind.str[1:] in _FIELDS])
    fields = []
    for name, (kind, offset, *_) in (packed.dtype.fields or {}).items():
        packed[name] = points[name]
        fields.append(PointField(name=name, offset=offset, datatype=_FIELDS[kind.str[1:]], count=1))
    if not packed.size:
        return PointCloud2(header=header, height=1, fields=fields, point_step=packed.dtype.itemsize)
    return point_cloud2.create_cloud(header, fields, packed)


def tf_message(transforms: Iterable[Transform]) -> Any:  # noqa: ANN401 - tf2_msgs/TFMessage, untyped
    """Static transforms as tf2_msgs/TFMessage, without those whose parent has no name, which tf2 refuses."""
    found = []
    for each in transforms:
        place = Vector3(**dict(zip("xyz", each.translation_m, strict=True)))
        turn = Quaternion(**dict(zip("xyzw", each.rotation_xyzw, strict=True)))
        made, head = Pose(translation=place, rotation=turn), Header(frame_id=bare(each.parent))
        found += [TransformStamped(header=head, child_frame_id=bare(each.child), transform=made)]
    return TFMessage(transforms=[each for each in found if each.header.frame_id])
