"""The journal of a sequence: what is committed in its stores, and as CBOR what belongs to no frame."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import cbor2

from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.journal import Journal, read_journal
from edgefirst_ros.formats.ncore.store.base import Batch
from edgefirst_ros.formats.ncore.store.packed import ARRAY, cbor_head
from edgefirst_ros.formats.pace import rest

_FORMAT = "ncore 3"
_BATCH = "batch"


class FactJournal(Journal):
    """The journal of a new sequence.

    Raises:
        WriteError: another process is writing or recovering this sequence.
        OSError: there is a journal already, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, _FORMAT, exclusive=True)
        self.begin()

    def record(self, kind: str, value: object) -> int:
        """Append one fact (poses, calibration, series, ...); it survives the process when this returns.

        Returns:
            The bytes written.

        Raises:
            WriteError: the disk is full or gone.
        """
        with disk_errors(self.path):
            return self.append(cbor2.dumps([kind, value]))

    def commit(self, group: str, batch: Batch) -> None:
        """Commit a batch that the store of a component group has appended.

        Raises:
            WriteError: the disk is full or gone.
        """
        self.record(_BATCH, [group, batch.place, batch.size, batch.crc])


def read_facts(path: Path, kinds: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Kind and value of every fact up to the first that is not whole; of some kinds, or of all.

    Raises:
        DatasetError: the file is not a journal of this version.
    """
    heads = tuple(cbor_head(ARRAY, 2) + cbor2.dumps(kind) for kind in kinds) or (b"",)
    for record in read_journal(path, _FORMAT):
        rest()
        if record.payload.startswith(heads):
            kind, value = cbor2.loads(record.payload)
            yield kind, value


def read_batches(path: Path) -> Iterator[tuple[str, Batch]]:
    """Component group and batch of everything committed in stores, in order.

    Raises:
        DatasetError: the file is not a journal of this version.
    """
    for _, (group, place, size, crc) in read_facts(path, [_BATCH]):
        yield group, Batch(place, size, crc)
