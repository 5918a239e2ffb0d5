"""Locks, appends, replacements and names: whole or not there, wherever a kill hits."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from places import identity, opened
from zenoh_loopback import await_condition

from edgefirst_ros.formats.crashsafe import journal as lock_module
from edgefirst_ros.formats.crashsafe import sync as sync_module
from edgefirst_ros.formats.crashsafe.journal import Lock, holder
from edgefirst_ros.formats.crashsafe.names import (
    finished_path,
    forget,
    free_name,
    move_aside,
    old_path,
    part_path,
    remove,
    replace_file,
    restore_old,
    take_name,
)
from edgefirst_ros.formats.crashsafe.sync import (
    AppendFile,
    Unsynced,
    disk_errors,
    flushes_disk,
    make_folder,
    sync_file_system,
    sync_paths,
    sync_together,
    tree,
)
from edgefirst_ros.model.errors import OutputBusy, OutputExists, WriteError


class Killed(Exception):
    """Stands for the death of the process."""


def killed_after(steps: int, act: Callable[[], object]) -> bool:
    """Whether something dies that may change names on disk so many times."""
    left = iter(range(steps))

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            if next(left, None) is None:
                raise Killed
            return real(*args, **options)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "unlink", "open", "mkdir", "write_text"):
            patch.setattr(Path, name, counted(getattr(Path, name)))
        try:
            act()
        except Killed:
            return True
    return False


HOLDER = """
import sys
from pathlib import Path
from edgefirst_ros.formats.crashsafe.journal import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("folder", [False, True])
def test_a_lock_of_another_process_lasts_until_it_ends(tmp_path: Path, folder: bool) -> None:
    path = tmp_path / "x"
    path.mkdir() if folder else path.touch()
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        who = rf"process {process.pid} \({re.escape(sys.executable)} -c .*\) has ended"
        with pytest.raises(OutputBusy, match=rf"x: this dataset is being written; wait until {who}$"):
            Lock(path)
        assert re.fullmatch(who, holder(path))
        process.send_signal(signal.SIGSTOP)
        await_condition("stopped", lambda: "is stopped" in holder(path))
        with pytest.raises(
            OutputBusy, match=rf"{who}; it is stopped: kill -CONT {process.pid} lets it go on"
        ):
            Lock(path)
        process.kill()
    assert holder(path) == ""
    with Lock(path), pytest.raises(OutputBusy, match="being written; wait until this process has ended it"):
        Lock(path)
    assert holder(path) == ""
    Lock(path).release()


def test_a_lock_on_what_was_removed_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.touch()
    real = os.open

    def removed(*args: int) -> int:
        descriptor = real(*args)
        path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", removed)
    with pytest.raises(WriteError, match="is being written"):
        Lock(path)


def test_whoever_only_looks_at_a_lock_for_long_does_not_refuse_it_to_a_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    pauses = iter(range(50))

    def pause(_: float) -> None:
        if next(pauses, None) is None:
            fcntl.flock(looking, fcntl.LOCK_UN)

    monkeypatch.setattr(lock_module.time, "sleep", pause)
    with Lock(tmp_path):
        assert holder(tmp_path)
    assert next(pauses, None) is None
    os.close(looking)


@pytest.mark.parametrize("without", ["platform", "file system"])
def test_without_locks_there_is_none(tmp_path: Path, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if without == "platform":
        monkeypatch.setattr(lock_module, "fcntl", None)
    else:

        def refused(*_: int) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(lock_module.fcntl, "flock", refused)
    with Lock(tmp_path), Lock(tmp_path):
        pass


def test_short_writes_are_taken_up_where_they_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector, plain = os.pwritev, os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: vector(fd, [buffers[0][:3]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: plain(fd, data[:700], at))
    buffers = [bytes([number % 251]) * 1500 for number in range(2100)]
    file = AppendFile(tmp_path / "x")
    assert file.append(*buffers[:7]) == 7 * 1500
    assert file.append(*buffers[7:]) == 2093 * 1500
    file.close()
    assert (tmp_path / "x").read_bytes() == b"".join(buffers)


@pytest.mark.parametrize("fails", ["pwritev", "pwrite"])
def test_a_failed_append_is_taken_back(tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AppendFile(tmp_path / "x")
    file.append(b"before")
    vector = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: vector(fd, [buffers[0][:3]], at))

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, fails, failing)
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"much" * 1000, b"more")
    monkeypatch.undo()
    assert (tmp_path / "x").read_bytes() == b"before"
    file.append(b" after")
    assert (tmp_path / "x").read_bytes() == b"before after"
    file.close()


def test_a_torn_end_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"whole and torn")
    file = AppendFile(tmp_path / "x")
    assert (file.size, file.read(20, 6)) == (14, b"and torn")
    assert file.truncate(5) == 9
    file.append(b"!")
    file.close()
    file.close()
    assert (tmp_path / "x").read_bytes() == b"whole!"


def test_a_file_has_all_of_the_old_or_all_of_the_new(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for steps in count():
        path.write_bytes(b"old")
        died = killed_after(steps, lambda: replace_file(path, b"new"))
        assert path.read_bytes() == (b"old" if died else b"new")
        if not died:
            break
    assert steps > 1
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, bool]] = []
    is_folder = Path.is_dir

    def note(descriptor: int) -> None:
        synced.append((is_folder(Path(f"/proc/self/fd/{descriptor}")), (tmp_path / "x").exists()))

    monkeypatch.setattr(os, "fsync", note)
    replace_file(tmp_path / "x", b"new", sync=sync)
    assert synced == [(False, False), (True, True)] * sync


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"mine")
    (tmp_path / "x").symlink_to("elsewhere")
    (tmp_path / "y.new").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        AppendFile(tmp_path / "x")
    replace_file(tmp_path / "y", b"new")
    remove(tmp_path / "x")
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"
    assert (tmp_path / "y").read_bytes() == b"new"


class Synced:
    """Inodes that were synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inodes: list[int] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, lambda fd: self.inodes.append(os.fstat(fd).st_ino))

    def has(self, path: Path) -> bool:
        return path.stat().st_ino in self.inodes


def test_a_file_can_be_synced_while_others_append_and_close_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AppendFile(tmp_path / "x")
    file.append(b"one")

    def close_meanwhile(descriptor: int) -> None:
        file.close()
        (tmp_path / "y").touch()
        with (tmp_path / "y").open():  # takes the number that became free
            assert os.fstat(descriptor).st_ino == (tmp_path / "x").stat().st_ino

    monkeypatch.setattr(os, "fdatasync", close_meanwhile)
    file.sync()
    monkeypatch.setattr(os, "fdatasync", lambda _: pytest.fail("a closed file was synced"))
    file.sync()


def test_made_folders_have_their_names_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = Synced(monkeypatch)
    make_folder(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()
    assert synced.inodes == [tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino]
    make_folder(tmp_path / "a/b")
    assert len(synced.inodes) == 2


def test_what_was_added_is_taken_once_and_at_first_everything_is(tmp_path: Path) -> None:
    unsynced = Unsynced(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").touch()
    unsynced.add(tmp_path / "gone")
    assert sorted(unsynced.take()) == [tmp_path, tmp_path / "a", tmp_path / "a/x"]
    assert unsynced.take() == []
    unsynced.add(tmp_path / "a/y", tmp_path / "a")
    unsynced.add(tmp_path / "a")
    assert unsynced.take() == [tmp_path / "a", tmp_path / "a/y"]
    assert unsynced.take() == []


@pytest.fixture
def wholes(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Of each sync of a file system, the path."""
    calls = list[Path]()
    monkeypatch.setattr(sync_module, "sync_file_system", calls.append)
    monkeypatch.setattr(sync_module, "_has_journal", lambda _: True)
    return calls


@pytest.mark.parametrize("flushes", [False, True])
def test_many_files_are_synced_with_the_file_system_where_that_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wholes: list[Path], flushes: bool
) -> None:
    monkeypatch.setattr(sync_module, "flushes_disk", lambda _: flushes)
    synced = Synced(monkeypatch)
    for number in range(40):
        (tmp_path / str(number)).touch()
    sync_paths(tree(tmp_path, tmp_path / "gone"))
    assert (len(synced.inodes), len(wholes)) == ((0, 1) if flushes else (41, 0))
    sync_paths(tree(tmp_path / "3"))
    assert synced.inodes[-1] == (tmp_path / "3").stat().st_ino
    assert len(wholes) == flushes


def test_an_ext4_without_a_journal_is_asked_to_flush_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wholes: list[Path]
) -> None:
    """Its syncfs flushes the disk's cache before it writes its own blocks: a cut took the last second."""
    synced = Synced(monkeypatch)
    monkeypatch.setattr(sync_module, "flushes_disk", lambda _: True)
    for journal, flushed in ((True, 0), (False, 1)):
        monkeypatch.setattr(sync_module, "_has_journal", lambda _, journal=journal: journal)
        sync_paths([tmp_path], one_by_one=0)
        assert len(synced.inodes) == flushed
    assert len(wholes) == 2


def test_what_went_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = Synced(monkeypatch)
    (tmp_path / "x").touch()
    sync_paths([tmp_path / "gone", tmp_path / "x" / "below a file", tmp_path / "x"])
    assert synced.inodes == [(tmp_path / "x").stat().st_ino]


class Grows:
    """Something that has written files."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self.is_durable = False

    @contextmanager
    def syncing(self) -> Iterator[tuple[Path, ...]]:
        with disk_errors(self._paths[0].parent, advice="free it", below=self._paths[0].parent):
            yield self._paths
            self.is_durable = True


def test_several_are_synced_with_one_call(tmp_path: Path, wholes: list[Path]) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
    several = [Grows(tmp_path / name / "x", tmp_path / name) for name in "abc"]
    sync_together(several)
    assert [each.is_durable for each in several] == [True] * 3
    if flushes_disk(tmp_path):
        assert len(wholes) == 1


def test_whose_disk_refuses_is_told_and_nobody_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_module, "flushes_disk", lambda _: False)
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
    bad = (tmp_path / "b" / "x").stat().st_ino

    def refuse(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", refuse)
    several = [Grows(tmp_path / name / "x") for name in "abc"]
    with pytest.raises(WriteError, match=r"/b: cannot be written: Input/output error; free it$"):
        sync_together(several)
    assert not any(each.is_durable for each in several)


@pytest.mark.skipif(sys.platform != "linux", reason="statfs(2) of Linux")
def test_file_systems_are_told_apart(tmp_path: Path) -> None:
    mounts = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    kinds = {fields[4]: fields[fields.index("-") + 1] for fields in mounts}
    flushing = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "devtmpfs"}
    for place, kind in kinds.items():
        with suppress(OSError):  # what others mount and unmount meanwhile
            if Path(place).is_dir() and os.access(place, os.R_OK) and kind != "autofs":
                assert flushes_disk(Path(place)) == (kind in flushing), (place, kind)
    assert any(kind in flushing for kind in kinds.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform, "release", lambda: "5.4.0-1042-raspi")
        assert not flushes_disk(tmp_path), "this Linux's syncfs does not tell of errors"


def test_what_is_forgotten_keeps_its_blocks_until_the_disk_holds_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an inode that nobody has open is freed, for others to take."""
    gone = [tmp_path / name for name in "ab"]
    for path in gone:
        path.write_bytes(b"rows")
    files = {identity(path) for path in gone}
    seen = list[bool]()

    def look(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == tmp_path.stat().st_ino:
            assert not any(path.exists() for path in gone)
            seen.append(not files.isdisjoint(opened()))

    monkeypatch.setattr(os, "fsync", look)
    forget(*gone)
    assert seen == [True]
    assert files.isdisjoint(opened())


def test_a_file_system_is_synced_and_its_errors_are_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_file_system(tmp_path)

    class Refuses:
        @staticmethod
        def syncfs(_: int) -> int:
            ctypes.set_errno(errno.EIO)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refuses)
    with pytest.raises(OSError, match="Input/output"):
        sync_file_system(tmp_path)
    done = list[str]()
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    monkeypatch.setattr(os, "sync", lambda: done.append("all"))
    sync_file_system(tmp_path)
    assert done == ["all"]


def test_a_folder_has_its_old_or_its_new_content_wherever_it_is_killed(tmp_path: Path) -> None:
    for steps in count():
        path = tmp_path / str(steps) / "x"
        for folder, text in ((path, "old"), (part_path(path), "new")):
            folder.mkdir(parents=True)
            (folder / "f").write_text(text)
        died = killed_after(steps, lambda path=path: take_name(path))
        restore_old(path)
        assert (path / "f").read_text() == ("old" if died else "new")
        assert old_path(path).exists() == (not died)
        remove(old_path(path))
        if not died:
            break
    assert steps > 1


def test_an_unfinished_dataset_is_moved_as_a_whole_wherever_it_is_killed(tmp_path: Path) -> None:
    for steps in count():
        root = tmp_path / str(steps)
        (root / "d").mkdir(parents=True)
        for name in ("d.zip", "d.zip.part", "d.journal.part"):
            (root / "d" / name).write_text(name)

        def moves(folder: Path) -> Iterator[tuple[Path, Path]]:
            for end in ("zip.part", "journal.part"):
                yield root / "d" / f"d.{end}", folder / f"{folder.name}.{end}"  # noqa: B023

        note = root / "d" / "d.aside.part"
        died = killed_after(steps, lambda note=note, moves=moves: move_aside(note, moves))
        assert (root / "d" / "d.zip").read_text() == "d.zip"
        assert move_aside(note, moves).name in {"d_recovered", "d_recovered_2"}
        found = {path.name: path.read_text() for path in root.glob("d_recovered*/*")}
        new = "d_recovered"
        if (root / "d_recovered_2").exists():  # all had been moved: there was nothing left to move
            assert not [*(root / "d_recovered_2").iterdir()]
        assert found == {f"{new}.zip.part": "d.zip.part", f"{new}.journal.part": "d.journal.part"}
        if not died:
            break
    assert steps > 3


def test_names_are_free_and_lead_back(tmp_path: Path) -> None:
    assert free_name(tmp_path / "d") == tmp_path / "d_recovered"
    (tmp_path / "d_recovered.zarr.part").touch()
    assert free_name(tmp_path / "d.zarr") == tmp_path / "d_recovered_2.zarr"
    path = tmp_path / "d.zarr"
    assert {finished_path(p) for p in (path, part_path(path), old_path(path))} == {path}


def test_a_refusal_of_the_file_system_names_the_path_and_what_to_do(tmp_path: Path) -> None:
    advice = disk_errors(tmp_path, advice="free some space")
    with (
        pytest.raises(WriteError, match="cannot be written: No space left on device; free some space"),
        advice,
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OutputExists, match="own"), disk_errors(tmp_path):
        raise OutputExists("own")
    with pytest.raises(ValueError, match="other"), disk_errors(tmp_path):
        raise ValueError("other")
