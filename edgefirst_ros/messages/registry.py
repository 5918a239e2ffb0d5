"""Schema name to decoder: the one place that knows every message type that is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import (
    decode_camera_info,
    decode_compressed_image,
    decode_foxglove_image,
    decode_image,
    decode_packet,
    decode_video,
)
from edgefirst_ros.messages.cdr import Stamped
from edgefirst_ros.messages.definitions import short_name
from edgefirst_ros.messages.detection import decode_detect, decode_mask, decode_model, decode_model_info
from edgefirst_ros.messages.imu import decode_imu
from edgefirst_ros.messages.measurement import Datum, RawMessage
from edgefirst_ros.messages.navsat import decode_navsat
from edgefirst_ros.messages.odometry import decode_odometry
from edgefirst_ros.messages.pointcloud import decode_pointcloud
from edgefirst_ros.messages.radar import decode_radar_cube, decode_radar_info
from edgefirst_ros.messages.transform import decode_tf, decode_transform

Decoder = Callable[[bytes, str], Stamped[Datum]]

DECODERS: Mapping[str, Decoder] = MappingProxyType(
    {
        "foxglove_msgs/CompressedVideo": decode_video,
        "foxglove_msgs/CompressedImage": decode_foxglove_image,
        "sensor_msgs/CompressedImage": decode_compressed_image,
        "ffmpeg_image_transport_msgs/FFMPEGPacket": decode_packet,
        "sensor_msgs/Image": decode_image,
        "sensor_msgs/CameraInfo": decode_camera_info,
        "sensor_msgs/PointCloud2": decode_pointcloud,
        "sensor_msgs/Imu": decode_imu,
        "sensor_msgs/NavSatFix": decode_navsat,
        "nav_msgs/Odometry": decode_odometry,
        "geometry_msgs/TransformStamped": decode_transform,
        "tf2_msgs/TFMessage": decode_tf,
        "edgefirst_msgs/RadarCube": decode_radar_cube,
        "edgefirst_msgs/RadarInfo": decode_radar_info,
        "edgefirst_msgs/Model": decode_model,
        "edgefirst_msgs/ModelInfo": decode_model_info,
        "edgefirst_msgs/Detect": decode_detect,
        "edgefirst_msgs/Mask": decode_mask,
    }
)
"""Decoders by ``pkg/Type``."""

_USELESS = frozenset({"edgefirst_msgs/DmaBuffer", "edgefirst_msgs/CameraFrame"})


def can_decode(schema: str) -> bool:
    """Whether messages of this type (``pkg/msg/Type`` or ``pkg/Type``) are read at all."""
    return short_name(schema) in DECODERS


def decode(message: RawMessage) -> Stamped[Datum]:
    """Turn one message into its datum; arrays are read-only and, where possible, views of its bytes.

    Raises:
        DecodeError: the reason is the same for all messages with that fault, so that it can be counted.
    """
    schema = short_name(message.schema)
    decoder = DECODERS.get(schema)
    if decoder is None:
        if schema in _USELESS:
            raise DecodeError("DMA buffer handles are of no use off the device")
        raise DecodeError("no decoder for this type")
    return decoder(message.data, message.definition)
