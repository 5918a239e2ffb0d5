"""The table of what each sample's sensors showed: its columns, and its rows in memory."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable
from edgefirst_ros.formats.edgefirst.store.journal import MEASURES

LABELLED = {"boxes2d": "box2d_labelled", "masks": "mask_labelled", "boxes3d": "box3d_labelled"}
"""Columns that say whether a sample was searched for 2-D boxes, masks, 3-D boxes, by the key of these. One
that nobody looked at has no annotations either, and is no picture without objects."""
FINGERPRINT = "camera_fingerprint"
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("frame", pa.uint32(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        *(pa.field(name, pa.bool_(), nullable=False) for name in LABELLED.values()),
        *(pa.field(name, pa.float32()) for name in MEASURES if name != FINGERPRINT),
    ]
)
"""A row a sample: its sequence, frame and time, what it was searched for, and measures, null where nobody
measured."""


class Quality:
    """The measures of a dataset's samples, in memory; none where no such table is beside it.

    Args:
        path: the table.
        files: how many sensor files the dataset has, which bound its rows.

    Raises:
        DatasetError: it is damaged.
    """

    def __init__(self, path: Path, files: int) -> None:
        self._rows: dict[tuple[str, int | None], int] = {}
        self._columns: dict[str, npt.NDArray[np.float32]] = {}
        self._labelled: dict[str, npt.NDArray[np.bool_]] = {}
        if not path.is_file():
            return
        table = ArrowTable(path, files=files, columns=SCHEMA.names)
        with table.readable():
            whole = pa.Table.from_batches(list(table.batches()), SCHEMA)
            keys = zip(whole["name"].to_pylist(), whole["frame"].to_pylist(), strict=True)
            self._rows = {key: number for number, key in enumerate(keys)}
            self._columns = {
                name: whole[name].to_numpy()  # null is NaN
                for name in MEASURES
                if name != FINGERPRINT
            }
            self._labelled = {
                key: whole[name].to_numpy(zero_copy_only=False) for key, name in LABELLED.items()
            }

    def unlabelled(self, sequence: str, frame: int | None) -> frozenset[str]:
        """Keys of annotations that nobody looked for in a sample; empty if nothing is known of it."""
        row = self._rows.get((sequence, frame))
        if row is None:
            return frozenset()
        return frozenset(key for key, column in self._labelled.items() if not column[row])

    def of(self, sequence: str, frame: int | None) -> dict[str, float] | None:
        """What was measured of a sample; None if nothing is known of it."""
        row = self._rows.get((sequence, frame))
        if row is None:
            return None
        values = ((name, float(column[row])) for name, column in self._columns.items())
        return {name: value for name, value in values if not math.isnan(value)}
