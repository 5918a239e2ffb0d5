"""The door for bytes that others made: ordinary files of plausible size, and one kind of error."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from edgefirst_ros.errors import DecodeError, EdgeFirstError
from edgefirst_ros.naming import displayed, readable

LOGGER = logging.getLogger(__name__)
"""Gets the traceback of every error that becomes a refusal."""
MOST_REPORT_BYTES = 64 << 20
"""A larger report is of no run of this package."""
_MOST_VALUES = 3_000_000
"""Of JSON: half a gigabyte in memory at most, and more than a report of all messages of a day."""
_SMALL_BYTES, _MOST_HOLES = 64 << 20, 4
"""A file of more bytes than the first has at least one in so many on the disk; the rest are holes, which a
download that was broken off leaves, too."""
_MOST_PIECES = 10_000
_PIECE_BYTES = 1 << 18
"""A stream is asked for so many bytes at a time."""


class Readable(Protocol):
    """A file, or a decompressor: what gives bytes in order, and none at its end."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, or fewer."""


@contextmanager
def refusing(place: object, kind: type[EdgeFirstError], what: str = "cannot be read") -> Iterator[None]:
    """Turn whatever a library raises on foreign bytes into one error; errors that name their place pass.

    Only reading belongs into such a block: what a full disk says would be taken for the input's fault.

    Args:
        place: file, and where in it; a path may hold bytes that are no text.
        kind: of the error; its text has the place and what the library said, escaped and of sane length.
        what: is wrong, as the user is told.

    Raises:
        EdgeFirstError: of ``kind``, or one that was raised inside.
    """
    try:
        yield
    except BaseException as error:
        is_placed = isinstance(error, EdgeFirstError) and not isinstance(error, DecodeError)
        if is_placed or isinstance(error, kind) or not is_fault(error):
            raise
        LOGGER.debug("%s %s", place, what, exc_info=error)
        raise kind(f"{readable(str(place))}: {what}: {reason_of(error)}") from error


def is_fault(error: BaseException) -> bool:
    """Whether a library failed, not that somebody ends the process; a panic in Rust is no Exception."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def reason_of(error: BaseException) -> str:
    """What a library says, for a user's eyes: without the control characters of the input, of sane length."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "needs more memory than there is"
    if isinstance(error, OSError) and error.strerror:
        return displayed(error.strerror)
    said = str(error)
    # A KeyError says the key alone, and an assertion nothing at all.
    return displayed(
        f"{type(error).__name__} {said}".strip() if isinstance(error, LookupError) or not said else said
    )


def open_regular(path: Path, *, follow: bool = True, holes: bool = False) -> BinaryIO:
    """Open a file for reading; a FIFO or a device is not waited for.

    Args:
        path: the file.
        follow: a symbolic link in its place; the user may name one, what others made may not hold any.
        holes: it may be hardly more than these, as a recording after a power cut; it is not read at once.

    Raises:
        OSError: it is not there, or is not a regular file, or cannot be read, or hardly more than holes.
    """
    _check_kind(path.stat(follow_symlinks=follow).st_mode)  # opening a device may do something already
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        _check_kind(os.fstat(file.fileno()).st_mode)
        if not holes:
            _check_holes(file)
    except OSError:
        file.close()
        raise
    return file


def stored_bytes(file: BinaryIO) -> int:
    """Bytes of a file that are no holes; all of them where the file system does not tell."""
    size, at, stored = os.fstat(file.fileno()).st_size, 0, 0
    here = os.lseek(file.fileno(), 0, os.SEEK_CUR)
    try:
        for _ in range(_MOST_PIECES):
            begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            stored += at - begin
        stored += size - at
    except OSError as error:
        if error.errno != errno.ENXIO:  # there are no further data
            stored = size
    os.lseek(file.fileno(), here, os.SEEK_SET)
    return stored


def read_regular(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """All bytes of such a file.

    Raises:
        OSError: the same, or it has more than ``most_bytes``.
    """
    found = path.stat(follow_symlinks=follow)
    _check_kind(found.st_mode)
    data = b""
    if found.st_size <= most_bytes:
        with open_regular(path, follow=follow) as file:
            size = min(os.fstat(file.fileno()).st_size, most_bytes)
            data = file.read(size + 1)
            if len(data) > size:  # it grows, or is one of the system's own, which say that they are empty
                data += read_at_most(file, most_bytes + 1 - len(data))
    if max(found.st_size, len(data)) > most_bytes:
        raise OSError(errno.EFBIG, f"has more than {most_bytes:,} bytes")
    return data


def read_at_most(file: Readable, most_bytes: int) -> bytes:
    """What a stream holds, but not more than ``most_bytes``.

    ``read`` takes memory for all that it is asked for before it looks how much there is, so it is asked for
    a piece at a time.
    """
    pieces: list[bytes] = []
    while most_bytes > 0 and (piece := file.read(min(most_bytes, _PIECE_BYTES))):
        pieces.append(piece)
        most_bytes -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def parse_json(data: bytes) -> Any:  # noqa: ANN401 - JSON
    """What JSON says.

    Raises:
        ValueError: it is none, is nested too deeply, or holds more values than anything that is read here.
    """
    # In memory an empty list takes thirty times its text.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MOST_VALUES:
        raise ValueError(f"holds more than {_MOST_VALUES:,} values")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_object(
    path: Path, most_bytes: int, kind: type[EdgeFirstError], *, follow: bool = True
) -> dict[str, Any]:
    """The JSON object in such a file.

    Raises:
        FileNotFoundError: it is not there.
        EdgeFirstError: of ``kind``: it is anything else.
    """
    with refusing(path, kind):
        try:
            data = read_regular(path, most_bytes, follow=follow)
        except FileNotFoundError as error:
            missing = error
        else:
            found = parse_json(data)
            if isinstance(found, dict):
                return found
            raise kind(f"{readable(str(path))}: expected a JSON object, found a {type(found).__name__}")
    raise missing


def _check_holes(file: BinaryIO) -> None:
    size = os.fstat(file.fileno()).st_size
    if size > _SMALL_BYTES and (stored := stored_bytes(file)) < size // _MOST_HOLES:
        few = f"of its {size:,} bytes only {stored:,} are on the disk"
        raise OSError(errno.EINVAL, f"{few}: was it copied completely?")


def _check_kind(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a symbolic link"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file")
