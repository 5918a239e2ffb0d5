"""System calls that change a file system: their numbers, and where their arguments say what they change."""

from __future__ import annotations

import errno
import os
import platform
from dataclasses import dataclass
from enum import Enum, auto


class Target(Enum):
    """What a call's arguments say about what it changes."""

    OPEN = auto()
    """A path, and flags that say whether the call changes anything."""
    PATH = auto()
    DESCRIPTOR = auto()


class Buffers(Enum):
    """Where the bytes are that a call writes."""

    NONE = auto()
    PLAIN = auto()
    VECTOR = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """Which arguments of a call mean what.

    Attributes:
        target: kind of the thing that it changes.
        at: the argument that is a path or descriptor; the last one, where there are two paths.
        directory: the argument that is the folder of a relative path; None: the current one.
        flags: the argument with the flags of an open.
        buffers: what the argument behind the descriptor is.
        offset: the argument that is the position; None: the file's own.
        errors: what a device can answer.
    """

    target: Target
    at: int = 0
    directory: int | None = None
    flags: int | None = None
    buffers: Buffers = Buffers.NONE
    offset: int | None = None
    errors: tuple[int, ...] = (errno.ENOSPC, errno.EIO)


_IO = (errno.EIO,)
_OPEN, _PATH, _DESCRIPTOR = Target.OPEN, Target.PATH, Target.DESCRIPTOR
CREATING = os.O_CREAT | os.O_TRUNC | (getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY)
"""Flags of an open that changes something."""

RULES: dict[str, Rule] = {
    "open": Rule(_OPEN, 0, flags=1),
    "creat": Rule(_PATH, 0),
    "openat": Rule(_OPEN, 1, directory=0, flags=2),
    "write": Rule(_DESCRIPTOR, buffers=Buffers.PLAIN),
    "pwrite64": Rule(_DESCRIPTOR, buffers=Buffers.PLAIN, offset=3),
    "writev": Rule(_DESCRIPTOR, buffers=Buffers.VECTOR),
    "pwritev": Rule(_DESCRIPTOR, buffers=Buffers.VECTOR, offset=3),
    "pwritev2": Rule(_DESCRIPTOR, buffers=Buffers.VECTOR, offset=3),
    "sendfile": Rule(_DESCRIPTOR),
    "copy_file_range": Rule(_DESCRIPTOR, 2),
    "fallocate": Rule(_DESCRIPTOR),
    "truncate": Rule(_PATH, 0, errors=_IO),
    "ftruncate": Rule(_DESCRIPTOR, errors=_IO),
    "fsync": Rule(_DESCRIPTOR),
    "fdatasync": Rule(_DESCRIPTOR),
    "sync_file_range": Rule(_DESCRIPTOR),
    "syncfs": Rule(_DESCRIPTOR),
    "rename": Rule(_PATH, 1),
    "renameat": Rule(_PATH, 3, directory=2),
    "renameat2": Rule(_PATH, 3, directory=2),
    "link": Rule(_PATH, 1),
    "linkat": Rule(_PATH, 3, directory=2),
    "symlink": Rule(_PATH, 1),
    "symlinkat": Rule(_PATH, 2, directory=1),
    "unlink": Rule(_PATH, 0, errors=_IO),
    "unlinkat": Rule(_PATH, 1, directory=0, errors=_IO),
    "mkdir": Rule(_PATH, 0),
    "mkdirat": Rule(_PATH, 1, directory=0),
    "rmdir": Rule(_PATH, 0, errors=_IO),
}

_X86_64 = {
    "write": 1, "open": 2, "pwrite64": 18, "writev": 20, "sendfile": 40, "fsync": 74, "fdatasync": 75,
    "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86,
    "unlink": 87, "symlink": 88, "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264,
    "linkat": 265, "symlinkat": 266, "sync_file_range": 277, "fallocate": 285, "pwritev": 296, "syncfs": 306,
    "renameat2": 316, "copy_file_range": 326, "pwritev2": 328,
}  # fmt: skip
_AARCH64 = {
    "mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "truncate": 45,
    "ftruncate": 46, "fallocate": 47, "openat": 56, "write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70,
    "sendfile": 71, "fsync": 82, "fdatasync": 83, "sync_file_range": 84, "syncfs": 267, "renameat2": 276,
    "copy_file_range": 285, "pwritev2": 287,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Machine:
    """An architecture: its number in the kernel's audit, and those of seccomp(2) and of the calls by name."""

    audit: int
    seccomp: int
    numbers: dict[str, int]


_MACHINES = {
    "x86_64": Machine(0xC000003E, 317, _X86_64),
    "aarch64": Machine(0xC00000B7, 277, _AARCH64),
}


def this_machine() -> Machine | None:
    """Numbers of this machine's architecture; None if they are not listed here."""
    return _MACHINES.get(platform.machine()) if platform.system() == "Linux" else None
