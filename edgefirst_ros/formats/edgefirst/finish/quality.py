"""Writes the table of what each sample's sensors showed, beside the dataset, from the journal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgefirst_ros.formats.crashsafe.replacing import remove
from edgefirst_ros.formats.crashsafe.sync import sync_file
from edgefirst_ros.formats.edgefirst.finish.table import Summed, TableFile
from edgefirst_ros.formats.edgefirst.store.journal import SampleJournal
from edgefirst_ros.formats.edgefirst.store.quality import FINGERPRINT, SCHEMA

ROWS = 4096
"""Of a record batch."""
REPEATED = "camera_repeated"


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
