"""A dataset as it grows: six arrays and the attributes in a ``.part`` folder that is renamed at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.crashsafe.lock import Lock
from edgefirst_ros.formats.crashsafe.names import old_path, part_path
from edgefirst_ros.formats.crashsafe.replacing import NEW, remove, replace_file, restore_old, take_name
from edgefirst_ros.formats.l5kit.store.attributes import (
    SceneNote,
    read_attributes,
    scene_notes,
    write_attributes,
)
from edgefirst_ros.formats.l5kit.store.chunkfiles import Files, OwnFiles
from edgefirst_ros.formats.l5kit.store.growingarray import GrowingArray, stored_length
from edgefirst_ros.formats.l5kit.store.schema import (
    FRAMES,
    POINTS,
    SCENE,
    SCENES,
    SIDE,
    SPANS,
    SPECS,
    Records,
)
from edgefirst_ros.formats.zarr2.metadata import GROUP, GROUP_KEY

OPEN_SCENE = ".scene"
"""The scene under way, one row whose end is not known yet; gone once the dataset is finished."""

EXTENDS = ".extends"
"""Empty; says that the finished dataset of this name is contained, so that this one may replace it."""


def settle(path: Path) -> None:
    """Undo a take-over that was killed before the successor had the name, or end one that was killed after.

    Raises:
        OSError: as the file system has it.
    """
    restore_old(path)
    remove(old_path(path))


class GrowingDataset:
    """Appends rows to the arrays of the dataset that is to be at ``path``.

    Rows that others point to come first: points and spans, agents and faces, then the frame; a scene's row
    when its last frame is there, and until then in a file of its own. Then whatever a crash leaves, the
    frames whose rows are all there are a dataset, which ``recover`` finishes.

    Args:
        path: where the finished dataset is to be.
        lengths: rows to keep of what the ``.part`` folder holds, by array; None begins anew.
        notes: of the scenes that are kept.

    Raises:
        WriteError: another process is writing this dataset.
        DatasetError: less is stored than is to be kept.
        OSError: as the file system has it.
    """

    def __init__(
        self, path: Path, lengths: Mapping[str, int] | None = None, notes: Iterable[SceneNote] = ()
    ) -> None:
        self.path = path
        self.part = part_path(path)
        self.notes = list(notes)
        if lengths is None:
            _make_room(path)
        self.part.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self.part)
        self.arrays: dict[str, GrowingArray] = {}
        try:
            replace_file(self.part / GROUP_KEY, GROUP)
            for name in SPECS:
                files = OwnFiles(Files(self.part, name))
                self.arrays[name] = GrowingArray(files, (lengths or {}).get(name, 0))
            self.fill_spans()
            write_attributes(self.part, self.notes)
        except BaseException:
            self.close()
            raise

    @classmethod
    def extend(cls, path: Path) -> GrowingDataset:
        """Continue the finished dataset at ``path``, which stays as it is until ``finish``.

        Whole chunks are shared by both (hard links, copies where the file system has none).

        Raises:
            DatasetNotFound: there is none.
            DatasetError: it is cut or packed otherwise than this package does; ``merge`` can take it over.
        """
        lengths = _checked_lengths(path)
        notes = scene_notes(read_attributes(path), lengths[SCENES])
        _make_room(path)
        part = part_path(path)
        part.mkdir()
        (part / EXTENDS).touch()
        for name in SPECS:
            source, target = Files(path, name), Files(part, name)
            target.folder.mkdir(parents=True, exist_ok=True)
            for number, chunk in source.chunks():
                _share(chunk, target.chunk(number))
            if source.metadata.exists():
                shutil.copyfile(source.metadata, target.metadata)
        return cls(path, lengths, notes)

    def append(self, name: str, rows: Records) -> int:
        """Add rows to an array; returns how many bytes they are."""
        return self.arrays[name].append(rows)

    def length(self, name: str) -> int:
        """Rows of an array so far."""
        return self.arrays[name].length

    def begin_scene(self, host: str, start_time_ns: int, note: SceneNote) -> None:
        """A scene starts with the next frame."""
        self.notes.append(note)
        write_attributes(self.part, self.notes)
        row = np.zeros(1, SCENE)
        row["frame_index_interval"], row["host"], row["start_time"] = self.length(FRAMES), host, start_time_ns
        replace_file(self.part / OPEN_SCENE, row.tobytes())

    def end_scene(self, end_time_ns: int) -> None:
        """The scene that began last ends with the last frame."""
        row = open_scene(self.part)
        row["frame_index_interval"][0, 1] = self.length(FRAMES)
        row["end_time"] = end_time_ns
        self.append(SCENES, row)

    def finish(self) -> None:
        """Complete every array and take the place of what is at ``path``; the folder that was there goes.

        Raises:
            OSError: as the file system has it; nothing is lost then.
        """
        for name, array in self.arrays.items():
            array.finish()
            if name in SIDE and not self.length(POINTS):
                for file in Files(self.part, name).all():
                    file.unlink()
        write_attributes(self.part, self.notes)
        for leftover in (self.part / OPEN_SCENE, *self.part.rglob(f"*{NEW}")):
            leftover.unlink(missing_ok=True)
        take_name(self.path)
        remove(old_path(self.path))
        (self.path / EXTENDS).unlink(missing_ok=True)
        self.close()

    def discard(self) -> None:
        """Remove everything that grew."""
        self.close()
        remove(self.part)

    def close(self) -> None:
        """Let go of the files, which stay as they are; may be repeated."""
        for array in self.arrays.values():
            array.close()
        self._lock.release()

    def fill_spans(self) -> None:
        """Frames that came without points have none."""
        missing = self.length(FRAMES) - self.length(SPANS)
        if missing:
            rows = np.zeros(missing, SPECS[SPANS].dtype)
            rows["point_index_interval"] = self.length(POINTS)
            self.append(SPANS, rows)


def open_scene(part: Path) -> Records:
    """The row of the scene under way, (1,); empty if there is none."""
    with suppress(FileNotFoundError):
        data = (part / OPEN_SCENE).read_bytes()
        if len(data) == SCENE.itemsize:
            return np.frombuffer(data, SCENE).copy()
    return np.zeros(0, SCENE)


def _make_room(path: Path) -> None:
    """Remove what an earlier run left unfinished; a complete dataset stays.

    Raises:
        WriteError: another process is writing it.
        OSError: as the file system has it.
    """
    part = part_path(path)
    with Lock(part) if part.exists() else nullcontext():
        settle(path)
        remove(part)


def _checked_lengths(path: Path) -> dict[str, int]:
    lengths = {}
    for name in SPECS:
        files = OwnFiles(Files(path, name))
        if name in SIDE and not files.files.metadata.exists():
            lengths[name] = 0
            continue
        header = files.files.header()
        own = files.header
        if (header.dtype, header.chunk, header.compressor) != (own.dtype, own.chunk, own.compressor):
            raise DatasetError(
                f"{path}: {name} is {header.dtype} in chunks of {header.chunk} by {header.compressor}; "
                "only datasets as written here can be appended to, merge others instead"
            )
        lengths[name] = header.length
        if stored_length(files) < header.length:
            raise DatasetError(f"{path}: {name} of {header.length} rows has a missing or damaged chunk")
    return lengths


def _share(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
