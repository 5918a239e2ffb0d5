"""Compression: right, and the same bytes whatever the memory it runs in held before."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.model.zlib_backend import compress, crc32

DIGEST = """
import hashlib, random
from edgefirst_ros.model.zlib_backend import compress
pick, digest = random.Random(0), hashlib.sha256()
for number in range(2000):
    size = pick.choice([pick.randint(1, 300), pick.randint(300, 5000)])
    text = pick.randbytes(size)
    starts = (pick.randrange(size) for _ in range(size // 30 + 1))
    digest.update(compress(b"".join(text[start : start + pick.randint(1, 60)] for start in starts)))
print(digest.hexdigest())
"""


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_zlib_agrees(data: bytes, start: int) -> None:
    assert zlib.decompress(compress(data)) == data
    assert zlib.decompress(compress(memoryview(data))) == data
    assert crc32(data, start) == zlib.crc32(data, start)


def test_the_bytes_do_not_hang_on_addresses_and_old_memory() -> None:
    def digest(filling: int) -> str:
        # each process has other addresses, and glibc fills what it allocates with this
        environment = os.environ | {"MALLOC_PERTURB_": str(filling)}
        command = [sys.executable, "-c", DIGEST]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert len({digest(filling) for filling in (0, 90, 255)}) == 1


def test_isal_runs_at_the_level_whose_bytes_are_always_the_same() -> None:
    isal_zlib = pytest.importorskip("isal.isal_zlib")
    data = bytes(range(256)) * 20 + b"a line that comes twice " * 2
    levels = []
    for level in range(4):
        stream = isal_zlib.compressobj(level)
        levels.append(stream.compress(data) + stream.flush())
    assert compress(data) == levels[3]
    assert compress(data) not in levels[:3]
