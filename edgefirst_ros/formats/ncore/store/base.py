"""Where records go: appended in batches to a tar file or to a directory.

Marks: the attributes that tell which entries a store holds, so that recovery finds them there.

An entry (a frame, a point cloud, a label) is a zarr group, whose attributes carry its times. A radar cube is
in the ``generic_data`` of an entry, whose attributes carry the cube's time.

The sequence meta file: what the stores of a sequence are and hold, with their MD5.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.ncore.options import StoreType
from edgefirst_ros.formats.zarr2 import ATTRIBUTES_KEY, Record, group, join
from edgefirst_ros.model.untrusted import open_regular

TIMES = "timestamps_us"
"""Attribute of an entry: [start, end]."""

SIZE = "size"
"""Attribute of a camera frame: width and height."""

REFERENCE = "reference_frame_id"
"""Attribute of a point cloud: the frame that it is in."""

COLLECTIONS = ("frames", "pcs", "labels")
"""Groups that hold the entries of an instance; one kind an instance."""

ATTACHED = ("radar_cube",)
"""Arrays of ``generic_data`` that may come after the mark of their entry."""

FLAT_BOXES = "boxes2d"
"""How the names of all arrays of 2-D boxes in ``generic_data`` begin."""

BOX_ARRAYS = (
    FLAT_BOXES,
    *(
        f"{FLAT_BOXES}_{column}"
        for column in ("class_id", "label", "score", "track_id", "distance_m", "speed_m_s")
    ),
)
"""Arrays of the boxes of a frame, of equal length."""

_ENTRY = re.compile(rf"([^/]+)/([^/]+)/({'|'.join(COLLECTIONS)})/(\d+)/")
_ATTACHMENT = f"generic_data/{ATTRIBUTES_KEY}"

Instance = tuple[str, str]
"""Component and instance name."""


@dataclass(slots=True)
class EntryTimes:
    """Start and end of every entry of an instance, microseconds, in order; and how they are kept."""

    collection: str
    starts: array[int] = field(default_factory=lambda: array("Q"))
    ends: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, start_us: int, end_us: int) -> None:
        """One more entry."""
        self.starts.append(start_us)
        self.ends.append(end_us)

    def insert(self, time_us: int) -> None:
        """One more entry of a single time, in its place."""
        at = bisect_left(self.ends, time_us)
        self.starts.insert(at, time_us)
        self.ends.insert(at, time_us)

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(slots=True)
class Contents:
    """The committed entries of one store.

    Attributes:
        instances: entries by instance, in the order in which the instances came.
        cubes: by radar, the scan that has the latest cube, and the cube's time.
    """

    instances: dict[Instance, EntryTimes] = field(default_factory=dict)
    cubes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def times(self, instance: Instance, collection: str) -> EntryTimes:
        """The entries of an instance, none to begin with."""
        return self.instances.setdefault(instance, EntryTimes(collection))

    def __len__(self) -> int:
        return sum(len(times) for times in self.instances.values())


def take_mark(contents: Contents, key: str, payload: bytes) -> None:
    """Take what a record tells of an entry or of its cube into ``contents``; most records tell nothing."""
    found = _ENTRY.match(key)
    if found is None:
        return
    instance, rest = (found[1], found[2]), key[found.end() :]
    with suppress(ValueError, LookupError, TypeError, OverflowError):  # no mark that this package writes
        if rest == ATTRIBUTES_KEY:
            start_us, end_us = json.loads(payload)[TIMES]
            contents.times(instance, found[3]).add(start_us, end_us)
        elif found[1] == "radars" and rest == _ATTACHMENT:
            contents.cubes[found[2]] = (int(found[4]), int(json.loads(payload)[ATTACHED[0]]["timestamp_us"]))


def instance_of_mark(key: str) -> Instance | None:
    """Which instance the mark of an entry is of, None for other records."""
    found = _ENTRY.match(key)
    return (found[1], found[2]) if found and key[found.end() :] == ATTRIBUTES_KEY else None


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


VERSION = "v4"


_CHUNK = 1 << 20


def md5_of(path: Path, passed: Callable[[int], None] = lambda _: None) -> str:
    """MD5 of a store as nvidia-ncore computes it: of a file's bytes, or of a directory's names and files.

    Args:
        path: of the store.
        passed: gets how many bytes were read since it was called last.

    Raises:
        OSError: a file is missing or no regular file, or what is in the store is a symbolic link.
    """
    digest = hashlib.md5(usedforsecurity=False)
    _update(digest, path.resolve(), passed)
    return digest.hexdigest()


def _update(digest: Any, path: Path, passed: Callable[[int], None]) -> None:  # noqa: ANN401  hashlib's type
    if path.is_dir() and not path.is_symlink():
        for child in sorted(path.iterdir(), key=lambda child: str(child).lower()):
            digest.update(child.name.encode())
            _update(digest, child, passed)
        return
    with open_regular(path, follow=False) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            passed(len(chunk))


def write_meta(
    path: Path,
    sequence_id: str,
    interval_us: tuple[int, int],
    generic_meta_data: dict[str, Any],
    stores: Mapping[str, tuple[Callable[[], str], dict[str, Any]]],
) -> None:
    """Write the meta file whole or not at all.

    Args:
        path: the file.
        sequence_id: of all stores.
        interval_us: of all stores, half-open.
        generic_meta_data: of all stores.
        stores: by the name that each will have: what tells its MD5, and its components.
    """
    with ThreadPoolExecutor(max_workers=4) as pool:
        digests = list(pool.map(lambda store: store[0](), stores.values()))
    meta = {
        "sequence_id": sequence_id,
        "sequence_timestamp_interval_us": {"start": interval_us[0], "stop": interval_us[1]},
        "generic_meta_data": generic_meta_data,
        "version": VERSION,
        "component_stores": [
            {"path": name, "md5": digest, "components": components}
            for (name, (_, components)), digest in zip(stores.items(), digests, strict=True)
        ],
    }
    text = json.dumps(meta, indent=2, sort_keys=True) + "\n"
    replace_file(path, text.encode())
