"""Odometry from the transforms of /tf: the pair that is configured, at its own time; others are mountings."""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wire_encoder import encode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from resized import HOST, SMALL, START_NS, spliced

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.navigation import odometry_of
from edgefirst_ros.model.sample import RawMessage, Sample
from edgefirst_ros.model.transform import decode_tf
from edgefirst_ros.pipeline.assembly import Pipeline

SCHEMA = "tf2_msgs/TFMessage"
SPEED_M_S = 3.0
STALE_NS = 40_000_000
RULES: dict[str, Any] = {
    "tf_odometry": {"role": "odometry", "topic": "/tf"},
    "odometry": {"topic": "/odom"},
    "gps": {"topic": ""},
    "imu": {"topic": ""},
}


def stamped(parent: str, child: str, time_ns: int, x: float) -> dict[str, Any]:
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    header = {"stamp": {"sec": seconds, "nanosec": nanoseconds}, "frame_id": parent}
    pose = {"translation": {"x": x}, "rotation": {"w": 1.0}}
    return {"header": header, "child_frame_id": child, "transform": pose}


def tf(time_ns: int, *transforms: dict[str, Any]) -> RawMessage:
    data = encode(SCHEMA, {"transforms": list(transforms)})
    return RawMessage("/tf", "tf2_msgs/msg/TFMessage", data, time_ns + 2_000_000, time_ns, 0)


def moving(time_ns: int, parent: str = "odom", child: str = "base_link") -> list[RawMessage]:
    """A robot's /tf at one time: a correction stamped long before, the pose, and a wheel."""
    x_m = SPEED_M_S * (time_ns - START_NS) / 1e9
    return [
        tf(time_ns, stamped("map", "odom", time_ns - STALE_NS, 70.0), stamped(parent, child, time_ns, x_m)),
        tf(time_ns, stamped("base_link", "wheel", time_ns, 0.3)),
    ]


def odom(time_ns: int) -> RawMessage:
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    header = {"stamp": {"sec": seconds, "nanosec": nanoseconds}, "frame_id": "odom"}
    pose = {"pose": {"position": {"x": -500.0}, "orientation": {"w": 1.0}}}
    data = encode("nav_msgs/Odometry", {"header": header, "child_frame_id": "base_link", "pose": pose})
    return RawMessage("/odom", "nav_msgs/msg/Odometry", data, time_ns + 2_000_000, time_ns, 0)


def run(more: Sequence[RawMessage], **rule: Any) -> tuple[Pipeline, list[Sample]]:  # noqa: ANN401
    made: list[Sample] = []
    topics = RULES | {"tf_odometry": RULES["tf_odometry"] | rule}
    pipeline = Pipeline(build_config({"topics": topics}), [], made.append)
    pipeline.begin_source(None, HOST)
    ordered = heapq.merge(spliced(SMALL), more, key=lambda message: message.receive_ns)
    for message in ordered:
        pipeline.feed(message)
    pipeline.end_source()
    pipeline.complete()
    pipeline.close()
    return pipeline, made


TIMES = range(START_NS - 100_000_000, START_NS + 2_100_000_000, 20_000_000)


@pytest.mark.parametrize(("parent", "child"), [("odom", "base_link"), ("/odom", "base_footprint")])
def test_the_rig_moves_as_the_pair_does(parent: str, child: str) -> None:
    sent = [message for time_ns in TIMES for message in moving(time_ns, parent, child)]
    pipeline, samples = run(sent, child_frame=child)
    assert len(samples) > 15
    for sample in samples:
        assert sample.ego.position_m is not None
        x_m = SPEED_M_S * (sample.time_ns - START_NS) / 1e9
        assert np.allclose(sample.ego.position_m, (x_m, 0.0, 0.0), atol=0.02)
    account = pipeline.report()["topics"]["/tf"]
    assert account["decoded"] == 2 * len(TIMES)
    assert not any(sample.calibration.transforms.keys() & {child, "odom"} for sample in samples)
    assert all("wheel" in sample.calibration.transforms for sample in samples)


def test_a_message_without_the_pair_has_no_odometry() -> None:
    (_, wheel) = moving(START_NS)
    transforms = decode_tf(wheel.data).datum
    assert odometry_of(transforms, "odom", "base_link") is None
    found = odometry_of(transforms, "base_link", "/wheel")
    assert found is not None
    assert (found.stamp_ns, found.frame_id, found.datum.position_m) == (START_NS, "base_link", (0.3, 0, 0))
    assert all(map(math.isnan, (*found.datum.linear_m_s, *found.datum.angular_rad_s)))
