"""The stores of one sequence: which instance goes where; what is appended is committed by the journal.

Pairing of radar cubes with scans: until it is known which scan is nearest, a cube waits on disk.
"""

from __future__ import annotations

import io
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import cbor2

from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.ncore.finish.sequence import COMMON
from edgefirst_ros.formats.ncore.options import Profile, StoreType
from edgefirst_ros.formats.ncore.prepare.parts import Cube, Json
from edgefirst_ros.formats.ncore.prepare.scans import empty_scan
from edgefirst_ros.formats.ncore.store.base import ADVICE, TIMES, EntryTimes, Instance, Store, new_groups
from edgefirst_ros.formats.ncore.store.files import SequenceFiles, create_store
from edgefirst_ros.formats.ncore.store.journal import FactJournal
from edgefirst_ros.formats.zarr2 import ATTRIBUTES_KEY, Record, json_bytes, under
from edgefirst_ros.model.untrusted import read_regular
from edgefirst_ros.model.zlib_backend import crc32

_BUILT_IN = {"cameras", "lidars", "radars", "point_clouds", "camera_labels"}


class StoreSet:
    """Stores by component group, begun when their first entry comes.

    Args:
        files: where the sequence is.
        kind: of its stores.
        profile: which instances share one.
        journal: takes what is committed; None where a sequence is recovered, which begins anew each time.
        recovered: stores that are there.

    Attributes:
        open: the stores so far.
    """

    def __init__(
        self,
        files: SequenceFiles,
        kind: StoreType,
        profile: Profile,
        journal: FactJournal | None,
        *,
        recovered: dict[str, Store] | None = None,
    ) -> None:
        self.open: dict[str, Store] = {} if recovered is None else recovered
        self._files = files
        self._kind: StoreType = kind
        self._profile = profile
        self._journal = journal
        self._lock = threading.Lock()
        self._begun: list[Store] = []

    def times(self, instance: Instance) -> EntryTimes | None:
        """The entries of an instance, None if it has none."""
        store = self.open.get(self._group(instance))
        return store.contents.instances.get(instance) if store else None

    def append(
        self,
        instance: Instance,
        collection: str,
        span_us: tuple[int, int],
        records: Sequence[Record],
        *,
        attributes: Json,
        shared: Json | None = None,
    ) -> int | str:
        """Append an entry and its mark; the bytes written, or why it cannot be appended.

        Args:
            instance: component and name.
            collection: group of the instance that holds its entries.
            span_us: start and end of the entry, both later than those of the entry before.
            records: below the entry's group.
            attributes: of the entry's group, beside its times.
            shared: attributes of the collection, written with the first entry.

        Raises:
            WriteError: the disk is full or gone.
        """
        store = self._store(instance)
        times = store.contents.instances.get(instance) or EntryTimes(collection)
        start_us, end_us = span_us
        if len(times) and end_us <= times.ends[-1]:
            return "same time as the one before" if end_us == times.ends[-1] else "time goes back"
        if len(times) and collection == "frames" and start_us <= times.starts[-1]:
            return "starts before the one before it"
        base = "/".join((*instance, collection))
        batch = []
        if not len(times):
            batch += new_groups(store, base)
            if shared is not None:
                batch.append((f"{base}/{ATTRIBUTES_KEY}", json_bytes(shared)))
        key = len(times) if collection == "pcs" else end_us
        mark = json_bytes({**attributes, TIMES: [start_us, end_us]})
        batch += under(f"{base}/{key}", [*records, (ATTRIBUTES_KEY, mark)])
        written = self.commit(instance, batch)
        times.add(start_us, end_us)
        store.contents.instances[instance] = times
        return written

    def commit(self, instance: Instance, records: Sequence[Record]) -> int:
        """Append a batch to the store of an instance, and commit it; the bytes written.

        Raises:
            WriteError: the disk is full or gone; if it takes no journal, nothing more can be appended.
        """
        store = self._store(instance)
        batch = store.append(records)
        if self._journal is not None:
            try:
                self._journal.commit(self._group(instance), batch)
            except BaseException:
                store.release()  # behind a batch that the journal does not have none could be kept
                raise
        return batch.size

    def unsynced(self) -> list[Path]:
        """Files and folders that have changed since the last call; any thread."""
        with self._lock:
            begun = list(self._begun)
        return [path for store in begun for path in store.unsynced()]

    def lost(self) -> Path | None:
        """A store that is no longer there; any thread."""
        with self._lock:
            begun = list(self._begun)
        return next((store.part for store in begun if not store.part.exists()), None)

    def last_scan(self, radar: str) -> int | None:
        """Time of the latest scan of a radar."""
        times = self.times(("radars", radar))
        return times.ends[-1] if times is not None and len(times) else None

    def free_scan(self, radar: str) -> int | None:
        """Time of the latest scan of a radar if it has no cube yet."""
        last_us = self.last_scan(radar)
        cubes = self._store(("radars", radar)).contents.cubes if last_us is not None else {}
        return None if cubes.get(radar, (None, 0))[0] == last_us else last_us

    def last_cube(self, radar: str) -> int:
        """Time of the latest cube that a scan of a radar has, -1 if none has one."""
        has_scans = self.last_scan(radar) is not None
        cubes = self._store(("radars", radar)).contents.cubes if has_scans else {}
        return cubes.get(radar, (0, -1))[1]

    def attach(self, radar: str, scan_us: int, cube: Cube) -> int:
        """Append a cube to the generic data of a scan that is there."""
        base = f"radars/{radar}/frames/{scan_us}/generic_data"
        written = self.commit(("radars", radar), under(base, cube.records))
        self._store(("radars", radar)).contents.cubes[radar] = (scan_us, cube.time_us)
        return written

    def alone(self, radar: str, cube: Cube) -> int | str:
        """Append a scan without detections that holds the cube."""
        span_us = (cube.time_us, cube.time_us)
        written = self.append(("radars", radar), "frames", span_us, empty_scan(cube), attributes={})
        if not isinstance(written, str):
            self._store(("radars", radar)).contents.cubes[radar] = span_us
        return written

    def release(self) -> None:
        """Close all as they are."""
        for store in self.open.values():
            store.release()

    def _group(self, instance: Instance) -> str:
        if self._profile == "single":
            return COMMON
        component, name = instance
        return name if component in _BUILT_IN else component

    def _store(self, instance: Instance) -> Store:
        group = self._group(instance)
        if group not in self.open:
            path = self._files.store(group, self._kind)
            with disk_errors(path):
                store = self.open[group] = create_store(path, self._kind)
            with self._lock:
                self._begun.append(store)
        return self.open[group]


SAME_SCAN_US = 2_000
"""A cube this close after a scan is of that scan; no later one can be much nearer."""
_CRC = struct.Struct("<I")
_MOST_BYTES = 256 << 20
"""A larger file is no cube's; no reader takes larger records of a store."""


@dataclass(slots=True)
class _HeldCube:
    cube: Cube
    path: Path | None
    is_synced: bool = False


class HeldCubes:
    """At most one waiting cube a radar, in a file of its own: CRC-32 of what follows, CBOR, and zeros.

    No file is removed before the sequence ends: its name could come back with another file's inode after a
    power cut, and each would need a flush of the folder. The next cube is written over one that is placed;
    over one that was synced only once the disk holds the store that it went to. Recovery tells what is placed
    by its time.
    """

    def __init__(self, files: SequenceFiles) -> None:
        self._files = files
        self._number = 0
        self._lock = threading.Lock()
        self._cubes: dict[str, _HeldCube] = {}
        self._placed: list[Path] = []
        self._free: list[Path] = []

    def names(self) -> list[str]:
        """Radars with a waiting cube."""
        return list(self._cubes)

    def put(self, name: str, cube: Cube) -> int:
        """Hold a cube; it survives the process when this returns. The bytes written.

        Raises:
            WriteError: the disk is full or gone.
        """
        payload = cbor2.dumps([[name, cube.topic, cube.frame_id, cube.time_us, cube.records]])
        with self._lock:
            path = self._free.pop() if self._free else None
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        if path is None:
            self._number += 1
            path, flags = self._files.held(self._number), flags | os.O_CREAT | os.O_EXCL
        with disk_errors(path, advice=ADVICE), os.fdopen(os.open(path, flags, 0o644), "wb") as file:
            payload += bytes(max(0, os.fstat(file.fileno()).st_size - _CRC.size - len(payload)))
            file.write(_CRC.pack(crc32(payload)))
            file.write(payload)
        with self._lock:
            self._cubes[name] = _HeldCube(cube, path)
        return len(payload)

    def put_back(self, name: str, cube: Cube) -> None:
        """Hold a cube that a crash left, whose file stays."""
        self._cubes[name] = _HeldCube(cube, None)

    def get(self, name: str) -> Cube | None:
        """The waiting cube of a radar."""
        held = self._cubes.get(name)
        return None if held is None else held.cube

    def drop(self, name: str) -> None:
        """The cube is committed where it belongs."""
        with self._lock:
            held = self._cubes.pop(name)
            if held.path is not None:
                (self._placed if held.is_synced else self._free).append(held.path)

    def unsynced(self) -> tuple[list[Path], list[Path]]:
        """Files of new cubes, and those to ``free`` once the disk holds all that is committed; any thread."""
        with self._lock:
            waiting = [held for held in self._cubes.values() if not held.is_synced and held.path is not None]
            for held in waiting:
                held.is_synced = True
            placed, self._placed = self._placed, []
        return [held.path for held in waiting if held.path is not None], placed

    def free(self, placed: Iterable[Path]) -> None:
        """The disk holds the cubes of these files where they belong; any thread."""
        with self._lock:
            self._free.extend(placed)


def read_held(files: SequenceFiles) -> Iterator[tuple[str, Cube]]:
    """Radar and cube of every file that a crash left and that is whole, in order of time."""
    found = []
    for path in files.all_held():
        with suppress(OSError, ValueError, TypeError, EOFError, MemoryError, cbor2.CBORError):
            data = read_regular(path, _MOST_BYTES, follow=False)
            if data[: _CRC.size] == _CRC.pack(crc32(data[_CRC.size :])):
                ((name, topic, frame_id, time_us, records),) = cbor2.load(io.BytesIO(data[_CRC.size :]))
                found.append(
                    (name, Cube(topic, frame_id, time_us, tuple((key, raw) for key, raw in records)))
                )
    yield from sorted(found, key=lambda each: each[1].time_us)


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


class CubePairing:
    """Puts every cube to the scan nearest in time, or to one of its own where none is near."""

    def __init__(self, held: HeldCubes, scans: StoreSet, tolerance_us: int) -> None:
        self._held = held
        self._scans = scans
        self._tolerance_us = tolerance_us
        self._latest_us: dict[str, int] = {}

    def offer(self, radar: str, cube: Cube) -> int | str:
        """Take a cube; the bytes written, or why it cannot be stored."""
        if cube.time_us <= self._latest_us.get(radar, -1):
            return "not later than the cube before"
        written = self.settle(radar)
        last_us, free_us = self._scans.last_scan(radar), self._scans.free_scan(radar)
        age_us = cube.time_us - last_us if last_us is not None else self._tolerance_us + 1
        if age_us <= 0 and (free_us is None or -age_us > self._tolerance_us):
            return "no scan near it that still lacks a cube"
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

    def recover(self, files: SequenceFiles) -> None:
        """Place the cubes that a crash left and that are in no scan yet."""
        for radar, cube in read_held(files):
            if cube.time_us > self._scans.last_cube(radar):
                self._held.put_back(radar, cube)
                self.settle(radar)

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
