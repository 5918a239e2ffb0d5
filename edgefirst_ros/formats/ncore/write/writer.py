"""Measurements to NCore V4 sequences: prepared in any thread, appended in order, finished from disk."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from edgefirst_ros.formats.crashsafe.journal import Lock, refuse_busy
from edgefirst_ros.formats.crashsafe.names import refuse_links
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.format import Written
from edgefirst_ros.formats.ncore.finish.facts import Remarks
from edgefirst_ros.formats.ncore.finish.sequence import publish_sequence, remove_unfinished
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.parts import Prepared
from edgefirst_ros.formats.ncore.prepare.roles import prepare
from edgefirst_ros.formats.ncore.store.files import SequenceFiles
from edgefirst_ros.formats.ncore.store.journal import FactJournal
from edgefirst_ros.formats.ncore.write.sensors import EgoMasks, InstanceNames, LidarScales
from edgefirst_ros.formats.ncore.write.sequence import SequenceWriter
from edgefirst_ros.formats.pace import Pace, pace_here
from edgefirst_ros.model.errors import OutputExists
from edgefirst_ros.model.sample import EgoPose, Observation, SequenceInfo

SPLIT_US = 300_000_000
"""Another sequence begins after this time: readers go through every key of one when they open it."""
_LATE_US = 2_000_000
"""How long after a split what was measured before it may still come: poses, and pictures that were paired."""


class NCoreWriter:
    """Writes sequences below ``root/<sequence_id>/``; implements MeasurementWriter and CrashSafe.

    A sequence has the name of its SequenceInfo; its parts after a split append ``-001``, ``-002`` ...
    Sequences are finished in a thread of their own, at the pace of work that waits while others follow, so
    that a split does not hold up a live capture. One that another follows gets its name then, unless it
    replaces an earlier one, which stays until ``close``.

    Args:
        root: folder of all sequences.
        options: what to write.
        overwrite: replace sequences of the same name, once all new ones are complete.
        boxes2d_tolerances_ms: by the end of the topic's name.
        split_us: after which another sequence begins.

    Raises:
        ConfigError: an ego mask that is not a PNG file.
    """

    name = "ncore"
    unit = "measurements"

    def __init__(
        self,
        root: Path,
        options: NCoreOptions,
        *,
        overwrite: bool = False,
        boxes2d_tolerances_ms: Mapping[str, float] | None = None,
        split_us: int = SPLIT_US,
    ) -> None:
        self.options = options
        self.needs_pose = options.unknown_pose == "cut"
        self._remarks = Remarks()
        self._root = root
        self._overwrite = overwrite
        self._boxes2d_tolerances_ms = dict(boxes2d_tolerances_ms or {})
        self._masks = EgoMasks(options.ego_masks)
        self._lidars = LidarScales()
        self._names = InstanceNames()
        self._info: SequenceInfo | None = None
        self._split_us, self._part = split_us, 0
        self._current: SequenceWriter | None = None
        self._waiting: list[SequenceWriter] = []
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ncore-finish")
        self._pace = Pace()
        """Of the sequences that are finished now."""
        self._finished: list[tuple[SequenceFiles, Future[bool]]] = []
        self._unpublished: list[tuple[SequenceFiles, FactJournal]] = []
        self._is_complete = False
        self._lock = threading.Lock()
        self._incomplete: list[SequenceWriter] = []

    def begin(self, sequence: SequenceInfo) -> None:
        """Finish the sequence before and start this one.

        Raises:
            OutputExists: the sequence is there and overwriting was not asked for.
            WriteError: the sequence before could not be finished, or another process is writing this one.
        """
        self._finish_all(publish=True)
        self._info, self._part = sequence, 0
        self._current = self._open()

    def prepare(self, observation: Observation) -> Prepared:
        """Compress everything of the measurement that NCore stores; pure, any thread."""
        return prepare(observation, self.options)

    def write(self, prepared: Prepared) -> Written:
        """Append; what is in the returned accounting survives the process.

        Raises:
            WriteError: the disk is full or gone, now or when a sequence before was finished.
            OutputExists: a sequence is split and its next part is there already.
        """
        self._raise_failures()
        current = self._sequence()
        for waiting in list(self._waiting):
            if prepared.time_us > waiting.until_us + _LATE_US:
                self._submit(waiting, publish=True)
        late = next((waiting for waiting in self._waiting if prepared.time_us < waiting.until_us), None)
        if late is not None:
            return late.write(prepared)
        if current.start_us is not None and prepared.time_us >= current.start_us + self._split_us:
            current = self._split(current, prepared.time_us)
        return current.write(prepared)

    def pose(self, pose: EgoPose) -> None:
        """One rig pose, in order of time, whatever of it is known.

        Raises:
            WriteError: the disk is full or gone.
        """
        for waiting in self._waiting:
            if waiting.last_pose is None or waiting.last_pose.time_ns // 1000 < waiting.until_us:
                waiting.pose(pose)
        self._sequence().pose(pose)

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about the output for the user, one sentence each, in order of discovery."""
        return tuple(self._remarks.warnings)

    @property
    def notes(self) -> Sequence[str]:
        """Notes about what was done to the data, one sentence each."""
        return tuple(self._remarks.notes)

    @contextmanager
    def syncing(self) -> Iterator[Collection[Path]]:
        """What holds all that ``write`` and ``pose`` did before, of every sequence; see CrashSafe."""
        with self._lock:
            sequences = list(self._incomplete)
        with ExitStack() as stack:
            yield [path for each in sequences for path in stack.enter_context(each.syncing())]

    def finish_bytes(self) -> int:
        """Of every sequence that is not complete; see Watched."""
        with self._lock:
            return sum(sequence.finish_bytes() for sequence in self._incomplete)

    def lost(self) -> Path | None:
        """Of the sequences that are written, not of those being finished; see Watched."""
        current = self._current
        several = (*self._waiting, *([current] if current else []))
        return next((path for each in several if (path := each.lost()) is not None), None)

    def complete(self) -> list[Path]:
        """Finish every sequence, synced; those that have no name yet wait for ``close``. Their meta files.

        Raises:
            WriteError: the disk is full or gone; ``recover`` completes what is on disk.
        """
        if not self._is_complete:
            try:
                self._finish_all(publish=False)
            finally:
                self._pool.shutdown()
            self._lidars.remark(self._remarks)
            self._masks.remark(self._remarks)
            self._is_complete = True
        return [files.meta for files, done in self._finished if done.result()]

    def close(self) -> list[Path]:
        """Complete every sequence and give it its name; their meta files.

        Raises:
            WriteError: the disk is full or gone; ``recover`` completes what is on disk.
        """
        paths = self.complete()
        try:
            for files, _ in self._unpublished:
                publish_sequence(files)
        finally:
            self._let_go()
        return paths

    def abort(self) -> None:
        """Release files without finishing; ``recover`` completes what is on disk."""
        for sequence in (*self._waiting, *([self._current] if self._current else [])):
            sequence.abort()
        self._waiting, self._current = [], None
        self._pool.shutdown()
        self._let_go()

    def _let_go(self) -> None:
        for _, journal in self._unpublished:
            journal.close()
        self._unpublished.clear()

    def _sequence(self) -> SequenceWriter:
        if self._current is None:
            raise RuntimeError("begin() comes before write() and pose()")
        return self._current

    def _open(self) -> SequenceWriter:
        if self._info is None:
            raise RuntimeError("begin() comes first")
        name = f"{self._info.name}-{self._part:03d}" if self._part else self._info.name
        files = SequenceFiles(self._root / name, name)
        refuse_links(self._root, files.folder)
        if files.exists():
            refuse_busy(files.journal)
            if not self._overwrite:
                raise OutputExists(f"dataset {files.folder} already exists")
            _make_room(files)
        sequence = SequenceWriter(
            files,
            self._info,
            part=self._part,
            options=self.options,
            names=self._names,
            masks=self._masks,
            lidars=self._lidars,
            boxes2d_tolerances_ms=self._boxes2d_tolerances_ms,
        )
        with self._lock:
            self._incomplete.append(sequence)
        return sequence

    def _split(self, current: SequenceWriter, time_us: int) -> SequenceWriter:
        self._part += 1
        following = self._open()
        current.until_us = time_us
        self._waiting.append(current)
        if current.last_pose is not None:
            following.pose(current.last_pose)
        self._current = following
        return following

    def _submit(self, sequence: SequenceWriter, *, publish: bool) -> None:
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        self._pace.hurry()  # none piles up
        self._pace = Pace()
        done = self._pool.submit(self._finish, sequence, self._pace, publish=publish)
        self._finished.append((sequence.files, done))

    def _finish(self, sequence: SequenceWriter, pace: Pace, *, publish: bool) -> bool:
        """Complete a sequence, and give it its name unless that must wait; False if it is empty."""
        files, journal = sequence.files, sequence.journal
        with pace.kept():
            is_complete = sequence.complete(self._remarks)
        if is_complete and publish and not files.would_replace():
            publish_sequence(files)
            journal.close()
        elif is_complete:
            self._unpublished.append((files, journal))
        with self._lock:
            self._incomplete.remove(sequence)
        return is_complete

    def _finish_all(self, *, publish: bool) -> None:
        current, self._current = self._current, None
        for sequence in (*self._waiting, *([current] if current else [])):
            self._submit(sequence, publish=publish)
        self._pace.awaited_at(pace_here())
        for _, done in self._finished:
            done.result()

    def _raise_failures(self) -> None:
        for _, done in self._finished:
            if done.done():
                done.result()


def _make_room(files: SequenceFiles) -> None:
    """Remove what is unfinished of a sequence of this name; a complete one stays for now.

    Raises:
        WriteError: another process is writing it, or it cannot be removed.
    """
    with (
        disk_errors(files.folder, "cannot be replaced"),
        Lock(files.journal) if files.journal.exists() else nullcontext(),
    ):
        if files.meta_part.exists() and not files.would_replace():
            publish_sequence(files)  # complete, and the one before it is gone
        remove_unfinished(files)
