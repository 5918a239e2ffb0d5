"""Positions on the earth, through pymap3d, and rotations: quaternions, matrices, vectors, angles."""

from __future__ import annotations

import math
from operator import add, mul

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
_PARALLEL_RAD = 1e-8
"""Below this angle sine and angle are equal to the last bit."""


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


def slerp(start: Quaternion, end: Quaternion, fraction: float) -> Quaternion:
    """The rotation at a fraction (0..1) of the shortest way between two (Shoemake).

    Plain numbers, because every pose needs it: with arrays it took a fifth of a conversion.
    """
    a, b = _unit(start), _unit(end)
    if sum(map(mul, a, b)) < 0:
        b = (-b[0], -b[1], -b[2], -b[3])
    # Unlike the arc cosine of the product this is exact for small angles, too.
    angle = 2 * math.atan2(math.dist(a, b), math.hypot(*map(add, a, b)))
    if angle < _PARALLEL_RAD:
        one, other = 1 - fraction, fraction
    else:
        one, other = (math.sin(part * angle) / math.sin(angle) for part in (1 - fraction, fraction))
    x, y, z, w = (one * p + other * q for p, q in zip(a, b, strict=True))
    return canonical(_unit((x, y, z, w)))


def _unit(rotation_xyzw: Quaternion) -> Quaternion:
    x, y, z, w = rotation_xyzw
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return x / norm, y / norm, z / norm, w / norm


def after(outer: Quaternion, inner: Quaternion) -> Quaternion:
    """The rotation by ``inner``, then by ``outer``."""
    # Takes a fifth of the time that a command takes to start, and few mountings are configured.
    from scipy.spatial.transform import Rotation  # noqa: PLC0415

    x, y, z, w = (Rotation.from_quat(outer) * Rotation.from_quat(inner)).as_quat().tolist()
    return canonical((x, y, z, w))


def inverse(rotation_xyzw: Quaternion) -> Quaternion:
    """The inverse rotation."""
    x, y, z, w = rotation_xyzw
    return canonical((-x, -y, -z, w))


def matrix(rotation_xyzw: Quaternion) -> Floats:
    """The rotation matrix (3, 3) of a unit quaternion."""
    x, y, z, w = rotation_xyzw
    return np.array(
        (
            (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
            (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
            (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
        )
    )


def quaternion(rotation: Floats) -> Quaternion:
    """The unit quaternion of a rotation matrix (3, 3), by its largest component (Shepperd)."""
    ((a, b, c), (d, e, f), (g, h, i)) = rotation.tolist()
    trace = a + e + i
    if trace > 0:
        root = math.sqrt(1 + trace)
        x, y, z, w = (h - f) / root, (c - g) / root, (d - b) / root, root
    elif a >= e and a >= i:
        root = math.sqrt(1 + a - e - i)
        x, y, z, w = root, (b + d) / root, (c + g) / root, (h - f) / root
    elif e >= i:
        root = math.sqrt(1 + e - a - i)
        x, y, z, w = (b + d) / root, root, (f + h) / root, (c - g) / root
    else:
        root = math.sqrt(1 + i - a - e)
        x, y, z, w = (c + g) / root, (f + h) / root, root, (d - b) / root
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return canonical((x / norm, y / norm, z / norm, w / norm))


def exponential(vector: Floats) -> Floats:
    """The rotation matrix (3, 3) by a rotation vector in radians (Rodrigues)."""
    x, y, z = vector.tolist()
    squared = x * x + y * y + z * z
    angle = math.sqrt(squared)
    if angle < 1e-4:
        a, b = 1 - squared / 6, 0.5 - squared / 24
    else:
        a, b = math.sin(angle) / angle, (1 - math.cos(angle)) / squared
    return np.array(
        (
            (1 - b * (y * y + z * z), b * x * y - a * z, b * x * z + a * y),
            (b * x * y + a * z, 1 - b * (x * x + z * z), b * y * z - a * x),
            (b * x * z - a * y, b * y * z + a * x, 1 - b * (x * x + y * y)),
        )
    )


def logarithm(rotation: Floats) -> Floats:
    """The rotation vector (3,) in radians of a rotation matrix, no longer than π."""
    x, y, z, w = quaternion(rotation)
    sine = math.sqrt(x * x + y * y + z * z)
    scale = 2.0 if sine < 1e-12 else 2 * math.atan2(sine, w) / sine
    return np.array((x * scale, y * scale, z * scale))


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
