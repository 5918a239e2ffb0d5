"""What samples consist of, in four bytes each, and whether a vehicle can move like that."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import Findings
from edgefirst_ros.formats.motion import location_motion

KINDS = (
    "camera.jpeg",
    "camera.png",
    "depth.png",
    "radar.png",
    "radar.pcd",
    "lidar.png",
    "lidar.pcd",
    "lidar.jpeg",
)
"""Kinds of sensor files; a sample has one of the first two."""

BIT = {kind: 1 << number for number, kind in enumerate(KINDS)}
CAMERA = BIT["camera.jpeg"] | BIT["camera.png"]
FILES = (1 << len(KINDS)) - 1
"""Any sensor file."""

ANNOTATED = 1 << 8
"""The table has rows with annotations for the sample."""
BARE = 1 << 9
"""The table has a row without annotation for the sample."""
ROWS = ANNOTATED | BARE

_PAGE = 64
"""Frames that are noted together; few, as a damaged table may have any numbers of frames."""


class Samples:
    """Bits of all samples by sequence and frame number, in arrays, because a day has a million samples."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[int, array[int]]] = {}

    def add(self, sequence: str, frame: int, bits: int) -> int:
        """Set bits of a sample; returns those that were set before."""
        pages = self._pages.setdefault(sequence, {})
        page = pages.get(frame // _PAGE)
        if page is None:
            page = pages[frame // _PAGE] = array("I", bytes(4 * _PAGE))
        before = page[frame % _PAGE]
        page[frame % _PAGE] = before | bits
        return before

    def sequences(self) -> list[str]:
        """Sorted names of the sequences."""
        return sorted(self._pages)

    def of(self, sequence: str) -> Iterator[tuple[int, int]]:
        """Frame number and bits of the samples of a sequence, in order."""
        pages = self._pages[sequence]
        for number in sorted(pages):
            for offset, bits in enumerate(pages[number]):
                if bits:
                    yield number * _PAGE + offset, bits


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
