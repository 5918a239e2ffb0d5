"""Blosc as zarr 2 stores use it: the same input gives the same bytes, in any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt


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
