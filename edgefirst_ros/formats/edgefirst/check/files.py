"""Checks sensor files of a ZIP or a folder, one at a time: names, headers, sizes, times, kinds."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from zipfile import ZIP_DEFLATED

from edgefirst_ros.formats.edgefirst.check.headers import PictureHeader, check_pcd, check_picture
from edgefirst_ros.formats.edgefirst.check.samples import BIT, CAMERA, KINDS, FrameTimes, Samples
from edgefirst_ros.formats.edgefirst.read.decoding import DECODERS, decode_picture, strict_rgb
from edgefirst_ros.formats.edgefirst.store.archive import sample_name
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

_JUNK = ("__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini")

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


_NAME = re.compile(
    r"(?P<sequence>.+)_(?P<digits>[0-9]{1,18})\.(?P<kind>" + "|".join(map(re.escape, KINDS)) + ")"
)
_RECORDED = re.compile(r".*?_(\d{4})[-_]?(\d\d)[-_]?(\d\d)[-_T](\d\d)[-_]?(\d\d)[-_]?(\d\d)(?:[-_.].*)?")

Size = tuple[int, int]


@dataclass(slots=True)
class SensorFiles:
    """What is known from the files checked so far.

    Attributes:
        samples: kinds of file of each sample.
        sizes: (width, height) of the first picture, by sequence and sensor.
        counts: number of files by kind.
        times: by sequence, the highest frame number with an EXIF time, and that time in nanoseconds.
        taken_ns: by sequence, the EXIF times of all frames.
    """

    samples: Samples = field(default_factory=Samples)
    sizes: dict[tuple[str, str], Size] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    times: dict[str, tuple[int, int]] = field(default_factory=dict)
    taken_ns: dict[str, FrameTimes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SensorFile:
    """Sample and kind of a file; ``where`` is its place, for findings."""

    sequence: str
    frame: int
    kind: str
    where: str


def check_files(files: Iterable[File], container: str, findings: Findings) -> SensorFiles:
    """Check all files; ``container`` is the name of the ZIP or folder, for findings."""
    seen = SensorFiles()
    for path, data in files:
        where = f"{container}@{path}"
        if is_junk(path):
            findings.error(where, "does not belong in a dataset")
            continue
        folder, _, name = path.rpartition("/")
        found = _NAME.fullmatch(name)
        if found is None:
            findings.error(where, "is not named SEQUENCE_FRAME.SENSOR.EXT with a sensor of the format")
            continue
        file = _SensorFile(found["sequence"], int(found["digits"]), found["kind"], where)
        if folder != file.sequence:
            findings.error(where, "is not in the folder of its sequence", f"{file.sequence}/")
        if name != f"{sample_name(file.sequence, file.frame)}.{file.kind}":
            findings.error(where, "frame number is not padded to three digits")
        _add(seen, file, findings)
        if data is not None:
            with reading(findings, where, "file"):
                _check_content(seen, file, data, findings)
    _check_sequences(seen.samples, container, findings)
    return seen


def _add(seen: SensorFiles, file: _SensorFile, findings: Findings) -> None:
    bit = BIT[file.kind]
    rivals = CAMERA if bit & CAMERA else bit
    if seen.samples.add(file.sequence, file.frame, bit) & rivals:
        findings.error(file.where, "its sample has another file of this kind")
        return
    seen.counts[file.kind] += 1


def _check_content(seen: SensorFiles, file: _SensorFile, data: bytes, findings: Findings) -> None:
    if not data:
        findings.error(file.where, "is empty")
        return
    errors = findings.counts["error"]
    if file.kind.endswith(".pcd"):
        check_pcd(file.kind, data, file.where, findings)
    elif (picture := check_picture(file.kind, data, file.where, findings)) is not None:
        _check_picture(seen, file, picture, findings)
    if findings.look.quick or findings.counts["error"] > errors:
        return
    with reading(findings, file.where, "content"):
        for kinds, decode in DECODERS.values():
            if file.kind in kinds:
                _decode(decode, data, file.where, findings)


def _decode(decode: Callable[[bytes], object], data: bytes, where: str, findings: Findings) -> None:
    if decode is not decode_picture or not data.startswith(JPEG):
        decode(data)
        return
    try:
        strict_rgb(data)
    except ValueError as error:
        decode(data)
        findings.warning(where, "part of the picture may be lost", str(error))


def _check_picture(seen: SensorFiles, file: _SensorFile, picture: PictureHeader, findings: Findings) -> None:
    """Compare with the other pictures of the sequence."""
    sensor = "camera" if file.kind.startswith("camera.") else file.kind
    first = seen.sizes.setdefault((file.sequence, sensor), picture.size)
    if picture.size != first:
        text = f"{picture.size[0]}x{picture.size[1]}, before {first[0]}x{first[1]}"
        # A radar's settings may change within a sequence; training on pictures needs one size.
        add = findings.warning if file.kind == "radar.png" else findings.error
        add(file.where, "picture size differs from the first of its sequence", text)
    if picture.time_ns is not None:
        seen.taken_ns.setdefault(file.sequence, FrameTimes()).add(file.frame, picture.time_ns)
        _check_time(seen, file, picture.time_ns, findings)


def _check_time(seen: SensorFiles, file: _SensorFile, time_ns: int, findings: Findings) -> None:
    """Compare with the highest frame so far; lower ones are not checked, as files may be in any order."""
    last = seen.times.get(file.sequence)
    if last is not None and file.frame <= last[0]:
        return
    if last is not None and time_ns <= last[1]:
        text = f"{(last[1] - time_ns) / 1e6:,.3f} ms before frame {last[0]}"
        findings.error(file.where, "EXIF time is not later than the previous frame's", text)
    seen.times[file.sequence] = (file.frame, time_ns)


def _check_sequences(samples: Samples, container: str, findings: Findings) -> None:
    if not samples.sequences():
        findings.error(container, "contains no sensor files")
    for sequence in samples.sequences():
        if not _is_recorded_name(sequence):
            findings.warning(sequence, "sequence is not named hostname_date_time")
        lacking: Counter[str] = Counter()
        total = 0
        for _, bits in samples.of(sequence):
            total += 1
            lacking.update(kind for kind in KINDS if not bits & BIT[kind])
            lacking["camera"] += not bits & CAMERA
        some = {kind for kind, count in lacking.items() if 0 < count < total}
        if "camera" in some:
            findings.warning(sequence, "samples without a camera picture", f"{lacking['camera']} of {total}")
        for kind in KINDS:
            if kind in some and not BIT[kind] & CAMERA:
                findings.note(sequence, f"samples without {kind}", f"{lacking[kind]} of {total}")


def _is_recorded_name(sequence: str) -> bool:
    found = _RECORDED.fullmatch(sequence)
    try:
        return found is not None and bool(datetime(*map(int, found.groups())))  # type: ignore[arg-type]  # noqa: DTZ001
    except ValueError:
        return False
