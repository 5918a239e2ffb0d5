"""Simulated measurements to CDR, as the device sends them."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import edgefirst_msgs, foxglove_msgs, geometry_msgs, sensor_msgs
from edgefirst.schemas.builtin_interfaces import Time
from edgefirst.schemas.std_msgs import Header

from edgefirst_ros.simulation.sensors import DOPPLER_BIN_M_S, RANGE_BIN_M, ImuReading, Points
from edgefirst_ros.simulation.world import Fisheye, FloatArray, Lens, Mount

UNKNOWN_COVARIANCE = [-1.0] + [0.0] * 8
POINT_TYPES = {
    "|u1": sensor_msgs.PointField.UINT8,
    "<u2": sensor_msgs.PointField.UINT16,
    "<u4": sensor_msgs.PointField.UINT32,
    "<f4": sensor_msgs.PointField.FLOAT32,
    "<f8": sensor_msgs.PointField.FLOAT64,
}


def header(stamp_ns: int, frame_id: str = "") -> Header:
    """A std_msgs/Header."""
    return Header(Time.from_nanos(stamp_ns), frame_id)


def video(stamp_ns: int, data: bytes, codec: str, frame_id: str) -> bytes:
    """foxglove_msgs/CompressedVideo."""
    return foxglove_msgs.CompressedVideo(Time.from_nanos(stamp_ns), frame_id, data, codec).to_bytes()


def jpeg(stamp_ns: int, data: bytes, frame_id: str = "camera_optical") -> bytes:
    """sensor_msgs/CompressedImage."""
    return sensor_msgs.CompressedImage(header(stamp_ns, frame_id), "jpeg", data).to_bytes()


def image(stamp_ns: int, pixels: bytes, width: int, frame_id: str) -> bytes:
    """sensor_msgs/Image of RGB pixels, row by row."""
    at, height = header(stamp_ns, frame_id), len(pixels) // (3 * width)
    return sensor_msgs.Image(at, height, width, "rgb8", 0, 3 * width, pixels).to_bytes()


def camera_info(stamp_ns: int, camera: Lens, frame_id: str = "camera_optical") -> bytes:
    """sensor_msgs/CameraInfo of a camera without distortion, or of a fisheye."""
    (cx, cy), f = camera.center_px, camera.focal_px
    return sensor_msgs.CameraInfo(
        header(stamp_ns, frame_id),
        camera.height,
        camera.width,
        "equidistant" if isinstance(camera, Fisheye) else "plumb_bob",
        d=[*camera.coefficients] if isinstance(camera, Fisheye) else [0.0] * 5,
        k=[f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0],
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning_x=1,
        binning_y=1,
        roi=sensor_msgs.RegionOfInterest(0, 0, camera.height, camera.width, do_rectify=False),
    ).to_bytes()


def cloud(stamp_ns: int, frame_id: str, points: Points, height: int = 1, *, is_dense: bool = True) -> bytes:
    """sensor_msgs/PointCloud2 with the fields and step of a structured array."""
    fields = [
        sensor_msgs.PointField(name, offset, POINT_TYPES[kind.str], 1)
        for name, (kind, offset, *_) in (points.dtype.fields or {}).items()
    ]
    step, width = points.dtype.itemsize, len(points) // height
    return sensor_msgs.PointCloud2(
        header(stamp_ns, frame_id),
        height,
        width,
        fields,
        False,
        step,
        step * width,
        points.tobytes(),
        is_dense=is_dense,
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


def imu(stamp_ns: int, reading: ImuReading, frame_id: str = "") -> bytes:
    """sensor_msgs/Imu; its covariances are unknown, as on the device."""
    return sensor_msgs.Imu(
        header(stamp_ns, frame_id),
        geometry_msgs.Quaternion(*reading.orientation_xyzw),
        UNKNOWN_COVARIANCE,
        geometry_msgs.Vector3(*reading.angular_rate_rad_s),
        UNKNOWN_COVARIANCE,
        geometry_msgs.Vector3(*reading.specific_force_m_s2),
        UNKNOWN_COVARIANCE,
    ).to_bytes()


def gps(stamp_ns: int, place: FloatArray, frame_id: str = "") -> bytes:
    """sensor_msgs/NavSatFix; status, service and covariance never change, as on the device."""
    status = sensor_msgs.NavSatStatus(0, 1)
    latitude, longitude, altitude = place.tolist()
    return sensor_msgs.NavSatFix(
        header(stamp_ns, frame_id), status, latitude, longitude, altitude, UNKNOWN_COVARIANCE, 0
    ).to_bytes()


def mount(stamp_ns: int, where: Mount) -> bytes:
    """geometry_msgs/TransformStamped; the quaternion is not normalised."""
    pose = geometry_msgs.Transform(
        geometry_msgs.Vector3(*where.translation_m), geometry_msgs.Quaternion(*where.rotation_xyzw)
    )
    return geometry_msgs.TransformStamped(header(stamp_ns, where.parent), where.child, pose).to_bytes()


def tf(stamp_ns: int, where: Mount) -> bytes:
    """tf2_msgs/TFMessage of one transform."""
    body = struct.pack("<IiI", 1, *divmod(stamp_ns, 1_000_000_000))
    for name in (where.parent, where.child):
        text = name.encode() + b"\0"
        body += bytes(-len(body) % 4) + struct.pack("<I", len(text)) + text
    body += bytes(-len(body) % 8) + struct.pack("<7d", *where.translation_m, *where.rotation_xyzw)
    return b"\x00\x01\x00\x00" + body


def model(
    stamp_ns: int, boxes: Iterable[edgefirst_msgs.DetectBox], frame_id: str = "camera_optical"
) -> bytes:
    """edgefirst_msgs/Model without masks."""
    return edgefirst_msgs.Model(header(stamp_ns, frame_id), boxes=list(boxes)).to_bytes()


def boxes_3d(stamp_ns: int, boxes: Iterable[edgefirst_msgs.DetectBox]) -> bytes:
    """edgefirst_msgs/Detect as fusion/boxes3d sends it."""
    stamp = Time.from_nanos(stamp_ns)
    return edgefirst_msgs.Detect(header(stamp_ns, "base_link"), stamp, stamp, stamp, list(boxes)).to_bytes()
