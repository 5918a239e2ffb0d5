"""IMU samples between two nodes of the graph, preintegrated by GTSAM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import gtsam
import numpy as np
import numpy.typing as npt

from edgefirst_ros.ego.geometry import STANDARD_GRAVITY_M_S2, Floats, Quaternion, Vector, rot3
from edgefirst_ros.model.navigation import Imu
from edgefirst_ros.model.transform import product

ROW_NS = 50_000_000
"""Distance of the path's rows between two nodes: a vehicle's body sways at 1 to 3 Hz."""
SILENT_NS = 250_000_000
"""Samples further apart than this are not interpolated."""
HELD_NS = 50_000_000
"""At a node, a sample this old still applies."""
STEP_NS = 10_000_000
"""Samples are integrated in such steps: 100 Hz is ten times what a body on springs does."""
LEAST_FORCE_M_S2, MOST_FORCE_M_S2 = 3.0, 160.0
"""Valid specific forces: below, there is no accelerometer or gravity was removed; ranges end at 16 g."""
QUIET_ROWS = 10
QUIET_FORCE_M_S2, QUIET_RATE_RAD_S = 0.15, 0.02
"""The IMU is quiet while forces and rates vary by less than this, and rates are within a gyroscope's bias."""

GYRO, FORCE = 1.5e-4, 0.01
"""Least noise of rates, rad/s/√Hz, and forces, m/s²/√Hz: twice a MEMS sensor's own, for vibration."""
VIBRATION, CALM_S = 2.0, 0.5
"""Noise is so much larger than the sensor's own, which is the least scatter of its samples over this time."""
SCALE = 0.065
"""A gyroscope is wrong by 3 % of what it measures, for seconds: rad/s/√Hz for each rad/s."""
BLIND_TURN, BLIND_SWAY = 0.3, 0.02
"""Without a gyroscope: yaw rate, and roll and pitch rates, rad/s/√Hz: a car turns round in ten seconds."""
BLIND_FORCE = 1.5
"""Without an accelerometer: acceleration, m/s²/√Hz."""

SAMPLE_COLUMNS = 10
"""Orientation (x, y, z, w), rate (3), force (3); NaN where unknown."""


Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Segment:
    """What the IMU measured between two nodes, in the rig's axes as configured.

    Attributes:
        dt_s: its length.
        measured: preintegrated.
        inner: seconds from its start, and the motion since, without gravity.
        rate_rad_s: at its end, bias included (3,).
        turns: rates were measured all the time.
        feels: forces were.
        quiet: nothing moved during the last half second.
        orientation: of the IMU's own in the rig's axes, at the end; None if it has none there.
    """

    dt_s: float
    measured: gtsam.PreintegratedImuMeasurements
    inner: Sequence[tuple[float, gtsam.NavState]]
    rate_rad_s: Floats
    turns: bool
    feels: bool
    quiet: bool
    orientation: gtsam.Rot3 | None


def sample_row(imu: Imu) -> tuple[float, ...]:
    """A sample's ten numbers; drivers without an orientation send zeros, or that of no rotation."""
    told = imu.orientation_xyzw
    orientation = (math.nan,) * 4 if told is None or told == (0.0, 0.0, 0.0, 1.0) else told
    return (*orientation, *imu.angular_velocity_rad_s, *imu.linear_acceleration_m_s2)


def _sound(samples: Floats) -> Floats:
    """Rates and forces (n, 6) of samples (n, 10), NaN where they cannot be."""
    felt = samples[:, 4:].copy()
    rate, force = felt[:, :3], felt[:, 3:]
    # Drivers without a gyroscope send zero, though their orientation turns by more than its noise.
    unturned = len(rate) > 0 and (rate == 0).all() and (np.ptp(samples[:, :4], axis=0) > 0.005).any()
    rate[unturned | ~np.isfinite(rate).all(axis=1)] = np.nan
    size = np.sqrt(np.einsum("ij,ij->i", force, force))
    force[~((size >= LEAST_FORCE_M_S2) & (size <= MOST_FORCE_M_S2))] = np.nan
    return felt


_UNKNOWN = np.full((1, 6), np.nan)


def _pull(rate_rad_s: Floats, at_s: Floats, arm_m: Floats) -> Floats:
    """What a sensor at an arm (3,) feels of the turning (n, 3), m/s²: inwards, and aside as it changes."""
    faster = np.gradient(rate_rad_s, at_s, axis=0)
    pull: Floats = np.cross(faster, arm_m) + np.cross(rate_rad_s, np.cross(rate_rad_s, arm_m))
    return pull


class Preintegrator:
    """Cuts samples into segments, some at a time, in order.

    Args:
        rig_from_imu_xyzw: rotates from the IMU's axes to the rig's.
        imu_m: where it is in the rig: what turns pulls at it.
    """

    def __init__(self, rig_from_imu_xyzw: Quaternion | None, imu_m: Vector = (0.0, 0.0, 0.0)) -> None:
        self._imu_m = np.array(imu_m)
        self._rig_from_imu = gtsam.Rot3() if rig_from_imu_xyzw is None else rot3(rig_from_imu_xyzw)
        self._own = np.full(2, np.inf)
        """The sensor's own noise of rates and forces so far."""

    def segments(self, cuts_ns: Sequence[int], times_ns: Sequence[int], samples: Floats) -> list[Segment]:
        """What was measured between each two neighbours of ascending times.

        Args:
            cuts_ns: the times.
            times_ns: of the samples, from half a second before the first cut on.
            samples: as ``sample_row`` gives them (n, 10).
        """
        times = np.array(times_ns, np.int64)
        # Nothing is integrated through a long silence.
        steps = (np.arange(a, b, max(STEP_NS, (b - a) // 1000)) for a, b in pairwise(cuts_ns))
        grid = np.concatenate([*steps, cuts_ns[-1:]])
        owner = np.searchsorted(cuts_ns, grid[:-1], "right") - 1
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        dt = np.diff(grid) / 1e9
        # Means over a row's time: a vehicle sways slower, an engine vibrates faster.
        before = np.add.outer(cuts_ns[1:], ROW_NS * np.arange(-QUIET_ROWS, 1))
        sums = self._integrals(np.append(grid, before), times, samples)
        felt = np.diff(sums[: len(grid)], axis=0) / dt[:, None]
        parts = np.diff(sums[len(grid) :].reshape(*before.shape, -1), axis=1) / (ROW_NS / 1e9)
        quiet = _is_quiet(parts)
        # Within a segment all is known or nothing.
        known = np.add.reduceat(felt[:, 6:], starts) == 0
        least = np.maximum((GYRO, FORCE), np.where(np.isfinite(self._own), VIBRATION * self._own, 0.0))
        gyro, push = (float(f"{each:.1e}") for each in least.tolist())
        axes = self._rig_from_imu.matrix().T
        rate = np.where(known[owner, :1], felt[:, :3] @ axes, 0.0)
        force = np.where(known[owner, 1:], felt[:, 3:6] @ axes, (0.0, 0.0, STANDARD_GRAVITY_M_S2))
        if self._imu_m.any() and len(rate) > 1:
            force = force - _pull(rate, np.cumsum(dt) - 0.5 * dt, self._imu_m)
        # GTSAM takes a force to be in the axes at the step's beginning; it is a mean, of its middle.
        turned_force = force + 0.5 * dt[:, None] * np.cross(rate, force)
        since_ns = grid[:-1] - np.array(cuts_ns)[owner]
        told = np.searchsorted(times, cuts_ns[1:], "right") - 1
        until_s = since_ns / 1e9 + dt
        found = []
        for number, (start, end) in enumerate(pairwise([*starts.tolist(), len(owner)])):
            turns, feels = known[number].tolist()
            turning: tuple[float, ...] = (BLIND_SWAY, BLIND_SWAY, BLIND_TURN)
            if turns:
                fastest = np.abs(rate[start:end]).max(axis=0).tolist()
                turning = tuple(float(f"{math.hypot(gyro, SCALE * each):.1e}") for each in fastest)
            pim = gtsam.PreintegratedImuMeasurements(_parameters(turning, push if feels else BLIND_FORCE))
            inner, due_s = [], ROW_NS / 1e9
            for index, at_s in enumerate(until_s[start:end].tolist(), start):
                pim.integrateMeasurement(turned_force[index], rate[index], dt[index])
                if at_s >= due_s and index + 1 < end and turns and feels:
                    due_s = at_s + ROW_NS / 1e9
                    inner.append((at_s, pim.deltaXij()))
            found.append(
                Segment(
                    (cuts_ns[number + 1] - cuts_ns[number]) / 1e9,
                    pim,
                    inner,
                    rate[end - 1],
                    turns,
                    feels,
                    bool(quiet[number]),
                    self._oriented(cuts_ns[number + 1], told[number], times_ns, samples),
                )
            )
        return found

    def _integrals(self, grid: Integers, times: Integers, samples: Floats) -> Floats:
        """Integrals over time (n, 8), up to each time of a grid.

        They are of rates, forces, and whether either is unknown.
        """
        felt, apart_ns = _sound(samples), np.diff(times)
        self._learn(felt, apart_ns)
        means = 0.5 * (felt[:-1] + felt[1:])
        if np.isnan(felt[:, 0]).all() and np.isfinite(samples[:, 0]).all() and len(means):
            # Some send no rates: a small turn is twice its quaternion's vector.
            turn = product(samples[:-1, :4] * (-1, -1, -1, 1), samples[1:, :4])
            means[:, :3] = 2e9 * turn[:, :3] * np.sign(turn[:, 3:]) / np.maximum(apart_ns, 1)[:, None]
        means[apart_ns > SILENT_NS] = np.nan
        held = len(means) and grid.max() - times[-1] <= HELD_NS
        means = np.concatenate([_UNKNOWN, means, means[-1:] if held else _UNKNOWN])[: len(times) + 1]
        edges = np.concatenate([[min([grid.min(), *times[:1]])], times, [max([grid.max(), *times[-1:]])]])
        table = np.concatenate([np.nan_to_num(means), np.isnan(means[:, [0, 3]])], axis=1)
        sums = np.cumsum(table * np.diff(edges)[:, None] / 1e9, axis=0)
        at_ns = edges - edges[0]
        return np.stack([np.interp(grid - edges[0], at_ns, [0.0, *each]) for each in sums.T], axis=1)

    def _learn(self, felt: Floats, apart_ns: Integers) -> None:
        """Learn the sensor's own noise from second differences, in which smooth motion drops out."""
        step_s = float(np.median(apart_ns)) / 1e9 if len(apart_ns) else 0.0
        count = round(CALM_S / step_s) if step_s > 0 else 0
        bends = np.diff(felt, 2, axis=0) ** 2
        if count > 10 and len(bends) >= count:
            calm = bends[: len(bends) // count * count].reshape(-1, count, 2, 3).mean(axis=(1, 3))
            # White noise has six times its variance there.
            self._own = np.fmin(self._own, np.sqrt(np.fmin.reduce(calm, axis=0) / 6 * step_s))

    def _oriented(
        self, end_ns: int, index: int, times_ns: Sequence[int], samples: Floats
    ) -> gtsam.Rot3 | None:
        """The IMU's own orientation at the last sample before an end, if it is recent."""
        if index < 0 or end_ns - times_ns[index] > HELD_NS or not math.isfinite(samples[index, 0]):
            return None
        return rot3(samples[index, :4].tolist()).compose(self._rig_from_imu.inverse())


def _is_quiet(parts: Floats) -> Booleans:
    """Whether nothing moved (n,), from means of rates and forces, and what is unknown (n, parts, 8)."""
    means = parts.mean(axis=1)
    sways = np.abs(parts - means[:, None]).max(axis=1)
    return np.asarray(
        (means[:, 6:] == 0).all(axis=1)
        & (np.linalg.norm(sways[:, 3:6], axis=1) < QUIET_FORCE_M_S2)
        & (np.linalg.norm(sways[:, :3], axis=1) < QUIET_RATE_RAD_S)
        & (np.linalg.norm(means[:, :3], axis=1) < QUIET_RATE_RAD_S)
    )


@lru_cache(10_000)
def _parameters(turning: tuple[float, ...], push: float) -> gtsam.PreintegrationParams:
    made = gtsam.PreintegrationParams.MakeSharedU(STANDARD_GRAVITY_M_S2)
    made.setGyroscopeCovariance(np.diag(np.square(turning)))
    made.setAccelerometerCovariance(np.eye(3) * push**2)
    made.setIntegrationCovariance(np.eye(3) * 1e-6)
    return made
