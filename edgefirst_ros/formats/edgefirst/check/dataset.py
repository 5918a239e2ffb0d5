"""Checks an EdgeFirst dataset: that all is as it was written, and that the reader reads it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST, Comparison
from edgefirst_ros.formats.edgefirst.finish import MADE_BY, columns, refuse_unsound
from edgefirst_ros.formats.edgefirst.read.dataset import ANNOTATIONS, EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.read.decoding import CAMERA, DECODERS, decode_picture, strict_rgb
from edgefirst_ros.formats.edgefirst.read.files import split
from edgefirst_ros.formats.edgefirst.store.archive import MANIFEST, QUALITY, SOURCE, TABLE
from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable, is_plain
from edgefirst_ros.formats.edgefirst.store.zipreading import (
    MOST_BYTES,
    ZipEntry,
    differs_locally,
    read_directory,
    read_entry,
)
from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.model import untrusted
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.pictures import JPEG
from edgefirst_ros.model.zlib_backend import crc32

_VERSIONS = ("2025.01", "2025.10", "2026.04", "2026.10")
_GROUPS = frozenset({"train", "val", "test", None})
_TOLERANCE = 1e-6
_TEXT, _CATEGORY = "String", "Categorical"
_FURTHER: Mapping[str, tuple[str, ...]] = {
    "polygon_score": ("Float32",),
    "mask_score": ("Float32",),
    "ignore": ("Boolean",),
    "exclude": ("Boolean",),
    "iscrowd": ("Boolean",),
    "category_frequency": (_CATEGORY,),
    "truncation": ("UInt32",),
    "occlusion": ("UInt32",),
    "degradation": (_TEXT, _CATEGORY),
    "neg_label_indices": ("List(UInt32)",),
    "not_exhaustive_label_indices": ("List(UInt32)",),
    "timing": ("Struct",),
}
"""Columns that the vendor's client writes and this package does not, and their kinds."""
_CLIENT_PANICS = frozenset({"UInt8", "Int8", "UInt16", "Int16", "Date", "Datetime", "Time", "Duration"})
_KINDS: Mapping[str, tuple[Callable[[Any], bool], ...]] = {
    "Date": (pa.types.is_date,),
    "Datetime": (pa.types.is_timestamp,),
    "Time": (pa.types.is_time,),
    "Duration": (pa.types.is_duration,),
    "Struct": (pa.types.is_struct,),
    "Boolean": (pa.types.is_boolean,),
    "Float32": (pa.types.is_float32,),
    "Float64": (pa.types.is_float64,),
    _TEXT: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "Binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
}
"""As the vendor and polars call them."""


def check_table(folder: Path, name: str, findings: Findings) -> dict[str, int]:
    """Check the table of a dataset, also against its sensor files; how many samples with files, and rows."""
    path, counts = folder / f"{name}{TABLE}", {"samples": 0}
    with reading(findings, path.name, "table"):
        table = ArrowTable(path, columns=())
        counts["rows"] = sum(table.rows)
        with untrusted.refusing(path, DatasetError, "is not a complete Arrow file"):
            _check_columns(path.name, table.schema, findings)
        dataset = EdgeFirstDataset(folder, name, keys=ANNOTATIONS)
        counts["samples"] = _check_samples(path.name, dataset, findings)
        for number in () if findings.look.quick else range(len(dataset)):
            where = f"{path.name}@{dataset.entry(number).name}"
            with reading(findings, where, "sample"):
                for fault in _faults(dataset[number]):
                    findings.error(where, fault)
    return counts


def _check_columns(where: str, schema: pa.Schema, findings: Findings) -> None:
    """Their types, by the version that the table states."""
    version = (schema.metadata or {}).get(b"schema_version", b"2025.01").decode()
    if version not in _VERSIONS:
        findings.warning(where, "unknown schema_version, treated as 2026.10", version)
        version = "2026.10"
    wanted = _wanted(version)
    for each in schema:
        name, found = each.name, _kind(each.type)
        if not is_plain(each.type):
            findings.error(where, f"column {name} has a type that is not read", f"{each.type}"[:80])
            continue
        refuse_unsound(pa.schema([each]))
        if found in _CLIENT_PANICS:
            findings.error(where, f"column {name} has a type that crashes the vendor's client", found)
        elif name not in wanted:
            findings.note(where, f"column {name} is not of schema {version}", found)
        elif found not in wanted[name] and name == "frame" and found in {"UInt32", "UInt64"}:
            findings.warning(where, f"column frame is not of the type of schema {version}", found)
        elif found not in wanted[name]:
            findings.error(where, f"column {name} is {found}, expected {' or '.join(wanted[name])}")
    for name in {"name", "frame", "group"} - {*schema.names}:
        findings.error(where, f"no column {name}")


def _wanted(version: str) -> dict[str, tuple[str, ...]]:
    """Allowed kinds by column name."""
    own = columns("2025.01" if version == "2025.01" else "2026.10", ())
    wanted: dict[str, tuple[str, ...]] = {} if version == "2025.01" else dict(_FURTHER)
    wanted |= {SOURCE: (_TEXT,)} | {name: (_kind(column.type),) for name, column in own.items()}
    if version == "2025.01":
        wanted["name"] = (_TEXT, _CATEGORY)
    elif version == "2025.10":
        wanted["mask"] = ("List(Float32)",)
    return wanted


def _kind(found: Any) -> str:  # noqa: ANN401 - pyarrow has no types
    """What the values of a type are, however wide their offsets."""
    kinds = pa.types
    if kinds.is_dictionary(found):
        value = _kind(found.value_type)
        return _CATEGORY if value == _TEXT else f"Dictionary({value})"
    if kinds.is_list(found) or kinds.is_large_list(found):
        return f"List({_kind(found.value_type)})"
    if kinds.is_fixed_size_list(found):
        return f"Array({_kind(found.value_type)}, {found.list_size})"
    if kinds.is_integer(found):
        return f"{found}".replace("uint", "UInt").replace("int", "Int")
    return next((name for name, are in _KINDS.items() if any(is_it(found) for is_it in are)), f"{found}")


def _check_samples(where: str, dataset: EdgeFirstDataset, findings: Findings) -> int:
    """Check that all samples have files, one of a kind, rows and a group; how many have files."""
    with_files, lacking = 0, Counter[str]()
    for number in range(len(dataset)):
        entry, kinds = dataset.entry(number), dataset.kinds(number)
        at = f"{where}@{entry.name}"
        with_files += bool(kinds)
        if not kinds:
            findings.error(at, "its sample has no files")
        elif not any(kinds[kind] for kind in CAMERA):
            lacking[entry.sequence] += 1
        if sum(kinds[kind] for kind in CAMERA) > 1 or any(count > 1 for count in kinds.values()):
            findings.error(at, "its sample has two files of a kind")
        if entry.row is None:
            findings.error(at, "sample has no row")
        if entry.group not in _GROUPS or (entry.group is None and entry.row is not None):
            findings.error(at, "group is not train, val or test", str(entry.group))
    for sequence, count in lacking.items():
        findings.warning(sequence, "samples without a camera picture", f"{count:,}")
    return with_files


def _faults(sample: Sample) -> Iterator[str]:
    """What no sample can say."""
    if (boxes := sample["boxes2d"]) is not None and not (_within(boxes, 0, 1) and (boxes[:, 2:] > 0).all()):
        yield "box2d is outside the picture or has no area"
    solids = sample["boxes3d"]
    if solids is not None and not (np.isfinite(solids).all() and (solids[:, 3:] > 0).all()):
        yield "box3d is not finite or has no extent"
    for key in ("scores2d", "scores3d"):
        if sample[key] is not None and not _within(sample[key][~np.isnan(sample[key])], 0, 1):
            yield f"{key} are outside 0 to 1"
    rings = [ring for mask in sample["masks"] or () for ring in mask]
    if not all(len(ring) >= 3 and _within(ring, 0, 1) for ring in rings):
        yield "a mask is not a polygon of at least three x, y from 0 to 1"
    place = sample["location"]
    if place is not None and not (_within(place, (-90, -180), (90, 180)) and place.any()):
        yield "location is not a valid latitude and longitude"
    if sample["pose"] is not None and not _within(sample["pose"], (-360, -90, -360), (360, 90, 360)):
        yield "pose is not a valid set of angles in degrees"


def _within(values: npt.NDArray[Any], low: npt.ArrayLike, high: npt.ArrayLike) -> bool:
    below, above = np.asarray(low) - _TOLERANCE, np.asarray(high) + _TOLERANCE
    return bool(((values >= below) & (values <= above)).all())


File = tuple[str, bytes | None]
"""Path in the container and bytes of a file; None if these cannot be read, which is a finding."""


def zip_files(path: Path, findings: Findings) -> Iterator[File]:
    """Files of a ZIP in the order of its directory, read one at a time.

    Length and CRC-32 of each file are verified, and that directory, end record and local headers agree.
    """
    with reading(findings, path.name, "ZIP"), untrusted.open_regular(path) as file:
        archive, end = read_directory(file, path, untrusted.stored_bytes(file))
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
                data = untrusted.read_regular(file, MOST_BYTES, follow=False)
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
    manifest, report = folder / f"{name}{MANIFEST}", folder / untrusted.REPORT
    parts = sorted(
        p for p in folder.glob("*.part") if p.name.startswith((f"{name}.", f"{untrusted.REPORT}."))
    )
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
        report = untrusted.parse_json(untrusted.read_regular(path, untrusted.MOST_REPORT_BYTES))
        return int(report.get("formats", {}).get(MADE_BY, report)["samples"])
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError, AttributeError) as error:
        findings.error(path.name, "is not a capture report", repr(error))
        return None
