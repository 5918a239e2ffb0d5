"""Files that others made or name, opened so that nothing but a file of plausible size is read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_REPORT_BYTES = 64 << 20
"""A larger report is of no run of this package."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, through symbolic links; a FIFO or a device is not waited for.

    Raises:
        OSError: it is not there, or is not a regular file, or cannot be read.
    """
    _check_kind(path.stat().st_mode)  # opening a device may do something already
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    try:
        _check_kind(os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def read_regular(path: Path, most_bytes: int) -> bytes:
    """All bytes of such a file.

    Raises:
        OSError: the same, or it has more than ``most_bytes``.
    """
    with open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"has more than {most_bytes:,} bytes")
    return data


def _check_kind(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file")
