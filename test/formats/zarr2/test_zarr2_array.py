from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgefirst_ros.formats.zarr2 import (
    ArraySpec,
    Blosc,
    Shuffle,
    array_records,
    blob_records,
    dtype_json,
    fill_json,
    group,
    is_metadata,
    json_bytes,
    read_array,
)

LZ4 = Blosc()
DTYPES = st.sampled_from(["<f4", "<f8", "|u1", "<u2", "<i2", "<u8", "<i8", "|b1", "|S5", ">f4"])
AGENT = np.dtype([("centroid", "<f8", (2,)), ("yaw", "<f4"), ("track_id", "<u8"), ("p", "<f4", (3, 2))])


def read(records: list[tuple[str, bytes]], name: str = "a") -> np.ndarray:
    return read_array(dict(records).__getitem__, name)


@settings(max_examples=60, deadline=None)
@given(st.data(), DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7), st.booleans())
def test_what_is_written_is_read(
    data: st.DataObject, dtype: str, shape: tuple[int, ...], packed: bool
) -> None:
    array = data.draw(hnp.arrays(np.dtype(dtype), shape))
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape) if data.draw(st.booleans()) else None
    records = array_records("a", array, LZ4 if packed else None, chunks=chunks)
    found = read(records)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()
    assert found.shape == array.shape


def test_metadata_says_what_zarr_2_asks_for() -> None:
    key, payload = array_records("g/x", np.zeros((2, 3), np.float32), LZ4, chunks=(1, 3))[0]
    assert key == "g/x/.zarray"
    assert json.loads(payload) == {
        "zarr_format": 2,
        "shape": [2, 3],
        "chunks": [1, 3],
        "dtype": "<f4",
        "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2, "blocksize": 0},
        "fill_value": 0.0,
        "order": "C",
        "filters": None,
    }


def test_chunk_keys_join_indices_with_dots() -> None:
    records = array_records("a", np.zeros((3, 4), np.uint8), None, chunks=(2, 3))
    assert [key for key, _ in records] == ["a/.zarray", "a/0.0", "a/0.1", "a/1.0", "a/1.1"]
    assert [len(payload) for _, payload in records[1:]] == [6, 6, 6, 6]


def test_empty_arrays_have_chunks_of_at_least_one_and_no_chunk() -> None:
    records = array_records("a", np.zeros((0, 3), np.float32), LZ4)
    assert [key for key, _ in records] == ["a/.zarray"]
    assert json.loads(records[0][1])["chunks"] == [1, 3]


def test_structures_go_through_with_nested_shapes() -> None:
    array = np.zeros(5, AGENT)
    array["centroid"] = np.arange(10).reshape(5, 2)
    array["p"] = np.arange(30).reshape(5, 3, 2)
    spec = ArraySpec(AGENT, (4,), Blosc(shuffle=Shuffle.BYTE), None)
    records = list(spec.records("agents", array))
    meta = json.loads(records[0][1])
    assert meta["dtype"] == [
        ["centroid", "<f8", [2]], ["yaw", "<f4"], ["track_id", "<u8"], ["p", "<f4", [3, 2]]
    ]  # fmt: skip
    assert meta["fill_value"] is None
    assert np.array_equal(read(records, "agents"), array)


def test_the_last_chunk_is_padded_with_the_fill_value() -> None:
    spec = ArraySpec(np.dtype("<i4"), (4,), None, fill_value=-7)
    payload = dict(spec.records("a", np.arange(6, dtype="<i4")))["a/1"]
    assert np.frombuffer(payload, "<i4").tolist() == [4, 5, -7, -7]


def test_absent_chunks_read_as_the_fill_value() -> None:
    spec = ArraySpec(np.dtype("<i4"), (4,), LZ4, fill_value=-7)
    records = [record for record in spec.records("a", np.arange(6, dtype="<i4")) if record[0] != "a/0"]
    assert read(records).tolist() == [-7, -7, -7, -7, 4, 5]


@pytest.mark.parametrize(
    ("dtype", "fill", "expected"),
    [
        ("<f4", float("nan"), "NaN"),
        ("<f8", float("inf"), "Infinity"),
        ("<f8", float("-inf"), "-Infinity"),
        ("<f4", 0, 0.0),
        ("<u8", 3, 3),
        ("<i4", -1, -1),
        ("|b1", True, True),
        ("|S4", 0, ""),
        ("|V2", 0, "AAA="),
        ("<i4", None, None),
    ],
)
def test_fill_values_are_json(dtype: str, fill: object, expected: object) -> None:
    found = fill_json(np.dtype(dtype), fill)
    assert found == expected
    assert type(found) is type(expected)


def test_dtypes_without_bytes_of_their_own_are_refused() -> None:
    with pytest.raises(ValueError, match="fixed-size"):
        dtype_json(np.dtype(object))
    with pytest.raises(ValueError, match="pack the structure"):
        dtype_json(np.dtype([("a", "u1"), ("b", "<f8")], align=True))
    with pytest.raises(ValueError, match="bytes of padding"):
        dtype_json(np.dtype({"names": ["a"], "formats": ["u1"], "itemsize": 4}))


def test_blobs_are_zero_dimensional_strings_of_their_length() -> None:
    records = dict(blob_records("image", b"\xff\xd8abc\0\0", {"format": "jpeg"}))
    assert json.loads(records["image/.zarray"])["dtype"] == "|S5"
    assert records["image/0"] == b"\xff\xd8abc"
    assert read_array(records.__getitem__, "image").item() == b"\xff\xd8abc"
    with pytest.raises(ValueError, match="empty byte string"):
        blob_records("image", b"\0\0", {})


def test_the_same_array_gives_the_same_bytes_in_every_thread() -> None:
    array = np.random.default_rng(0).normal(size=(60_000, 3)).astype(np.float32)
    expected = array_records("a", array, LZ4)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: array_records("a", array, LZ4), range(16)):
            assert found == expected


@pytest.mark.parametrize(
    ("shape", "chunks", "said"),
    [
        ([1 << 62, 0], [1, 1], "larger than any here"),
        ([1 << 27], [1], "larger than any here"),
        ([1 << 62], [1 << 62], "larger than any here"),
        ([4], [0], "no array has the shape"),
        ([-4], [4], "no array has the shape"),
        (["4"], [4], "no array has the shape"),
    ],
)
def test_shapes_that_no_writer_makes_are_refused_before_their_chunks_are_asked_for(
    shape: list[object], chunks: list[object], said: str
) -> None:
    records = dict(array_records("a", np.arange(4, dtype="|u1"), None))
    metadata = json.loads(records["a/.zarray"]) | {"shape": shape, "chunks": chunks}
    with pytest.raises(ValueError, match=said):
        read_array({"a/.zarray": json_bytes(metadata)}.__getitem__, "a")


def test_damage_is_named() -> None:
    records = dict(array_records("a", np.arange(40, dtype="<i4"), LZ4))
    records["a/0"] = records["a/0"][:20]
    with pytest.raises(ValueError, match="do not decode"):
        read(list(records.items()))
    plain = dict(array_records("a", np.arange(4, dtype="<i4"), None))
    plain["a/0"] = plain["a/0"][:8]
    with pytest.raises(ValueError, match="holds 8 bytes, expected 16"):
        read(list(plain.items()))
    plain["a/.zarray"] = plain["a/.zarray"].replace(b'"order":"C"', b'"order":"F"')
    with pytest.raises(ValueError, match="order C"):
        read(list(plain.items()))


def test_shapes_and_chunks_must_have_the_same_dimensions() -> None:
    with pytest.raises(ValueError, match="differ in dimensions"):
        ArraySpec(np.dtype("u1"), (1,)).metadata((2, 3))


def test_json_has_one_spelling_and_no_nan() -> None:
    assert json_bytes({"b": 1, "a": [1.5, None]}) == b'{"a":[1.5,null],"b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_bytes({"a": float("nan")})


def test_groups_have_attributes_only_when_given() -> None:
    assert [key for key, _ in group("a/b")] == ["a/b/.zgroup"]
    assert group("", {"x": 1})[1] == (".zattrs", b'{"x":1}')
    assert [is_metadata(key) for key in ("a/.zarray", ".zgroup", "b/.zattrs", "a/0.0", "zarray")] == [
        True, True, True, False, False
    ]  # fmt: skip
