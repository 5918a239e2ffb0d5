"""Speeds of the rig that no vehicle has: the writer of every format warns of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d

FASTEST_M_S = 100.0
"""360 km/h."""
POSE_NOISE_M = 0.5
"""Poses are estimates, smoother than the fixes they come from."""
SEVERAL = 256
"""Positions that a writer gives at a time, which take as long as one."""

Floats = npt.NDArray[np.float64]


class Motion:
    """Judges the positions of one rig, which come in order of time and in any portions.

    Times that do not increase and values that are not finite are passed over, as they are reported elsewhere.

    Args:
        noise_m: what two positions may be off by without any motion.
        degrees: positions are latitudes and longitudes; heights change distances by a thousandth.
        single: they are stored in single precision.
    """

    def __init__(self, noise_m: float, *, degrees: bool = False, single: bool = False) -> None:
        self._noise_m, self._degrees, self._dtype = noise_m, degrees, "f4" if single else "f8"
        self._start_ns: int | None = None
        self._last: tuple[int, Floats] | None = None
        self._was_fast = False
        self._count = 0
        self._first = ""

    def judge(self, places: list[tuple[int, Any]]) -> None:
        """Take what a writer has gathered, times and positions, out of its list."""
        if places:
            times_ns, positions = zip(*places, strict=True)
            self.move(times_ns, np.array(positions, self._dtype).astype(np.float64))
            places.clear()

    def move(self, times_ns: Iterable[int], positions: Floats) -> None:
        """Add positions (N, 2) or (N, 3), in metres unless they are in degrees."""
        times = np.fromiter(times_ns, np.int64)
        if not len(times):
            return
        self._start_ns = int(times[0]) if self._start_ns is None else self._start_ns
        with np.errstate(all="ignore"):  # of values that no vehicle has
            if self._degrees:
                at = pymap3d.geodetic2ecef(positions[:, 0], positions[:, 1], np.zeros(len(positions)))
                positions = np.stack(at, axis=1)
            if self._last is not None:
                times = np.concatenate([[self._last[0]], times])
                positions = np.concatenate([self._last[1][None], positions])
            newest = np.maximum.accumulate(times)
            kept = np.isfinite(positions).all(axis=1) & (np.diff(newest, prepend=times[0] - 1) > 0)
            times, positions = times[kept], positions[kept]
            if len(times):
                self._judge(times, positions)

    def _judge(self, times: npt.NDArray[np.int64], positions_m: Floats) -> None:
        step_s = np.diff(times) / 1e9
        moved_m = np.linalg.norm(np.diff(positions_m, axis=0), axis=1)
        fast = moved_m > self._noise_m + FASTEST_M_S * step_s
        # One that comes right after another is the way back from it.
        for at in np.flatnonzero(fast & ~np.concatenate([[self._was_fast], fast[:-1]])).tolist():
            found = f"{moved_m[at]:,.1f} m in {step_s[at]:.3f} s ({moved_m[at] / step_s[at]:,.0f} m/s)"
            at_s = (int(times[at + 1]) - (self._start_ns or 0)) / 1e9
            self._count += 1
            self._first = self._first or f"after {at_s:.3f} s: {found}"
        self._was_fast = bool(fast[-1]) if len(fast) else self._was_fast
        self._last = int(times[-1]), positions_m[-1]

    def warning(self, name: str) -> str:
        """A sentence on all of a sequence, for its writer; empty without any."""
        if not self._count:
            return ""
        times = "once, " if self._count == 1 else f"{self._count:,} times, the first "
        return (
            f"{name}: the rig moves as no vehicle can (impossible speed {times}{self._first}): "
            "look for wrong values or stamps of the IMU, GPS or odometry"
        )


def location_motion(*, single: bool) -> Motion:
    """Judges the locations of an EdgeFirst table; in single precision degrees are up to 0.85 m apart."""
    return Motion(4.0 if single else 2.0, degrees=True, single=single)  # other tools write unfiltered fixes
