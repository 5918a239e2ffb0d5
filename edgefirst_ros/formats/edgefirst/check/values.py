"""Checks the values in an annotation table, column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from edgefirst_ros.formats.edgefirst.check.motion import FrameLocations
from edgefirst_ros.formats.edgefirst.check.pictures import read_png
from edgefirst_ros.formats.findings import Findings

Floats = npt.NDArray[np.float64]
Bad = npt.NDArray[np.bool_]

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
    frame: pl.DataFrame, table: Table, sizes: Mapping[tuple[str, str], tuple[int, int]], findings: Findings
) -> None:
    """Check boxes, outlines, scores, locations and sizes in a batch whose first row is ``table.rows``."""
    for name, (bad, what) in _rules(table.version).items():
        if name in table.usable:
            rows = np.flatnonzero(frame[name].is_not_null().to_numpy())
            if len(rows):
                bad_rows = rows[bad(_matrix(frame[name].drop_nulls()))]
                _report(table, bad_rows, f"{name} {what}", frame[name], findings)
    for name in ("polygon", "mask"):
        if name in table.usable:
            _check_outlines(table, name, frame[name], findings)
    if "status" in table.usable:
        status = frame["status"]
        wrong = np.flatnonzero((status.is_not_null() & ~status.cast(pl.String).is_in(_STATUSES)).to_numpy())
        _report(table, wrong, "status is neither valid nor edit", status, findings)
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


def _matrix(values: pl.Series) -> Floats:
    """The values of an array column as (N, k), of a scalar column as (N, 1)."""
    found: Floats = values.to_numpy().astype(np.float64).reshape(len(values), -1)
    return found


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
    table: Table, rows: npt.NDArray[np.intp], what: str, values: pl.Series, findings: Findings
) -> None:
    for row in rows.tolist():
        found = values[row]
        text = str(found.to_list() if isinstance(found, pl.Series) else found)[:80]
        findings.error(f"{table.path.name}@row {table.rows + row}", what, text)


def _check_outlines(table: Table, name: str, column: pl.Series, findings: Findings) -> None:
    """Check polygons (lists of rings, or one list with NaN between rings) and masks, which are gray PNG."""
    for row in np.flatnonzero(column.is_not_null().to_numpy()).tolist():
        at, value = f"{table.path.name}@row {table.rows + row}", column[row]
        if isinstance(value, bytes):
            try:
                sound = read_png(value).colour == 0
            except ValueError:
                sound = False
            if not sound:
                findings.error(at, "mask is not a gray PNG")
        elif not all(map(_is_ring, _rings(value))):
            findings.error(at, f"{name} is not a polygon of at least three x, y from 0 to 1")


def _rings(value: pl.Series) -> list[Floats]:
    if value.dtype == pl.List(pl.Float32):
        return [_floats(ring) for ring in value]
    flat = _floats(value)
    gaps = np.flatnonzero(np.isnan(flat))
    return [ring[np.isnan(ring[:1]).sum() :] for ring in np.split(flat, gaps)]


def _floats(value: pl.Series) -> Floats:
    found: Floats = value.cast(pl.Float64).to_numpy()
    return found


def _is_ring(ring: Floats) -> bool:
    return len(ring) >= 6 and len(ring) % 2 == 0 and bool(_within(ring[None, :], 0, 1).all())


def _check_sizes(
    frame: pl.DataFrame, table: Table, sizes: Mapping[tuple[str, str], tuple[int, int]], findings: Findings
) -> None:
    pairs = frame.select(pl.col("name").cast(pl.String), pl.col("size")).rows()
    for row, (name, size) in enumerate(pairs):
        picture = sizes.get((name, "camera"))
        if size is not None and picture is not None and tuple(size) != picture:
            at = f"{table.path.name}@row {table.rows + row}"
            findings.error(at, "size differs from the picture's", f"{list(size)}, {list(picture)}")
