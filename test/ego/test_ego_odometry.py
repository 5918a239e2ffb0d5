"""Odometry leads: its frame, carried on from its ends as it moved; the location stays that of the fixes."""

from __future__ import annotations

import math

import pytest
from ego_drives import from_yaw

from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import EgoPose, PoseBasis

S = 1_000_000_000


def odometry(second: float, rate: float = 0.0) -> Odometry:
    """2 m/s along x, or round to the left."""
    yaw = rate * second
    place = (2 * second, 2.0, 3.0) if not rate else (2 / rate * math.sin(yaw), 2 / rate * -math.cos(yaw), 0.0)
    return Odometry("base_link", place, from_yaw(yaw), (2.0, 0.0, 0.0), (0.0, 0.0, rate), (0.1, 0.1, 0.2))


def driven(trajectory: Trajectory, *seconds: float, rate: float = 0.0) -> Trajectory:
    for second in seconds:
        trajectory.add_odometry(round(second * S), odometry(second, rate))
    return trajectory


def test_it_goes_before_everything_and_keeps_the_location() -> None:
    trajectory = Trajectory()
    for second in range(4):
        trajectory.add_fix(second * S, second, NavSatFix(48.1 + second * 1e-5, 11.5, 500.0, 0))
        trajectory.add_imu(second * S + 1, Imu(from_yaw(1), (0, 0, 0), (0, 0, 9.81)))
        driven(trajectory, second)
    trajectory.finish()
    pose = trajectory.pose(round(1.5 * S))
    assert pose.position_m == pytest.approx((3, 2, 3))
    assert pose.rpy_deg == pytest.approx((0, 0, 0))
    assert pose.origin is None
    assert pose.location is not None
    assert pose.location.latitude_deg == pytest.approx(48.100015, abs=2e-6)
    assert (pose.position_basis, pose.rotation_basis) == (PoseBasis.MEASURED,) * 2
    assert pose.position_sigma_m == (0.1, 0.1, 0.2)


def test_it_is_never_mixed_with_fixes_while_it_is_awaited() -> None:
    trajectory = Trajectory(odometry=True)
    trajectory.add_fix(0, 0, NavSatFix(48.1, 11.5, 500.0, 0))
    trajectory.finish()
    pose = trajectory.pose(0)
    assert (pose.position_m, pose.rotation_xyzw, pose.origin) == (None, None, None)
    assert pose.location is not None


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_it_is_carried_on_as_it_moved(rate: float) -> None:
    trajectory = driven(Trajectory(odometry=True), 1, 1.5, 2, rate=rate)
    for second in (0.2, 3.0):
        pose, true = trajectory.pose(round(second * S)), odometry(second, rate)
        assert pose.position_m == pytest.approx(true.position_m, abs=0.03)
        assert pose.rotation_xyzw == pytest.approx(true.orientation_xyzw, abs=1e-9)
        assert (pose.position_basis, pose.rotation_basis) == (PoseBasis.DEAD_RECKONED,) * 2
    for second in (-1.1, 4.1):
        assert trajectory.pose(round(second * S)) == EgoPose(round(second * S))
