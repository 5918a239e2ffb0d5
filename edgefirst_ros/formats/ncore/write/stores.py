"""The stores of one sequence: which instance goes where; what is appended is committed by the journal."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.ncore.finish.sequence import COMMON
from edgefirst_ros.formats.ncore.options import Profile, StoreType
from edgefirst_ros.formats.ncore.prepare.parts import Cube, Json
from edgefirst_ros.formats.ncore.prepare.radar import empty_scan
from edgefirst_ros.formats.ncore.store.base import Store, new_groups
from edgefirst_ros.formats.ncore.store.files import SequenceFiles, create_store
from edgefirst_ros.formats.ncore.store.journal import FactJournal
from edgefirst_ros.formats.ncore.store.marks import TIMES, EntryTimes, Instance
from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY, Record, json_bytes, under

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
