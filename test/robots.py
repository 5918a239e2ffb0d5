"""Recordings of robots of others: the simulated drive under the names, types and frames that they use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recorded import messages
from wire_encoder import encode

from edgefirst_ros.model.definitions import definition
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage, Role
from edgefirst_ros.simulation import MoreSensor

SECONDS = 3.0
Change = Callable[[RawMessage], Iterable[RawMessage]]


@dataclass(frozen=True)
class Robot:
    """A recording, and what each of its topics is; of others None."""

    content: list[RawMessage]
    roles: Mapping[str, Role | None]
    reference: str
    moves_sideways: bool = False
    sensors: Mapping[str, str] = field(default_factory=dict)
    """Frame by topic of cameras and lidars that NCore must have."""


def camera(name: str, yaw_deg: float, frame: str, info: str, **more: Any) -> MoreSensor:  # noqa: ANN401
    turn = (0.0, 0.0, yaw_deg)
    return MoreSensor("camera", name, frame, (1.0, 0.0, 1.6), turn, info=info, **more)


def lidar(name: str, frame: str, first_ms: float = 20.0) -> MoreSensor:
    return MoreSensor("lidar", name, frame, (0.8, 0.3, 1.9), first_ms=first_ms, points=640)


def renamed(topic: str) -> Change:
    def change(message: RawMessage) -> Iterator[RawMessage]:
        yield message._replace(topic=topic)

    return change


def seconds(stamp_ns: int) -> dict[str, int]:
    return {"sec": stamp_ns // 10**9, "nanosec": stamp_ns % 10**9}


def instead_of(message: RawMessage, topic: str, schema: str, values: dict[str, Any]) -> RawMessage:
    """A message of this type, received when the other one was."""
    data, name = encode(schema, values), schema.replace("/", "/msg/")
    return message._replace(topic=topic, schema=name, data=data, definition=definition(schema))


def as_tf(topic: str) -> Change:
    """tf2_msgs/TFMessage of what the device sends one by one."""

    def change(message: RawMessage) -> Iterator[RawMessage]:
        stamp_ns, _, datum = decode(message)
        made = [
            {
                "header": {"stamp": seconds(stamp_ns), "frame_id": each.parent},
                "child_frame_id": each.child,
                "transform": {
                    "translation": dict(zip("xyz", each.translation_m, strict=True)),
                    "rotation": dict(zip("xyzw", each.rotation_xyzw, strict=True)),
                },
            }
            for each in datum.transforms  # type: ignore[attr-defined]
        ]
        yield instead_of(message, topic, "tf2_msgs/TFMessage", {"transforms": made})

    return change


def as_odometry(topic: str, *, sideways_m_s: float = 0.0, also_tf: str = "") -> Change:
    """nav_msgs/Odometry, and a transform from odom, straight ahead at 5 m/s, in place of IMU messages."""
    start: list[int] = []

    def change(message: RawMessage) -> Iterator[RawMessage]:
        start[:] = start or [message.receive_ns]
        way_m = 5.0 * (message.receive_ns - start[0]) / 1e9
        header = {"stamp": seconds(message.receive_ns - 2_000_000), "frame_id": "odom"}
        position, turn = {"x": way_m}, {"w": 1.0}
        covariance = [0.0] * 36
        covariance[0] = covariance[7] = covariance[14] = 0.01
        values = {
            "header": header,
            "child_frame_id": "base_link",
            "pose": {"pose": {"position": position, "orientation": turn}, "covariance": covariance},
            "twist": {"twist": {"linear": {"x": 5.0, "y": sideways_m_s}}},
        }
        yield instead_of(message, topic, "nav_msgs/Odometry", values)
        if also_tf:
            made = {
                "header": header,
                "child_frame_id": "base_link",
                "transform": {"translation": position, "rotation": turn},
            }
            yield instead_of(message, also_tf, "tf2_msgs/TFMessage", {"transforms": [made]})

    return change


def as_scan(topic: str, frame: str) -> Change:
    """sensor_msgs/LaserScan of a wall 2 m ahead, in place of a lidar's sweeps."""

    def change(message: RawMessage) -> Iterator[RawMessage]:
        angles = [-0.6 + 0.02 * ray for ray in range(61)]
        values = {
            "header": {"stamp": seconds(message.receive_ns - 30_000_000), "frame_id": frame},
            "angle_min": -0.6,
            "angle_max": 0.6,
            "angle_increment": 0.02,
            "range_min": 0.1,
            "range_max": 12.0,
            "ranges": [2.0 / math.cos(angle) for angle in angles],
        }
        yield instead_of(message, topic, "sensor_msgs/LaserScan", values)

    return change


def both(*changes: Change) -> Change:
    return lambda message: (made for change in changes for made in change(message))


def dropped(message: RawMessage) -> Iterator[RawMessage]:
    del message
    return iter(())


def robot(changes: Mapping[str, Change], **options: Any) -> list[RawMessage]:  # noqa: ANN401
    """The simulated drive, each topic changed; those that are not named stay."""
    settings: dict[str, Any] = {"seconds": SECONDS, "model_hz": 0.0, "radar_hz": 0.0, "clock": "realtime"}
    found = messages(**{**settings, **options})
    changed = [made for each in found for made in changes.get(each.topic, renamed(each.topic))(each)]
    changed.sort(key=lambda message: message.receive_ns)
    return [message._replace(arrival=number) for number, message in enumerate(changed)]


NONE: dict[str, Change] = dict.fromkeys(("/camera/h264", "/camera/info", "/radar/info"), dropped)


def autoware() -> Robot:
    """Two cameras, two lidars, a filtered cloud beside one's own, odometry of the localisation."""
    zero, one, top = (
        f"sensing/{name}" for name in ("camera/camera0", "camera/camera1", "lidar/top/pointcloud_raw_ex")
    )
    picture = "image_rect_color/compressed"
    more = (
        camera(f"{zero}/{picture}", 0.0, "camera0/camera_optical_link", f"{zero}/camera_info"),
        camera(f"{one}/{picture}", 70.0, "camera1/camera_optical_link", f"{one}/camera_info", first_ms=45.0),
        lidar(top, "velodyne_top"),
        lidar("sensing/lidar/left/pointcloud_raw_ex", "velodyne_left", 60.0),
    )
    content = robot(
        {
            **NONE,
            "/lidar/points": dropped,
            "/tf_static": as_tf("/tf_static"),
            "/gps": renamed("/sensing/gnss/ublox/nav_sat_fix"),
            "/imu": both(
                renamed("/sensing/imu/tamagawa/imu_raw"), as_odometry("/localization/kinematic_state")
            ),
            f"/{top}": both(renamed(f"/{top}"), renamed("/sensing/lidar/top/outlier_filtered/pointcloud")),
        },
        more=more,
    )  # fmt: skip
    return Robot(
        content,
        {
            "/sensing/camera/camera0/image_rect_color/compressed": Role.CAMERA,
            "/sensing/camera/camera1/image_rect_color/compressed": Role.CAMERA,
            "/sensing/camera/camera0/camera_info": Role.CAMERA_INFO,
            "/sensing/camera/camera1/camera_info": Role.CAMERA_INFO,
            "/sensing/lidar/top/pointcloud_raw_ex": Role.LIDAR_POINTS,
            "/sensing/lidar/left/pointcloud_raw_ex": Role.LIDAR_POINTS,
            "/sensing/lidar/top/outlier_filtered/pointcloud": None,
            "/sensing/gnss/ublox/nav_sat_fix": Role.GPS,
            "/sensing/imu/tamagawa/imu_raw": Role.IMU,
            "/localization/kinematic_state": Role.ODOMETRY,
            "/tf_static": Role.TF,
        },
        "/sensing/camera/camera0/image_rect_color/compressed",
        sensors={
            "/sensing/camera/camera0/image_rect_color/compressed": "camera0/camera_optical_link",
            "/sensing/camera/camera1/image_rect_color/compressed": "camera1/camera_optical_link",
            "/sensing/lidar/top/pointcloud_raw_ex": "velodyne_top",
            "/sensing/lidar/left/pointcloud_raw_ex": "velodyne_left",
        },
    )


def nuscenes() -> Robot:
    """Six cameras, one lidar, GPS and IMU."""
    names = {
        "CAM_FRONT": 0.0, "CAM_FRONT_LEFT": 55.0, "CAM_FRONT_RIGHT": -55.0,
        "CAM_BACK": 180.0, "CAM_BACK_LEFT": 110.0, "CAM_BACK_RIGHT": -110.0,
    }  # fmt: skip
    more = tuple(
        camera(
            f"{name}/image_rect_compressed", yaw, name, f"{name}/camera_info", hz=5.0, width=160, height=90
        )
        for name, yaw in names.items()
    )
    content = robot(
        {
            **NONE,
            "/lidar/points": renamed("/LIDAR_TOP"),
            "/tf_static": as_tf("/tf_static"),
            "/gps": renamed("/gps"),
            "/imu": renamed("/imu"),
        },
        more=more,
    )
    roles: dict[str, Role | None] = {"/LIDAR_TOP": Role.LIDAR_POINTS, "/gps": Role.GPS, "/imu": Role.IMU}
    for name in names:
        roles |= {f"/{name}/image_rect_compressed": Role.CAMERA, f"/{name}/camera_info": Role.CAMERA_INFO}
    sensors = {f"/{name}/image_rect_compressed": name for name in names} | {"/LIDAR_TOP": "lidar"}
    return Robot(
        content, roles | {"/tf_static": Role.TF}, "/CAM_FRONT/image_rect_compressed", sensors=sensors
    )


def turtlebot(seconds: float = SECONDS) -> Robot:
    """A raw picture, a plane's scan, wheels, transforms from odom; no GPS."""
    more = (camera("camera/image_raw", 0.0, "camera_rgb_optical_frame", "camera/camera_info", codec="raw"),)
    content = robot(
        {
            **NONE,
            "/lidar/points": as_scan("/scan", "base_scan"),
            "/gps": dropped,
            "/tf_static": as_tf("/tf_static"),
            "/imu": both(renamed("/imu"), as_odometry("/odom", also_tf="/tf")),
        },
        more=more,
        seconds=seconds,
    )
    return Robot(
        content,
        {
            "/camera/image_raw": Role.CAMERA,
            "/camera/camera_info": Role.CAMERA_INFO,
            "/imu": Role.IMU,
            "/odom": Role.ODOMETRY,
            "/scan": Role.LIDAR_POINTS,
            "/tf": None,
            "/tf_static": Role.TF,
        },
        "/camera/image_raw",
        sensors={"/camera/image_raw": "camera_rgb_optical_frame", "/scan": "base_scan"},
    )


def drone(seconds: float = SECONDS) -> Robot:
    """A camera that looks down, H.264, GPS, IMU twice and odometry of its filter, which moves sideways."""
    more = (camera("drone/camera/h264", 0.0, "down_optical", "drone/camera/camera_info", codec="h264"),)
    content = robot(
        {
            **NONE,
            "/lidar/points": dropped,
            "/gps": renamed("/mavros/global_position/raw/fix"),
            "/tf_static": as_tf("/tf_static"),
            "/imu": both(
                renamed("/mavros/imu/data"),
                renamed("/mavros/imu/data_raw"),
                as_odometry("/mavros/local_position/odom", sideways_m_s=2.0),
            ),
        },
        more=more,
        seconds=seconds,
        fps=2,
    )
    return Robot(
        content,
        {
            "/drone/camera/h264": Role.CAMERA,
            "/drone/camera/camera_info": Role.CAMERA_INFO,
            "/mavros/global_position/raw/fix": Role.GPS,
            "/mavros/imu/data": Role.IMU,
            "/mavros/imu/data_raw": None,
            "/mavros/local_position/odom": None,
            "/tf_static": Role.TF,
        },
        "/drone/camera/h264",
        moves_sideways=True,
        sensors={"/drone/camera/h264": "down_optical"},
    )


def devices() -> Robot:
    """Two Raivins whose topics begin with their names."""
    content = [
        each
        for host in ("front", "rear")
        for each in robot(
            {f"/{host}/tf_static": renamed("/tf_static")},
            prefix=host,
            host=host,
            model_hz=5.0,
            radar_hz=18.0,
            cube_hz=2.0,
            cube_shape=(1, 16, 1, 8),
        )
    ]
    content.sort(key=lambda message: message.receive_ns)
    own = {
        "camera/h264": Role.CAMERA, "camera/info": Role.CAMERA_INFO, "lidar/points": Role.LIDAR_POINTS,
        "model/output": Role.MODEL, "radar/cube": Role.RADAR_CUBE, "radar/targets": Role.RADAR_TARGETS,
        "radar/info": Role.RADAR_INFO,
    }  # fmt: skip
    roles: dict[str, Role | None] = {f"/{h}/{n}": role for h in ("front", "rear") for n, role in own.items()}
    motion = {"/front/gps": Role.GPS, "/front/imu": Role.IMU, "/rear/gps": None, "/rear/imu": Role.IMU}
    numbered = [message._replace(arrival=number) for number, message in enumerate(content)]
    return Robot(numbered, roles | motion | {"/tf_static": Role.TF}, "/front/camera/h264")


ROBOTS: Mapping[str, Callable[[], Robot]] = {
    "autoware": autoware, "nuscenes": nuscenes, "turtlebot": turtlebot, "drone": drone, "devices": devices,
}  # fmt: skip
