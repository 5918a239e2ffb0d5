from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.fixes import EPOCH_NS, FixJudge
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint

MS = 1_000_000
PARKED = NavSatFix(48.1, 11.5, 520.0, 0)


def verdicts(fixes: list[tuple[int, NavSatFix]]) -> list[str]:
    judge = FixJudge()
    found = (judge.judge(time_ns, fix) for time_ns, fix in fixes)
    return [one if isinstance(one, str) else "ok" for one in found]


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
    ],
)
def test_fixes_that_are_refused(fix: NavSatFix, reason: str) -> None:
    assert verdicts([(0, fix), (10, PARKED)]) == [reason, "ok"]


@pytest.mark.parametrize(
    "fix", [NavSatFix(0, 11, 0, 0), NavSatFix(48, 0, 0, 2), NavSatFix(-90, 180, 9000, 1)]
)
def test_fixes_that_are_accepted(fix: NavSatFix) -> None:
    judged = FixJudge().judge(0, fix)
    assert judged == GeoPoint(fix.latitude_deg, fix.longitude_deg, fix.altitude_m)


@pytest.mark.parametrize("rate_hz", [1, 2.5, 5, 10])
@pytest.mark.parametrize("repeats", [1, 2])
def test_a_parked_car_has_an_epoch_for_every_period(rate_hz: float, repeats: int) -> None:
    period_ms = 1000 / rate_hz
    epochs = [round((epoch * period_ms + 7 * (-1) ** epoch) * MS) for epoch in range(30)]
    fixes = [(time_ns + repeat * 40 * MS, PARKED) for time_ns in epochs for repeat in range(repeats)]
    assert verdicts(fixes) == (["ok", "duplicate epoch"][:repeats]) * 30


def test_a_moving_car_is_no_different() -> None:
    moved = NavSatFix(48.2, 11.5, 520.0, 0)
    assert verdicts([(0, PARKED), (40 * MS, moved), (100 * MS, moved)]) == ["ok", "duplicate epoch", "ok"]


def test_a_refused_fix_does_not_take_the_epoch() -> None:
    assert verdicts([(0, NavSatFix(0, 0, 0, 0)), (40 * MS, PARKED), (80 * MS, PARKED)]) == [
        "0,0",
        "ok",
        "duplicate epoch",
    ]


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=60))
def test_accepted_fixes_are_an_epoch_apart_and_none_is_lost(times_ms: list[int]) -> None:
    times = [time * MS for time in times_ms]
    accepted = []
    for time_ns, verdict in zip(times, verdicts([(time_ns, PARKED) for time_ns in times]), strict=True):
        if verdict == "ok":
            assert not accepted or time_ns - accepted[-1] >= EPOCH_NS
            accepted.append(time_ns)
        else:
            assert time_ns - accepted[-1] < EPOCH_NS


def test_a_missing_altitude_is_the_last_known() -> None:
    judge = FixJudge()
    assert judge.judge(0, NavSatFix(48, 11, 520, 0)) == GeoPoint(48, 11, 520)
    assert judge.judge(10**9, NavSatFix(48.1, 11, math.nan, 0)) == GeoPoint(48.1, 11, 520)
