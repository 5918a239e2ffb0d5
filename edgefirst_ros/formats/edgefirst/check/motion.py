"""Checks that vehicles can move as the locations of samples and the times of their pictures say."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.findings import Findings
from edgefirst_ros.formats.motion import location_motion


@dataclass(slots=True)
class FrameTimes:
    """Times of a sequence's frames, 16 bytes per frame."""

    frames: array[int] = field(default_factory=lambda: array("q"))
    times_ns: array[int] = field(default_factory=lambda: array("q"))

    def add(self, frame: int, time_ns: int) -> None:
        """Add a frame; in any order."""
        self.frames.append(frame)
        self.times_ns.append(time_ns)

    def of(self, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Times of these frames in nanoseconds (N,); -1 if unknown."""
        frames, times_ns = np.array(self.frames, np.int64), np.array(self.times_ns, np.int64)
        order = np.argsort(frames, kind="stable")
        at = np.minimum(np.searchsorted(frames[order], wanted), len(frames) - 1)
        there = frames[order][at] == wanted
        return np.where(there, times_ns[order][at], -1)


@dataclass(slots=True)
class FrameLocations:
    """Locations of a sequence's frames in degrees, in the order of the table's values; 24 bytes per frame."""

    frames: array[int] = field(default_factory=lambda: array("q"))
    degrees: array[float] = field(default_factory=lambda: array("d"))

    def add(self, frame: int, place_deg: Sequence[float]) -> None:
        """Add a frame; in any order."""
        self.frames.append(frame)
        self.degrees.extend(place_deg)


def check_motion(
    where: str, locations: FrameLocations, times: FrameTimes, version: str, findings: Findings
) -> None:
    """Add a finding for moves of one sequence that no vehicle can make."""
    frames = np.array(locations.frames, np.int64)
    degrees = np.array(locations.degrees).reshape(-1, 2)
    order = np.argsort(frames, kind="stable")
    frames, degrees = frames[order], degrees[order]
    taken_ns = times.of(frames)
    latitude, longitude = degrees.T[::-1] if version == "2025.01" else degrees.T
    known = (taken_ns >= 0) & (np.abs(latitude) <= 90) & (np.abs(longitude) <= 360)
    if np.count_nonzero(known) < 2:
        return
    latitude, longitude, taken_ns = latitude[known], longitude[known], taken_ns[known]
    motion = location_motion(findings.at(where), single=version != "2025.01")
    motion.move(taken_ns, np.stack((latitude, longitude), axis=1))
    motion.finish()
