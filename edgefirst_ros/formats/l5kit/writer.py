"""Samples to an L5Kit dataset: prepared in any thread, appended in order, renamed at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from edgefirst_ros.errors import OutputExists, WriteError
from edgefirst_ros.formats.base import LeftOut, Written
from edgefirst_ros.formats.l5kit.attributes import SceneNote
from edgefirst_ros.formats.l5kit.motion import agent_rows
from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.formats.l5kit.prepare import NO_POSE, Pose, PreparedFrame, prepare_frame
from edgefirst_ros.formats.l5kit.schema import (
    AGENTS,
    FACES,
    FRAME,
    FRAMES,
    POINT_SPAN,
    POINTS,
    SPANS,
    Records,
)
from edgefirst_ros.formats.l5kit.store import GrowingDataset, old_path, part_path
from edgefirst_ros.formats.l5kit.tracks import Tracks
from edgefirst_ros.naming import safe_name
from edgefirst_ros.sample import Sample, SequenceInfo
from edgefirst_ros.timing.select import Selection

_HOST_LENGTH = 16
_NO_HOST = "unknown"


class L5KitWriter:
    """Writes one dataset, ``root/<dataset>.zarr``; implements SampleWriter.

    Every sequence becomes a scene, unless it has no frame with an ego pose. The dataset grows as ``.part``
    and every frame is on disk when ``write`` returns, so that ``recover`` can finish a killed run; ``close``
    completes the last chunks and renames. Memory does not grow with the number of samples.

    Args:
        root: folder of the datasets; made if it is not there, once the first sequence begins.
        dataset: the dataset's name without ``.zarr``, made safe as a file name.
        options: what the user chose.
        overwrite: replace a dataset of this name, at the end.

    Raises:
        OutputExists: the dataset is there and neither ``overwrite`` nor ``options.append`` was given, or an
            unfinished one is there and ``overwrite`` was not given.
    """

    name = "l5kit"
    unit = "frames"

    def __init__(self, root: Path, dataset: str, options: L5KitOptions, *, overwrite: bool = False) -> None:
        self.options = options
        self._warnings: list[str] = []
        self.path = root / f"{safe_name(dataset)}.zarr"
        if not overwrite:
            self._refuse_existing()
        self._store: GrowingDataset | None = None
        self._extends = options.append and not overwrite
        self._broken = False
        self._sequence: SequenceInfo | None = None
        self._in_scene = False
        self._last_ns = 0
        self._frames = 0

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts; the first makes the output's ``.part`` folder.

        Raises:
            OutputExists: the dataset has a scene of this name already.
            DatasetError: the dataset to append to was not written here.
            WriteError: the output cannot be made, or another process is writing it.
        """
        with self._reporting():
            if self._store is None:
                self._store = self._opened()
            self._end_scene()
        if any(note.name == sequence.name for note in self._store.notes):
            raise OutputExists(f"{self.path}: scene {sequence.name} is in this dataset already; rename one")
        self._sequence = sequence
        self._tracks = Tracks(self.options)
        self._selection = Selection(rate_hz=self.options.rate_hz)
        self._last_ns = 0

    def prepare(self, sample: Sample) -> PreparedFrame:
        """Place every detection of the sample; pure, any thread."""
        return prepare_frame(sample, self.options)

    def write(self, prepared: PreparedFrame) -> Written:
        """Append the sample as a frame; left out if it exceeds the rate or has no ego pose or no later time.

        ``refused`` names parts, such as single boxes: their message may be in ``stored`` as well.

        Raises:
            WriteError: disk full or the like; what was written before stays, as ``.part``.
        """
        store = self._growing()
        sequence = self._sequence
        if sequence is None or prepared.sequence != sequence.name:
            raise WriteError(
                f"{self.path}: sample {prepared.frame} of {prepared.sequence}, which is not begun: begin "
                "each sequence before its samples"
            )
        if prepared.time_ns <= self._last_ns:
            return Written(left_out=LeftOut("unusable", "not after the sample before"))
        self._last_ns = prepared.time_ns
        if not self._selection.wants(prepared.frame, prepared.time_ns, keyframe=False):
            return Written(left_out=LeftOut("skipped", f"more than {self.options.rate_hz:g} frames a second"))
        if prepared.pose is None:
            return Written(refused=prepared.refused, left_out=LeftOut("unusable", NO_POSE))
        self._selection.took(prepared.time_ns)
        agents = agent_rows(prepared.candidates, prepared.pose, self._tracks, prepared.time_ns)
        with self._reporting():
            if not self._in_scene:
                note = SceneNote(sequence.name, prepared.pose.origin)
                store.begin_scene(sequence.host[:_HOST_LENGTH] or _NO_HOST, prepared.time_ns, note)
                self._in_scene = True
            self._frames += 1
            written = self._append(store, prepared, prepared.pose, agents)
        self._last_frame_ns = prepared.time_ns
        return Written(prepared.stored, written, (*prepared.refused, *prepared.shown))

    @property
    def warnings(self) -> Sequence[str]:
        """What a user must know of the output, a sentence each, in the order in which it was found."""
        return tuple(self._warnings)

    def close(self) -> list[Path]:
        """Complete the arrays and rename the dataset into place; without any frame, leave what was there.

        Raises:
            WriteError: it cannot be written, or an earlier ``write`` failed; the ``.part`` folder stays.
        """
        if self._store is None:
            return []
        store = self._growing()
        with self._reporting():
            self._end_scene()
            if store.length(FRAMES):
                store.finish()
            else:
                store.discard()
        self._store = None
        return [self.path] if store.length(FRAMES) else []

    def abort(self) -> None:
        """Release files without finishing; what is on disk stays as ``.part``, if any frame was written."""
        self._broken = self._store is not None
        if self._store is not None:
            with suppress(OSError):
                self._store.close() if self._frames else self._store.discard()

    def _opened(self) -> GrowingDataset:
        if self._extends and self.path.exists():
            return GrowingDataset.extend(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return GrowingDataset(self.path)

    def _end_scene(self) -> None:
        if self._in_scene and self._store is not None:
            self._store.end_scene(self._last_frame_ns)
        self._in_scene = False

    @staticmethod
    def _append(store: GrowingDataset, prepared: PreparedFrame, pose: Pose, agents: Records) -> int:
        span, frame = np.zeros(1, POINT_SPAN), np.zeros(1, FRAME)
        span["point_index_interval"] = _interval(store, POINTS, prepared.points)
        frame["timestamp"] = prepared.time_ns
        frame["agent_index_interval"] = _interval(store, AGENTS, agents)
        frame["traffic_light_faces_index_interval"] = _interval(store, FACES, prepared.faces)
        frame["ego_translation"], frame["ego_rotation"] = pose.position_m, pose.rotation
        rows = {POINTS: prepared.points, SPANS: span, AGENTS: agents, FACES: prepared.faces, FRAMES: frame}
        return sum(store.append(name, part) for name, part in rows.items())

    def _growing(self) -> GrowingDataset:
        if self._broken or self._store is None:
            raise WriteError(f"{self.path}: not being written; {self._advice()}")
        return self._store

    def _refuse_existing(self) -> None:
        if self.path.exists() and not self.options.append:
            raise OutputExists(f"{self.path} exists: choose another name, append to it, or allow overwriting")
        for leftover in (part_path(self.path), old_path(self.path)):
            if leftover.exists():
                raise OutputExists(
                    f"{leftover} was left by an unfinished run: edgefirst-ros recover {self.path}, choose "
                    "another name, or allow overwriting"
                )

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.abort()
            if isinstance(error, WriteError):
                raise
            reason = error.strerror or str(error)
            raise WriteError(f"{self.path}: cannot write: {reason}; {self._advice()}") from error

    def _advice(self) -> str:
        return f"what is committed stays as .part: edgefirst-ros recover {self.path}"


def _interval(store: GrowingDataset, name: str, rows: Records) -> tuple[int, int]:
    start = store.length(name)
    return start, start + len(rows)
