from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.geometry import Quaternion, Series, canonical, rpy_deg


def of_euler(yaw: float, pitch: float, roll: float) -> Quaternion:
    x, y, z, w = Rotation.from_euler("ZYX", [yaw, pitch, roll], degrees=True).as_quat().tolist()
    return x, y, z, w


def angle_deg(a: Quaternion, b: Quaternion) -> float:
    return math.degrees((Rotation.from_quat(a).inv() * Rotation.from_quat(b)).magnitude())


UNIT = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: math.hypot(*q) > 0.1)
ROTATIONS = UNIT.map(lambda q: tuple(value / math.hypot(*q) for value in q))
HALF = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("yaw", "pitch", "roll"),
    [
        (0, 0, 0),
        (90, 0, 0),
        (-135, 0, 0),
        (179, 10, -20),
        (10, 89, 30),
        (0, -45, 0),
        (0, 0, 179),
        (30, 40, -170),
    ],
)
def test_roll_pitch_yaw_of_known_rotations(yaw: float, pitch: float, roll: float) -> None:
    assert rpy_deg(of_euler(yaw, pitch, roll)) == pytest.approx((roll, pitch, yaw), abs=1e-9)


@given(ROTATIONS)
@example((0.0, HALF, 0.0, HALF))
@example((HALF, 0.0, HALF, 0.0))
@example((0.0, -HALF, 0.0, HALF))
@example((0.5, 0.5, 0.5, 0.5))
@example((0.5, 0.5, -0.5, 0.5))
@example((-0.5, 0.5, 0.5, 0.5))
@example((0.0, 0.0, 1.0, 0.0))
@example((0.0, 1.0, 0.0, 0.0))
def test_roll_pitch_yaw_rebuild_the_rotation(rotation: Quaternion) -> None:
    roll, pitch, yaw = rpy_deg(rotation)
    assert -180 <= roll <= 180
    assert -90 <= pitch <= 90
    assert -180 <= yaw <= 180
    assert angle_deg(of_euler(yaw, pitch, roll), rotation) < 1e-3


@given(ROTATIONS, ROTATIONS, st.integers(1, 999))
def test_in_between_it_turns_at_constant_rate_the_short_way(
    start: Quaternion, end: Quaternion, time_ns: int
) -> None:
    series = Series(4)
    series.add(0, start)
    series.add(1000, end)
    found = series.at(time_ns, 1000)
    assert found is not None
    x, y, z, w = found.tolist()
    whole, between, share = angle_deg(start, end), (x, y, z, w), time_ns / 1000
    assert w >= 0
    assert angle_deg(start, between) == pytest.approx(whole * share, abs=1e-5)
    if whole < 179:
        assert angle_deg(between, end) == pytest.approx(whole * (1 - share), abs=1e-5)


@given(ROTATIONS)
def test_of_two_quaternions_of_a_rotation_one_is_taken(rotation: Quaternion) -> None:
    assert angle_deg(canonical(rotation), rotation) < 1e-4
    assert canonical(rotation)[3] >= 0
