"""Arrays of zarr format 2 as records, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.zarr2.compression import Blosc, decode
from edgefirst_ros.formats.zarr2.metadata import (
    ARRAY_KEY,
    ATTRIBUTES_KEY,
    Record,
    dtype_json,
    dtype_of,
    fill_json,
    join,
    json_bytes,
)

MOST_BYTES = 1 << 28
"""Of an array that is read at once, or of a chunk of it."""
_CHUNK_COST_BYTES = 256
"""What asking for a chunk costs, whether it is there or not, in time to read so many bytes."""


def chunk_key(index: tuple[int, ...]) -> str:
    """Key of a chunk below its array: ``0`` for an array without dimensions."""
    return ".".join(map(str, index)) if index else "0"


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """How an array is cut and encoded; the shape may grow later.

    Attributes:
        dtype: element type; structures must be packed.
        chunks: chunk shape, each at least 1.
        compressor: None stores the bytes as they are.
        fill_value: what absent chunks read as, and what pads the last chunk.
    """

    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    compressor: Blosc | None = None
    fill_value: object = 0

    def metadata(self, shape: tuple[int, ...]) -> bytes:
        """The ``.zarray`` payload of an array of ``shape``.

        Raises:
            ValueError: ``shape`` has other dimensions than ``chunks``, or a dtype zarr cannot store.
        """
        if len(shape) != len(self.chunks):
            raise ValueError(f"shape {shape} and chunks {self.chunks} differ in dimensions")
        return _metadata(self, shape)

    def encode(self, block: npt.NDArray[Any]) -> bytes:
        """Bytes of one chunk; a smaller block (at the array's end) is padded with the fill value."""
        block = np.asarray(block, self.dtype, order="C")
        if block.shape != self.chunks:
            whole = np.zeros(self.chunks, self.dtype)
            if self.fill_value:
                whole[...] = self.fill_value
            whole[tuple(slice(n) for n in block.shape)] = block
            block = whole
        return self.compressor.encode(block) if self.compressor else block.tobytes()

    def records(self, name: str, array: npt.NDArray[Any]) -> Iterator[Record]:
        """Metadata and every chunk of ``array``."""
        yield join(name, ARRAY_KEY), self.metadata(array.shape)
        if array.shape == self.chunks:
            yield join(name, ".".join("0" * len(self.chunks)) or "0"), self.encode(array)
            return
        for index in grid(array.shape, self.chunks):
            part = array[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, self.chunks, strict=True))]
            yield join(name, chunk_key(index)), self.encode(part)


@lru_cache(maxsize=1024)
def _metadata(spec: ArraySpec, shape: tuple[int, ...]) -> bytes:
    return json_bytes({
        "zarr_format": 2,
        "shape": shape,
        "chunks": spec.chunks,
        "dtype": dtype_json(spec.dtype),
        "compressor": spec.compressor.config if spec.compressor else None,
        "fill_value": fill_json(spec.dtype, spec.fill_value),
        "order": "C",
        "filters": None,
    })  # fmt: skip


def grid(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every chunk index of an array; one empty index for an array without dimensions."""
    return product(*(range(-(-size // chunk)) for size, chunk in zip(shape, chunks, strict=True)))


def array_records(
    name: str,
    array: npt.NDArray[Any],
    compressor: Blosc | None,
    *,
    chunks: tuple[int, ...] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> list[Record]:
    """Records of a whole array, in one chunk unless ``chunks`` says otherwise."""
    shape = tuple(max(1, size) for size in (chunks or array.shape))
    records = list(ArraySpec(array.dtype, shape, compressor).records(name, array))
    if attributes is not None:
        records.append((join(name, ATTRIBUTES_KEY), json_bytes(attributes)))
    return records


def blob_records(name: str, data: bytes, attributes: Mapping[str, Any]) -> list[Record]:
    """Records of encoded bytes as an array without dimensions of type ``|S<n>``, uncompressed.

    numpy drops NUL bytes at the end of such a value, so they are not stored to begin with.

    Raises:
        ValueError: nothing is left to store.
    """
    data = data.rstrip(b"\0")
    if not data:
        raise ValueError("an empty byte string cannot be stored as |S0")
    spec = ArraySpec(np.dtype(f"S{len(data)}"), ())
    return [
        (join(name, ARRAY_KEY), spec.metadata(())),
        (join(name, "0"), data),
        (join(name, ATTRIBUTES_KEY), json_bytes(attributes)),
    ]


def read_array(get: Callable[[str], bytes], name: str) -> npt.NDArray[Any]:
    """The array whose records ``get`` returns by key; absent chunks read as the fill value.

    Raises:
        ValueError: metadata or a chunk that is not what zarr format 2 says.
        KeyError: no such array (from ``get``).
    """
    meta = json.loads(get(join(name, ARRAY_KEY)))
    if meta.get("zarr_format") != 2 or meta.get("order") != "C" or meta.get("filters"):
        raise ValueError(f"{name}: only zarr format 2, order C, without filters is read here, found {meta}")
    dtype = dtype_of(meta["dtype"])
    shape, chunks = tuple(meta["shape"]), tuple(meta["chunks"])
    if not all(isinstance(size, int) and size >= 0 for size in (*shape, *chunks)) or 0 in chunks:
        raise ValueError(f"{name}: no array has the shape {shape} in chunks of {chunks}")
    expected = prod(chunks) * dtype.itemsize
    most_chunks = prod(max(1, -(-size // chunk)) for size, chunk in zip(shape, chunks, strict=True))
    if max(prod(shape) * dtype.itemsize, expected, *shape, most_chunks * _CHUNK_COST_BYTES) > MOST_BYTES:
        raise ValueError(f"{name}: an array of shape {shape} in chunks of {chunks} is larger than any here")
    array = np.zeros(shape, dtype)
    if dtype.kind in "fiu" and meta["fill_value"] is not None:
        array[...] = float(meta["fill_value"]) if dtype.kind == "f" else meta["fill_value"]
    for index in grid(shape, chunks):
        key = join(name, chunk_key(index))
        try:
            data = get(key)
        except KeyError:
            continue
        if isinstance(meta["compressor"], dict) and int.from_bytes(data[4:8], "little") != expected:
            raise ValueError(f"{key}: its header does not declare {expected} bytes")
        block = decode(meta["compressor"], data).view(dtype) if dtype.itemsize else np.zeros(0, dtype)
        if block.size != int(np.prod(chunks)):
            raise ValueError(f"{key} holds {block.size} elements, chunks are {chunks}")
        where = tuple(slice(i * c, min((i + 1) * c, s)) for i, c, s in zip(index, chunks, shape, strict=True))
        part = tuple(slice(s.stop - s.start) for s in where)
        array[where] = block.reshape(chunks)[part]
    return array
