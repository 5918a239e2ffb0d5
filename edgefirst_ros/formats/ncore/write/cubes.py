"""Pairing of radar cubes with scans: until it is known which scan is nearest, a cube waits on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import cbor2

from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.ncore.prepare.parts import Cube

SAME_SCAN_US = 2_000
"""A cube this close after a scan is of that scan; no later one can be much nearer."""


class HeldCubes:
    """At most one waiting cube a radar, in a file as long as it waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cubes: dict[str, Cube] = {}

    @classmethod
    def load(cls, path: Path) -> HeldCubes:
        """What a killed writer held; nothing if the file is not whole."""
        held = cls(path)
        try:
            rows = cbor2.loads(path.read_bytes())
        except (OSError, cbor2.CBORError):
            return held
        for name, topic, frame_id, time_us, records in rows:
            held._cubes[name] = Cube(topic, frame_id, time_us, tuple((key, data) for key, data in records))
        return held

    def names(self) -> list[str]:
        """Radars with a waiting cube."""
        return list(self._cubes)

    def put(self, name: str, cube: Cube) -> int:
        """Hold a cube; it survives the process when this returns. The bytes written."""
        self._cubes[name] = cube
        return self._save()

    def get(self, name: str) -> Cube | None:
        """The waiting cube of a radar."""
        return self._cubes.get(name)

    def drop(self, name: str) -> None:
        """The cube found its place."""
        del self._cubes[name]
        self._save()

    def _save(self) -> int:
        if not self._cubes:
            self._path.unlink(missing_ok=True)
            return 0
        rows = [
            [name, cube.topic, cube.frame_id, cube.time_us, cube.records]
            for name, cube in self._cubes.items()
        ]
        return replace_file(self._path, cbor2.dumps(rows))


def nearest_scan(cube_us: int, last_us: int | None, next_us: int | None, tolerance_us: int) -> int | None:
    """Time of the scan that a cube belongs to, None if neither is near enough.

    Args:
        cube_us: time of the cube.
        last_us: the scan before it that has no cube.
        next_us: the scan after it.
        tolerance_us: farthest that a scan may be.
    """
    candidates = [(abs(scan - cube_us), scan) for scan in (last_us, next_us) if scan is not None]
    if not candidates:
        return None
    distance, scan = min(candidates)
    return scan if distance <= tolerance_us else None


class Scans(Protocol):
    """The scans that cubes can go to."""

    def last_scan(self, radar: str) -> int | None:
        """Time of the latest scan of a radar."""

    def free_scan(self, radar: str) -> int | None:
        """Time of the latest scan of a radar if it has no cube yet."""

    def attach(self, radar: str, scan_us: int, cube: Cube) -> int:
        """Append a cube to a scan; the bytes written."""

    def alone(self, radar: str, cube: Cube) -> int | str:
        """Append a scan without detections for a cube; the bytes written, or why not."""


class CubePairing:
    """Puts every cube to the scan nearest in time, or to one of its own where none is near."""

    def __init__(self, held: HeldCubes, scans: Scans, tolerance_us: int) -> None:
        self._held = held
        self._scans = scans
        self._tolerance_us = tolerance_us
        self._latest_us: dict[str, int] = {}

    def offer(self, radar: str, cube: Cube) -> int | str:
        """Take a cube; the bytes written, or why it cannot be stored."""
        if cube.time_us <= self._latest_us.get(radar, -1):
            return "not after the cube before"
        written = self.settle(radar)
        last_us, free_us = self._scans.last_scan(radar), self._scans.free_scan(radar)
        age_us = cube.time_us - last_us if last_us is not None else self._tolerance_us + 1
        if age_us <= 0 and (free_us is None or -age_us > self._tolerance_us):
            return "no scan without a cube near it"
        self._latest_us[radar] = cube.time_us
        if age_us <= SAME_SCAN_US and free_us is not None:
            return written + self._scans.attach(radar, free_us, cube)
        return written + self._held.put(radar, cube)

    def before_scan(self, radar: str, scan_us: int) -> int:
        """A scan is about to be appended: place the waiting cube unless it is nearest to that one."""
        cube = self._held.get(radar)
        if cube is None:
            return 0
        near_us = nearest_scan(cube.time_us, self._scans.free_scan(radar), scan_us, self._tolerance_us)
        if near_us == scan_us or scan_us < cube.time_us:
            return 0
        return self._place(radar, cube, near_us)

    def after_scan(self, radar: str, scan_us: int) -> int:
        """A scan was appended: it is the nearest to a cube that still waits."""
        cube = self._held.get(radar)
        if cube is None or abs(cube.time_us - scan_us) > self._tolerance_us:
            return 0
        return self._place(radar, cube, scan_us)

    def settle(self, radar: str) -> int:
        """No more scans will come before the next cube: place the one that waits."""
        cube = self._held.get(radar)
        if cube is None:
            return 0
        free_us = self._scans.free_scan(radar)
        return self._place(radar, cube, nearest_scan(cube.time_us, free_us, None, self._tolerance_us))

    def settle_all(self) -> None:
        """The sequence ends: place every cube that waits."""
        for radar in self._held.names():
            self.settle(radar)

    def _place(self, radar: str, cube: Cube, scan_us: int | None) -> int:
        if scan_us is None:
            written = self._scans.alone(radar, cube)
        else:
            written = self._scans.attach(radar, scan_us, cube)
        self._held.drop(radar)
        return written if isinstance(written, int) else 0
