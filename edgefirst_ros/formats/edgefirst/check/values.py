"""Checks the values in an annotation table, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgefirst_ros.formats.edgefirst.check.motion import FrameLocations
from edgefirst_ros.formats.edgefirst.check.pictures import read_png
from edgefirst_ros.formats.findings import Findings

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
