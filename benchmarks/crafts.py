"""Vehicles that do not roll as a car does, or give the estimate little to go by, and sensors that err.

Each is a motion in ENU by seed and length, from which the IMU follows by physics alone, as in ``cars.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import cars
import numpy as np
from cars import (
    GRAVITY_M_S2,
    IMU_HZ,
    MEMS,
    SUBSTEPS,
    AhrsKind,
    DriveKind,
    FixKind,
    Floats,
    Truth,
    exponential,
)

EXTRA = 2 * SUBSTEPS
RECEIVER = FixKind(white_m=0.8, wander_m=1.5, declares=True)


def _eased(rng: np.random.Generator, time_s: Floats, apart_s: float, low: float, high: float) -> Floats:
    """Values between bounds that change every so many seconds, smoothly, and begin with zero for four."""
    knots_s = np.concatenate([[-9.0, 4.0], 4.0 + np.cumsum(rng.uniform(0.6, 1.4, 400)) * apart_s])
    values = np.concatenate([[0.0, 0.0], rng.uniform(low, high, 400)])
    window = np.hanning(round(2.0 * IMU_HZ * SUBSTEPS))
    padded = np.pad(np.interp(time_s, knots_s, values), len(window) // 2, mode="edge")
    return np.asarray(np.convolve(padded, window / window.sum(), "same")[len(window) // 2 :][: len(time_s)])


def _about(axis: int, angles: Floats) -> Floats:
    vectors = np.zeros((len(angles), 3))
    vectors[:, axis] = angles
    return exponential(vectors)


def _afloat(
    seed: int, time_s: Floats, through: tuple[Floats, Floats], *, roll_deg: float, period_s: float
) -> Truth:
    """Something that water carries: a current, leeway in bends, and waves that roll, pitch and heave it."""
    rng, step_s, (ahead, turning) = np.random.default_rng([seed, 9]), 1 / (IMU_HZ * SUBSTEPS), through
    current = 0.6 * np.exp(1j * rng.uniform(-np.pi, np.pi))
    waves = [np.sin(2 * np.pi * time_s / (period_s * f) + rng.uniform(0, 6)) for f in (1.0, 1.17, 0.83, 1.3)]
    heading = cars.summed(turning, step_s) + rng.uniform(-np.pi, np.pi)
    heading += math.radians(roll_deg / 4) * waves[3]
    aside = -1.5 * turning * np.clip(ahead / 3, -1, 1)
    ground = (ahead + 1j * aside) * np.exp(1j * heading) + current
    place = cars.summed(ground.real, step_s) + 1j * cars.summed(ground.imag, step_s)
    position = np.stack([place.real, place.imag, 0.04 * roll_deg * waves[0]], axis=1)
    leaning = _about(1, math.radians(roll_deg / 3) * waves[1]) @ _about(0, math.radians(roll_deg) * waves[2])
    return cars.moved(time_s, position, _about(2, heading) @ leaning, EXTRA)


def boat(seed: int, length_s: float) -> Truth:
    """At 1 to 5 m/s through water that flows at 0.6 m/s, rolling by 8°."""
    rng, time_s = np.random.default_rng([seed, 5]), cars.times(length_s, EXTRA)
    through = _eased(rng, time_s, 12, 1, 5), _eased(rng, time_s, 9, -0.15, 0.15)
    return _afloat(seed, time_s, through, roll_deg=8.0, period_s=4.5)


def ferry(seed: int, length_s: float) -> Truth:
    """It has two bows: across, a stop, and back without having turned."""
    rng, time_s = np.random.default_rng([seed, 6]), cars.times(length_s, EXTRA)
    leg_s = length_s / 3
    ahead = 7.0 * np.clip(3 * np.sin(np.pi * np.maximum(time_s - 4, 0) / leg_s), -1, 1)
    through = ahead, _eased(rng, time_s, 20, -0.02, 0.02)
    return _afloat(seed, time_s, through, roll_deg=1.5, period_s=8.0)


def drone(seed: int, length_s: float) -> Truth:
    """It flies anywhere, looks elsewhere, and leans into what it is asked for."""
    rng, time_s = np.random.default_rng([seed, 7]), cars.times(length_s, EXTRA)
    step_s = 1 / (IMU_HZ * SUBSTEPS)
    speeds = [_eased(rng, time_s, 6, -most, most) for most in (7.0, 7.0, 1.5)]
    position = np.stack([cars.summed(speed, step_s) for speed in speeds], axis=1)
    push = np.stack([np.gradient(speed, step_s) for speed in speeds], axis=1)
    push[:, 2] += GRAVITY_M_S2
    up = push / np.linalg.norm(push, axis=1)[:, None]
    heading = cars.summed(_eased(rng, time_s, 7, -0.5, 0.5), step_s) + rng.uniform(-np.pi, np.pi)
    left = np.cross(up, np.stack([np.cos(heading), np.sin(heading), np.zeros_like(heading)], axis=1))
    left /= np.linalg.norm(left, axis=1)[:, None]
    return cars.moved(time_s, position, np.stack([np.cross(left, up), left, up], axis=2), EXTRA)


def cart(seed: int, length_s: float) -> Truth:
    """Two driven wheels: straight on at 1 m/s, a halt, a turn on the spot, and on."""
    rng, time_s = np.random.default_rng([seed, 8]), cars.times(length_s, EXTRA)
    step_s, speed, turning = 1 / (IMU_HZ * SUBSTEPS), np.zeros_like(time_s), np.zeros_like(time_s)
    at_s = 4.0
    while at_s < time_s[-1]:
        for values, size, long_s in (
            (speed, float(rng.uniform(0.7, 1.3)), float(rng.uniform(6, 14))),
            (turning, math.radians(rng.choice([-1, 1]) * rng.uniform(60, 180)) / 4 * 2, 4.0),
        ):
            share = (time_s - at_s) / long_s
            inside = (share > 0) & (share < 1)
            wave = np.sin(np.pi * share[inside])
            values[inside] = size * (wave**2 if values is turning else np.clip(4 * wave, 0, 1))
            at_s += long_s
    heading = cars.summed(turning, step_s) + rng.uniform(-np.pi, np.pi)
    east, north = (cars.summed(speed * of(heading), step_s) for of in (np.cos, np.sin))
    shaken = 2e-4 * np.sin(2 * np.pi * 9.0 * cars.summed(speed, step_s))
    return cars.moved(time_s, np.stack([east, north, shaken], axis=1), _about(2, heading), EXTRA)


def motorway(seed: int, length_s: float) -> Truth:
    """33 m/s from the first moment to the last, in long bends."""
    rng, time_s = np.random.default_rng([seed, 10]), cars.times(length_s, EXTRA)
    step_s, turning = 1 / (IMU_HZ * SUBSTEPS), _eased(rng, time_s, 15, -0.02, 0.02)
    heading = cars.summed(turning, step_s) + rng.uniform(-np.pi, np.pi)
    course = heading - cars.SLIP_RAD_S2_M * 33.0 * turning
    east, north = (cars.summed(33.0 * of(course), step_s) for of in (np.cos, np.sin))
    shaken = 0.002 * np.sin(2 * np.pi * 1.4 * time_s) + 3e-5 * np.sin(2 * np.pi * 38.0 * time_s)
    roll = math.radians(0.5) * 33.0 * turning
    position = np.stack([east, north, shaken], axis=1)
    return cars.moved(time_s, position, _about(2, heading) @ _about(0, roll), EXTRA)


SLOW = FixKind(white_m=0.3, wander_m=0.4, declares=True)
IRON = AhrsKind(iron_deg=25.0)
DRIVES = cars.DRIVES | {
    kind.name: kind
    for kind in (
        DriveKind("boat", RECEIVER, motion=boat),
        DriveKind("boat-ahrs", RECEIVER, ahrs=cars.AHRS, motion=boat),
        DriveKind("ferry", RECEIVER, motion=ferry),
        DriveKind("drone", RECEIVER, motion=drone),
        DriveKind("drone-ahrs", RECEIVER, ahrs=cars.AHRS, motion=drone),
        DriveKind("cart", SLOW, motion=cart),
        DriveKind("motorway", RECEIVER, motion=motorway),
        DriveKind("ahrs-iron", RECEIVER, ahrs=IRON),
        DriveKind("ahrs-jump", RECEIVER, ahrs=AhrsKind(jump_deg=25.0)),
        DriveKind("fixes-late", replace(RECEIVER, rate_hz=10.0, late_s=1.0)),
        DriveKind("fixes-a-little-late", replace(RECEIVER, late_s=0.3)),
        DriveKind("rtk-float", FixKind(white_m=0.01, wander_m=0.02, float_m=2.0, declares=True)),
        DriveKind("height-leap", replace(RECEIVER, leap_m=45.0)),
        DriveKind("gyroscope-scale", RECEIVER, imu=replace(MEMS, gyroscope_scale=(1.03, 1.03, 1.03))),
        DriveKind("gyroscope-off", RECEIVER, imu=replace(MEMS, gyroscope_scale=(1.1, 1.1, 1.1))),
        DriveKind("gyroscope-z-dead", RECEIVER, imu=replace(MEMS, gyroscope_scale=(1.0, 1.0, 0.0))),
        DriveKind("gyroscope-dead", RECEIVER, imu=replace(MEMS, gyroscope_scale=(0.0, 0.0, 0.0))),
        DriveKind("gyroscope-clips", RECEIVER, imu=replace(MEMS, most_rad_s=math.radians(20))),
    )
}
