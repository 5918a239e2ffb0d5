"""Memory that is freed stays with the process."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from edgefirst_ros.pipeline.processes import ARENAS

COUNTED = """
import resource, sys
from edgefirst_ros.pipeline.processes import keep_freed_memory
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

THREADS = """
import re, sys, threading
from pathlib import Path
from edgefirst_ros.pipeline.processes import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
barrier = threading.Barrier(9)
def work():
    kept = [bytearray(100_000) for _ in range(20)]
    barrier.wait()
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
barrier.wait()
maps = Path("/proc/self/maps").read_text()
found = re.findall(r"^([0-9a-f]+)-[0-9a-f]+ ..-. 0+ 00:00 0 *$", maps, re.M)
# Each heap of a thread begins at a multiple of 64 MiB.
print(len([first for first in found if int(first, 16) % (64 << 20) == 0]))
barrier.wait()
"""


def taken(how: str) -> int:
    """Pages that the system had to hand out for 20 pictures, one after the other, each copied once."""
    return told(COUNTED, how)


def told(script: str, how: str) -> int:
    done = subprocess.run([sys.executable, "-c", script, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back like that")
def test_a_picture_takes_the_memory_of_the_one_before() -> None:
    assert taken("kept") < taken("given back") / 3


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives threads heaps of their own")
def test_threads_share_their_memory() -> None:
    """What one has freed is there for the next, however many there were."""
    assert told(THREADS, "kept") <= ARENAS < told(THREADS, "given back")
