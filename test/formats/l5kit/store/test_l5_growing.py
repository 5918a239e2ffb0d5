"""Growing arrays: every row counted at every moment, chunks complete, nothing left behind."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import random_rows
from places import contents, identity, opened

from edgefirst_ros.formats.l5kit.store import schema
from edgefirst_ros.formats.l5kit.store.chunks import Files, OwnFiles
from edgefirst_ros.formats.l5kit.store.growingarray import GrowingArray, Growth, StoredRows, stored_rows
from edgefirst_ros.formats.zarr2 import ArraySpec
from edgefirst_ros.model.errors import DatasetError

SMALL = 5


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, spec in schema.SPECS.items():
        monkeypatch.setitem(schema.SPECS, name, ArraySpec(spec.dtype, (SMALL,), spec.compressor))


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def stored(files: OwnFiles, count: int) -> np.ndarray:
    """The first rows, as far as they are there."""
    parts = [stored_rows(files, number) for number in range(-(-count // SMALL))]
    return np.concatenate([np.zeros(0, files.spec.dtype), *parts])[:count]


def durable(array: GrowingArray) -> None:
    """All rows so far, as a group commit would have it."""
    assert all(path.exists() for path in array.begin_sync())
    array.end_sync()


def finish(array: GrowingArray) -> None:
    array.complete()
    for _, tail in array.files.files.tails():
        tail.unlink()


@pytest.mark.parametrize("name", ["agents", "frames"])
@settings(max_examples=25, deadline=None)
@given(parts=st.lists(st.integers(0, 12), max_size=8), seed=st.integers(0, 99), sync=st.booleans())
def test_every_row_counts_at_every_moment(name: str, parts: list[int], seed: int, sync: bool) -> None:
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as path:
        files = OwnFiles(Files(Path(path), name))
        array = GrowingArray(files)
        added = np.zeros(0, files.spec.dtype)
        for count in parts:
            rows = random_rows(rng, files.spec.dtype, count)
            assert array.append(rows) == rows.nbytes
            before, added = added, np.concatenate([added, rows])
            np.testing.assert_array_equal(stored(files, len(added)), added)
            growth = array.take_growth()
            assert growth == (Growth(len(added), zlib.crc32(rows.tobytes())) if count else None)
            crc = zlib.crc32(rows.tobytes())
            assert StoredRows(files).holds(len(before), len(added), crc)
            assert not StoredRows(files).holds(len(before), len(added), crc ^ 1)
            assert not StoredRows(files).holds(len(before), len(added) + 1, zlib.crc32(rows.tobytes() + b"x"))
            if sync:
                durable(array)
                assert len([*files.files.tails()]) == 1
        finish(array)
        np.testing.assert_array_equal(stored(files, len(added)), added)
        assert files.files.header().shape[0] == len(added)
        assert [number for number, _ in files.files.chunks()] == [*range(-(-len(added) // SMALL))]
        assert not [*files.files.tails()]


@settings(max_examples=25, deadline=None)
@given(total=st.integers(0, 23), kept=st.integers(0, 23), finished=st.booleans())
def test_reopened_array_ends_as_if_it_had_never_been_longer(total: int, kept: int, finished: bool) -> None:
    kept = min(kept, total)
    rows = random_rows(np.random.default_rng(total), schema.AGENT, total)
    with tempfile.TemporaryDirectory() as path:
        once, again = (OwnFiles(Files(Path(path) / n, "agents")) for n in ("once", "again"))
        once.files.root.mkdir()
        again.files.root.mkdir()
        array = GrowingArray(again)
        array.append(rows)
        finish(array) if finished else array.close()
        for files, length in ((once, 0), (again, kept)):
            array = GrowingArray(files, Growth(length, zlib.crc32(rows[:length].tobytes())))
            array.append(rows[length : kept + 3])
            assert array.take_growth() in {None, Growth(array.length, zlib.crc32(rows[: kept + 3].tobytes()))}
            finish(array)
        assert contents(Path(path) / "once") == contents(Path(path) / "again")


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
    np.testing.assert_array_equal(stored(files, 8), rows)
    # The next one was not made yet.
    files.files.tail(1).unlink()
    np.testing.assert_array_equal(stored(files, 8), rows[:5])


def test_a_tail_goes_before_its_chunk_and_stays_until_the_disk_holds_it(folder: Path) -> None:
    files = OwnFiles(Files(folder, "agents"))
    rows = random_rows(np.random.default_rng(0), schema.AGENT, 4 * SMALL)
    array = GrowingArray(files)
    array.append(rows[:SMALL])
    assert [number for number, _ in files.files.tails()] == [1], "nothing was promised"
    durable(array)
    array.append(rows[SMALL : 3 * SMALL])
    assert [number for number, _ in files.files.tails()] == [1, 2, 3]
    files.files.chunk(1).write_bytes(bytes(99))
    files.files.chunk(2).write_bytes(files.files.chunk(0).read_bytes())
    np.testing.assert_array_equal(stored(files, 3 * SMALL), rows[: 3 * SMALL])
    array.close()
    array = GrowingArray(files, Growth(3 * SMALL, 0))
    array.append(rows[3 * SMALL :])
    finish(array)
    np.testing.assert_array_equal(stored(files, 4 * SMALL), rows)


def test_rows_that_are_not_new_are_not_synced_again(folder: Path) -> None:
    array = GrowingArray(OwnFiles(Files(folder, "agents")))
    array.append(random_rows(np.random.default_rng(0), schema.AGENT, 3))
    assert array.files.files.tail(0) in array.begin_sync()
    array.end_sync()
    assert array.begin_sync() == []
    array.end_sync()


def test_a_tail_that_was_removed_stays_open_until_the_disk_holds_the_folder(folder: Path) -> None:
    """Else a file system without a journal may give its blocks to another file, and its name back to them."""
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    rows = random_rows(np.random.default_rng(0), schema.AGENT, 2 * SMALL)
    array.append(rows[:2])
    durable(array)
    tail = identity(files.files.tail(0))
    array.append(rows[2 : SMALL + 1])
    durable(array)
    assert not files.files.tail(0).exists()
    assert tail in opened()
    array.append(rows[SMALL + 1 :])
    assert files.files.folder in array.begin_sync()
    assert tail in opened()
    array.end_sync()
    assert tail not in opened()
    array.close()


@pytest.mark.parametrize("bad", ["tail", "chunk"])
def test_of_rows_that_are_there_twice_those_count_that_have_the_checksum(folder: Path, bad: str) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    rows = random_rows(np.random.default_rng(0), schema.AGENT, SMALL + 2)
    array.append(rows[:1])
    durable(array)
    array.append(rows[1:])
    array.close()
    tail, chunk = files.files.tail(0), files.files.chunk(0)
    (tail if bad == "tail" else chunk).write_bytes(bytes(tail.stat().st_size))
    stored_now = StoredRows(files)
    for start, stop in ((0, 1), (1, SMALL - 1), (SMALL - 1, SMALL + 1), (SMALL + 1, SMALL + 2)):
        assert stored_now.holds(start, stop, zlib.crc32(rows[start:stop].tobytes()))
    assert stored_now.refuted == ({tail} if bad == "tail" else set())


def test_a_copy_that_was_wrong_once_does_not_count_again(folder: Path) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    rows = random_rows(np.random.default_rng(0), schema.AGENT, SMALL)
    array.append(rows[:1])
    durable(array)
    array.append(rows[1:])
    array.close()
    data = bytearray(files.files.tail(0).read_bytes())
    data[0] ^= 1
    files.files.tail(0).write_bytes(data)
    files.write_chunk(0, np.concatenate([rows[:2], rows[:2], rows[4:]]))
    stored_now = StoredRows(files)
    assert stored_now.holds(0, 1, zlib.crc32(rows[:1].tobytes()))
    assert not stored_now.holds(1, 3, zlib.crc32(rows[1:3].tobytes())), "the tail's, whose first row is wrong"


def test_half_a_row_is_none(folder: Path) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    array.append(random_rows(np.random.default_rng(0), schema.AGENT, 3))
    array.close()
    with files.files.tail(0).open("r+b") as tail:
        tail.truncate(3 * schema.AGENT.itemsize - 1)
    assert len(stored_rows(files, 0)) == 2
    finish(GrowingArray(files, Growth(2, 0)))
    assert files.files.header().shape[0] == 2


@pytest.mark.parametrize("damage", [b"", b"no chunk", bytes(5000), b"\x02\x01\x21\x58" + b"\xff" * 12, None])
def test_rows_after_a_damaged_chunk_do_not_count(folder: Path, damage: bytes | None) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    added = random_rows(np.random.default_rng(0), schema.AGENT, 3 * SMALL + 1)
    array.append(added)
    array.close()
    if damage is None:
        files.files.chunk(1).unlink()
    else:
        files.files.chunk(1).write_bytes(damage)
    rows = StoredRows(files)
    assert rows.holds(0, SMALL, zlib.crc32(added[:SMALL].tobytes()))
    assert not rows.holds(SMALL, SMALL + 1, zlib.crc32(added[SMALL : SMALL + 1].tobytes()))
    with pytest.raises(DatasetError, match="1: holds 0 rows, expected 4"):
        GrowingArray(files, Growth(2 * SMALL - 1, 0))


def test_cannot_keep_more_rows_than_there_are(folder: Path) -> None:
    files = OwnFiles(Files(folder, "agents"))
    array = GrowingArray(files)
    array.append(random_rows(np.random.default_rng(0), schema.AGENT, 2))
    array.close()
    with pytest.raises(DatasetError, match="holds 2 rows, expected 3"):
        GrowingArray(files, Growth(3, 0))
    assert len(stored_rows(files, 0)) == 2
