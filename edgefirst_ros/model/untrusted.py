"""The door for bytes that others made: ordinary files of plausible size, and one kind of error.

Names from recordings and users as valid file names, and texts that are safe to print.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from zlib import crc32

from edgefirst_ros.model.errors import DecodeError, EdgeFirstError

REPORT = "capture_report.json"
"""The report beside every dataset."""
PAGE = "capture_report.html"
"""The same as a page to look at."""
MAX_NAME_BYTES = 180
"""File systems allow 255: this leaves room for frame number and extension."""


def page_path(report: Path) -> Path:
    """The page beside a report."""
    return report.with_name(report.name.removesuffix(REPORT) + PAGE)


@lru_cache(maxsize=1024)
def safe_name(text: str, default: str = "unnamed") -> str:
    """The name of a host, sequence or dataset as a valid file name.

    Letters, digits, ``_``, ``-`` and ``.`` stay; any run of other characters becomes one ``-``. Leading and
    trailing ``.``, ``-`` and ``_`` are removed; an empty result becomes ``default``.
    """
    name = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", text))
    name = name.encode("utf-8", "ignore")[:MAX_NAME_BYTES].decode("utf-8", "ignore")
    return name.strip("._-") or default


def renaming(what: str, name: str) -> list[str]:
    """A note for the user if ``safe_name`` changes a name; an empty list if not, or if there is no name."""
    safe = safe_name(name)
    if name in {"", safe}:
        return []
    return [f"the {what} {visible(readable(name))} cannot be used in file names: it is written as {safe}"]


def readable(name: str) -> str:
    """The name of a file as printable text: bytes that are not UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Co"})
"""Unicode's categories of what is escaped: controls, formats (directions, joiners), separators of lines and
paragraphs, surrogates and private characters. Those that are not assigned stay: which ones these are differs
from one version of Python to the next, and names go into datasets."""
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""What shows nothing either: letters, marks and unassigned (Unicode: Default_Ignorable_Code_Point)."""


def visible(text: str, keep: str = "") -> str:
    r"""Text that is safe to show anywhere: characters that steer a terminal or show nothing are escaped.

    They become ``\x1b``, ``\u200b`` or ``\U000e0041``. Characters in ``keep`` stay.
    """
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return "".join(each if each in keep or _is_seen(each) else ascii(each)[1:-1] for each in text)


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in _HIDDEN and not _BLANK.match(character)


MAX_DISPLAYED = 160
"""Longest name in characters that is shown whole; no ROS topic may be longer than 256."""


@lru_cache(maxsize=1024)
def displayed(name: str) -> str:
    """A topic, type or frame as it is called everywhere: without control characters, and of sane length.

    A name that is too long ends in ``…`` and a checksum that tells it from others.
    """
    shown = visible(name)
    if len(shown) <= MAX_DISPLAYED:
        return shown
    return f"{shown[:MAX_DISPLAYED]}…{crc32(name.encode('utf-8', 'surrogatepass')):08x}"


def sequence_name(host: str, start_ns: int) -> str:
    """``hostname_date_time`` in UTC, as the device names its recordings."""
    when = datetime.fromtimestamp(start_ns // 1_000_000_000, UTC)
    return f"{safe_name(host, 'host')}_{when:%Y_%m_%d_%H_%M_%S}"


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


def refuse_rows(metadata: Any, stored: int) -> None:  # noqa: ANN401 - pyarrow has no types
    """Refuse a Parquet file, by its metadata, that is more than its bytes can mean: equal rows take none.

    Raises:
        ValueError: it has more rows than half a million and one for four bytes, or unpacks to too much.
    """
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    if metadata.num_rows > 500_000 + stored // 4 or size > max(_SMALL_BYTES, 16 * stored):
        raise ValueError(f"{metadata.num_rows:,} rows in {stored:,} bytes")


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


class PositionedFile(RawIOBase):
    """What files share whose bytes come by offset: where the next one is.

    Args:
        size: in bytes.

    Attributes:
        position: offset of the next byte.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.position, self._size = 0, size

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self.position

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Go to another offset."""
        self.position = offset + {SEEK_SET: 0, SEEK_CUR: self.position, SEEK_END: self._size}[whence]
        return self.position
