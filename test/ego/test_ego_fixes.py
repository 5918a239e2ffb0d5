from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pymap3d
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.fixes import Fix, FixJudge, drivable
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint

MS = 1_000_000
S = 1_000_000_000
PLACE = NavSatFix(48.0, 11.0, 520.0, 0)
REST = np.array((0.0, 0.0, 9.81))


@pytest.mark.parametrize(
    ("fix", "reason"),
    [
        (NavSatFix(0, 0, 0, 0), "0,0"),
        (NavSatFix(-0.0, 0.0, 100, 0), "0,0"),
        (NavSatFix(math.nan, 11, 0, 0), "not finite"),
        (NavSatFix(48, math.inf, 0, 0), "not finite"),
        (NavSatFix(48, 11, math.nan, 0), "not finite"),
        (NavSatFix(48, 11, -math.inf, 0), "not finite"),
        (NavSatFix(90.001, 11, 0, 0), "out of range"),
        (NavSatFix(48, -180.001, 0, 0), "out of range"),
        (NavSatFix(48, 11, 1e300, 0), "out of range"),
        (NavSatFix(48, 11, -20_000, 0), "out of range"),
        (NavSatFix(48, 11, 0, -1), "no fix (status)"),
        (NavSatFix(0, 0, 0, -2), "no fix (status)"),
        (NavSatFix(48, 11, 0, 0, (1.0, 1001.0, 1.0)), "a fix by its status, none by its covariance"),
        (NavSatFix(0, 0, 0, 0, (2e3, 2e3, 2e3)), "a fix by its status, none by its covariance"),
        (NavSatFix(48, 11, 0, -1, (2e3, 2e3, 2e3)), "no fix (status)"),
    ],
)
def test_fixes_that_are_refused(fix: NavSatFix, reason: str) -> None:
    assert FixJudge().judge(S, 3, fix) == reason


@pytest.mark.parametrize(
    "fix",
    [
        NavSatFix(0, 11, 0, 0),
        NavSatFix(48, 0, 0, 2),
        NavSatFix(-90, 180, 9000, 1),
        NavSatFix(48, 11, 0, 0, (999.0, 0.01, 30.0)),
    ],
)
def test_fixes_that_are_accepted(fix: NavSatFix) -> None:
    found = FixJudge().judge(S, 3, fix)
    assert isinstance(found, Fix)
    assert (found.time_ns, found.arrival, found.sigma_m) == (S, 3, fix.sigma_m)
    assert found.point == GeoPoint(fix.latitude_deg, fix.longitude_deg, fix.altitude_m)
    # The ellipsoid's own formula.
    north, east = math.radians(fix.latitude_deg), math.radians(fix.longitude_deg)
    across = 6378137.0 / math.sqrt(1 - 0.00669437999014 * math.sin(north) ** 2)
    level = (across + fix.altitude_m) * math.cos(north)
    up = (across * (1 - 0.00669437999014) + fix.altitude_m) * math.sin(north)
    assert found.ecef == pytest.approx((level * math.cos(east), level * math.sin(east), up), abs=1e-3)


def test_a_missing_altitude_is_the_last_known() -> None:
    judge = FixJudge()
    known = judge.judge(S, 0, NavSatFix(48, 11, 520, 0))
    refused = judge.judge(2 * S, 1, NavSatFix(48, 11, 1e300, 0))
    unknown = judge.judge(3 * S, 2, NavSatFix(48.1, 11, math.nan, 0))
    assert isinstance(known, Fix)
    assert refused == "out of range"
    assert isinstance(unknown, Fix)
    assert unknown.point == GeoPoint(48.1, 11, 520)


class Receiver:
    """Ten fixes a second by a judge, and what the rig feels between them."""

    def __init__(self) -> None:
        self.judge = FixJudge()
        self.epoch = 0

    def fix(self, east_m: float = 0.0, *, speed_m_s: float = math.nan, north_m: float = 0.0) -> bool:
        """Whether the next fix is frozen."""
        place = pymap3d.enu2geodetic(east_m, north_m, 0.0, 48.0, 11.0, 520.0)
        latitude_deg, longitude_deg, altitude_m = (float(value) for value in place)
        self.epoch += 1
        judged = self.judge.judge(
            self.epoch * 100 * MS, self.epoch, NavSatFix(latitude_deg, longitude_deg, altitude_m, 0)
        )
        assert isinstance(judged, Fix)
        return self.judge.freezes(judged, speed_m_s=speed_m_s)

    def feel(
        self, seconds: float, *, yaw_rad_s: float = 0.0, push_m_s2: float = 0.0, along: int = 0
    ) -> Receiver:
        """Steps of 50 ms."""
        for _ in range(round(seconds / 0.05)):
            force = REST.copy()
            force[along] += push_m_s2
            self.judge.felt(0.05, np.array((0.0, 0.0, yaw_rad_s * 0.05)), force)
        return self


class TestFrozen:
    def test_a_parked_rig_repeats_its_place(self) -> None:
        receiver = Receiver()
        assert not any(receiver.feel(0.1).fix(speed_m_s=0.0) for _ in range(100))

    def test_a_new_place_is_not_frozen_however_the_rig_moves(self) -> None:
        receiver = Receiver()
        found = [
            receiver.feel(0.1, yaw_rad_s=1.0, push_m_s2=5.0).fix(0.8 * n, speed_m_s=8.0) for n in range(100)
        ]
        assert not any(found)

    def test_while_the_rig_turns(self) -> None:
        receiver = Receiver()
        receiver.fix()
        assert not receiver.feel(1.0, yaw_rad_s=math.radians(1.9)).fix()
        assert receiver.feel(0.1, yaw_rad_s=math.radians(1.9)).fix()

    @pytest.mark.parametrize("along", [0, 1])
    def test_while_the_rig_is_pushed(self, along: int) -> None:
        receiver = Receiver()
        receiver.feel(0.1).fix()
        receiver.feel(0.2)
        assert not receiver.feel(0.45, push_m_s2=1.0, along=along).fix()
        assert receiver.feel(0.15, push_m_s2=1.0, along=along).fix()

    def test_a_slope_or_a_slight_push_is_none(self) -> None:
        receiver = Receiver()
        receiver.fix()
        # Leaning on a hill, which is there from the beginning.
        assert not receiver.feel(5.0, push_m_s2=1.7).fix()
        receiver = Receiver()
        receiver.fix()
        receiver.feel(0.1)
        assert not receiver.feel(5.0, push_m_s2=0.35).fix()

    def test_a_door_that_slams_does_not_move_the_rig(self) -> None:
        receiver = Receiver()
        receiver.fix()
        receiver.feel(1.0)
        for _ in range(5):
            receiver.feel(0.25, push_m_s2=4.0).feel(0.3)
            receiver.feel(0.1, yaw_rad_s=0.1).feel(0.1, yaw_rad_s=-0.1)
            assert not receiver.fix()

    def test_by_the_speed_of_the_wheels(self) -> None:
        receiver = Receiver()
        receiver.fix(speed_m_s=8.0)
        assert not receiver.fix(speed_m_s=math.nan)
        assert not receiver.fix(speed_m_s=0.5)
        assert receiver.fix(speed_m_s=1.5)

    @pytest.mark.parametrize(("speed_m_s", "frozen"), [(0.0, False), (0.5, False), (3.0, True), (20.0, True)])
    def test_after_new_fixes_that_moved(self, speed_m_s: float, frozen: bool) -> None:
        receiver = Receiver()
        for n in range(50):
            receiver.fix(speed_m_s * n / 10 + 1e-4 * (n % 2))
        assert receiver.fix(speed_m_s * 49 / 10 + 1e-4) == frozen

    def test_noise_of_a_parked_rigs_fixes_is_no_speed(self) -> None:
        for seed in range(20):
            noise = np.random.default_rng(seed).normal(0, 2.0, (30, 2)).tolist()
            receiver = Receiver()
            for east, north in noise:
                receiver.fix(east, north_m=north)
            east, north = noise[-1]
            assert not receiver.fix(east, north_m=north)

    def test_speed_of_long_ago_is_forgotten(self) -> None:
        receiver = Receiver()
        for n in range(30):
            receiver.fix(2.0 * n)
        for n in range(40):
            receiver.fix(60.0 + 1e-4 * n)
        assert not receiver.fix(60.0 + 39e-4)

    def test_it_stays_frozen_until_the_place_changes(self) -> None:
        receiver = Receiver()
        receiver.fix()
        assert receiver.feel(1.0, yaw_rad_s=0.3).fix()
        # Turned back, and still again: what was not told was not told.
        assert receiver.feel(1.0, yaw_rad_s=-0.3).fix()
        assert all(receiver.feel(0.1).fix() for _ in range(50))
        assert not receiver.fix(1.0)
        assert not receiver.fix(1.0)
        pushed = Receiver()
        pushed.fix()
        assert pushed.feel(0.1).feel(1.0, push_m_s2=1.0).feel(2.0).fix()
        wheels = Receiver()
        wheels.fix()
        assert [wheels.fix(speed_m_s=v) for v in (0.0, 2.0, 0.0)] == [False, True, True]


@given(st.lists(st.tuples(st.integers(80, 3_000), st.booleans()), min_size=1, max_size=40))
def test_what_no_vehicle_drives_through_is_left_out(fixes: list[tuple[int, bool]]) -> None:
    times, places, at = [], [], 0
    for step_ms, wrong in fixes:
        at += step_ms * MS
        times.append(at)
        places.append((at / 1e9 * 20.0, 1e6 if wrong else 0.0, 0.0))
    # No such drive is long enough for a gap that has to be bridged.
    chosen = drivable(times, np.array(places), 200 * S)
    kept = [wrong for (_, wrong), is_chosen in zip(fixes, chosen, strict=True) if is_chosen]
    # One side or the other, whichever has more; never a mixture.
    assert len(set(kept)) == 1
    assert len(kept) == max(sum(w for _, w in fixes), sum(not w for _, w in fixes))


@given(st.lists(st.tuples(st.integers(20, 300), st.integers(-40, 40)), min_size=1, max_size=10))
def test_the_chain_is_the_longest_of_all(fixes: list[tuple[int, int]]) -> None:
    """Against the plain recursion over all pairs."""
    times = np.cumsum([step for step, _ in fixes])
    places = np.array([(float(x), 0.0, 0.0) for _, x in fixes])

    def may_follow(one: int, other: int) -> bool:
        apart_s = (times[other] - times[one]) / 1e3
        return bool(apart_s >= 0.075 and abs(places[other, 0] - places[one, 0]) <= 8.0 + 100.0 * apart_s)

    best = [1] * len(fixes)
    for other in range(len(fixes)):
        best[other] = max([1, *(best[one] + 1 for one in range(other) if may_follow(one, other))])
    chosen = np.flatnonzero(drivable((times * MS).tolist(), places)).tolist()
    assert len(chosen) == max(best)
    assert all(may_follow(one, other) for one, other in pairwise(chosen))


def test_of_one_epoch_one_is_chosen() -> None:
    times = [0, S, S, 2 * S]
    places = np.array([(0.0, 0, 0), (300.0, 0, 0), (8.0, 0, 0), (16.0, 0, 0)])
    assert drivable(times, places) == [True, False, True, True]


def test_a_gap_may_be_crossed_and_no_fix_is_no_chain() -> None:
    times = [0, S, 60 * S]
    assert drivable(times, np.array([(0.0, 0, 0), (5.0, 0, 0), (1500.0, 0, 0)])) == [True] * 3
    assert drivable([], np.empty((0, 3))) == []


def test_a_long_tunnel_does_not_end_the_chain_nor_does_a_wrong_end() -> None:
    times = [n * S for n in (*range(30), *range(90, 120))]
    places = np.array([(20.0 * at / S, 0.0, 0.0) for at in times])
    assert all(drivable(times, places))
    places[20:25, 1] = 5000.0
    assert [index for index, kept in enumerate(drivable(times, places)) if not kept] == [*range(20, 25)]
