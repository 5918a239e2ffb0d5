"""Killed anywhere: what was written whole is a dataset after recovery, the same as if it had ended there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_disk import Killed, steps
from l5_samples import SEQUENCE, content, cut, feed, same_rows, sample, scenes, write
from places import contents

from edgefirst_ros.formats import datasets
from edgefirst_ros.formats.crashsafe.journal import Journal
from edgefirst_ros.formats.crashsafe.sync import sync_together
from edgefirst_ros.formats.l5kit import ChunkedDataset, L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.format import L5KitFormat
from edgefirst_ros.formats.l5kit.recover import recover
from edgefirst_ros.formats.l5kit.store import chunks as chunkfiles
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.growingarray import JOURNAL_FORMAT
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import SceneNote
from edgefirst_ros.formats.zarr2 import ArraySpec
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound, WriteError
from edgefirst_ros.model.sample import Sample

CHUNK = 4


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, spec in schema.SPECS.items():
        monkeypatch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))


SAMPLES = [*scenes(5, 1, 7)]


def run(root: Path, samples: list[Sample], *, overwrite: bool = False) -> None:
    """Write samples until something raises; nothing is tidied up then."""
    writer = L5KitWriter(root, "ds", L5KitOptions(), overwrite=overwrite)
    try:
        feed(writer, samples)
        writer.close()
    except Killed:
        if writer._store is not None:
            writer._store.close()


@pytest.mark.parametrize("count", range(1, len(SAMPLES) + 1, 2))
def test_recovered_is_what_would_have_been_written(tmp_path: Path, count: int) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    feed(writer, SAMPLES[:count])
    writer.abort()
    found = recover(tmp_path / "ds.zarr")
    write(tmp_path, SAMPLES[:count], "whole")
    assert content(tmp_path / "ds.zarr") == content(tmp_path / "whole.zarr")
    assert (found.kept["frames"], found.dropped, found.was_finished) == (count, 0, False)
    assert found.paths == (tmp_path / "ds.zarr",)
    again = recover(tmp_path / "ds.zarr.part")
    assert (again.kept, again.was_finished) == (found.kept, True)
    assert content(tmp_path / "ds.zarr") == content(tmp_path / "whole.zarr")


def frames_of(path: Path) -> int:
    return len(ChunkedDataset(path).open().frames) if path.exists() else 0


def written_first(count: int) -> dict[str, np.ndarray]:
    """The first frames of the dataset of all samples, as they lie in its arrays."""
    with tempfile.TemporaryDirectory() as folder:
        return cut(write(Path(folder), SAMPLES), count)


PREFIXES: dict[int, dict[str, bytes]] = {}


def prefix(count: int) -> dict[str, bytes]:
    """The dataset of the first samples."""
    if count not in PREFIXES:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), SAMPLES[:count])
            PREFIXES[count] = content(Path(folder) / "ds.zarr")
    return PREFIXES[count]


@pytest.mark.long(cases=1)
@settings(max_examples=20, deadline=None)
@given(first=st.integers(0, 230), second=st.integers(0, 90))
def test_killed_at_any_step_even_of_the_recovery(first: int, second: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, spec in schema.SPECS.items():
            patch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))
        root, path = Path(folder), Path(folder) / "ds.zarr"
        results = []
        real = L5KitWriter.write

        def counted(self, prepared):  # noqa: ANN001, ANN202 - the method's own types
            result = real(self, prepared)
            results.append(result)
            return result

        with pytest.MonkeyPatch.context() as dying:
            dying.setattr(L5KitWriter, "write", counted)
            steps(dying, first)
            run(root, SAMPLES)
        with pytest.MonkeyPatch.context() as dying:
            steps(dying, second)
            with suppress(Killed, DatasetNotFound):
                recover(path)
        assert L5KitFormat().find(root) == ([path] if [*root.iterdir()] else [])
        committed = [each for each in results if each.done()]
        try:
            found = recover(path)
        except DatasetNotFound:
            assert not committed
            return
        kept = frames_of(path)
        assert len(committed) <= kept <= len(results) + 1
        assert [p.name for p in root.iterdir()] == (["ds.zarr"] if kept else [])
        if kept:
            assert same_rows(path, written_first(kept))
            assert found.beside == path or found.kept["frames"] == kept


def test_killed_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    script = f"""
import os, signal, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[2])!r}]
from l5_samples import *
from edgefirst_ros.formats.l5kit import L5KitOptions, L5KitWriter
writer = L5KitWriter(Path({str(tmp_path)!r}), "ds", L5KitOptions())
writer.begin(SEQUENCE)
for frame in range(9):
    writer.write(writer.prepare(sample(frame, {{Role.MODEL: boxes(box())}})))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    # Of nine frames those are on the disk that half a second of samples followed, and a sample more.
    assert recover(tmp_path / "ds.zarr").kept["frames"] == 3
    np.testing.assert_array_equal(
        ChunkedDataset(tmp_path / "ds.zarr").open().agents["centroid"], [[22.0, 0.0]] * 3
    )


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound):
        recover(tmp_path / "ds.zarr")


def test_nothing_committed_leaves_nothing(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SEQUENCE)
    assert writer._store is not None
    writer._store.close()
    found = recover(tmp_path / "ds.zarr")
    assert (found.kept["frames"], found.paths) == (0, ())
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("name", "rows", "kept"),
    [
        ("agents", 1, 0),
        ("frames", 5, 5),
        ("traffic_light_faces", 0, 0),
    ],
)
def test_damage_ends_the_dataset_before_it(tmp_path: Path, name: str, rows: int, kept: int) -> None:
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    feed(writer, SAMPLES)
    writer.abort()
    whole = write(tmp_path, SAMPLES, "whole")
    files = chunkfiles.Files(tmp_path / "ds.zarr.part", name)
    for number, path in files.chunks():
        if number >= rows // CHUNK:
            path.write_bytes(b"")
    for _, path in files.tails():
        path.unlink()
    found = recover(tmp_path / "ds.zarr")
    count = rows // CHUNK * CHUNK
    fields = {"agents": "agent_index_interval", "traffic_light_faces": "traffic_light_faces_index_interval"}
    expected = count
    if name in fields:
        expected = int(np.searchsorted(whole.frames[fields[name]][:, 1], count, side="right"))
    assert found.kept["frames"] == expected
    if expected:
        assert same_rows(tmp_path / "ds.zarr", cut(whole, expected))
    assert found.dropped > 0


def killed_overwrite(root: Path, count: int) -> None:
    writer = L5KitWriter(root, "ds", L5KitOptions(), overwrite=True)
    feed(writer, SAMPLES[:count])
    writer.abort()


def test_an_overwriting_run_killed_before_its_first_frame_is_not_the_complete_dataset(tmp_path: Path) -> None:
    write(tmp_path, SAMPLES)
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions(), overwrite=True)
    writer.begin(SEQUENCE)
    assert writer._store is not None
    writer._store.close()
    found = recover(tmp_path / "ds.zarr")
    assert (found.paths, found.path, found.beside) == ((), tmp_path / "ds.zarr", found.path)
    assert content(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
    assert [p.name for p in tmp_path.iterdir()] == ["ds.zarr"]


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(first=st.integers(0, 110), second=st.integers(0, 90), again=st.booleans())
def test_killed_at_any_step_of_overwriting_a_complete_dataset_is_there(
    first: int, second: int, again: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, spec in schema.SPECS.items():
            patch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))
        root, path = Path(folder), Path(folder) / "ds.zarr"
        write(root, SAMPLES)
        new = [sample(i) for i in range(3)]
        with tempfile.TemporaryDirectory() as fresh:
            write(Path(fresh), new)
            expected = content(Path(fresh) / "ds.zarr")
        with pytest.MonkeyPatch.context() as dying:
            done = steps(dying, first)
            run(root, new, overwrite=True)
        if again:  # the next run begins on what was left, and dies with its first step
            with pytest.MonkeyPatch.context() as dying:
                steps(dying, second % 12)
                run(root, new, overwrite=True)
        with pytest.MonkeyPatch.context() as dying:
            steps(dying, second)
            with suppress(Killed):
                recover(path)
        for each in [*root.glob("*.part")]:
            recover(each)
        complete = [p for p in root.iterdir() if content(p) in (prefix(len(SAMPLES)), expected)]
        assert path in complete, (done, [p.name for p in root.iterdir()])
        assert not [*root.glob("*.part")]
        assert recover(path).was_finished


def test_overwriting_what_a_kill_left_between_two_names_begins_with_the_complete_one(tmp_path: Path) -> None:
    write(tmp_path, SAMPLES)
    killed_overwrite(tmp_path, 3)
    (tmp_path / "ds.zarr").rename(tmp_path / "ds.zarr.old.part")
    killed_overwrite(tmp_path, 2)
    assert content(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
    assert recover(tmp_path / "ds.zarr").path == tmp_path / "ds_recovered.zarr"
    assert content(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
    assert content(tmp_path / "ds_recovered.zarr") == prefix(2)


@pytest.mark.long(cases=1)
def test_a_complete_run_gets_its_name_and_one_that_is_not_goes_beside(tmp_path: Path) -> None:
    """Killed behind each step of giving the name: what is recovered depends on the run's report alone."""
    expected = prefix(6)
    for limit in (*range(7), 30, 99):
        for complete in (False, True):
            root = tmp_path / f"{limit}-{complete}"
            root.mkdir()
            write(root, SAMPLES)
            before = content(root / "ds.zarr")
            writer = L5KitWriter(root, "ds", L5KitOptions(), overwrite=True)
            feed(writer, SAMPLES[:6])
            assert writer.complete() == writer.complete() == [root / "ds.zarr"]
            assert content(root / "ds.zarr") == before, "the old one is there until the new one has its name"
            with pytest.MonkeyPatch.context() as dying:
                done = steps(dying, limit)
                with suppress(Killed):
                    assert writer.close() == [root / "ds.zarr"]
            assert writer._store is None or writer._store.close() is None
            found = recover(root / "ds.zarr", complete=complete)
            names = sorted(path.name for path in root.iterdir())
            if complete or done[0] <= limit or found.was_finished:
                assert names == ["ds.zarr"]
                assert content(root / "ds.zarr") == expected
            else:
                assert names == ["ds.zarr", "ds_recovered.zarr"]
                assert content(root / "ds.zarr") == before
                assert content(root / "ds_recovered.zarr") == expected
    assert done[0] <= 99, "the last one came to its end"


def test_completed_without_a_frame_nothing_is_left(tmp_path: Path) -> None:
    writer = L5KitWriter(tmp_path / "out", "ds", L5KitOptions())
    sync_together([writer])
    writer.begin(SEQUENCE)
    sync_together([writer])
    assert writer.complete() == writer.close() == []
    assert not [*(tmp_path / "out").iterdir()]


def growing(root: Path, count: int = len(SAMPLES)) -> Path:
    """The ``.part`` folder of a run that was killed."""
    writer = L5KitWriter(root, "ds", L5KitOptions(), overwrite=True)
    feed(writer, SAMPLES[:count])
    writer.abort()
    return root / "ds.zarr.part"


@pytest.mark.long(cases=5)
@pytest.mark.parametrize("name", ["agents", "frames"])
@pytest.mark.parametrize("damage", ["zeros", "cut", "gone"])
def test_a_journal_ahead_of_the_rows(tmp_path: Path, name: str, damage: str) -> None:
    """As a power cut leaves it: the file system gave the file its length, and not its bytes."""
    part = growing(tmp_path)
    files = chunkfiles.OwnFiles(chunkfiles.Files(part, name))
    ((number, tail),) = files.files.tails()
    size = tail.stat().st_size
    if damage == "zeros":
        tail.write_bytes(bytes(size))
    elif damage == "cut":
        os.truncate(tail, size - 1)
    else:
        tail.unlink()
    found = recover(tmp_path / "ds.zarr")
    kept = found.kept["frames"]
    assert 0 < kept < len(SAMPLES)
    assert found.lost == {"frames": len(SAMPLES) - kept}
    assert f"{len(SAMPLES) - kept} frames were damaged and are lost" in found.text
    assert found.dropped
    assert same_rows(tmp_path / "ds.zarr", written_first(kept))
    whole = number * CHUNK + (size // files.spec.dtype.itemsize - 1 if damage == "cut" else 0)
    owner = ChunkedDataset(tmp_path / "ds.zarr").open()
    assert len(getattr(owner, name)) <= whole


@pytest.mark.parametrize("junk", [b"\1", bytes(5000), b"\xff" * 5000])
def test_rows_ahead_of_the_journal(tmp_path: Path, junk: bytes) -> None:
    part = growing(tmp_path)
    for name in schema.SPECS:
        for _, tail in chunkfiles.Files(part, name).tails():
            with tail.open("ab") as file:
                file.write(junk)
    (part / "frames" / "9").write_bytes(junk)
    (part / "frames" / ".frames.9.rows").write_bytes(junk)
    (part / "agents" / "3.new").write_bytes(junk)
    found = recover(tmp_path / "ds.zarr")
    assert (found.kept["frames"], +found.lost, found.dropped > 0) == (len(SAMPLES), {}, True)
    assert content(tmp_path / "ds.zarr") == prefix(len(SAMPLES))


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(where=st.floats(0, 1), end=st.sampled_from([b"", bytes(9000), b"\1\2\3" * 99]))
def test_a_journal_that_ends_anywhere(where: float, end: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, spec in schema.SPECS.items():
            patch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (CHUNK,), spec.compressor))
        root = Path(folder)
        journal = growing(root) / schema.JOURNAL
        data = journal.read_bytes()
        place = 0 if where < 0.1 else len("edgefirst_ros journal l5kit 2\n") + int(where * len(data))
        journal.write_bytes(data[:place] + (bytes(len(end)) if not place else end))
        found = recover(root / "ds.zarr")
        kept = found.kept["frames"]
        assert kept == 0 if place < 80 else kept > 0 or where < 0.3
        assert not kept or same_rows(root / "ds.zarr", written_first(kept))
        assert [p.name for p in root.iterdir()] == (["ds.zarr"] if kept else [])


def test_metadata_is_not_needed(tmp_path: Path) -> None:
    part = growing(tmp_path)
    for name in (".zgroup", ".zattrs", *(f"{name}/.zarray" for name in ("scenes", "frames", "agents"))):
        (part / name).write_bytes(b"")
    recover(tmp_path / "ds.zarr")
    assert content(tmp_path / "ds.zarr") == prefix(len(SAMPLES))


def test_a_chunk_that_never_came_is_made_of_its_tail(tmp_path: Path) -> None:
    """Its bytes were lost, and its tail, synced before, is still there."""
    writer = L5KitWriter(tmp_path, "ds", L5KitOptions())
    writer.begin(SAMPLES[0].sequence)
    sync_together([writer])
    feed(writer, SAMPLES)
    writer.abort()
    files = chunkfiles.Files(tmp_path / "ds.zarr.part", "agents")
    assert len([*files.tails()]) > 2
    (_, zeros), (_, short), (_, other), *_ = files.chunks()
    zeros.write_bytes(bytes(zeros.stat().st_size))
    short.write_bytes(b"")
    other.write_bytes(files.chunk(3).read_bytes())
    recover(tmp_path / "ds.zarr")
    assert content(tmp_path / "ds.zarr") == prefix(len(SAMPLES))


def leftovers(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """``.part`` folders of runs that were killed before anything was committed."""
    for name in ("empty", "journal", "torn", "arrays"):
        part = tmp_path / name / "ds.zarr.part"
        part.mkdir(parents=True)
        if name != "empty":
            (part / schema.JOURNAL).write_bytes(b"edgefirst_ros jour" if name == "torn" else bytes(700))
        if name == "arrays":
            (part / "frames").mkdir()
            (part / "frames" / ".frames.0.rows").touch()
        yield name, part


@pytest.mark.parametrize("old", [False, True])
def test_what_was_killed_before_anything_was_committed_is_found_and_removed(
    tmp_path: Path, old: bool
) -> None:
    for name, part in leftovers(tmp_path):
        path = tmp_path / name / "ds.zarr"
        if old:
            write(tmp_path, SAMPLES[:6], f"{name}-old").path.rename(path)
        for start in (path.parent, path, part):
            ((each, dataset),) = datasets.find(start)
            assert (each.name, dataset) == ("l5kit", path)
        (found,) = datasets.recover(path)
        assert "nothing had been committed; the leftovers are removed" in found.text
        assert ("the complete ds.zarr" in found.text) is old
        assert [p.name for p in path.parent.iterdir()] == (["ds.zarr"] if old else [])
        assert not old or content(path) == prefix(6)


def test_an_unfinished_store_of_another_format_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "s" / "s.ncore4.zarr.part").mkdir(parents=True)
    (tmp_path / "some.zarr.part" / "else").mkdir(parents=True)
    assert L5KitFormat().find(tmp_path) == []


def test_without_a_journal_it_is_left_alone(tmp_path: Path) -> None:
    part = growing(tmp_path)
    (part / schema.JOURNAL).unlink()
    before = content(part)
    with pytest.raises(WriteError, match=r"has no journal: .* earlier version .* nothing was changed"):
        recover(part)
    assert content(part) == before


def test_a_journal_of_another_version_is_left_alone(tmp_path: Path) -> None:
    part = growing(tmp_path)
    (part / schema.JOURNAL).write_bytes(b"edgefirst_ros journal l5kit 3\n and so on")
    before = content(part)
    with pytest.raises(DatasetError, match="nothing was changed"):
        recover(part)
    assert content(part) == before


LINKS = (".", "frames", "agents/0", "agents/.agents.2.rows", schema.JOURNAL, ".zattrs.new")


@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    part = growing(tmp_path)
    real = tmp_path / "elsewhere"
    place = part / name
    if place.exists():
        place.rename(real)
    else:
        real.write_text("precious")
    place.symlink_to(real)
    before = contents(tmp_path)
    (found,) = datasets.recover(tmp_path / "ds.zarr")
    assert found.failed
    assert "is a symbolic link" in found.text
    assert contents(tmp_path) == before
    assert place.is_symlink()
    if name in {".", schema.JOURNAL}:
        with pytest.raises(WriteError, match="symbolic link"):
            run(tmp_path, SAMPLES[:6], overwrite=True)
    else:
        run(tmp_path, SAMPLES[:6], overwrite=True)
        assert content(tmp_path / "ds.zarr") == prefix(6)
    assert all(before[f"{real.name}/{name}"] == data for name, data in contents(real).items())


def test_a_pipe_does_not_hang_it(tmp_path: Path) -> None:
    part = growing(tmp_path)
    (part / "agents" / "0").unlink()
    os.mkfifo(part / "agents" / "0")
    with pytest.raises(WriteError, match="agents/0: is neither a file nor a folder"):
        recover(part)


HOSTILE = (
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b"[]",
    b"{}",
    b'{"rows": []}',
    b'{"rows": {"frames": 3}}',
    b'{"rows": {"frames": [1.5, 2]}}',
    b'{"rows": {"frames": [1, 2, 3]}}',
    b'{"rows": {"nothing": [1, 2]}}',
    b'{"rows": {"frames": [-9, 0]}}',
    b'{"rows": {"frames": [9999999999999999999, 0]}}',
    b'{"rows": {}, "scene": ["h", 1e999]}',
    b'{"rows": {}, "scene": ["h", 99999999999999999999]}',
    b'{"rows": {}, "scene": 5}',
    b'{"rows": {}, "notes": [["n", [1, 2]]]}',
    b'{"rows": {}, "notes": [["n", [NaN, 2, 3]]]}',
    b'{"rows": {}, "notes": [["n", ["a", 2, 3]]]}',
    b'{"rows": {}, "notes": [["n", [1e400, 2, 3]]]}',
)


@pytest.mark.long(cases=6)
@pytest.mark.parametrize("payload", HOSTILE)
def test_a_record_that_no_writer_has_written_ends_the_journal(tmp_path: Path, payload: bytes) -> None:
    part = growing(tmp_path)
    first = Journal(part / schema.JOURNAL, JOURNAL_FORMAT)
    records = [record.payload for record in first.records()]
    first.begin()
    for each in (*records[:5], payload, *records[5:]):
        first.append(each)
    first.close()
    found = recover(tmp_path / "ds.zarr")
    assert found.kept["frames"] == 4
    assert same_rows(tmp_path / "ds.zarr", written_first(4))


def test_a_host_and_a_name_may_be_anything(tmp_path: Path) -> None:
    store = GrowingDataset(tmp_path / "ds.zarr")
    store.begin_scene("h\ud800\0" * 9, -5, SceneNote("n\ud800"))
    store.append("frames", np.zeros(1, schema.FRAME))
    store.commit()
    store.close()
    assert recover(tmp_path / "ds.zarr").kept == {"scenes": 1, "frames": 1}
    assert ChunkedDataset(tmp_path / "ds.zarr").open().notes == [SceneNote("n\ud800")]


HEADER = (
    b'{"zarr_format":2,"order":"C","filters":null,"shape":[%s],"chunks":[1],"dtype":"%s","compressor":null}'
)


@pytest.mark.parametrize(
    "zarray",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        HEADER % (b"1e999", b"<i8"),
        HEADER % (b"5", b"V99999999999999999999"),
    ],
)
def test_a_finished_one_with_damaged_metadata_is_said_to_be_damaged(tmp_path: Path, zarray: bytes) -> None:
    write(tmp_path, SAMPLES[:6])
    (tmp_path / "ds.zarr" / "frames" / ".zarray").write_bytes(zarray)
    (found,) = datasets.recover(tmp_path / "ds.zarr")
    assert found.failed
    assert "frames/.zarray: cannot be read: " in found.text


def test_killed_behind_its_rename_it_is_as_any_other(tmp_path: Path) -> None:
    write(tmp_path, SAMPLES)
    (tmp_path / "ds.zarr" / schema.JOURNAL).touch()
    assert recover(tmp_path / "ds.zarr").was_finished
    assert content(tmp_path / "ds.zarr") == prefix(len(SAMPLES))
