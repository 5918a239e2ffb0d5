"""A simulator beside a live capture over Zenoh: its clock is the time; and sensors that nothing reads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import recorded
from zenoh_loopback import await_condition, free_endpoint

from edgefirst_ros.config.hints import ExistingTopic
from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import parsed
from edgefirst_ros.sources.zenoh import ZenohSource
from edgefirst_ros.sources.zenohlink import Outlet, linked, open_session


def test_a_simulator_at_half_speed_is_the_time(tmp_path: Path) -> None:
    endpoint, came = free_endpoint(), list[RawMessage]()
    with open_session([], [endpoint]) as session, linked([endpoint], [], None) as link:
        clock, imu = Outlet(session, "rt/clock"), Outlet(session, "rt/imu")
        with ZenohSource(link, build_config({}), came.append):
            await_condition("subscribers", lambda: clock.wanted and imu.wanted)
            for number in range(40):
                rest = (25_000_000 * number).to_bytes(4, "little")
                clock.put("rosgraph_msgs/msg/Clock", b"\0\1\0\0" + bytes((100, 0, 0, 0)) + rest)
                imu.put("sensor_msgs/msg/Imu", b"\0\1\0\0" + bytes(320))
                time.sleep(0.05)
            await_condition("every message", lambda: len(came) == 40)
    assert (came[-1].receive_ns - came[0].receive_ns) / 1e9 == pytest.approx(0.975, abs=0.03)


def test_a_sensor_that_nothing_reads_is_in_the_verdict(tmp_path: Path) -> None:
    taking = LiveCapture(build_config({"min_free_mb": 0}), tmp_path, "host")
    others = {"/velodyne/packets": "velodyne_msgs/msg/VelodyneScan", "/chatter": "std_msgs/msg/String"}
    others |= {"/camera/theora": "theora_image_transport/msg/Packet"}
    taking.other_topics = lambda: [ExistingTopic(*each) for each in others.items()]
    taking.start("one")
    for message in recorded.messages(seconds=1.0):
        taking.put(message)
    taking.status()
    (done,) = taking.stop(60.0)
    (said,) = (each for each in done.report["warnings"] if "not in the dataset" in each)
    assert said.startswith("velodyne/packets is not in the dataset: a lidar's raw packets")
    assert said in judge(parsed(done.report)).sentence
