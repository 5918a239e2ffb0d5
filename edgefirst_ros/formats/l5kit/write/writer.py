"""Samples to an L5Kit dataset: prepared in any thread, appended in order, renamed at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.crashsafe.writer import DatasetWriter
from edgefirst_ros.formats.format import LeftOut, NoPlace, Written
from edgefirst_ros.formats.l5kit.options import L5KitOptions
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import AGENTS, FACES, FRAME, FRAMES, JOURNAL, Records, SceneNote
from edgefirst_ros.formats.l5kit.write.grid import Frame, FrameGrid, Held
from edgefirst_ros.formats.l5kit.write.prepare import NO_POSE, PreparedFrame, pose_of, prepare_frame
from edgefirst_ros.formats.motion import POSE_NOISE_M, SEVERAL, Motion
from edgefirst_ros.model.errors import EdgeFirstError, OutputExists, WriteError
from edgefirst_ros.model.sample import EgoPose, Sample, SequenceInfo
from edgefirst_ros.model.untrusted import safe_name

_HOST_LENGTH = 16
_NO_HOST = "unknown"
_UNSHOWN = NoPlace("not used by any frame")


class L5KitWriter(DatasetWriter[GrowingDataset]):
    """Writes one dataset, ``root/<dataset>.zarr``; implements SampleWriter.

    Every sequence becomes a scene, unless it has no frame with an ego pose. Frames lie on an even grid of
    times, so each waits until samples on both sides of it have come, see ``grid.FrameGrid``. The dataset
    grows as ``.part`` with a journal of the frames in it, so that ``recover`` can finish a killed run;
    ``close`` completes the last chunks and renames. Memory does not grow with the samples.

    Args:
        root: folder of the datasets; made if it is not there, once the first sequence begins.
        dataset: the dataset's name without ``.zarr``, made safe as a file name.
        options: what the user chose.
        overwrite: replace a dataset of this name, at the end.

    Raises:
        OutputExists: the dataset is there, finished or not, and ``overwrite`` was not given.
    """

    name = "l5kit"
    unit = "frames"

    def __init__(self, root: Path, dataset: str, options: L5KitOptions, *, overwrite: bool = False) -> None:
        self.options = options
        self.path = path = root / f"{safe_name(dataset)}.zarr"
        part = part_path(path)
        super().__init__(root, path, part / JOURNAL, (path,), (part, old_path(path)), overwrite=overwrite)
        self._sequence: SequenceInfo | None = None
        self._grid: FrameGrid | None = None
        self._open: deque[Future[Written]] = deque()
        self._in_scene = False
        self._first_agent = 0
        self._motion = Motion(POSE_NOISE_M)
        self._places: list[tuple[int, npt.NDArray[np.float64]]] = []
        self._last_ns = 0
        self._frames = 0
        self._largest = 0
        """Bytes of the largest frame so far."""

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts, the one before is written to its end; the first makes the ``.part`` folder.

        Raises:
            OutputExists: the dataset has a scene of this name already, or another run has written it since.
            WriteError: the output cannot be made, or another process is writing it.
        """
        with self._reporting():
            if self._store is None:
                self._refuse_others()  # another run may have written it since this one began
                self._store = GrowingDataset(self.path)
            self._end_scene(self._store)
        if any(note.name == sequence.name for note in self._store.notes):
            raise OutputExists(f"{self.path}: scene {sequence.name} is in this dataset already; rename one")
        self._sequence = sequence
        self._grid = FrameGrid(self.options)
        self._motion = Motion(POSE_NOISE_M)
        self._last_ns = 0

    def prepare(self, sample: Sample) -> PreparedFrame:
        """Place every detection of the sample; pure, any thread."""
        return prepare_frame(sample, self.options)

    def write(self, prepared: PreparedFrame) -> Written | Future[Written]:
        """Append the frames that can be made now that this sample has come.

        The result is set once no later frame can need the sample. A sample is left out if it has no ego pose,
        is not later than the one before, or if no frame uses it, as there may be fewer frames than samples.
        ``refused`` names parts, such as single boxes; their message may be in ``stored`` as well.

        Raises:
            WriteError: disk full or the like; what was written before stays, as ``.part``.
        """
        store = self._growing()
        sequence, grid = self._sequence, self._grid
        if sequence is None or grid is None or prepared.sequence != sequence.name:
            raise WriteError(
                f"{self.path}: sample {prepared.frame} of {prepared.sequence}, which has not begun: begin "
                "each sequence before its samples"
            )
        if prepared.time_ns <= self._last_ns:
            return Written(left_out=LeftOut("unusable", "not later than the sample before"))
        self._last_ns = prepared.time_ns
        result: Future[Written] = Future()
        self._open.append(result)
        grid.add(prepared)
        self._advance(store, grid, final=False)
        return result

    def pass_by(self, ego: EgoPose) -> None:
        """A sample with this pose was left out for lack of time: frames before it need not wait for the next.

        Raises:
            WriteError: as ``write`` does.
        """
        store = self._growing()
        if self._grid is None or ego.time_ns <= self._last_ns:
            return
        self._last_ns = ego.time_ns
        self._grid.pass_by(ego.time_ns, pose_of(ego))
        self._advance(store, self._grid, final=False)

    def _results(self) -> list[Path]:
        return [self.path]

    def _finish(self, store: GrowingDataset) -> bool:
        """Complete the arrays."""
        self._end_scene(store)
        has_frames = store.length(FRAMES) > 0
        store.complete() if has_frames else store.discard()
        return has_frames

    def _publish(self, store: GrowingDataset) -> None:
        store.publish()

    @contextmanager
    def syncing(self) -> Iterator[Collection[Path]]:
        """What holds every frame written before; see CrashSafe."""
        if (store := self._store) is None:
            yield []
            return
        with disk_errors(self.path, advice=self._advice, below=self.path.parent), store.syncing() as paths:
            yield paths

    def finish_bytes(self) -> int:
        """The chunks under way, and the frames that wait for samples to come; see Watched."""
        store = self._store
        return 0 if store is None else store.finish_bytes + 2 * len(self._open) * self._largest

    def lost(self) -> Path | None:
        """The folder that grows; see Watched."""
        return part_path(self.path) if (store := self._store) is not None and store.is_lost else None

    def _release(self, store: GrowingDataset) -> None:
        """Frames that wait for samples to come are written before, unless that is what fails."""
        if self._grid is not None and not self._failed:
            with suppress(EdgeFirstError, OSError):
                self._advance(store, self._grid, final=True)
        while self._open:
            self._open.popleft().set_exception(WriteError(f"{self.path}: given up"))
        with suppress(OSError):
            store.close() if self._frames else store.discard()

    def _advance(self, store: GrowingDataset, grid: FrameGrid, *, final: bool) -> None:
        """Write the frames that can be made, and report the outcome of samples that no later frame needs."""
        for frame in grid.frames(final=final):
            with self._reporting():
                self._begin_scene(store, frame)
                self._frames += 1
                size = self._append(store, frame)
                self._largest = max(self._largest, size)
            self._last_frame_ns = frame.time_ns
            self._places.append((frame.time_ns, frame.pose.position_m))
            if len(self._places) >= SEVERAL:
                self._motion.judge(self._places)
            grid.credit(frame, size)
        for settled in grid.settled(final=final):
            store.settle_agents(settled.rows + self._first_agent, settled.yaw, settled.extent)
        for held in grid.done(final=final):
            self._open.popleft().set_result(self._written(held))

    def _written(self, held: Held) -> Written:
        """What became of a sample."""
        sample = held.sample
        if not (held.frames or held.stored):
            if sample.pose is None:
                return Written(refused=sample.refused, left_out=LeftOut("unusable", NO_POSE))
            reason = f"not needed for {self.options.rate_hz:g} frames a second"
            return Written(refused=sample.refused, left_out=LeftOut("skipped", reason))
        told = {topic for topic, _ in sample.refused}
        idle = ((t, _UNSHOWN) for t in sample.topics if t not in told and not held.stored[t])
        return Written(held.stored, held.bytes, (*sample.refused, *idle), items=held.frames)

    def _begin_scene(self, store: GrowingDataset, frame: Frame) -> None:
        if self._in_scene or self._sequence is None:
            return
        note = SceneNote(self._sequence.name, frame.pose.origin)
        self._first_agent = store.length(AGENTS)
        store.begin_scene(self._sequence.host[:_HOST_LENGTH] or _NO_HOST, frame.time_ns, note)
        self._in_scene = True

    def _end_scene(self, store: GrowingDataset) -> None:
        """Write what is left of the scene under way."""
        if self._grid is not None and self._sequence is not None:
            self._advance(store, self._grid, final=True)
            self._warn(self._sequence.name, self._grid)
        if self._in_scene:
            store.end_scene(self._last_frame_ns)
        self._in_scene, self._grid = False, None

    def _warn(self, scene: str, grid: FrameGrid) -> None:
        if grid.poseless:
            self._warnings.append(
                f"{scene}: {grid.poseless} frames left out: no ego pose is known at their times"
            )
        if grid.gaps:
            self._warnings.append(
                f"{scene}: frames are missing at {grid.gaps} places, but L5Kit's readers assume "
                "evenly spaced frames: select no samples for it, or go by the timestamps"
            )
        self._motion.judge(self._places)
        if warning := self._motion.warning(scene):
            self._warnings.append(warning)

    @staticmethod
    def _append(store: GrowingDataset, made: Frame) -> int:
        frame = np.zeros(1, FRAME)
        frame["timestamp"] = made.time_ns
        frame["agent_index_interval"] = _interval(store, AGENTS, made.agents)
        frame["traffic_light_faces_index_interval"] = _interval(store, FACES, made.faces)
        frame["ego_translation"], frame["ego_rotation"] = made.pose.position_m, made.pose.rotation
        rows = {AGENTS: made.agents, FACES: made.faces, FRAMES: frame}
        size = sum(store.append(name, part) for name, part in rows.items())
        store.commit()
        return size


def _interval(store: GrowingDataset, name: str, rows: Records) -> tuple[int, int]:
    start = store.length(name)
    return start, start + len(rows)
