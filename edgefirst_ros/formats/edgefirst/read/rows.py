"""Rows of the annotation table by sample, read from the mapped file when they are asked for.

Without polars, whose threads do not survive a fork.

Outlines of masks that are stored as PNG: of one object, or of a class for each value.

In which order a table has the values of ``location`` and ``pose``, which depends on its schema version.

============ ===================== ================= ======================================================
version      location              pose              source
============ ===================== ================= ======================================================
2025.01      longitude, latitude   roll, pitch, yaw  the vendor's published article, in 64-bit floats
2025.10      latitude, longitude   yaw, pitch, roll  the vendor's client of that time, in 32-bit floats
2026.04      latitude, longitude   yaw, pitch, roll  the same, and DATASET_FORMAT.md, which confirms the order
2026.10      latitude, longitude   roll, pitch, yaw  the vendor's client 2.19 (``ImuData``)
============ ===================== ================= ======================================================

A version that is not known yet is read as the newest. By the vendor's rule a table without ``schema_version``
is of 2025.10, unless its columns say otherwise: 64-bit floats are those of the article. One edition of
DATASET_FORMAT.md has roll first in 2025.10; the client that wrote these files never did.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgefirst_ros.formats.edgefirst.prepare.annotations import outline
from edgefirst_ros.formats.edgefirst.read.batches import TableFile
from edgefirst_ros.formats.edgefirst.read.local import TablePath
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.pictures import check_size, open_picture
from edgefirst_ros.model.untrusted import refusing

Ring = npt.NDArray[np.float32]
_DEPTH_AT, _CHUNKS_AT = 24, 8
_MOST_PIXELS, _MOST_TRACED = 1 << 23, 1 << 28
"""Of a mask: 4K fits; and times its classes, as each outline is traced over the whole mask."""
_PIXELS = 0
"""The unit of an offset in pixels."""


def object_rings(png: bytes, size: list[int] | None) -> list[Ring]:
    """The outline of a mask of one object: pixels of at least half of the largest value are of it.

    So the vendor reads masks of two values, confidences and sigmoid scores. 0 and 1 in more than one bit
    are two values, too.

    Args:
        png: gray, of 1 to 16 bits.
        size: width and height of the picture in pixels, if known.

    Raises:
        ValueError: it is too large, or is a part of the picture whose size is not known.
        OSError: it is damaged.
    """
    values, largest = _values(png)
    if values.size and values.max() <= 1:
        largest = 1
    return _placed(outline(values.astype(np.uint32) * 2 > largest), values.shape, png, size)


def class_rings(png: bytes, size: list[int] | None) -> Iterator[tuple[int, list[Ring]]]:
    """Each value in a mask of classes, ascending, and its outline; see ``object_rings``."""
    values, _ = _values(png)
    classes = np.unique(values).tolist()
    check_size(values.shape[1], values.shape[0] * len(classes), _MOST_TRACED)
    for value in classes:
        yield value, _placed(outline(values == value), values.shape, png, size)


def _values(png: bytes) -> tuple[npt.NDArray[np.uint16], int]:
    """The values as they are stored, (height, width), and the largest that their bits can hold."""
    with open_picture(png) as image:
        check_size(*image.size, _MOST_PIXELS)
        bits = png[_DEPTH_AT]
        if image.mode in {"I;16", "I;16B", "I"}:
            return np.asarray(image).astype(np.uint16), 65535
        if image.mode in {"1", "P"}:
            return np.asarray(image).astype(np.uint16), (1 << bits) - 1
        gray = np.asarray(image.convert("L")).astype(np.uint16)
    if image.mode == "L" and bits < 8:  # Pillow stretches them to 8 bits
        largest = (1 << bits) - 1
        return gray // np.uint16(255 // largest), largest
    return gray, 255


def _placed(rings: list[Ring], shape: tuple[int, ...], png: bytes, size: list[int] | None) -> list[Ring]:
    """Rings of the raster as rings of the picture, of which it may be a part."""
    offset = _offset(png)
    if offset is None:
        return rings
    if size is None or not all(size):
        raise ValueError("it is a part of the picture, and the table has no size of that")
    pixels = np.array(shape[::-1], np.float64)
    return [((ring * pixels + offset) / size).astype(np.float32) for ring in rings]


def _offset(png: bytes) -> tuple[int, int] | None:
    """Where the raster begins in the picture (x, y in pixels), by its chunk oFFs; None if that is absent."""
    at = _CHUNKS_AT
    while at + 8 <= len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        if kind == b"oFFs" and length == 9 and at + 17 <= len(png):
            x, y, unit = struct.unpack_from(">iiB", png, at + 8)
            return (x, y) if unit == _PIXELS else None
        if kind == b"IDAT":
            return None
        at += 12 + length
    return None


_PUBLISHED = "2025.01"
_YAW_FIRST = frozenset({"2025.10", "2026.04"})
_UNSTATED = "2025.10"


def is_longitude_first(version: str | None, *, is_double: bool) -> bool:
    """Whether ``location`` is longitude, latitude.

    Args:
        version: the table's ``schema_version``; None if it states none.
        is_double: whether the column has 64-bit floats.
    """
    return _version(version, is_double=is_double) == _PUBLISHED


def is_yaw_first(version: str | None, *, is_double: bool) -> bool:
    """Whether ``pose`` is yaw, pitch, roll; see ``is_longitude_first``."""
    return _version(version, is_double=is_double) in _YAW_FIRST


def _version(version: str | None, *, is_double: bool) -> str:
    return version or (_PUBLISHED if is_double else _UNSTATED)


_INDEX = ("name", "frame", "group", "label", "exclude")
_CROWD = ("ignore", "iscrowd")
"""Columns that say what is to be ignored; the second was its name before 2026.10."""
_FACTS = ("location", "pose")
_LENGTHS = {"box2d": 4, "box3d": 6, "location": 2, "pose": 3}
_VALUES = ("label", "box2d", "box3d", "box2d_score", "box3d_score", "exclude", *_CROWD, *_FACTS)
_OUTLINES = ("polygon", "mask", "size")
_NO_FRAME = -1


@dataclass(frozen=True, slots=True)
class Row:
    """An annotation, in the same units and order in all schema versions; what it has not is None.

    Attributes:
        label: name of the class.
        box2d: centre x, y, width and height as fractions of the picture.
        box3d: centre x, y, z and extents along x, y, z in metres.
        score2d: confidence of the 2-D box, 0 to 1.
        score3d: of the 3-D box.
        is_ignored: whether it is no object, but a region to be left out of loss and evaluation.
        rings: outline of the mask: rings (P, 2) of x, y as fractions of the picture, filled by even-odd rule.
    """

    label: str | None
    box2d: list[float] | None
    box3d: list[float] | None
    score2d: float | None
    score3d: float | None
    is_ignored: bool
    rings: list[Ring] | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rows of a sample have in common.

    Attributes:
        location: latitude and longitude in degrees.
        pose: roll, pitch and yaw in degrees.
    """

    location: list[float] | None
    pose: list[float] | None


class AnnotationTable:
    """The annotation table of a dataset, an index of its samples in memory and the rest in the file.

    Rows that are to be excluded, which are objects of no class, are not read.

    Args:
        path: of the file.
        files: how many sensor files the dataset has, which bound its rows.

    Attributes:
        path: of the file.
        version: the schema version that it states, or None.
        samples: sequence, frame and group of each sample, in the order of the table. A picture that is of no
            sequence has no frame.
        labels: all labels: those that the file lists, in its order, then others, sorted.
        occurring: those of rows, sorted.

    Raises:
        DatasetError: it is damaged, or has no names and frames.
    """

    def __init__(self, path: TablePath, files: int) -> None:
        self.path = path
        self._file = TableFile(path, files)
        self._notes = self._file.notes
        self.version = self._notes.version
        with self._file.readable():
            self._index()

    def _index(self) -> None:
        """Find the rows of each sample: runs of rows in a batch, in the order of the samples."""
        there = self._file.types
        if missing := {"name", "frame"} - there.keys():
            raise DatasetError(f"{self.path} has no column {' and no '.join(sorted(missing))}")
        names, groups, labels = _Codes(), _Codes(), _Codes()
        listed = list(self._notes.labels or ())
        runs: list[npt.NDArray[np.int64]] = []
        self._first_rows = [0]
        for number in range(self._file.count):
            batch = self._file.batch(number, _INDEX)
            self._first_rows.append(self._first_rows[-1] + batch.num_rows)
            if not batch.num_rows:
                continue
            name = names.of(batch.column("name"))
            if (name < 0).any():
                raise DatasetError(f"{self.path} has a row without name")
            frame = self._frames(batch.column("frame"))
            group = groups.of(batch.column("group")) if "group" in there else np.full(len(name), -1)
            if "label" in there:
                column = batch.column("label")
                if not listed and pa.types.is_dictionary(column.type) and column.type.ordered:
                    listed = [str(label) for label in column.dictionary.to_pylist()]
                labels.of(column, None if "exclude" not in there else _flags(batch.column("exclude")))
            starts = np.flatnonzero((np.diff(name, prepend=-1) != 0) | (np.diff(frame, prepend=-1) != 0))
            counts = np.diff(starts, append=len(name))
            at = np.full(len(starts), number)
            runs.append(np.stack([name[starts], frame[starts], group[starts], at, starts, counts], axis=-1))
        whole = np.concatenate(runs) if runs else np.empty((0, 6), np.int64)
        _, first, sample = np.unique(whole[:, :2], axis=0, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        sample = rank[sample.reshape(-1)]
        order = np.argsort(sample, kind="stable")
        self._runs = whole[order, 3:]
        self._begin = np.searchsorted(sample[order], np.arange(len(first) + 1))
        self.samples = [
            (
                names.values[name],
                None if frame == _NO_FRAME else frame,
                groups.values[group] if group >= 0 else None,
            )
            for name, frame, group in whole[np.sort(first), :3].tolist()
        ]
        self.occurring = tuple(sorted(labels.values))
        self.labels = tuple(dict.fromkeys([*listed, *self.occurring]))

    def _frames(self, column: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401 - pyarrow has no types
        try:
            frames: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(_NO_FRAME).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DatasetError(f"{self.path}: column frame has no numbers of frames: {error}") from error
        return frames

    def _slices(self, sample: int, columns: tuple[str, ...]) -> Iterator[tuple[int, Any]]:
        """The rows of a sample, and the number of the first in the table."""
        first, last = self._begin[sample : sample + 2]
        for number, start, count in self._runs[first:last].tolist():
            rows = self._file.batch(number, columns).slice(start, count)
            yield self._first_rows[number] + start, rows

    def release(self) -> None:
        """Close the file until it is read again."""
        self._file.release()

    def facts(self, sample: int) -> Facts:
        """What the rows of a sample have in common; by its number in ``samples``.

        Raises:
            DatasetError: the table is damaged, or was replaced.
        """
        with self._file.readable():
            at, rows = next(self._slices(sample, _VALUES))
            location, pose = (
                self._vector(at, name, rows.column(name)[0].as_py()) if name in self._file.types else None
                for name in _FACTS
            )
        if location is not None and is_longitude_first(self.version, is_double=self._is_double("location")):
            location = location[::-1]
        if pose is not None and is_yaw_first(self.version, is_double=self._is_double("pose")):
            pose = pose[::-1]
        return Facts(location, pose)

    def _is_double(self, name: str) -> bool:
        found = self._file.types[name]
        return bool(pa.types.is_nested(found) and pa.types.is_float64(found.value_type))

    def rows(self, sample: int, *, with_masks: bool = True) -> list[Row]:
        """The rows of a sample; one without annotation if it has none.

        Raises:
            DatasetError: the table is damaged, or was replaced.
        """
        found: list[Row] = []
        with self._file.readable():
            outlines = self._slices(sample, _OUTLINES) if with_masks else None
            for at, values in self._slices(sample, _VALUES):
                masks = None if outlines is None else next(outlines)[1]
                found += self._annotations(at, values, masks)
        return found

    def _annotations(self, at: int, rows: Any, masks: Any) -> Iterator[Row]:  # noqa: ANN401 - pyarrow has no types
        columns = {name: rows.column(name).to_pylist() for name in _VALUES if name in self._file.types}
        crowd = next((columns[name] for name in _CROWD if name in columns), None)
        for number in range(rows.num_rows):
            value = {name: column[number] for name, column in columns.items()}
            if value.get("exclude"):
                continue
            label = value.get("label")
            row = Row(
                label=None if label is None else str(label),
                box2d=self._vector(at + number, "box2d", value.get("box2d")),
                box3d=self._vector(at + number, "box3d", value.get("box3d")),
                score2d=self._number(at + number, "box2d_score", value.get("box2d_score")),
                score3d=self._number(at + number, "box3d_score", value.get("box3d_score")),
                is_ignored=crowd is not None and bool(crowd[number]),
                rings=None,
            )
            yield from [row] if masks is None else self._with_rings(at + number, row, masks.slice(number, 1))

    def _vector(self, at: int, name: str, value: list[float | None] | None) -> list[float] | None:
        """The numbers of a row's column, NaN for null."""
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != _LENGTHS[name]:
            raise self._odd(at, name, f"it has not {_LENGTHS[name]} numbers")
        return [math.nan if (number := self._number(at, name, each)) is None else number for each in value]

    def _number(self, at: int, name: str, value: object) -> float | None:
        if value is None or isinstance(value, float | int):
            return value
        raise self._odd(at, name, f"{value!r} is no number")

    def _odd(self, at: int, name: str, what: object) -> DatasetError:
        return DatasetError(f"{self.path}@row {at}: column {name} cannot be read: {what}")

    def _with_rings(self, at: int, row: Row, masks: Any) -> list[Row]:  # noqa: ANN401 - pyarrow has no types
        """The row with its outline: of the polygon, else of the mask, which is a polygon, too, or a PNG.

        A mask of classes is a row for each class.
        """
        there = self._file.types
        for name in ("polygon", "mask"):
            if name not in there or not (value := masks.column(name)[0]).is_valid:
                continue
            with refusing(f"{self.path}@row {at}", DatasetError, f"column {name} cannot be read"):
                if pa.types.is_nested(value.type):
                    return [replace(row, rings=_polygon(value))]
                size = masks.column("size")[0].as_py() if "size" in there else None
                return self._with_raster(row, value.as_py(), size)
        return [row]

    def _with_raster(self, row: Row, png: bytes, size: list[int] | None) -> list[Row]:
        meaning = self._notes.masks
        is_object = row.label is not None or row.box2d is not None or row.box3d is not None
        if meaning == "class_index" or (meaning in {None, "binary"} and not is_object):
            found = [row] if is_object else []
            for value, rings in class_rings(png, size):
                is_class, label = self._notes.class_of(value)
                if is_class:
                    found.append(Row(label, None, None, None, None, row.is_ignored, rings))
            return found
        # What a logit means depends on the model, so that nobody else can draw the line.
        return [row] if meaning == "logits" else [replace(row, rings=object_rings(png, size))]


class _Codes:
    """Numbers for the texts of a column of several batches."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str, int] = {}

    def of(self, column: Any, without: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.int64]:  # noqa: ANN401 - pyarrow has no types
        """The numbers of a column's values, -1 for null and for those to be left out."""
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.large_string()).dictionary_encode()
        numbers = np.array(column.indices.cast(pa.int64()).fill_null(-1).to_numpy())
        if without is not None:
            numbers[without] = -1
        texts = column.dictionary.to_pylist()
        mine = np.full(len(texts) + 1, -1)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            code = self._codes.setdefault(str(texts[number]), len(self._codes))
            if code == len(self.values):
                self.values.append(str(texts[number]))
            mine[number] = code
        found: npt.NDArray[np.int64] = mine[numbers]
        return found


def _flags(column: Any) -> npt.NDArray[np.bool_]:  # noqa: ANN401 - pyarrow has no types
    """A column of yes and no, or 1 and 0, as yes or no; null is no."""
    return np.array([bool(value) for value in column.to_pylist()], np.bool_)


def _polygon(value: Any) -> list[Ring]:  # noqa: ANN401 - pyarrow has no types
    if pa.types.is_floating(value.type.value_type):
        flat = _floats(value.values)
        gaps = np.flatnonzero(np.isnan(flat)).tolist()
        ends = [-1, *gaps, len(flat)]
        return [_pairs(flat[begin + 1 : end]) for begin, end in pairwise(ends) if end - begin > 1]
    return [_pairs(_floats(ring.values)) for ring in value.values if ring.is_valid]


def _floats(values: Any) -> Ring:  # noqa: ANN401 - pyarrow has no types
    return values.to_numpy(zero_copy_only=False).astype(np.float32)  # type: ignore[no-any-return]


def _pairs(ring: Ring) -> Ring:
    if len(ring) % 2:
        raise ValueError(f"a ring has {len(ring)} numbers, which are no pairs")
    return ring.reshape(-1, 2)
