"""CRC-32 and zlib streams, by isal if it is installed, else by the standard library.

The two compress the same content to different bytes, and so does isal on x86-64 and aarch64, at every level:
datasets are byte-identical only between machines of one architecture that both have isal or both lack it.
Level 1 of the standard library is the same on both, for 2 to 4 % of a conversion's CPU and 4 % more bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

crc32: Callable[..., int] = zlib.crc32
"""CRC-32 of bytes, as in ZIP and PNG; a second argument is the CRC-32 of the bytes before them."""
_compressobj: Callable[[], Any] = partial(zlib.compressobj, 1)
try:
    from isal import isal_zlib
except ImportError:
    pass
else:
    crc32 = isal_zlib.crc32
    # On x86 isal's levels 1 and 2 hash the address of a struct where the third byte's hash is due (ISA-L
    # igzip_icf_body_h1_gr_bt.asm, .write_first_byte): once in a few thousand streams the same data compresses
    # to other bytes. Level 3 has a body of its own, is as fast on radar cubes, and packs better.
    _compressobj = partial(isal_zlib.compressobj, 3)


def crc32_of(pieces: Iterable[bytes]) -> int:
    """CRC-32 of all pieces together."""
    crc = 0
    for piece in pieces:
        crc = crc32(piece, crc)
    return crc


def compress(data: bytes | memoryview) -> bytes:
    """Compress data to a zlib stream; releases the GIL."""
    stream = _compressobj()
    return bytes(stream.compress(data)) + bytes(stream.flush())
