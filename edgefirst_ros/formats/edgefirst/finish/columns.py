"""Columns of the annotation table in both schema versions: name, type and value."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from edgefirst_ros.formats.edgefirst.finish.split import GROUPS
from edgefirst_ros.formats.edgefirst.options import SchemaVersion
from edgefirst_ros.formats.edgefirst.store.journal import Annotation, SampleRecord

DEGRADATIONS = ("low", "medium", "high")
STATUSES = ("valid", "edit")


@dataclass(frozen=True, slots=True)
class TableRow:
    """The sample, annotation and group from which the values of a row are taken."""

    record: SampleRecord
    annotation: Annotation
    group: str


@dataclass(frozen=True, slots=True)
class Column:
    """Polars type of a column, its value in a row, and the categories of a Categorical."""

    dtype: Any
    value: Callable[[TableRow], Any]
    categories: tuple[str, ...] = ()


def columns(version: SchemaVersion, labels: tuple[str, ...]) -> Mapping[str, Column]:
    """The columns of a schema version, in order, for a dataset with these labels.

    Source: for 2025.01 the vendor's published article, except that ``name`` is a String, which the vendor's
    client needs; for 2026.10 the vendor's client. ``label_index`` is the class index of the model.
    The extents in ``box3d`` (w, h, l in 2026.10; depth, width, height in 2025.01) are along x, y and z.
    """
    return _published(labels) if version == "2025.01" else _current(labels)


def _published(labels: tuple[str, ...]) -> dict[str, Column]:
    return {
        "name": Column(pl.String, lambda row: row.record.sequence),
        "frame": Column(pl.UInt64, lambda row: row.record.frame),
        "group": Column(pl.Enum(GROUPS), lambda row: row.group),
        "label": Column(pl.Enum(labels), lambda row: row.annotation.label),
        "mask": Column(pl.List(pl.Float32), lambda row: _flat(_rings(row.annotation))),
        "box2d": Column(pl.Array(pl.Float32, 4), lambda row: row.annotation.box2d),
        "box3d": Column(pl.Array(pl.Float32, 6), lambda row: row.annotation.box3d),
        "location": Column(pl.Array(pl.Float64, 2), lambda row: _longitude_first(row.record.location)),
        "pose": Column(pl.Array(pl.Float64, 3), lambda row: row.record.pose),
        "degradation": Column(pl.Enum(DEGRADATIONS), lambda _: None),
        "status": Column(pl.Enum(STATUSES), lambda row: _status(row.annotation)),
    }


def _current(labels: tuple[str, ...]) -> dict[str, Column]:
    return {
        "name": Column(pl.String, lambda row: row.record.sequence),
        "frame": Column(pl.UInt32, lambda row: row.record.frame),
        "object_id": Column(pl.String, lambda row: row.annotation.object_id),
        "label": Column(pl.Categorical, lambda row: row.annotation.label, labels),
        "label_index": Column(pl.UInt64, lambda row: row.annotation.label_index),
        "group": Column(pl.Categorical, lambda row: row.group, GROUPS),
        "polygon": Column(pl.List(pl.List(pl.Float32)), lambda row: _rings(row.annotation)),
        "mask": Column(pl.Binary, lambda row: _png(row.annotation)),
        "box2d": Column(pl.Array(pl.Float32, 4), lambda row: row.annotation.box2d),
        "box2d_score": Column(pl.Float32, lambda row: row.annotation.box2d_score),
        "box3d": Column(pl.Array(pl.Float32, 6), lambda row: row.annotation.box3d),
        "box3d_score": Column(pl.Float32, lambda row: row.annotation.box3d_score),
        "size": Column(pl.Array(pl.UInt32, 2), lambda row: row.record.size),
        "location": Column(pl.Array(pl.Float32, 2), lambda row: row.record.location),
        "pose": Column(pl.Array(pl.Float32, 3), lambda row: row.record.pose),
    }


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
