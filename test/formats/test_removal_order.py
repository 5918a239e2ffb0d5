"""What recovery reads is on the disk before what it speaks of, and gone from it after that, for good."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import edgefirst_samples
import l5_samples
import ncoremade
import pytest
from places import contents, opened

from edgefirst_ros.formats.crashsafe import sync
from edgefirst_ros.formats.crashsafe.names import forget
from edgefirst_ros.formats.datasets import recover
from edgefirst_ros.formats.edgefirst import writer as edgefirst_writer
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.formats.l5kit import L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.store.growingarray import GrowingArray
from edgefirst_ros.formats.ncore.finish import sequence as finish
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.store.files import SequenceFiles
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter


class Watched:
    """What the disk is sure to hold, and what was removed from it.

    Attributes:
        names: those in each folder when it was synced last; a file's are its own name.
        freed: files that nobody had open before the disk held their folders without them: on a file system
            without a journal another file can have their inodes then, under both names.
        left: names beside each removed file that the disk held when one of its name was removed first.
        removed: files whose names the disk may still have, with their inodes.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.names: dict[Path, set[str]] = {}
        self.freed: set[str] = set()
        self.left: dict[str, set[str]] = {}
        self.removed: dict[Path, tuple[int, int]] = {}
        self._sync, self._unlink = os.fsync, os.unlink
        patch.setattr(os, "fsync", self._synced)
        patch.setattr(os, "fdatasync", self._synced)
        patch.setattr(os, "unlink", self._unlinked)
        patch.setattr(sync, "flushes_disk", lambda _: False)  # what is not named is not synced

    def holds(self, path: Path) -> bool:
        """Whether the disk has a file's bytes and its name."""
        return path in self.names and path.name in self.names.get(path.parent, set())

    def gone(self, path: Path) -> bool:
        """Whether the disk has a removed file's name no more, and nobody else could take its inode before."""
        return path.name in self.left and path not in self.removed and path.name not in self.freed

    def _synced(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.names[path] = {path.name}
            return
        self.names[path] = {each.name for each in path.iterdir()}
        held = opened()
        for removed, inode in [*self.removed.items()]:
            if removed.parent == path:
                del self.removed[removed]
                if inode not in held:
                    self.freed.add(removed.name)

    def _unlinked(self, path: str | Path, *args: Any, **options: Any) -> None:  # noqa: ANN401 - its own
        if not options:
            path = Path(path)
            with suppress(FileNotFoundError):
                state = path.lstat()
                self.removed[path] = (state.st_dev, state.st_ino)
                self.left.setdefault(path.name, self.names.get(path.parent, set()) - {path.name})
        self._unlink(path, *args, **options)


def edgefirst(root: Path, count: int = 2) -> EdgeFirstWriter:
    writer = EdgeFirstWriter(root, "ds", EdgeFirstOptions(), overwrite=True)
    writer.begin(edgefirst_samples.SEQUENCE)
    for frame in range(count):
        writer.write(writer.prepare(edgefirst_samples.full_sample(frame)))
    return writer


def ncore(root: Path, count: int = 2) -> NCoreWriter:
    writer = NCoreWriter(root, NCoreOptions(), overwrite=True)
    writer.begin(ncoremade.SEQUENCE)
    for number in range(count):
        writer.write(writer.prepare(ncoremade.lidar(ncoremade.START_NS + number * 100_000_000)))
    return writer


def l5kit(root: Path, count: int = 4) -> L5KitWriter:
    writer = L5KitWriter(root, "ds", L5KitOptions(), overwrite=True)
    l5_samples.feed(writer, [l5_samples.sample(number) for number in range(count)])
    return writer


SEQUENCE = ncoremade.SEQUENCE.name
MADE = [
    (edgefirst, "ds/ds.journal.part"),
    (ncore, f"{SEQUENCE}/{SEQUENCE}.journal.part"),
    (l5kit, "ds.zarr.part/.journal"),
]
Make = Callable[..., Any]


def test_of_what_is_forgotten_nothing_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    (tmp_path / "folder" / "inside" / "file").touch()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    watched = Watched(monkeypatch)
    forget(*(tmp_path / name for name in ("link", "folder", "file", "pipe", "none")))
    assert watched.names[tmp_path] == {"elsewhere"}
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"
    assert watched.gone(tmp_path / "file")


@pytest.mark.parametrize(("make", "journal"), MADE)
def test_what_says_whose_the_rest_is_cannot_become_that_of_another(
    make: Make, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sequence's meta file had the inode of this one's, and this one's name led to it."""
    watched = Watched(monkeypatch)
    make(tmp_path).close()
    assert not (tmp_path / journal).exists()
    told = {Path(journal).name, f"{SEQUENCE}.json.part"}
    assert told & watched.left.keys()
    assert not told & watched.freed
    assert not told & {path.name for path in watched.removed}


@pytest.mark.parametrize(("make", "journal"), MADE[1:])
def test_what_is_replaced_loses_its_journal_last(
    make: Make, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path).abort()
    left = {each.name for each in (tmp_path / journal).parent.iterdir()}
    watched = Watched(monkeypatch)
    watched.names[(tmp_path / journal).parent] = left
    make(tmp_path, 1).abort()
    name = Path(journal).name
    assert len(left) > 1
    assert (name in watched.left, watched.left.get(name)) == (True, set())
    assert watched.gone(tmp_path / journal)


@pytest.mark.parametrize(("make", "journal"), MADE)
def test_where_nothing_was_committed_the_journal_goes_last(
    make: Make, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path).abort()
    path = tmp_path / journal
    # The rest has reached the disk; of the journal, what a run has written that was killed behind its head.
    data = path.read_bytes()
    size = 8 + int.from_bytes(data[(head := data.index(b"\n") + 1) :][:4], "little")
    path.write_bytes(data[: head + (0 if make is l5kit else size)])
    if make is ncore:
        for store in path.parent.glob("*.itar.part"):
            store.write_bytes(b"")
    left = {each.name for each in path.parent.iterdir()}
    watched = Watched(monkeypatch)
    watched.names[path.parent] = left
    done = [*recover(tmp_path)]
    assert [each.failed for each in done] == [False]
    assert not path.parent.exists()
    assert len(left) > 1
    assert (path.name in watched.left, watched.left.get(path.name)) == (True, set())
    assert watched.gone(path)


def test_the_meta_file_of_a_replaced_sequence_goes_before_its_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that the stores are complete; without them an earlier sequence's would be taken for them."""
    ncore(tmp_path, 1).close()
    complete = ncore(tmp_path)
    complete.complete()
    complete.abort()
    folder = tmp_path / SEQUENCE
    meta = f"{SEQUENCE}.json.part"
    stores = {each.name for each in folder.glob("*.itar.part")}
    rest: list[Path] = []
    monkeypatch.setattr(finish, "forget_unfinished", lambda others, _: rest.extend(others))
    watched = Watched(monkeypatch)
    finish.remove_unfinished(SequenceFiles(folder, SEQUENCE))
    assert stores <= {path.name for path in rest}
    assert watched.gone(folder / meta)
    assert meta not in watched.names[folder]


def test_a_meta_file_of_another_sequence_is_no_reason_to_touch_a_complete_one(tmp_path: Path) -> None:
    """Its removed name came back with the next one's inode."""
    ncore(tmp_path).close()
    folder = tmp_path / SEQUENCE
    before = contents(folder)
    meta = before[f"{SEQUENCE}.json"].replace(SEQUENCE.encode(), f"{SEQUENCE}-001".encode())
    other = tmp_path / "other.json"
    other.write_bytes(meta)
    (folder / f"{SEQUENCE}.json.part").hardlink_to(other)
    done = [*recover(tmp_path)]
    assert [(each.failed, each.path) for each in done] == [(False, folder)]
    assert contents(folder) == before
    assert other.read_bytes() == meta


def test_no_array_is_there_before_the_disk_holds_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without a journal could be an earlier version's, which recovery leaves alone."""
    watched, journal = Watched(monkeypatch), tmp_path / "ds.zarr.part" / ".journal"
    begun: list[bool] = []
    real = GrowingArray.__init__

    def begin(self: GrowingArray, *args: Any) -> None:  # noqa: ANN401 - the method's own
        begun.append(watched.holds(journal) and journal.parent.name in watched.names.get(tmp_path, set()))
        real(self, *args)

    monkeypatch.setattr(GrowingArray, "__init__", begin)
    l5kit(tmp_path).abort()
    assert begun
    assert all(begun)


def test_no_container_is_there_before_the_disk_holds_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, journal = Watched(monkeypatch), tmp_path / "ds" / "ds.journal.part"
    begun: list[bool] = []
    real = edgefirst_writer.open_archive

    def begin(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the function's own
        begun.append(watched.holds(journal))
        return real(*args, **options)

    monkeypatch.setattr(edgefirst_writer, "open_archive", begin)
    edgefirst(tmp_path).abort()
    assert begun == [True]
