"""What a catalogue says of a dataset: a row a sample, from its tables and the names of its files alone.

Columns of a catalogue, in order; those of classes follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from edgefirst_ros.formats.crashsafe.manifest import listed
from edgefirst_ros.formats.edgefirst.finish import MADE_BY, read_table
from edgefirst_ros.formats.edgefirst.read.decoding import DECODERS
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles, Entry, find_stems, in_order
from edgefirst_ros.formats.edgefirst.read.rows import is_longitude_first, is_yaw_first
from edgefirst_ros.formats.edgefirst.split import drive_of
from edgefirst_ros.formats.edgefirst.store.archive import MANIFEST, QUALITY, TABLE
from edgefirst_ros.formats.edgefirst.store.arrowfile import LABELLED, ArrowTable
from edgefirst_ros.formats.edgefirst.store.journal import COMPANIONS
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.sample import PoseBasis
from edgefirst_ros.model.untrusted import refusing

Floats = npt.NDArray[np.float64]
MEASURED = {
    "luminance": "camera_luminance",
    "contrast": "camera_contrast",
    "sharpness": "camera_sharpness",
    "clipped": "camera_clipped",
    "repeated": "camera_repeated",
    **{name: name for name in ("lidar_points", "lidar_zeros", "lidar_sectors", "lidar_repeated")},
}
"""Columns of a catalogue that are columns of quality.arrow."""
OFFSETS = tuple(f"{role}_offset_ms" for role in COMPANIONS)
FILES = {f"{key}_uri": kinds for key, (kinds, _) in DECODERS.items() if key != "time_ns"}
"""Columns that say where a sample's files are, and the kinds of file, of which it has one."""
DATASET, VERSION, CLASS = "dataset", "version", "class_"
_BASES = pa.array([str(basis) for basis in PoseBasis])
COLUMNS = pa.schema(
    [
        pa.field(DATASET, pa.string(), nullable=False),
        pa.field("drive", pa.string(), nullable=False),
        pa.field("sequence", pa.string(), nullable=False),
        pa.field("frame", pa.int64()),
        pa.field("time", pa.timestamp("ns")),
        *(pa.field(name, pa.float64()) for name in ("latitude", "longitude")),
        *(pa.field(name, pa.float32()) for name in ("yaw_deg", "speed_mps", "turn_dps")),
        pa.field("position_basis", pa.string()),
        pa.field("position_sigma_m", pa.float32()),
        pa.field("rotation_basis", pa.string()),
        pa.field("rotation_sigma_deg", pa.float32()),
        *(pa.field(name, pa.float32()) for name in OFFSETS),
        *(pa.field(name, pa.bool_()) for name in LABELLED.values()),
        *(pa.field(name, pa.float32()) for name in MEASURED),
        pa.field("light", pa.string()),
        pa.field("group", pa.string()),
        *(pa.field(name, pa.string()) for name in FILES),
        pa.field(VERSION, pa.string(), nullable=False),
    ]
)
COUNT = pa.int32()
"""Type of the columns of classes."""
ROWS = 50_000
"""Of a row group, at most; half an hour of one camera."""
TURN_NS = 1_000_000_000
"""Over longer times a rig may have turned there and back."""
TWILIGHT_DEG = -6.0
"""Elevation of the sun at which civil twilight ends, and lamps are needed."""


def column_of(label: str) -> str:
    """The column with the number of objects of a class; no other column has the name, in any case."""
    return f"{CLASS}{label}" if label.lower() in {name.lower() for name in COLUMNS.names} else label


def with_classes(labels: Iterable[str]) -> pa.Schema:
    """The columns of a catalogue in which these columns of classes occur."""
    return pa.schema([*COLUMNS, *(pa.field(name, COUNT) for name in sorted(set(labels)))])


@dataclass(frozen=True, slots=True)
class _Rows:
    """The annotation table by sample: what its samples are, and of which of them each row is."""

    table: pa.Table
    samples: list[tuple[str, int | None, str | None]]
    of: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]

    @classmethod
    def read(cls, path: Path, files: int) -> _Rows:
        wanted = ("name", "frame", "group", "label", "exclude", "ignore", "iscrowd", "location", "pose")
        table = read_table(path, *wanted, "box2d", "box3d", files=files).combine_chunks()
        names = [str(name) for name in table["name"].to_pylist()]
        keys = [*zip(names, table["frame"].to_pylist(), strict=True)]
        group = _texts(table, "group") or [None] * len(keys)
        numbers: dict[tuple[str, int | None], int] = {}
        of = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        first = np.unique(of, return_index=True)[1].astype(np.int64)
        samples = [(*key, group[row]) for key, row in zip(numbers, first.tolist(), strict=True)]
        return cls(table, samples, of, first)

    def vector(self, name: str, *, is_reversed: Any) -> Floats | None:  # noqa: ANN401 - of rows.py
        """What the rows of a sample share (samples, k), NaN where it has none; None without the column."""
        if name not in self.table.schema.names:
            return None
        column = self.table[name].combine_chunks()
        if not pa.types.is_fixed_size_list(column.type):
            return None
        version = (self.table.schema.metadata or {}).get(b"schema_version", b"").decode() or None
        swaps = is_reversed(version, is_double=pa.types.is_float64(column.type.value_type))
        width = column.type.list_size
        rows = column.take(pa.array(self.first)).to_pylist()
        found = np.array([row or [math.nan] * width for row in rows], np.float64).reshape(-1, width)
        return np.ascontiguousarray(found[:, ::-1]) if swaps else found

    def has(self, *names: str) -> npt.NDArray[np.bool_]:
        """Rows that have a value in one of the columns which is not false (rows,)."""
        found = np.zeros(len(self.of), np.bool_)
        for name in {*names} & {*self.table.schema.names}:
            column = self.table[name]
            is_flag = pa.types.is_boolean(column.type)
            told = pc.fill_null(column, False) if is_flag else pc.is_valid(column)
            found |= told.to_numpy()
        return found


def _texts(table: pa.Table, name: str) -> list[str | None] | None:
    if name not in table.schema.names:
        return None
    return [None if value is None else str(value) for value in table[name].to_pylist()]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that is to be in a catalogue.

    Attributes:
        shown: what its rows call it: a URL, or a path, relative to the catalogue's folder if it is below it.
        name: of the dataset.
        version: what tells it from any other in its place.
        is_packed: whether its sensor files are in a ZIP.
        open: a folder with its tables, and its manifest or its sensor files.
    """

    shown: str
    name: str
    version: str
    is_packed: bool
    open: Callable[[], AbstractContextManager[Path]]


def rows_of(dataset: Dataset) -> Iterator[pa.Table]:
    """The rows of a catalogue for a dataset, in portions.

    Raises:
        DatasetNotFound: there is no finished dataset.
        DatasetError: it is damaged.
    """
    with dataset.open() as folder, refusing(dataset.shown, DatasetError):
        yield from _rows_of(folder, dataset)


def _rows_of(folder: Path, dataset: Dataset) -> Iterator[pa.Table]:
    name, shown = dataset.name, dataset.shown
    manifest = folder / f"{name}{MANIFEST}"
    if manifest.is_file():
        files = frozenset(each.name for each in listed(manifest, MADE_BY)) - {TABLE, QUALITY}
    else:
        files = DatasetFiles(folder, name).names
    rows = _Rows.read(folder / f"{name}{TABLE}", len(files))
    stems = find_stems(files, [(sequence, frame) for sequence, frame, _ in rows.samples])
    entries = in_order(rows.samples, stems)
    if not entries:
        return
    top = shown.removesuffix(f"/{name}{TABLE}")
    where = f"zip://{{}}::{top}/{name}.zip" if dataset.is_packed else f"{top}/{name}/{{}}"
    quality = _quality(folder / QUALITY, len(files), entries)
    at = np.array([-1 if entry.row is None else entry.row for entry in entries])
    columns = {
        **_fixed(entries, shown, dataset.version),
        **_motion(rows, at, quality, entries),
        **_sensors(quality),
    }
    columns |= _counts(rows, at, columns)
    schema = with_classes(columns.keys() - {*COLUMNS.names})
    for start in range(0, len(entries), ROWS):
        part = entries[start : start + ROWS]
        uris = {
            column: [
                next(
                    (where.format(path) for s in stems.get(e.key, ()) if (path := _file(files, s, kinds))),
                    None,
                )
                for e in part
            ]
            for column, kinds in FILES.items()
        }
        parts = {column: pa.array(values, pa.string()) for column, values in uris.items()}
        parts |= {name: each.slice(start, ROWS) for name, each in columns.items() if each is not None}
        arrays = [
            parts[each.name].cast(each.type) if each.name in parts else pa.nulls(len(part), each.type)
            for each in schema
        ]
        yield pa.Table.from_arrays(arrays, schema=schema)


def _file(files: frozenset[str], stem: str, kinds: Sequence[str]) -> str | None:
    return next((path for kind in kinds if (path := f"{stem}.{kind}") in files), None)


def _fixed(entries: Sequence[Entry], shown: str, version: str) -> dict[str, Any]:
    drive = drive_of(entry.sequence for entry in entries)
    alike = {DATASET: shown, "drive": drive, VERSION: version}
    return {
        **{name: pa.array([value] * len(entries), pa.string()) for name, value in alike.items()},
        "sequence": pa.array([entry.sequence for entry in entries], pa.string()),
        "frame": pa.array([entry.frame for entry in entries], pa.int64()),
        "group": pa.array([entry.group for entry in entries], pa.string()),
    }


def _quality(path: Path, files: int, entries: Sequence[Entry]) -> pa.Table | None:
    """The rows of quality.arrow for samples, in their order, null where it has none."""
    if not path.is_file():
        return None
    opened = ArrowTable(path, files=files)
    with opened.readable():
        table = pa.Table.from_batches([*opened.batches()], opened.schema)
        keys = zip(table["name"].to_pylist(), table["frame"].to_pylist(), strict=True)
        numbers = {key: number for number, key in enumerate(keys)}
        return table.take(pa.array([numbers.get(entry.key) for entry in entries], pa.int64()))


def _column(quality: pa.Table | None, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    known = quality is not None and name in quality.schema.names
    return quality[name].combine_chunks() if known and quality is not None else None


def _sensors(quality: pa.Table | None) -> dict[str, Any]:
    names = {**MEASURED, **{name: name for name in (*OFFSETS, *LABELLED.values())}}
    return {name: _column(quality, source) for name, source in names.items()}


def _motion(
    rows: _Rows, at: npt.NDArray[np.int64], quality: pa.Table | None, entries: Sequence[Entry]
) -> dict[str, Any]:
    """Time, place, speed, turn, how well each is known, and how light it is."""
    time = _column(quality, "time_ns")
    found = {name: _column(quality, name) for name in ("speed_mps", "position_sigma_m", "rotation_sigma_deg")}
    for name in ("position_basis", "rotation_basis"):
        code = _column(quality, name)
        found[name] = None if code is None else _BASES.take(code.cast(pa.int64()))
    place = _of_samples(rows.vector("location", is_reversed=is_longitude_first), at, 2)
    yaw_deg = _of_samples(rows.vector("pose", is_reversed=is_yaw_first), at, 3)[:, 2]
    found |= {"latitude": _known(place[:, 0]), "longitude": _known(place[:, 1]), "yaw_deg": _known(yaw_deg)}
    if time is not None:
        sequence = np.unique([entry.sequence for entry in entries], return_inverse=True)[1]
        time_ns = np.array(time.fill_null(0))
        known = np.array(time.is_valid())
        found["turn_dps"] = _known(np.where(known, _turns(sequence, time_ns, yaw_deg), math.nan))
        sun_deg = np.where(known, sun_elevation_deg(time_ns, place[:, 0], place[:, 1]), math.nan)
        light = np.select([sun_deg > 0, sun_deg > TWILIGHT_DEG], ["day", "twilight"], "night")
        found["light"] = pa.array(light.tolist(), pa.string(), mask=np.isnan(sun_deg))
        found["time"] = time.cast(pa.timestamp("ns"))
    return found


def _of_samples(values: Floats | None, at: npt.NDArray[np.int64], width: int) -> Floats:
    """Values of the table's samples for those of the dataset (N, width), NaN for those without rows."""
    if values is None or not len(values):
        return np.full((len(at), width), math.nan)
    return np.where((at >= 0)[:, None], values[at], math.nan)


def _known(values: Floats) -> Any:  # noqa: ANN401 - pyarrow has no types
    return pa.array(values, mask=~np.isfinite(values))


def _turns(sequence: npt.NDArray[np.int64], time_ns: npt.NDArray[np.int64], yaw_deg: Floats) -> Floats:
    """Turn rate to the left in degrees a second (N,), by the samples before and after."""
    found = np.full(len(time_ns), math.nan)
    step_ns, turned_deg = np.diff(time_ns), (np.diff(yaw_deg) + 180) % 360 - 180
    good = (np.diff(sequence) == 0) & (step_ns > 0) & (step_ns <= TURN_NS)
    rates = np.where(good, turned_deg / np.where(good, step_ns, 1) * 1e9, math.nan)
    both = np.stack([np.append(math.nan, rates), np.append(rates, math.nan)])
    some = np.isfinite(both)
    count = some.sum(axis=0)
    np.divide(np.where(some, both, 0).sum(axis=0), count, out=found, where=count > 0)
    return found


def sun_elevation_deg(time_ns: npt.NDArray[np.int64], latitude_deg: Floats, longitude_deg: Floats) -> Floats:
    """How high the sun stands (N,), to half a degree; NaN where the place is.

    Source: the low-precision formulas of the Astronomical Almanac, section C.
    """
    days = time_ns / 86_400e9 - 10_957.5  # since noon of the first of January 2000
    mean = np.radians(357.528 + 0.9856003 * days)
    along = np.radians(280.460 + 0.9856474 * days + 1.915 * np.sin(mean) + 0.020 * np.sin(2 * mean))
    tilt = np.radians(23.439 - 4e-7 * days)
    right = np.arctan2(np.cos(tilt) * np.sin(along), np.cos(along))
    declination = np.arcsin(np.sin(tilt) * np.sin(along))
    sidereal_deg = 280.46061837 + 360.98564736629 * days
    hour = np.radians(sidereal_deg + longitude_deg) - right
    latitude = np.radians(latitude_deg)
    up = np.sin(latitude) * np.sin(declination) + np.cos(latitude) * np.cos(declination) * np.cos(hour)
    elevation_deg: Floats = np.degrees(np.arcsin(up))
    return elevation_deg


def _counts(rows: _Rows, at: npt.NDArray[np.int64], columns: Mapping[str, Any]) -> dict[str, Any]:
    """How many objects of each class a sample has, null where nobody looked.

    An object has a 2-D box; where nobody looked for those, a 3-D box; else a mask.
    """
    labels = _texts(rows.table, "label") or []
    dropped = rows.has("exclude", "ignore", "iscrowd")
    drawn = {"box2d_labelled": rows.has("box2d"), "box3d_labelled": rows.has("box3d")}
    drawn["mask_labelled"] = rows.has("label")
    looked: dict[str, npt.NDArray[np.bool_]] = {}
    for name, has in drawn.items():
        told = columns[name]
        # Of others nobody says it: what was looked for is what there is, by the vendor's rule.
        there = np.zeros(len(at), np.bool_) if told is None else np.array(told.fill_null(False))
        missing = np.ones(len(at), np.bool_) if told is None else np.array(told.is_null())
        looked[name] = there | (missing & bool(has.any()))
    codes = {label: number for number, label in enumerate(sorted({x for x in labels if x is not None}))}
    counts = np.zeros((len(at), len(codes)), np.int32)
    done = np.zeros(len(at), np.bool_)
    code = np.array([-1 if label is None else codes[label] for label in labels], np.int64)
    for name, has in drawn.items():
        use = looked[name] & ~done
        chosen = has & ~dropped & (code >= 0) if len(code) else np.zeros(0, np.bool_)
        found = np.zeros((max(len(rows.samples), 1), len(codes)), np.int32)
        np.add.at(found, (rows.of[chosen], code[chosen]), 1)
        counts[use] = np.where((at >= 0)[:, None], found[at], 0)[use]
        done |= use
    return {
        **{name: pa.array(looked[name]) for name in looked},
        **{
            column_of(label): pa.array(counts[:, number], COUNT, mask=~done)
            for label, number in codes.items()
        },
    }
