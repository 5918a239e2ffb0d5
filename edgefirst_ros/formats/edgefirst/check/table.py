"""Checks the annotation table in batches: columns, types, samples, groups, and values by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgefirst_ros.formats.edgefirst.check.files import SensorFiles
from edgefirst_ros.formats.edgefirst.check.headers import read_png
from edgefirst_ros.formats.edgefirst.check.samples import (
    ANNOTATED,
    BARE,
    FILES,
    ROWS,
    FrameLocations,
    check_motion,
)
from edgefirst_ros.formats.edgefirst.finish import columns, refuse_unsound
from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable, is_plain
from edgefirst_ros.formats.format import Findings
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.untrusted import refusing

Floats = npt.NDArray[np.float64]
Bad = npt.NDArray[np.bool_]
Columns = Mapping[str, Any]
"""Arrays of Arrow by the name of their column."""

_TOLERANCE = 1e-6
_STATUSES = ("valid", "edit")
_ANGLES_DEG = {"2025.01": (360.0, 360.0, 360.0)}
_ANGLES_SIGNED_DEG = (180.0, 90.0, 180.0)


@dataclass(slots=True)
class Table:
    """What is known of the table that is being checked.

    Attributes:
        path: its path.
        version: its schema version.
        usable: names of the columns of a correct type.
        rows: number of rows checked so far.
        locations: locations of the samples by sequence.
        last: name, frame and per-sample values of the previous row.
    """

    path: Path
    version: str
    usable: tuple[str, ...]
    rows: int = 0
    locations: dict[str, FrameLocations] = field(default_factory=dict)
    last: tuple[object, ...] = field(default=())


def check_values(
    frame: Columns, table: Table, sizes: Mapping[tuple[str, str], tuple[int, int]], findings: Findings
) -> None:
    """Check boxes, outlines, scores, locations and sizes in a batch whose first row is ``table.rows``."""
    for name, (bad, what) in _rules(table.version).items():
        if name in table.usable:
            rows = known(frame[name])
            if len(rows):
                bad_rows = rows[bad(matrix(frame[name])[rows])]
                _report(table, bad_rows, f"{name} {what}", frame[name], findings)
    for name in ("polygon", "mask"):
        if name in table.usable:
            _check_outlines(table, name, frame[name], findings)
    if "status" in table.usable:
        status = frame["status"].to_pylist()
        wrong = [row for row, value in enumerate(status) if value not in {None, *_STATUSES}]
        _report(table, wrong, "status is neither valid nor edit", frame["status"], findings)
    if "size" in table.usable:
        _check_sizes(frame, table, sizes, findings)


def _rules(version: str) -> dict[str, tuple[Callable[[Floats], Bad], str]]:
    limits = _ANGLES_DEG.get(version, _ANGLES_SIGNED_DEG)
    swapped = version == "2025.01"
    return {
        "box2d": (
            lambda v: ~(_within(v, 0, 1) & _all(v[:, 2:] > 0)),
            "is outside the picture or has no area",
        ),
        "box3d": (lambda v: ~(_all(np.isfinite(v)) & _all(v[:, 3:] > 0)), "is not finite or has no extent"),
        "location": (
            lambda v: _no_place(v[:, ::-1] if swapped else v),
            f"is not a valid {'longitude, latitude' if swapped else 'latitude, longitude'}",
        ),
        "pose": (
            lambda v: ~_within(v, -np.array(limits), np.array(limits)),
            "is not a valid set of angles in degrees",
        ),
        **{
            f"{kind}_score": (lambda v: ~_within(v, 0, 1), "is outside 0 to 1")
            for kind in ("box2d", "box3d", "polygon", "mask")
        },
    }


def known(column: Any) -> npt.NDArray[np.intp]:  # noqa: ANN401 - pyarrow has no types
    """The rows of a column that are not null."""
    return np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))


def matrix(column: Any) -> Floats:  # noqa: ANN401 - pyarrow has no types
    """The values of a column of vectors (N, k), or of numbers (N, 1); what is null is undefined or NaN."""
    width = 1
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
        column = column.values.slice(width * column.offset, width * len(column))
    return _floats(column).reshape(-1, width)


def _within(values: Floats, low: Any, high: Any) -> Bad:  # noqa: ANN401  numbers or arrays of them
    with np.errstate(invalid="ignore"):
        inside = (values >= low - _TOLERANCE) & (values <= high + _TOLERANCE)
    return _all(inside)


def _all(values: Bad) -> Bad:
    """For each row, whether all values are true."""
    found: Bad = np.logical_and.reduce(values, axis=1, dtype=np.bool_)
    return found


def _no_place(values: Floats) -> Bad:
    """Whether latitude and longitude are no valid position; 0, 0 comes from a receiver without a fix."""
    return ~_within(values, np.array([-90, -180]), np.array([90, 180])) | _all(values == 0)


def _report(
    table: Table,
    rows: Iterable[int],
    what: str,
    column: Any,  # noqa: ANN401 - pyarrow has no types
    findings: Findings,
) -> None:
    for row in rows:
        text = str(column[int(row)].as_py())[:80]
        findings.error(f"{table.path.name}@row {table.rows + row}", what, text)


def _check_outlines(table: Table, name: str, column: Any, findings: Findings) -> None:  # noqa: ANN401 - pyarrow has no types
    """Check polygons (lists of rings, or one list with NaN between rings) and masks, which are gray PNG."""
    for row in known(column).tolist():
        at, value = f"{table.path.name}@row {table.rows + row}", column[row]
        if not pa.types.is_nested(value.type):
            try:
                sound = read_png(value.as_py()).colour == 0
            except ValueError:
                sound = False
            if not sound:
                findings.error(at, "mask is not a gray PNG")
        elif not all(map(_is_ring, _rings(value.values))):
            findings.error(at, f"{name} is not a polygon of at least three x, y from 0 to 1")


def _rings(values: Any) -> list[Floats]:  # noqa: ANN401 - pyarrow has no types
    if pa.types.is_nested(values.type):
        return [_floats(ring.values) if ring.is_valid else np.empty(0) for ring in values]
    flat = _floats(values)
    gaps = np.flatnonzero(np.isnan(flat))
    return [ring[np.isnan(ring[:1]).sum() :] for ring in np.split(flat, gaps)]


def _floats(values: Any) -> Floats:  # noqa: ANN401 - pyarrow has no types
    found: Floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _is_ring(ring: Floats) -> bool:
    return len(ring) >= 6 and len(ring) % 2 == 0 and bool(_within(ring[None, :], 0, 1).all())


def _check_sizes(
    frame: Columns, table: Table, sizes: Mapping[tuple[str, str], tuple[int, int]], findings: Findings
) -> None:
    rows = zip(frame["name"].to_pylist(), frame["size"].to_pylist(), strict=True)
    for row, (name, size) in enumerate(rows):
        picture = sizes.get((name, "camera"))
        if size is not None and picture is not None and tuple(size) != picture:
            at = f"{table.path.name}@row {table.rows + row}"
            findings.error(at, "size differs from the picture's", f"{size}, {list(picture)}")


ROWS_AT_ONCE = 1 << 15
GROUPS = frozenset({"train", "val", "test"})
GEOMETRY = ("mask", "polygon", "box2d", "box3d")
PER_SAMPLE = ("group", "size", "location", "pose", "degradation")

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

_CLIENT_PANICS = frozenset(
    {"UInt8", "Int8", "UInt16", "Int16", "Date", "Datetime", "Time", "Duration", "Decimal"}
)
_KINDS: Mapping[str, tuple[Callable[[Any], bool], ...]] = {
    "Date": (pa.types.is_date,),
    "Datetime": (pa.types.is_timestamp,),
    "Time": (pa.types.is_time,),
    "Duration": (pa.types.is_duration,),
    "Decimal": (pa.types.is_decimal,),
    "Struct": (pa.types.is_struct,),
    "Boolean": (pa.types.is_boolean,),
    "Float32": (pa.types.is_float32,),
    "Float64": (pa.types.is_float64,),
    _TEXT: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "Binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
}
"""As the vendor and polars call them."""


def check_table(path: Path, seen: SensorFiles, findings: Findings) -> int:
    """Check the table, also against the sensor files; returns the number of rows."""
    where, files = path.name, seen.counts.total()
    try:
        schema = ArrowTable(path, files=files, columns=()).schema
        with refusing(path, DatasetError, "is not a complete Arrow file"):
            version = _version(schema.metadata or {}, where, findings)
            table = Table(path, version, _check_columns(where, schema, version, findings))
            if {"name", "frame"} <= set(table.usable):
                for frame in _frames(ArrowTable(path, files=files, columns=table.usable)):
                    _check_batch(table, frame, seen, findings)
    except DatasetError as error:
        findings.error(where, "cannot be read", str(error).removeprefix(f"{path}: "))
        return 0
    _check_samples(table, seen, findings)
    for sequence, locations in table.locations.items():
        if sequence in seen.taken_ns:  # without EXIF times there is no speed
            taken_ns = seen.taken_ns[sequence]
            check_motion(f"{table.path.name}:{sequence}", locations, taken_ns, table.version, findings)
    return table.rows


def _version(metadata: Mapping[bytes, bytes], where: str, findings: Findings) -> str:
    version = metadata.get(b"schema_version", b"2025.01").decode()
    if version not in {"2025.01", "2025.10", "2026.04", "2026.10"}:
        findings.warning(where, "unknown schema_version, treated as 2026.10", version)
        return "2026.10"
    return version


def _check_columns(where: str, schema: pa.Schema, version: str, findings: Findings) -> tuple[str, ...]:
    """Names of the columns of a correct type."""
    good = []
    wanted = _wanted(version)
    for each in schema:
        name = each.name
        if not is_plain(each.type):
            findings.error(where, f"column {name} has a type that is not read", f"{each.type}"[:80])
            continue
        refuse_unsound(pa.schema([each]))
        found = _kind(each.type)
        if found in _CLIENT_PANICS:
            findings.error(where, f"column {name} has a type that crashes the vendor's client", found)
        elif name not in wanted:
            findings.note(where, f"column {name} is not of schema {version}", found)
        elif found in wanted[name]:
            good.append(name)
        elif name == "frame" and found in {"UInt32", "UInt64"}:
            good.append(name)
            findings.warning(where, f"column frame is not of the type of schema {version}", found)
        else:
            findings.error(where, f"column {name} is {found}, expected {' or '.join(wanted[name])}")
    must = columns("2025.01", ()) if version == "2025.01" else ("name", "frame", "group")
    for name in must:
        if name in schema.names or name in {"degradation", "status"}:
            continue
        if name in {"name", "frame", "group"}:
            findings.error(where, f"no column {name}")
        else:
            findings.warning(where, f"no column {name}, which schema {version} has")
    return tuple(good)


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


def _frames(file: ArrowTable) -> Iterator[Columns]:
    for batch in file.batches():
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = batch.slice(start, ROWS_AT_ONCE)
            yield dict(zip(rows.schema.names, rows.columns, strict=True))


def _values(column: Any) -> list[Any]:  # noqa: ANN401 - pyarrow has no types
    """The values of a column: of vectors tuples, which compare with each other."""
    if not pa.types.is_fixed_size_list(column.type):
        return list(column.to_pylist())
    found: list[Any] = [None] * len(column)
    vectors = matrix(column)
    for row in known(column).tolist():
        found[row] = tuple(vectors[row].tolist())
    return found


def _hold(frame: Columns, wanted: Iterable[str]) -> Bad:
    """Which rows have a value in any of these columns (N,)."""
    found = np.zeros(len(frame["name"]), np.bool_)
    for name in frame.keys() & set(wanted):
        found[known(frame[name])] = True
    return found


def _check_batch(table: Table, frame: Columns, seen: SensorFiles, findings: Findings) -> None:
    where, count = table.path.name, len(frame["name"])
    drawn, labelled = _hold(frame, GEOMETRY), _hold(frame, ("label",))
    located = "location" in table.usable
    steady = [name for name in PER_SAMPLE if name in table.usable]
    shared = list(zip(*(_values(frame[name]) for name in steady), strict=True)) or [()] * count
    rows = zip(
        frame["name"].to_pylist(),
        frame["frame"].to_pylist(),
        shared,
        (drawn | labelled).tolist(),
        (drawn & ~labelled).tolist(),
        strict=True,
    )
    for number, (name, number_in, values, annotated, unlabelled) in enumerate(rows):
        at = f"{where}@row {table.rows + number}"
        if name is None or number_in is None:
            findings.error(at, "row without name or frame")
            continue
        before = seen.samples.add(name, number_in, ANNOTATED if annotated else BARE)
        if not before & FILES:
            findings.error(at, "its sample has no files", f"frame {number_in} of {name}")
        if before & BARE or (before & ANNOTATED and not annotated):
            findings.error(at, "row without annotation, although its sample has other rows")
        if "group" in table.usable and (group := values[steady.index("group")]) not in GROUPS:
            findings.error(at, "group is not train, val or test", str(group))
        if unlabelled:
            findings.warning(at, "annotation without a label")
        if table.last[:2] == (name, number_in) and table.last[2:] != values:
            findings.error(at, f"{', '.join(steady)} differ from the previous row of the sample")
        if located and table.last[:2] != (name, number_in) and (location := values[steady.index("location")]):
            table.locations.setdefault(name, FrameLocations()).add(number_in, location)
        table.last = (name, number_in, *values)
    check_values(frame, table, seen.sizes, findings)
    table.rows += count


def _check_samples(table: Table, seen: SensorFiles, findings: Findings) -> None:
    """Check that all samples have rows."""
    if not {"name", "frame"} <= set(table.usable):
        return
    for sequence in seen.samples.sequences():
        for number, bits in seen.samples.of(sequence):
            if bits & FILES and not bits & ROWS:
                findings.error(f"{table.path.name}@{sequence}", "sample has no row", f"frame {number}")
