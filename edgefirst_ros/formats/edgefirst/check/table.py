"""Checks the annotation table: its columns, and that its rows fit to sensor files and say what can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgefirst_ros.formats.edgefirst.finish import columns, refuse_unsound
from edgefirst_ros.formats.edgefirst.read.dataset import ANNOTATIONS, EdgeFirstDataset, Sample
from edgefirst_ros.formats.edgefirst.read.decoding import CAMERA
from edgefirst_ros.formats.edgefirst.store.archive import TABLE
from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable, is_plain
from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing

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
        with refusing(path, DatasetError, "is not a complete Arrow file"):
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
    wanted |= {name: (_kind(column.type),) for name, column in own.items()}
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
