"""Samples made by hand: small, of every sensor, the same each time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import simplejpeg

from edgefirst_ros.model.camera import CameraInfo, RawImage
from edgefirst_ros.model.detection import Box, Detections, Mask, ModelInfo
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import Axis, RadarCube
from edgefirst_ros.model.sample import (
    Calibration,
    CameraImage,
    Datum,
    EgoPose,
    GeoPoint,
    Measurement,
    Role,
    Sample,
    SequenceInfo,
)

START_NS = 1_773_483_630_123_456_789
"""2026-03-14 10:20:30.123456789 UTC"""
SEQUENCE = SequenceInfo("maivin-test_2026_03_14_10_20_30", "maivin-test", START_NS)
WIDTH, HEIGHT = 64, 48
TOPICS = {
    Role.CAMERA: "/camera/h264",
    Role.RADAR_TARGETS: "/radar/targets",
    Role.RADAR_CUBE: "/radar/cube",
    Role.LIDAR_POINTS: "/lidar/points",
    Role.LIDAR_DEPTH: "/lidar/depth",
    Role.LIDAR_REFLECT: "/lidar/reflect",
    Role.DEPTH: "/depth",
    Role.MODEL: "/model/output",
    Role.MASK: "/model/mask",
    Role.BOXES_3D: "/fusion/boxes3d",
    Role.RADAR_CLUSTERS: "/radar/clusters",
}
WIRE = (Axis.SEQUENCE, Axis.RANGE, Axis.RXCHANNEL, Axis.DOPPLER)


def measurement(role: Role, datum: Datum, time_ns: int = START_NS) -> Measurement:
    return Measurement(TOPICS[role], time_ns, time_ns, time_ns, 0, "", datum)


def jpeg(seed: int = 0, *, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    return simplejpeg.encode_jpeg(pixels, quality=80)


def cloud(fields: Mapping[str, npt.NDArray[np.generic]], *, height: int = 1) -> PointCloud:
    dtype = np.dtype([(name, column.dtype, column.shape[1:]) for name, column in fields.items()])
    points = np.zeros(len(next(iter(fields.values()))), dtype)
    for name, column in fields.items():
        points[name] = column
    return PointCloud(points, height, len(points) // height)


def radar_targets(seed: int = 0, count: int = 7) -> PointCloud:
    rng = np.random.default_rng(seed)
    names = ("x", "y", "z", "speed", "power", "rcs")
    return cloud({name: rng.normal(10, 3, count).astype(np.float32) for name in names})


def lidar_points(seed: int = 0, count: int = 500) -> PointCloud:
    rng = np.random.default_rng(seed)
    fields: dict[str, npt.NDArray[np.generic]] = {
        axis: rng.normal(0, 8, count).astype(np.float32) for axis in "xyz"
    }
    fields["reflect"] = rng.integers(0, 255, count).astype(np.uint8)
    return cloud(fields)


def radar_cube(seed: int = 0, shape: tuple[int, ...] = (2, 5, 4, 8)) -> RadarCube:
    values = np.random.default_rng(seed).normal(0, 300, shape).astype(np.int16)
    return RadarCube(values, WIRE, (1.0, 0.117, 1.0, 0.156), True, 1_234_567)


def box(x: float = 0.5, y: float = 0.5, w: float = 0.2, h: float = 0.3, **changes: object) -> Box:
    values: dict[str, object] = {"label": "car", "score": 0.9, "distance_m": 0.0, "track_id": ""} | changes
    return Box(x, y, w, h, speed_m_s=0.0, track_lifetime=1, track_created_ns=0, **values)  # type: ignore[arg-type]


def class_mask() -> Mask:
    classes = np.zeros((12, 16, 1), np.uint8)
    classes[2:5, 3:9] = 1
    classes[8:, 12:] = 2
    return Mask(classes, boxed=False)


def camera_info(width: int = WIDTH, height: int = HEIGHT, fx: float = 70.0) -> CameraInfo:
    k = np.array([[fx, 0, width / 2], [0, fx, height / 2], [0, 0, 1]], np.float64)
    return CameraInfo(width, height, "plumb_bob", (0.0,) * 5, k, np.eye(3), np.eye(3, 4))


def ego(time_ns: int = START_NS) -> EgoPose:
    place = GeoPoint(51.0447 + time_ns % 1000 * 1e-9, -114.0719, 1045.25)
    return EgoPose(time_ns, location=place, fix_time_ns=time_ns - 40_000_000, rpy_deg=(0.5, -1.25, 179.75))


def sample(
    frame: int = 0,
    companions: Mapping[Role, Datum] | None = None,
    *,
    sequence: SequenceInfo = SEQUENCE,
    step_ns: int = 33_333_333,
    image: bytes | None = None,
    where: EgoPose | None = None,
    labels: tuple[str, ...] = ("background", "car", "person"),
) -> Sample:
    """A sample with a camera image (``image`` empty: without one) and the companions given."""
    time_ns = sequence.start_ns + frame * step_ns
    found = {role: measurement(role, datum, time_ns) for role, datum in (companions or {}).items()}
    data = jpeg(frame) if image is None else image
    if data:
        found[Role.CAMERA] = measurement(
            Role.CAMERA, RawImage("rgb8", np.zeros((1, 1, 3), np.uint8)), time_ns
        )
    return Sample(
        sequence=sequence,
        frame=frame,
        time_ns=time_ns,
        companions=found,
        error_ns=dict.fromkeys(found, 0),
        ego=where or ego(time_ns),
        calibration=Calibration(camera_info=camera_info(), model_info=ModelInfo("model", labels)),
        image=CameraImage("jpeg", data, WIDTH, HEIGHT) if data else None,
    )


def full_sample(frame: int, *, sequence: SequenceInfo = SEQUENCE, step_ns: int = 33_333_333) -> Sample:
    """A sample with everything the format stores; every fourth has no annotations."""
    companions: dict[Role, Datum] = {
        Role.RADAR_TARGETS: radar_targets(frame),
        Role.RADAR_CUBE: radar_cube(frame),
        Role.LIDAR_POINTS: lidar_points(frame),
        Role.DEPTH: RawImage("16UC1", np.full((6, 8), 1000 + frame, np.uint16)),
        Role.MODEL: Detections((), ()),
    }
    if frame % 4:
        instance = Mask(np.full((10, 10, 1), 255, np.uint8), boxed=True)
        boxes = (box(track_id="a"), box(0.1, 0.9, 0.3, 0.4, label="2", score=0.4))
        companions[Role.MODEL] = Detections(boxes, (instance,))
        companions[Role.MASK] = class_mask()
        near = box(-2.0, 0.5, 1.8, 1.5, distance_m=12.0, track_id="a")
        far = box(4.0, 0.25, 0.6, 1.7, distance_m=30.0, label="person")
        companions[Role.BOXES_3D] = Detections((near, far), ())
    return sample(frame, companions, sequence=sequence, step_ns=step_ns)
