"""Marks: the attributes that tell which entries a store holds, so that recovery finds them there.

An entry (a frame, a point cloud, a label) is a zarr group, whose attributes carry its times. A radar cube is
in the ``generic_data`` of an entry, whose attributes carry the cube's time.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field

from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY

TIMES = "timestamps_us"
"""Attribute of an entry: [start, end]."""

SIZE = "size"
"""Attribute of a camera frame: width and height."""

REFERENCE = "reference_frame_id"
"""Attribute of a point cloud: the frame that it is in."""

COLLECTIONS = ("frames", "pcs", "labels", "records")
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
