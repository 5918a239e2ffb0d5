from __future__ import annotations

import math

import pytest

from edgefirst_ros.ego.gate import FixJudge
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint


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
    assert FixJudge().judge(fix) == reason


@pytest.mark.parametrize(
    "fix", [NavSatFix(0, 11, 0, 0), NavSatFix(48, 0, 0, 2), NavSatFix(-90, 180, 9000, 1)]
)
def test_fixes_that_are_accepted(fix: NavSatFix) -> None:
    judged = FixJudge().judge(fix)
    assert judged == GeoPoint(fix.latitude_deg, fix.longitude_deg, fix.altitude_m)


def test_a_missing_altitude_is_the_last_known() -> None:
    judge = FixJudge()
    assert judge.judge(NavSatFix(48, 11, 520, 0)) == GeoPoint(48, 11, 520)
    assert judge.judge(NavSatFix(48.1, 11, math.nan, 0)) == GeoPoint(48.1, 11, 520)
