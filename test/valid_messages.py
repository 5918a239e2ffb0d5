"""One good message of every type, as values and as the vendor's own library writes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from edgefirst.schemas import (
    builtin_interfaces,
    edgefirst_msgs,
    foxglove_msgs,
    geometry_msgs,
    nav_msgs,
    sensor_msgs,
    std_msgs,
)
from wire_encoder import Encoder

JPEG = b"\xff\xd8\xff\xe0 pretend\xff\xd9"
PACKET = b"\0\0\0\1\x65\x88\x84"
SECONDS, NANOSECONDS = 1_773_483_630, 47_144_837
STAMP_NS = SECONDS * 10**9 + NANOSECONDS

STAMP = {"sec": SECONDS, "nanosec": NANOSECONDS}
HEADER = {"stamp": STAMP, "frame_id": "base_link"}
CLOUD_DATA = np.array([(1, 2, 3, 7), (-4, 5.5, 6, 255)], "<f4,<f4,<f4,u1").tobytes()
TRANSFORM = {
    "header": HEADER,
    "child_frame_id": "radar",
    "transform": {
        "translation": {"x": 1.5, "y": 0, "z": -2},
        "rotation": {"x": 0, "y": 0, "z": 0.6, "w": 0.8},
    },
}
POSE = {"position": {"x": 1, "y": 2, "z": 3}, "orientation": {"x": 0, "y": 0, "z": 0.6, "w": 0.8}}
BOX = {
    "center_x": 0.5,
    "center_y": 0.25,
    "width": 0.125,
    "height": 0.0625,
    "label": "person",
    "score": 0.75,
    "distance": 12,
    "speed": -1.5,
    "track": {"id": "a1", "lifetime": 3, "created": {"sec": 17, "nanosec": 5}},
}
MASK = {"height": 2, "width": 3, "length": 2, "mask": bytes(range(12)), "boxed": True}

URDF = """<?xml version="1.0"?>
<robot name="r"><link name="base_link"/><link name="lidar"/>
<joint name="mount" type="fixed"><origin xyz="1 0 2" rpy="0 0 0.5"/>
<parent link="base_link"/><child link="lidar"/></joint></robot>"""

VALUES: dict[str, dict[str, Any]] = {
    "std_msgs/String": {"data": URDF},
    "foxglove_msgs/CompressedVideo": {
        "timestamp": STAMP,
        "frame_id": "cam",
        "data": PACKET,
        "format": "h264",
    },
    "ffmpeg_image_transport_msgs/FFMPEGPacket": {
        "header": HEADER,
        "width": 1280,
        "height": 720,
        "encoding": "h264;yuv420p;bgr8;bgr8",
        "pts": 40,
        "flags": 1,
        "data": PACKET,
    },
    "foxglove_msgs/CompressedImage": {"timestamp": STAMP, "frame_id": "cam", "data": JPEG, "format": "jpeg"},
    "sensor_msgs/CompressedImage": {"header": HEADER, "format": "jpeg", "data": JPEG},
    "sensor_msgs/Image": {
        "header": HEADER,
        "height": 2,
        "width": 3,
        "encoding": "mono8",
        "step": 4,
        "data": bytes([1, 2, 3, 99, 4, 5, 6, 99]),
    },
    "sensor_msgs/CameraInfo": {
        "header": HEADER,
        "height": 720,
        "width": 1280,
        "distortion_model": "plumb_bob",
        "d": [0.1, -0.2, 0, 0, 0.05],
        "k": [846.5, 0, 640, 0, 846.25, 360, 0, 0, 1],
        "r": [1, 0, 0, 0, 1, 0, 0, 0, 1],
        "p": [846.5, 0, 640, 1, 0, 846.25, 360, 2, 0, 0, 1, 3],
    },
    "sensor_msgs/PointCloud2": {
        "header": HEADER,
        "height": 1,
        "width": 2,
        "fields": [
            {"name": name, "offset": offset, "datatype": datatype, "count": 1}
            for name, offset, datatype in (("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("reflect", 12, 2))
        ],
        "point_step": 13,
        "row_step": 26,
        "data": CLOUD_DATA,
        "is_dense": True,
    },
    "sensor_msgs/Imu": {
        "header": HEADER,
        "orientation": {"x": 0, "y": 0, "z": 0.6, "w": 0.8},
        "orientation_covariance": [-1, *[0] * 8],
        "angular_velocity": {"x": 0.1, "y": 0.2, "z": 0.3},
        "angular_velocity_covariance": [-1, *[0] * 8],
        "linear_acceleration": {"x": 1, "y": 2, "z": 9.81},
        "linear_acceleration_covariance": [-1, *[0] * 8],
    },
    "sensor_msgs/NavSatFix": {
        "header": HEADER,
        "status": {"status": -1, "service": 1},
        "latitude": 42.377,
        "longitude": -71.147,
        "altitude": -23.1,
        "position_covariance": [4, 0, 0, 0, 4, 0, 0, 0, 9],
        "position_covariance_type": 2,
    },
    "sensor_msgs/LaserScan": {
        "header": HEADER,
        "angle_min": -0.5,
        "angle_max": 0.5,
        "angle_increment": 0.5,
        "time_increment": 0.25,
        "scan_time": 1,
        "range_min": 0.5,
        "range_max": 16,
        "ranges": [1, 2.5, 20],
        "intensities": [3, 4, 5],
    },
    "radar_msgs/RadarScan": {
        "header": HEADER,
        "returns": [
            {"range": 10, "azimuth": 0.5, "elevation": 0.25, "doppler_velocity": -3, "amplitude": 12.5},
            {"range": 2, "azimuth": 0, "elevation": 0, "doppler_velocity": 0, "amplitude": 1},
        ],
    },
    "radar_msgs/RadarTracks": {
        "header": HEADER,
        "tracks": [
            {
                "uuid": {"uuid": bytes(range(1, 17))},
                "position": {"x": 3, "y": 4, "z": 0},
                "velocity": {"x": 5, "y": 5, "z": 7},
                "size": {"x": 4.5, "y": 2, "z": 1.5},
                "classification": 2,
            }
        ],
    },
    "nav_msgs/Odometry": {
        "header": HEADER,
        "child_frame_id": "base",
        "pose": {
            "pose": {
                "position": {"x": 1, "y": 2, "z": 3},
                "orientation": {"x": 0, "y": 0.6, "z": 0, "w": -0.8},
            },
            "covariance": [1] * 36,
        },
        "twist": {
            "twist": {"linear": {"x": 4, "y": 5, "z": 6}, "angular": {"x": 7, "y": 8, "z": 9}},
            "covariance": [2] * 36,
        },
    },
    "geometry_msgs/PoseStamped": {"header": HEADER, "pose": POSE},
    "geometry_msgs/PoseWithCovarianceStamped": {
        "header": HEADER,
        "pose": {"pose": POSE, "covariance": [4] * 36},
    },
    "px4_msgs/VehicleOdometry": {
        "timestamp": 7,
        "timestamp_sample": 1_500_000,
        "pose_frame": 1,
        "position": [1, 2, -3],
        "q": [1, 0, 0, 0],
        "velocity_frame": 1,
        "velocity": [4, 1, -2],
        "angular_velocity": [0.5, 0.25, 0.125],
        "position_variance": [4, 4, 9],
        "orientation_variance": [1, 1, 1],
        "velocity_variance": [1, 1, 1],
        "reset_counter": 0,
        "quality": 0,
    },
    "gps_msgs/GPSFix": {
        "header": HEADER,
        "status": {"header": HEADER, "satellite_used_prn": [3, 4], "status": 1},
        "latitude": 42.377,
        "longitude": -71.147,
        "altitude": -23.1,
        "position_covariance": [4, 0, 0, 0, 4, 0, 0, 0, 9],
        "position_covariance_type": 2,
    },
    "geometry_msgs/TransformStamped": TRANSFORM,
    "tf2_msgs/TFMessage": {"transforms": [TRANSFORM, {**TRANSFORM, "child_frame_id": "lidar"}]},
    "edgefirst_msgs/RadarCube": {
        "header": HEADER,
        "timestamp": 123_456_789_012,
        "layout": bytes([6, 1, 5, 2]),
        "shape": [2, 3, 1, 4],
        "scales": [1, 0.5, 1, 0.25],
        "cube": [value * 1300 - 15000 for value in range(24)],
        "is_complex": True,
    },
    "edgefirst_msgs/RadarInfo": {
        "header": HEADER,
        "center_frequency": "low",
        "frequency_sweep": "medium",
        "range_toggle": "off",
        "detection_sensitivity": "high",
        "cube": True,
    },
    "edgefirst_msgs/Model": {
        "header": HEADER,
        "input_time": {"nanosec": 3},
        "boxes": [BOX, {**BOX, "label": "car", "track": {}}],
        "masks": [MASK, {**MASK, "boxed": False}],
    },
    "edgefirst_msgs/Detect": {"header": HEADER, "input_timestamp": STAMP, "boxes": [BOX]},
    "edgefirst_msgs/Mask": MASK,
    "edgefirst_msgs/ModelInfo": {
        "header": HEADER,
        "input_shape": [1, 640, 640, 3],
        "input_type": 2,
        "output_shape": [1, 8400],
        "output_type": 1,
        "labels": ["person", "car"],
        "model_types": "Detection",
        "model_format": "TFLite",
        "model_name": "coco",
        "input_dtype": 0,
        "output_dtype": 1,
    },
}


def _time(values: dict[str, int]) -> builtin_interfaces.Time:
    return builtin_interfaces.Time(values.get("sec", 0), values.get("nanosec", 0))


def _vector(values: dict[str, float]) -> geometry_msgs.Vector3:
    return geometry_msgs.Vector3(**values)


def _transform(values: dict[str, Any]) -> geometry_msgs.TransformStamped:
    inner = values["transform"]
    rotation = geometry_msgs.Quaternion(**inner["rotation"])
    transform = geometry_msgs.Transform(_vector(inner["translation"]), rotation)
    return geometry_msgs.TransformStamped(_header(), values["child_frame_id"], transform)


def _header() -> std_msgs.Header:
    return std_msgs.Header(_time(STAMP), "base_link")


def _box(values: dict[str, Any]) -> edgefirst_msgs.DetectBox:
    plain = {name: value for name, value in values.items() if name != "track"}
    track = values["track"]
    return edgefirst_msgs.DetectBox(
        **plain,
        track_id=track.get("id", ""),
        track_lifetime=track.get("lifetime", 0),
        track_created=_time(track.get("created", {})),
    )


def vendor_bytes() -> dict[str, bytes]:
    """The same messages from edgefirst-schemas' constructors; it has no TFMessage."""
    v = VALUES
    info, cloud, fix = v["sensor_msgs/CameraInfo"], v["sensor_msgs/PointCloud2"], v["sensor_msgs/NavSatFix"]
    imu, cube, model = v["sensor_msgs/Imu"], v["edgefirst_msgs/RadarCube"], v["edgefirst_msgs/Model"]
    image, odometry = v["sensor_msgs/Image"], v["nav_msgs/Odometry"]
    pose, twist = odometry["pose"]["pose"], odometry["twist"]["twist"]
    model_info = {name: value for name, value in v["edgefirst_msgs/ModelInfo"].items() if name != "header"}
    model_info["model_type"] = model_info.pop("model_types")
    made = {
        "foxglove_msgs/CompressedVideo": foxglove_msgs.CompressedVideo(_time(STAMP), "cam", PACKET, "h264"),
        "foxglove_msgs/CompressedImage": foxglove_msgs.CompressedImage(_time(STAMP), "cam", JPEG, "jpeg"),
        "sensor_msgs/CompressedImage": sensor_msgs.CompressedImage(_header(), "jpeg", JPEG),
        "sensor_msgs/Image": sensor_msgs.Image(_header(), 2, 3, "mono8", 0, 4, image["data"]),
        "sensor_msgs/CameraInfo": sensor_msgs.CameraInfo(
            _header(), 720, 1280, "plumb_bob", info["d"], info["k"], info["r"], info["p"]
        ),
        "sensor_msgs/PointCloud2": sensor_msgs.PointCloud2(
            _header(),
            1,
            2,
            [sensor_msgs.PointField(**field) for field in cloud["fields"]],
            is_bigendian=False,
            point_step=13,
            row_step=26,
            data=CLOUD_DATA,
        ),
        "sensor_msgs/Imu": sensor_msgs.Imu(
            _header(),
            geometry_msgs.Quaternion(**imu["orientation"]),
            imu["orientation_covariance"],
            _vector(imu["angular_velocity"]),
            imu["angular_velocity_covariance"],
            _vector(imu["linear_acceleration"]),
            imu["linear_acceleration_covariance"],
        ),
        "sensor_msgs/NavSatFix": sensor_msgs.NavSatFix(
            _header(),
            sensor_msgs.NavSatStatus(-1, 1),
            fix["latitude"],
            fix["longitude"],
            fix["altitude"],
            fix["position_covariance"],
            2,
        ),
        "nav_msgs/Odometry": nav_msgs.Odometry(
            _header(),
            "base",
            geometry_msgs.PoseWithCovariance(
                geometry_msgs.Pose(
                    geometry_msgs.Point(**pose["position"]), geometry_msgs.Quaternion(**pose["orientation"])
                ),
                odometry["pose"]["covariance"],
            ),
            geometry_msgs.TwistWithCovariance(
                geometry_msgs.Twist(_vector(twist["linear"]), _vector(twist["angular"])),
                odometry["twist"]["covariance"],
            ),
        ),
        "geometry_msgs/TransformStamped": _transform(TRANSFORM),
        "edgefirst_msgs/RadarCube": edgefirst_msgs.RadarCube(
            _header(),
            cube["timestamp"],
            cube["layout"],
            np.array(cube["shape"], "<u2").tobytes(),
            np.array(cube["scales"], "<f4").tobytes(),
            np.array(cube["cube"], "<i2").tobytes(),
            is_complex=True,
        ),
        "edgefirst_msgs/RadarInfo": edgefirst_msgs.RadarInfo(
            _header(), "low", "medium", "off", "high", cube=True
        ),
        "edgefirst_msgs/Model": edgefirst_msgs.Model(
            _header(),
            input_time=builtin_interfaces.Duration(0, 3),
            boxes=[_box(box) for box in model["boxes"]],
            masks=[edgefirst_msgs.MaskBox(**mask) for mask in model["masks"]],
        ),
        "edgefirst_msgs/Detect": edgefirst_msgs.Detect(_header(), _time(STAMP), boxes=[_box(BOX)]),
        "edgefirst_msgs/Mask": edgefirst_msgs.Mask(2, 3, 2, "", MASK["mask"], boxed=True),
        "edgefirst_msgs/ModelInfo": edgefirst_msgs.ModelInfo(_header(), **model_info),
    }
    return {schema: message.to_bytes() for schema, message in made.items()}


def older_mask() -> tuple[bytes, str]:
    """A Mask from before it had its last field, with the definition of that time."""
    encoder = Encoder()
    encoder.put("I", 2, 3, 1)
    encoder.text("")
    encoder.put("I", 6)
    encoder.body += bytes(range(6))
    return encoder.data(), "uint32 height\nuint32 width\nuint32 length\nstring encoding\nuint8[] mask\n"
