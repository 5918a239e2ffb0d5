"""Which satellite fixes can be meant at all, before anything is known of the motion."""

from __future__ import annotations

import math

from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.sample import GeoPoint

EPOCH_NS = 75_000_000
"""A fix that follows an accepted one by less is of the same epoch.

Receivers send an epoch twice, about 40 ms apart. Epochs of 10 Hz and less are at least 100 ms apart, so
times tell them apart with room for jitter on both sides; positions do not, because a parked car has the
same one at every epoch. A receiver faster than 13 Hz is thinned.
"""
SAME_M = 10.0
"""Two messages of one epoch that lie further apart contradict each other."""

NO_FIX = "no fix (status)"
NOT_FINITE = "not finite"
ZERO = "0,0"
OUT_OF_RANGE = "out of range"
DUPLICATE = "duplicate epoch"
OUTLIER = "off the motion (outlier)"

_LOWEST_M, _HIGHEST_M = -12_000.0, 100_000.0


class FixJudge:
    """Tells positions from what is none; remembers the altitude of the last that was believed."""

    def __init__(self) -> None:
        self._altitude_m = math.nan

    def judge(self, fix: NavSatFix) -> GeoPoint | str:
        """The position of a fix that may be meant, else why it cannot.

        A fix without an altitude, which drivers send as NaN, keeps the last one's; the first fix needs its
        own.
        """
        altitude_m = self._altitude_m if math.isnan(fix.altitude_m) else fix.altitude_m
        if fix.status < 0:
            return NO_FIX
        if not all(map(math.isfinite, (fix.latitude_deg, fix.longitude_deg, altitude_m))):
            return NOT_FINITE
        if fix.latitude_deg == fix.longitude_deg == 0:
            return ZERO
        if (
            abs(fix.latitude_deg) > 90
            or abs(fix.longitude_deg) > 180
            or not _LOWEST_M <= altitude_m <= _HIGHEST_M
        ):
            return OUT_OF_RANGE
        self._altitude_m = altitude_m
        return GeoPoint(fix.latitude_deg, fix.longitude_deg, altitude_m)
