"""Where records go: appended to a tar file or to a directory, the last of a batch being its commit mark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from edgefirst_ros.formats.ncore.options import StoreType
from edgefirst_ros.formats.ncore.store.marks import Contents
from edgefirst_ros.formats.zarr2.metadata import Record, group, join

ADVICE = "edgefirst-ros recover keeps what was written"


class Store(Protocol):
    """One component group on disk, under its ``.part`` name until it is renamed.

    Attributes:
        part: where it is being written.
        contents: what is committed in it.
    """

    part: Path
    contents: Contents

    def append(self, records: Sequence[Record]) -> int:
        """Append a batch; it counts when its last record is on disk. The bytes written.

        Raises:
            WriteError: the disk is full or gone; what was written of the batch is taken back.
        """

    def has(self, key: str) -> bool:
        """True if a record of at most four levels was appended."""

    def payloads(self, prefix: str, part: str) -> Callable[[str], bytes]:
        """Payload by key, of the records so far whose keys begin with ``prefix`` and contain ``part``.

        What it returns raises KeyError for any other.
        """

    def metadata(self) -> Iterator[tuple[str, bytes]]:
        """Key and payload of every metadata record."""

    def seal(self) -> None:
        """Complete the container and close it."""

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
