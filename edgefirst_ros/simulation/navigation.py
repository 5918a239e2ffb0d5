"""IMU and GPS measurements of the rig's motion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pymap3d

from edgefirst_ros.model.transform import matrix_of, product, quaternion_of_angles
from edgefirst_ros.simulation.world import BodyState, FloatArray, World, transform

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

GRAVITY_M_S2 = 9.80665


@dataclass(frozen=True, slots=True)
class ImuReading:
    """What an IMU measures: x y z w of the sensor in the world, rad/s and m/s² in its axes, and variances.

    Variances are per axis (rad², rad²/s², m²/s⁴); None if the message declares none.
    """

    orientation_xyzw: Quaternion
    angular_rate_rad_s: Vector
    specific_force_m_s2: Vector
    variances: tuple[float | None, float | None, float | None] = (None, None, None)


def specific_force(state: BodyState, acceleration_m_s2: FloatArray | None = None) -> Vector:
    """Specific force, m/s² in the body's axes, of what accelerates so; by default the body's origin."""
    acceleration = state.acceleration_m_s2 if acceleration_m_s2 is None else acceleration_m_s2
    return _vector((acceleration + np.array([0, 0, GRAVITY_M_S2])) @ state.rotation())


def imu_reading(
    state: BodyState, mounting_deg: Vector = (0.0, 0.0, 0.0), acceleration_m_s2: FloatArray | None = None
) -> ImuReading:
    """The reading of an IMU mounted so; by default it accelerates as the rig's origin does."""
    turning, forced = state.turning_rad_s(), specific_force(state, acceleration_m_s2)
    if not any(mounting_deg):
        return ImuReading(state.quaternion_xyzw(), turning, forced)
    mounted = quaternion_of_angles(np.radians(mounting_deg))
    R_imu_rig = matrix_of(mounted).T
    x, y, z, w = product(quaternion_of_angles((*state.tilt_rad, state.yaw_rad)), mounted).tolist()
    return ImuReading((x, y, z, w), _vector(R_imu_rig @ turning), _vector(R_imu_rig @ forced))


def antenna_m(world: World, time_s: float, at_m: Vector = (0.0, 0.0, 0.0)) -> FloatArray:
    """Where an antenna at a place in base_link is in the world."""
    state = world.rig.state(time_s)
    return transform(state.matrix(), np.array(at_m)) if any(at_m) else state.position_m


def fix(world: World, position_m: FloatArray) -> Vector:
    """Latitude, longitude (degrees) and ellipsoidal height (m) of a position in the world."""
    origin = (world.latitude_deg, world.longitude_deg, world.altitude_m)
    latitude, longitude, altitude = pymap3d.enu2geodetic(*position_m.tolist(), *origin)
    return float(latitude), float(longitude), float(altitude)


def _vector(values: FloatArray) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z
