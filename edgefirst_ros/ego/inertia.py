"""IMU samples between two nodes of the graph, preintegrated by GTSAM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import gtsam
import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.geometry import Floats, Quaternion, rot3
from edgefirst_ros.messages.imu import Imu

ROW_NS = 50_000_000
"""Distance of the path's rows between two nodes: a vehicle's body sways at 1 to 3 Hz."""
SILENT_NS = 250_000_000
"""Samples further apart than this are not interpolated."""
HELD_NS = 50_000_000
"""At a node, a sample this old still applies."""
LEAST_NS = 9_500_000
"""Samples closer than this are taken together: 100 Hz is ten times what a body on springs does."""
LEAST_FORCE_M_S2, MOST_FORCE_M_S2 = 3.0, 160.0
"""Valid specific forces: below, there is no accelerometer or gravity was removed; ranges end at 16 g."""
QUIET_S = 0.5
QUIET_FORCE_M_S2, QUIET_RATE_RAD_S = 0.15, 0.02
"""The IMU is quiet while forces and rates vary by less than this, and rates are within a gyroscope's bias."""

GYRO, FORCE = 1.5e-4, 0.01
"""Noise of rates, rad/s/√Hz, and forces, m/s²/√Hz: twice a MEMS sensor's own, for vibration."""
GYRO_WALK, FORCE_WALK = 3e-5, 3e-4
"""Drift of their biases, rad/s/√s and m/s²/√s."""
BLIND_TURN, BLIND_SWAY = 0.3, 0.02
"""Without a gyroscope: yaw rate, and roll and pitch rates, rad/s/√Hz: a car turns round in ten seconds."""
BLIND_FORCE = 1.5
"""Without an accelerometer: acceleration, m/s²/√Hz."""

SAMPLE_COLUMNS = 10
"""Orientation (x, y, z, w), rate (3), force (3); NaN where unknown."""


Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """What the IMU measured between two nodes, in the rig's axes as configured.

    Attributes:
        dt_s: its length.
        measured: preintegrated.
        rows: within it (n, 7): seconds from its start, then change of velocity and position (m/s, m) since,
            without gravity.
        turns_at: change of rotation since its start at those rows.
        rate_rad_s: at its end, bias included (3,).
        force_m_s2: mean specific force (3,).
        turns: rates were measured all the time.
        feels: forces were.
        quiet: nothing moved during the last half second.
        orientation: of the IMU's own in the rig's axes, at the end; None if it has none there.
    """

    dt_s: float
    measured: gtsam.PreintegratedCombinedMeasurements
    rows: Floats
    turns_at: Sequence[gtsam.Rot3]
    rate_rad_s: Floats
    force_m_s2: Floats
    turns: bool
    feels: bool
    quiet: bool
    orientation: gtsam.Rot3 | None

    def __deepcopy__(self, _: object) -> Segment:
        return self  # nothing in it ever changes


def sample_row(imu: Imu) -> tuple[float, ...]:
    """A sample's ten numbers."""
    orientation = imu.orientation_xyzw or NO_ORIENTATION
    return (*orientation, *imu.angular_velocity_rad_s, *imu.linear_acceleration_m_s2)


def _sound(samples: Floats) -> Floats:
    """Rates and forces (n, 6) of samples (n, 10), NaN where they cannot be."""
    felt = samples[:, 4:].copy()
    rate, force = felt[:, :3], felt[:, 3:]
    # Drivers without a gyroscope send zero.
    unturned = (rate == 0).all(axis=1) & ~np.isnan(samples[:, 0])
    rate[unturned | ~np.isfinite(rate).all(axis=1)] = np.nan
    size = np.sqrt(np.einsum("ij,ij->i", force, force))
    force[~((size >= LEAST_FORCE_M_S2) & (size <= MOST_FORCE_M_S2))] = np.nan
    return felt


NO_ORIENTATION = (math.nan,) * 4
_UNKNOWN = np.full((1, 6), np.nan)
_NEXT, _AFTER = [1, 2, 0], [2, 0, 1]


class Preintegrator:
    """Cuts samples into segments.

    Args:
        rig_from_imu_xyzw: rotates from the IMU's axes to the rig's.
    """

    def __init__(self, rig_from_imu_xyzw: Quaternion | None) -> None:
        self._rig_from_imu = None if rig_from_imu_xyzw is None else rot3(rig_from_imu_xyzw)
        self._quiet = np.empty((0, 7))
        """Seconds from now, forces and rates of the last half second."""

    def segment(
        self, start_ns: int, end_ns: int, times_ns: Sequence[int], samples: Floats, gravity_m_s2: float
    ) -> Segment:
        """What was measured from ``start_ns`` to ``end_ns``.

        Args:
            start_ns: where it begins.
            end_ns: where it ends.
            times_ns: of the samples, from the last before the start on.
            samples: as ``sample_row`` gives them (n, 10).
            gravity_m_s2: what a vehicle at rest feels.
        """
        offset_s, dt, felt = self._intervals(start_ns, end_ns, np.array(times_ns, np.int64), samples)
        rate, force = felt[:, :3], felt[:, 3:]
        turns, feels = bool(np.isfinite(rate).all()), bool(np.isfinite(force).all())
        if not turns:
            rate = np.zeros_like(rate)
        if not feels:
            force = np.tile((0.0, 0.0, gravity_m_s2), (len(rate), 1))
        # GTSAM takes a force to be in the axes at the step's beginning; it is a mean, of its middle.
        turned_force = force + 0.5 * dt[:, None] * _cross(rate, force)
        pim = gtsam.PreintegratedCombinedMeasurements(_parameters(gravity_m_s2, turns, feels))
        rows, turns_at, due_s = [], [], ROW_NS / 1e9
        last = len(dt) - 1
        for index, (at_s, step_s, w, f) in enumerate(
            zip(offset_s.tolist(), dt.tolist(), rate, turned_force, strict=True)
        ):
            pim.integrateMeasurement(f, w, step_s)
            if index != last and at_s + step_s >= due_s and turns and feels:
                due_s = at_s + step_s + ROW_NS / 1e9
                rows.append((at_s + step_s, *pim.deltaVij(), *pim.deltaPij()))
                turns_at.append(pim.deltaRij())
        dt_s = (end_ns - start_ns) / 1e9
        orientation = None
        if len(times_ns) and end_ns - times_ns[-1] <= HELD_NS and math.isfinite(samples[-1, 0]):
            orientation = self._oriented(samples[-1, :4])
        share = (dt / dt_s)[:, None] if dt_s else np.ones((len(dt), 1))
        return Segment(
            dt_s,
            pim,
            np.array(rows).reshape(-1, 7),
            turns_at,
            rate[-1] if len(rate) else np.zeros(3),
            (force * share).sum(axis=0),
            turns,
            feels,
            self._is_quiet(turns and feels, dt, rate, force),
            orientation,
        )

    def _intervals(
        self, start_ns: int, end_ns: int, times_ns: Integers, samples: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Start, length, mean rate and force (n, 6) of the intervals between samples, cut at both ends."""
        felt, apart_ns = _sound(samples), np.diff(times_ns)
        means = 0.5 * (felt[:-1] + felt[1:])
        if np.isnan(felt[:, 0]).any() and np.isfinite(samples[:, 0]).all() and len(means):
            turned = np.isnan(means[:, :3])
            means[:, :3] = np.where(turned, _rates(samples[:, :4], apart_ns / 1e9), means[:, :3])
        means[apart_ns > SILENT_NS] = np.nan
        held = len(means) and end_ns - int(times_ns[-1]) <= HELD_NS
        means = np.concatenate([_UNKNOWN, means, means[-1:] if held else _UNKNOWN])[: len(times_ns) + 1]
        cuts = np.clip(np.concatenate([[start_ns], times_ns, [end_ns]]), start_ns, end_ns)
        inside = cuts[1:] > cuts[:-1]
        left, right, means = cuts[:-1][inside], cuts[1:][inside], means[inside]
        if len(left) > 1:
            left, right, means = _merged(left, right, means)
        if self._rig_from_imu is not None:
            axes = self._rig_from_imu.matrix().T
            means = np.concatenate([means[:, :3] @ axes, means[:, 3:] @ axes], axis=1)
        return (left - start_ns) / 1e9, (right - left) / 1e9, means

    def _oriented(self, orientation: Floats) -> gtsam.Rot3:
        turned = rot3(orientation.tolist())
        return turned if self._rig_from_imu is None else turned.compose(self._rig_from_imu.inverse())

    def _is_quiet(self, known: bool, dt: Floats, rate: Floats, force: Floats) -> bool:
        if not known or not len(dt):
            self._quiet = self._quiet[:0]
            return False
        parts = max(1, min(len(dt), round(float(dt.sum()) / (ROW_NS / 1e9))))
        starts = np.arange(parts) * len(dt) // parts
        table = np.concatenate([dt[:, None], force * dt[:, None], rate * dt[:, None]], axis=1)
        means = np.add.reduceat(table, starts)
        means[:, 1:] /= means[:, :1]
        recent = np.concatenate([self._quiet, means])
        age_s = np.cumsum(recent[::-1, 0])[::-1]
        recent = recent[age_s - recent[:, 0] < QUIET_S]
        self._quiet = recent
        if float(recent[:, 0].sum()) < 0.9 * QUIET_S:
            return False
        mean = recent[:, 1:].mean(axis=0)
        off = recent[:, 1:] - mean
        return bool(
            np.linalg.norm(off[:, :3], axis=1).max() < QUIET_FORCE_M_S2
            and np.linalg.norm(off[:, 3:], axis=1).max() < QUIET_RATE_RAD_S
            and np.linalg.norm(mean[3:]) < QUIET_RATE_RAD_S
        )


def _merged(left: Integers, right: Integers, felt: Floats) -> tuple[Integers, Integers, Floats]:
    """Intervals that are short put together, with their means: faster samples tell no more of a vehicle."""
    number = (left - left[0]) // LEAST_NS
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    if len(starts) == len(left):
        return left, right, felt
    dt = (right - left)[:, None] / 1e9
    ends = np.append(starts[1:], len(left)) - 1
    return left[starts], right[ends], np.add.reduceat(felt * dt, starts) / np.add.reduceat(dt, starts)


def _rates(orientations: Floats, dt_s: Floats) -> Floats:
    """Angular rates (n - 1, 3) between orientations (n, 4)."""
    turned = [rot3(each) for each in orientations.tolist()]
    between = [gtsam.Rot3.Logmap(before.between(after)) for before, after in pairwise(turned)]
    return np.array(between) / np.maximum(dt_s, 1e-9)[:, None]


def _cross(left: Floats, right: Floats) -> Floats:
    """Of rows (n, 3): ``numpy.cross`` takes five times as long."""
    return left[:, _NEXT] * right[:, _AFTER] - left[:, _AFTER] * right[:, _NEXT]


@cache
def _parameters(gravity_m_s2: float, turns: bool, feels: bool) -> gtsam.PreintegrationCombinedParams:
    made = gtsam.PreintegrationCombinedParams.MakeSharedU(gravity_m_s2)
    turning = (GYRO, GYRO, GYRO) if turns else (BLIND_SWAY, BLIND_SWAY, BLIND_TURN)
    made.setGyroscopeCovariance(np.diag(np.square(turning)))
    made.setAccelerometerCovariance(np.eye(3) * (FORCE if feels else BLIND_FORCE) ** 2)
    made.setIntegrationCovariance(np.eye(3) * 1e-6)
    made.setBiasOmegaCovariance(np.eye(3) * GYRO_WALK**2)
    made.setBiasAccCovariance(np.eye(3) * FORCE_WALK**2)
    return made
