"""Compression: right, and the same bytes whatever the memory it runs in held before."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.model.zlib_backend import compress, crc32


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_zlib_agrees(data: bytes, start: int) -> None:
    assert zlib.decompress(compress(data)) == data
    assert zlib.decompress(compress(memoryview(data))) == data
    assert crc32(data, start) == zlib.crc32(data, start)


def test_isal_runs_at_the_level_whose_bytes_are_always_the_same() -> None:
    isal_zlib = pytest.importorskip("isal.isal_zlib")
    data = bytes(range(256)) * 20 + b"a line that comes twice " * 2
    levels = []
    for level in range(4):
        stream = isal_zlib.compressobj(level)
        levels.append(stream.compress(data) + stream.flush())
    assert compress(data) == levels[3]
    assert compress(data) not in levels[:3]
