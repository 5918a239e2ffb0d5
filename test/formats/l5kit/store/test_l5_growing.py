"""Growing arrays: every row counted at every moment, chunks complete, nothing left behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import random_rows, tree

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.chunkfiles import Files, OwnFiles
from edgefirst_ros.formats.l5kit.store.growingarray import GrowingArray, stored_blocks, stored_length
from edgefirst_ros.formats.zarr2.array import ArraySpec

SMALL = 5


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, spec in schema.SPECS.items():
        monkeypatch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (SMALL,), spec.compressor))


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def rows_of(files: OwnFiles) -> np.ndarray:
    count = stored_length(files)
    return np.concatenate([np.zeros(0, files.spec.dtype), *stored_blocks(files, count)])


@pytest.mark.parametrize("name", ["agents", "points"])
@settings(max_examples=25, deadline=None)
@given(parts=st.lists(st.integers(0, 12), max_size=8), seed=st.integers(0, 99))
def test_every_row_counts_at_every_moment(name: str, parts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as path:
        files = OwnFiles(Files(Path(path), name))
        array = GrowingArray(files)
        added = np.zeros(0, files.spec.dtype)
        for count in parts:
            rows = random_rows(rng, files.spec.dtype, count)
            assert array.append(rows) == rows.nbytes
            added = np.concatenate([added, rows])
            np.testing.assert_array_equal(rows_of(files), added)
        array.finish()
        np.testing.assert_array_equal(rows_of(files), added)
        assert files.files.header().length == len(added)
        assert [number for number, _ in files.files.chunks()] == [*range(-(-len(added) // SMALL))]
        assert not [*files.files.tails()]


@settings(max_examples=25, deadline=None)
@given(total=st.integers(0, 23), kept=st.integers(0, 23), finished=st.booleans())
def test_reopened_array_ends_as_if_it_had_never_been_longer(total: int, kept: int, finished: bool) -> None:
    kept = min(kept, total)
    rows = random_rows(np.random.default_rng(total), schema.AGENT, total)
    with tempfile.TemporaryDirectory() as path:
        once, again = (OwnFiles(Files(Path(path) / n, "agents")) for n in ("once", "again"))
        array = GrowingArray(again)
        array.append(rows)
        array.finish() if finished else array.close()
        for files, length in ((once, 0), (again, kept)):
            array = GrowingArray(files, length)
            array.append(rows[length : kept + 3])
            array.finish()
        assert tree(Path(path) / "once") == tree(Path(path) / "again")


def test_crash_between_a_chunk_and_its_tail_loses_nothing(folder: Path) -> None:
    files = OwnFiles(Files(folder, "agents"))
    rows = random_rows(np.random.default_rng(0), schema.AGENT, 7)
    array = GrowingArray(files)
    array.append(rows[:4])
    before = files.files.tail(0).read_bytes()
    array.append(rows[4:])
    array.close()
    # The tail of the finished chunk is still there, whole, beside the next one.
    files.files.tail(0).write_bytes(before + rows[4:5].tobytes())
    np.testing.assert_array_equal(rows_of(files), rows)
    # The next one was not made yet.
    files.files.tail(1).unlink()
    np.testing.assert_array_equal(rows_of(files), rows[:5])


def test_half_a_row_is_none(folder: Path) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    array.append(random_rows(np.random.default_rng(0), schema.AGENT, 3))
    array.close()
    with files.files.tail(0).open("r+b") as tail:
        tail.truncate(3 * schema.AGENT.itemsize - 1)
    assert stored_length(files) == 2
    GrowingArray(files, 2).finish()
    assert files.files.header().length == 2


@pytest.mark.parametrize("damage", [b"", b"no chunk", None])
def test_rows_after_a_damaged_chunk_do_not_count(folder: Path, damage: bytes | None) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    array.append(random_rows(np.random.default_rng(0), schema.AGENT, 3 * SMALL + 1))
    array.close()
    if damage is None:
        files.files.chunk(1).unlink()
    else:
        files.files.chunk(1).write_bytes(damage)
    assert stored_length(files) == SMALL
    with pytest.raises(DatasetError, match=r"1(\.rows)?: "):
        GrowingArray(files, 2 * SMALL - 1)


def test_cannot_keep_more_rows_than_there_are(folder: Path) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    array.append(random_rows(np.random.default_rng(0), schema.AGENT, 2))
    array.close()
    with pytest.raises(DatasetError, match="holds 2 rows, expected 3"):
        GrowingArray(files, 3)
    assert stored_length(files) == 2


def test_side_arrays_make_no_folder(folder: Path) -> None:
    array = GrowingArray(OwnFiles(Files(folder, "points")))
    array.append(random_rows(np.random.default_rng(0), schema.POINT, 3))
    array.finish()
    assert sorted(p.name for p in folder.iterdir()) == ["points.0", "points.zarray"]
    shutil.rmtree(folder)
    folder.mkdir()
