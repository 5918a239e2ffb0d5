"""Arrays and groups of zarr format 2 as records, keys and payloads, and back.

Blosc as zarr 2 stores use it: the same input gives the same bytes, in any thread.
"""

from __future__ import annotations

import json
import operator
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from itertools import product
from math import prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Record = tuple[str, bytes]
"""Key below a store's root, and payload."""

GROUP_KEY = ".zgroup"
ARRAY_KEY = ".zarray"
ATTRIBUTES_KEY = ".zattrs"


def json_bytes(value: object) -> bytes:
    """Compact JSON with sorted keys, so that equal values give equal bytes.

    Raises:
        ValueError: the value holds NaN or infinity, which JSON cannot express.
    """
    return _ENCODER.encode(value).encode()


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


GROUP = json_bytes({"zarr_format": 2})


def join(*parts: str) -> str:
    """Key made of the parts that are not empty."""
    return "/".join(part for part in parts if part)


def is_metadata(key: str) -> bool:
    """True for the keys that consolidated metadata collects."""
    return key.rpartition("/")[2] in {GROUP_KEY, ARRAY_KEY, ATTRIBUTES_KEY}


def group(name: str, attributes: Mapping[str, Any] | None = None) -> list[Record]:
    """Records of a group; no attributes record when ``attributes`` is None."""
    records = [(join(name, GROUP_KEY), GROUP)]
    if attributes is not None:
        records.append((join(name, ATTRIBUTES_KEY), json_bytes(attributes)))
    return records


def under(prefix: str, records: Iterable[Record]) -> list[Record]:
    """The same records below ``prefix``."""
    return [(f"{prefix}/{key}", payload) for key, payload in records] if prefix else list(records)


def dtype_json(dtype: np.dtype[Any]) -> object:
    """The dtype as zarr 2 writes it: a type string, or the field list of a structured type.

    Raises:
        ValueError: Python objects, which have no bytes of their own.
    """
    if dtype.hasobject:
        raise ValueError(f"cannot store dtype {dtype} in a zarr array; use a fixed-size type")
    if dtype.fields is None:
        return dtype.str
    return [
        [name, dtype_json(base), list(shape)] if shape else [name, dtype_json(base)]
        for name, base, shape in _fields(dtype)
    ]


def _fields(dtype: np.dtype[Any]) -> Iterable[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """Name, element type and shape of each field.

    Raises:
        ValueError: the fields leave gaps or overlap, which the format cannot say.
    """
    names = dtype.names or ()
    fields = [dtype.fields[name] for name in names] if dtype.fields is not None else []
    offset = 0
    for name, (field, at, *_) in zip(names, fields, strict=True):
        if at != offset:
            raise ValueError(f"field {name} of {dtype} is at byte {at}, not {offset}; pack the structure")
        offset += field.itemsize
        yield name, field.base, field.shape
    if offset != dtype.itemsize:
        raise ValueError(f"{dtype} ends with {dtype.itemsize - offset} bytes of padding; pack the structure")


_SCALAR = re.compile(r"[<>|][biufSU]\d{1,9}")
_MOST_FIELDS = 64
_DEEPEST = 4


def dtype_of(value: object, depth: int = 0) -> np.dtype[Any]:
    """The dtype that ``dtype_json`` wrote: numbers, booleans and strings, and structures of these.

    Raises:
        ValueError: anything else that numpy would take for a type, Python objects among it.
    """
    if isinstance(value, str):
        if not _SCALAR.fullmatch(value):
            raise ValueError(f"dtype {value!r:.80} is not read here")
        try:
            return np.dtype(value)
        except TypeError as error:  # a number of 3 bytes
            raise ValueError(f"dtype {value!r:.80} is not read here") from error
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_FIELDS or depth == _DEEPEST:
        raise ValueError(f"dtype {value!r:.80} is not read here")
    try:
        return np.dtype([
            (str(name), dtype_of(base, depth + 1), *(tuple(map(operator.index, shape)) for shape in rest))
            for name, base, *rest in value
        ])  # fmt: skip
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"dtype {value!r:.80} is not read here: {error}") from error


def fill_json(dtype: np.dtype[Any], fill: object) -> object:
    """The fill value as zarr 2 writes it: base64 for bytes and structures, names for what JSON lacks."""
    if fill is None:
        return None
    if dtype.kind == "S" and not fill:
        return ""  # however long the string is
    value: npt.NDArray[Any] = np.zeros((), dtype)
    if fill != 0:
        value[()] = fill
    if dtype.kind in "SV":
        return b64encode(value.tobytes().rstrip(b"\0") if dtype.kind == "S" else value.tobytes()).decode()
    if dtype.kind == "f" and not np.isfinite(value):
        return "NaN" if np.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value.item()


def fill_of(dtype: np.dtype[Any], value: object) -> npt.NDArray[Any]:
    """The element that ``fill_json`` wrote, as an array without dimensions; zero for None.

    Raises:
        ValueError: no such element.
    """
    element: npt.NDArray[Any] = np.zeros((), dtype)
    try:
        if dtype.kind in "SV" and isinstance(value, str):
            raw = b64decode(value, validate=True)
            return np.frombuffer(raw.ljust(dtype.itemsize, b"\0"), dtype, 1).reshape(()) if raw else element
        if isinstance(value, int | float) or (dtype.kind == "f" and isinstance(value, str)):
            with np.errstate(over="raise"):
                element[()] = float(value) if dtype.kind == "f" else value
            return element
        if dtype.kind == "U" and isinstance(value, str):
            element[()] = value
            return element
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"fill value {value!r:.80} is none of {dtype}: {error}") from error
    if value is not None:
        raise ValueError(f"fill value {value!r:.80} is none of {dtype}")
    return element


class Shuffle(IntEnum):
    """What Blosc does to the bytes before it compresses them."""

    NONE = 0
    BYTE = 1
    BIT = 2


@dataclass(frozen=True)
class Blosc:
    """Settings of the Blosc compressor (numcodecs ``blosc``)."""

    cname: str = "lz4"
    clevel: int = 5
    shuffle: Shuffle = Shuffle.BIT

    @property
    def config(self) -> dict[str, object]:
        """What ``.zarray`` says about the compressor."""
        return {
            "id": "blosc",
            "cname": self.cname,
            "clevel": self.clevel,
            "shuffle": int(self.shuffle),
            "blocksize": 0,
        }

    @cached_property
    def _codec(self) -> Any:  # noqa: ANN401  numcodecs has no types
        return _numcodecs().Blosc(cname=self.cname, clevel=self.clevel, shuffle=int(self.shuffle))

    def encode(self, chunk: npt.NDArray[Any]) -> bytes:
        """The compressed bytes of a C-contiguous array; releases the interpreter lock."""
        return bytes(self._codec.encode(chunk))


_HEADER_BYTES = 16
"""Of a Blosc chunk; its second word is the number of bytes behind it."""


def known_compressor(config: object) -> Mapping[str, object] | None:
    """The compressor that ``.zarray`` names, if it is one that the formats use: Blosc, or None for none.

    Codecs are not looked up by name in numcodecs' registry: some of them run code from the data (``pickle``).

    Raises:
        ValueError: any other.
    """
    if config is None:
        return None
    if not isinstance(config, dict) or config.get("id") != "blosc":
        name = config.get("id") if isinstance(config, dict) else config
        raise ValueError(f"compressor {name!r:.80} is not read here; the formats use blosc, or none")
    return config


def decode(config: Mapping[str, object] | None, data: bytes, expected: int) -> npt.NDArray[np.uint8]:
    """The ``expected`` bytes of a chunk behind a known compressor; no more memory than these is taken.

    Raises:
        ValueError: damaged data, or another number of bytes.
    """
    if config is None:
        raw = np.frombuffer(data, np.uint8)
        if len(raw) != expected:
            raise ValueError(f"holds {len(raw):,} bytes, expected {expected:,}")
        return raw
    if len(data) < _HEADER_BYTES or int.from_bytes(data[4:8], "little") != expected:
        raise ValueError(f"its header does not declare {expected:,} bytes")
    try:
        raw = np.frombuffer(_numcodecs().blosc.decompress(data), np.uint8)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(f"{len(data):,} bytes do not decode: {error}") from error
    if len(raw) != expected:
        raise ValueError(f"holds {len(raw):,} bytes, expected {expected:,}")
    return raw


@cache
def _numcodecs() -> Any:  # noqa: ANN401  numcodecs has no types
    # Imported late: options of formats name arrays, and reading options shall be quick.
    import numcodecs  # type: ignore[import-untyped]  # noqa: PLC0415
    import numcodecs.blosc  # type: ignore[import-untyped]  # noqa: PLC0415

    # With its own threads Blosc places blocks in the order in which they finish and takes a lock that is
    # shared by the whole process; callers here have threads of their own.
    numcodecs.blosc.use_threads = False
    return numcodecs


MOST_BYTES = 1 << 28
"""Of an array that is read at once, or of a chunk of it."""
_SMALL_BYTES, _MOST_GROWTH = 32 << 20, 16
"""An array of more bytes than the first holds no more than so many times what is stored of it: real ones are
below 4 times, and Blosc's worst is 255 times."""
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


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """What ``.zarray`` says of an array, as far as it is read here.

    Attributes:
        compressor: as in ``.zarray``; None stores the bytes as they are.
        fill: what absent chunks read as, an array without dimensions.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    compressor: Mapping[str, object] | None
    fill: npt.NDArray[Any]

    @classmethod
    def parse(cls, payload: bytes) -> Self:
        """The header in a ``.zarray``.

        Raises:
            ValueError: it is none, or of an array that no format here has.
        """
        try:
            meta = json.loads(payload)
            if meta["zarr_format"] != 2 or meta["order"] != "C" or meta["filters"]:
                raise ValueError("expected zarr format 2, order C, no filters")
            dtype = dtype_of(meta["dtype"])
            if dtype.itemsize > MOST_BYTES:  # before memory is taken for the fill value
                raise ValueError(f"elements of {dtype} are larger than any array here")
            header = cls(
                dtype,
                tuple(meta["shape"]),
                tuple(meta["chunks"]),
                known_compressor(meta["compressor"]),
                fill_of(dtype, meta["fill_value"]),
            )
        except (LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"{error!r:.200}") from error
        header._check_sizes()
        return header

    @property
    def chunk_bytes(self) -> int:
        """Of a decoded chunk."""
        return prod(self.chunks) * self.dtype.itemsize

    def decode(self, data: bytes) -> npt.NDArray[Any]:
        """A whole chunk, of the shape ``chunks``.

        Raises:
            ValueError: the bytes are not a chunk of this array, or blow up beyond what an array here takes.
        """
        self.check_growth(self.chunk_bytes, len(data))
        raw = decode(self.compressor, data, self.chunk_bytes)
        return (raw.view(self.dtype) if raw.size else np.zeros(prod(self.chunks), self.dtype)).reshape(
            self.chunks
        )

    def check_growth(self, wanted: int, stored: int) -> None:
        """Refuse to take ``wanted`` bytes of memory for ``stored`` bytes of chunks.

        Raises:
            ValueError: no array of the formats is so much larger than its chunks.
        """
        if wanted > max(_SMALL_BYTES, _MOST_GROWTH * stored):
            raise ValueError(f"{wanted:,} bytes of {self.dtype} are in {stored:,} bytes of chunks")

    def _check_sizes(self) -> None:
        sizes = (*self.shape, *self.chunks)
        if (
            len(self.shape) != len(self.chunks)
            or not all(type(size) is int and 0 <= size < 1 << 63 for size in sizes)  # a bool is an int, too
            or 0 in self.chunks
        ):
            raise ValueError(f"no array has the shape {self.shape!r:.80} in chunks of {self.chunks!r:.80}")
        if self.chunk_bytes > MOST_BYTES:
            raise ValueError(f"chunks of {self.chunks!r:.80} {self.dtype} are larger than any here")


def read_array(
    get: Callable[[str], bytes], name: str, kinds: str = "", most_bytes: int = MOST_BYTES
) -> npt.NDArray[Any]:
    """The array whose records ``get`` returns by key; absent chunks read as the fill value.

    Args:
        get: payload of a record.
        name: of the array.
        kinds: of numpy's types, as ``iu``, of which its elements must be one; by default any.
        most_bytes: that it may take.

    Raises:
        ValueError: metadata or a chunk that is not what zarr format 2 says.
        KeyError: no such array (from ``get``).
    """
    header = ArrayHeader.parse(get(join(name, ARRAY_KEY)))
    if kinds and header.dtype.kind not in kinds:
        raise ValueError(f"{name}: its elements are {header.dtype}")
    shape, chunks = header.shape, header.chunks
    most_chunks = prod(max(1, -(-size // chunk)) for size, chunk in zip(shape, chunks, strict=True))
    size = prod(shape) * header.dtype.itemsize
    if max(size, *shape, most_chunks * _CHUNK_COST_BYTES, 0) > most_bytes:
        raise ValueError(f"{name}: an array of shape {shape} in chunks of {chunks} is larger than any here")
    stored: dict[tuple[int, ...], bytes] = {}
    for index in grid(shape, chunks):
        with suppress(KeyError):
            stored[index] = get(join(name, chunk_key(index)))
    try:
        header.check_growth(size, sum(map(len, stored.values())))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    array = np.full(shape, header.fill, header.dtype)
    for index, data in stored.items():
        try:
            block = header.decode(data)
        except ValueError as error:
            raise ValueError(f"{join(name, chunk_key(index))}: {error}") from error
        where = tuple(slice(i * c, min((i + 1) * c, s)) for i, c, s in zip(index, chunks, shape, strict=True))
        array[where] = block[tuple(slice(s.stop - s.start) for s in where)]
    return array
