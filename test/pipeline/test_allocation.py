"""Memory that is freed stays with the process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

COUNTED = """
import resource, sys
from edgefirst_ros.pipeline.allocation import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def fault_pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(2):
    bytes(bytearray(40 << 20)), bytes(bytearray(20 << 20))
before = fault_pages()
for _ in range(20):
    picture = bytes(8 << 20)
    other = bytearray(picture)
    del picture, other
print(fault_pages() - before)
"""


def taken(how: str) -> int:
    """Pages that the system had to hand out for 20 pictures, one after the other, each copied once."""
    done = subprocess.run([sys.executable, "-c", COUNTED, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back like that")
def test_a_picture_takes_the_memory_of_the_one_before() -> None:
    assert taken("kept") < taken("given back") / 3
