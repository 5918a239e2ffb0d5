"""Checks sensor files of a ZIP or a folder, one at a time: the container, names, and that they decode."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED

from edgefirst_ros.formats.edgefirst.read.decoding import DECODERS, decode_picture, strict_rgb
from edgefirst_ros.formats.edgefirst.read.files import split
from edgefirst_ros.formats.edgefirst.store.zipreading import (
    MOST_BYTES,
    ZipEntry,
    differs_locally,
    read_directory,
    read_entry,
)
from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.pictures import JPEG
from edgefirst_ros.model.untrusted import open_regular, read_regular, stored_bytes

File = tuple[str, bytes | None]
"""Path in the container and bytes of a file; None if these cannot be read, which is a finding."""


def zip_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a ZIP in the order of its directory, read one at a time.

    Length and CRC-32 of each file are verified, and that directory, end record and local headers agree.
    """
    with reading(findings, path.name, "ZIP"), open_regular(path) as file:
        archive, end = read_directory(file, path, stored_bytes(file))
        entries = archive.filelist
        if end.entries != len(entries):
            text = f"{len(entries)} in the directory, {end.entries} by its end record"
            findings.error(path.name, "number of entries differs", text)
        if end.offset != archive.start_dir:
            text = f"at {archive.start_dir:,}, {end.offset:,} by the end record"
            findings.error(path.name, "directory is not where the end record says", text)
        for info in entries:
            if not info.is_dir():
                yield info.filename, _read(file.fileno(), ZipEntry.of(info), path, findings)


def _read(descriptor: int, entry: ZipEntry, path: Path, findings: Findings) -> bytes | None:
    where = f"{path.name}@{entry.name}"
    if entry.method == ZIP_DEFLATED:
        findings.warning(path.name, "entries are compressed; the format stores its sensor files", entry.name)
    try:
        data = read_entry(lambda at, length: os.pread(descriptor, length, at), entry, path)
    except DatasetError as error:
        findings.error(where, str(error).removeprefix(f"{path}@{entry.name}: "))
        return None
    findings.look.passed(entry.packed)
    if differs_locally(descriptor, entry):
        findings.error(where, "central directory and local header differ")
    return data


def folder_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a plain folder by name; lists the files of one subfolder at a time."""
    for folder, below, names in os.walk(path):
        below.sort()
        for name in sorted(names):
            file = Path(folder, name)
            inside = file.relative_to(path).as_posix()
            data = None
            with reading(findings, f"{path.name}@{inside}", "file"):
                data = read_regular(file, MOST_BYTES, follow=False)
                findings.look.passed(len(data))
            yield inside, data


def check_files(files: Iterable[File], container: str, findings: Findings) -> Counter[str]:
    """Check all files; returns how many there are of each kind.

    Args:
        files: of the container.
        container: the name of the ZIP or folder, for findings.
        findings: what is found is added.
    """
    counts: Counter[str] = Counter()
    for path, data in files:
        where = f"{container}@{path}"
        kind = next((kind.lower() for _, kind in split(path)), None)
        if kind is None:
            findings.error(where, "is not named SEQUENCE_FRAME.SENSOR.EXT")
            continue
        counts[kind] += 1
        decoders = [decode for kinds, decode in DECODERS.values() if kind in kinds]
        if not decoders:
            findings.warning(where, "is of a sensor that is not read", kind)
        if data is not None and not findings.look.quick:
            with reading(findings, where, "content"):
                for decode in decoders:
                    _decode(decode, data, where, findings)
    if not counts:
        findings.error(container, "contains no sensor files")
    return counts


def _decode(decode: Callable[[bytes], object], data: bytes, where: str, findings: Findings) -> None:
    if decode is not decode_picture or not data.startswith(JPEG):
        decode(data)
        return
    try:
        strict_rgb(data)
    except ValueError as error:
        decode(data)
        findings.warning(where, "part of the picture may be lost", str(error))
