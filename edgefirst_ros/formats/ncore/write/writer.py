"""Measurements to NCore V4 sequences: prepared in any thread, appended in order, finished from disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import OutputExists
from edgefirst_ros.formats.base import Written
from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.lock import Lock
from edgefirst_ros.formats.crashsafe.replacing import remove
from edgefirst_ros.formats.ncore.finish.remarks import Remarks
from edgefirst_ros.formats.ncore.finish.sequence import complete
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.component import Component, check_components
from edgefirst_ros.formats.ncore.prepare.parts import Prepared
from edgefirst_ros.formats.ncore.prepare.roles import prepare
from edgefirst_ros.formats.ncore.store.files import SequenceFiles
from edgefirst_ros.formats.ncore.write.lidarscale import LidarScales
from edgefirst_ros.formats.ncore.write.masks import EgoMasks
from edgefirst_ros.formats.ncore.write.names import InstanceNames
from edgefirst_ros.formats.ncore.write.sequence import SequenceWriter
from edgefirst_ros.sample import EgoPose, Observation, SequenceInfo

_LATE_US = 2_000_000
"""How long after a split what was measured before it may still come: poses, and pictures that were paired."""


class NCoreWriter:
    """Writes sequences below ``root/<sequence_id>/``; implements MeasurementWriter.

    A sequence has the name of its SequenceInfo; its parts after a split append ``-001``, ``-002`` ...
    Sequences are finished in a thread of their own, so that a split does not hold up a live capture.

    Args:
        root: folder of all sequences.
        options: what to write.
        overwrite: replace sequences of the same name, each once the new one is complete.
        components: custom components, see ``component.Component``.
        boxes2d_tolerances_ms: by the end of the topic's name, where ``options`` has no tolerance for all.

    Raises:
        ConfigError: an ego mask that is no PNG file, or a component without a name of its own.
    """

    name = "ncore"
    unit = "measurements"

    def __init__(
        self,
        root: Path,
        options: NCoreOptions,
        *,
        overwrite: bool = False,
        components: Sequence[Component] = (),
        boxes2d_tolerances_ms: Mapping[str, float] | None = None,
    ) -> None:
        _keep_freed_memory()
        self.options = options
        self.needs_pose = options.unknown_pose == "cut"
        self._remarks = Remarks()
        self._root = root
        self._overwrite = overwrite
        self._components = tuple(components)
        self._boxes2d_tolerances_ms = dict(boxes2d_tolerances_ms or {})
        check_components(self._components)
        self._masks = EgoMasks(options.ego_masks)
        self._lidars = LidarScales()
        self._names = InstanceNames(options.sensor_ids)
        self._info: SequenceInfo | None = None
        self._part = 0
        self._current: SequenceWriter | None = None
        self._waiting: list[SequenceWriter] = []
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ncore-finish")
        self._finished: list[tuple[SequenceFiles, Future[bool]]] = []

    def begin(self, sequence: SequenceInfo) -> None:
        """Finish the sequence before and start this one.

        Raises:
            OutputExists: the sequence is there and overwriting was not asked for.
            WriteError: the sequence before could not be finished, or another process is writing this one.
        """
        self._finish_all()
        self._info, self._part = sequence, 0
        self._current = self._open()

    def prepare(self, observation: Observation) -> Prepared:
        """Compress everything of the measurement that NCore stores; pure, any thread."""
        return prepare(observation, self.options, self._components)

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
                self._submit(waiting)
        late = next((waiting for waiting in self._waiting if prepared.time_us < waiting.until_us), None)
        if late is not None:
            return late.write(prepared)
        if current.start_us is not None and prepared.time_us >= current.start_us + self.options.split_s * 1e6:
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

    def set_generic_data(
        self,
        component: str,
        instance: str,
        data: Mapping[str, npt.NDArray[Any]],
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Attach named arrays, and metadata, to an instance of the sequence that is being written.

        Args:
            component: such as poses or radars.
            instance: its name; default for poses, intrinsics, masks and cuboids. Ignored if it never has
                an entry.
            data: arrays by name.
            meta: keys to add to or replace in the instance's generic_meta_data.

        Raises:
            WriteError: the disk is full or gone.
        """
        self._sequence().set_generic_data((component, instance), data, dict(meta or {}))

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about the output for the user, one sentence each, in order of discovery."""
        return tuple(self._remarks.warnings)

    @property
    def notes(self) -> Sequence[str]:
        """Notes about what was done to the data, one sentence each."""
        return tuple(self._remarks.notes)

    def close(self) -> list[Path]:
        """Finish every sequence; their meta files.

        Raises:
            WriteError: the disk is full or gone; ``recover`` completes what is on disk.
        """
        try:
            self._finish_all()
        finally:
            self._pool.shutdown()
        self._lidars.remark(self._remarks)
        self._masks.remark(self._remarks)
        return [files.meta for files, done in self._finished if done.result()]

    def abort(self) -> None:
        """Release files without finishing; ``recover`` completes what is on disk."""
        for sequence in (*self._waiting, *([self._current] if self._current else [])):
            sequence.abort()
        self._waiting, self._current = [], None
        self._pool.shutdown()

    def _sequence(self) -> SequenceWriter:
        if self._current is None:
            raise RuntimeError("begin() comes before write() and pose()")
        return self._current

    def _open(self) -> SequenceWriter:
        if self._info is None:
            raise RuntimeError("begin() comes first")
        name = f"{self._info.name}-{self._part:03d}" if self._part else self._info.name
        files = SequenceFiles(self._root / name, name)
        if files.exists():
            if not self._overwrite:
                raise OutputExists(
                    f"{files.folder} exists; overwrite it, write elsewhere, or recover it if it is unfinished"
                )
            _make_room(files)
        return SequenceWriter(
            files,
            self._info,
            part=self._part,
            options=self.options,
            names=self._names,
            masks=self._masks,
            lidars=self._lidars,
            boxes2d_tolerances_ms=self._boxes2d_tolerances_ms,
        )

    def _split(self, current: SequenceWriter, time_us: int) -> SequenceWriter:
        self._part += 1
        following = self._open()
        current.until_us = time_us
        self._waiting.append(current)
        if current.last_pose is not None:
            following.pose(current.last_pose)
        self._current = following
        return following

    def _submit(self, sequence: SequenceWriter) -> None:
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        self._finished.append((sequence.files, self._pool.submit(sequence.finish, self._remarks)))

    def _finish_all(self) -> None:
        current, self._current = self._current, None
        for sequence in (*self._waiting, *([current] if current else [])):
            self._submit(sequence)
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
        if files.meta_part.exists():  # killed among its renames: complete, and the one before it is gone
            complete(files)
        for path in files.leftovers():
            remove(path)


_LARGEST = 30 << 20
"""Just below the most that glibc's threshold goes to (DEFAULT_MMAP_THRESHOLD_MAX, 32 MiB)."""


def _keep_freed_memory() -> None:
    """Let freed arrays of up to 30 MB be used again instead of being unmapped.

    A frame needs a few megabytes for moments. glibc returns them to the kernel and takes them back, page by
    page, with the next frame, which costs a third of the writing time. It stops doing so for sizes of which
    a block was freed before (mallopt(3), M_MMAP_THRESHOLD, "dynamic"), so one large block, never touched, is
    freed here. Without glibc nothing happens.
    """
    np.empty(_LARGEST, np.uint8)
