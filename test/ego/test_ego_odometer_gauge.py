"""Odometry that contradicts itself, the gyroscope or the fixes is found, and better poses are taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import gtsam
import numpy as np
import pytest
from ego_drives import MEMS, Case, Off, ns, off
from faulty import ImuErrors
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.motion import solve
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry

FRD, NED = np.diag((1.0, -1.0, -1.0)), np.array(((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)))
MIRROR = np.diag((1.0, -1.0, 1.0))

Vectors = tuple[np.ndarray, ...]
Sent = Callable[[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray], Vectors]
"""What a driver makes of time, place (3,), rotation (3, 3), velocity and rate (3,)."""


@dataclass(frozen=True)
class Wheels(Case):
    """A drive whose odometry's driver sends something else."""

    sent: Sent = lambda _, place, rotation, velocity, rate: (place, rotation, velocity, rate)
    seconds: float = 72.0
    imu_hz: float = 20.0
    imu: ImuErrors = MEMS
    gps_hz: float = 5.0
    sigma_m: float = 0.5
    oriented: bool = False

    def odometry(self) -> list[tuple[int, Odometry]]:
        """With a frame of its own, at the drive's beginning."""
        rig, made = self.world.rig, []
        first = rig.state(0.0)
        turn = first.rotation().T
        for at in np.arange(0.01, self.seconds, 0.05).tolist():
            before, state, after = (rig.state(at + step) for step in (-0.01, 0.0, 0.01))
            place, rotation = turn @ (state.position_m - first.position_m), turn @ state.rotation()
            velocity = state.rotation().T @ (after.position_m - before.position_m) / 0.02
            rate = gtsam.Rot3.Logmap(gtsam.Rot3(before.rotation().T @ after.rotation())) / 0.02
            place, rotation, velocity, rate = self.sent(at, place, rotation, velocity, rate)
            xyzw = Rotation.from_matrix(rotation).as_quat() if rotation.shape == (3, 3) else rotation
            told = (tuple(each.tolist()) for each in (place, xyzw, velocity, rate))
            made.append((ns(at), Odometry("base_link", *told)))
        return made

    def log(self) -> NavigationLog:
        log = super().log()
        for time_ns, each in self.odometry():
            log.odometer.add(time_ns, each)
        return log

    def offline(self, *seconds: float) -> tuple[Trajectory, Off]:
        trajectory = Trajectory(solve(self.log(), Vehicle(), None), odometry=True)
        trajectory.add_odometry(*self.odometry()[0])
        return trajectory, off(self.world, [trajectory.pose(ns(at)) for at in seconds])


KINDS: dict[str, tuple[Sent, str]] = {
    "north-east-down": (lambda _, p, r, v, w: (NED @ p, NED @ r @ FRD, FRD @ v, FRD @ w), "contradicts"),
    "y to the right": (lambda _, p, r, v, w: (MIRROR @ p, MIRROR @ r @ MIRROR, MIRROR @ v, -w), "contra"),
    "mm": (lambda _, p, r, v, w: (1000 * p, r, v, w), "has ways"),
    "begins again": (lambda at, p, r, v, w: (p if at < 60 else p - (50, 20, 0), r, v, w), "contradicts"),
    "never filled": (lambda _, p, _r, v, w: (0 * p, np.eye(3), v, w), "has ways 0 times"),
}  # fmt: skip


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_not_used_where_fixes_show_better_poses(kind: str) -> None:
    sent, why = KINDS[kind]
    trajectory, found = Wheels(sent=sent).offline(*np.arange(5.0, 70.0, 2.5))
    assert found.poses[0].origin is not None
    assert found.rms_m < 0.5
    assert max(found.turn_deg) < 3
    assert any("the odometry" in note and why in note and "not used" in note for note in trajectory.notes)
    assert trajectory.doubts == []


def test_it_is_followed_if_it_is_right() -> None:
    """Wheels slip and wear, by two in a hundred."""
    trajectory, found = Wheels(sent=lambda _, p, r, v, w: (1.02 * p, r, 1.02 * v, w)).offline(50.0, 60.0)
    assert found.poses[0].origin is None
    assert (trajectory.notes, trajectory.doubts) == ([], [])


@pytest.mark.long
def test_one_that_is_a_tenth_off_is_followed_and_doubted() -> None:
    trajectory, found = Wheels(seconds=290.0, sent=lambda _, p, r, v, w: (1.1 * p, r, 1.1 * v, w)).offline(
        50.0
    )
    assert found.poses[0].origin is None
    assert [each for each in trajectory.doubts if "ways 1.1" in each and "as wrong" in each]


@pytest.mark.parametrize("factor", [3.6, 0.0, -1.0])
def test_velocities_that_contradict_its_poses_are_not_used(factor: float) -> None:
    case = Wheels(seconds=40.0, gps_hz=0, imu_hz=0, sent=lambda _, p, r, v, w: (p, r, factor * v, factor * w))
    trajectory = Trajectory(odometry=True)
    for message in case.odometry():
        trajectory.add_odometry(*message)
    rig = case.world.rig
    way = rig.state(30.02).position_m - rig.state(29.98).position_m
    true = float(np.linalg.norm(way)) / 0.04
    assert trajectory.pose(ns(30.0)).speed_m_s == pytest.approx(true, rel=0.01)
    # Beyond its end it goes on as it went.
    last = trajectory.pose(ns(41.0)).position_m
    assert last is not None
    place = rig.state(0.0).rotation().T @ (rig.state(41.0).position_m - rig.state(0.0).position_m)
    assert math.dist(last, place) < 1.0


@pytest.mark.long
def test_live_it_is_followed_all_the_same_and_doubted() -> None:
    case = Wheels(sent=KINDS["begins again"][0], seconds=80.0)
    trajectory = Trajectory(odometry=True)
    messages: list[tuple[int, int, Imu | NavSatFix | Odometry]] = [
        *((t, -1, each) for t, each in (*case.samples(), *case.odometry())), *case.fixes()
    ]  # fmt: skip
    poses = {}
    for time_ns, number, datum in sorted(messages, key=lambda each: each[:2]):
        for at in (40.0, 58.0, 70.0):
            if at not in poses and time_ns >= ns(at + 2):
                poses[at] = trajectory.pose(ns(at))
        if isinstance(datum, Odometry):
            trajectory.add_odometry(time_ns, datum)
        elif isinstance(datum, Imu):
            trajectory.add_imu(time_ns, datum)
        else:
            trajectory.add_fix(time_ns, number, datum)
    assert all(poses[at].position_m is not None and poses[at].origin is None for at in (40.0, 70.0))
    assert poses[70.0].location is not None
    assert [each for each in trajectory.doubts if "contradicts" in each and "as wrong" in each]


def test_a_course_is_enough_to_find_a_mirror() -> None:
    trajectory, found = Wheels(imu_hz=0, sent=KINDS["y to the right"][0]).offline(50.0)
    assert found.poses[0].origin is not None
    assert any("contradicts" in note and "not used" in note for note in trajectory.notes)
