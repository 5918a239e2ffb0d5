"""What belongs to no frame, as CBOR in the journal of a sequence: poses, calibration, cuboids, series."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import cbor2

from edgefirst_ros.formats.crashsafe.appending import disk_errors
from edgefirst_ros.formats.crashsafe.journal import Journal, read_journal
from edgefirst_ros.formats.ncore.store.packed import ARRAY, cbor_head

_FORMAT = "ncore 2"


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
        """Append one fact; it survives the process when this returns. The bytes written.

        Raises:
            WriteError: the disk is full or gone.
        """
        with disk_errors(self.path):
            return self.append(cbor2.dumps([kind, value]))


def read_facts(path: Path, kinds: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Kind and value of every fact up to the first that is not whole; of some kinds, or of all.

    Raises:
        DatasetError: the file is no journal of this version.
    """
    heads = tuple(cbor_head(ARRAY, 2) + cbor2.dumps(kind) for kind in kinds) or (b"",)
    for record in read_journal(path, _FORMAT):
        if record.payload.startswith(heads):
            kind, value = cbor2.loads(record.payload)
            yield kind, value
