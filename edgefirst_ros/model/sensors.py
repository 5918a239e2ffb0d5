"""The table of sensors: each role with its kind, its message types and their decoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Self

ALIVE_S = 5.0
"""A topic that has been silent for longer is not waited for any more."""


class SensorKind(Enum):
    """How the measurements of a sensor are used."""

    COMPANION = "companion"
    """Part of a sample: its reference frame, or paired with that by time."""
    CALIBRATION = "calibration"
    """The latest one describes other sensors; it is not paired by time."""
    MOTION = "motion"
    """Position, orientation or motion of the rig, from which its poses are computed."""


COMPANION, CALIBRATION, MOTION = SensorKind


@dataclass(frozen=True, slots=True)
class Sensor:
    """Kind and decoders of one role.

    Attributes:
        kind: how its measurements are used.
        decoders: message type (``pkg/msg/Type``) to ``module:function`` of this package, such as
            ``navigation:decode_imu``. The usual type comes first. A module is imported with its first
            message.
    """

    kind: SensorKind
    decoders: Mapping[str, str]


_CLOUD = {"sensor_msgs/msg/PointCloud2": "pointcloud:decode_pointcloud"}
_LIDAR = {**_CLOUD, "sensor_msgs/msg/LaserScan": "pointcloud:decode_laser_scan"}
_RADAR = {
    **_CLOUD,
    "radar_msgs/msg/RadarScan": "radar:decode_radar_scan",
    "radar_msgs/msg/RadarTracks": "radar:decode_radar_tracks",
}
_IMAGE = {"sensor_msgs/msg/Image": "camera:decode_image"}
_JPEG_OR_PNG = {"sensor_msgs/msg/CompressedImage": "camera:decode_compressed_image"}
_TF = {"tf2_msgs/msg/TFMessage": "transform:decode_tf"}
_GPS = {
    "sensor_msgs/msg/NavSatFix": "navigation:decode_navsat",
    "gps_msgs/msg/GPSFix": "navigation:decode_gps_fix",
}
_ODOMETRY = {
    "nav_msgs/msg/Odometry": "navigation:decode_odometry",
    "geometry_msgs/msg/PoseStamped": "navigation:decode_pose",
    "geometry_msgs/msg/PoseWithCovarianceStamped": "navigation:decode_pose_with_covariance",
    "px4_msgs/msg/VehicleOdometry": "navigation:decode_vehicle_odometry",
}
_DETECT = {"edgefirst_msgs/msg/Detect": "detection:decode_detect"}
_MODEL_INFO = {"edgefirst_msgs/msg/ModelInfo": "detection:decode_model_info"}
_CAMERA = {
    "foxglove_msgs/msg/CompressedVideo": "camera:decode_video",
    "ffmpeg_image_transport_msgs/msg/FFMPEGPacket": "camera:decode_packet",
    **_JPEG_OR_PNG,
    "foxglove_msgs/msg/CompressedImage": "camera:decode_foxglove_image",
    **_IMAGE,
}


class Role(StrEnum):
    """What a topic is to a dataset, whatever its name is."""

    def __new__(cls, name: str, kind: SensorKind, decoders: Mapping[str, str]) -> Self:
        """Make a role from its name and the fields of its ``Sensor``."""
        role = str.__new__(cls, name)
        role._value_ = name
        role.sensor = Sensor(kind, MappingProxyType(decoders))
        return role

    sensor: Sensor

    CAMERA = "camera", COMPANION, _CAMERA
    CAMERA_INFO = "camera_info", CALIBRATION, {"sensor_msgs/msg/CameraInfo": "camera:decode_camera_info"}
    RADAR_TARGETS = "radar_targets", COMPANION, _RADAR
    RADAR_CLUSTERS = "radar_clusters", COMPANION, _RADAR
    RADAR_CUBE = "radar_cube", COMPANION, {"edgefirst_msgs/msg/RadarCube": "radar:decode_radar_cube"}
    RADAR_INFO = "radar_info", CALIBRATION, {"edgefirst_msgs/msg/RadarInfo": "radar:decode_radar_info"}
    LIDAR_POINTS = "lidar_points", COMPANION, _LIDAR
    LIDAR_CLUSTERS = "lidar_clusters", COMPANION, _CLOUD
    LIDAR_DEPTH = "lidar_depth", COMPANION, _IMAGE | _JPEG_OR_PNG
    LIDAR_REFLECT = "lidar_reflect", COMPANION, _IMAGE
    DEPTH = "depth", COMPANION, _IMAGE | _JPEG_OR_PNG
    IMU = "imu", MOTION, {"sensor_msgs/msg/Imu": "navigation:decode_imu"}
    GPS = "gps", MOTION, _GPS
    ODOMETRY = "odometry", MOTION, _ODOMETRY | _TF
    TF = "tf", CALIBRATION, {"geometry_msgs/msg/TransformStamped": "transform:decode_transform"} | _TF
    ROBOT_DESCRIPTION = (
        "robot_description",
        CALIBRATION,
        {"std_msgs/msg/String": "transform:decode_description"},
    )
    MODEL = "model", COMPANION, {"edgefirst_msgs/msg/Model": "detection:decode_model"} | _DETECT
    MODEL_INFO = "model_info", CALIBRATION, _MODEL_INFO
    MASK = "mask", COMPANION, {"edgefirst_msgs/msg/Mask": "detection:decode_mask"}
    BOXES_3D = "boxes3d", COMPANION, _DETECT
    FUSION_RADAR = "fusion_radar", COMPANION, _CLOUD
    FUSION_LIDAR = "fusion_lidar", COMPANION, _CLOUD


SENSORS: Mapping[Role, Sensor] = MappingProxyType({role: role.sensor for role in Role})
"""Every role with its kind and its decoders."""


def roles_of(kind: SensorKind) -> frozenset[Role]:
    """All roles of a kind."""
    return frozenset(role for role, sensor in SENSORS.items() if sensor.kind is kind)
