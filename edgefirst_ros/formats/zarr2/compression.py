"""Blosc as zarr 2 stores use it: the same input gives the same bytes, in any thread."""

from __future__ import annotations

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


def decode(config: dict[str, object] | None, data: bytes) -> npt.NDArray[np.uint8]:
    """Chunk bytes behind the compressor of ``config``, None for none.

    Raises:
        ValueError: an unknown compressor, or damaged data.
    """
    if config is None:
        return np.frombuffer(data, np.uint8)
    try:
        return np.frombuffer(_numcodecs().get_codec(dict(config)).decode(data), np.uint8)
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(f"chunk of {len(data)} bytes does not decode with {config}: {error}") from error


@cache
def _numcodecs() -> Any:  # noqa: ANN401  numcodecs has no types
    # Imported late: options of formats name arrays, and reading options shall be quick.
    import numcodecs  # type: ignore[import-untyped]  # noqa: PLC0415
    import numcodecs.blosc  # type: ignore[import-untyped]  # noqa: PLC0415

    # With its own threads Blosc places blocks in the order in which they finish and takes a lock that is
    # shared by the whole process; callers here have threads of their own.
    numcodecs.blosc.use_threads = False
    return numcodecs
