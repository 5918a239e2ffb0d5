"""What a catalogue says of a dataset: a row a sample, from its tables and the names of its files alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from edgefirst_ros.formats.edgefirst.options import drive_of
from edgefirst_ros.formats.edgefirst.read.files import DatasetFiles, Entry, find_stems, in_order
from edgefirst_ros.formats.edgefirst.read.rows import is_longitude_first, is_yaw_first
from edgefirst_ros.formats.edgefirst.store.archive import MANIFEST, QUALITY, TABLE
from edgefirst_ros.formats.edgefirst.store.arrowfile import LABELLED, read_quality
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
"""Columns of a catalogue that are columns of quality.parquet."""
OFFSETS = tuple(f"{role}_offset_ms" for role in COMPANIONS)
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
        *(pa.field(name, pa.float32()) for name in ("yaw_deg", "speed_mps")),
        pa.field("position_basis", pa.string()),
        pa.field("position_sigma_m", pa.float32()),
        pa.field("rotation_basis", pa.string()),
        pa.field("rotation_sigma_deg", pa.float32()),
        *(pa.field(name, pa.float32()) for name in OFFSETS),
        *(pa.field(name, pa.bool_()) for name in LABELLED.values()),
        *(pa.field(name, pa.float32()) for name in MEASURED),
        pa.field("group", pa.string()),
        pa.field(VERSION, pa.string(), nullable=False),
    ]
)
"""Columns of a catalogue, in order; those of classes follow."""
COUNT = pa.int32()
"""Type of the columns of classes."""


def with_classes(names: Iterable[str]) -> pa.Schema:
    """The columns of a catalogue in which these columns of classes occur."""
    return pa.schema([*COLUMNS, *(pa.field(name, COUNT) for name in sorted(set(names)))])


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that is to be in a catalogue.

    Attributes:
        shown: what its rows call it: a URL, or a path, relative to the catalogue's folder if it is below it.
        name: of the dataset.
        version: what tells it from any other in its place.
        open: a folder with its tables, and its manifest or its sensor files.
    """

    shown: str
    name: str
    version: str
    open: Callable[[], AbstractContextManager[Path]]


def rows_of(dataset: Dataset) -> pa.Table:
    """The rows of a catalogue for a dataset.

    Raises:
        DatasetNotFound: there is no finished dataset.
        DatasetError: it is damaged.
    """
    with dataset.open() as folder, refusing(dataset.shown, DatasetError):
        manifest = folder / f"{dataset.name}{MANIFEST}"
        if manifest.is_file():
            files = frozenset(each.name for each in listed(manifest, MADE_BY)) - {TABLE, QUALITY}
        else:
            files = DatasetFiles(folder, dataset.name).names
        rows = _Rows.read(folder / f"{dataset.name}{TABLE}", len(files))
        stems = find_stems(files, [(sequence, frame) for sequence, frame, _ in rows.samples])
        entries = in_order(rows.samples, stems)
        quality = _quality(folder / QUALITY, len(files), entries)
    if not entries:
        return COLUMNS.empty_table()
    alike = {DATASET: dataset.shown, "drive": drive_of(e.sequence for e in entries), VERSION: dataset.version}
    at = np.array([-1 if entry.row is None else entry.row for entry in entries])
    columns = {
        **{name: pa.array([value] * len(entries), pa.string()) for name, value in alike.items()},
        "sequence": pa.array([entry.sequence for entry in entries], pa.string()),
        "frame": pa.array([entry.frame for entry in entries], pa.int64()),
        "group": pa.array([entry.group for entry in entries], pa.string()),
        **{n: _column(quality, of) for n, of in {**MEASURED, **_SAME}.items()},
        **_pose(rows, at, quality),
    }
    columns |= _counts(rows, at, columns)
    schema = with_classes(columns.keys() - {*COLUMNS.names})
    found = [columns.get(each.name) for each in schema]
    arrays = [
        pa.nulls(len(entries), field.type) if column is None else column.cast(field.type)
        for column, field in zip(found, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


_SAME = {
    name: name
    for name in (*OFFSETS, *LABELLED.values(), "speed_mps", "position_sigma_m", "rotation_sigma_deg")
}
"""Columns of quality.parquet that have the same name in a catalogue."""


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
        keys = [*zip(map(str, table["name"].to_pylist()), table["frame"].to_pylist(), strict=True)]
        group = _texts(table, "group") or [None] * len(keys)
        numbers: dict[tuple[str, int | None], int] = {}
        of = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        first = np.unique(of, return_index=True)[1].astype(np.int64)
        samples = [(*key, group[row]) for key, row in zip(numbers, first.tolist(), strict=True)]
        return cls(table, samples, of, first)

    def vectors(
        self, name: str, at: npt.NDArray[np.int64], is_reversed: Callable[..., bool], width: int
    ) -> Floats:
        """What the rows of these samples share (N, width), NaN where one has none."""
        missing = np.full((len(at), width), math.nan)
        if name not in self.table.schema.names or not len(self.first):
            return missing
        column = self.table[name].combine_chunks()
        if not pa.types.is_fixed_size_list(column.type) or column.type.list_size != width:
            return missing
        version = (self.table.schema.metadata or {}).get(b"schema_version", b"").decode() or None
        rows = column.take(pa.array(self.first)).to_pylist()
        found = np.array([row or [math.nan] * width for row in rows], np.float64).reshape(-1, width)
        if is_reversed(version, is_double=pa.types.is_float64(column.type.value_type)):
            found = found[:, ::-1]
        return np.where((at >= 0)[:, None], found[at], missing)

    def has(self, *names: str) -> npt.NDArray[np.bool_]:
        """Rows that have a value in one of the columns which is not false (rows,)."""
        found = np.zeros(len(self.of), np.bool_)
        for name in {*names} & {*self.table.schema.names}:
            column = self.table[name]
            is_flag = pa.types.is_boolean(column.type)
            found |= (pc.fill_null(column, False) if is_flag else pc.is_valid(column)).to_numpy()
        return found


def _texts(table: pa.Table, name: str) -> list[str | None] | None:
    if name not in table.schema.names:
        return None
    return [None if value is None else str(value) for value in table[name].to_pylist()]


def _quality(path: Path, files: int, entries: Sequence[Entry]) -> pa.Table | None:
    """The rows of quality.parquet for samples, in their order, null where it has none."""
    if not path.is_file():
        return None
    table = read_quality(path, files)
    keys = zip(table["name"].to_pylist(), table["frame"].to_pylist(), strict=True)
    numbers = {key: number for number, key in enumerate(keys)}
    return table.take(pa.array([numbers.get(entry.key) for entry in entries], pa.int64()))


def _column(quality: pa.Table | None, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    return None if quality is None or name not in quality.schema.names else quality[name].combine_chunks()


def _pose(rows: _Rows, at: npt.NDArray[np.int64], quality: pa.Table | None) -> dict[str, Any]:
    """Time and place, yaw, and what these rest on."""
    place = rows.vectors("location", at, is_longitude_first, 2)
    yaw_deg = rows.vectors("pose", at, is_yaw_first, 3)[:, 2]
    time = _column(quality, "time_ns")
    found = {
        "time": None if time is None else time.cast(pa.timestamp("ns")),
        **{
            name: pa.array(values, mask=~np.isfinite(values))
            for name, values in (("latitude", place[:, 0]), ("longitude", place[:, 1]), ("yaw_deg", yaw_deg))
        },
    }
    for name in ("position_basis", "rotation_basis"):
        code = _column(quality, name)
        found[name] = None if code is None else _BASES.take(code.cast(pa.int64()))
    return found


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
        stated = columns[name]
        # Of others nobody says it: what was looked for is what there is, by the vendor's rule.
        there = np.zeros(len(at), np.bool_) if stated is None else np.array(stated.fill_null(False))
        missing = np.ones(len(at), np.bool_) if stated is None else np.array(stated.is_null())
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
        **{_named(label): pa.array(counts[:, n], COUNT, mask=~done) for label, n in codes.items()},
    }


def _named(label: str) -> str:
    """The column with the number of objects of a class; no other column has the name, in any case."""
    return f"{CLASS}{label}" if label.lower() in {name.lower() for name in COLUMNS.names} else label
