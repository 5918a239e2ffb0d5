"""What samples share: the newest calibration in force, and poses close enough together."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from envelopes import MS, START_NS, Post
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.navigation import Odometry
from edgefirst_ros.model.sample import Datum, Measurement
from edgefirst_ros.model.transform import RobotDescription, Transform, Transforms
from edgefirst_ros.pipeline.context import (
    POSE_AT_LEAST_NS,
    POSE_EVERY_NS,
    SampleContext,
)
from edgefirst_ros.pipeline.transforms import TransformBuffer

CONFIG = build_config({"ego": {"smoothing": "lag"}})
NAN = float("nan")


def context() -> SampleContext:
    return SampleContext(CONFIG, odometry=True)


def measured(datum: Datum, at_ms: float = 0, name: str = "camera_info") -> Measurement:
    return Post(CONFIG).envelope(name, at_ms, datum).measurement


def info(width: int, focal: float) -> CameraInfo:
    k = np.array([[focal, 0, width / 2], [0, focal, width / 4], [0, 0, 1]])
    return CameraInfo(width, width // 2, "plumb_bob", (), k, np.eye(3), np.hstack([k, np.zeros((3, 1))]))


def mounts(*pairs: tuple[str, str, float]) -> Transforms:
    found = tuple(Transform(parent, child, (x, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)) for parent, child, x in pairs)
    return Transforms(found, (0,) * len(found))


def described(*pairs: tuple[str, str, float], moving: tuple[str, ...] = ()) -> RobotDescription:
    return RobotDescription(mounts(*pairs).transforms, moving)


def test_transforms_count_before_a_description_whichever_comes_first() -> None:
    robot = described(("base_link", "camera", 1.0), ("base_link", "lidar", 2.0), moving=("pan (revolute)",))
    for first, second in ((robot, mounts(("base_link", "lidar", 5.0))),) * 2:
        for order in ((first, second), (second, first)):
            here = context()
            for datum in order:
                assert here.learn(measured(datum, name="tf")) is None
            found = here.calibration.transforms
            assert {child: each.translation_m[0] for child, each in found.items()} == {
                "camera": 1.0,
                "lidar": 5.0,
            }
            assert not here.transforms.moved
            assert here.told == ["robot_description: of pan (revolute) the place is not fixed, and not taken"]
    here.learn(measured(mounts(("base_link", "lidar", 6.0)), name="tf"))
    assert [*here.transforms.moved] == ["lidar"]


def odometry(x_m: float) -> Odometry:
    return Odometry("base_link", (x_m, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (NAN,) * 3, (NAN,) * 3)


def test_the_newest_message_of_a_kind_is_in_force() -> None:
    here = context()
    here.picture = (640, 320)
    for focal in (500.0, 510.0):
        assert here.learn(measured(info(640, focal))) is None
    found = here.calibration.camera_info
    assert found is not None
    assert found.k[0, 0] == 510.0


def test_a_calibration_of_another_size_waits_for_pictures_of_that_size() -> None:
    here = context()
    here.picture = (640, 320)
    here.learn(measured(info(640, 500.0)))
    here.learn(measured(info(1280, 1000.0)))
    kept = here.calibration.camera_info
    assert kept is not None
    assert kept.width == 640
    fitting = here.calibration_for((1280, 640), []).camera_info
    assert fitting is not None
    assert fitting.width == 1280


def test_transforms_add_up_and_a_change_is_told_once() -> None:
    here = context()
    assert here.learn(measured(mounts(("base_link", "camera", 1.0)), name="tf")) is None
    assert here.learn(measured(mounts(("base_link", "lidar", 2.0)), name="tf")) is None
    assert here.transforms.moved == {}
    for x in (1.5, 1.7):
        here.learn(measured(mounts(("base_link", "camera", x)), name="tf"))
    placed = here.calibration.transforms
    assert {child: each.translation_m[0] for child, each in placed.items()} == {"camera": 1.7, "lidar": 2.0}
    assert list(here.transforms.moved) == ["camera"]


def test_configured_places_hold_and_the_rest_of_a_message_counts() -> None:
    placed = {"camera": mounts(("base_link", "camera", 9.0)).transforms[0]}
    here = SampleContext(CONFIG, transforms=TransformBuffer("base_link", placed))
    both = mounts(("base_link", "/camera", 1.0), ("base_link", "lidar", 2.0))
    assert here.learn(measured(both, name="tf")) is None
    found = here.calibration.transforms
    assert {child: each.translation_m[0] for child, each in found.items()} == {"camera": 9.0, "lidar": 2.0}


@pytest.mark.parametrize(
    "loop", [(("a", "a"),), (("a", "b"), ("b", "a")), (("a", "b"), ("b", "c"), ("c", "a"))]
)
def test_a_transform_that_closes_a_loop_is_refused(loop: tuple[tuple[str, str], ...]) -> None:
    here = context()
    refusals = [here.learn(measured(mounts((*pair, 0.0)), name="tf")) for pair in loop]
    assert refusals == [None] * (len(loop) - 1) + ["transform that makes a frame its own ancestor"]
    assert len(here.calibration.transforms) == len(loop) - 1


@settings(max_examples=30, deadline=None)
@given(
    steps_ms=st.lists(st.integers(1, 400), min_size=2, max_size=60),
    motion=st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_poses_are_never_closer_than_allowed_and_cover_all_times(
    steps_ms: list[int], motion: list[bool]
) -> None:
    here, now_ms, poses = context(), 0, []
    times_ns = []
    for step_ms, moves in zip(steps_ms, [True, *motion], strict=False):
        now_ms += step_ms
        times_ns.append(START_NS + now_ms * MS)
        here.passing(times_ns[-1])
        if moves:
            list(here.navigate(measured(odometry(now_ms / 1000), now_ms, "imu")))
        poses += list(here.poses())
    list(here.finish())
    poses += list(here.poses())
    found_ns = [pose.time_ns for pose in poses]
    assert found_ns == sorted(set(found_ns))
    assert (found_ns[0], found_ns[-1]) == (times_ns[0], times_ns[-1])
    assert set(found_ns) <= set(times_ns)
    assert all(later - earlier >= POSE_EVERY_NS for earlier, later in pairwise(found_ns[:-1]))
    for time_ns in times_ns:
        assert min(time_ns - each for each in found_ns if each <= time_ns) < POSE_AT_LEAST_NS


def test_without_navigation_there_are_no_poses() -> None:
    here = context()
    for at_ms in range(0, 500, 10):
        here.passing(START_NS + at_ms * MS)
    assert list(here.finish()) == list(here.poses()) == []
    assert not here.pose(START_NS).is_known


class TestRectified:
    P = np.array([[80.0, 0, 70, -9], [0, 81.0, 40, 0], [0, 0, 1, 0]])

    @pytest.mark.parametrize(
        ("topic", "expected"),
        [
            ("camera/image_rect", True),
            ("camera/image_rect_color/compressed", True),
            ("left_rect/image", True),
            ("stereo/rectified/left", True),
            ("camera/image_raw", False),
            ("camera/rectangle", False),
            ("camera/image_raw camera/image_rect", False),
        ],
    )
    def test_p_counts_where_the_topic_says_that_pictures_are_rectified(
        self, topic: str, *, expected: bool
    ) -> None:
        config = build_config({"topics": {"camera": {"topic": topic}}})
        sent = replace(info(160, 100.0), d=(-0.3, 0.1, 0.0, 0.0, 0.0), p=self.P)
        for name in ("camera", ""):
            found = SampleContext(config, camera=name)
            assert found.learn(measured(sent), "camera") is None
            assert found.learn(measured(sent), "camera") is None
            known = found.calibration.camera_info
            assert known is not None
            assert (known.k.tolist(), known.d) == (
                (self.P[:, :3].tolist(), ()) if expected else (sent.k.tolist(), sent.d)
            )
            assert len(found.told) == expected
