"""The manifest of a dataset: name, size and CRC-32 of each of its files, noted while they were written.

Text, a line for each file between a head and an end that vouches for both::

    edgefirst_ros manifest 1 FORMAT
    CRC SIZE NAME
    end COUNT CRC

A CRC is eight hexadecimal digits; the last is that of all bytes before its line. Names are relative to the
dataset, with ``/``; their order is the format's. Nothing depends on the dataset's own name or place.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from edgefirst_ros.formats.crashsafe.names import remove
from edgefirst_ros.formats.crashsafe.sync import sync_file
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import displayed, open_regular, readable, refusing
from edgefirst_ros.model.zlib_backend import crc32

_LINE = re.compile(rb"([0-9a-f]{8}) (0|[1-9][0-9]{0,18}) ([^\x00-\x1f\x7f\\]+)\n")
_END = re.compile(rb"end (0|[1-9][0-9]{0,18}) ([0-9a-f]{8})\n")
_LONGEST_LINE = 1024
"""Bytes; a name has a folder and a file of at most 255 bytes each."""
_LONGEST_END = 64
_MOST_BYTES = 4 << 30
"""Two days of six sensors have so many; more is not read."""
_MOST_MISSING = 100_000
"""So many files that are not there are counted; a manifest of a sound dataset lacks none."""
_NAMED = 5
_BLOCK = 1 << 20


NO_MANIFEST = (
    "has no manifest, as datasets of others and of earlier versions: files that were lost, added or changed "
    "since they were written may go unnoticed"
)
"""What a check notes of them."""


class Entry(NamedTuple):
    """A file of a dataset: its name, size in bytes and CRC-32."""

    name: str
    size: int
    crc: int


def write_manifest(path: Path, made_by: str, entries: Iterable[Entry], *, sync: bool = True) -> None:
    """Write a manifest, in place of what is there; streamed.

    Args:
        path: the file.
        made_by: name of the format.
        entries: all files, each once.
        sync: wait until the disk holds its bytes; the caller syncs the folder.

    Raises:
        OSError: the disk is full or gone.
    """
    remove(path)  # a link to elsewhere is not written through
    with path.open("xb") as file:
        head = _head(made_by)
        file.write(head)
        count, crc = 0, crc32(head)
        for entry in entries:
            line = f"{entry.crc:08x} {entry.size} {entry.name}\n".encode()
            file.write(line)
            count, crc = count + 1, crc32(line, crc)
        file.write(f"end {count} {crc:08x}\n".encode())
        if sync:
            file.flush()
            sync_file(file.fileno())


def listed(path: Path, made_by: str) -> Iterator[Entry]:
    """The files that a manifest lists; see ``Comparison`` for its arguments.

    Raises:
        DatasetError: it is no manifest of that format, or not as it was written.
    """
    return _read(path, made_by)


def version_of(path: Path) -> str:
    """What tells a dataset from any other in its place: how its manifest ends.

    Raises:
        OSError: there is none.
    """
    with open_regular(path, follow=False) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LONGEST_END))
        end = file.read().rpartition(b"\nend ")[2]
    return displayed(end.decode(errors="replace").strip())


def measured(path: Path) -> tuple[int, int]:
    """Size and CRC-32 of a file.

    Raises:
        OSError: it is not there, is no ordinary file or a link, or cannot be read.
    """
    size = crc = 0
    with open_regular(path, follow=False) as file:
        while block := file.read(_BLOCK):
            size, crc = size + len(block), crc32(block, crc)
    return size, crc


class Comparison:
    """Holds the files of a dataset against its manifest, in one pass over both.

    Memory does not grow where both have the same order; else by what one has and the other has not come to.
    A manifest that is not as it was written is a fault itself, and the only one.

    Args:
        path: the manifest.
        made_by: the format that it must be of.
    """

    def __init__(self, path: Path, made_by: str) -> None:
        self._path = path
        self._entries = _read(path, made_by)
        self._damage = ""
        self._here: dict[str, _Found] = {}
        self._listed: dict[str, Entry] = {}
        self._counts: Counter[str] = Counter()
        self._first: dict[str, list[str]] = {}
        self._ahead = self._next()

    def add(self, name: str, size: int, crc: int | Path | None) -> None:
        """A file that is there, once.

        Args:
            name: as in the manifest.
            size: in bytes.
            crc: its CRC-32, or where to read the file if its size is right; None if it cannot be read.
        """
        entry = self._ahead
        if entry is not None:
            self._ahead = self._next()
            if entry.name in self._here:
                self._compare(entry, self._here.pop(entry.name))
            else:
                self._listed[entry.name] = entry
        if (listed := self._listed.pop(name, None)) is not None:
            self._compare(listed, (size, crc))
        else:
            self._here[name] = (size, crc)

    def faults(self) -> Iterator[str]:
        """What differs, a sentence for each kind, with what to do; call it once, behind the last file."""
        for name in self._listed:
            self._note(_MISSING, name)
        while self._ahead is not None and self._counts[_MISSING] <= _MOST_MISSING:
            if self._ahead.name in self._here:
                self._compare(self._ahead, self._here.pop(self._ahead.name))
            else:
                self._note(_MISSING, self._ahead.name)
            self._ahead = self._next()
        self._entries.close()
        for name in self._here:
            self._note("there and not in it", name)
        advice = (
            "restore the dataset from a copy; if the change was meant, delete "
            f"{self._path.name}, and nothing vouches for the files any more"
        )
        if self._damage:
            yield f"{self._damage}; {advice}"
            return
        for what, count in sorted(self._counts.items()):
            files = "1 file is" if count == 1 else f"{count:,} files are"
            files = f"at least {files}" if count > _MOST_MISSING else files
            more = ", …" if count > _NAMED else ""
            yield f"{files} {what}: {', '.join(self._first[what])}{more}; {advice}"

    def _next(self) -> Entry | None:
        try:
            return next(self._entries, None)
        except DatasetError as error:
            self._damage = str(error).removeprefix(f"{readable(self._path.name)}: ")
            return None

    def _compare(self, listed: Entry, found: _Found) -> None:
        size, crc = found
        if isinstance(crc, Path) and size == listed.size:
            try:
                size, crc = measured(crc)
            except OSError:
                crc = None
        if crc is None:
            self._note("not readable", listed.name)
        elif size != listed.size:
            self._note("of another size than it says", listed.name)
        elif crc != listed.crc:
            self._note("of another CRC-32 than it says", listed.name)

    def _note(self, what: str, name: str) -> None:
        self._counts[what] += 1
        if self._counts[what] <= _NAMED:
            self._first.setdefault(what, []).append(displayed(readable(name)))


_Found = tuple[int, int | Path | None]
"""Size and CRC-32 of a file that is there, as ``Comparison.add`` takes them."""
_MISSING = "missing that it lists"


def _head(made_by: str) -> bytes:
    return f"edgefirst_ros manifest 1 {made_by}\n".encode()


def _read(path: Path, made_by: str) -> Generator[Entry]:
    """The entries; the manifest's own CRC-32 is looked at before the first.

    Raises:
        DatasetError: it is no manifest of that format, or not as it was written.
    """
    with refusing(path.name, DatasetError), open_regular(path, follow=False) as file:
        count = _vouched(file, _head(made_by))
        for number in range(count):
            found = _LINE.fullmatch(file.readline(_LONGEST_LINE))
            if found is None or not {"", ".", ".."}.isdisjoint((name := found[3].decode()).split("/")):
                raise DatasetError(f"names no file of a dataset in line {number + 2}")
            yield Entry(name, int(found[2]), int(found[1], 16))
        if not _END.fullmatch(file.readline(_LONGEST_END)):
            raise DatasetError(f"lists more than the {count:,} files that its end says")


def _vouched(file: BinaryIO, head: bytes) -> int:
    """Number of entries of a manifest whose CRC-32 is right; the file is then behind its head."""
    size = os.fstat(file.fileno()).st_size
    if size > _MOST_BYTES:
        raise DatasetError(f"has {size:,} bytes, more than any")
    file.seek(max(0, size - _LONGEST_END))
    lines = file.read().splitlines(keepends=True)
    end = _END.fullmatch(lines[-1]) if lines else None
    if end is None:
        raise DatasetError("has no end: it was cut short, or is none")
    file.seek(0)
    found = file.read(len(head))
    if found != head:
        raise DatasetError(f"begins with {displayed(repr(found))}, expected {head!r}")
    crc, left = crc32(found), size - len(head) - len(end[0])
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        crc, left = crc32(block, crc), left - len(block)
    if left or crc != int(end[2], 16):
        raise DatasetError("was changed: its own CRC-32 is wrong")
    file.seek(len(head))
    return int(end[1])
