"""Reads and checks a container of sensor files, one file at a time: a ZIP or a folder."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo, is_zipfile

from edgefirst_ros.formats.crashsafe.reading import read_regular
from edgefirst_ros.formats.edgefirst.store.archive import END, END64, LOCAL, LOCATOR
from edgefirst_ros.formats.findings import Findings

MOST_BYTES = 1 << 28
"""Larger files are not read into memory; no sensor file is as large."""

_ENCRYPTED, _CRC_FOLLOWS = 1, 1 << 3
_JUNK = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")
ZIP_DAMAGE = (
    BadZipFile, EOFError, NotImplementedError, OSError, OverflowError, ValueError, struct.error, zlib.error,
)  # fmt: skip
"""What zipfile raises for damaged files."""

File = tuple[str, bytes | None]
"""Path in the container and bytes of a file; None if these cannot be read, which is a finding."""


def zip_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a ZIP in the order of its directory, read one at a time.

    zipfile checks the directory, and name, length and CRC-32 of each file. What it does not check is checked
    here: number of entries, start of the directory, CRC-32 and method in the local headers.
    """
    if not is_zipfile(path):
        findings.error(
            path.name, "no ZIP directory; the file may be incomplete", f"{path.stat().st_size:,} bytes"
        )
        return
    with path.open("rb") as file:
        try:
            archive = ZipFile(file)
            count, start = _end_record(file, archive.comment)
        except ZIP_DAMAGE as error:
            findings.error(path.name, "ZIP directory is damaged", str(error))
            return
        entries = archive.infolist()
        if count != len(entries):
            text = f"{len(entries)} in the directory, {count} by its end record"
            findings.error(path.name, "number of entries differs", text)
        if start != archive.start_dir:
            text = f"at {archive.start_dir:,}, {start:,} by the end record"
            findings.error(path.name, "directory is not where the end record says", text)
        for entry in entries:
            if not entry.is_dir():
                yield entry.filename, _read(archive, file, entry, path.name, findings)


def folder_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a plain folder by name; lists the files of one subfolder at a time."""
    for folder, below, names in os.walk(path):
        below.sort()
        for name in sorted(names):
            file = Path(folder, name)
            inside = file.relative_to(path).as_posix()
            yield inside, _content(file, f"{path.name}@{inside}", findings)


def _content(file: Path, where: str, findings: Findings) -> bytes | None:
    try:
        return read_regular(file, MOST_BYTES)
    except OSError as error:
        findings.error(where, "cannot be read", error.strerror or str(error))
    return None


def is_junk(path: str) -> bool:
    """Whether a path is one that file managers leave behind."""
    parts = path.split("/")
    return any(part in _JUNK or part.startswith("._") for part in parts)


def _end_record(file: BinaryIO, comment: bytes) -> tuple[int, int]:
    """Number of entries and start of the directory, as the end record states them."""
    end = file.seek(-END.size - len(comment), os.SEEK_END)
    *_, count, _, start, _ = END.unpack(file.read(END.size))
    before = file.seek(max(0, end - LOCATOR.size - END64.size))
    tail = file.read(end - before)
    if tail[-LOCATOR.size :].startswith(b"PK\x06\x07"):
        *_, count, _, start = END64.unpack(tail[: END64.size])
    return count, start


def _read(archive: ZipFile, file: BinaryIO, entry: ZipInfo, name: str, findings: Findings) -> bytes | None:
    where = f"{name}@{entry.filename}"
    method = entry.compress_type
    if entry.flag_bits & _ENCRYPTED or method not in {ZIP_STORED, ZIP_DEFLATED}:
        findings.error(where, "is encrypted, or compressed by an unsupported method", str(method))
        return None
    if method == ZIP_DEFLATED:
        findings.warning(name, "entries are compressed; the format stores its sensor files", entry.filename)
    if max(entry.file_size, entry.compress_size) > MOST_BYTES:
        findings.error(where, "is larger than any sensor file", f"{entry.file_size:,} bytes")
        return None
    try:
        data = archive.read(entry)
        file.seek(entry.header_offset)
        _, _, flags, own_method, _, _, crc, *_ = LOCAL.unpack(file.read(LOCAL.size))
    except ZIP_DAMAGE as error:
        findings.error(where, "is damaged", str(error))
        return None
    if own_method != method or not (flags & _CRC_FOLLOWS or crc == entry.CRC):
        findings.error(where, "central directory and local header differ")
    return data
