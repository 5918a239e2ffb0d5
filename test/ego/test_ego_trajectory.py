from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.geodesy import from_enu
from edgefirst_ros.ego.orientation import from_yaw
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.messages.odometry import Odometry
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.sample import EgoPose, GeoPoint

S = 1_000_000_000
T0 = 1_773_483_630 * S
ORIGIN = GeoPoint(48.1, 11.5, 520.0)
NONE = (None, None, None)


def fix_at(east: float, north: float, up: float = 0.0) -> NavSatFix:
    point = from_enu((east, north, up), ORIGIN)
    return NavSatFix(point.latitude_deg, point.longitude_deg, point.altitude_m, 0)


def imu_of(rotation: tuple[float, float, float, float] | None) -> Imu:
    return Imu(rotation, (0, 0, 0), (0, 0, 9.81))


def ns(seconds: float) -> int:
    return T0 + round(seconds * S)


class Circle:
    """A circle of 200 m driven left-handed at 10 m/s, starting eastwards at the origin."""

    radius_m, speed_m_s = 200.0, 10.0

    def yaw_rad(self, seconds: float) -> float:
        return self.speed_m_s / self.radius_m * seconds

    def position_m(self, seconds: float) -> tuple[float, float, float]:
        yaw = self.yaw_rad(seconds)
        return self.radius_m * math.sin(yaw), self.radius_m * (1 - math.cos(yaw)), 0.01 * seconds

    def drive(self, trajectory: Trajectory, *, imu: bool, seconds: int = 130) -> None:
        for tick in range(seconds * 100):
            now = tick / 100
            if imu and tick % 2 == 0:
                trajectory.add_imu(ns(now), imu_of(from_yaw(math.remainder(self.yaw_rad(now), 2 * math.pi))))
            if tick % 10 == 0:
                assert trajectory.add_fix(ns(now), fix_at(*self.position_m(now))) is None


def turn_deg(a: float, b: float) -> float:
    return abs(math.remainder(a - b, 360))


@pytest.mark.parametrize("imu", [True, False], ids=["imu", "course"])
def test_a_circle_comes_out_as_driven(imu: bool) -> None:
    circle, trajectory = Circle(), Trajectory(ORIGIN, memory_ns=1000 * S)
    circle.drive(trajectory, imu=imu)
    for tick in range(1000, 128_000, 137):
        now = tick / 1000
        pose = trajectory.pose(ns(now))
        assert pose.position_m is not None
        assert pose.rpy_deg is not None
        assert pose.location is not None
        assert math.dist(pose.position_m, circle.position_m(now)) < 1e-3
        assert turn_deg(pose.rpy_deg[2], math.degrees(circle.yaw_rad(now))) < 0.01
        assert pose.rpy_deg[:2] == pytest.approx((0, 0), abs=1e-6)
        assert pose.origin == ORIGIN
        expected = from_enu(circle.position_m(now), ORIGIN)
        assert pose.location.latitude_deg == pytest.approx(expected.latitude_deg, abs=1e-8)
        assert pose.location.longitude_deg == pytest.approx(expected.longitude_deg, abs=2e-8)
        assert pose.location.altitude_m == pytest.approx(expected.altitude_m, abs=1e-3)


def test_the_origin_is_the_first_accepted_fix() -> None:
    trajectory = Trajectory()
    assert trajectory.pose(T0) == EgoPose(T0)
    assert trajectory.add_fix(ns(0), NavSatFix(0, 0, 0, 0)) == "0,0"
    assert trajectory.origin is None
    assert trajectory.add_fix(ns(1), fix_at(30, 40)) is None
    pose = trajectory.pose(ns(1))
    assert trajectory.origin == pose.origin == pose.location
    assert pose.position_m == pytest.approx((0, 0, 0), abs=1e-9)
    assert (pose.time_ns, pose.fix_time_ns) == (ns(1), ns(1))


def test_a_given_origin_stays() -> None:
    trajectory = Trajectory(ORIGIN)
    trajectory.add_fix(ns(1), fix_at(30, 40, 5))
    assert trajectory.pose(ns(1)).position_m == pytest.approx((30, 40, 5), abs=1e-6)


def test_refusals_change_nothing() -> None:
    trajectory = Trajectory()
    trajectory.add_fix(ns(1), fix_at(0, 0))
    before = trajectory.pose(ns(1))
    assert trajectory.add_fix(ns(1.04), fix_at(50, 50)) == "duplicate epoch"
    assert trajectory.add_fix(ns(2), NavSatFix(48, 11, 0, -1)) == "no fix (status)"
    assert trajectory.add_fix(ns(0.5), fix_at(9, 9)) == "duplicate epoch"
    assert trajectory.pose(ns(1)) == before


def test_fix_times_are_those_of_the_nearest_fix() -> None:
    trajectory = Trajectory()
    trajectory.add_fix(ns(1), fix_at(0, 0))
    trajectory.add_fix(ns(2), fix_at(10, 0))
    times = [trajectory.pose(ns(seconds)).fix_time_ns for seconds in (0, 1.4, 1.6, 3.9)]
    assert times == [ns(1), ns(1), ns(2), ns(2)]


def test_ends_are_held_but_not_for_long() -> None:
    trajectory = Trajectory(hold_ns=2 * S)
    for second in range(5):
        trajectory.add_fix(ns(second), fix_at(second * 10, 0))
        trajectory.add_imu(ns(second), imu_of(from_yaw(second / 10)))
    first, last = trajectory.pose(ns(0)), trajectory.pose(ns(4))
    for near, end in ((-2, first), (6, last)):
        pose = trajectory.pose(ns(near))
        assert (pose.location, pose.position_m, pose.rotation_xyzw) == (
            end.location,
            end.position_m,
            end.rotation_xyzw,
        )
    for far in (-2.001, 6.001):
        assert trajectory.pose(ns(far)) == EgoPose(ns(far))


def test_a_gap_between_fixes_is_not_bridged() -> None:
    trajectory = Trajectory(max_gap_ns=5 * S, hold_ns=2 * S)
    for second, east in ((0, 0), (5, 50), (10.5, 105)):
        trajectory.add_fix(ns(second), fix_at(east, 0))
    positions = [trajectory.pose(ns(second)).position_m for second in (2.5, 7, 7.1, 8.4, 8.5)]
    assert [None if p is None else round(p[0], 3) for p in positions] == [25, 50, None, None, 105]


def test_imu_alone_gives_rotation_and_nothing_else() -> None:
    trajectory = Trajectory()
    trajectory.add_imu(ns(0), imu_of(from_yaw(0.2)))
    trajectory.add_imu(ns(1), imu_of(from_yaw(0.4)))
    pose = trajectory.pose(ns(0.5))
    assert pose.rpy_deg == pytest.approx((0, 0, math.degrees(0.3)))
    assert (pose.location, pose.position_m, pose.origin, pose.fix_time_ns) == (None, None, None, None)


def test_imu_without_orientation_leaves_the_course() -> None:
    trajectory = Trajectory()
    for tenth in range(30):
        trajectory.add_fix(ns(tenth / 10), fix_at(0, tenth))
        trajectory.add_imu(ns(tenth / 10), imu_of(None))
    assert trajectory.pose(ns(1.5)).rpy_deg == pytest.approx((0, 0, 90), abs=1e-3)


def test_imu_goes_before_course() -> None:
    trajectory = Trajectory()
    for tenth in range(30):
        trajectory.add_fix(ns(tenth / 10), fix_at(0, tenth))
        trajectory.add_imu(ns(tenth / 10), imu_of(from_yaw(0.1)))
    assert trajectory.pose(ns(1.5)).rpy_deg == pytest.approx((0, 0, math.degrees(0.1)))


def test_the_imus_mounting_is_undone() -> None:
    rig_from_imu = Rotation.from_euler("ZYX", [90, 20, -10], degrees=True)
    enu_from_rig = Rotation.from_euler("ZYX", [30, 4, -3], degrees=True)
    x, y, z, w = rig_from_imu.as_quat().tolist()
    trajectory = Trajectory(rig_from_imu_xyzw=(x, y, z, w))
    x, y, z, w = (enu_from_rig * rig_from_imu).as_quat().tolist()
    trajectory.add_imu(T0, imu_of((x, y, z, w)))
    assert trajectory.pose(T0).rpy_deg == pytest.approx((-3, 4, 30), abs=1e-9)


def odometry_of(east: float, yaw: float) -> Odometry:
    return Odometry("base_link", (east, 2.0, 3.0), from_yaw(yaw), (0, 0, 0), (0, 0, 0))


def test_odometry_goes_before_everything_and_keeps_the_location() -> None:
    trajectory = Trajectory()
    for second in range(4):
        trajectory.add_fix(ns(second), fix_at(0, second))
        trajectory.add_imu(ns(second), imu_of(from_yaw(1)))
        trajectory.add_odometry(ns(second), odometry_of(second * 10, second / 10))
    pose = trajectory.pose(ns(1.5))
    assert pose.position_m == pytest.approx((15, 2, 3))
    assert pose.rpy_deg == pytest.approx((0, 0, math.degrees(0.15)))
    assert pose.origin is None
    assert pose.location is not None
    assert pose.location.latitude_deg == pytest.approx(fix_at(0, 1.5).latitude_deg, abs=1e-9)
    assert trajectory.pose(ns(5.5)).position_m is None


def test_expected_odometry_is_never_mixed_with_fixes() -> None:
    trajectory = Trajectory(odometry=True)
    trajectory.add_fix(ns(0), fix_at(0, 0))
    trajectory.add_imu(ns(0), imu_of(from_yaw(1)))
    pose = trajectory.pose(ns(0))
    assert (pose.position_m, pose.rotation_xyzw, pose.origin) == NONE
    assert pose.location is not None


def test_settled_as_soon_as_both_are_known() -> None:
    trajectory = Trajectory()
    assert not trajectory.settled(ns(0))
    trajectory.add_fix(ns(0), fix_at(0, 0))
    trajectory.add_imu(ns(0), imu_of(from_yaw(0)))
    assert trajectory.settled(ns(0))
    assert not trajectory.settled(ns(0.5))
    trajectory.add_imu(ns(1), imu_of(from_yaw(0)))
    assert not trajectory.settled(ns(0.5))
    trajectory.add_fix(ns(1), fix_at(1, 0))
    assert trajectory.settled(ns(0.5))
    assert trajectory.settled(ns(1))


def test_settled_once_nothing_can_come_to_help() -> None:
    trajectory = Trajectory(hold_ns=2 * S, max_gap_ns=5 * S)
    trajectory.add_imu(ns(0), imu_of(from_yaw(0)))
    assert not trajectory.settled(ns(0))
    trajectory.add_imu(ns(2.1), imu_of(from_yaw(0)))
    assert trajectory.settled(ns(0))
    assert trajectory.pose(ns(0)).position_m is None


def test_where_the_imu_was_silent_the_course_must_settle() -> None:
    trajectory = Trajectory(hold_ns=2 * S, max_gap_ns=3 * S)
    for second in (0, 20):
        trajectory.add_imu(ns(second), imu_of(from_yaw(0)))
        trajectory.add_fix(ns(second), fix_at(second * 10, 0))
    assert trajectory.settled(ns(19))
    assert not trajectory.settled(ns(17.9))
    trajectory.add_fix(ns(22.9), fix_at(229, 0))
    assert trajectory.pose(ns(17.9)).rotation_xyzw is None


def test_odometry_settles_by_itself() -> None:
    trajectory = Trajectory(odometry=True)
    trajectory.add_odometry(ns(0), odometry_of(0, 0))
    trajectory.add_fix(ns(1), fix_at(0, 0))
    assert trajectory.settled(ns(0))
    assert not trajectory.settled(ns(0.5))
    trajectory.add_odometry(ns(1), odometry_of(1, 0))
    assert trajectory.settled(ns(0.5))


EVENTS = st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from("ffffiioz")), max_size=60)


def replay(trajectory: Trajectory, now: int, index: int, kind: str) -> None:
    if kind == "f":
        trajectory.add_fix(now, fix_at(now % 977, (index * 7) % 31))
    elif kind == "i":
        trajectory.add_imu(now, imu_of(from_yaw(math.remainder(index * 0.7, 2 * math.pi))))
    elif kind == "z":
        trajectory.add_imu(now, imu_of(None))
    else:
        trajectory.add_odometry(now, odometry_of(index, 0.1))


@settings(max_examples=150, deadline=None)
@given(EVENTS, st.lists(st.integers(-1_000, 60_000), min_size=1, max_size=8), st.booleans())
def test_settled_poses_never_change_and_forgetting_does_not_show(
    events: list[tuple[int, str]],
    asked_ms: list[int],
    odometry: bool,
) -> None:
    whole = Trajectory(odometry=odometry)
    frugal = Trajectory(odometry=odometry)
    waiting = sorted(T0 + ms * 1_000_000 for ms in asked_ms)
    seen: dict[int, EgoPose] = {}
    now = T0
    for index, (step_ms, kind) in enumerate(events):
        if kind == "o" and not odometry:
            continue
        now += step_ms * 1_000_000
        replay(whole, now, index, kind)
        replay(frugal, now, index, kind)
        while waiting and frugal.settled(waiting[0]):
            assert whole.settled(waiting[0])
            seen[waiting[0]] = frugal.pose(waiting[0])
            waiting.pop(0)
        frugal.forget(waiting[0] if waiting else now)
    for time_ns, pose in seen.items():
        assert whole.pose(time_ns) == pose


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(100, 4_000), st.floats(-500, 500), st.floats(-500, 500)),
        min_size=1,
        max_size=20,
    )
)
def test_a_pose_at_a_fix_is_the_fix_and_between_two_it_is_between(
    steps: list[tuple[int, float, float]],
) -> None:
    trajectory, now, fixes = Trajectory(), T0, []
    for step_ms, east, north in steps:
        now += step_ms * 1_000_000
        fix = fix_at(east, north)
        assert trajectory.add_fix(now, fix) is None
        fixes.append((now, GeoPoint(fix.latitude_deg, fix.longitude_deg, fix.altitude_m)))
    for time_ns, point in fixes:
        pose = trajectory.pose(time_ns)
        assert (pose.location, pose.fix_time_ns) == (point, time_ns)
    for (start_ns, _), (end_ns, _) in pairwise(fixes):
        ends = [trajectory.pose(start_ns).position_m, trajectory.pose(end_ns).position_m]
        middle = trajectory.pose((start_ns + end_ns) // 2).position_m
        assert middle is not None
        assert middle == pytest.approx([(a + b) / 2 for a, b in zip(*ends, strict=True)], abs=1e-4)  # type: ignore[arg-type]


def test_a_long_drive_needs_no_more_memory_than_a_short_one() -> None:
    trajectory = Trajectory(memory_ns=10 * S)
    sizes = []
    for tick in range(40_000):
        trajectory.add_imu(ns(tick / 20), imu_of(from_yaw(0.1)))
        if tick % 5 == 0:
            trajectory.add_fix(ns(tick / 20), fix_at(tick / 10, 0))
        sizes.append(len(trajectory._imu) + len(trajectory._fixes) + len(trajectory._course.track))
    assert max(sizes[1000:]) == max(sizes[:1000]) < 320
    assert trajectory.pose(ns(1_990.01)).position_m == pytest.approx((3980.02, 0, 0), abs=3)


def test_the_recordings_fixes_are_judged_as_its_truth_says(recording: Path, truth: dict[str, Any]) -> None:
    trajectory = Trajectory()
    accepted, refused = [], Counter()
    with recording.open("rb") as stream:
        for schema, channel, message in make_reader(stream).iter_messages("/gps", log_time_order=False):
            assert schema is not None
            decoded = decode(RawMessage(channel.topic, schema.name, message.data, 0, 0, 0))
            fix = decoded.datum
            assert isinstance(fix, NavSatFix)
            reason = trajectory.add_fix(decoded.stamp_ns, fix)
            if reason is None:
                accepted.append([decoded.stamp_ns, fix.latitude_deg, fix.longitude_deg, fix.altitude_m])
            else:
                refused[reason] += 1
    assert accepted == truth["gps"]["accepted"]
    epochs = truth["gps"]["epochs"]
    assert refused == {"0,0": 2 * (epochs - len(accepted)), "duplicate epoch": len(accepted)}
    for time_ns, *place in accepted:
        assert trajectory.pose(time_ns).location == GeoPoint(*place)


def test_a_pose_says_what_it_rests_on() -> None:
    trajectory = Trajectory(hold_ns=2 * S)
    for second in (0, 3):
        trajectory.add_fix(ns(second), fix_at(second * 10, 0))
        trajectory.add_imu(ns(second), imu_of(from_yaw(0)))
    bases = {second: trajectory.pose(ns(second)) for second in (0.05, 1.5, 4.0, 6.0)}
    assert [pose.position_basis.value for pose in bases.values()] == [
        *("measured", "interpolated", "assumed", "assumed")
    ]
    assert [pose.rotation_basis for pose in bases.values()] == [p.position_basis for p in bases.values()]
    assert bases[6.0].position_m is None
