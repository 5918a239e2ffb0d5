"""A dataset as it grows: four arrays and the attributes in a ``.part`` folder that is renamed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.crashsafe import names
from edgefirst_ros.formats.crashsafe.journal import Journal
from edgefirst_ros.formats.crashsafe.manifest import Entry, measured, write_manifest
from edgefirst_ros.formats.crashsafe.sync import make_folder, sync_paths, tree
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.chunks import MADE_BY, Files, OwnFiles
from edgefirst_ros.formats.l5kit.store.growingarray import (
    JOURNAL_FORMAT,
    NO_ROWS,
    Commit,
    GrowingArray,
    Growth,
)
from edgefirst_ros.formats.zarr2 import ATTRIBUTES_KEY, GROUP, GROUP_KEY

Extent = tuple[float, float, float]


def settle(path: Path) -> None:
    """Undo a take-over that was killed before the successor had the name, or end one that was killed after.

    Raises:
        OSError: as the file system has it.
    """
    names.restore_old(path)
    names.remove(names.old_path(path))


class GrowingDataset:
    """Appends rows to the arrays of the dataset that is to be at ``path``, in its ``.part`` folder.

    Rows count once they are committed: ``commit`` notes in the journal how far each array has grown, and the
    checksum of what is new. Whatever a crash leaves, the rows of the first commits that are whole are a
    dataset, which ``recover`` finishes.

    Args:
        path: where the finished dataset is to be.
        kept: rows to keep of what the ``.part`` folder holds, by array.
        notes: of the scenes that are kept.
        journal: of the ``.part`` folder, which is continued; None begins anew.

    Raises:
        WriteError: another process is writing this dataset.
        DatasetError: less is stored than is to be kept.
        OSError: as the file system has it.
    """

    def __init__(
        self,
        path: Path,
        kept: Mapping[str, Growth] | None = None,
        notes: Iterable[schema.SceneNote] = (),
        journal: Journal | None = None,
    ) -> None:
        self.path = path
        self.part = names.part_path(path)
        self.notes = list(notes)
        self.arrays: dict[str, GrowingArray] = {}
        self._committed_notes = 0
        self._is_new = True
        self._settled: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], Extent]] = []
        self._scene = scene_row(0, "", 0)
        self._journal = journal or _begin(path)
        try:
            for name in schema.SPECS:
                files = OwnFiles(Files(self.part, name))
                self.arrays[name] = GrowingArray(files, (kept or {}).get(name, NO_ROWS))
        except BaseException:
            self.close()
            raise

    def append(self, name: str, rows: schema.Records) -> int:
        """Add rows to an array; returns how many bytes they are."""
        return self.arrays[name].append(rows)

    def length(self, name: str) -> int:
        """Rows of an array so far."""
        return self.arrays[name].length

    def commit(self, scene: tuple[str, int] | None = None) -> None:
        """What was added since the last call is whole: recovery keeps all of it, or nothing.

        Args:
            scene: host and start time, in nanoseconds, of a scene that begins with the next frame.

        Raises:
            OSError: the disk is full or gone.
        """
        rows = {name: growth for name, array in self.arrays.items() if (growth := array.take_growth())}
        notes = tuple(self.notes[self._committed_notes :])
        self._committed_notes = len(self.notes)
        self._journal.append(Commit(rows, notes, scene).to_json())

    def begin_scene(self, host: str, start_time_ns: int, note: schema.SceneNote) -> None:
        """A scene starts with the next frame."""
        self.notes.append(note)
        self._scene = scene_row(self.length(schema.FRAMES), host, start_time_ns)
        self.commit((host, start_time_ns))

    def end_scene(self, end_time_ns: int) -> None:
        """The scene that began last ends with the last frame."""
        self._scene["frame_index_interval"][0, 1] = self.length(schema.FRAMES)
        self._scene["end_time"] = end_time_ns
        self.append(schema.SCENES, self._scene)
        self.commit()

    def settle_agents(
        self, rows: npt.NDArray[np.int64], yaw: npt.NDArray[np.float64], extent: Extent
    ) -> None:
        """Give rows of agents the yaw and the extent that are known by now, when the dataset is completed."""
        self._settled.append((rows, yaw, extent))

    def _settle(self) -> None:
        """Rewrite chunks of agents whose rows are settled; their tails keep what was committed."""
        if not self._settled:
            return
        numbers, yaw = (np.concatenate(each) for each in list(zip(*self._settled, strict=True))[:2])
        extent = np.repeat([each[2] for each in self._settled], [len(each[0]) for each in self._settled], 0)
        order = np.argsort(numbers, kind="stable")
        numbers, yaw, extent = numbers[order], yaw[order], extent[order]

        def changed(begin: int, rows: schema.Records) -> schema.Records:
            rows = rows.copy()
            inside = slice(*np.searchsorted(numbers, [begin, begin + len(rows)]))
            rows["yaw"][numbers[inside] - begin] = yaw[inside]
            rows["extent"][numbers[inside] - begin] = extent[inside]
            return rows

        self.arrays[schema.AGENTS].rewrite(changed)
        self._settled.clear()

    @contextmanager
    def syncing(self) -> Iterator[list[Path]]:
        """What holds everything that was committed before, see Syncing; any one thread."""
        paths = [path for array in self.arrays.values() for path in array.begin_sync()]
        if self._is_new:
            paths += [self.part.parent, *tree(self.part)]
        yield [*paths, self._journal.path]
        self._is_new = False
        for array in self.arrays.values():
            array.end_sync()

    @property
    def finish_bytes(self) -> int:
        """How many bytes ``complete`` writes at most: the chunks under way, whose rows stay until then."""
        agents = self.arrays[schema.AGENTS]
        rewritten = 2 * agents.length * agents.files.spec.dtype.itemsize if self._settled else 0
        return sum(array.tail_bytes for array in self.arrays.values()) + self._journal.size + rewritten

    @property
    def is_lost(self) -> bool:
        """Whether the folder that grows is no longer there.

        Raises:
            OSError: the disk does not answer.
        """
        return self._journal.is_lost

    def complete(self) -> None:
        """Complete every array, the metadata and the manifest in the ``.part`` folder, synced.

        Raises:
            OSError: as the file system has it; nothing is lost then.
        """
        self._settle()
        for array in self.arrays.values():
            array.complete()
        names.replace_file(self.part / GROUP_KEY, GROUP, sync=False)
        schema.write_attributes(self.part, self.notes)
        for leftover in self.part.rglob(f"*{names.NEW}"):
            leftover.unlink()
        self._write_manifest()
        sync_paths([*tree(self.part), self.part.parent])
        self._journal.append(Commit(complete=True).to_json())
        self._journal.sync()
        forget_tails(self.part)

    def _write_manifest(self) -> None:
        files = {path: measured(path) for path in (self.part / GROUP_KEY, self.part / ATTRIBUTES_KEY)}
        for array in self.arrays.values():
            files.update({path: (size, crc) for path, size, crc in array.files.measured()})
        entries = (Entry(path.relative_to(self.part).as_posix(), *sums) for path, sums in files.items())
        write_manifest(self.part / schema.MANIFEST, MADE_BY, sorted(entries), sync=False)

    def publish(self) -> None:
        """Give the complete dataset its name, in place of what has it, which goes.

        Raises:
            OSError: as the file system has it; recovery ends it then.
        """
        publish(self.path)
        self.close()

    def finish(self) -> None:
        """``complete`` and ``publish``."""
        self.complete()
        self.publish()

    def discard(self) -> None:
        """Remove everything that grew."""
        self.close()
        remove_part(self.part)

    def close(self) -> None:
        """Let go of the files, which stay as they are; may be repeated."""
        for array in self.arrays.values():
            array.close()
        self._journal.close()


def forget_tails(part: Path) -> None:
    """Remove the rows of chunks that the disk holds.

    Raises:
        OSError: as the file system has it.
    """
    names.forget(*(tail for name in schema.SPECS for _, tail in Files(part, name).tails()))


def publish(path: Path) -> None:
    """Give the complete ``.part`` folder of ``path`` its name, in place of what has it, which goes.

    Raises:
        OSError: as the file system has it; recovery ends it then.
    """
    names.take_name(path)
    (path / schema.JOURNAL).unlink()
    names.remove(names.old_path(path))
    sync_paths([path, path.parent])


def scene_row(first_frame: int, host: str, start_time_ns: int) -> schema.Records:
    """The row of a scene, (1,), whose end is not known yet."""
    row = np.zeros(1, schema.SCENE)
    row["frame_index_interval"], row["host"], row["start_time"] = first_frame, host, start_time_ns
    return row


def remove_part(part: Path) -> None:
    """Remove a ``.part`` folder; its journal last, because it says whose the rest is.

    Raises:
        OSError: as the file system has it.
    """
    if part.is_dir() and not part.is_symlink():
        journal = part / schema.JOURNAL
        names.forget_unfinished([each for each in part.iterdir() if each != journal], journal)
    names.forget(part)


def _begin(path: Path) -> Journal:
    """A ``.part`` folder with an empty journal, in place of what an earlier run left.

    The disk holds it before anything else is there: a power cut never leaves the rest without it.

    Raises:
        WriteError: another process is writing it.
        OSError: as the file system has it.
    """
    part = names.part_path(path)
    is_there = part.is_dir() and not part.is_symlink()
    with closing(Journal(part / schema.JOURNAL, JOURNAL_FORMAT)) if is_there else nullcontext():
        settle(path)
        remove_part(part)
    make_folder(path.parent)
    part.mkdir()
    journal = Journal(part / schema.JOURNAL, JOURNAL_FORMAT, exclusive=True)
    try:
        journal.begin()
        journal.sync()
        sync_paths([part, part.parent])
    except BaseException:
        journal.close()
        raise
    return journal
