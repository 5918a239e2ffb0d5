"""Satellite navigation fixes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgefirst.schemas import sensor_msgs

from edgefirst_ros.messages.cdr import decoder_of
from edgefirst_ros.messages.transform import LEAST_SIGMA, MOST_SIGMA


@dataclass(frozen=True, slots=True)
class NavSatFix:
    """A position fix as sent, plausible or not (sensor_msgs/NavSatFix).

    Attributes:
        latitude_deg: WGS-84, north positive.
        longitude_deg: WGS-84, east positive.
        altitude_m: above the ellipsoid.
        status: as in sensor_msgs/NavSatStatus; -1 is no fix.
        sigma_m: standard deviations east, north and up; None if unknown.
    """

    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    status: int
    sigma_m: tuple[float, float, float] | None = None


@decoder_of("sensor_msgs/NavSatFix")
def decode_navsat(message: sensor_msgs.NavSatFix) -> NavSatFix:
    """Decode a sensor_msgs/NavSatFix."""
    return NavSatFix(
        latitude_deg=float(message.latitude),
        longitude_deg=float(message.longitude),
        altitude_m=float(message.altitude),
        status=int(message.status.status),
        sigma_m=_sigma(message),
    )


def _sigma(message: sensor_msgs.NavSatFix) -> tuple[float, float, float] | None:
    """From the covariance's diagonal; None if its type is unknown, or a variance not positive or absurd."""
    east, north, up = (float(message.position_covariance[index]) for index in (0, 4, 8))
    least, most = LEAST_SIGMA**2, MOST_SIGMA**2
    if int(message.position_covariance_type) == 0 or not all(least <= v <= most for v in (east, north, up)):
        return None
    return math.sqrt(east), math.sqrt(north), math.sqrt(up)
