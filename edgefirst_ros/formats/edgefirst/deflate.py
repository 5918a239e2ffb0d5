"""CRC-32 and zlib streams: isal where it is installed, the standard library elsewhere.

Both give valid streams of the same content, but not the same bytes: datasets are byte-identical between
machines that both have isal, or both lack it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

_crc32: Callable[..., int] = zlib.crc32
_compress: Callable[..., Any] = zlib.compress
try:
    from isal import isal_zlib
except ImportError:
    pass
else:
    _crc32, _compress = isal_zlib.crc32, isal_zlib.compress

LEVEL = 1
"""Radar cubes are noise: higher levels cost several times more and gain a few percent."""


def crc32(data: bytes | memoryview, value: int = 0) -> int:
    """CRC-32 as ZIP and PNG use it, going on from ``value``."""
    return _crc32(data, value)


def compress(data: bytes | memoryview) -> bytes:
    """A zlib stream; releases the GIL."""
    return bytes(_compress(data, LEVEL))
