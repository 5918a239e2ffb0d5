"""Commit marks: which record completes an entry, so that a killed store knows what it has.

An entry (a frame, a point cloud, a label) is a zarr group; the attributes of that group are written after
everything else in it and carry its times. What is attached to a radar's entry later ends with the attributes
of its ``generic_data``. What finishing a sequence adds to entries has no mark: it is made anew.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
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

FINISHED = ("ray_bundle/model_element", f"generic_data/{FLAT_BOXES}*")
"""What entries get when their sequence is finished, as patterns below the entry; of no use before."""

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
        references: frames of the pose graph that recovered entries refer to.
        sizes: width and height of the pictures of recovered cameras.
    """

    instances: dict[Instance, EntryTimes] = field(default_factory=dict)
    cubes: dict[str, tuple[int, int]] = field(default_factory=dict)
    references: set[str] = field(default_factory=set)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def times(self, instance: Instance, collection: str) -> EntryTimes:
        """The entries of an instance, none to begin with."""
        return self.instances.setdefault(instance, EntryTimes(collection))

    def __len__(self) -> int:
        return sum(len(times) for times in self.instances.values())


def entry_of(key: str) -> str | None:
    """The group of the entry that a record belongs to, if any."""
    found = _ENTRY.match(key)
    return found[0][:-1] if found else None


def commit(contents: Contents, key: str, payload: bytes) -> bool:
    """Take the mark of an entry into ``contents``; False for a payload that is none."""
    found = _ENTRY.match(key)
    if found is None:
        return False
    try:
        attributes = json.loads(payload)
        start_us, end_us = attributes[TIMES]
    except (ValueError, KeyError, TypeError):
        return False
    times = contents.times((found[1], found[2]), found[3])
    if found[3] == "labels":  # one that came before its camera is appended last
        times.insert(end_us)
    else:
        times.add(start_us, end_us)
    if REFERENCE in attributes:
        contents.references.add(attributes[REFERENCE])
    if SIZE in attributes:
        contents.sizes[found[2]] = attributes[SIZE]
    return True


def take_cube(contents: Contents, key: str, payload: bytes) -> None:
    """Note that a scan has a cube, if the attributes of its generic data say so."""
    found = _ENTRY.match(key)
    try:
        meta = json.loads(payload)[ATTACHED[0]]
        if found is not None:
            contents.cubes[found[2]] = (int(found[4]), meta["timestamp_us"])
    except (ValueError, KeyError, TypeError):
        return


def is_mark(key: str) -> bool:
    """True for the record that completes an entry."""
    entry = entry_of(key)
    return entry is not None and key == f"{entry}/{ATTRIBUTES_KEY}"


def instance_of_mark(key: str) -> Instance | None:
    """Which instance a mark is of, None for other records."""
    component, name, *_ = key.split("/") if is_mark(key) else ("", "")
    return (component, name) if name else None


def is_attachment_mark(key: str) -> bool:
    """True for the record that completes what was attached to an entry that has its mark."""
    entry = entry_of(key)
    return entry is not None and entry.startswith("radars/") and key == f"{entry}/{_ATTACHMENT}"
