"""Reads and checks a container of sensor files, one file at a time: a ZIP or a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_DEFLATED

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.edgefirst.store.zipreading import (
    MOST_BYTES,
    Entry,
    differs_locally,
    read_directory,
    read_entry,
)
from edgefirst_ros.formats.findings import Findings, reading
from edgefirst_ros.model.untrusted import open_regular, read_regular

_JUNK = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")

File = tuple[str, bytes | None]
"""Path in the container and bytes of a file; None if these cannot be read, which is a finding."""


def zip_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a ZIP in the order of its directory, read one at a time.

    Length and CRC-32 of each file are verified, and that directory, end record and local headers agree.
    """
    with reading(findings, path.name, "ZIP"), open_regular(path) as file:
        archive, end = read_directory(file, path)
        entries = archive.filelist
        if end.entries != len(entries):
            text = f"{len(entries)} in the directory, {end.entries} by its end record"
            findings.error(path.name, "number of entries differs", text)
        if end.offset != archive.start_dir:
            text = f"at {archive.start_dir:,}, {end.offset:,} by the end record"
            findings.error(path.name, "directory is not where the end record says", text)
        for info in entries:
            if not info.is_dir():
                yield info.filename, _read(file.fileno(), Entry.of(info), path, findings)


def folder_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a plain folder by name; lists the files of one subfolder at a time."""
    for folder, below, names in os.walk(path):
        below.sort()
        for name in sorted(names):
            file = Path(folder, name)
            inside = file.relative_to(path).as_posix()
            yield inside, _content(file, f"{path.name}@{inside}", findings)


def _content(file: Path, where: str, findings: Findings) -> bytes | None:
    with reading(findings, where, "file"):
        data = read_regular(file, MOST_BYTES, follow=False)
        findings.look.passed(len(data))
        return data
    return None


def is_junk(path: str) -> bool:
    """Whether a path is one that file managers leave behind."""
    parts = path.split("/")
    return any(part in _JUNK or part.startswith("._") for part in parts)


def _read(descriptor: int, entry: Entry, path: Path, findings: Findings) -> bytes | None:
    where = f"{path.name}@{entry.name}"
    if entry.method == ZIP_DEFLATED:
        findings.warning(path.name, "entries are compressed; the format stores its sensor files", entry.name)
    try:
        data = read_entry(descriptor, entry, path)
    except DatasetError as error:
        findings.error(where, str(error).removeprefix(f"{path}@{entry.name}: "))
        return None
    findings.look.passed(entry.packed)
    if differs_locally(descriptor, entry):
        findings.error(where, "central directory and local header differ")
    return data
