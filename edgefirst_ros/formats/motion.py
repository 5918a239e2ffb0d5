"""Rig motion that no vehicle makes: ``check`` of every format reports it, and its writer says so before."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pymap3d

FASTEST_M_S = 100.0
"""360 km/h."""
HARDEST_M_S2 = 20.0
"""Twice what tyres hold; over half a second and more nothing on wheels changes its speed faster."""
JERKIEST_M_S2 = 60.0
"""From one pose to the next, bumps and kerbs included."""
FASTEST_TURN_RAD_S = 2 * np.pi
TURN_TOLERANCE_RAD = 0.2
"""A turn between two poses up to this is taken as noise."""

POSE_NOISE_M = 0.5
"""Poses are estimates, smoother than the fixes they come from."""
BLOCK = 10_000
"""Poses that are judged together."""
_OVERLAP = 50
"""Poses of the block before that are judged with them."""
_BASE_S = 0.5
"""Speeds are compared over at least this long; over less, position noise looks like acceleration."""

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MotionFault:
    """An impossible motion; ``index`` is that of the pose at its end."""

    index: int
    kind: str
    detail: str


class Motion:
    """Judges the poses of one rig, which come in order of time and in any portions.

    They are judged a block at a time, from the first one on, so that memory does not grow with them, and so
    that a writer finds what a check will find.

    Args:
        noise_m: what two positions may be off by without any motion.
        say: is called with each fault: seconds since the first pose, kind, detail.
        degrees: positions are latitudes and longitudes.
    """

    def __init__(
        self,
        noise_m: float,
        say: Callable[[float, str, str], None] = lambda *_: None,
        *,
        degrees: bool = False,
    ) -> None:
        moves = partial(_impossible_locations if degrees else impossible_moves, noise_m=noise_m)
        self._moves = _Blocks(moves, (-1,), self._take)
        self._turns = _Blocks(impossible_turns, (3, 3), self._take)
        self._say = say
        self._counts: Counter[str] = Counter()
        self._first: dict[str, tuple[float, str]] = {}

    def move(self, times_ns: Iterable[int], positions: Floats) -> None:
        """Add positions (N, 2) or (N, 3), in metres unless they are in degrees."""
        self._moves.add(times_ns, positions)

    def turn(self, times_ns: Iterable[int], rotations: Floats) -> None:
        """Add rotations (N, 3, 3)."""
        self._turns.add(times_ns, rotations)

    def finish(self) -> None:
        """Judge what waits for more."""
        self._moves.judge(least=1)
        self._turns.judge(least=1)

    def warning(self, name: str) -> str:
        """A sentence on all faults of a sequence, for its writer; empty without any."""
        if not self._counts:
            return ""
        faults = "; ".join(
            f"{kind} {'once' if count == 1 else f'{count:,} times'}, "
            f"{'' if count == 1 else 'the first '}after {self._first[kind][0]:.3f} s: {self._first[kind][1]}"
            for kind, count in self._counts.items()
        )
        return (
            f"{name}: the rig moves as no vehicle can ({faults}), which check reports as errors: "
            "look for wrong values or stamps of the IMU, GPS or odometry"
        )

    def _take(self, at_s: float, fault: MotionFault) -> None:
        self._counts[fault.kind] += 1
        self._first.setdefault(fault.kind, (at_s, fault.detail))
        self._say(at_s, fault.kind, fault.detail)


class _Blocks:
    """Poses that wait until there is a block of them."""

    def __init__(
        self,
        find: Callable[[Times, Floats], Iterator[MotionFault]],
        shape: tuple[int, ...],
        take: Callable[[float, MotionFault], None],
    ) -> None:
        self._find, self._shape, self._take = find, shape, take
        self._times_ns: array[int] = array("q")
        self._values: array[float] = array("d")
        self._width = self._judged = 0
        self._start_ns: int | None = None

    def add(self, times_ns: Iterable[int], values: Floats) -> None:
        self._width = values[:1].size or self._width
        self._times_ns.extend(times_ns)
        self._values.frombytes(np.ascontiguousarray(values, np.float64).tobytes())
        self.judge(least=BLOCK)

    def judge(self, least: int) -> None:
        """Judge block by block while there are so many poses that were not."""
        while len(self._times_ns) - self._judged >= least:
            count = min(len(self._times_ns), self._judged + BLOCK)
            times_ns = np.array(self._times_ns[:count], np.int64)
            values = np.array(self._values[: count * self._width]).reshape(count, *self._shape)
            start_ns = self._start_ns = int(times_ns[0]) if self._start_ns is None else self._start_ns
            with np.errstate(all="ignore"):  # of values that no vehicle has
                for fault in self._find(times_ns, values):
                    if fault.index >= self._judged:  # those before were said
                        self._take((int(times_ns[fault.index]) - start_ns) / 1e9, fault)
            self._judged = min(count, _OVERLAP)
            done = count - self._judged
            del self._times_ns[:done], self._values[: done * self._width]


def location_motion(say: Callable[[float, str, str], None] = lambda *_: None, *, single: bool) -> Motion:
    """Judges the locations of an EdgeFirst table; in single precision degrees are up to 0.85 m apart."""
    return Motion(4.0 if single else 2.0, say, degrees=True)  # other tools write unfiltered fixes


def _impossible_locations(times_ns: Times, degrees: Floats, noise_m: float) -> Iterator[MotionFault]:
    """As ``impossible_moves``, by latitude and longitude; heights change distances by a thousandth."""
    ecef_m = np.stack(pymap3d.geodetic2ecef(degrees[:, 0], degrees[:, 1], np.zeros(len(degrees))), axis=1)
    return impossible_moves(times_ns, ecef_m, noise_m)


def impossible_moves(times_ns: Times, positions_m: Floats, noise_m: float) -> Iterator[MotionFault]:
    """Speeds, accelerations and jumps that no vehicle makes, each run of them once.

    Args:
        times_ns: (N,); poses whose time does not increase are skipped, as they are reported elsewhere.
        positions_m: (N, 2) or (N, 3) in one frame; rows that are not finite are passed over.
        noise_m: what two positions may be off by without any motion.
    """
    kept = np.isfinite(positions_m).all(axis=1)
    kept &= np.concatenate([[True], np.diff(times_ns) > 0]) if len(times_ns) else kept
    index = np.flatnonzero(kept)
    time_s, place_m = (times_ns[index] - times_ns[:1].sum()) / 1e9, positions_m[index]
    if len(index) < 2:
        return
    step_s, step_m = np.diff(time_s), np.diff(place_m, axis=0)
    moved_m = np.linalg.norm(step_m, axis=1)
    fast = moved_m > noise_m + FASTEST_M_S * step_s
    for at in _starts(fast):
        found = f"{moved_m[at]:,.1f} m in {step_s[at]:.3f} s ({moved_m[at] / step_s[at]:,.0f} m/s)"
        yield MotionFault(int(index[at + 1]), "impossible speed", found)
    expected = step_m[:-1] * (step_s[1:] / step_s[:-1])[:, None]
    off_m = np.linalg.norm(step_m[1:] - expected, axis=1)
    reach_m = JERKIEST_M_S2 * step_s[1:] * (step_s[1:] + step_s[:-1]) / 2
    # What is expected leans on the noise of the step before, stretched as far as this step reaches.
    jump = (off_m > noise_m * (2 + step_s[1:] / step_s[:-1]) + reach_m) & ~fast[1:] & ~fast[:-1]
    for at in _starts(jump):
        found = f"{off_m[at]:,.1f} m from where the motion before goes, {step_s[at + 1]:.3f} s later"
        yield MotionFault(int(index[at + 2]), "jump of the position", found)
    yield from _accelerations(index, time_s, place_m, noise_m, index[1:][fast | np.append(False, jump)])


def impossible_turns(times_ns: Times, rotations: Floats) -> Iterator[MotionFault]:
    """Turns that no vehicle makes from one pose to the next, each run of them once.

    Args:
        times_ns: (N,).
        rotations: (N, 3, 3), orthonormal; those that are not finite are passed over.
    """
    kept = np.flatnonzero(np.isfinite(rotations).all(axis=(1, 2)))
    times_ns, rotations = times_ns[kept], rotations[kept]
    if len(times_ns) < 2:
        return
    step_s = np.diff(times_ns) / 1e9
    cosine = (np.einsum("nij,nij->n", rotations[1:], rotations[:-1]) - 1) / 2
    turned_rad = np.arccos(np.clip(cosine, -1, 1))
    bad = (step_s > 0) & (turned_rad > TURN_TOLERANCE_RAD + FASTEST_TURN_RAD_S * np.maximum(step_s, 0))
    for at in _starts(bad):
        yield MotionFault(
            int(kept[at + 1]), "impossible turn", f"{np.degrees(turned_rad[at]):.0f}° in {step_s[at]:.3f} s"
        )


def _accelerations(
    index: npt.NDArray[np.intp], time_s: Floats, place_m: Floats, noise_m: float, said: npt.NDArray[np.intp]
) -> Iterator[MotionFault]:
    """Changes of the speed taken over half a second and more; not what a jump already explains."""
    nodes = [0]
    for at in range(1, len(time_s)):
        if time_s[at] - time_s[nodes[-1]] >= _BASE_S:
            nodes.append(at)
    if len(nodes) < 3:
        return
    span_s, span_m = np.diff(time_s[nodes]), np.diff(place_m[nodes], axis=0)
    change_m_s = np.linalg.norm(np.diff(span_m / span_s[:, None], axis=0), axis=1)
    between_s = (span_s[1:] + span_s[:-1]) / 2
    bad = change_m_s > HARDEST_M_S2 * between_s + 4 * noise_m / np.minimum(span_s[1:], span_s[:-1])
    for at in _starts(bad):
        first, last = index[nodes[at]], index[nodes[at + 2]]
        if not ((said >= first) & (said <= last)).any():
            found = f"{change_m_s[at]:,.1f} m/s in {between_s[at]:.2f} s"
            yield MotionFault(int(last), "impossible acceleration", found)


def _starts(bad: npt.NDArray[np.bool_]) -> list[int]:
    """Where each run of true values begins; one that comes right after another is the way back from it."""
    starts: list[int] = np.flatnonzero(bad & ~np.concatenate([[False], bad[:-1]])).tolist()
    return starts
