"""Observations made by hand: a vehicle that drives a curve, with every sensor that NCore has a place for."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgefirst_ros.model.camera import CameraInfo, RawImage, VideoPacket
from edgefirst_ros.model.detection import Box, Detections, Mask
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import Axis, RadarCube, RadarInfo
from edgefirst_ros.model.sample import (
    Calibration,
    CameraImage,
    Datum,
    EgoPose,
    GeoPoint,
    Measurement,
    Observation,
    PoseBasis,
    Role,
    SequenceInfo,
)
from edgefirst_ros.model.transform import Transform

START_NS = 1_773_483_630_000_000_000
WIDTH, HEIGHT = 64, 48
SEQUENCE = SequenceInfo("maivin_2026_03_14_10_20_30", "maivin", START_NS)
ORIGIN = GeoPoint(45.5, -73.6, 30.0)

LIDAR = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("reflect", "u1")])
RADAR = np.dtype([(name, "<f4") for name in ("x", "y", "z", "speed", "power", "rcs")])
CLUSTERS = np.dtype([*RADAR.descr, ("cluster_id", "<f4")])
FUSION = np.dtype([
    ("x", "<f4"), ("y", "<f4"), ("z", "<f4"),
    ("vision_class", "<u2"), ("instance_id", "<u2"), ("track_id", "<u4"),
])  # fmt: skip

CAMERA_INFO = CameraInfo(
    width=WIDTH,
    height=HEIGHT,
    distortion_model="plumb_bob",
    d=(-0.1, 0.02, 0.001, -0.002, 0.003),
    k=np.array([[60.0, 0, 31.5], [0, 61.0, 23.5], [0, 0, 1]]),
    r=np.eye(3),
    p=np.eye(3, 4),
)
CALIBRATION = Calibration(
    camera_info=CAMERA_INFO,
    radar_info=RadarInfo("medium", "short", "off", "high", cube=True),
    transforms={
        "camera_optical": Transform("base_link", "camera_optical", (1.0, 0.0, 1.2), (-0.5, 0.5, -0.5, 0.5)),
        "mast": Transform("base_link", "mast", (0.0, 0.0, 1.5), (0.0, 0.0, 0.0, 1.0)),
        "lidar": Transform(
            "mast", "lidar", (0.1, 0.0, 0.2), (0.0, 0.0, 0.7071067811865476, 0.7071067811865476)
        ),
        "radar": Transform("base_link", "radar", (2.0, 0.1, 0.4), (0.0, 0.0, 0.0, 1.0)),
    },
)


def observation(
    role: Role,
    topic: str,
    time_ns: int,
    datum: Datum,
    frame_id: str = "",
    *,
    calibration: Calibration = CALIBRATION,
    image: CameraImage | None = None,
    stamp_ns: int | None = None,
) -> Observation:
    stamp_ns = time_ns if stamp_ns is None else stamp_ns
    measurement = Measurement(topic, time_ns, stamp_ns, time_ns + 5_000_000, 0, frame_id, datum)
    return Observation(role, measurement, calibration, image)


def jpeg(index: int, size: tuple[int, int] = (WIDTH, HEIGHT)) -> bytes:
    pixels = np.random.default_rng(index).integers(0, 255, (size[1], size[0], 3), np.uint8)
    with io.BytesIO() as buffer:
        Image.fromarray(pixels).save(buffer, "jpeg", quality=90)
        return buffer.getvalue()


def camera(time_ns: int, index: int = 0, **more: object) -> Observation:
    size = more.pop("size", (WIDTH, HEIGHT))
    image = CameraImage("jpeg", jpeg(index, size), *size)  # type: ignore[arg-type,misc]
    packet = VideoPacket("h264", b"\0\0\0\1\x65")
    return observation(
        Role.CAMERA,
        "/camera/h264",
        time_ns,
        packet,
        "camera_optical",
        image=image,
        **more,  # type: ignore[arg-type]
    )


def points(dtype: np.dtype[np.void], count: int, seed: int) -> npt.NDArray[np.void]:
    """Points on a sphere's shell of 2 to 30 m, other fields at random but plausible."""
    random = np.random.default_rng(seed)
    cloud = np.zeros(count, dtype)
    direction = random.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    xyz = direction * random.uniform(2.0, 30.0, (count, 1))
    for axis, name in enumerate("xyz"):
        cloud[name] = xyz[:, axis]
    for name in dtype.names[3:]:
        cloud[name] = random.integers(0, 200, count)
    return cloud


def cloud(array: npt.NDArray[np.void], height: int = 1) -> PointCloud:
    return PointCloud(array, height, len(array) // height)


def lidar(time_ns: int, seed: int = 0, count: int = 50, **more: object) -> Observation:
    array = points(LIDAR, count, seed)
    return observation(Role.LIDAR_POINTS, "/lidar/points", time_ns, cloud(array), "lidar", **more)  # type: ignore[arg-type]


def radar(time_ns: int, seed: int = 0, count: int = 12, **more: object) -> Observation:
    array = points(RADAR, count, seed)
    return observation(Role.RADAR_TARGETS, "/radar/targets", time_ns, cloud(array), "radar", **more)  # type: ignore[arg-type]


def cube(time_ns: int, seed: int = 0, strongest: int = 500) -> Observation:
    values = np.random.default_rng(seed).integers(-strongest, strongest, (2, 4, 2, 16)).astype(np.int16)
    layout = (Axis.SEQUENCE, Axis.RANGE, Axis.RXCHANNEL, Axis.DOPPLER)
    datum = RadarCube(values, layout, (1.0, 0.5, 1.0, 0.25), is_complex=True, radar_time_us=123)
    return observation(Role.RADAR_CUBE, "/radar/cube", time_ns, datum, "radar")


def box(x: float, y: float, z: float, label: str = "3", track: str = "7") -> Box:
    return Box(-y, -z, 1.5, 1.2, label, 0.9, x, 0.5, track, 3, START_NS)


def flat_box(number: int, track: str = "5d0c") -> Box:
    """A 2-D box in the picture, another one for every number."""
    x, y, width, height = np.random.default_rng(number).uniform(0.2, 0.6, 4).tolist()
    return Box(x, y, width, height, "car", 0.8, 7.5 + number, -1.5, track, 3, START_NS)


def pose(time_ns: int) -> EgoPose:
    """A circle of 50 m at 10 m/s, heading along it."""
    angle = (time_ns - START_NS) / 1e9 * 10.0 / 50.0
    position = (50.0 * np.sin(angle), 50.0 * (1 - np.cos(angle)), 0.1 * angle)
    rotation = (0.0, 0.0, float(np.sin(angle / 2)), float(np.cos(angle / 2)))
    return EgoPose(
        time_ns,
        origin=ORIGIN,
        position_m=tuple(map(float, position)),
        rotation_xyzw=rotation,
        position_basis=PoseBasis.MEASURED,
        rotation_basis=PoseBasis.INTERPOLATED,
        position_sigma_m=(0.1, 0.2, 0.3),
        rotation_sigma_rad=(0.01, 0.02, 0.03),
    )


def imu(time_ns: int) -> Observation:
    datum = Imu((0.0, 0.0, 0.0, 1.0), (0.01, 0.02, 0.03), (0.0, 0.0, 9.81), tuple(map(float, range(27))))
    return observation(Role.IMU, "/imu", time_ns, datum)


def gps(time_ns: int) -> Observation:
    return observation(Role.GPS, "/gps", time_ns, NavSatFix(45.5, -73.6, 30.0, 0))


def drive(seconds: float = 1.0) -> Iterator[Observation | EgoPose]:
    """Everything at its own rate, in order of time; sensors 7 ms after each other."""
    last = int(seconds * 1000)
    for ms in range(last):
        now = START_NS + ms * 1_000_000
        if ms % 10 == 0:
            yield imu(now)
            yield pose(now)
        if ms % 200 == 0:
            yield gps(now)
        if ms % 50 == 0:
            yield camera(now, ms)
        if ms % 100 == 0:
            mask = Mask(np.random.default_rng(ms).integers(0, 4, (12, 16, 1)).astype(np.uint8), boxed=False)
            yield observation(Role.MASK, "/model/mask", now, mask, "camera_optical")
            seen = Detections((flat_box(ms), flat_box(ms + 1, track="")), ()) if ms else Detections((), ())
            yield observation(Role.MODEL, "/model/output", now, seen, "camera_optical")
            depth = RawImage("16UC1", np.full((HEIGHT, WIDTH), 1000 + ms, np.uint16))
            yield observation(Role.DEPTH, "/camera/depth", now, depth, "camera_optical")
        if ms % 100 == 7:
            yield lidar(now, ms)
        if ms % 50 == 14:
            yield radar(now, ms)
            yield cube(now, ms)
        if ms % 100 == 21:
            clusters = cloud(points(CLUSTERS, 9, ms))
            yield observation(Role.RADAR_CLUSTERS, "/radar/clusters", now, clusters, "radar")
            fused = cloud(points(FUSION, 11, ms))
            yield observation(Role.FUSION_LIDAR, "/fusion/lidar", now, fused, "lidar")
        if ms % 100 == 28:
            boxes = Detections((box(10.0, 2.0, 0.5), box(20.0, -3.0, 0.2, track="")), ())
            yield observation(Role.BOXES_3D, "/fusion/boxes3d", now, boxes, "lidar")
            odometry = Odometry("base_link", (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), (10.0, 0, 0), (0, 0, 0.2))
            yield observation(Role.ODOMETRY, "/odom", now, odometry, "odom")
