"""Chunked arrays: the same as numpy, and no chunk twice."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l5_samples import random_rows

from edgefirst_ros.formats.l5kit.store.chunks import ChunkCache, ChunkedArray, Files
from edgefirst_ros.formats.l5kit.store.schema import AGENT
from edgefirst_ros.formats.zarr2 import ArraySpec, Blosc
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound

ROWS, CHUNK = 37, 8


def stored(root: Path, rows: np.ndarray, chunk: int, compressor: Blosc | None = None) -> Files:
    """Rows as another program might store them."""
    for key, data in ArraySpec(rows.dtype, (chunk,), compressor).records("agents", rows):
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Files(root, "agents")


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return random_rows(np.random.default_rng(1), AGENT, ROWS)


@pytest.fixture(scope="module")
def files(rows: np.ndarray) -> Iterator[Files]:
    with tempfile.TemporaryDirectory() as path:
        yield stored(Path(path), rows, CHUNK, Blosc())


def array(files: Files, max_bytes: int = 0) -> ChunkedArray:
    return ChunkedArray(files, ChunkCache(max_bytes))


bounds = st.none() | st.integers(-ROWS - 5, ROWS + 5)
steps = st.none() | st.integers(-12, 12).filter(bool)


@settings(max_examples=300, deadline=None)
@given(key=st.builds(slice, bounds, bounds, steps))
def test_slices_are_numpys_and_decompress_each_chunk_once(files: Files, rows: np.ndarray, key: slice) -> None:
    chunked = array(files)
    np.testing.assert_array_equal(chunked[key], rows[key])
    touched = {index // CHUNK for index in range(*key.indices(ROWS))}
    assert chunked._cache.reads == len(touched)


@settings(max_examples=200, deadline=None)
@given(
    key=st.lists(st.integers(-ROWS, ROWS - 1), max_size=30),
    shape=st.sampled_from(["list", "array", "square"]),
)
def test_integers_are_numpys_and_decompress_each_chunk_once(
    files: Files, rows: np.ndarray, key: list[int], shape: str
) -> None:
    index: Any = key if shape == "list" else np.array(key, np.int64)
    if shape == "square":
        index = index[: len(index) // 2 * 2].reshape(-1, 2)
    chunked = array(files)
    got, expected = chunked[index], rows[np.asarray(index, np.intp)]
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    assert chunked._cache.reads == len({i % ROWS // CHUNK for i in np.ravel(index)})


@settings(max_examples=100, deadline=None)
@given(mask=st.lists(st.booleans(), min_size=ROWS, max_size=ROWS))
def test_booleans_are_numpys(files: Files, rows: np.ndarray, mask: list[bool]) -> None:
    chunked = array(files)
    np.testing.assert_array_equal(chunked[np.array(mask)], rows[np.array(mask)])
    np.testing.assert_array_equal(chunked[mask], rows[mask])
    assert chunked._cache.reads == 2 * len(set(np.flatnonzero(mask) // CHUNK))


def test_single_rows_and_everything(files: Files, rows: np.ndarray) -> None:
    chunked = array(files)
    for key in (0, 36, -1, -37, np.int64(9)):
        assert chunked[key] == rows[key]
        assert isinstance(chunked[key], np.void)
    np.testing.assert_array_equal(chunked[...], rows)
    np.testing.assert_array_equal(chunked[(slice(3, 9),)], rows[3:9])
    np.testing.assert_array_equal(np.array([*chunked]), rows)
    assert (len(chunked), chunked.dtype) == (ROWS, AGENT)


def test_columns(files: Files, rows: np.ndarray) -> None:
    chunked = array(files)
    np.testing.assert_array_equal(chunked["centroid"], rows["centroid"])
    assert chunked._cache.reads == 5
    several = chunked[["yaw", "track_id"]]
    assert several.dtype.names == ("yaw", "track_id")
    np.testing.assert_array_equal(several["track_id"], rows["track_id"])
    np.testing.assert_array_equal(chunked[3:5]["velocity"], rows[3:5]["velocity"])


@pytest.mark.parametrize(
    "key", [ROWS, -ROWS - 1, [0, ROWS], [True], np.ones(ROWS + 1, bool), 1.0, [1.5], (1, 2)]
)
def test_what_numpy_refuses_is_refused(files: Files, rows: np.ndarray, key: Any) -> None:  # noqa: ANN401
    with pytest.raises(IndexError):
        array(files)[key]


def test_result_is_a_copy(files: Files, rows: np.ndarray) -> None:
    chunked = array(files, 1 << 30)
    chunked[:5]["yaw"][:] = -1
    chunked[0]["yaw"] = -1
    chunked["yaw"][:] = -1
    np.testing.assert_array_equal(chunked[:], rows)


def test_cache_is_bounded_and_keeps_what_was_used_last(files: Files) -> None:
    size = CHUNK * AGENT.itemsize
    chunked = array(files, 2 * size)
    cache = chunked._cache
    for index in (0, CHUNK, 0, 2 * CHUNK, 0):
        chunked[index]
    assert cache.reads == 3
    chunked[CHUNK]
    assert cache.reads == 4
    assert sum(chunk.nbytes for chunk in cache._chunks.values()) == 2 * size


def test_pickled_for_another_process(files: Files, rows: np.ndarray) -> None:
    chunked = array(files, 1 << 20)
    chunked[:]
    packed = pickle.dumps(chunked)
    assert len(packed) < 2000
    np.testing.assert_array_equal(pickle.loads(packed)[:], rows)


@pytest.mark.parametrize("compressor", [None, Blosc("zstd", 1), Blosc("lz4hc", 3)])
def test_other_chunks_and_compressors(tmp_path: Path, rows: np.ndarray, compressor: Blosc | None) -> None:
    np.testing.assert_array_equal(array(stored(tmp_path, rows, 5, compressor))[::-3], rows[::-3])


def test_missing_chunk_is_zero(tmp_path: Path, rows: np.ndarray) -> None:
    files = stored(tmp_path, rows, CHUNK)
    files.chunk(1).unlink()
    got = array(files)[:]
    assert not got[CHUNK : 2 * CHUNK]["centroid"].any()
    np.testing.assert_array_equal(got[2 * CHUNK :], rows[2 * CHUNK :])


def test_empty_array(tmp_path: Path) -> None:
    chunked = array(stored(tmp_path, np.zeros(0, AGENT), 4))
    assert [len(chunked), len(chunked[:]), len(chunked[[]]), len(chunked["yaw"]), [*chunked]] == [
        0,
        0,
        0,
        0,
        [],
    ]
    with pytest.raises(IndexError):
        chunked[0]


@pytest.mark.parametrize("data", [b"", b"garbage", b"\x02" * 40])
def test_damaged_chunk(tmp_path: Path, rows: np.ndarray, data: bytes) -> None:
    files = stored(tmp_path, rows, CHUNK, Blosc())
    files.chunk(2).write_bytes(data)
    chunked = array(files)
    np.testing.assert_array_equal(chunked[:16], rows[:16])
    with pytest.raises(DatasetError, match=r"agents/2: "):
        chunked[16]


@pytest.mark.parametrize(
    "change",
    [
        {"zarr_format": 3},
        {"order": "F"},
        {"filters": [{"id": "delta"}]},
        {"shape": [4, 4]},
        {"dtype": "nonsense"},
        {"chunks": []},
    ],
)
def test_foreign_metadata(tmp_path: Path, rows: np.ndarray, change: dict[str, Any]) -> None:
    files = stored(tmp_path, rows, CHUNK)
    meta = json.loads(files.metadata.read_bytes())
    files.metadata.write_text(json.dumps({**meta, **change}))
    with pytest.raises(DatasetError, match=r"\.zarray"):
        array(files)


@pytest.mark.parametrize("text", ["", "[]", "{}", "nothing"])
def test_no_metadata(tmp_path: Path, rows: np.ndarray, text: str) -> None:
    files = stored(tmp_path, rows, CHUNK)
    files.metadata.write_text(text)
    with pytest.raises(DatasetError):
        array(files)


def test_no_array(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="no such array"):
        array(Files(tmp_path, "agents"))


def test_a_slice_reads_a_thousandth_of_the_chunks_of_one_by_one(tmp_path: Path) -> None:
    count = 1000
    files = stored(tmp_path, random_rows(np.random.default_rng(0), AGENT, count), count, Blosc())
    by_slice, one_by_one, with_cache = array(files), array(files), array(files, 1 << 20)
    expected = by_slice[:count]["centroid"]
    for chunked in (one_by_one, with_cache):
        np.testing.assert_array_equal([chunked[i]["centroid"] for i in range(count)], expected)
    assert one_by_one._cache.reads == 1000 * by_slice._cache.reads
    assert with_cache._cache.reads == 1
