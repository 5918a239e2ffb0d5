"""Satellite navigation fixes."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst.schemas import sensor_msgs

from edgefirst_ros.messages.cdr import Stamped, decode_as


@dataclass(frozen=True, slots=True)
class NavSatFix:
    """A position fix as sent, not yet judged (sensor_msgs/NavSatFix).

    Degrees and metres above the WGS-84 ellipsoid; ``status`` as in NavSatStatus (-1 is no fix).
    """

    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    status: int


def decode_navsat(data: bytes, definition: str = "") -> Stamped[NavSatFix]:
    """Decode a sensor_msgs/NavSatFix.

    Raises:
        DecodeError: the bytes are no such message.
    """
    return decode_as("sensor_msgs/NavSatFix", data, definition, _fix)


def _fix(message: sensor_msgs.NavSatFix) -> NavSatFix:
    return NavSatFix(
        latitude_deg=float(message.latitude),
        longitude_deg=float(message.longitude),
        altitude_m=float(message.altitude),
        status=int(message.status.status),
    )
