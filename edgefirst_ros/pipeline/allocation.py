"""How this process allocates memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress

KEPT_BYTES = 64 << 20
"""Freed memory that is kept at the end of each heap."""
LARGEST_BYTES = 32 << 20
"""Larger blocks are mapped, and given back as soon as they are freed; the largest value that glibc takes."""
ARENAS = 2
"""Heaps that threads share. By default glibc makes up to eight for each core, one for each new thread, and in
every one some pictures' memory stays: sessions with threads of their own took 5 MB more each."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""From glibc's malloc.h."""


def keep_freed_memory() -> None:
    """Have freed memory kept for the next allocation, of whichever thread.

    By default glibc gives back every picture's memory and takes it again for the next picture, page by page:
    a tenth of the CPU time of a conversion. Call it before there are threads: a heap that is there stays.
    Without glibc nothing is changed.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, LARGEST_BYTES)


def give_back_memory() -> None:
    """Give freed memory back to the system, also that between what is in use, which is never given back else.

    What completes a sequence takes much memory once; scattered over it then lies what lives long.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
