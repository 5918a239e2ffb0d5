"""A capture that is deactivated right after messages for it have arrived, without its executor in between."""

from __future__ import annotations

import sys
import time

import rclpy
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Imu

from edgefirst_ros.nodes.capture import CaptureNode

MESSAGES = 20
MATCH_S = 30.0
ARRIVE_S = 0.5


def main() -> int:
    rclpy.init(args=sys.argv)
    sender = rclpy.create_node("sender", use_global_arguments=False)
    publisher = sender.create_publisher(Imu, "/imu", QoSProfile(depth=MESSAGES))
    capture = CaptureNode()
    capture.trigger_configure()
    capture.trigger_activate()
    deadline = time.monotonic() + MATCH_S
    while not publisher.get_subscription_count() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(ARRIVE_S)  # the other side of a match is not told when this one is
    for _ in range(MESSAGES):
        publisher.publish(Imu())
    time.sleep(ARRIVE_S)
    capture.trigger_deactivate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
