"""Satellite navigation fixes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NavSatFix:
    """A position fix as sent, not yet judged (sensor_msgs/NavSatFix).

    Degrees and metres above the WGS-84 ellipsoid; ``status`` as in NavSatStatus (-1 is no fix).
    """

    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    status: int
