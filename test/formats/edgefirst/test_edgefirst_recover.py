"""Killed at any moment, what was committed is there after recovery, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from edgefirst_samples import SEQUENCE, full_sample
from hypothesis import given, settings
from hypothesis import strategies as st
from places import contents

from edgefirst_ros.formats.crashsafe.journal import Journal, read_journal
from edgefirst_ros.formats.crashsafe.names import remove
from edgefirst_ros.formats.edgefirst import finish
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.recover import recover
from edgefirst_ros.formats.edgefirst.store.archive import ZipArchive
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.model.errors import DatasetError, RecordingNotFound, WriteError

COUNT = 8
CONTAINERS = ("zip", "folder")


def writing(root: Path, count: int, container: str, *, overwrite: bool = False) -> EdgeFirstWriter:
    options = EdgeFirstOptions(container=container, lidar_image_size=(4, 8))  # type: ignore[arg-type]
    writer = EdgeFirstWriter(root, "ds", options, overwrite=overwrite)
    writer.begin(SEQUENCE)
    for frame in range(count):
        writer.write(writer.prepare(full_sample(frame)))
    return writer


class Killed:
    """What a writer killed after COUNT samples left, and the finished datasets of the first n samples."""

    def __init__(self, root: Path, container: str) -> None:
        self.container = container
        self.folder = root / "killed/ds"
        writing(root / "killed", COUNT, container).abort()
        self.finished: list[dict[str, bytes]] = [{}]
        for samples in range(1, COUNT + 1):
            writing(root / str(samples), samples, container).close()
            self.finished.append(contents(root / str(samples) / "ds"))
        self.zip_ends: list[int] = []
        if container == "zip":
            part = root / "sizes/ds/ds.zip.part"
            for samples in range(COUNT + 1):
                writing(root / "sizes", samples, container, overwrite=True).abort()
                self.zip_ends.append(part.stat().st_size)

    def named(self, name: str) -> dict[str, bytes]:
        """The finished dataset of all samples, of another name."""
        whole = self.finished[COUNT]
        return {
            path.replace("ds", name, 1) if path[:3] in {"ds.", "ds/"} else path: whole[path] for path in whole
        }


@pytest.fixture(scope="module")
def killed() -> Iterator[dict[str, Killed]]:
    with tempfile.TemporaryDirectory() as root:
        yield {container: Killed(Path(root, container), container) for container in CONTAINERS}


def of_two_cameras(root: Path, count: int, container: str) -> EdgeFirstWriter:
    """Samples of the rig's sequence and of another camera's by turns, with the same frame numbers."""
    writer = EdgeFirstWriter(root, "ds", EdgeFirstOptions(container=container))  # type: ignore[arg-type]
    left = replace(SEQUENCE, name=f"{SEQUENCE.name}-left", rig=SEQUENCE.name)
    writer.begin(SEQUENCE)
    writer.begin_camera(left)
    for number in range(count):
        sequence = left if number % 2 else SEQUENCE
        writer.write(writer.prepare(full_sample(number // 2, sequence=sequence)))
    return writer


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_of_several_cameras_each_has_what_was_committed(tmp_path: Path, container: str, count: int) -> None:
    of_two_cameras(tmp_path / "killed", count, container).abort()
    of_two_cameras(tmp_path / "whole", count, container).close()
    recover(tmp_path / "killed" / "ds")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_writer_that_stopped_between_samples_loses_nothing(
    tmp_path: Path, killed: dict[str, Killed], container: str
) -> None:
    left = killed[container]
    shutil.copytree(left.folder, tmp_path / "ds")
    done = recover(tmp_path / "ds")
    assert (done.path, done.was_finished, done.lost["samples"], done.dropped) == (
        tmp_path / "ds",
        False,
        0,
        0,
    )
    assert (done.kept["samples"], done.kept["files"]) == (COUNT, 7 * COUNT)
    assert [path.name for path in done.paths] == ["ds.arrow", "ds.zip" if container == "zip" else "ds"]
    assert contents(tmp_path / "ds") == left.finished[COUNT], "as if it had been closed"
    again = recover(tmp_path / "ds")
    assert (again.was_finished, again.kept["samples"], again.kept["rows"]) == (True, COUNT, done.kept["rows"])
    assert contents(tmp_path / "ds") == left.finished[COUNT]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_zip_torn_anywhere_keeps_its_whole_samples(killed: dict[str, Killed], data: st.DataObject) -> None:
    left = killed["zip"]
    size = data.draw(st.integers(0, left.zip_ends[-1]))
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "ds")
        shutil.copytree(left.folder, folder)
        os.truncate(folder / "ds.zip.part", size)
        whole = max(count for count, end in enumerate(left.zip_ends) if end <= size)
        done = recover(folder)
        assert (done.kept["samples"], done.lost["samples"]) == (whole, COUNT - whole)
        assert done.dropped == size - left.zip_ends[whole]
        assert contents(folder) == left.finished[whole]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), container=st.sampled_from(CONTAINERS))
def test_a_journal_torn_anywhere_keeps_what_it_has_committed(
    killed: dict[str, Killed], data: st.DataObject, container: str
) -> None:
    left = killed[container]
    journal = left.folder / "ds.journal.part"
    size = data.draw(st.integers(0, journal.stat().st_size))
    options, *ends = [record.end for record in read_journal(journal, "edgefirst 2")]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "ds")
        shutil.copytree(left.folder, folder)
        os.truncate(folder / "ds.journal.part", size)
        whole = sum(end <= size for end in ends)
        done = recover(folder)
        assert (done.kept["samples"], done.lost["samples"]) == (whole, 0)
        assert (done.dropped > 0) == (size >= options and whole < COUNT)
        assert contents(folder) == left.finished[whole]
        if whole:
            assert recover(folder).was_finished


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_damaged_byte_costs_its_sample_and_what_follows(
    killed: dict[str, Killed], data: st.DataObject
) -> None:
    left = killed["zip"]
    place = data.draw(st.integers(0, left.zip_ends[-1] - 1))
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "ds")
        shutil.copytree(left.folder, folder)
        part = folder / "ds.zip.part"
        damaged = bytearray(part.read_bytes())
        damaged[place] ^= 1 + data.draw(st.integers(0, 254))
        part.write_bytes(damaged)
        whole = max(count for count, end in enumerate(left.zip_ends) if end <= place)
        # the date of an entry is not checked by anything, and need not be
        if recover(folder).kept["samples"] != COUNT:
            assert contents(folder) == left.finished[whole]


def test_a_file_of_a_folder_that_is_not_whole_ends_what_is_kept(
    tmp_path: Path, killed: dict[str, Killed]
) -> None:
    left = killed["folder"]
    shutil.copytree(left.folder, tmp_path / "ds")
    torn = tmp_path / "ds/ds.part" / SEQUENCE.name / f"{SEQUENCE.name}_005.radar.png"
    os.truncate(torn, 100)
    done = recover(tmp_path / "ds")
    assert (done.kept["samples"], done.lost["samples"]) == (5, 3)
    assert contents(tmp_path / "ds") == left.finished[5]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    "step",
    [
        "finish",
        "write_table",
        "write_manifest",
        "sync names",
        "replace table",
        "replace manifest",
        "remove other",
        "unlink journal",
    ],
)
def test_closing_may_be_interrupted_at_any_step(  # noqa: PLR0917 - what is parametrized
    tmp_path: Path,
    killed: dict[str, Killed],
    container: str,
    step: str,
    complete: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writing(tmp_path, 2, container).close()
    writer = writing(tmp_path, COUNT, container, overwrite=True)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "finish":
            patch.setattr(type(writer._growing()[1]), "finish", stop)
        elif step in {"write_table", "write_manifest"}:
            patch.setattr(finish, step, stop)
        elif step == "sync names":
            patch.setattr(finish, "sync_path", stop)
        elif step == "remove other":
            other = {"zip": tmp_path / "ds" / "ds", "folder": tmp_path / "ds" / "ds.zip"}[container]
            patch.setattr(finish, "remove", lambda path: stop() if path == other else remove(path))
        else:
            _stop_at(patch, step, stop)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    writer.abort()
    done = recover(tmp_path / "ds", complete=complete)
    assert (done.kept["samples"], done.lost["samples"]) == (COUNT, 0)
    # Nothing had been replaced; whether it is to be, only a complete run knows.
    beside = step in {"finish", "write_table", "write_manifest", "sync names"} and not complete
    assert done.beside == (tmp_path / "ds" if beside else None)
    new = "ds_recovered" if beside else "ds"
    assert contents(tmp_path / new) == killed[container].named(new)
    if beside:
        assert contents(tmp_path / "ds") == killed[container].finished[2]
    assert recover(tmp_path / "ds").was_finished


def _stop_at(patch: pytest.MonkeyPatch, step: str, stop: object) -> None:
    """Stop before a file gets its name, or before the journal goes; the container has its name by then."""
    method, what = step.split()
    original = getattr(Path, method)
    target = {"table": "ds.arrow.part", "manifest": "ds.manifest.part", "journal": "ds.journal.part"}[what]

    def only(self: Path, *args: object, **kwargs: object) -> object:
        if self.name == target:
            return stop()  # type: ignore[operator]
        return original(self, *args, **kwargs)

    patch.setattr(Path, method, only)


class Died(Exception):
    """Stands for the death of the process."""


def dying(patch: pytest.MonkeyPatch, limit: int) -> None:
    """Let names on disk be changed ``limit`` times, and then die."""
    done = [0]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **options: object) -> object:
            if done[0] == limit:
                raise Died
            done[0] += 1
            return real(*args, **options)

        return step

    for owner, name in (
        (Path, "replace"),
        (Path, "unlink"),
        (Path, "write_text"),
        (shutil, "rmtree"),
        (os, "ftruncate"),
    ):
        patch.setattr(owner, name, counted(getattr(owner, name)))


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("old", "new", "again"),
    [("zip", "zip", True), ("zip", "folder", False), ("folder", "zip", False), ("folder", "folder", True)],
)
def test_whenever_overwriting_and_recovery_die_a_complete_dataset_is_there(
    tmp_path: Path, killed: dict[str, Killed], old: str, new: str, again: bool
) -> None:
    writing(tmp_path / "old", 2, old).close()
    wanted = killed[old].finished[2], killed[new].finished[3]
    for limit in count(0):
        root, left = tmp_path / str(limit), tmp_path / "left"
        shutil.copytree(tmp_path / "old", root)
        if not _dies(limit, lambda root=root: writing(root, 3, new, overwrite=True).close()):
            break
        for second in range(limit % 2, 9, 2):
            shutil.copytree(root, left)
            if again:  # the next run begins on what was left
                _dies(second, lambda left=left: writing(left, 1, new, overwrite=True).abort())
            _dies(second, lambda left=left: recover(left / "ds"))
            for folder in sorted(left.iterdir()):
                with suppress(RecordingNotFound):
                    recover(folder)
            assert contents(left / "ds") in wanted, (limit, second)
            assert not [*left.rglob("*.part")], (limit, second)
            assert recover(left / "ds").was_finished
            shutil.rmtree(left)
    assert limit > 4


def _dies(limit: int, act: Callable[[], object]) -> bool:
    journals: list[SampleJournal] = []
    begin = SampleJournal.__init__

    def noted(self: SampleJournal, path: Path) -> None:
        begin(self, path)
        journals.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SampleJournal, "__init__", noted)
        dying(patch, limit)
        try:
            act()
        except Died:
            return True
        finally:
            for journal in journals:
                journal.close()
    return False


def test_an_older_container_is_not_taken_for_the_lost_one(tmp_path: Path) -> None:
    writing(tmp_path, 2, "zip").close()
    writing(tmp_path, 3, "zip", overwrite=True).abort()
    (tmp_path / "ds/ds.zip.part").unlink()
    before = contents(tmp_path)
    with pytest.raises(WriteError, match="nothing was changed"):
        recover(tmp_path / "ds")
    assert contents(tmp_path) == before


def test_a_lost_container_is_told(tmp_path: Path) -> None:
    writing(tmp_path, 3, "zip").abort()
    (tmp_path / "ds/ds.zip.part").unlink()
    done = recover(tmp_path / "ds")
    assert (done.kept["samples"], done.lost["samples"], done.paths) == (0, 3, ())


def test_a_lost_journal_is_told_and_nothing_touched(tmp_path: Path) -> None:
    writing(tmp_path, 3, "zip").abort()
    (tmp_path / "ds/ds.journal.part").unlink()
    before = contents(tmp_path)
    with pytest.raises(WriteError, match="without its journal"):
        recover(tmp_path / "ds")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("head", [b"no journal\n", b'{"version":1,"dataset":"ds","options":{}}\n'])
def test_a_journal_of_another_version_is_told_and_nothing_touched(tmp_path: Path, head: bytes) -> None:
    writing(tmp_path, 2, "folder").close()
    writing(tmp_path, 1, "folder", overwrite=True).abort()
    (tmp_path / "ds/ds").rename(tmp_path / "ds/ds.old.part")
    (tmp_path / "ds/ds.journal.part").write_bytes(head)
    before = contents(tmp_path)
    with pytest.raises(DatasetError, match="another version of this package"):
        recover(tmp_path / "ds")
    assert contents(tmp_path) == before


def test_options_of_another_version_are_told(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "d.journal.part", "edgefirst 2")
    journal.begin()
    journal.append(b'{"container":"shoe box"}')
    journal.close()
    with pytest.raises(DatasetError, match="options of another version"):
        SampleJournal(journal.path).options()


def test_a_table_of_someone_else_is_told(tmp_path: Path) -> None:
    for content in (b"no arrow", b""):
        (tmp_path / "ds").mkdir(exist_ok=True)
        (tmp_path / "ds/ds.arrow").write_bytes(content)
        with pytest.raises(WriteError, match="not an annotation table"):
            recover(tmp_path / "ds")


def test_no_dataset_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingNotFound, match="no EdgeFirst dataset"):
        recover(tmp_path)


def test_a_full_disk_during_recovery_is_told_and_can_be_repeated(
    tmp_path: Path, killed: dict[str, Killed], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(killed["zip"].folder, tmp_path / "ds")

    def full(_: ZipArchive) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ZipArchive, "finish", full)
        with pytest.raises(WriteError, match="No space left"):
            recover(tmp_path / "ds")
    assert recover(tmp_path / "ds").kept["samples"] == COUNT
    assert contents(tmp_path / "ds") == killed["zip"].finished[COUNT]


KILLED_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from edgefirst_samples import SEQUENCE, full_sample
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
options = EdgeFirstOptions(container=sys.argv[3], lidar_image_size=(4, 8))
writer = EdgeFirstWriter(Path(sys.argv[2]), "ds", options)
writer.begin(SEQUENCE)
prepared = [writer.prepare(full_sample(frame)) for frame in range(8)]
for entry in prepared:
    writer.write(entry)
    print(entry.frame, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("container", CONTAINERS)
def test_sigkill_loses_no_acknowledged_sample(
    tmp_path: Path, killed: dict[str, Killed], container: str
) -> None:
    command = [sys.executable, "-c", KILLED_WRITER, str(Path(__file__).parent), str(tmp_path), container]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(5)]
        process.send_signal(signal.SIGKILL)
        process.wait()
        acknowledged += map(int, process.stdout.read().split())
    done = recover(tmp_path / "ds")
    assert done.kept["samples"] >= len(acknowledged) >= 5
    assert contents(tmp_path / "ds") == killed[container].finished[done.kept["samples"]]
