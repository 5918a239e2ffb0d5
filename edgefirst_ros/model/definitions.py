"""ROS message definitions of all types that are read, for sources that deliver none and for recordings."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from edgefirst_ros.model.sensors import SENSORS

_FIELDS = {
    "builtin_interfaces/Time": "int32 sec, uint32 nanosec",
    "builtin_interfaces/Duration": "int32 sec, uint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp, string frame_id",
    "std_msgs/String": "string data",
    "geometry_msgs/Vector3": "float64 x, float64 y, float64 z",
    "geometry_msgs/Point": "float64 x, float64 y, float64 z",
    "geometry_msgs/Quaternion": "float64 x 0, float64 y 0, float64 z 0, float64 w 1",
    "geometry_msgs/Transform": "geometry_msgs/Vector3 translation, geometry_msgs/Quaternion rotation",
    "geometry_msgs/TransformStamped": (
        "std_msgs/Header header, string child_frame_id, geometry_msgs/Transform transform"
    ),
    "geometry_msgs/Pose": "geometry_msgs/Point position, geometry_msgs/Quaternion orientation",
    "geometry_msgs/PoseWithCovariance": "geometry_msgs/Pose pose, float64[36] covariance",
    "geometry_msgs/Twist": "geometry_msgs/Vector3 linear, geometry_msgs/Vector3 angular",
    "geometry_msgs/TwistWithCovariance": "geometry_msgs/Twist twist, float64[36] covariance",
    "tf2_msgs/TFMessage": "geometry_msgs/TransformStamped[] transforms",
    "nav_msgs/Odometry": (
        "std_msgs/Header header, string child_frame_id, geometry_msgs/PoseWithCovariance pose, "
        "geometry_msgs/TwistWithCovariance twist"
    ),
    "sensor_msgs/Imu": (
        "std_msgs/Header header, geometry_msgs/Quaternion orientation, float64[9] orientation_covariance, "
        "geometry_msgs/Vector3 angular_velocity, float64[9] angular_velocity_covariance, "
        "geometry_msgs/Vector3 linear_acceleration, float64[9] linear_acceleration_covariance"
    ),
    "sensor_msgs/NavSatStatus": "int8 status, uint16 service",
    "sensor_msgs/NavSatFix": (
        "std_msgs/Header header, sensor_msgs/NavSatStatus status, float64 latitude, float64 longitude, "
        "float64 altitude, float64[9] position_covariance, uint8 position_covariance_type"
    ),
    "sensor_msgs/PointField": "string name, uint32 offset, uint8 datatype, uint32 count",
    "sensor_msgs/PointCloud2": (
        "std_msgs/Header header, uint32 height, uint32 width, sensor_msgs/PointField[] fields, "
        "bool is_bigendian, uint32 point_step, uint32 row_step, uint8[] data, bool is_dense"
    ),
    "sensor_msgs/Image": (
        "std_msgs/Header header, uint32 height, uint32 width, string encoding, uint8 is_bigendian, "
        "uint32 step, uint8[] data"
    ),
    "sensor_msgs/CompressedImage": "std_msgs/Header header, string format, uint8[] data",
    "sensor_msgs/RegionOfInterest": (
        "uint32 x_offset, uint32 y_offset, uint32 height, uint32 width, bool do_rectify"
    ),
    "sensor_msgs/CameraInfo": (
        "std_msgs/Header header, uint32 height, uint32 width, string distortion_model, float64[] d, "
        "float64[9] k, float64[9] r, float64[12] p, uint32 binning_x, uint32 binning_y, "
        "sensor_msgs/RegionOfInterest roi"
    ),
    **dict.fromkeys(
        ("foxglove_msgs/CompressedVideo", "foxglove_msgs/CompressedImage"),
        "builtin_interfaces/Time timestamp, string frame_id, uint8[] data, string format",
    ),
    "ffmpeg_image_transport_msgs/FFMPEGPacket": (
        "std_msgs/Header header, int32 width, int32 height, string encoding, uint64 pts, uint8 flags, "
        "bool is_bigendian, uint8[] data"
    ),
    "edgefirst_msgs/RadarCube": (
        "std_msgs/Header header, uint64 timestamp, uint8[] layout, uint16[] shape, float32[] scales, "
        "int16[] cube, bool is_complex"
    ),
    "edgefirst_msgs/RadarInfo": (
        "std_msgs/Header header, string center_frequency, string frequency_sweep, string range_toggle, "
        "string detection_sensitivity, bool cube"
    ),
    "edgefirst_msgs/Track": "string id, int32 lifetime, builtin_interfaces/Time created",
    "edgefirst_msgs/Box": (
        "float32 center_x, float32 center_y, float32 width, float32 height, string label, float32 score, "
        "float32 distance, float32 speed, edgefirst_msgs/Track track"
    ),
    "edgefirst_msgs/Mask": (
        "uint32 height, uint32 width, uint32 length, string encoding, uint8[] mask, bool boxed"
    ),
    "edgefirst_msgs/Model": (
        "std_msgs/Header header, builtin_interfaces/Duration input_time, "
        "builtin_interfaces/Duration model_time, builtin_interfaces/Duration output_time, "
        "builtin_interfaces/Duration decode_time, edgefirst_msgs/Box[] boxes, edgefirst_msgs/Mask[] masks"
    ),
    "edgefirst_msgs/Detect": (
        "std_msgs/Header header, builtin_interfaces/Time input_timestamp, "
        "builtin_interfaces/Time model_time, builtin_interfaces/Time output_time, "
        "edgefirst_msgs/Box[] boxes"
    ),
    "edgefirst_msgs/ModelInfo": (
        "std_msgs/Header header, uint32[] input_shape, uint8 input_type, uint32[] output_shape, "
        "uint8 output_type, string[] labels, string model_types, string model_format, string model_name, "
        "uint8 input_dtype, uint8 output_dtype"
    ),
}
"""Fields of each type, with commas between them."""
_SEPARATOR = "=" * 80


@cache
def short_name(schema: str) -> str:
    """``pkg/Type`` for a type that is given as ``pkg/msg/Type`` or ``pkg/Type``."""
    parts = schema.split("/")
    return f"{parts[0]}/{parts[2]}" if len(parts) == 3 and parts[1] == "msg" else schema


def define(schema: str, fields: str) -> None:
    """Add the fields of a type (``pkg/Type``) that only one sensor uses, with commas between them."""
    _FIELDS[schema] = fields


@cache
def definition(schema: str) -> str:
    """The definition of a type and of all types it contains, as a ``ros2msg`` schema of MCAP.

    Fields only, in the order of the message. Each contained type follows once, after a line of ``=`` and a
    line ``MSG: pkg/Type``. Sources: the ROS 2 common interfaces, foxglove_msgs, ffmpeg_image_transport_msgs
    and edgefirst_msgs.

    Args:
        schema: ``pkg/msg/Type`` or ``pkg/Type``.

    Raises:
        KeyError: the type is neither read by this package nor contained in one that is.
    """
    root = short_name(schema)
    if root not in _FIELDS:
        for sensor in SENSORS.values():
            for known, decoder in sensor.decoders.items():
                if short_name(known) == root:
                    import_module(f"edgefirst_ros.model.{decoder.partition(':')[0]}")
    others = _dependencies(root, {root: None})
    return _lines(root) + "".join(f"{_SEPARATOR}\nMSG: {name}\n{_lines(name)}" for name in others)


def _lines(name: str) -> str:
    return _FIELDS[name].replace(", ", "\n") + "\n"


def _dependencies(name: str, seen: dict[str, None]) -> list[str]:
    found = []
    for line in _FIELDS[name].split(", "):
        used = line.split(" ", 1)[0].split("[", 1)[0]
        if "/" in used and used not in seen:
            seen[used] = None
            found += [used, *_dependencies(used, seen)]
    return found
