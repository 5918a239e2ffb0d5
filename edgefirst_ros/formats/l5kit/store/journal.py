"""Records of a growing dataset's journal: which rows are committed, and what the arrays lack of scenes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import index
from typing import NamedTuple

import numpy as np

from edgefirst_ros.formats.l5kit.store.attributes import SceneNote
from edgefirst_ros.formats.l5kit.store.schema import SPECS
from edgefirst_ros.formats.zarr2.metadata import json_bytes
from edgefirst_ros.sample import GeoPoint

JOURNAL_FORMAT = "l5kit 2"


class Growth(NamedTuple):
    """How far an array has grown: its rows so far, and the CRC-32 of those that are new."""

    length: int
    crc: int


NO_ROWS = Growth(0, 0)


@dataclass(frozen=True, slots=True)
class Commit:
    """One record: what was added since the record before it.

    Attributes:
        rows: by array that has grown.
        notes: of the scenes that are new.
        scene: host and start time, in nanoseconds, of the scene that begins with the next frame.
        extends: all this is of the finished dataset that is continued.
        complete: the disk holds the whole dataset, which lacks its name only; rows of agents may be others
            than those that were committed.
    """

    rows: Mapping[str, Growth] = field(default_factory=dict)
    notes: tuple[SceneNote, ...] = ()
    scene: tuple[str, int] | None = None
    extends: bool = False
    complete: bool = False

    def to_json(self) -> bytes:
        """The record's payload."""
        record: dict[str, object] = {"rows": self.rows}
        if self.notes:
            record["notes"] = [[note.name, _coordinates(note.origin)] for note in self.notes]
        if self.scene:
            record["scene"] = self.scene
        if self.extends:
            record["extends"] = True
        if self.complete:
            record["complete"] = True
        return json_bytes(record)

    @classmethod
    def from_json(cls, payload: bytes) -> Commit | None:
        """The inverse; None of what no writer has written."""
        try:
            record = json.loads(payload)
            rows = {name: Growth(*map(index, growth)) for name, growth in record["rows"].items()}
            notes = tuple(SceneNote.of(*note) for note in record.get("notes", ()))
            scene = record.get("scene")
            if scene is not None:
                host, start_ns = scene
                scene = (str(host), int(np.int64(index(start_ns))))
            extends = bool(record.get("extends"))
            complete = bool(record.get("complete"))
            return cls(rows, notes, scene, extends, complete) if rows.keys() <= SPECS.keys() else None
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError):
            return None


def _coordinates(origin: GeoPoint | None) -> list[float] | None:
    return None if origin is None else [origin.latitude_deg, origin.longitude_deg, origin.altitude_m]
