"""Writes samples to an EdgeFirst dataset: prepared in any thread, appended in order, renamed at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import forget, forget_unfinished, part_path, refuse_links
from edgefirst_ros.formats.crashsafe.sync import disk_errors, make_folder, sync_path
from edgefirst_ros.formats.crashsafe.writer import DatasetWriter
from edgefirst_ros.formats.edgefirst.finish import complete_dataset, publish_dataset
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.prepare.sample import (
    EncodedOnce,
    PreparedFile,
    PreparedSample,
    prepare_sample,
)
from edgefirst_ros.formats.edgefirst.recover import finish_replacement
from edgefirst_ros.formats.edgefirst.store.archive import Archive, DatasetPaths, open_archive
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.format import Call, LeftOut, Written
from edgefirst_ros.formats.motion import SEVERAL, location_motion
from edgefirst_ros.model.errors import OutputExists, WriteError
from edgefirst_ros.model.sample import Sample, SequenceInfo
from edgefirst_ros.model.untrusted import safe_name

NO_FILES = LeftOut("unusable", "sample without sensor files")


@dataclass(slots=True)
class _Growing:
    """A sequence under way: its last frame, and the size of its first picture of each kind."""

    last_frame: int = -1
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)


class EdgeFirstWriter(DatasetWriter[tuple[SampleJournal, Archive]]):
    """Writes one dataset into ``root/<dataset>/``; implements SampleWriter and ByCamera.

    Several sequences of different names may follow one another, those of a rig's cameras side by side. The
    container grows as a ``.part`` file beside a journal of committed samples, from which ``recover`` can
    finish a killed run; ``close`` makes the annotation table from the journal and renames both. Memory does
    not grow with the number of samples.

    Args:
        root: folder of the datasets; created with the first sequence.
        dataset: name of the dataset; ``safe_name`` makes it a file name.
        options: options of the format.
        overwrite: replace a dataset of this name when this one is complete.

    Raises:
        OutputExists: the dataset exists, finished or not, and ``overwrite`` is false.
        OutputBusy: another process is writing it.
        WriteError: its folder, or a file of it, is a symbolic link.
    """

    name = "edgefirst"
    unit = "samples"

    def __init__(
        self, root: Path, dataset: str, options: EdgeFirstOptions, *, overwrite: bool = False
    ) -> None:
        self.options = options
        self._once = EncodedOnce()
        self.paths = paths = DatasetPaths(root / safe_name(dataset))
        refuse_links(root, paths.manifest, paths.quality, paths.listing)
        finished, unfinished = paths.finished(), paths.unfinished()
        super().__init__(root, paths.folder, paths.journal, finished, unfinished, overwrite=overwrite)
        self._sequences: set[str] = set()
        self._rig = ""
        self._under_way: dict[str, _Growing] = {}
        self._has_samples = False
        self._is_single = options.schema_version != "2025.01"  # precision of the table's locations
        self._motion = location_motion(single=self._is_single)
        self._places: list[tuple[int, tuple[float, float]]] = []

    def begin(self, sequence: SequenceInfo) -> None:
        """Begin a sequence; the first one creates the output's ``.part`` files.

        Raises:
            OutputExists: the dataset already has a sequence of this name.
            WriteError: the output cannot be created, or another process is writing it.
        """
        name = self._new(sequence)
        if self._store is None:
            with self._reporting():
                self._store = self._open()
        self._judge_motion()
        self._rig, self._under_way = name, {name: _Growing()}

    def begin_camera(self, sequence: SequenceInfo) -> None:
        """Begin a camera's sequence beside that of the rig; see ByCamera.

        Raises:
            OutputExists: the dataset already has a sequence of this name.
        """
        self._under_way[self._new(sequence)] = _Growing()

    def _new(self, sequence: SequenceInfo) -> str:
        name = safe_name(sequence.name)
        if name in self._sequences:
            raise OutputExists(f"{self.paths.folder}: has a sequence {name} already; rename one of them")
        self._sequences.add(name)
        return name

    def prepare(self, sample: Sample) -> PreparedSample:
        """Encode all files and rows of a sample; pure, for any thread."""
        return prepare_sample(sample, self.options, self._once)

    def distribute(self, call: Call) -> None:
        """Have cubes and range images encoded by ``call``."""
        self._once.call = call

    def write(self, prepared: PreparedSample) -> Written:
        """Append the sample's files, then commit them with a record in the journal.

        Depth and lidar images of another size than the first of their kind in the sequence are refused. A
        sample without files is left out, as is one whose frame number is not above the one before. A message
        may be both in ``refused`` and in ``stored``, if only a part of it was refused.

        Raises:
            WriteError: the disk is full or reports an error; what was committed stays as ``.part`` files.
        """
        journal, archive = self._growing()
        growing = self._under_way.get(prepared.sequence)
        if growing is None:
            raise WriteError(
                f"{self.paths.folder}: sample of sequence {prepared.sequence} while {self._rig} is "
                "written: begin each sequence before its samples"
            )
        if prepared.frame <= growing.last_frame:
            return Written(left_out=LeftOut("unusable", "not later than the frame before"))
        refused = list(prepared.refused)
        files = [file for file in prepared.files if _fits(file, growing.sizes, refused)]
        if not files:
            refused += [(topic, NO_FILES.reason) for topic in prepared.annotations]
            return Written(refused=tuple(refused), left_out=NO_FILES)
        with self._reporting():
            for file in files:
                archive.add(file.record, file.data, prepared.time_ns)
            journal.commit([file.record for file in files], prepared.record_json)
        growing.last_frame, self._has_samples = prepared.frame, True
        self._move(prepared, files)
        stored = Counter(prepared.annotations)
        for file in files:
            if file.topic:
                stored[file.topic] += file.record.size
        return Written(stored, sum(file.record.size for file in files), tuple(refused))

    def _results(self) -> list[Path]:
        return [self.paths.arrow, self.paths.container(self.options.container)]

    def _finish(self, store: tuple[SampleJournal, Archive]) -> bool:
        """Finish container and table, the latter made of the journal."""
        self._judge_motion()
        journal, archive = store
        if self._has_samples:
            table = complete_dataset(self.paths, archive, journal, self.options)
            if self.options.split != "time" and len(table.groups) == 1:
                drives = "1 drive" if table.drives == 1 else f"{table.drives:,} drives"
                where = f"all samples of {drives} are in {''.join(table.groups)}"
                self._notes.append(f"{where}: use --split time, or convert ten drives or more")
            return True
        self._release(store)
        *others, journal_path = self.paths.unfinished()
        forget_unfinished(others, journal_path)
        return False

    def _publish(self, store: tuple[SampleJournal, Archive]) -> None:
        publish_dataset(self.paths, store[0], self.options)

    def _release(self, store: tuple[SampleJournal, Archive]) -> None:
        journal, archive = store
        with suppress(OSError):
            archive.abort()
        journal.close()

    @contextmanager
    def syncing(self) -> Iterator[Collection[Path]]:
        """What holds every sample written before; see CrashSafe."""
        paths = [] if self._store is None else [*self._store[1].unsynced(), self.paths.journal]
        with disk_errors(self.paths.folder, advice=self._advice, below=self.paths.folder):
            yield paths

    def finish_bytes(self) -> int:
        """The table, made of the journal, and the container's directory; see Watched."""
        return 0 if self._store is None else 2 * self._store[0].size + self._store[1].finish_bytes

    def lost(self) -> Path | None:
        """The dataset's folder or its container; see Watched."""
        if self._store is None:
            return None
        if self._store[0].is_lost:
            return self.paths.folder
        container = part_path(self.paths.container(self.options.container))
        return None if container.exists() else container

    def _open(self) -> tuple[SampleJournal, Archive]:
        make_folder(self.paths.folder)
        journal = SampleJournal(self.paths.journal)
        try:
            if not self._overwrite:
                self._refuse_newer(journal)
            if finish_replacement(self.paths, journal):
                journal = SampleJournal(self.paths.journal)
            journal.start(self.options)
            journal.sync()
            forget(*self.paths.unfinished()[:-1])  # the disk has the journal before a container
            container = self.paths.container(self.options.container)
            archive = open_archive(part_path(container), self.options.container)
            sync_path(self.paths.folder)
        except BaseException:
            journal.close()
            raise
        return journal, archive

    def _refuse_newer(self, journal: SampleJournal) -> None:
        """Refuse what another run has left or finished since this one began; its files stay."""
        others = (*self.paths.finished(), *self.paths.unfinished()[:-1])
        if not journal.is_empty or any(path.exists() for path in others):
            if journal.is_empty:
                forget(self.paths.journal)
            journal.close()
            self._refuse_others()

    def _move(self, prepared: PreparedSample, files: Sequence[PreparedFile]) -> None:
        """Note where the rig was, as the table and the picture's EXIF say; other cameras are on the same."""
        if prepared.sequence != self._rig:
            return
        if prepared.location is not None and any(file.kind.startswith("camera.") for file in files):
            self._places.append((prepared.time_ns, prepared.location))
            if len(self._places) >= SEVERAL:
                self._motion.judge(self._places)

    def _judge_motion(self) -> None:
        """Warn if the sequence's samples lie where no vehicle can have been in time."""
        self._motion.judge(self._places)
        if warning := self._motion.warning(self._rig):
            self._warnings.append(warning)
        self._motion = location_motion(single=self._is_single)


def _fits(file: PreparedFile, sizes: dict[str, tuple[int, int]], refused: list[tuple[str, str]]) -> bool:
    if file.size is None or sizes.setdefault(file.kind, file.size) == file.size:
        return True
    refused.append((file.topic, f"{file.kind} differs in size from the sequence's first"))
    return False
