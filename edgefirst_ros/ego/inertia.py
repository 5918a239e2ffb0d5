"""Preintegration of IMU samples: change of rotation, velocity and position between two filter times."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.geometry import Quaternion, Vector, matrix
from edgefirst_ros.messages.imu import Imu

STEP_NS = 50_000_000
"""Longest step while samples arrive: a vehicle's body sways at 1 to 3 Hz."""
SILENT_NS = 250_000_000
"""Samples further apart than this are not interpolated."""
HELD_NS = 50_000_000
"""At a fix, a sample this old still applies."""
LEAST_FORCE_M_S2, MOST_FORCE_M_S2 = 3.0, 160.0
"""Valid specific forces: below, there is no accelerometer or gravity was removed; ranges end at 16 g."""
QUIET_NS = 500_000_000
QUIET_FORCE_M_S2, QUIET_RATE_RAD_S = 0.15, 0.02
"""The IMU is quiet while forces and rates vary by less than this, and rates are within a gyroscope's bias."""

Floats = npt.NDArray[np.float64]

_NO_ORIENTATION: Quaternion = (math.nan, math.nan, math.nan, math.nan)


class ImuStep(NamedTuple):
    """What the IMU measured during one step, in the rig's axes, as configured, at the beginning of the step.

    ``turn_rad`` is the rotation vector from the beginning to the end; ``dv_m_s`` and ``dp_m`` are the first
    and second integral of the specific force; ``rate_rad_s`` is the angular rate at the end,
    ``orientation_xyzw`` the IMU's own orientation there, NaN if it has none. ``turns`` and ``feels``: rates
    and forces were measured during the whole step. ``quiet``: the IMU has been quiet for half a second.
    """

    end_ns: int
    dt_s: float
    turn_rad: Vector
    dv_m_s: Vector
    dp_m: Vector
    rate_rad_s: Vector
    orientation_xyzw: Quaternion
    turns: bool
    feels: bool
    quiet: bool


WIDTH = 20
"""How many numbers ``pack`` returns."""


def pack(step: ImuStep) -> tuple[float, ...]:
    """A step as numbers, without its time."""
    flags = float(step.turns), float(step.feels), float(step.quiet)
    return (
        *(step.dt_s, *step.turn_rad, *step.dv_m_s, *step.dp_m, *step.rate_rad_s),
        *(*step.orientation_xyzw, *flags),
    )


def unpack(end_ns: int, values: list[float]) -> ImuStep:
    """The step from the numbers that ``pack`` returned."""
    dt, a, b, c, d, e, f, g, h, i, j, k, m, x, y, z, w, turns, feels, quiet = values
    return ImuStep(
        *(end_ns, dt, (a, b, c), (d, e, f), (g, h, i), (j, k, m), (x, y, z, w)),
        *(bool(turns), bool(feels), bool(quiet)),
    )


class _ImuSample(NamedTuple):
    time_ns: int
    rate: Vector | None
    force: Vector | None
    orientation: Quaternion | None


class Preintegrator:
    """Integrates samples by the trapezoidal rule into steps.

    Args:
        rig_from_imu_xyzw: rotates from the IMU's axes to the rig's.
    """

    def __init__(self, rig_from_imu_xyzw: Quaternion | None) -> None:
        self._axes: Floats | None = None if rig_from_imu_xyzw is None else matrix(rig_from_imu_xyzw)
        self._start_ns: int | None = None
        self._at_ns = 0
        self._last: _ImuSample | None = None
        self._recent: deque[tuple[int, Vector, Vector]] = deque()
        self._q: Quaternion = (0.0, 0.0, 0.0, 1.0)
        self._dv: Vector = (0.0, 0.0, 0.0)
        self._dp: Vector = (0.0, 0.0, 0.0)
        self._turns = self._feels = True

    @property
    def at_ns(self) -> int | None:
        """The time up to which samples are integrated; None before the first."""
        return None if self._start_ns is None else self._at_ns

    def begin(self, time_ns: int) -> None:
        """Begin the first step."""
        self._start_ns = self._at_ns = time_ns

    def add(self, time_ns: int, imu: Imu) -> ImuStep | None:
        """Integrate up to a sample; the step that it completes, if any."""
        sample = _ImuSample(time_ns, _sound_rate(imu), _sound_force(imu), imu.orientation_xyzw)
        last, self._last = self._last, sample
        if self._start_ns is None:
            self.begin(time_ns)
            return None
        if time_ns <= self._at_ns:
            return None
        known = last is not None and time_ns - last.time_ns <= SILENT_NS
        rate, force = (None, None) if last is None or not known else _between(last, sample)
        self._sum(time_ns, rate, force)
        if time_ns - self._start_ns < STEP_NS:
            return None
        return self._cut(sample.orientation)

    def cut(self, time_ns: int) -> ImuStep:
        """End the step at a time between samples; its length is zero if no time has passed."""
        if self._start_ns is None:
            self.begin(time_ns)
        if time_ns > self._at_ns:
            last = self._last
            held = last is not None and time_ns - last.time_ns <= HELD_NS
            rate, force = (last.rate, last.force) if held and last is not None else (None, None)
            self._sum(time_ns, rate, force)
        return self._cut(None)

    def _sum(self, time_ns: int, rate: Vector | None, force: Vector | None) -> None:
        """Integrate up to a time, with the rate and force in the middle of the interval."""
        h = (time_ns - self._at_ns) / 1e9
        self._at_ns = time_ns
        if rate is None:
            self._turns = False
            rate = (0.0, 0.0, 0.0)
        if force is None:
            self._feels = False
            force = (0.0, 0.0, 0.0)
        ax, ay, az = (0.25 * h * r for r in rate)
        # Rotate by half of the interval, twice: exact for a constant rate.
        half = _times(self._q, _small(ax, ay, az))
        fx, fy, fz = _turned(half, force)
        vx, vy, vz = self._dv
        px, py, pz = self._dp
        self._dp = (
            px + h * (vx + 0.5 * h * fx),
            py + h * (vy + 0.5 * h * fy),
            pz + h * (vz + 0.5 * h * fz),
        )
        self._dv = (vx + h * fx, vy + h * fy, vz + h * fz)
        self._q = _times(half, _small(ax, ay, az))

    def _cut(self, orientation: Quaternion | None) -> ImuStep:
        start_ns = self._at_ns if self._start_ns is None else self._start_ns
        dt_s = (self._at_ns - start_ns) / 1e9
        turn = _rotation_vector(self._q)
        rate = (self._last.rate if self._last is not None and self._turns else None) or (0.0, 0.0, 0.0)
        vectors = np.array((turn, self._dv, self._dp, rate))
        if self._axes is not None:
            vectors = vectors @ self._axes.T
            if orientation is not None:
                from scipy.spatial.transform import Rotation  # noqa: PLC0415 - see ``geometry.after``

                inverse = Rotation.from_matrix(self._axes).inv()
                x, y, z, w = (Rotation.from_quat(orientation) * inverse).as_quat().tolist()
                orientation = (x, y, z, w)
        turn, dv, dp, rate = (_vector(row) for row in vectors.tolist())
        step = ImuStep(
            self._at_ns,
            dt_s,
            turn,
            dv,
            dp,
            rate,
            orientation or _NO_ORIENTATION,
            self._turns,
            self._feels,
            self._is_quiet(dt_s),
        )
        self._start_ns = self._at_ns
        self._clear()
        return step

    def _is_quiet(self, dt_s: float) -> bool:
        if dt_s <= 0:
            return False
        if not (self._turns and self._feels):
            self._recent.clear()
            return False
        turn = _rotation_vector(self._q)
        mean = tuple(v / dt_s for v in self._dv), tuple(v / dt_s for v in turn)
        self._recent.append((self._at_ns, _vector(mean[0]), _vector(mean[1])))
        while len(self._recent) > 2 and self._at_ns - self._recent[1][0] >= QUIET_NS:
            self._recent.popleft()
        first_ns, force, rate = self._recent[0]
        if self._at_ns - first_ns < QUIET_NS:
            return False
        return all(
            math.dist(f, force) < QUIET_FORCE_M_S2
            and math.dist(r, rate) < QUIET_RATE_RAD_S
            and math.hypot(*r) < QUIET_RATE_RAD_S
            for _, f, r in self._recent
        )

    def _clear(self) -> None:
        self._q = (0.0, 0.0, 0.0, 1.0)
        self._dv = self._dp = (0.0, 0.0, 0.0)
        self._turns = self._feels = True


def _sound_rate(imu: Imu) -> Vector | None:
    """The rate; None if it is not finite, or zero beside an orientation, as sent without a gyroscope."""
    rate = imu.angular_velocity_rad_s
    if not all(map(math.isfinite, rate)) or (rate == (0, 0, 0) and imu.orientation_xyzw is not None):
        return None
    return rate


def _sound_force(imu: Imu) -> Vector | None:
    force = imu.linear_acceleration_m_s2
    return force if LEAST_FORCE_M_S2 <= math.hypot(*force) <= MOST_FORCE_M_S2 else None


def _between(last: _ImuSample, sample: _ImuSample) -> tuple[Vector | None, Vector | None]:
    """Rate and force half way between two samples; without gyroscope the rate comes from the orientations."""
    rate = force = None
    if last.rate is not None and sample.rate is not None:
        (a, b, c), (x, y, z) = last.rate, sample.rate
        rate = (0.5 * (a + x), 0.5 * (b + y), 0.5 * (c + z))
    elif last.orientation is not None and sample.orientation is not None:
        x, y, z, w = last.orientation
        dt_s = (sample.time_ns - last.time_ns) / 1e9
        turn = _rotation_vector(_times((-x, -y, -z, w), sample.orientation))
        rate = (turn[0] / dt_s, turn[1] / dt_s, turn[2] / dt_s)
    if last.force is not None and sample.force is not None:
        (a, b, c), (x, y, z) = last.force, sample.force
        force = (0.5 * (a + x), 0.5 * (b + y), 0.5 * (c + z))
    return rate, force


def _vector(values: tuple[float, ...] | list[float]) -> Vector:
    x, y, z = values
    return x, y, z


def _small(x: float, y: float, z: float) -> Quaternion:
    """The rotation by twice this short vector."""
    squared = x * x + y * y + z * z
    if squared < 1e-4:
        scale = 1 - squared / 6
        return x * scale, y * scale, z * scale, 1 - squared / 2 + squared * squared / 24
    angle = math.sqrt(squared)
    scale = math.sin(angle) / angle
    return x * scale, y * scale, z * scale, math.cos(angle)


def _times(a: Quaternion, b: Quaternion) -> Quaternion:
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def _turned(q: Quaternion, vector: Vector) -> Vector:
    x, y, z, w = q
    vx, vy, vz = vector
    tx, ty, tz = 2 * (y * vz - z * vy), 2 * (z * vx - x * vz), 2 * (x * vy - y * vx)
    return (
        vx + w * tx + y * tz - z * ty,
        vy + w * ty + z * tx - x * tz,
        vz + w * tz + x * ty - y * tx,
    )


def _rotation_vector(q: Quaternion) -> Vector:
    x, y, z, w = q
    sine = math.sqrt(x * x + y * y + z * z)
    if sine < 1e-12:
        return 0.0, 0.0, 0.0
    scale = 2 * math.atan2(sine, w) / sine if w >= 0 else 2 * math.atan2(-sine, -w) / sine
    return x * scale, y * scale, z * scale
