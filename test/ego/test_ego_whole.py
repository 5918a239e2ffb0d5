"""The motion of a whole drive against its truth: GPS that is lost, late, in gaps, wrong, slow or noisy."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from ego_drives import MEMS, Case, Off, S, ns, whole
from faulty import ImuErrors
from scipy.spatial.transform import Rotation

from edgefirst_ros.ego.fixes import Vehicle
from edgefirst_ros.ego.motion import Motion, Pace, solve
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import PoseBasis

TIMES = np.arange(0.0, 20.0, 0.067)


def solved(case: Case, times: np.ndarray = TIMES, vehicle: Vehicle | None = None) -> tuple[Motion, Off]:
    solution = solve(case.log(), vehicle or Vehicle(), None)
    return solution, whole(case, solution, times)


@pytest.mark.long(cases=2)
@pytest.mark.parametrize(
    ("case", "rms_m", "worst_m", "rms_deg"),
    [
        (Case(), 0.0013, 0.002, 0.02),
        (Case(gps_hz=1), 0.02, 0.05, 0.02),
        (Case(gps=lambda at: at < 8), 0.05, 0.15, 0.02),
        (Case(gps=lambda at: at > 9), 0.03, 0.1, 0.02),
        (Case(gps=lambda at: not 7 < at < 14), 0.0013, 0.003, 0.02),
        (Case(oriented=False), 0.002, 0.005, 0.1),
        (Case(oriented=False, gps=lambda at: at > 9), 0.5, 1.0, 2.0),
        (Case(imu_hz=0.0), 0.02, 0.2, 0.6),
        (Case(imu=MEMS), 0.03, 0.1, 1.0),
        (Case(imu=MEMS, gps=lambda at: at > 9), 0.8, 2.2, 1.0),
        (Case(imu=MEMS, oriented=False), 0.05, 0.2, 1.0),
        (Case(jitter_s=0.01), 0.1, 0.3, 0.2),
        (Case(stops=((0.0, 3.0),)), 0.002, 0.01, 0.02),
        (Case(stops=((0.0, 3.0),), oriented=False), 0.01, 0.03, 0.6),
        (Case(stops=((9.0, 12.0),), gps=lambda at: at < 8), 0.03, 0.1, 0.02),
    ],
    ids=lambda value: None if isinstance(value, Case) else f"{value:g}",
)
def test_the_motion_is_that_of_the_truth(case: Case, rms_m: float, worst_m: float, rms_deg: float) -> None:
    _, found = solved(case)
    known = found.between(0.0, 19.9)
    assert known.rms_m < rms_m
    assert known.place_m.max() < worst_m
    assert known.rms_deg < rms_deg


def test_five_seconds_without_fixes_cost_one_percent_of_the_way() -> None:
    way_m = 5 * 8.0
    for seed in (1, 2):
        _, found = solved(Case(seed=seed, imu=MEMS, gps=lambda at: at < 14))
        assert found.between(18.9, 19.0).place_m[-1] < 0.01 * way_m


@pytest.mark.long
@pytest.mark.parametrize("oriented", [True, False])
def test_twenty_seconds_without_fixes_turn_by_less_than_two_degrees(oriented: bool) -> None:
    case = Case(seconds=35, imu=MEMS, oriented=oriented, gps=lambda at: at < 14.9)
    _, found = solved(case, np.arange(14.9, 34.9, 0.1))
    assert found.turn_deg.max() < 2.0
    # Beyond the limits the place is unknown, and nothing stands in for it.
    assert found.poses[-1].position_basis in {PoseBasis.DEAD_RECKONED, PoseBasis.ASSUMED}


def test_without_any_fix_it_turns_as_the_gyroscope_says_and_no_place_is_known() -> None:
    case = Case(gps_hz=0, oriented=False)
    _, found = solved(case)
    world = case.world
    assert all(pose.position_m is None and pose.location is None for pose in found.poses)
    assert {pose.position_basis for pose in found.poses} == {PoseBasis.ASSUMED}
    yaws = np.array([pose.rpy_deg[2] for pose in found.poses if pose.rpy_deg is not None])
    true = np.degrees([world.rig.state(float(at)).yaw_rad for at in TIMES])
    turned, truly = (np.degrees(np.unwrap(np.radians(each))) for each in (yaws, true))
    assert len(yaws) == len(TIMES)
    assert abs((turned[-1] - turned[0]) - (truly[-1] - truly[0])) < 2.0
    assert {pose.rotation_basis for pose in found.poses[3:-3]} == {PoseBasis.DEAD_RECKONED}
    sigmas = [pose.rotation_sigma_rad for pose in found.poses]
    assert all(sigma is not None and sigma[2] > 1.0 for sigma in sigmas)


def test_what_poses_rest_on() -> None:
    _, found = solved(Case(gps=lambda at: at < 4 or 6 < at < 8 or at > 16))
    basis = {round(at, 1): found.between(at, at + 0.067).poses[0].position_basis for at in (2, 5, 7, 9, 19)}
    assert basis == {
        2: PoseBasis.MEASURED,
        5: PoseBasis.INTERPOLATED,
        7: PoseBasis.MEASURED,
        9: PoseBasis.DEAD_RECKONED,
        19: PoseBasis.MEASURED,
    }
    assert {pose.rotation_basis for pose in found.poses[1:-1]} == {PoseBasis.MEASURED}
    sigma = {at: found.between(at, at + 0.067).poses[0].position_sigma_m for at in (7, 12)}
    assert sigma[7] is not None
    assert sigma[12] is not None
    assert 0 < max(sigma[7]) < max(sigma[12]) < 1.0


def test_a_place_is_unknown_where_it_is_too_unsure() -> None:
    case = Case(imu_hz=0.0, gps=lambda at: at < 10)
    _, found = solved(case)
    ends = found.between(10.5, 10.6).poses[0], found.between(15.0, 15.1).poses[0]
    assert [pose.position_basis for pose in ends] == [PoseBasis.DEAD_RECKONED, PoseBasis.ASSUMED]
    assert ends[1].position_m is None
    assert ends[1].rotation_xyzw is None


def test_sigmas_are_honest() -> None:
    """Most of the errors lie within three of them, and they are not a hundred times too large."""
    for case in (Case(imu=MEMS, gps=lambda at: at < 8), Case(imu=MEMS, sigma_m=0.5)):
        _, found = solved(case, np.arange(0.5, 19.5, 0.5))
        sigmas = np.array([pose.position_sigma_m for pose in found.poses])
        ratio = found.place_m / np.linalg.norm(sigmas, axis=1)
        assert np.percentile(ratio, 95) < 3
        assert np.median(ratio) > 0.01


@pytest.mark.long(cases=3)
@pytest.mark.parametrize(
    ("far_m", "which", "gps_hz"),
    [
        *((12.0, which, 10.0) for which in ("first", "middle", "last")),
        *((240.0, which, 1.0) for which in ("first", "middle", "last")),
        (240.0, "last", 10.0),
        (12.0, "middle", 1.0),
    ],
)
def test_a_fix_that_cannot_be_is_refused_and_does_not_show(gps_hz: float, which: str, far_m: float) -> None:
    count = round(20 * gps_hz)
    epoch = {"first": 0, "middle": count // 2, "last": count - 1}[which]
    clean = Case(gps_hz=gps_hz)
    case = replace(clean, jumps={epoch: (0.0, far_m)})
    solution, found = solved(case)
    reasons = Counter(solution.refusals.values())
    known = found.between(0.0, 19.9)
    small = far_m < 100 and (gps_hz == 1.0 or which == "last")
    assert known.place_m.max() < (1.5 if small else 0.1)
    if not small:
        assert reasons == {Reason.OUTLYING_FIX: 1, Reason.SAME_EPOCH: count}
        assert solution.refusals[2 * epoch] == Reason.OUTLYING_FIX
        (note,) = solution.notes
        assert note.startswith("1 fix was refused for contradicting the motion, the farthest by ")


@pytest.mark.parametrize(("wrong", "refused"), [(0, 200), (1, 201)])
def test_the_epochs_second_message_stands_in_for_the_first(wrong: int, refused: int) -> None:
    solution, found = solved(Case(jumps={100: (0.0, 240.0)}, jumping=(wrong,)))
    assert solution.refusals[refused] == Reason.OUTLYING_FIX
    assert 401 - refused not in solution.refusals
    assert len(solution.fixes_ns) == 200
    assert found.rms_m < 0.0013


def test_the_origin_is_the_first_fix_that_is_believed() -> None:
    solution, _ = solved(Case(jumps={0: (0.0, 240.0)}))
    plain, _ = solved(Case())
    assert plain.origin is not None
    assert solution.origin is not None
    _, _, second = Case().fixes()[2]
    assert solution.origin.latitude_deg == second.latitude_deg
    assert plain.origin.latitude_deg == Case().fixes()[0][2].latitude_deg
    point = solution.path.at(ns(0.135))
    assert point is not None
    assert math.dist(point.position_m, (0, 0, 0)) < 0.01


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(("kind", "angle_deg"), [("mounted", -4.0), ("north", 180.0)])
def test_an_imu_that_is_turned_is_found_and_not_undone(kind: str, angle_deg: float) -> None:
    errors = (
        ImuErrors(mounting_deg=(0, 0, angle_deg))
        if kind == "mounted"
        else ImuErrors(heading_error_rad=math.radians(angle_deg))
    )
    case = Case(imu=errors, gps=lambda at: at < 12)
    solution, found = solved(case)
    # Rotations stay as they are configured; places do not suffer.
    assert np.allclose(found.turn_deg[1:-1], abs(angle_deg), atol=0.1)
    assert found.between(0.0, 17.0).place_m.max() < 0.3
    mounting = solution.mounting
    assert mounting is not None
    assert abs(math.remainder(mounting.heading_deg - angle_deg, 360)) < 0.5
    assert "topics.imu.mount.xyzw: [" in mounting.text
    assert f"{mounting.heading_deg:+.1f}°" in mounting.text
    # What it offers mends it.
    mended = solve(case.log(), Vehicle(), mounting.rig_from_imu_xyzw)
    assert mended.mounting is None
    told = case.samples()[300][1].orientation_xyzw
    assert told is not None
    rig = Rotation.from_quat(told) * Rotation.from_quat(mounting.rig_from_imu_xyzw).inv()
    yaw_deg = rig.as_euler("ZYX", degrees=True)[0]
    true_deg = math.degrees(case.world.rig.state(6.004).yaw_rad)
    assert abs(math.remainder(yaw_deg - true_deg, 360)) < 0.5


@pytest.mark.long
def test_one_that_moves_sideways_is_not_held_to_its_heading() -> None:
    """A rig whose configured axes are turned against its way, and that may: nothing pulls it round."""
    case = Case(imu=ImuErrors(mounting_deg=(0, 0, 40)), oriented=False, gps=lambda at: at < 15)
    _, found = solved(case, vehicle=Vehicle(rolls=False))
    assert found.between(0.0, 18.0).place_m.max() < 0.3
    assert np.allclose(found.between(2.0, 18.0).turn_deg, 40, atol=1.5)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(imu=MEMS, gps=lambda at: not 7 < at < 14)
    in_one = solve(case.log(), Vehicle(), None)
    short = Pace(4 * S, 6 * S, 3 * S, whole=True)
    monkeypatch.setattr("edgefirst_ros.ego.motion.WHOLE", short)
    in_many = solve(case.log(), Vehicle(), None)
    for at in TIMES[1:-1:20]:
        one, many = in_one.path.at(ns(float(at))), in_many.path.at(ns(float(at)))
        assert one is not None
        assert many is not None
        assert many.position_m == pytest.approx(one.position_m, abs=0.1)
        assert many.rotation_xyzw == pytest.approx(one.rotation_xyzw, abs=3e-3)


def test_the_same_measurements_give_the_same_motion() -> None:
    """To the last bit, whatever was estimated before."""
    case = Case(seconds=5.0, imu=MEMS, oriented=False)
    one, _, other = (solve(each.log(), Vehicle(), None) for each in (case, Case(seconds=3.0), case))
    assert [one.path.at(ns(at)) for at in TIMES[:70:7]] == [other.path.at(ns(at)) for at in TIMES[:70:7]]


def test_it_stops_when_told() -> None:
    solution = solve(Case().log(), Vehicle(), None, lambda: False)
    assert solution.path.at(ns(5.0)) is None


def test_an_orientation_of_other_axes_is_not_used() -> None:
    """One that says it is level while the forces say that it hangs upside down."""
    case = Case(imu=MEMS, oriented=True)
    log = NavigationLog()
    for time_ns, imu in case.samples():
        assert imu.orientation_xyzw is not None
        x, y, z, w = imu.orientation_xyzw
        log.add_imu(time_ns, imu._replace(orientation_xyzw=(w, -z, y, -x)))
    for fix in case.fixes():
        log.add_fix(*fix)
    found = whole(case, solve(log, Vehicle(), None), TIMES[1:-1])
    assert found.place_m.max() < 0.3
