"""The journal of a sequence: what is committed in its stores, and as CBOR what belongs to no frame.

CBOR in xz, made piece by piece so that large tables never exist as a whole; and consolidated metadata.
"""

from __future__ import annotations

import json
import lzma
import struct
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import cbor2
import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.crashsafe.journal import Journal, read_journal
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.formats.ncore.store.base import Batch
from edgefirst_ros.formats.pace import rest

TEXT = 3
ARRAY = 4
MAP = 5
_TAG, _WIDE, _OPEN = 6, 24, 31
"""Another major type; and in heads, from where on the count follows, and that it is not known."""
OPEN_ARRAY, OPEN_MAP, BREAK = b"\x9f", b"\xbf", b"\xff"
"""Heads of an array and a map whose length is not known yet, and what ends them (RFC 8949, 3.2.1)."""

# Every store keeps two compressors while it is written. With the default preset each takes 94 MB; with these
# 0.2 MB and a tenth of the time, and what is said over and over becomes as small.
_FILTERS = ({"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 16},)
_PENDING = 1 << 16
_UINT_CODES = ((24, 0, 0), (1 << 8, 24, 1), (1 << 16, 25, 2), (1 << 32, 26, 4), (1 << 64, 27, 8))
"""Of CBOR's integers: below what, which code, and how many bytes follow (RFC 8949, 3)."""
_ROWS = 1 << 16
_UNPACKER = 256 << 20
"""Memory that unpacking may take; the strongest preset of xz takes 65 MB."""


def cbor_head(major: int, count: int) -> bytes:
    """Head of a CBOR array or map of ``count`` items, or text of that many bytes (RFC 8949, 3)."""
    if count < 24:
        return bytes((major << 5 | count,))
    if count < 1 << 8:
        return bytes((major << 5 | 24, count))
    for code, kind, limit in ((25, "H", 16), (26, "I", 32)):
        if count < 1 << limit:
            return bytes([major << 5 | code]) + struct.pack(f">{kind}", count)
    return bytes([major << 5 | 27]) + struct.pack(">Q", count)


def cbor_uints(values: npt.NDArray[np.uint64]) -> Iterator[bytes]:
    """A CBOR array of integers (N,) in pieces."""
    yield cbor_head(ARRAY, len(values))
    for start in range(0, len(values), _ROWS):
        some = values[start : start + _ROWS]
        # Code and big-endian value of each, as wide as the widest; then each one's own part of that.
        table = np.zeros((len(some), 9), np.uint8)
        table[:, 1:] = some.astype(">u8").view(np.uint8).reshape(-1, 8)
        wanted = np.zeros(table.shape, bool)
        wanted[:, 0] = True
        least = 0
        for below, code, size in _UINT_CODES:
            these = (some >= np.uint64(least)) & (some <= np.uint64(below - 1))
            table[these, 0] = code if size else some[these]
            wanted[these, 9 - size :] = True
            least = below
        yield table[wanted].tobytes()


class XzStream:
    """Packs what comes piece by piece, so that little is left to do at the end."""

    def __init__(self, *pieces: bytes) -> None:
        self._compressor = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=list(_FILTERS))
        self._packed = bytearray()
        self._pending = bytearray(b"".join(pieces))

    def add(self, piece: bytes) -> None:
        """The next piece."""
        self._pending += piece
        if len(self._pending) >= _PENDING:
            self._packed += self._compressor.compress(bytes(self._pending))
            self._pending.clear()

    def finish(self) -> bytes:
        """Everything as one xz stream; nothing may be added afterwards."""
        self._packed += self._compressor.compress(bytes(self._pending))
        return bytes(self._packed + self._compressor.flush())


def unxz(data: bytes, limit: int, items: int) -> object:
    """What ``xz`` of one CBOR item of at most ``limit`` bytes holds, in which are at most ``items``.

    Raises:
        ValueError: not xz, not CBOR of what JSON can say, or larger.
    """
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_UNPACKER)
        unpacked = unpacker.decompress(data, limit)
        if unpacker.eof:
            _check_items(unpacked, items)
            return cbor2.loads(unpacked)
    except (
        lzma.LZMAError, EOFError, LookupError, MemoryError, RecursionError, ValueError, cbor2.CBORError,
    ) as error:  # fmt: skip
        raise ValueError(f"{len(data)} bytes are not xz-compressed CBOR: {error}") from error
    raise ValueError(
        f"{len(data)} bytes are not xz-compressed CBOR: cut off, or more than {limit} bytes unpacked"
    )


def _check_items(data: bytes, most: int) -> None:
    """Go over the heads of all items, of which a byte makes a list, and a tag anything.

    Raises:
        ValueError: there are more, or tags, or lengths beyond the end.
        IndexError: it is cut short.
    """
    at = count = 0
    size = len(data)
    while at < size:
        major, kind = data[at] >> 5, data[at] & 31
        at += 1
        value = kind
        if kind >= _WIDE and kind != _OPEN:
            wide = 1 << (kind - _WIDE)
            value, at = int.from_bytes(data[at : at + wide], "big"), at + wide
        if major in {2, TEXT} and kind != _OPEN:
            at += value
        if major == _TAG or (major < _TAG and kind != _OPEN and major > 1 and value > size) or at > size:
            raise ValueError("it has tags, or lengths beyond its end")
        count += 1
        if count > most:
            raise ValueError(f"it holds more than {most:,} values")


KEY = ".zmetadata.cbor.xz"


class JsonPayload(bytes):
    """JSON with the same in CBOR, so that large tables need not be read again to be consolidated."""

    cbor: bytes

    def __new__(cls, json_: bytes, cbor: bytes) -> Self:
        """The payload of a metadata record, and its CBOR."""
        payload = super().__new__(cls, json_)
        payload.cbor = cbor
        return payload


class Consolidation:
    """The payload of ``.zmetadata.cbor.xz``, made as the metadata comes."""

    def __init__(self) -> None:
        head = cbor2.dumps("zarr_consolidated_format") + cbor2.dumps(1) + cbor2.dumps("metadata")
        self._stream = XzStream(cbor_head(MAP, 2), head, OPEN_MAP)

    def add(self, key: str, payload: bytes) -> None:
        """One metadata record: its key and its JSON."""
        name = key.encode()
        head = cbor_head(TEXT, len(name)) + name
        if isinstance(payload, JsonPayload):
            self._stream.add(head + payload.cbor)
        else:
            small = len(payload) <= _SMALL
            self._stream.add(head + (_cbor(payload) if small else cbor2.dumps(json.loads(payload))))

    def finish(self) -> bytes:
        """The payload; nothing may be added afterwards."""
        self._stream.add(BREAK)
        return self._stream.finish()


def consolidate(metadata: Iterable[tuple[str, bytes]]) -> bytes:
    """The payload of ``.zmetadata.cbor.xz`` for pairs of key and JSON."""
    consolidation = Consolidation()
    for key, payload in metadata:
        consolidation.add(key, payload)
    return consolidation.finish()


_SMALL = 1024


@lru_cache(maxsize=4096)
def _cbor(payload: bytes) -> bytes:
    """JSON as CBOR; the same few payloads come back with every frame."""
    return cbor2.dumps(json.loads(payload))


_FORMAT = "ncore 3"
_BATCH = "batch"


class FactJournal(Journal):
    """The journal of a new sequence.

    Raises:
        WriteError: another process is writing or recovering this sequence.
        OSError: there is a journal already, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _FORMAT, exclusive=True)
        self.begin()

    def record(self, kind: str, value: object) -> int:
        """Append one fact (poses, calibration, series, ...); it survives the process when this returns.

        Returns:
            The bytes written.

        Raises:
            WriteError: the disk is full or gone.
        """
        with disk_errors(self.path):
            return self.append(cbor2.dumps([kind, value]))

    def commit(self, group: str, batch: Batch) -> None:
        """Commit a batch that the store of a component group has appended.

        Raises:
            WriteError: the disk is full or gone.
        """
        self.record(_BATCH, [group, batch.place, batch.size, batch.crc])


def read_facts(path: Path, kinds: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Kind and value of every fact up to the first that is not whole; of some kinds, or of all.

    Raises:
        DatasetError: the file is not a journal of this version.
    """
    heads = tuple(cbor_head(ARRAY, 2) + cbor2.dumps(kind) for kind in kinds) or (b"",)
    for record in read_journal(path, _FORMAT):
        rest()
        if record.payload.startswith(heads):
            kind, value = cbor2.loads(record.payload)
            yield kind, value


def read_batches(path: Path) -> Iterator[tuple[str, Batch]]:
    """Component group and batch of everything committed in stores, in order.

    Raises:
        DatasetError: the file is not a journal of this version.
    """
    for _, (group, place, size, crc) in read_facts(path, [_BATCH]):
        yield group, Batch(place, size, crc)
