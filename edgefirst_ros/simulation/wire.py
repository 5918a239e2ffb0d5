"""Simulated measurements as CDR, in the layouts the device sends."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import edgefirst_msgs, foxglove_msgs, geometry_msgs, sensor_msgs
from edgefirst.schemas.builtin_interfaces import Time
from edgefirst.schemas.std_msgs import Header

from edgefirst_ros.simulation.sensors import (
    DOPPLER_BIN_M_S,
    RANGE_BIN_M,
    Points,
    Vector,
    orientation,
    specific_force,
)
from edgefirst_ros.simulation.world import Mount, Pinhole, State

UNKNOWN_COVARIANCE = [-1.0] + [0.0] * 8
POINT_TYPES = {"<f4": sensor_msgs.PointField.FLOAT32, "|u1": sensor_msgs.PointField.UINT8}


def header(stamp_ns: int, frame_id: str = "") -> Header:
    """A std_msgs/Header."""
    return Header(Time.from_nanos(stamp_ns), frame_id)


def video(stamp_ns: int, data: bytes, codec: str) -> bytes:
    """foxglove_msgs/CompressedVideo."""
    return foxglove_msgs.CompressedVideo(Time.from_nanos(stamp_ns), "camera_optical", data, codec).to_bytes()


def jpeg(stamp_ns: int, data: bytes) -> bytes:
    """sensor_msgs/CompressedImage."""
    return sensor_msgs.CompressedImage(header(stamp_ns, "camera_optical"), "jpeg", data).to_bytes()


def camera_info(stamp_ns: int, camera: Pinhole) -> bytes:
    """sensor_msgs/CameraInfo of a camera without distortion."""
    (cx, cy), f = camera.center_px, camera.focal_px
    return sensor_msgs.CameraInfo(
        header(stamp_ns, "camera_optical"),
        camera.height,
        camera.width,
        "plumb_bob",
        d=[0.0] * 5,
        k=[f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0],
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning_x=1,
        binning_y=1,
        roi=sensor_msgs.RegionOfInterest(0, 0, camera.height, camera.width, do_rectify=False),
    ).to_bytes()


def cloud(stamp_ns: int, frame_id: str, points: Points) -> bytes:
    """sensor_msgs/PointCloud2 with the array's own fields and step."""
    fields = [
        sensor_msgs.PointField(name, offset, POINT_TYPES[kind.str], 1)
        for name, (kind, offset, *_) in (points.dtype.fields or {}).items()
    ]
    step, count = points.dtype.itemsize, len(points)
    return sensor_msgs.PointCloud2(
        header(stamp_ns, frame_id), 1, count, fields, False, step, step * count, points.tobytes()
    ).to_bytes()


def cube(stamp_ns: int, values: npt.NDArray[np.int16]) -> bytes:
    """edgefirst_msgs/RadarCube [sequence, range, rx, doppler], complex, doppler interleaved (re, im)."""
    return edgefirst_msgs.RadarCube(
        header(stamp_ns, "radar"),
        stamp_ns // 1000,
        bytes([6, 1, 5, 2]),
        np.array(values.shape, "<u2").tobytes(),
        np.array([1, RANGE_BIN_M, 1, DOPPLER_BIN_M_S], "<f4").tobytes(),
        values.astype("<i2").tobytes(),
        is_complex=True,
    ).to_bytes()


def radar_info(stamp_ns: int) -> bytes:
    """edgefirst_msgs/RadarInfo."""
    return edgefirst_msgs.RadarInfo(
        header(stamp_ns, "base_link"), "low", "medium", "off", "medium", cube=True
    ).to_bytes()


def imu(stamp_ns: int, state: State) -> bytes:
    """sensor_msgs/Imu, every covariance[0] = -1 as on the device."""
    return sensor_msgs.Imu(
        header(stamp_ns),
        geometry_msgs.Quaternion(*orientation(state)),
        UNKNOWN_COVARIANCE,
        geometry_msgs.Vector3(0.0, 0.0, state.yaw_rate_rad_s),
        UNKNOWN_COVARIANCE,
        geometry_msgs.Vector3(*specific_force(state)),
        UNKNOWN_COVARIANCE,
    ).to_bytes()


def gps(stamp_ns: int, place: Vector) -> bytes:
    """sensor_msgs/NavSatFix; status and service never change, as on the device."""
    status = sensor_msgs.NavSatStatus(0, 1)
    return sensor_msgs.NavSatFix(header(stamp_ns), status, *place, UNKNOWN_COVARIANCE, 0).to_bytes()


def mount(stamp_ns: int, where: Mount) -> bytes:
    """geometry_msgs/TransformStamped, the quaternion as it is."""
    pose = geometry_msgs.Transform(
        geometry_msgs.Vector3(*where.translation_m), geometry_msgs.Quaternion(*where.rotation_xyzw)
    )
    return geometry_msgs.TransformStamped(header(stamp_ns, "base_link"), where.child, pose).to_bytes()


def model(stamp_ns: int, boxes: Iterable[edgefirst_msgs.DetectBox]) -> bytes:
    """edgefirst_msgs/Model without masks."""
    return edgefirst_msgs.Model(header(stamp_ns, "camera_optical"), boxes=list(boxes)).to_bytes()


def boxes_3d(stamp_ns: int, boxes: Iterable[edgefirst_msgs.DetectBox]) -> bytes:
    """edgefirst_msgs/Detect as fusion/boxes3d sends it."""
    stamp = Time.from_nanos(stamp_ns)
    return edgefirst_msgs.Detect(header(stamp_ns, "base_link"), stamp, stamp, stamp, list(boxes)).to_bytes()
