"""Compression: right, and the same bytes whatever the memory it runs in held before."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.formats.edgefirst.deflate import compress, crc32

DIGEST = """
import hashlib, random
import numpy as np
from edgefirst_ros.formats.edgefirst.deflate import compress
rng, pick, digest = np.random.default_rng(0), random.Random(0), hashlib.sha256()
for number in range(300):
    size = pick.choice([pick.randint(1, 300), pick.randint(300, 40_000)])
    period = pick.randbytes(pick.randint(1, 40))
    for data in (
        rng.integers(0, pick.randint(1, 255), size).astype(np.uint8).tobytes(),
        (rng.random(size) < 0.02).astype(np.uint8).tobytes(),
        rng.normal(0, 300, size // 2 + 1).astype(">i2").tobytes(),
        period * (size // len(period) + 1),
    ):
        digest.update(compress(data))
print(digest.hexdigest())
"""


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_zlib_agrees(data: bytes, start: int) -> None:
    assert zlib.decompress(compress(data)) == data
    assert zlib.decompress(compress(memoryview(data))) == data
    assert crc32(data, start) == zlib.crc32(data, start)


def test_the_bytes_do_not_hang_on_what_the_memory_held() -> None:
    def digest(filling: int) -> str:
        # glibc fills what it allocates with this; elsewhere the runs are merely repetitions
        environment = os.environ | {"MALLOC_PERTURB_": str(filling)}
        command = [sys.executable, "-c", DIGEST]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert len({digest(filling) for filling in (0, 85, 210)}) == 1
