"""Checks the annotation table in batches: columns, types, samples, groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.edgefirst.check.files import SensorFiles
from edgefirst_ros.formats.edgefirst.check.motion import FrameLocations, check_motion
from edgefirst_ros.formats.edgefirst.check.samples import ANNOTATED, BARE, FILES, ROWS
from edgefirst_ros.formats.edgefirst.check.values import Table, check_values
from edgefirst_ros.formats.edgefirst.finish.columns import columns
from edgefirst_ros.formats.edgefirst.finish.table import refuse_unsound
from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable, is_plain
from edgefirst_ros.formats.findings import Findings
from edgefirst_ros.model.untrusted import refusing

ROWS_AT_ONCE = 1 << 15
GROUPS = frozenset({"train", "val", "test"})
GEOMETRY = ("mask", "polygon", "box2d", "box3d")
PER_SAMPLE = ("group", "size", "location", "pose", "degradation")

_NAMED = (pl.Categorical, pl.Enum)
_SCORE = (pl.Float32,)
_FURTHER: Mapping[str, tuple[Any, ...]] = {
    "polygon_score": _SCORE,
    "mask_score": _SCORE,
    "ignore": (pl.Boolean,),
    "exclude": (pl.Boolean,),
    "iscrowd": (pl.Boolean,),
    "category_frequency": _NAMED,
    "truncation": (pl.UInt32,),
    "occlusion": (pl.UInt32,),
    "degradation": (pl.String, *_NAMED),
    "neg_label_indices": (pl.List(pl.UInt32),),
    "not_exhaustive_label_indices": (pl.List(pl.UInt32),),
    "timing": (pl.Struct,),
}
"""Columns that the vendor's client writes and this package does not."""

_CLIENT_PANICS = (
    pl.UInt8,
    pl.Int8,
    pl.UInt16,
    pl.Int16,
    pl.Date,
    pl.Datetime,
    pl.Time,
    pl.Duration,
    pl.Decimal,
)


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
    for field in schema:
        name = field.name
        if not is_plain(field.type):
            findings.error(where, f"column {name} has a type that is not read", f"{field.type}"[:80])
            continue
        alone = pa.schema([field])
        refuse_unsound(alone)
        (dtype,) = pl.DataFrame(alone.empty_table()).dtypes
        if dtype.base_type() in _CLIENT_PANICS:
            findings.error(where, f"column {name} has a type that crashes the vendor's client", str(dtype))
        elif name not in wanted:
            findings.note(where, f"column {name} is not of schema {version}", str(dtype))
        elif any(dtype == each for each in wanted[name]):
            good.append(name)
        elif name == "frame" and dtype in {pl.UInt32, pl.UInt64}:
            good.append(name)
            findings.warning(where, f"column frame is not of the type of schema {version}", str(dtype))
        else:
            expected = " or ".join(map(str, wanted[name]))
            findings.error(where, f"column {name} is {dtype}, expected {expected}")
    must = columns("2025.01", ()) if version == "2025.01" else ("name", "frame", "group")
    for name in must:
        if name in schema.names or name in {"degradation", "status"}:
            continue
        if name in {"name", "frame", "group"}:
            findings.error(where, f"no column {name}")
        else:
            findings.warning(where, f"no column {name}, which schema {version} has")
    return tuple(good)


def _wanted(version: str) -> dict[str, tuple[Any, ...]]:
    """Allowed types by column name."""
    own = columns("2025.01" if version == "2025.01" else "2026.10", ())
    wanted: dict[str, tuple[Any, ...]] = {} if version == "2025.01" else dict(_FURTHER)
    for name, column in own.items():
        named = column.dtype == pl.Categorical or isinstance(column.dtype, pl.Enum)
        wanted[name] = _NAMED if named else (column.dtype,)
    if version == "2025.01":
        wanted["name"] = (pl.String, *_NAMED)
    elif version == "2025.10":
        wanted["mask"] = (pl.List(pl.Float32),)
    return wanted


def _frames(file: ArrowTable) -> Iterator[pl.DataFrame]:
    for batch in file.batches():
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield pl.DataFrame(pa.Table.from_batches([batch.slice(start, ROWS_AT_ONCE)]))


def _check_batch(table: Table, frame: pl.DataFrame, seen: SensorFiles, findings: Findings) -> None:
    where = table.path.name
    filled = [pl.col(name).is_not_null() for name in ("label", *GEOMETRY) if name in frame.columns]
    drawn = [pl.col(name).is_not_null() for name in GEOMETRY if name in frame.columns]
    facts = frame.select(
        pl.col("name").cast(pl.String),
        pl.col("frame"),
        pl.any_horizontal(filled).alias("annotated") if filled else pl.lit(value=False).alias("annotated"),
        pl.any_horizontal(drawn).alias("drawn") if drawn else pl.lit(value=False).alias("drawn"),
    )
    located = "location" in table.usable
    steady = [name for name in PER_SAMPLE if name in table.usable]
    labels = frame["label"].is_null() if "label" in frame.columns else pl.Series([False] * len(frame))
    groups = frame["group"].cast(pl.String) if "group" in table.usable else [None] * len(frame)
    rows = zip(
        facts.iter_rows(), frame.select(steady).rows() or [()] * len(frame), labels, groups, strict=True
    )
    for number, ((name, number_in, annotated, has_shape), values, unlabelled, group) in enumerate(rows):
        at = f"{where}@row {table.rows + number}"
        if name is None or number_in is None:
            findings.error(at, "row without name or frame")
            continue
        before = seen.samples.add(name, number_in, ANNOTATED if annotated else BARE)
        if not before & FILES:
            findings.error(at, "its sample has no files", f"frame {number_in} of {name}")
        if before & BARE or (before & ANNOTATED and not annotated):
            findings.error(at, "row without annotation, although its sample has other rows")
        if "group" in table.usable and group not in GROUPS:
            findings.error(at, "group is not train, val or test", str(group))
        if has_shape and unlabelled:
            findings.warning(at, "annotation without a label")
        if table.last[:2] == (name, number_in) and table.last[2:] != values:
            findings.error(at, f"{', '.join(steady)} differ from the previous row of the sample")
        if located and table.last[:2] != (name, number_in) and (location := values[steady.index("location")]):
            table.locations.setdefault(name, FrameLocations()).add(number_in, location)
        table.last = (name, number_in, *values)
    check_values(frame, table, seen.sizes, findings)
    table.rows += len(frame)


def _check_samples(table: Table, seen: SensorFiles, findings: Findings) -> None:
    """Check that all samples have rows."""
    if not {"name", "frame"} <= set(table.usable):
        return
    for sequence in seen.samples.sequences():
        for number, bits in seen.samples.of(sequence):
            if bits & FILES and not bits & ROWS:
                findings.error(f"{table.path.name}@{sequence}", "sample has no row", f"frame {number}")
