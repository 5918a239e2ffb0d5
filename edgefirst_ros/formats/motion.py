"""Rig motion that no vehicle makes, as ``check`` of every format reports it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.findings import Findings

FASTEST_M_S = 100.0
"""360 km/h."""
HARDEST_M_S2 = 20.0
"""Twice what tyres hold; over half a second and more nothing on wheels changes its speed faster."""
JERKIEST_M_S2 = 60.0
"""From one pose to the next, bumps and kerbs included."""
FASTEST_TURN_RAD_S = 2 * np.pi
TURN_TOLERANCE_RAD = 0.2
"""A turn between two poses up to this is taken as noise."""

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
        rotations: (N, 3, 3), orthonormal.
    """
    if len(times_ns) < 2:
        return
    step_s = np.diff(times_ns) / 1e9
    cosine = (np.einsum("nij,nij->n", rotations[1:], rotations[:-1]) - 1) / 2
    turned_rad = np.arccos(np.clip(cosine, -1, 1))
    bad = (step_s > 0) & (turned_rad > TURN_TOLERANCE_RAD + FASTEST_TURN_RAD_S * np.maximum(step_s, 0))
    for at in _starts(bad):
        yield MotionFault(
            at + 1, "impossible turn", f"{np.degrees(turned_rad[at]):.0f}° in {step_s[at]:.3f} s"
        )


def report(faults: Iterator[MotionFault], where: str, times_ns: Times, findings: Findings) -> None:
    """Every fault as an error, ``where@time`` in seconds since the first pose."""
    for fault in faults:
        at_s = (int(times_ns[fault.index]) - int(times_ns[0])) / 1e9
        findings.error(f"{where}@{at_s:.3f} s", fault.kind, fault.detail)


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
