"""Columns of the annotation table in both schema versions: name, type and value."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from edgefirst_ros.formats.edgefirst.finish.split import GROUPS
from edgefirst_ros.formats.edgefirst.options import SchemaVersion
from edgefirst_ros.formats.edgefirst.store.journal import Annotation, SampleRecord

DEGRADATIONS = ("low", "medium", "high")
STATUSES = ("valid", "edit")
ENUM_NOTE = b"_PL_ENUM_VALUES2"
"""A field's note by which polars takes an ordered dictionary for an Enum: each category after its length."""
_TEXT, _BOX_2D, _BOX_3D = pa.large_string(), pa.list_(pa.float32(), 4), pa.list_(pa.float32(), 6)
_OUTLINE = pa.large_list(pa.float32())


@dataclass(frozen=True, slots=True)
class TableRow:
    """The sample, annotation and group from which the values of a row are taken."""

    record: SampleRecord
    annotation: Annotation
    group: str


@dataclass(frozen=True, slots=True)
class Column:
    """Arrow type of a column and its value in a row; if it is a dictionary, its categories and their note."""

    type: Any
    value: Callable[[TableRow], Any]
    categories: tuple[str, ...] = ()
    note: bytes | None = None

    @property
    def is_category(self) -> bool:
        """Whether values are one of some texts."""
        return bool(pa.types.is_dictionary(self.type))

    def field(self, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The column in a schema."""
        return pa.field(name, self.type, metadata=None if self.note is None else {ENUM_NOTE: self.note})

    def array(self, rows: Sequence[TableRow]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The values of rows; a dictionary has all categories, as all batches of a file must share it."""
        values = [self.value(row) for row in rows]
        if not self.is_category:
            return pa.array(values, self.type)
        codes = {category: code for code, category in enumerate(self.categories)}
        indices = pa.array(
            [None if value is None else codes[value] for value in values], self.type.index_type
        )
        dictionary = pa.array(self.categories, self.type.value_type)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=self.type.ordered)


def columns(version: SchemaVersion, labels: tuple[str, ...]) -> Mapping[str, Column]:
    """The columns of a schema version, in order, for a dataset with these labels.

    Source: for 2025.01 the vendor's published article, except that ``name`` is a String, which the vendor's
    client needs; for 2026.10 the vendor's client. ``label_index`` is the class index of the model.
    The extents in ``box3d`` (w, h, l in 2026.10; depth, width, height in 2025.01) are along x, y and z.
    """
    return _published(labels) if version == "2025.01" else _current(labels)


def _published(labels: tuple[str, ...]) -> dict[str, Column]:
    return {
        "name": Column(_TEXT, lambda row: row.record.sequence),
        "frame": Column(pa.uint64(), lambda row: row.record.frame),
        "group": _enum(GROUPS, lambda row: row.group),
        "label": _enum(labels, lambda row: row.annotation.label),
        "mask": Column(_OUTLINE, lambda row: _flat(_rings(row.annotation))),
        "box2d": Column(_BOX_2D, lambda row: row.annotation.box2d),
        "box3d": Column(_BOX_3D, lambda row: row.annotation.box3d),
        "location": Column(pa.list_(pa.float64(), 2), lambda row: _longitude_first(row.record.location)),
        "pose": Column(pa.list_(pa.float64(), 3), lambda row: row.record.pose),
        "degradation": _enum(DEGRADATIONS, lambda _: None),
        "status": _enum(STATUSES, lambda row: _status(row.annotation)),
    }


def _current(labels: tuple[str, ...]) -> dict[str, Column]:
    return {
        "name": Column(_TEXT, lambda row: row.record.sequence),
        "frame": Column(pa.uint32(), lambda row: row.record.frame),
        "object_id": Column(_TEXT, lambda row: row.annotation.object_id),
        "label": _categorical(labels, lambda row: row.annotation.label),
        "label_index": Column(pa.uint64(), lambda row: row.annotation.label_index),
        "group": _categorical(GROUPS, lambda row: row.group),
        "polygon": Column(pa.large_list(_OUTLINE), lambda row: _rings(row.annotation)),
        "mask": Column(pa.large_binary(), lambda row: _png(row.annotation)),
        "box2d": Column(_BOX_2D, lambda row: row.annotation.box2d),
        "box2d_score": Column(pa.float32(), lambda row: row.annotation.box2d_score),
        "box3d": Column(_BOX_3D, lambda row: row.annotation.box3d),
        "box3d_score": Column(pa.float32(), lambda row: row.annotation.box3d_score),
        "size": Column(pa.list_(pa.uint32(), 2), lambda row: row.record.size),
        "location": Column(pa.list_(pa.float32(), 2), lambda row: row.record.location),
        "pose": Column(pa.list_(pa.float32(), 3), lambda row: row.record.pose),
    }


def _enum(categories: tuple[str, ...], value: Callable[[TableRow], Any]) -> Column:
    """A polars Enum, whose codes are as narrow as polars makes them: it reads others as plain texts."""
    code = next((t for most, t in ((255, pa.uint8()), (65535, pa.uint16())) if len(categories) <= most), None)
    lengths = ((len(text), text) for text in (each.encode() for each in categories))
    note = b"".join(b"%d;%s" % each for each in lengths)
    return Column(pa.dictionary(code or pa.uint32(), _TEXT, ordered=True), value, categories, note)


def _categorical(categories: tuple[str, ...], value: Callable[[TableRow], Any]) -> Column:
    """A polars Categorical."""
    return Column(pa.dictionary(pa.uint32(), _TEXT), value, categories)


def _rings(annotation: Annotation) -> list[list[float]] | None:
    if annotation.polygons is None:
        return None
    return [np.frombuffer(base64.b64decode(ring), "<f4").tolist() for ring in annotation.polygons]


def _flat(rings: list[list[float]] | None) -> list[float] | None:
    """All rings in one list, separated by NaN."""
    if rings is None:
        return None
    flat: list[float] = []
    for ring in rings:
        flat += [math.nan, *ring] if flat else ring
    return flat


def _png(annotation: Annotation) -> bytes | None:
    return None if annotation.mask is None else base64.b64decode(annotation.mask)


def _longitude_first(location: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if location is None else (location[1], location[0])


def _status(annotation: Annotation) -> str | None:
    """Valid with 2-D box, mask and 3-D box, edit if one is missing, null if all are (the article's rule)."""
    geometry = (annotation.box2d, annotation.polygons, annotation.box3d)
    if all(part is None for part in geometry):
        return None
    return "edit" if None in geometry else "valid"
