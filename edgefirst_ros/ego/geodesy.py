"""WGS-84 positions, earth-centred and local, through pymap3d."""

from __future__ import annotations

import math

import pymap3d

from edgefirst_ros.sample import GeoPoint

Vector = tuple[float, float, float]

STANDARD_GRAVITY_M_S2 = 9.80665
"""Used while the latitude is unknown."""


def ecef_m(point: GeoPoint) -> Vector:
    """Earth-centred, earth-fixed x, y, z in metres."""
    x, y, z = pymap3d.geodetic2ecef(point.latitude_deg, point.longitude_deg, point.altitude_m)
    return float(x), float(y), float(z)


def from_ecef(position_m: Vector) -> GeoPoint:
    """The position at earth-centred coordinates."""
    latitude, longitude, altitude = pymap3d.ecef2geodetic(*position_m)
    return GeoPoint(float(latitude), float(longitude), float(altitude))


def enu_m(point: GeoPoint, origin: GeoPoint) -> Vector:
    """East, north, up in metres from the origin, on the plane that touches the ellipsoid there."""
    east, north, up = pymap3d.geodetic2enu(
        point.latitude_deg,
        point.longitude_deg,
        point.altitude_m,
        origin.latitude_deg,
        origin.longitude_deg,
        origin.altitude_m,
    )
    return float(east), float(north), float(up)


def from_enu(position_m: Vector, origin: GeoPoint) -> GeoPoint:
    """The position at east, north, up metres from the origin."""
    latitude, longitude, altitude = pymap3d.enu2geodetic(
        *position_m, origin.latitude_deg, origin.longitude_deg, origin.altitude_m
    )
    return GeoPoint(float(latitude), float(longitude), float(altitude))


def gravity_m_s2(point: GeoPoint) -> float:
    """Normal gravity of WGS-84 (Somigliana's formula, less with height)."""
    squared = math.sin(math.radians(point.latitude_deg)) ** 2
    at_sea = 9.7803253359 * (1 + 0.00193185265241 * squared) / math.sqrt(1 - 0.00669437999014 * squared)
    return at_sea - 3.086e-6 * point.altitude_m
