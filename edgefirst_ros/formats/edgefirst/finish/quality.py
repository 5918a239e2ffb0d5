"""Writes the table of what each sample's sensors showed, beside the dataset, from the journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from edgefirst_ros.formats.edgefirst.finish.table import TableFile, write_arrow
from edgefirst_ros.formats.edgefirst.store.journal import Looked, SampleJournal
from edgefirst_ros.formats.edgefirst.store.quality import FINGERPRINT, LABELLED, SCHEMA

ROWS = 4096
"""Of a record batch."""
REPEATED = "camera_repeated"


def write_quality(journal: SampleJournal, path: Path, looked: Collection[str]) -> TableFile:
    """Write the journal's measures as an Arrow IPC file.

    Args:
        journal: of the dataset.
        path: of the file.
        looked: ``Looked`` of all samples.

    Raises:
        OSError: the file system reports an error.
    """
    rows = _rows(journal, looked)
    batches = ([first, *islice(rows, ROWS - 1)] for first in rows)
    return write_arrow(path, SCHEMA, (pa.Table.from_pylist(batch, SCHEMA) for batch in batches))


def _rows(journal: SampleJournal, looked: Collection[str]) -> Iterator[dict[str, Any]]:
    before: tuple[str, float | None] = "", None
    for committed in journal:
        record = committed.record
        measures = dict(record.quality or {})
        fingerprint = measures.pop(FINGERPRINT, None)
        if fingerprint is not None:
            measures.setdefault(REPEATED, float((record.sequence, fingerprint) == before))
        before = record.sequence, fingerprint
        holds = labelled(record.looked, looked)
        searched = {name: name in holds for name in LABELLED.values()}
        key = {"name": record.sequence, "frame": record.frame, "time_ns": record.time_ns}
        yield {**key, **searched, **measures}


def labelled(looked: Collection[str], found: Collection[str]) -> frozenset[str]:
    """The columns of ``LABELLED`` that hold for a sample.

    Args:
        looked: ``Looked`` of the sample.
        found: of all samples. A model that never has boxes and has masks is one for masks, and vice versa.
    """
    finds_masks = Looked.MODEL_MASKS in found
    finds_boxes = Looked.MODEL_BOXES in found or not finds_masks
    by_model = Looked.MODEL in looked
    holds = {
        "boxes2d": by_model and finds_boxes,
        "masks": Looked.MASK in looked or (by_model and finds_masks),
        "boxes3d": Looked.BOXES_3D in looked,
    }
    return frozenset(LABELLED[key] for key, does in holds.items() if does)
