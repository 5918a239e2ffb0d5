"""Containers to which sensor files are appended: a ZIP without compression, or a plain folder.

Source: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5.

Paths of a dataset's files, finished and unfinished.
"""

from __future__ import annotations

import os
import re
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from edgefirst_ros.formats.crashsafe.names import old_path, part_path, refuse_links, remove
from edgefirst_ros.formats.crashsafe.sync import AppendFile, Unsynced, sync_paths, tree
from edgefirst_ros.formats.edgefirst.options import Container
from edgefirst_ros.model.untrusted import open_regular
from edgefirst_ros.model.zlib_backend import crc32

LOCAL = struct.Struct("<4sHHHHHIIIHH")
CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
END = struct.Struct("<4sHHHHIIH")
END64 = struct.Struct("<4sQHHIIQQQQ")
EXTRA64 = struct.Struct("<HHQQ")
LOCATOR = struct.Struct("<4sIQI")
LOCAL_SIGNATURE = b"PK\x03\x04"

LIMIT_SIZE = 0xFFFFFFFF
"""Sizes and offsets of this value or more go into ZIP64 fields."""
LIMIT_COUNT = 0xFFFF
"""Numbers of entries of this value or more go into the ZIP64 end record."""

UNIX = 3 << 8
VERSION, VERSION_ZIP64 = 20, 45
UTF8_NAME = 1 << 11
ZIP64_EXTRA = 0x0001
REGULAR_0644 = 0o100644 << 16

BLOCK = 1 << 20


def sample_name(sequence: str, frame: int) -> str:
    """``{sequence}_{frame}``, the frame number with at least three digits (six break the vendor's client)."""
    return f"{sequence}_{frame:03d}"


def file_path(sequence: str, frame: int, kind: str) -> str:
    """Path of a sensor file inside the container; ``kind`` is ``sensor.ext``."""
    return f"{sequence}/{sample_name(sequence, frame)}.{kind}"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A sensor file in the container: relative POSIX path, size in bytes, CRC-32."""

    path: str
    size: int
    crc: int


class Archive(Protocol):
    """An unfinished container; its memory does not grow with the number of files.

    Files are added to a new one. In one that a crash left, call ``keep`` for all files that shall stay, then
    ``cut``. Both end with ``finish`` or ``abort``.
    """

    def add(self, record: FileRecord, data: bytes, time_ns: int) -> None:
        """Append a file with the modification time ``time_ns`` (nanoseconds since 1970 UTC).

        Raises:
            OSError: the file system reports an error; earlier files are intact.
        """

    def keep(self, records: Sequence[FileRecord]) -> bool:
        """Keep the next files, if they are these and complete; returns whether they are."""

    def cut(self) -> int:
        """Remove everything that was not kept; returns the number of bytes removed."""

    def unsynced(self) -> list[Path]:
        """What has changed since the last call, on a disk that holds none of it by itself; any thread."""

    @property
    def finish_bytes(self) -> int:
        """How many bytes ``finish`` appends, about."""

    def finish(self) -> None:
        """Complete the container, synced, and close it."""

    def abort(self) -> None:
        """Close it unfinished."""


class ZipArchive:
    """A ZIP of uncompressed entries with complete local headers, ZIP64 where needed.

    Each entry can be recovered from its local header. The central directory grows in an unlinked temporary
    file beside the archive, which keeps memory constant.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        if not resume:
            path.unlink(missing_ok=True)
        self._file = AppendFile(path)
        self._directory = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 - lives as long as the archive
        self._directory_size = 0
        self._count = 0
        self._offset = 0
        self._whole = self._scan()

    def add(self, record: FileRecord, data: bytes, time_ns: int) -> None:
        """Append a file; see Archive."""
        entry = ZipEntry(record.path, record.size, record.crc, self._offset, dos_time(time_ns))
        self._file.append(local_header(entry), data)
        self._adopt(entry)

    def keep(self, records: Sequence[FileRecord]) -> bool:
        """Keep the next entries, if they are these and complete; see Archive."""
        entries = []
        for record in records:
            entry = next(self._whole, None)
            if entry is None or FileRecord(entry.path, entry.size, entry.crc) != record:
                return False
            entries.append(entry)
        for entry in entries:
            self._adopt(entry)
        return True

    def cut(self) -> int:
        """Remove everything behind the last entry kept; see Archive."""
        return self._file.truncate(self._offset)

    def unsynced(self) -> list[Path]:
        """The file; see Archive."""
        return [self._file.path]

    @property
    def finish_bytes(self) -> int:
        """The central directory; see Archive."""
        return self._directory_size

    def finish(self) -> None:
        """Append the central directory and close; see Archive."""
        size = self._directory.seek(0, os.SEEK_END)
        self._directory.seek(0)
        while block := self._directory.read(BLOCK):
            self._file.append(block)
        self._file.append(end_records(self._count, size, self._offset))
        self._file.sync()
        self.abort()

    def abort(self) -> None:
        """Close it unfinished; see Archive."""
        self._file.close()
        with suppress(OSError):  # what it still buffers is of no use, as it is unlinked
            self._directory.close()

    def _adopt(self, entry: ZipEntry) -> None:
        self._directory_size += self._directory.write(central_header(entry))
        self._count += 1
        self._offset = entry.offset + len(local_header(entry)) + entry.size

    def _scan(self) -> Iterator[ZipEntry]:
        """Entries by their local headers, up to the first incomplete one."""
        offset = 0
        while True:
            fixed = self._file.read(LOCAL.size, offset)
            if len(fixed) < LOCAL.size or (length := variable_length(fixed)) < 0:
                return
            try:
                entry = parse_local_header(fixed, self._file.read(length, offset + LOCAL.size), offset)
            except ValueError:
                return
            offset += LOCAL.size + length
            if not _is_whole(self._file.descriptor, offset, entry.size, entry.crc):
                return
            yield entry
            offset += entry.size


class FolderArchive:
    """A folder of plain files, whose modification time is that of their frame."""

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self._root = path
        self._kept: dict[str, int] = {}
        self._unsynced = Unsynced(path)
        path.mkdir(exist_ok=resume)

    def add(self, record: FileRecord, data: bytes, time_ns: int) -> None:
        """Write a file; see Archive."""
        path = self._root / record.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(time_ns, time_ns))
        self._unsynced.add(path, path.parent, self._root)

    def keep(self, records: Sequence[FileRecord]) -> bool:
        """Keep these files, if they are complete; see Archive."""
        for record in records:
            try:
                path = self._root / record.path
                refuse_links(self._root, path)
                with open_regular(path) as file:
                    if os.fstat(file.fileno()).st_size != record.size:
                        return False
                    if not _is_whole(file.fileno(), 0, record.size, record.crc):
                        return False
            except (OSError, ValueError):  # it is not there, or is no path at all
                return False
        for record in records:
            sequence, frame = _sequence_and_frame(record.path)
            self._kept[sequence] = frame
        return True

    def cut(self) -> int:
        """Remove the files of frames after the last kept of each sequence; see Archive."""
        dropped = 0
        for folder in self._root.iterdir():
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink()
                continue
            for path in folder.iterdir():
                sequence, frame = _sequence_and_frame(f"{folder.name}/{path.name}")
                if frame > self._kept.get(sequence, -1):
                    dropped += path.lstat().st_size
                    remove(path)
            if folder.name not in self._kept:
                folder.rmdir()
        return dropped

    def unsynced(self) -> list[Path]:
        """Files and folders; see Archive."""
        return self._unsynced.take()

    @property
    def finish_bytes(self) -> int:
        """Nothing; see Archive."""
        return 0

    def finish(self) -> None:
        """Only the disk may lack something; see Archive."""
        sync_paths(tree(self._root))

    def abort(self) -> None:
        """Do nothing: no file is open; see Archive."""


def open_archive(path: Path, container: str, *, resume: bool = False) -> Archive:
    """Make a container of kind "zip" or "folder" at ``path``; with ``resume``, open one that a crash left.

    Raises:
        OSError: the file system reports an error.
    """
    return ZipArchive(path, resume=resume) if container == "zip" else FolderArchive(path, resume=resume)


def _is_whole(descriptor: int, offset: int, size: int, crc: int) -> bool:
    value, end = 0, offset + size
    while offset < end:
        block = os.pread(descriptor, min(end - offset, BLOCK), offset)
        if not block:
            return False
        value, offset = crc32(block, value), offset + len(block)
    return value == crc


def _sequence_and_frame(path: str) -> tuple[str, int]:
    sequence, _, name = path.partition("/")
    digits = re.match(r"_(\d+)\.", name.removeprefix(sequence))
    return sequence, int(digits[1]) if digits else -1


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """An uncompressed entry; ``offset`` is that of its local header, ``dos`` its (date, time)."""

    path: str
    size: int
    crc: int
    offset: int
    dos: tuple[int, int]


def dos_time(time_ns: int) -> tuple[int, int]:
    """MS-DOS (date, time) in UTC, in steps of two seconds, limited to 1980 to 2107."""
    seconds = max(315_532_800, min(time_ns // 10**9, 4_354_819_198))
    t = datetime.fromtimestamp(seconds, UTC)
    return (t.year - 1980) << 9 | t.month << 5 | t.day, t.hour << 11 | t.minute << 5 | t.second // 2


def local_header(entry: ZipEntry) -> bytes:
    """The header that precedes an entry's data; complete, so that no data descriptor follows."""
    name = entry.path.encode()
    large = entry.size >= LIMIT_SIZE
    extra = EXTRA64.pack(ZIP64_EXTRA, 16, entry.size, entry.size) if large else b""
    size = 0xFFFFFFFF if large else entry.size
    date, time = entry.dos
    version = VERSION_ZIP64 if large else VERSION
    fields = (_flags(name), 0, time, date, entry.crc, size, size, len(name), len(extra))
    return LOCAL.pack(LOCAL_SIGNATURE, version, *fields) + name + extra


def parse_local_header(fixed: bytes, variable: bytes, offset: int) -> ZipEntry:
    """The entry of a header that ``local_header`` made.

    Args:
        fixed: the first ``LOCAL.size`` bytes.
        variable: name and extra field, ``variable_length`` bytes.
        offset: offset of the header.

    Raises:
        ValueError: ``local_header`` does not make such a header.
    """
    _, _, _, _, time, date, crc, size, _, name_length, _ = LOCAL.unpack(fixed)
    name, extra = variable[:name_length], variable[name_length:]
    if extra:
        if len(extra) != EXTRA64.size:
            raise ValueError("no ZIP64 extra field")
        size = EXTRA64.unpack(extra)[2]
    entry = ZipEntry(name.decode(), size, crc, offset, (date, time))
    if local_header(entry) != fixed + variable:
        raise ValueError("no local header of a stored entry")
    return entry


def variable_length(fixed: bytes) -> int:
    """Bytes of name and extra field behind the fixed part of a local header; -1 if it is not one."""
    signature, *_, name_length, extra_length = LOCAL.unpack(fixed)
    return int(name_length + extra_length) if signature == LOCAL_SIGNATURE else -1


def central_header(entry: ZipEntry) -> bytes:
    """The entry's record in the central directory; mode 0644."""
    name = entry.path.encode()
    large_size, large_offset = entry.size >= LIMIT_SIZE, entry.offset >= LIMIT_SIZE
    wide = [entry.size, entry.size] * large_size + [entry.offset] * large_offset
    extra = struct.pack(f"<HH{len(wide)}Q", ZIP64_EXTRA, 8 * len(wide), *wide) if wide else b""
    size = 0xFFFFFFFF if large_size else entry.size
    offset = 0xFFFFFFFF if large_offset else entry.offset
    version = VERSION_ZIP64 if wide else VERSION
    date, time = entry.dos
    fields = (_flags(name), 0, time, date, entry.crc, size, size, len(name), len(extra), 0, 0, 0)
    fixed = CENTRAL.pack(b"PK\x01\x02", UNIX | version, version, *fields, REGULAR_0644, offset)
    return fixed + name + extra


def end_records(count: int, size: int, offset: int) -> bytes:
    """The end record of the archive, preceded by ZIP64 end record and locator where needed.

    Args:
        count: number of entries in the central directory.
        size: bytes of the central directory.
        offset: offset of the central directory.
    """
    zip64 = b""
    if count >= LIMIT_COUNT or size >= LIMIT_SIZE or offset >= LIMIT_SIZE:
        made = UNIX | VERSION_ZIP64
        zip64 = END64.pack(b"PK\x06\x06", 44, made, VERSION_ZIP64, 0, 0, count, count, size, offset)
        zip64 += LOCATOR.pack(b"PK\x06\x07", 0, offset + size, 1)
    count = 0xFFFF if count >= LIMIT_COUNT else count
    size = 0xFFFFFFFF if size >= LIMIT_SIZE else size
    offset = 0xFFFFFFFF if offset >= LIMIT_SIZE else offset
    return zip64 + END.pack(b"PK\x05\x06", 0, 0, count, count, size, offset, 0)


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else UTF8_NAME


MANIFEST, TABLE = ".manifest", ".arrow"
"""How the names of manifest and table go on behind the dataset's."""
QUALITY = "quality.parquet"
"""Name of the table of what sensors showed, in every dataset."""
SOURCE = "source"
"""Column of what was selected: the dataset that a row is from, where its sequence and frame are the same."""


@dataclass(frozen=True, slots=True)
class DatasetPaths:
    """The paths of the dataset in ``folder``, whose name is the dataset's."""

    folder: Path

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.folder.name

    @property
    def arrow(self) -> Path:
        """The annotation table."""
        return self.folder / f"{self.name}{TABLE}"

    @property
    def journal(self) -> Path:
        """The journal of committed samples, which exists as long as the dataset is unfinished."""
        return self.folder / f"{self.name}.journal.part"

    @property
    def note(self) -> Path:
        """Names the folder to which recovery moves an unfinished dataset, until all is moved."""
        return self.folder / f"{self.name}.aside.part"

    def container(self, kind: Container) -> Path:
        """The ZIP or folder of sensor files."""
        return self.folder / (f"{self.name}.zip" if kind == "zip" else self.name)

    @property
    def manifest(self) -> Path:
        """Size and CRC-32 of every sensor file and of the tables; that of annotations is ``.arrow`` there."""
        return self.folder / f"{self.name}{MANIFEST}"

    @property
    def quality(self) -> Path:
        """What each sample's sensors showed; earlier versions wrote none."""
        return self.folder / QUALITY

    @property
    def listing(self) -> Path:
        """What the vendor's validator reads of a folder in its present schema."""
        return self.folder / "dataset.yaml"

    def finished(self) -> list[Path]:
        """All paths that a finished dataset may have, and by which it is one."""
        return [self.arrow, self.container("zip"), self.container("folder")]

    def unfinished(self) -> list[Path]:
        """All paths that a crash may leave, the journal last."""
        growing = map(part_path, (*self.finished(), self.manifest, self.quality))
        return [*growing, old_path(self.container("folder")), self.note, self.journal]
