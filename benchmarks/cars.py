"""A car of its own for judging the estimate of the motion: nothing of it comes from what it judges.

The middle of the rear axle moves along the car's heading and a little outwards of each bend, since tyres slip
under lateral force, over hills, roughness and with the engine's vibration. The body leans and pitches on its
springs. Antenna, IMU and the rig's origin are that one point. The IMU's values follow from the motion by
physics alone: rates from the change of the rotation, specific force from the change of the velocity without
gravity. The Earth neither turns nor bends below the car but for the fixes, which are geodetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pymap3d

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

ORIGIN = (48.137, 11.575, 520.0)
"""Of the drive's ENU: degrees north and east, metres above the ellipsoid."""
IMU_HZ = 200
SUBSTEPS = 5
"""Steps of the motion for each sample of the IMU, which gives their mean as its filter does."""
LENGTH_S = 336.0
SLIP_RAD_S2_M = 0.005
"""Slip angle of the rear tyres for each m/s²: 700 kg on an axle of 140 kN/rad."""
ROLL_RAD_S2_M = math.radians(0.5)
PITCH_RAD_S2_M = math.radians(0.3)
"""Lean outwards and squat for each m/s²: 5° and 3° at 1 g, as family cars do."""
SPRING_HZ, SPRING_DAMPING = 1.4, 0.4
SLOPES = ((0.035, 420.0), (0.025, 300.0), (0.02, 650.0))
"""Steepest grade and length in metres of the waves that the ground consists of: 8 % together."""
ROUGHNESS = 2.4e-4
"""Amplitude of each wave of the road for its length: 0.5 m/s² RMS at 14 m/s."""
LEGS: tuple[tuple[float, float, float], ...] = (
    (8, 0, 0),  # a standing start
    (7, 11, 0),
    (10, 11, 10),
    (4, 6, 0),
    (6, 6, 90),
    (6, 14, 0),
    (15, 14, -20),
    (6, 0, 0),
    (12, 0, 0),  # a traffic light
    (8, 13, 5),
    (12, 13, 40),
    (4, 5, 0),
    (6, 5, -90),
    (5, 10, 0),
    (14, 10, 15),
    (5, 0, 0),
    (5, 0, 0),
    (3, -1.8, 0),  # backwards, round a corner
    (6, -1.8, 25),
    (3, 0, 0),
    (3, 0, 0),
    (6, 9, -20),
    (10, 9, 0),
    (4, 4, 0),
    (9, 4, 180),  # a U-turn
    (8, 16, 0),
    (16, 16, 15),
    (10, 17, -25),
    (7, 0, 0),
    (15, 0, 0),
    (7, 12, 0),
    (12, 12, 0),
    (4, 5.5, 0),
    (6, 5.5, 90),
    (6, 12, 0),
    (20, 12, -30),
    (6, 0, 0),
    (7, 15, 0),
    (20, 15, 20),
    (7, 0, 0),
    (8, 0, 0),
)
"""Seconds, speed at the end in m/s, degrees turned to the left meanwhile: together ``LENGTH_S``."""


def gravity_m_s2(latitude_deg: float, altitude_m: float) -> float:
    """Normal gravity of WGS-84 by Somigliana's formula, with the free-air gradient."""
    sine2 = math.sin(math.radians(latitude_deg)) ** 2
    at_ground = 9.7803253359 * (1 + 0.00193185265241 * sine2) / math.sqrt(1 - 0.00669437999013 * sine2)
    return at_ground - 3.086e-6 * altitude_m


GRAVITY_M_S2 = gravity_m_s2(ORIGIN[0], ORIGIN[2])


def exponential(vectors: Floats) -> Floats:
    """Rotations (n, 3, 3) by rotation vectors (n, 3), by Rodrigues' formula."""
    angle = np.linalg.norm(vectors, axis=1)[:, None, None]
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    # np.sinc is sin(πx)/(πx), and finite at zero.
    one = np.sinc(angle / np.pi)
    two = 0.5 * np.sinc(angle / (2 * np.pi)) ** 2
    return np.asarray(np.eye(3) + one * cross + two * (cross @ cross))


def logarithm(rotations: Floats) -> Floats:
    """Rotation vectors (n, 3), no longer than π, of rotations (n, 3, 3)."""
    xyzw = quaternions(rotations)
    sine = np.linalg.norm(xyzw[:, :3], axis=1)
    half = np.arctan2(sine, xyzw[:, 3])
    factor = np.where(sine < 1e-9, 2.0, 2 * half / np.maximum(sine, 1e-12))
    return np.asarray(xyzw[:, :3] * factor[:, None])


def quaternions(rotations: Floats) -> Floats:
    """Unit quaternions xyzw (n, 4), w not negative, of rotations (n, 3, 3), by Shepperd's method."""
    m = rotations
    trace = np.trace(m, axis1=1, axis2=2)
    found = np.empty((len(m), 4))
    which = np.argmax(np.stack([m[:, 0, 0], m[:, 1, 1], m[:, 2, 2], trace], axis=1), axis=1)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        chosen = which == i
        of = m[chosen]
        found[chosen, i] = 1 - trace[chosen] + 2 * of[:, i, i]
        found[chosen, j] = of[:, j, i] + of[:, i, j]
        found[chosen, k] = of[:, k, i] + of[:, i, k]
        found[chosen, 3] = of[:, k, j] - of[:, j, k]
    chosen = which == 3
    of = m[chosen]
    found[chosen, 0] = of[:, 2, 1] - of[:, 1, 2]
    found[chosen, 1] = of[:, 0, 2] - of[:, 2, 0]
    found[chosen, 2] = of[:, 1, 0] - of[:, 0, 1]
    found[chosen, 3] = 1 + trace[chosen]
    found /= np.linalg.norm(found, axis=1)[:, None]
    return np.asarray(np.where(found[:, 3:] < 0, -found, found))


def rotations_of(quaternions_xyzw: Floats) -> Floats:
    """Rotations (n, 3, 3) of unit quaternions xyzw (n, 4)."""
    x, y, z, w = quaternions_xyzw.T
    rows = [
        *(1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        *(2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        *(2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    ]
    return np.stack(rows, axis=1).reshape(-1, 3, 3)


def heading_rad(rotations: Floats) -> Floats:
    """From east towards north (n,), of rotations (n, 3, 3) from the rig's axes to ENU."""
    return np.asarray(np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0]))


@dataclass(frozen=True)
class Truth:
    """The rig's true motion at ``IMU_HZ``, in ENU at ``ORIGIN``.

    Attributes:
        time_s: (n,), from zero.
        position_m: (n, 3) of the rig's origin.
        velocity_m_s: (n, 3).
        rotation: (n, 3, 3), from the rig's axes (forward, left, up) to ENU.
        rate_rad_s: (n, 3) about the rig's axes, as a perfect IMU gives it.
        force_m_s2: (n, 3) along the rig's axes, likewise.
    """

    time_s: Floats
    position_m: Floats
    velocity_m_s: Floats
    rotation: Floats
    rate_rad_s: Floats
    force_m_s2: Floats

    @property
    def driven_m(self) -> Floats:
        """The way behind it (n,)."""
        steps = np.linalg.norm(np.diff(self.position_m[:, :2], axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(steps)])

    @property
    def speed_m_s(self) -> Floats:
        """Horizontally, never negative (n,)."""
        return np.asarray(np.linalg.norm(self.velocity_m_s[:, :2], axis=1))

    def places_at(self, time_s: Floats) -> Floats:
        """Positions (n, 3) at any times (n,), by cubics between samples."""
        k, u = self._between(time_s)
        u, step_s = u[:, None], 1 / IMU_HZ
        return np.asarray(
            (1 + 2 * u) * (1 - u) ** 2 * self.position_m[k]
            + u * (1 - u) ** 2 * step_s * self.velocity_m_s[k]
            + u**2 * (3 - 2 * u) * self.position_m[k + 1]
            + u**2 * (u - 1) * step_s * self.velocity_m_s[k + 1]
        )

    def rotations_at(self, time_s: Floats) -> Floats:
        """Rotations (n, 3, 3) at any times (n,), at a constant rate between samples."""
        k, u = self._between(time_s)
        step = logarithm(np.swapaxes(self.rotation[k], 1, 2) @ self.rotation[k + 1])
        return np.asarray(self.rotation[k] @ exponential(step * u[:, None]))

    def _between(self, time_s: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
        k = np.clip((time_s * IMU_HZ).astype(np.int64), 0, len(self.time_s) - 2)
        return k, time_s * IMU_HZ - k


def driven(seed: int, length_s: float = LENGTH_S) -> Truth:
    """The motion of one drive; every seed has other speeds, bends, grades and lengths of legs."""
    rng = np.random.default_rng([seed, 0])
    step_s = 1 / (IMU_HZ * SUBSTEPS)
    extra = 2 * SUBSTEPS  # before the beginning and after the end, for differences and means
    time_s = times(length_s, extra)
    speed, curvature = _plan(rng, time_s)
    heading = summed(speed * curvature, step_s) + rng.uniform(-np.pi, np.pi)
    lateral = speed**2 * curvature
    outwards = -SLIP_RAD_S2_M * lateral * np.abs(speed)
    east = summed(speed * np.cos(heading) - outwards * np.sin(heading), step_s)
    north = summed(speed * np.sin(heading) + outwards * np.cos(heading), step_s)
    way = summed(np.abs(speed), step_s)
    ground, grade_east, grade_north = _ground(rng, east, north)
    bumps = _road(rng, way, 3)
    vibration, shaking = _engine(time_s, speed, step_s)

    along = np.gradient(speed, step_s)
    roll = _sprung(ROLL_RAD_S2_M * lateral, step_s) + bumps[1] + shaking
    pitch = _sprung(-PITCH_RAD_S2_M * along, step_s) + bumps[2]
    rotation = _on_ground(heading, grade_east, grade_north) @ _leaning(roll, pitch)
    position = np.stack([east, north, ground + bumps[0] + vibration], axis=1)

    return moved(time_s, position, rotation, extra)


def times(length_s: float, extra: int) -> Floats:
    """Of a motion, in even steps, and so many before the beginning and after the end."""
    steps = np.arange(-extra, round(length_s * IMU_HZ) * SUBSTEPS + extra + 1)
    return np.asarray(steps / (IMU_HZ * SUBSTEPS), np.float64)


def moved(time_s: Floats, position: Floats, rotation: Floats, extra: int) -> Truth:
    """What an IMU feels of a motion at even times, of which so many at both ends are only for differences."""
    step_s = float(time_s[1] - time_s[0])
    velocity = np.gradient(position, step_s, axis=0)
    acceleration = np.zeros_like(position)
    acceleration[1:-1] = (position[2:] - 2 * position[1:-1] + position[:-2]) / step_s**2
    acceleration[:, 2] += GRAVITY_M_S2
    force = np.einsum("nji,nj->ni", rotation, acceleration)
    rate = np.zeros_like(force)
    rate[1:-1] = logarithm(np.swapaxes(rotation[:-2], 1, 2) @ rotation[2:]) / (2 * step_s)
    kept = slice(extra, len(time_s) - extra, SUBSTEPS)
    return Truth(
        time_s[kept],
        position[kept],
        velocity[kept],
        rotation[kept],
        _mean(rate)[kept],
        _mean(force)[kept],
    )


def summed(values: Floats, step_s: float) -> Floats:
    """Integral by trapezoids, zero at the beginning."""
    return np.concatenate([[0.0], np.cumsum(values[1:] + values[:-1]) * (step_s / 2)])


def _mean(values: Floats) -> Floats:
    """Of each value and its neighbours, ``SUBSTEPS`` in all, so that nothing is delayed."""
    half = SUBSTEPS // 2
    total = sum(np.roll(values, shift, axis=0) for shift in range(-half, half + 1))
    return np.asarray(total / SUBSTEPS)


def _plan(rng: np.random.Generator, time_s: Floats) -> tuple[Floats, Floats]:
    """Speed in m/s and curvature in 1/m at each time."""
    side = rng.choice([-1.0, 1.0])
    knots_s, speeds = [0.0], [0.0]
    bends: list[tuple[float, float, float]] = []
    while knots_s[-1] < time_s[-1]:
        lengths = np.array([leg[0] for leg in LEGS]) * rng.uniform(0.85, 1.2, len(LEGS))
        lengths *= LENGTH_S / lengths.sum()
        for (_, end_m_s, turn_deg), length_s in zip(LEGS, lengths.tolist(), strict=True):
            turn_rad = side * math.radians(turn_deg) * rng.uniform(0.9, 1.05)
            bends.append((knots_s[-1], knots_s[-1] + length_s, turn_rad))
            knots_s.append(knots_s[-1] + length_s)
            speeds.append(end_m_s * rng.uniform(0.85, 1.0))
    step_s = float(time_s[1] - time_s[0])
    asked = np.interp(time_s, knots_s, speeds)
    window = np.hanning(round(1.2 / step_s))
    speed = _filtered(asked, window / window.sum(), len(window) // 2)
    curvature = np.zeros_like(time_s)
    for start_s, end_s, turn_rad in bends:
        inside = (time_s > start_s) & (time_s < end_s)
        if turn_rad == 0.0 or not inside.any():
            continue
        # As if the whole bend were driven, also where the drive ends inside of it.
        at_s = np.arange(start_s, end_s, step_s)
        planned = np.interp(at_s, knots_s, speeds)
        shape = np.sin(np.pi * (at_s - start_s) / (end_s - start_s)) ** 2
        per_m = turn_rad / float(np.sum(planned * shape) * step_s)
        curvature[inside] = per_m * np.sin(np.pi * (time_s[inside] - start_s) / (end_s - start_s)) ** 2
    return speed, curvature


def _filtered(values: Floats, kernel: Floats, delay: int = 0) -> Floats:
    """Convolution with a kernel whose sample ``delay`` belongs to now; it stood for ever before."""
    padded = np.concatenate([np.full(len(kernel), values[0]), values, np.full(len(kernel), values[-1])])
    size = 1 << (len(padded) + len(kernel)).bit_length()
    product = np.fft.rfft(padded, size) * np.fft.rfft(kernel, size)
    start = len(kernel) + delay
    found = np.fft.irfft(product, size)[start : start + len(values)]
    # The transform's rounding would make a standing car creep.
    return np.asarray(np.where(np.abs(found) < 1e-9, 0.0, found))


def _sprung(values: Floats, step_s: float) -> Floats:
    """What the body on its springs makes of what the forces ask for."""
    at_s = np.arange(0.0, 3.0, step_s)
    natural = 2 * np.pi * SPRING_HZ
    damped = natural * math.sqrt(1 - SPRING_DAMPING**2)
    kernel = np.exp(-SPRING_DAMPING * natural * at_s) * np.sin(damped * at_s)
    return _filtered(values, kernel / kernel.sum())


def _ground(rng: np.random.Generator, east: Floats, north: Floats) -> tuple[Floats, Floats, Floats]:
    """Height above where the drive begins, and grades to the east and to the north."""
    height, to_east, to_north = (np.zeros_like(east) for _ in range(3))
    for grade, length_m in SLOPES:
        angle, phase = rng.uniform(-np.pi, np.pi, 2)
        wave = 2 * np.pi / length_m
        argument = wave * (np.cos(angle) * east + np.sin(angle) * north) + phase
        height += grade / wave * (np.sin(argument) - np.sin(phase))
        to_east += grade * np.cos(angle) * np.cos(argument)
        to_north += grade * np.sin(angle) * np.cos(argument)
    return height, to_east, to_north


def _road(rng: np.random.Generator, way: Floats, count: int) -> list[Floats]:
    """Roughness along the way: metres up, and angles of the body in radians."""
    lengths_m = np.geomspace(3.0, 40.0, 10)
    found = []
    for number in range(count):
        total = np.zeros_like(way)
        for length_m in lengths_m:
            phase = rng.uniform(-np.pi, np.pi)
            # A wave lifts the body by its amplitude, and turns it by as much over half an axle's track.
            amplitude = ROUGHNESS * length_m if number == 0 else ROUGHNESS * length_m / 8.0
            total += amplitude * (np.sin(2 * np.pi * way / length_m + phase) - np.sin(phase))
        found.append(total)
    return found


def _engine(time_s: Floats, speed: Floats, step_s: float) -> tuple[Floats, Floats]:
    """Vibration: metres up for 0.15 m/s², and radians of roll for 2 mrad/s."""
    turns_hz = 27.0 + 1.5 * np.abs(speed)
    phase = 2 * np.pi * summed(turns_hz, step_s)
    wave = np.sin(phase + 0.1 * np.sin(2 * np.pi * 0.7 * time_s))
    return 0.15 * wave / (2 * np.pi * turns_hz) ** 2, 0.002 * wave / (2 * np.pi * turns_hz)


def _on_ground(heading: Floats, grade_east: Floats, grade_north: Floats) -> Floats:
    """Rotations of a car that stands flat on the ground."""
    x, y = np.cos(heading), np.sin(heading)
    forward = np.stack([x, y, grade_east * x + grade_north * y], axis=1)
    up = np.stack([-grade_east, -grade_north, np.ones_like(heading)], axis=1)
    forward /= np.linalg.norm(forward, axis=1)[:, None]
    up /= np.linalg.norm(up, axis=1)[:, None]
    return np.stack([forward, np.cross(up, forward), up], axis=2)


def _leaning(roll: Floats, pitch: Floats) -> Floats:
    """Rotations of the body against the ground."""
    zero = np.zeros_like(roll)
    turned = exponential(np.stack([zero, pitch, zero], axis=1))
    return np.asarray(turned @ exponential(np.stack([roll, zero, zero], axis=1)))


@dataclass(frozen=True)
class ImuKind:
    """Errors of an IMU at ``IMU_HZ``: white ones of each sample, constant ones, and how these walk per √s.

    A gyroscope may also be wrong by a factor, and end at a rate (``most_rad_s``).
    """

    gyroscope_sigma_rad_s: float = 1e-3
    gyroscope_bias_rad_s: tuple[float, float, float] = (0.005, -0.003, 0.007)
    gyroscope_walk_rad_s: float = 2e-5
    accelerometer_sigma_m_s2: float = 0.07
    accelerometer_bias_m_s2: tuple[float, float, float] = (0.05, -0.08, 0.06)
    accelerometer_walk_m_s2: float = 5e-4
    gyroscope_scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    most_rad_s: float = math.inf


MEMS = ImuKind()
"""As a phone's IMU is: 0.4°/s and 8 mg of bias."""
GOOD = ImuKind(1e-4, (2e-4, -1e-4, 1e-4), 1e-6, 0.01, (0.005, -0.005, 0.005), 2e-5)


@dataclass(frozen=True)
class AhrsKind:
    """Errors of an orientation: about each horizontal axis, constant and slow; of the heading, likewise."""

    tilt_deg: float = 0.3
    slow_tilt_deg: float = 0.2
    tilt_s: float = 10.0
    slow_heading_deg: float = 0.8
    heading_s: float = 60.0
    heading_off_deg: float = 0.0
    iron_deg: float = 0.0
    """Error that changes with the heading, as of iron near its magnetometer."""
    jump_deg: float = 0.0
    """From the middle of the drive on."""


@dataclass(frozen=True)
class FixKind:
    """What a receiver gives.

    Attributes:
        rate_hz: how often.
        white_m: standard deviation east and north, independent from fix to fix; twice as much up.
        wander_m: RMS of the horizontal distance by which the receiver wanders slowly; by axis 0.71 of it, and
            twice that up.
        jump_share: of single fixes that jump 5 to 30 m.
        first_s: of the first fix.
        tunnel_s: length of the tunnel in the middle of the drive.
        freezes: in the tunnel it repeats its last fix to the last digit instead of giving none.
        late_s: how much later than its stamp says it was there.
        leap_m: by how much heights leap in the middle of the drive.
        float_m: by how much it is off to the east during the second third of the drive.
        declares: it tells its standard deviations.
    """

    rate_hz: float = 5.0
    white_m: float = 1.5
    wander_m: float = 2.0
    jump_share: float = 0.0
    first_s: float = 0.05
    tunnel_s: float = 0.0
    freezes: bool = False
    late_s: float = 0.0
    leap_m: float = 0.0
    float_m: float = 0.0
    declares: bool = False

    @property
    def sigma_m(self) -> tuple[float, float, float] | None:
        """What it declares."""
        level = math.hypot(self.white_m, self.wander_m / math.sqrt(2))
        return (level, level, 2 * level) if self.declares else None


@dataclass(frozen=True)
class DriveKind:
    """A vehicle, its sensors, and what is demanded of the estimate.

    Attributes:
        motion: of the vehicle, by seed and length.
        imu: None if it has none.
        ahrs: None if its IMU has no orientation.
        turned_deg: how far the IMU is turned to the left against its configuration.
        found_deg: the heading, without its sign, that the estimate must say to be wrong; rotations are then
            written as configured and not judged.
        exact: fixes are good enough to demand NuRec's smoothness.
    """

    name: str
    fixes: FixKind = field(default_factory=FixKind)
    imu: ImuKind | None = MEMS
    ahrs: AhrsKind | None = None
    turned_deg: float = 0.0
    found_deg: float = 0.0
    exact: bool = False
    motion: Callable[[int, float], Truth] = driven


AHRS = AhrsKind()
CLEAN = FixKind(white_m=0.3, wander_m=0.0)
TUNNEL = FixKind(tunnel_s=20.0, freezes=True)
DRIVES = {
    kind.name: kind
    for kind in (
        DriveKind("no-orientation-5hz"),
        DriveKind("no-orientation-1hz", FixKind(rate_hz=1.0)),
        DriveKind("no-orientation-1hz-0.3m", replace(CLEAN, rate_hz=1.0)),
        DriveKind("frozen-tunnel-0.3m", replace(CLEAN, tunnel_s=20.0, freezes=True)),
        DriveKind("frozen-tunnel-1.5m", TUNNEL),
        DriveKind("frozen-tunnel-ahrs", TUNNEL, ahrs=AHRS),
        DriveKind("ahrs", FixKind(wander_m=0.0), ahrs=AHRS),
        DriveKind("ahrs-wander-5hz", ahrs=AHRS),
        DriveKind("tunnel-60s", FixKind(tunnel_s=60.0), ahrs=AHRS),
        DriveKind("late-start", FixKind(first_s=40.0), ahrs=AHRS),
        DriveKind("jumps", FixKind(jump_share=0.02), ahrs=AHRS),
        DriveKind("heading-20deg-off", ahrs=replace(AHRS, heading_off_deg=20.0), found_deg=20.0),
        DriveKind("mounted-90", ahrs=AHRS, turned_deg=90.0, found_deg=90.0),
        DriveKind(
            "noise-free",
            FixKind(rate_hz=10.0, white_m=0.0, wander_m=0.0),
            imu=GOOD,
            ahrs=AhrsKind(0.02, 0.02, 10.0, 0.05, 60.0),
            exact=True,
        ),
        DriveKind("alone", imu=None),
    )
}


@dataclass(frozen=True)
class Fixes:
    """What the receiver gave.

    Attributes:
        time_s: (n,).
        geodetic: (n, 3), degrees north and east, metres above the ellipsoid.
        position_m: (n, 3), the same in ENU at ``ORIGIN``.
        is_frozen: (n,), a repetition of the last fix.
        wander_m: (n, 3), the slow part of its error.
    """

    time_s: Floats
    geodetic: Floats
    position_m: Floats
    is_frozen: Booleans
    wander_m: Floats


@dataclass(frozen=True)
class Drive:
    """One drive: what is true and what its sensors gave.

    Attributes:
        rate_rad_s: (n, 3) of the IMU at the times of ``truth``, in its own axes; empty if there is none.
        force_m_s2: (n, 3), likewise.
        orientation_xyzw: (n, 4) from the IMU's axes to ENU; None if there is none.
    """

    kind: DriveKind
    seed: int
    truth: Truth
    fixes: Fixes
    rate_rad_s: Floats
    force_m_s2: Floats
    orientation_xyzw: Floats | None


def made(kind: DriveKind, seed: int, length_s: float = LENGTH_S) -> Drive:
    """A drive of this kind; drives of one seed and length share their motion."""
    truth = kind.motion(seed, length_s)
    fixes = _fixes(kind.fixes, seed, truth)
    if kind.imu is None:
        none = np.zeros((0, 3))
        return Drive(kind, seed, truth, fixes, none, none, None)
    imu, rng, step_s = kind.imu, np.random.default_rng([seed, 1]), 1 / IMU_HZ
    mounted = exponential(np.array([[0.0, 0.0, math.radians(kind.turned_deg)]]))[0]
    readings = []
    for true, sigma, bias, walk in (
        (truth.rate_rad_s, imu.gyroscope_sigma_rad_s, imu.gyroscope_bias_rad_s, imu.gyroscope_walk_rad_s),
        (
            truth.force_m_s2,
            imu.accelerometer_sigma_m_s2,
            imu.accelerometer_bias_m_s2,
            imu.accelerometer_walk_m_s2,
        ),
    ):
        walked = np.cumsum(rng.normal(0, walk * math.sqrt(step_s), true.shape), axis=0)
        readings.append(true @ mounted + np.array(bias) + walked + rng.normal(0, sigma, true.shape))
    orientation = None if kind.ahrs is None else quaternions(_ahrs(kind.ahrs, seed, truth) @ mounted)
    rates = np.clip(readings[0] * np.array(imu.gyroscope_scale), -imu.most_rad_s, imu.most_rad_s)
    return Drive(kind, seed, truth, fixes, rates, readings[1], orientation)


def gauss_markov(rng: np.random.Generator, count: int, step_s: float, tau_s: float, width: int) -> Floats:
    """Slow noise (count, width) of standard deviation one from its beginning, correlated over ``tau_s``."""
    kept = math.exp(-step_s / tau_s)
    values = rng.normal(0, 1, (count, width))
    values[1:] *= math.sqrt(1 - kept**2)
    for number in range(1, count):
        values[number] += kept * values[number - 1]
    return values


def _ahrs(kind: AhrsKind, seed: int, truth: Truth) -> Floats:
    """Rotations (n, 3, 3) from the rig's axes to ENU, with errors about east, north and up."""
    rng = np.random.default_rng([seed, 2])
    count, step_s = len(truth.time_s), 1 / IMU_HZ
    tilt = rng.normal(0, kind.tilt_deg, 2)
    off = np.empty((count, 3))
    off[:, :2] = kind.slow_tilt_deg * gauss_markov(rng, count, step_s, kind.tilt_s, 2)
    off[:, 2:] = kind.slow_heading_deg * gauss_markov(rng, count, step_s, kind.heading_s, 1)
    # The constant tilt is one of the sensor, as biased accelerometers make it: it turns with the car.
    constant = np.radians(np.array([[tilt[0], tilt[1], 0.0]]))
    off[:, 2] += kind.heading_off_deg + kind.iron_deg * np.sin(heading_rad(truth.rotation))
    off[count // 2 :, 2] += kind.jump_deg
    return np.asarray(exponential(np.radians(off)) @ truth.rotation @ exponential(constant))


def _fixes(kind: FixKind, seed: int, truth: Truth) -> Fixes:
    rng = np.random.default_rng([seed, 3])
    end_s = float(truth.time_s[-1])
    time_s = np.arange(0.05, end_s, 1 / kind.rate_hz)
    count = len(time_s)
    scale = np.array([1.0, 1.0, 2.0])
    wander = gauss_markov(rng, count, 1 / kind.rate_hz, float(rng.uniform(60.0, 100.0)), 3)
    wander *= scale * (kind.wander_m / math.sqrt(2))
    white = rng.normal(0, kind.white_m, (count, 3)) * scale
    place = truth.places_at(np.maximum(time_s - kind.late_s, 0.0)) + wander + white
    place[time_s > end_s / 2, 2] += kind.leap_m
    place[np.abs(time_s - end_s / 2) < end_s / 6, 0] += kind.float_m
    for number in np.flatnonzero(rng.random(count) < kind.jump_share):
        angle, far_m = rng.uniform(-np.pi, np.pi), rng.uniform(5.0, 30.0)
        if number and not np.array_equal(place[number - 1], place[number]):
            place[number, :2] += far_m * np.cos(angle), far_m * np.sin(angle)
    start_s, stop_s = (end_s - kind.tunnel_s) / 2, (end_s + kind.tunnel_s) / 2
    is_inside = (time_s > start_s) & (time_s < stop_s)
    geodetic = np.stack(pymap3d.enu2geodetic(*place.T, *ORIGIN), axis=1)
    is_frozen = np.zeros(count, np.bool_)
    kept = time_s >= kind.first_s
    if kind.freezes and is_inside.any():
        last = int(np.flatnonzero(is_inside)[0]) - 1
        geodetic[is_inside], place[is_inside], is_frozen[is_inside] = geodetic[last], place[last], True
    else:
        kept &= ~is_inside
    return Fixes(time_s[kept], geodetic[kept], place[kept], is_frozen[kept], wander[kept])
