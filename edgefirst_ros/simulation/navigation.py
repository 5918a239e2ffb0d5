"""IMU and GPS measurements of the rig's motion, with the configured errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pymap3d

from edgefirst_ros.model.transform import matrix_of, product, quaternion_of_angles, quaternion_of_vector
from edgefirst_ros.simulation.options import GpsErrors, ImuErrors
from edgefirst_ros.simulation.world import BodyState, FloatArray, World, transform

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

GRAVITY_M_S2 = 9.80665
NOT_ORIENTED: dict[str, Quaternion] = {"identity": (0.0, 0.0, 0.0, 1.0), "zero": (0.0, 0.0, 0.0, 0.0)}


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
    state: BodyState, errors: ImuErrors, rng: np.random.Generator, acceleration_m_s2: FloatArray | None = None
) -> ImuReading:
    """The reading of an IMU, with errors and mounting; by default it accelerates as the rig's origin does."""
    turning, forced = state.turning_rad_s(), specific_force(state, acceleration_m_s2)
    if errors == ImuErrors():
        return ImuReading(state.quaternion_xyzw(), turning, forced)
    roll, pitch, yaw = errors.mounting_deg
    mounted = quaternion_of_angles(np.radians((roll, pitch, yaw)))
    R_rig_imu = matrix_of(mounted)
    noise = rng.normal(size=(3, 3))
    rate = R_rig_imu.T @ turning + errors.gyroscope_bias_rad_s
    rate += errors.gyroscope_sigma_rad_s * noise[0]
    force = R_rig_imu.T @ forced + errors.accelerometer_bias_m_s2
    force += errors.accelerometer_sigma_m_s2 * noise[1]
    error = quaternion_of_vector(errors.orientation_sigma_rad * noise[2])
    heading = quaternion_of_angles((*state.tilt_rad, state.yaw_rad + errors.heading_error_rad))
    x, y, z, w = product(product(heading, mounted), error).tolist()
    sigmas = (errors.orientation_sigma_rad, errors.gyroscope_sigma_rad_s, errors.accelerometer_sigma_m_s2)
    said = tuple(sigma**2 if errors.said_covariance else None for sigma in sigmas)
    return ImuReading(
        NOT_ORIENTED.get(errors.orientation, (x, y, z, w)),
        _vector(rate),
        _vector(force),
        (None if errors.orientation in NOT_ORIENTED else said[0], said[1], said[2]),
    )


@dataclass(frozen=True, slots=True)
class Fixes:
    """The two messages of every epoch: latitude, longitude (degrees) and ellipsoidal height (m).

    Attributes:
        true: (epochs, 3); zeros while there is no fix.
        sent: (epochs, 2, 3), by message of the epoch.
        outlier: (epochs, 2), True for messages that are outliers.
    """

    true: FloatArray
    sent: FloatArray
    outlier: npt.NDArray[np.bool_]


def fixes(
    world: World,
    times_s: FloatArray,
    no_fix: int,
    errors: GpsErrors,
    rng: np.random.Generator,
    *,
    antenna_m: Vector = (0.0, 0.0, 0.0),
) -> Fixes:
    """The fixes of all epochs, of an antenna in base_link; the first ``no_fix`` are 0, 0."""
    count = len(times_s)
    error_m, jump_m = _noise(times_s, errors, rng), np.zeros((count, 3))
    for epoch in np.flatnonzero(rng.random(count) < errors.outlier_share).tolist():
        course = rng.uniform(-math.pi, math.pi)
        jump_m[epoch, :2] = errors.outlier_m * np.array([math.cos(course), math.sin(course)])
    for time_s, east_m, north_m in errors.jumps if count else ():
        jump_m[np.argmin(np.abs(times_s - time_s))] = east_m, north_m, 0.0
    with_jump = np.array([errors.outlier_messages in ("both", which) for which in ("first", "second")])
    true, sent = np.zeros((count, 3)), np.zeros((count, 2, 3))
    for epoch in range(no_fix, count):
        state = world.rig.state(float(times_s[epoch]))
        position = transform(state.matrix(), np.array(antenna_m)) if any(antenna_m) else state.position_m
        true[epoch] = fix(world, position)
        for message in range(2):
            sent[epoch, message] = fix(world, position + error_m[epoch] + jump_m[epoch] * with_jump[message])
    outlier: npt.NDArray[np.bool_] = (jump_m != 0).any(axis=1, keepdims=True) & with_jump
    outlier[:no_fix] = False
    return Fixes(true, sent, outlier)


def fix(world: World, position_m: FloatArray) -> Vector:
    """Latitude, longitude (degrees) and ellipsoidal height (m) of a position in the world."""
    origin = (world.latitude_deg, world.longitude_deg, world.altitude_m)
    latitude, longitude, altitude = pymap3d.enu2geodetic(*position_m.tolist(), *origin)
    return float(latitude), float(longitude), float(altitude)


def _noise(times_s: FloatArray, errors: GpsErrors, rng: np.random.Generator) -> FloatArray:
    """White noise and a first-order Gauss-Markov drift, (N, 3) metres east, north, up."""
    horizontal_m, vertical_m = errors.sigma_m
    noise = rng.normal(size=(len(times_s), 3)) * [horizontal_m, horizontal_m, vertical_m]
    steps = rng.normal(size=(len(times_s), 3)) * errors.drift_m
    drift = np.zeros_like(steps)
    for i, step in enumerate(steps):
        kept = math.exp(-(times_s[i] - times_s[i - 1]) / errors.drift_s) if i else 0.0
        drift[i] = kept * drift[i - 1] + math.sqrt(1 - kept**2) * step
    total: FloatArray = noise + drift
    return total


def _vector(values: FloatArray) -> Vector:
    x, y, z = (float(value) for value in values)
    return x, y, z
