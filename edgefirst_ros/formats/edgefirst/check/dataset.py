"""Checks an EdgeFirst dataset: that all is as it was written, and that the reader reads it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED

from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST, Comparison
from edgefirst_ros.formats.edgefirst.check.table import check_table
from edgefirst_ros.formats.edgefirst.finish import MADE_BY
from edgefirst_ros.formats.edgefirst.read.decoding import DECODERS, decode_picture, strict_rgb
from edgefirst_ros.formats.edgefirst.read.files import split
from edgefirst_ros.formats.edgefirst.store.archive import MANIFEST, QUALITY, TABLE
from edgefirst_ros.formats.edgefirst.store.zipreading import (
    MOST_BYTES,
    ZipEntry,
    differs_locally,
    read_directory,
    read_entry,
)
from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.pictures import JPEG
from edgefirst_ros.model.untrusted import (
    MOST_REPORT_BYTES,
    REPORT,
    open_regular,
    parse_json,
    read_regular,
    stored_bytes,
)
from edgefirst_ros.model.zlib_backend import crc32

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


def check(path: Path, look: Look = EVERYTHING) -> Check:
    """Check a dataset, given by its folder, ``.arrow`` or ``.zip``.

    With a manifest all must be as it was written. Files are decoded, and samples read, as for training; what
    is right and of no use is for the vendor's tools to judge. One file and one sample at a time is in memory.

    Raises:
        DatasetNotFound: the path does not exist, or has no part of a dataset.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    folder, name = (path, path.name) if path.is_dir() else (path.parent, path.stem)
    table, archive, plain = folder / f"{name}{TABLE}", folder / f"{name}.zip", folder / name
    manifest, report = folder / f"{name}{MANIFEST}", folder / REPORT
    parts = sorted(p for p in folder.glob("*.part") if p.name.startswith((f"{name}.", f"{REPORT}.")))
    is_listed, has_files = os.path.lexists(manifest), archive.is_file() or plain.is_dir()
    findings = Findings(look)
    if not (parts or is_listed or has_files or table.is_file()):
        if not report.is_file():
            raise DatasetNotFound(f"{path}: holds no EdgeFirst dataset; expected {name}.arrow")
        if _reported(report, findings) == 0:
            findings.note(name, "holds no samples, as its report says")
            return concluded(MADE_BY, name, findings, {"samples": 0})
    for part in parts:
        findings.error(part.name, "unfinished; edgefirst-ros recover can finish it")
    if not parts:
        _check_parts(table, archive, plain, findings)
    # While a dataset is being replaced, the manifest may be of either.
    comparison = Comparison(manifest, MADE_BY) if is_listed and not parts else None
    kinds = _check_container(archive, plain, comparison, findings)
    if comparison is not None:
        _conclude(comparison, manifest.name, {TABLE: table, QUALITY: folder / QUALITY}, findings)
    elif not parts:
        findings.note(name, NO_MANIFEST)
    counts = check_table(folder, name, findings) if table.is_file() and has_files else {"samples": 0}
    reported = _reported(report, findings) if path.is_dir() else None
    if reported not in {None, counts["samples"]}:
        text = f"{reported} in the report, {counts['samples']} in the dataset"
        findings.error(report.name, "number of samples differs", text)
    return concluded(MADE_BY, name, findings, {**counts, **dict(sorted(kinds.items()))})


def _check_parts(table: Path, archive: Path, plain: Path, findings: Findings) -> None:
    if not (archive.is_file() or plain.is_dir()):
        findings.error(plain.name, "no sensor files", f"expected {archive.name} or {plain.name}/")
    if not table.is_file():
        findings.error(plain.name, "no annotation table", f"expected {table.name}")


def _check_container(
    archive: Path, plain: Path, comparison: Comparison | None, findings: Findings
) -> Counter[str]:
    """Check the sensor files, also against the manifest; how many there are of each kind."""
    if archive.is_file():
        if plain.is_dir():
            text = "has a ZIP and a folder of files; only the ZIP is checked"
            findings.warning(plain.name, text, f"{plain.name}/")
        return check_files(_compared(zip_files(archive, findings), comparison), archive.name, findings)
    if plain.is_dir():
        return check_files(_compared(folder_files(plain, findings), comparison), plain.name, findings)
    return Counter()


def _conclude(comparison: Comparison, name: str, tables: Mapping[str, Path], findings: Findings) -> None:
    """Hold the tables against the manifest, too, and say what differs in all."""
    for called, path in tables.items():
        if path.is_file():
            comparison.add(called, path.stat().st_size, path)
    for fault in comparison.faults():
        findings.error(name, fault)


def _compared(files: Iterator[File], comparison: Comparison | None) -> Iterator[File]:
    """The same files, held against the manifest on their way."""
    for path, data in files:
        if comparison is not None:
            comparison.add(path, len(data or b""), None if data is None else crc32(data))
        yield path, data


def _reported(path: Path, findings: Findings) -> int | None:
    """The number of samples by the report of the run; None without one."""
    if not os.path.lexists(path):
        return None
    try:
        report = parse_json(read_regular(path, MOST_REPORT_BYTES))
        return int(report.get("formats", {}).get(MADE_BY, report)["samples"])
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError, AttributeError) as error:
        findings.error(path.name, "is not a capture report", repr(error))
        return None
