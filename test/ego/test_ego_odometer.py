"""Odometry in the estimate: the way between two times by the scale that a drive shows, and its worth."""

from __future__ import annotations

import math
from collections.abc import Callable

import gtsam
import numpy as np
import pytest
from ego_drives import MEMS, Case, S, from_yaw, ns

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.graph import Node, Place
from edgefirst_ros.ego.motion import solve
from edgefirst_ros.ego.navigationlog import NavigationLog, Odometer
from edgefirst_ros.model.navigation import Imu, Odometry

UNKNOWN = (math.nan,) * 3
FIX = Place(np.zeros(3), np.ones(3), np.ones(3))


def rolled(metres: float, radius_m: float = 20.0) -> Odometry:
    """After so much of the way round a circle to the left."""
    turned = metres / radius_m
    place = (radius_m * math.sin(turned), radius_m * (1 - math.cos(turned)), 0.0)
    return Odometry("base_link", place, from_yaw(turned), UNKNOWN, UNKNOWN)


def circling(seconds: float, ratio: Callable[[int], float] = lambda _: 0.95) -> Odometer:
    """At 10 m/s by the odometry, and at so much of it by the estimate."""
    odometer = Odometer()
    for step in range(round(seconds * 20) + 1):
        odometer.add(step * S // 20, rolled(step / 2))
    nodes, place = [], np.zeros(3)
    for second in range(int(seconds) + 2):
        pose = posed(rolled(10 * second))
        nodes.append(Node(0, second * S, pose=gtsam.Pose3(pose.rotation(), place), place=FIX))
        place = place + ratio(second) * (posed(rolled(10 * second + 10)).translation() - pose.translation())
    odometer.compare(nodes)
    return odometer


def posed(odometry: Odometry) -> gtsam.Pose3:
    x, y, z, w = odometry.orientation_xyzw
    return gtsam.Pose3(gtsam.Rot3.Quaternion(w, x, y, z), np.array(odometry.position_m))


def test_the_way_is_scaled_and_in_the_axes_at_its_start() -> None:
    found = circling(100).moved(40 * S, 41 * S)
    assert found is not None
    way, sigma_m = found
    chord_m = 2 * 20 * math.sin(0.25)
    assert way == pytest.approx(
        [0.95 * chord_m * math.cos(0.25), 0.95 * chord_m * math.sin(0.25), 0], abs=1e-6
    )
    assert sigma_m == pytest.approx(0.1 * math.sqrt(0.95 * chord_m), rel=0.01)
    between = circling(100).moved(40 * S + S // 40, 40 * S + 3 * S // 40)
    assert between is not None
    assert np.linalg.norm(between[0]) == pytest.approx(0.95 * 0.5, rel=1e-3)


def test_it_says_nothing_before_the_drive_has_shown_its_scale() -> None:
    assert circling(40).moved(S, 2 * S) is None
    assert circling(80).moved(S, 2 * S) is not None


def test_gaps_ends_and_jumps_of_its_frame_are_unknown() -> None:
    odometer = circling(100)
    odometer.add(101 * S, rolled(0))
    odometer.add(101 * S, rolled(999))
    odometer.add(101 * S + S // 20, rolled(0.5))
    assert odometer.moved(99 * S, 100 * S + S // 2) is None
    assert odometer.moved(100 * S, 102 * S) is None
    assert odometer.moved(-S, S) is None
    assert odometer.moved(101 * S, 101 * S + S // 20) is not None
    jumped = circling(100)
    jumped.add(100 * S + S // 20, Odometry("base_link", (1000.0, 0.0, 0.0), from_yaw(0), UNKNOWN, UNKNOWN))
    assert jumped.moved(100 * S, 100 * S + S // 20) is None


def odometry(case: Case, scale: float) -> list[tuple[int, Odometry]]:
    """By wheels that are taken to be larger or smaller than they are, on a plane."""
    rig, place, made = case.world.rig, np.zeros(2), []
    times = np.arange(0.01, case.seconds, 0.05)
    last = rig.state(float(times[0]))
    for at in times.tolist():
        state = rig.state(at)
        moved = state.position_m - last.position_m
        yaw = math.atan2(state.rotation()[1, 0], state.rotation()[0, 0])
        place, last = place + scale * moved[:2], state
        made.append((ns(at), Odometry("base_link", (*place.tolist(), 0.0), from_yaw(yaw), UNKNOWN, UNKNOWN)))
    return made


@pytest.mark.long
def test_it_carries_through_a_tunnel_without_an_accelerometer() -> None:
    case = Case(
        seconds=110.0, imu=MEMS, imu_hz=20.0, oriented=False, gps_hz=2.5, gps=lambda at: not 80 < at < 102
    )
    times = np.arange(81.0, 101.0, 0.5)
    off_m = []
    for messages in ([], odometry(case, 1.04)):
        log = NavigationLog()
        for time_ns, imu in case.samples():
            log.add_imu(time_ns, Imu(None, imu.angular_velocity_rad_s, (0.0, 0.0, 0.0)))
        for fix in case.fixes():
            log.add_fix(*fix)
        for time_ns, each in messages:
            log.odometer.add(time_ns, each)
        motion = solve(log, Vehicle(), None)
        places = [point.position_m for at in times.tolist() if (point := motion.path.at(ns(at))) is not None]
        true = np.array([case.world.rig.state(at).position_m for at in times.tolist()])
        first = case.world.rig.state(0.035).position_m
        off_m.append(float(np.sqrt(np.mean(np.sum((np.array(places) + first - true)[:, :2] ** 2, axis=1)))))
    assert off_m[1] < 1.0
    assert off_m[1] < 0.2 * off_m[0]
