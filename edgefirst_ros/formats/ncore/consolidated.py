"""Consolidated metadata as NCore has it: every metadata record of a store in one xz of CBOR."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache

import cbor2

from edgefirst_ros.formats.ncore.packed import MAP, cbor_head, xz

KEY = ".zmetadata.cbor.xz"


def consolidate(count: int, metadata: Iterable[tuple[str, bytes]]) -> bytes:
    """The payload of ``.zmetadata.cbor.xz`` for ``count`` pairs of key and JSON."""
    return xz(_pieces(count, metadata))


def _pieces(count: int, metadata: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    yield cbor_head(MAP, 2)
    yield cbor2.dumps("zarr_consolidated_format") + cbor2.dumps(1) + cbor2.dumps("metadata")
    yield cbor_head(MAP, count)
    for key, payload in metadata:
        yield cbor2.dumps(key)
        yield _cbor(payload) if len(payload) <= _SMALL else cbor2.dumps(json.loads(payload))


_SMALL = 1024


@lru_cache(maxsize=4096)
def _cbor(payload: bytes) -> bytes:
    """JSON as CBOR; the same few payloads come back with every frame."""
    return cbor2.dumps(json.loads(payload))
