"""Structured damage of JSON and of zarr arrays."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pickle
import random
import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numcodecs
from edgefirst_mutations import ODD_VALUES
from fuzzing import mutate_bytes

BOMB_BYTES = 600 << 20
"""More than an input may take."""

_ran: list[str] = []
"""What code of an input that was run has left."""


def was_run() -> bool:
    """Whether code of an input was run since this was last asked."""
    found = bool(_ran)
    _ran.clear()
    return found


def run_by_pickle() -> None:
    """Leave a sign."""
    _ran.append("unpickled")


class _Code:
    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return run_by_pickle, ()


def changed(rng: random.Random, content: Any) -> Any:  # noqa: ANN401 - JSON or CBOR
    """One value somewhere made odd, left out, or repeated."""
    if isinstance(content, dict) and content and rng.random() < 0.95:
        key = rng.choice(sorted(content, key=repr))
        way = rng.random()
        if way < 0.1:
            return {k: v for k, v in content.items() if k != key}
        name = str(rng.choice(ODD_VALUES))[:100] if way < 0.13 else key
        return {**content, name: changed(rng, content[key])}
    if isinstance(content, list | tuple) and content and rng.random() < 0.9:
        place = rng.randrange(len(content))
        way = rng.random()
        if way < 0.1:
            return [*content, *content] if way < 0.05 else list(content[:place])
        return [*content[:place], changed(rng, content[place]), *content[place + 1 :]]
    if isinstance(content, int) and not isinstance(content, bool) and rng.random() < 0.3:
        return rng.choice((content + 1, -content, content * 2, content << 32))
    return rng.choice(ODD_VALUES)


def changed_json(rng: random.Random, data: bytes) -> bytes:
    """JSON with one to three such changes; now and then of another shape altogether, or deep."""
    way = rng.random()
    if way < 0.05:
        return rng.choice(
            (b"[" * 100_000, b'{"a":' * 100_000, b"[1,2]", b'"x"', b"7", b"null", b"", b"\xff{}")
        )
    if way < 0.1:
        return mutate_bytes(rng, data)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(rng, data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = changed(rng, content)
    return json.dumps(content).encode()


_IDS = [
    "pickle",
    "json2",
    "msgpack2",
    "bz2",
    "gzip",
    "zlib",
    "lzma",
    "lz4",
    "zstd",
    "delta",
    "categorize",
    "crc32",
    "x",
]
_BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
_COMPRESSORS: tuple[Any, ...] = (
    *({"id": each} for each in _IDS),
    {"id": "delta", "dtype": "|O"},
    *({**_BLOSC, "cname": each} for each in ("zstd", "zlib", "snappy", "x", 7)),
    *({**_BLOSC, name: each} for name in ("clevel", "shuffle", "blocksize") for each in (-1, 1 << 40, "x")),
    {"id": ["blosc"]}, None, "blosc", [], {}, 7,
)  # fmt: skip
_DTYPES: tuple[Any, ...] = (
    "|O", "O", "|V8", "<M8[ns]", "|S0", "|S999999999", "<U99999999", "<f16", "<c16", ">i2", "<i3", "i8",
    "<f8,O", [["a", "<f8"]], [["a", "|O"]], [["a", "<f8", [1 << 20, 1 << 20]]], [["a", "<f8"]] * 2,
    [["a", [["b", "|O"]]]], [["a", "<f8", [-1]]], [["\ud800", "<i4"]],
    [[f"f{n}", "<i8"] for n in range(5000)], [], {}, None, 5, True,
)  # fmt: skip
_SHAPES: tuple[Any, ...] = (
    [], [0], [1], [7, 3], [1 << 20], [1 << 31], [10**12], [1 << 63], [-1], [1.5], ["1"], [None], [True],
    [[1]], [10**400], [0, 1 << 40], [1] * 70, None, "x", 3,
)  # fmt: skip
_FILLS: tuple[Any, ...] = (
    None, 0, -1, True, 1.5, "NaN", "Infinity", "x", "AAAA", "!!", "A" * 4096, 1e300, 10**400, [], {},
    [[0]], "\ud800",
)  # fmt: skip
_ZARRAY: dict[str, tuple[Any, ...]] = {
    "compressor": _COMPRESSORS,
    "dtype": _DTYPES,
    "shape": _SHAPES,
    "chunks": _SHAPES,
    "fill_value": _FILLS,
    "filters": (None, [], [{"id": "pickle"}], [{"id": "delta", "dtype": "<f8"}], [None], {}, "x"),
    "order": ("C", "F", "x", None, 1),
    "zarr_format": (2, 3, "2", None, 2.0),
    "dimension_separator": (".", "/", "..", 1),
}


def hostile_zarray(rng: random.Random, data: bytes) -> bytes:
    """A ``.zarray`` with values of the format's own words where others belong."""
    try:
        meta = json.loads(data)
    except ValueError:
        return mutate_bytes(rng, data)
    if not isinstance(meta, dict) or rng.random() < 0.2:
        return changed_json(rng, data)
    for name in rng.sample(sorted(_ZARRAY), rng.choice((1, 1, 2, 3))):
        meta[name] = rng.choice(_ZARRAY[name])
    return json.dumps(meta).encode()


@cache
def _bomb(kind: str) -> bytes:
    """Few bytes that become many."""
    if kind == "zlib":
        return b"\x78\x01" + deflate_bomb()
    # Streams of the others follow one another; Blosc's chunks say how much they become.
    stream = _PACK[kind](bytes(40 << 20 if "blosc" in kind else 20 << 20))
    return stream if "blosc" in kind else stream * 30


def deflate_bomb() -> bytes:
    """The same without head and checksum: one block over and over, which was compressed but once."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * (BOMB_BYTES >> 20) + packer.flush()


_PACK: dict[str, Callable[[bytes], bytes]] = {
    "bz2": bz2.compress,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "lzma": lambda data: lzma.compress(data, preset=0),
    "zstd": lambda data: bytes(numcodecs.Zstd().encode(data)),
    "blosc": lambda data: bytes(numcodecs.Blosc("lz4", 5, 1).encode(data)),
    "blosc-zstd": lambda data: bytes(numcodecs.Blosc("zstd", 1, 0).encode(data)),
    "pickle": lambda _: pickle.dumps(_Code()),
    "none": bytes,
}


def hostile_chunk(rng: random.Random, data: bytes) -> bytes:
    """A chunk of other content, as some compressor leaves it, or too much of it."""
    way = rng.random()
    if way < 0.3:
        return mutate_bytes(rng, data[:16]) + data[16:]
    kind = rng.choice(sorted(_PACK))
    if way < 0.4 and kind not in {"none", "pickle"}:
        return _bomb(kind)
    try:
        raw = bytes(numcodecs.blosc.decompress(data))
    except (RuntimeError, ValueError, SystemError):  # the last of a negative size
        raw = data
    raw = rng.choice((raw, mutate_bytes(rng, raw), raw[: len(raw) // 2], raw * 3))
    if kind == "gzip" and rng.random() < 0.5:
        packed = bytearray(gzip.compress(raw))
        packed[4:8] = struct.pack("<I", len(raw))  # its time looks like the size that Blosc's head has there
        return bytes(packed)
    return _PACK[kind](raw) if raw or kind == "pickle" else b""
