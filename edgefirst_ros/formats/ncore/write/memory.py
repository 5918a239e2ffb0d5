"""Keeps the C library from giving memory back to the kernel after every frame."""

from __future__ import annotations

import numpy as np

_LARGEST = 30 << 20
"""Just below the most that glibc's threshold goes to (DEFAULT_MMAP_THRESHOLD_MAX, 32 MiB)."""


def keep_freed_memory() -> None:
    """Let freed arrays of up to 30 MB be used again instead of being unmapped.

    A frame needs a few megabytes for moments. glibc returns them to the kernel and takes them back, page by
    page, with the next frame, which costs a third of the writing time. It stops doing so for sizes of which
    a block was freed before (mallopt(3), M_MMAP_THRESHOLD, "dynamic"), so one large block, never touched, is
    freed here. Without glibc nothing happens.
    """
    np.empty(_LARGEST, np.uint8)
