"""Motion, size and class of tracks over time, for as many as are alive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.candidates import CLUSTER_KEYS
from edgefirst_ros.formats.l5kit.geometry import Floats
from edgefirst_ros.formats.l5kit.options import L5KitOptions

_KEPT = 16
_LEAST_WEIGHT = 0.1
_TOO_FAST_M_S = 50.0

_STATE = np.dtype([
    ("key", "<i8"),
    ("number", "<i8"),
    ("sightings", "<i8"),
    ("time_ns", "<i8", (_KEPT,)),
    ("place_m", "<f8", (_KEPT, 2)),
    ("heading_rad", "<f8"),
    ("size_m", "<f8", (3,)),
    ("label", "<f4", (17,)),
])  # fmt: skip
"""A track; its sightings newest first, times 0 where there were fewer."""


@dataclass(frozen=True, slots=True)
class Motion:
    """Of N sightings, in their order.

    ``number`` is the track's id in the scene; ``velocity_m_s`` (N, 2) in the world, 0 at the first sighting;
    ``heading_rad`` (N,), NaN if the track has not moved yet; ``rows`` are what ``smoothed`` wants.
    """

    number: npt.NDArray[np.int64]
    velocity_m_s: Floats
    heading_rad: Floats
    rows: npt.NDArray[np.intp]


class Tracks:
    """The tracks of one scene that were seen lately.

    A named track's id is its 32-bit key. The device uses the numbers of clusters again, so a cluster that
    was away, or that leapt at more than 50 m/s, gets a new id; these, and those of detections without a
    track, count up from 2³². Memory is that of the tracks seen within the timeout.
    """

    def __init__(self, options: L5KitOptions) -> None:
        self._timeout_ns = round(options.track_timeout_s * 1e9)
        self._window_ns = round(options.velocity_window_s * 1e9)
        self._moving_m_s = options.heading_speed_m_s
        self._state = np.zeros(0, _STATE)
        self._next = CLUSTER_KEYS

    def see(self, key: npt.NDArray[np.int64], place_m: Floats, time_ns: int) -> Motion:
        """Take the sightings of one frame, in order of time.

        Args:
            key: (N,), each once but 0, which is no track.
            place_m: (N, 2) in the world.
            time_ns: of the frame.
        """
        alive = self._state[time_ns - self._state["time_ns"][:, 0] <= self._timeout_ns]
        alive = alive[alive["key"] != 0]
        rows = self._rows(alive, key, place_m, time_ns)
        new = rows < 0
        rows[new] = len(alive) + np.arange(np.count_nonzero(new))
        self._state = np.concatenate([alive, self._born(key[new])])
        seen = self._state[rows]
        for field, now in (("time_ns", time_ns), ("place_m", place_m)):
            seen[field][:, 1:] = seen[field][:, :-1].copy()
            seen[field][:, 0] = now
        seen["sightings"] += 1
        velocity = self._velocity(seen, time_ns)
        moving = np.hypot(velocity[:, 0], velocity[:, 1]) >= self._moving_m_s
        seen["heading_rad"][moving] = np.arctan2(velocity[moving, 1], velocity[moving, 0])
        self._state[rows] = seen
        return Motion(seen["number"], velocity, seen["heading_rad"], rows)

    def smoothed(
        self, motion: Motion, size_m: Floats, label: npt.NDArray[np.float32]
    ) -> tuple[Floats, npt.NDArray[np.float32]]:
        """Sizes (N, 3) and label probabilities (N, 17), averaged over each track.

        The average of the first ten sightings is plain; after that a new one counts a tenth.
        """
        state = self._state[motion.rows]
        weight = np.maximum(1 / state["sightings"], _LEAST_WEIGHT)[:, None]
        state["size_m"] += weight * (size_m - state["size_m"])
        state["label"] += (weight * (label - state["label"])).astype(np.float32)
        self._state[motion.rows] = state
        total = state["label"].sum(axis=1, keepdims=True)
        return state["size_m"], state["label"] / total

    def _rows(
        self, alive: npt.NDArray[np.void], key: npt.NDArray[np.int64], place_m: Floats, time_ns: int
    ) -> npt.NDArray[np.intp]:
        """Where each sighting's track is among the living; -1 for a new one. A cluster that leapt is new."""
        order = np.argsort(alive["key"])
        at = np.searchsorted(alive["key"][order], key)
        rows = np.full(len(key), -1, np.intp)
        if len(alive):
            candidate = order[np.minimum(at, len(alive) - 1)]
            same = alive["key"][candidate] == key
            step_s = (time_ns - alive["time_ns"][candidate, 0]) / 1e9
            leap = np.linalg.norm(place_m - alive["place_m"][candidate, 0], axis=1)
            same &= (key < CLUSTER_KEYS) | (leap <= _TOO_FAST_M_S * step_s)
            rows[same] = candidate[same]
        alive["key"][np.isin(alive["key"], key[rows < 0])] = 0
        return rows

    def _born(self, key: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        state = np.zeros(len(key), _STATE)
        state["key"] = state["number"] = key
        state["heading_rad"] = np.nan
        nameless = (key == 0) | (key >= CLUSTER_KEYS)
        count = int(np.count_nonzero(nameless))
        state["number"][nameless] = self._next + np.arange(count)
        self._next += count
        return state

    def _velocity(self, seen: npt.NDArray[np.void], time_ns: int) -> Floats:
        """Slope of the straight line of least squares through the window's positions, at least two."""
        age_ns = time_ns - seen["time_ns"]
        known = np.arange(_KEPT) < np.minimum(seen["sightings"], _KEPT)[:, None]
        used = known & ((age_ns <= self._window_ns) | (np.arange(_KEPT) < 2))
        weight = used / np.maximum(used.sum(axis=1, keepdims=True), 1)
        at_s = np.where(used, -age_ns / 1e9, 0.0)
        at_s = np.where(used, at_s - (weight * at_s).sum(axis=1, keepdims=True), 0.0)
        spread = (at_s**2).sum(axis=1, keepdims=True)
        slope = (at_s[..., None] * np.where(used[..., None], seen["place_m"], 0.0)).sum(axis=1)
        velocity: Floats = np.divide(slope, spread, out=np.zeros_like(slope), where=spread > 0)
        return velocity
