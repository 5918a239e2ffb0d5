"""Where records go: appended in batches to a tar file or to a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgefirst_ros.formats.ncore.options import StoreType
from edgefirst_ros.formats.ncore.store.marks import Contents
from edgefirst_ros.formats.zarr2.metadata import Record, group, join

ADVICE = "edgefirst-ros recover keeps what was written"


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that a store has appended, as the journal describes them: recovery can tell if they are whole.

    Attributes:
        place: offset in a tar file; the keys in a directory.
        size: bytes.
        crc: CRC-32 of them.
    """

    place: int | list[str]
    size: int
    crc: int


class Store(Protocol):
    """One component group on disk, under its ``.part`` name until it is renamed.

    One that a crash left takes ``keep`` for every batch of the journal, then ``cut``, before anything else.

    Attributes:
        part: where it is being written.
        contents: what is committed in it.
    """

    part: Path
    contents: Contents

    def append(self, records: Sequence[Record]) -> Batch:
        """Append a batch; it is committed once the journal has it.

        Raises:
            WriteError: the disk is full or gone; what was written of the batch is taken back.
        """

    def keep(self, batch: Batch) -> bool:
        """Whether the batch is the next on disk and whole; only then does it stay."""

    def cut(self) -> int:
        """Drop everything that was not kept; returns the bytes dropped."""

    def unsynced(self) -> list[Path]:
        """Files and folders that have changed since the last call; any thread."""

    def has(self, key: str) -> bool:
        """True if a record of at most four levels was appended."""

    def payloads(self, prefix: str, part: str) -> Callable[[str], bytes]:
        """Payload by key, of the records so far whose keys begin with ``prefix`` and contain ``part``.

        What it returns raises KeyError for any other.
        """

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        """Key and payload of every metadata record."""

    def seal(self) -> None:
        """Complete the container, synced, and close it."""

    def md5(self) -> str:
        """Of the sealed store, as nvidia-ncore computes it."""

    def release(self) -> None:
        """Close without completing."""


def new_groups(store: Store, name: str) -> list[Record]:
    """Group records for ``name`` and what is above it, as far as the store has none."""
    parts = name.split("/") if name else []
    names = [join(*parts[:depth]) for depth in range(len(parts) + 1)]
    return [record for level in names for record in group(level) if not store.has(record[0])]


def suffix(kind: StoreType) -> str:
    """How the names of such stores end."""
    return ".zarr.itar" if kind == "itar" else ".zarr"
