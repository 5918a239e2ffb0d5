"""Positions on the earth, through pymap3d, and rotations, through GTSAM: quaternions and angles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import gtsam
import numpy as np
import numpy.typing as npt
import pymap3d

from edgefirst_ros.sample import GeoPoint

Floats = npt.NDArray[np.float64]

Vector = tuple[float, float, float]

Quaternion = tuple[float, float, float, float]
"""x, y, z, w."""

STANDARD_GRAVITY_M_S2 = 9.80665
"""Used while the latitude is unknown."""

_GIMBAL = 1e-12


def rpy_deg(rotation_xyzw: Quaternion) -> tuple[float, float, float]:
    """Roll, pitch, yaw in signed degrees: the rotation is yaw about z, then pitch about y, then roll about x.

    Roll and yaw lie in -180..180, pitch in -90..90 (REP 103: nose down is positive). Where the nose points
    straight up or down, roll and yaw cannot be told apart: roll is 0.
    """
    x, y, z, w = rotation_xyzw
    sine = max(-1.0, min(1.0, 2 * (w * y - z * x)))
    roll_y, roll_x = 2 * (w * x + y * z), 1 - 2 * (x * x + y * y)
    if roll_x * roll_x + roll_y * roll_y < _GIMBAL:
        yaw = math.remainder(-math.copysign(2, sine) * math.atan2(x, w), 2 * math.pi)
        return 0.0, math.degrees(math.asin(sine)), math.degrees(yaw)
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return math.degrees(math.atan2(roll_y, roll_x)), math.degrees(math.asin(sine)), math.degrees(yaw)


def canonical(rotation_xyzw: Quaternion) -> Quaternion:
    """Of the two quaternions of a rotation, the one whose w is not negative."""
    x, y, z, w = rotation_xyzw
    return (-x, -y, -z, -w) if w < 0 else rotation_xyzw


def rot3(rotation_xyzw: Sequence[float] | Floats) -> gtsam.Rot3:
    """A quaternion, of any length but 0, as GTSAM's rotation."""
    x, y, z, w = rotation_xyzw
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return gtsam.Rot3.Quaternion(w / norm, x / norm, y / norm, z / norm)


def quaternion(rotation: gtsam.Rot3) -> Quaternion:
    """The unit quaternion of GTSAM's rotation, whose w is not negative."""
    x, y, z, w = rotation.toQuaternion().coeffs().tolist()  # type: ignore[attr-defined] # GTSAM's stubs lack it
    return canonical((x, y, z, w))


def after(outer: Quaternion, inner: Quaternion) -> Quaternion:
    """The rotation by ``inner``, then by ``outer``."""
    return quaternion(rot3(outer).compose(rot3(inner)))


def inverse(rotation_xyzw: Quaternion) -> Quaternion:
    """The inverse rotation."""
    x, y, z, w = rotation_xyzw
    return canonical((-x, -y, -z, w))


def ecef_m(point: GeoPoint) -> Vector:
    """Earth-centred, earth-fixed x, y, z in metres."""
    x, y, z = pymap3d.geodetic2ecef(point.latitude_deg, point.longitude_deg, point.altitude_m)
    return float(x), float(y), float(z)


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
