"""The table of what each sample's sensors showed, beside the dataset; made of the journal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgefirst_ros.formats.crashsafe.replacing import remove
from edgefirst_ros.formats.crashsafe.sync import sync_file
from edgefirst_ros.formats.edgefirst.finish.table import Summed, TableFile
from edgefirst_ros.formats.edgefirst.store.arrowfile import ArrowTable
from edgefirst_ros.formats.edgefirst.store.journal import MEASURES, SampleJournal

ROWS = 4096
"""Of a record batch."""
_KEYS = 3
"""Columns that say which sample it is."""
FINGERPRINT, REPEATED = "camera_fingerprint", "camera_repeated"
SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("frame", pa.uint32(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        *(pa.field(name, pa.float32()) for name in MEASURES if name != FINGERPRINT),
    ]
)
"""A row a sample: its sequence, frame and time, and measures, null where nobody measured."""


def write_quality(journal: SampleJournal, path: Path) -> TableFile:
    """Write the journal's measures as an Arrow IPC file.

    Raises:
        OSError: the file system reports an error.
    """
    count = 0
    remove(path)  # a link to elsewhere is not written through
    with path.open("xb") as file:
        summed = Summed(file)
        with pa.ipc.new_file(summed, SCHEMA) as writer:
            rows = _rows(journal)
            for first in rows:
                some = [first, *islice(rows, ROWS - 1)]
                writer.write_batch(pa.RecordBatch.from_pylist(some, SCHEMA))
                count += len(some)
        file.flush()
        sync_file(file.fileno())
    return TableFile(count, summed.size, summed.crc)


def _rows(journal: SampleJournal) -> Iterator[dict[str, Any]]:
    before: tuple[str, float | None] = "", None
    for committed in journal:
        record = committed.record
        measures = dict(record.quality or {})
        fingerprint = measures.pop(FINGERPRINT, None)
        if fingerprint is not None:
            measures.setdefault(REPEATED, float((record.sequence, fingerprint) == before))
        before = record.sequence, fingerprint
        yield {"name": record.sequence, "frame": record.frame, "time_ns": record.time_ns, **measures}


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
        if not path.is_file():
            return
        table = ArrowTable(path, files=files, columns=SCHEMA.names)
        with table.readable():
            whole = pa.Table.from_batches(list(table.batches()), SCHEMA)
            keys = zip(whole["name"].to_pylist(), whole["frame"].to_pylist(), strict=True)
            self._rows = {key: number for number, key in enumerate(keys)}
            self._columns = {
                name: whole[name].to_numpy()  # null is NaN
                for name in SCHEMA.names[_KEYS:]
            }

    def of(self, sequence: str, frame: int | None) -> dict[str, float] | None:
        """What was measured of a sample; None if nothing is known of it."""
        row = self._rows.get((sequence, frame))
        if row is None:
            return None
        values = ((name, float(column[row])) for name, column in self._columns.items())
        return {name: value for name, value in values if not math.isnan(value)}
