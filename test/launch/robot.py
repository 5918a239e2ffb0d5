"""A robot that is no Maivin: the plain messages of ROS, with a known answer in each.

Picture N carries N burnt in as CELLS cells of CELL_PX pixels; the cloud taken with it has its point N at
(1, 2, N); the odometry moves 1 m/s along x. Transforms and the camera's calibration are latched.
"""

from __future__ import annotations

# isort: off
# First of all: it finds what colcon installed beside it.
import edgefirst_ros  # noqa: F401

# isort: on
import argparse
import io
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from PIL import Image as Picture
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.serialization import serialize_message
from rclpy.time import Time
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, Imu, NavSatFix, NavSatStatus, PointCloud2
from sensor_msgs_py.point_cloud2 import create_cloud_xyz32
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

WIDTH, HEIGHT, CELL_PX, CELLS = 400, 48, 16, 24
CAMERA_HZ, ODOMETRY_PER_PICTURE = 10.0, 5
POINTS = 50
START_NS = 1_790_000_000_000_000_000


def pixels(number: int) -> np.ndarray:
    """The picture with its number, highest bit first, white is 1."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for cell in range(CELLS):
        image[:CELL_PX, cell * CELL_PX : (cell + 1) * CELL_PX] = 255 * (number >> (CELLS - 1 - cell) & 1)
    return image


def points(number: int) -> np.ndarray:
    """A cloud whose last point names the picture taken with it."""
    cloud = np.tile(np.float32([[5.0, 0.0, 0.0]]), (POINTS, 1))
    cloud[-1] = (1.0, 2.0, number)
    return cloud


def transform(child: str, x_m: float) -> TransformStamped:
    """A sensor's mount on the robot's base."""
    mount = TransformStamped(header=Header(frame_id="base_link"), child_frame_id=child)
    mount.transform.translation.x = x_m
    mount.transform.rotation.w = 1.0
    return mount


class Robot:
    """Its publishers."""

    def __init__(self, *, raw: bool) -> None:
        self.node = rclpy.create_node("robot")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._raw = raw
        kind, name = (
            (Image, "/camera/image_raw") if raw else (CompressedImage, "/camera/image_raw/compressed")
        )
        self.camera = self.node.create_publisher(kind, name, qos_profile_sensor_data)
        self.points = self.node.create_publisher(PointCloud2, "/points", qos_profile_sensor_data)
        self.odometry = self.node.create_publisher(Odometry, "/odometry/filtered", 10)
        self.imu = self.node.create_publisher(Imu, "/imu/data", qos_profile_sensor_data)
        self.fix = self.node.create_publisher(NavSatFix, "/fix", 10)
        self.transforms = self.node.create_publisher(TFMessage, "/tf_static", latched)
        self.info = self.node.create_publisher(CameraInfo, "/camera/camera_info", latched)
        self.transforms.publish(TFMessage(transforms=[transform("camera", 0.5), transform("lidar", 0.25)]))
        self.info.publish(
            CameraInfo(
                header=Header(frame_id="camera"),
                width=WIDTH,
                height=HEIGHT,
                distortion_model="plumb_bob",
                d=[0.0] * 5,
                k=[300.0, 0.0, 200.0, 0.0, 300.0, 24.0, 0.0, 0.0, 1.0],
            )
        )

    @property
    def heard(self) -> bool:
        """Whether somebody listens to everything."""
        return all(p.get_subscription_count() for p in (self.camera, self.points, self.odometry, self.imu))

    def picture(self, number: int, header: Header) -> Any:  # noqa: ANN401 - a generated message
        """A picture as the topic has it."""
        if self._raw:
            data = array("B", pixels(number).tobytes())
            return Image(
                header=header, width=WIDTH, height=HEIGHT, encoding="rgb8", step=3 * WIDTH, data=data
            )
        file = io.BytesIO()
        Picture.fromarray(pixels(number)).save(file, "JPEG", quality=95)
        return CompressedImage(
            header=header, format="rgb8; jpeg compressed bgr8", data=array("B", file.getvalue())
        )

    def tick(self, number: int, part: int, start_s: float) -> None:
        """Everything of one moment: a picture and a cloud every few, odometry and IMU always."""
        stamp = self.node.get_clock().now().to_msg()
        moved = Odometry(header=Header(stamp=stamp, frame_id="odom"), child_frame_id="base_link")
        moved.pose.pose.position.x = time.monotonic() - start_s
        moved.pose.pose.orientation.w = 1.0
        self.odometry.publish(moved)
        turned = Imu(header=Header(stamp=stamp, frame_id="base_link"))
        turned.orientation.w = 1.0
        self.imu.publish(turned)
        if part == 0:
            self.camera.publish(self.picture(number, Header(stamp=stamp, frame_id="camera")))
            self.points.publish(create_cloud_xyz32(Header(stamp=stamp, frame_id="lidar"), points(number)))
            fix = NavSatFix(header=Header(stamp=stamp, frame_id="gps"), latitude=48.1, longitude=11.5)
            fix.status.status = NavSatStatus.STATUS_FIX
            self.fix.publish(fix)


def record(path: Path, pictures: int) -> Path:
    """A recording of the same messages, each received when it was stamped; the robot stands still."""
    from mcap.writer import Writer  # noqa: PLC0415 - which the robot itself does not need

    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start("ros2")
        channels: dict[str, int] = {}

        def write(topic: str, message: Any, time_ns: int) -> None:  # noqa: ANN401 - a generated message
            if topic not in channels:
                kind = f"{type(message).__module__.partition('.')[0]}/msg/{type(message).__name__}"
                schema = writer.register_schema(kind, "ros2msg", b"")
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], time_ns, serialize_message(message), time_ns)

        mounts = TFMessage(transforms=[transform("camera", 0.5), transform("lidar", 0.25)])
        write("/tf_static", mounts, START_NS)
        for turn in range(pictures * ODOMETRY_PER_PICTURE):
            time_ns = START_NS + round(turn / CAMERA_HZ / ODOMETRY_PER_PICTURE * 1e9)
            stamp = Time(nanoseconds=time_ns).to_msg()
            moved = Odometry(header=Header(stamp=stamp, frame_id="odom"), child_frame_id="base_link")
            moved.pose.pose.orientation.w = 1.0
            write("/odometry/filtered", moved, time_ns)
            number, part = divmod(turn, ODOMETRY_PER_PICTURE)
            if part == 0:
                file = io.BytesIO()
                Picture.fromarray(pixels(number)).save(file, "JPEG", quality=95)
                picture = CompressedImage(format="jpeg", data=array("B", file.getvalue()))
                picture.header = Header(stamp=stamp, frame_id="camera")
                write("/camera/image_raw/compressed", picture, time_ns)
                cloud = create_cloud_xyz32(Header(stamp=stamp, frame_id="lidar"), points(number))
                write("/points", cloud, time_ns)
        writer.finish()
    return path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--raw", action="store_true", help="sensor_msgs/Image instead of JPEGs")
    arguments = parser.parse_args()
    rclpy.init(args=[])
    robot = Robot(raw=arguments.raw)
    deadline_s = time.monotonic() + 30.0
    while not robot.heard:
        if time.monotonic() > deadline_s:
            sys.stdout.write("nobody listens\n")
            return 1
        rclpy.spin_once(robot.node, timeout_sec=0.1)
    time.sleep(0.5)
    start_s = time.monotonic()
    for turn in range(arguments.pictures * ODOMETRY_PER_PICTURE):
        time.sleep(max(0.0, start_s + turn / CAMERA_HZ / ODOMETRY_PER_PICTURE - time.monotonic()))
        robot.tick(*divmod(turn, ODOMETRY_PER_PICTURE), start_s)
    time.sleep(0.5)
    sys.stdout.write("done\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
