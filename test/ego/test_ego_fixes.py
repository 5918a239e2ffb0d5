from __future__ import annotations

import math
from itertools import pairwise

import gtsam
import numpy as np
import pymap3d
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.fixes import Fix, Vehicle, drivable, judged
from edgefirst_ros.ego.graph import Node
from edgefirst_ros.ego.receiver import Receiver
from edgefirst_ros.model.navigation import NavSatFix
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import GeoPoint

MS = 1_000_000
S = 1_000_000_000


@pytest.mark.parametrize(
    ("fix", "reason"),
    [
        (NavSatFix(0, 0, 0, 0), Reason.ZERO_FIX),
        (NavSatFix(-0.0, 0.0, 100, 0), Reason.ZERO_FIX),
        (NavSatFix(math.nan, 11, 0, 0), Reason.NOT_FINITE_FIX),
        (NavSatFix(48, math.inf, 0, 0), Reason.NOT_FINITE_FIX),
        (NavSatFix(48, 11, math.nan, 0), Reason.NOT_FINITE_FIX),
        (NavSatFix(48, 11, -math.inf, 0), Reason.NOT_FINITE_FIX),
        (NavSatFix(90.001, 11, 0, 0), Reason.FIX_OUT_OF_RANGE),
        (NavSatFix(48, -180.001, 0, 0), Reason.FIX_OUT_OF_RANGE),
        (NavSatFix(48, 11, 1e300, 0), Reason.FIX_OUT_OF_RANGE),
        (NavSatFix(48, 11, -20_000, 0), Reason.FIX_OUT_OF_RANGE),
        (NavSatFix(48, 11, 0, -1), Reason.NO_FIX),
        (NavSatFix(0, 0, 0, -2), Reason.NO_FIX),
        (NavSatFix(48, 11, 0, 0, (1.0, 1001.0, 1.0)), Reason.CONTRADICTORY_FIX),
        (NavSatFix(0, 0, 0, 0, (2e3, 2e3, 2e3)), Reason.CONTRADICTORY_FIX),
        (NavSatFix(48, 11, 0, -1, (2e3, 2e3, 2e3)), Reason.NO_FIX),
    ],
)
def test_fixes_that_are_refused(fix: NavSatFix, reason: str) -> None:
    assert judged(S, 3, fix, math.nan) == reason


@pytest.mark.parametrize(
    "fix",
    [
        NavSatFix(0, 11, 0, 0),
        NavSatFix(48, 0, 0, 2),
        NavSatFix(-90, 180, 9000, 1),
        NavSatFix(48, 11, 0, 0, (999.0, 0.01, 30.0)),
        NavSatFix(48, 11, 0, -2, (1.0, 1.0, 2.0)),  # the default of a driver that sets no status
    ],
)
def test_fixes_that_are_accepted(fix: NavSatFix) -> None:
    found = judged(S, 3, fix, math.nan)
    assert isinstance(found, Fix)
    assert (found.time_ns, found.arrival, found.sigma_m) == (S, 3, fix.sigma_m)
    assert found.point == GeoPoint(fix.latitude_deg, fix.longitude_deg, fix.altitude_m)
    # The ellipsoid's own formula.
    north, east = math.radians(fix.latitude_deg), math.radians(fix.longitude_deg)
    across = 6378137.0 / math.sqrt(1 - 0.00669437999014 * math.sin(north) ** 2)
    level = (across + fix.altitude_m) * math.cos(north)
    up = (across * (1 - 0.00669437999014) + fix.altitude_m) * math.sin(north)
    assert found.ecef == pytest.approx((level * math.cos(east), level * math.sin(east), up), abs=1e-3)


class Standing:
    """A receiver that has told ten places a second, and says the last one for ever; and the rig at these."""

    def __init__(self, fixes: int, speed_m_s: float = 0.0) -> None:
        self.receiver = Receiver(Vehicle(), whole=False)
        self.nodes: list[Node] = []
        for number in range(fixes):
            self.fix(speed_m_s * number / 10 + 1e-3 * (number % 2), speed_m_s)

    def fix(
        self, east_m: float, speed_m_s: float, *, rig_m: float | None = None, standing: bool = False
    ) -> None:
        number = len(self.nodes)
        place = pymap3d.enu2geodetic(east_m, 0.0, 0.0, 48.0, 11.0, 520.0)
        latitude_deg, longitude_deg, altitude_m = (float(value) for value in place)
        fix = NavSatFix(latitude_deg, longitude_deg, altitude_m, 0)
        taken = self.receiver.take(number * 100 * MS, number, fix)
        assert taken is not None
        node = Node(number, number * 100 * MS, standing=standing)
        node.pose = gtsam.Pose3(gtsam.Rot3(), np.array((east_m if rig_m is None else rig_m, 0.0, 0.0)))
        node.velocity_m_s = np.array((speed_m_s, 0.0, 0.0))
        self.receiver.add(node, taken)
        self.nodes.append(node)

    def believed(self) -> list[bool]:
        """By fix, after everything was looked at."""
        now_ns = self.nodes[-1].time_ns
        self.receiver.choose(now_ns, now_ns - 3 * S, final=True)
        self.receiver.refuse(self.nodes)
        self.receiver.tell()
        reasons = dict(self.receiver.judged())
        assert set(reasons.values()) <= {None, Reason.FROZEN_FIX}
        return [reasons[number] is None for number in range(len(self.nodes))]


def test_noise_is_learnt_from_what_the_window_has_lost_too() -> None:
    """Ten fixes alone would tell it to a third."""
    rng, receiver, learnt_m = np.random.default_rng(1), Receiver(Vehicle(), whole=True), list[float]()
    nodes: list[Node] = []
    for number, (east_m, north_m, up_m) in enumerate(rng.normal(0, (1.5, 1.5, 3.0), (200, 3)).tolist()):
        place = pymap3d.enu2geodetic(east_m, north_m, up_m, 48.0, 11.0, 520.0)
        latitude_deg, longitude_deg, altitude_m = (float(value) for value in place)
        taken = receiver.take(number * S, number, NavSatFix(latitude_deg, longitude_deg, altitude_m, 0))
        assert taken is not None
        nodes = [*nodes[-11:], Node(number, number * S)]
        receiver.add(nodes[-1], taken)
        receiver.choose(number * S, (number - 3) * S, final=number == 0)
        receiver.learn(nodes)
        receiver.drop((number - 10) * S)
        learnt_m.append(float(receiver.white_m[False][2]))
    assert max(learnt_m[80:]) < 1.35 * 3.0
    assert min(learnt_m[80:]) > 3.0 / 1.35


class TestDeclared:
    def told(self, declared_m: float, white_m: float) -> float:
        """The white noise that fixes get which declare one deviation and have another."""
        rng, receiver, nodes = np.random.default_rng(0), Receiver(Vehicle(), whole=True), list[Node]()
        for number, (east_m, north_m, up_m) in enumerate(rng.normal(0, white_m, (200, 3)).tolist()):
            place = pymap3d.enu2geodetic(east_m, north_m, up_m, 48.0, 11.0, 520.0)
            latitude_deg, longitude_deg, altitude_m = (float(value) for value in place)
            fix = NavSatFix(latitude_deg, longitude_deg, altitude_m, 0, (declared_m,) * 3)
            taken = receiver.take(number * 100 * MS, number, fix)
            assert taken is not None
            nodes.append(Node(number, number * 100 * MS))
            receiver.add(nodes[-1], taken)
        receiver.choose(nodes[-1].time_ns, 0, final=True)
        receiver.learn(nodes)
        assert nodes[100].place is not None
        return float(nodes[100].place.white_m[0])

    def test_who_scatters_more_than_he_says_is_believed_less(self) -> None:
        assert self.told(0.02, 1.5) == pytest.approx(1.5, rel=0.25)


class TestFrozen:
    def test_a_parked_rig_repeats_its_place(self) -> None:
        parked = Standing(1)
        for _ in range(50):
            parked.fix(0.0, 0.05)
        assert all(parked.believed())

    @pytest.mark.parametrize("speed_m_s", [1.5, 20.0])
    def test_a_moving_rig_does_not_repeat_its_place(self, speed_m_s: float) -> None:
        moving = Standing(30, speed_m_s)
        for number in range(20):
            moving.fix(speed_m_s * 2.9 + 1e-3, speed_m_s, rig_m=speed_m_s * (2.9 + number / 10))
        assert moving.believed() == [True] * 30 + [False] * 20


@given(st.lists(st.tuples(st.integers(80, 3_000), st.booleans()), min_size=1, max_size=40))
def test_what_no_vehicle_drives_through_is_left_out(fixes: list[tuple[int, bool]]) -> None:
    times, places, at = [], [], 0
    for step_ms, wrong in fixes:
        at += step_ms * MS
        times.append(at)
        places.append((at / 1e9 * 20.0, 1e6 if wrong else 0.0, 0.0))
    chosen = drivable(times, np.array(places))
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
