"""One sequence while it is written: entries into stores, everything else into the journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from edgefirst_ros.formats.crashsafe.sync import disk_errors, make_folder, sync_path
from edgefirst_ros.formats.format import EMPTY, Written
from edgefirst_ros.formats.ncore.finish.facts import Facts, Remarks
from edgefirst_ros.formats.ncore.finish.labels import descriptor_of, snapped
from edgefirst_ros.formats.ncore.finish.sequence import complete_sequence
from edgefirst_ros.formats.ncore.options import SAME_SCAN_MS, NCoreOptions
from edgefirst_ros.formats.ncore.prepare import parts
from edgefirst_ros.formats.ncore.prepare.roles import is_stored
from edgefirst_ros.formats.ncore.prepare.scans import META as RADAR_META
from edgefirst_ros.formats.ncore.store.base import ADVICE, BOX_ARRAYS, REFERENCE, Instance
from edgefirst_ros.formats.ncore.store.files import SequenceFiles
from edgefirst_ros.formats.ncore.store.journal import FactJournal
from edgefirst_ros.formats.ncore.write.factwriter import FactWriter
from edgefirst_ros.formats.ncore.write.sensors import EgoMasks, InstanceNames, LidarScales
from edgefirst_ros.formats.ncore.write.stores import CubePairing, HeldCubes, StoreSet
from edgefirst_ros.formats.zarr2 import Record
from edgefirst_ros.model.sample import EgoPose, SequenceInfo

ITAR_RECORD, FILE_RECORD = 1024, 8192
"""What a small record takes: header and block of a tar file; a file's block, and its part of a folder's."""
_BOX_RECORDS = 2 * len(BOX_ARRAYS) + 4
"""Records that finishing adds to a frame with 2-D boxes: two an array, and the groups' attributes."""
Outcome = int | str
"""Bytes written, or why nothing was."""


class SequenceWriter:
    """Appends to one sequence; what a method reports as written survives the process.

    Attributes:
        files: where the sequence is.
        journal: stays open, which keeps others from the sequence, until the sequence has its name.
        start_us: time of the first thing written, None before it.
        until_us: where the sequence after it begins, once there is one.
        last_pose: the latest pose taken.
    """

    def __init__(
        self,
        files: SequenceFiles,
        sequence: SequenceInfo,
        *,
        part: int,
        options: NCoreOptions,
        names: InstanceNames,
        masks: EgoMasks,
        lidars: LidarScales,
        boxes2d_tolerances_ms: Mapping[str, float],
    ) -> None:
        self.files = files
        self.start_us: int | None = None
        self.until_us = 0
        self.last_pose: EgoPose | None = None
        self._kind = options.store
        self._names = names
        self._registered: dict[Instance, str] = {}
        self._shared: dict[Instance, parts.Json | None] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._masks = masks
        self._lidars = lidars
        self._scaled: set[Instance] = set()
        self._simulated: dict[str, bool] = {}
        """Whether labels were taken for those of a simulator, by instance; what came first counts."""
        self.journal = _begin_journal(files)
        self._fact_writer = FactWriter(self.journal, sequence)
        self._fact_writer.begin(files.id, sequence, part, options, boxes2d_tolerances_ms)
        self._fact_writer.masks(masks.data)
        with disk_errors(files.folder):  # before any store, which would be of no use without it
            self.journal.sync()
            sync_path(files.folder)
        self._stores = StoreSet(files, options.store, options.profile, self.journal)
        self._held = HeldCubes(files)
        self._cubes = CubePairing(self._held, self._stores, round(SAME_SCAN_MS * 1000))

    def write(self, prepared: parts.Prepared) -> Written:
        """Append every part of a measurement, or say why not."""
        size = self._fact_writer.mounted(prepared.time_us, prepared.mounted)
        size += self._fact_writer.calibration(prepared.calibration)
        refused = list(prepared.refused)
        stored = 0
        for part in prepared.parts:
            outcome = self._part(part, prepared)
            if isinstance(outcome, str):
                refused.append(outcome)
                continue
            stored += outcome
            self.start_us = prepared.time_us if self.start_us is None else self.start_us
        if not (stored or refused) and is_stored(prepared.role):
            refused.append(EMPTY)
        topic = prepared.topic
        told = tuple((topic, reason) for reason in refused)
        return Written({topic: stored}, size + stored, told, items=int(stored > 0))

    def pose(self, pose: EgoPose) -> None:
        """Record a rig pose; unusable ones are left out."""
        if self._fact_writer.pose(pose):
            self.last_pose = pose

    @contextmanager
    def syncing(self) -> Iterator[Collection[Path]]:
        """What holds everything that was written before; see CrashSafe.

        The journal may be on the disk before what it speaks of: recovery tells that from what is whole.
        """
        held, placed = self._held.unsynced()
        paths = [*held, *self._stores.unsynced(), self.files.folder, self.files.journal]
        with disk_errors(self.files.folder, advice=ADVICE, below=self.files.folder):
            yield paths
        self._held.free(placed)

    def finish_bytes(self) -> int:
        """By how many bytes, at most, ``complete`` makes grow what is on the disk; any thread."""
        records = self._fact_writer.box_messages * _BOX_RECORDS
        block = ITAR_RECORD if self._kind == "itar" else FILE_RECORD
        return 2 * self.journal.size + records * block

    def lost(self) -> Path | None:
        """What is no longer where it was made: the folder or a store; any thread.

        Raises:
            OSError: the disk does not answer.
        """
        if self.journal.is_lost:
            return self.files.folder
        return self._stores.lost()

    def complete(self, remarks: Remarks) -> bool:
        """Complete the sequence except for its final names; False if nothing was ever written to it.

        Args:
            remarks: takes warnings and notes for the user.

        Raises:
            WriteError: the disk is full or gone; ``recover`` can try again.
        """
        try:
            self._cubes.settle_all()
            facts = self._fact_writer.facts or Facts.read(self.files.journal)
            is_complete = complete_sequence(self.files, self._stores.open, facts, remarks)
        except BaseException:
            self.abort()
            raise
        if not is_complete:
            self.abort()
        return is_complete

    def abort(self) -> None:
        """Release the files as they are."""
        self._stores.release()
        self.journal.close()

    def _part(self, part: parts.Part, prepared: parts.Prepared) -> Outcome:
        if prepared.time_us < 0:
            return "time before 1970"
        match part:
            case parts.ComponentEntry():
                outcome = self._entry(part, prepared)
            case parts.Cube():
                outcome = self._cube(part, prepared)
            case parts.Cuboids():
                outcome = self._fact_writer.cuboids(part, prepared.topic)
            case parts.FlatBoxes():
                outcome = self._fact_writer.boxes2d(part)
            case parts.SeriesValue():
                outcome = self._fact_writer.row(part, prepared.topic)
        return outcome

    def _entry(self, entry: parts.ComponentEntry, prepared: parts.Prepared) -> Outcome:
        topic = prepared.topic
        match entry.component:
            case "cameras":
                outcome = self._camera(entry, prepared)
            case "radars":
                outcome = self._radar(entry, prepared)
            case "camera_labels":
                outcome = self._label(entry, topic)
            case "lidars":
                outcome = self._lidar(entry, topic)
            case _:
                written = self._fact_writer.node(entry.frame_id)
                name = self._names.other("point_clouds", topic, entry.name)
                placed = {REFERENCE: self._fact_writer.name_of(entry.frame_id), **entry.attributes}
                entry = replace(entry, attributes=placed)
                outcome = _sum(written, self._append(entry, name, topic))
        return outcome

    def _cube(self, cube: parts.Cube, prepared: parts.Prepared) -> Outcome:
        radar = self._names.radar(cube.topic, cube.frame_id, cube=True)
        written = self._fact_writer.radar(radar, prepared.calibration.radar_info)
        if ("radars", radar) not in self._registered:
            facts = {"topic": cube.topic, "frame_id": cube.frame_id, "meta": RADAR_META}
            written += self._register(("radars", radar), facts)
        return _sum(written, self._cubes.offer(radar, cube))

    def _camera(self, entry: parts.ComponentEntry, prepared: parts.Prepared) -> Outcome:
        name = self._names.sensor("cameras", prepared.topic, entry.frame_id, "camera")
        if name not in self._sizes:
            self._masks.check(name, entry.size or (0, 0))
        width, height = self._sizes.setdefault(name, entry.size or (0, 0))
        if (width, height) != entry.size:
            return f"picture is no longer {width}x{height}"
        written = self._fact_writer.camera(name, prepared.calibration.camera_info)
        return _sum(written, self._append(entry, name, prepared.topic))

    def _radar(self, entry: parts.ComponentEntry, prepared: parts.Prepared) -> Outcome:
        topic = prepared.topic
        name = self._names.radar(topic, entry.frame_id)
        written = self._fact_writer.radar(name, prepared.calibration.radar_info)
        written += self._cubes.before_scan(name, entry.end_us)
        outcome = self._append(entry, name, topic)
        if isinstance(outcome, int):
            written += self._cubes.after_scan(name, entry.end_us)
        return _sum(written, outcome)

    def _lidar(self, entry: parts.ComponentEntry, topic: str) -> Outcome:
        name = self._names.sensor("lidars", topic, entry.frame_id, "lidar")
        scaled = self._lidars.scaled(name, entry.intensity)
        outcome = self._append(entry, name, topic, records=[*entry.records, *scaled])
        meta = self._lidars.learnt(name)
        if isinstance(outcome, int) and meta and ("lidars", name) not in self._scaled:
            self._scaled.add(("lidars", name))
            self._fact_writer.meta(("lidars", name), meta)
        return outcome

    def _label(self, entry: parts.ComponentEntry, topic: str) -> Outcome:
        cameras = self._names.same_frame("cameras", entry.camera_frame or "")
        times = {name: self._stores.times(("cameras", name)) for name in cameras}
        camera, ends = next(((name, found.ends) for name, found in times.items() if found), ("", None))
        end_us = snapped(ends or (), entry.end_us)
        if end_us is None:
            return self._fact_writer.label(entry, topic)  # its picture may still come
        name = self._names.other(entry.component, topic, f"{entry.name}@{camera}")
        simulated = self._simulated.setdefault(name, self._fact_writer.is_simulated)
        shared = descriptor_of(entry.shared, camera, simulated=simulated)
        return self._append(entry, name, topic, span_us=(end_us, end_us), shared=shared)

    def _append(
        self,
        entry: parts.ComponentEntry,
        name: str,
        topic: str,
        *,
        records: Sequence[Record] | None = None,
        span_us: tuple[int, int] | None = None,
        shared: parts.Json | None = None,
    ) -> Outcome:
        instance = (entry.component, name)
        facts: parts.Json = {"topic": topic, "frame_id": entry.frame_id, "meta": entry.meta}
        if entry.size is not None:
            facts["size"] = entry.size
        shared = shared or entry.shared
        written = self._register(instance, facts)
        if self._shared.setdefault(instance, shared) != shared:
            return "fields or format changed"
        span_us = span_us or (entry.start_us, entry.end_us)
        records = entry.records if records is None else records
        outcome = self._stores.append(
            instance, entry.collection, span_us, records, attributes=entry.attributes, shared=shared
        )
        return _sum(written, outcome)

    def _register(self, instance: Instance, facts: parts.Json) -> int:
        """Record in the journal what an instance is, before its first entry; the bytes written."""
        if self._registered.get(instance) == facts["topic"]:
            return 0
        self._registered[instance] = facts["topic"]
        return self._fact_writer.instance(*instance, facts)


def _begin_journal(files: SequenceFiles) -> FactJournal:
    with disk_errors(files.folder):
        make_folder(files.folder)
        return FactJournal(files.journal)


def _sum(written: int, outcome: Outcome) -> Outcome:
    return outcome if isinstance(outcome, str) else written + outcome
