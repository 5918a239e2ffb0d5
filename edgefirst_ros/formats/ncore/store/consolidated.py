"""Consolidated metadata as NCore has it: every metadata record of a store in one xz of CBOR."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Self

import cbor2

from edgefirst_ros.formats.ncore.store.packed import BREAK, MAP, OPEN_MAP, TEXT, XzStream, cbor_head

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
