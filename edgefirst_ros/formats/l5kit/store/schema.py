"""Names, types and chunk lengths of an L5Kit dataset (2020 competition format, ``format_version`` 2).

Root attributes: those that L5Kit requires, and the name and world origin of each scene.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pymap3d

from edgefirst_ros.formats.crashsafe.names import replace_file
from edgefirst_ros.formats.zarr2 import ATTRIBUTES_KEY, ArraySpec, Blosc, Shuffle, json_bytes
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.sample import GeoPoint
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, parse_json, read_regular, refusing

Records = npt.NDArray[np.void]
"""Rows of one of the structured types below."""

FORMAT_VERSION: Final = 2

JOURNAL: Final = ".journal"
"""The journal's file in the ``.part`` folder; gone once the dataset has its name."""

MANIFEST: Final = ".manifest"
"""Size and CRC-32 of every other file of the dataset, in order of name; L5Kit and zarr ignore it."""


class AgentLabel(StrEnum):
    """L5Kit's labels without their prefix; ``AVRESEARCH_DONTCARE`` is the last, of another prefix."""

    NOT_SET = "NOT_SET"
    UNKNOWN = "UNKNOWN"
    DONTCARE = "DONTCARE"
    CAR = "CAR"
    VAN = "VAN"
    TRAM = "TRAM"
    BUS = "BUS"
    TRUCK = "TRUCK"
    EMERGENCY_VEHICLE = "EMERGENCY_VEHICLE"
    OTHER_VEHICLE = "OTHER_VEHICLE"
    BICYCLE = "BICYCLE"
    MOTORCYCLE = "MOTORCYCLE"
    CYCLIST = "CYCLIST"
    MOTORCYCLIST = "MOTORCYCLIST"
    PEDESTRIAN = "PEDESTRIAN"
    ANIMAL = "ANIMAL"
    AVRESEARCH_DONTCARE = "AVRESEARCH_DONTCARE"

    @property
    def index(self) -> int:  # type: ignore[override]  # str.index is of no use on a label
        """Position in L5Kit's list."""
        return _PLACES[self]


_PLACES: Final = {label: place for place, label in enumerate(AgentLabel)}
LABELS: Final = (
    *(f"PERCEPTION_LABEL_{label}" for label in list(AgentLabel)[:-1]),
    "AVRESEARCH_LABEL_DONTCARE",
)
"""The classes that ``label_probabilities`` are over, in their order."""

UNKNOWN: Final = 1
FIRST_AGENT: Final = 3
LAST_AGENT: Final = 15
"""L5Kit counts the labels from CAR to ANIMAL as agents; a filter sums their probabilities."""


class FaceStatus(StrEnum):
    """Whether a traffic light's bulb is on: what ``traffic_light_face_status`` is over, in this order."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    UNKNOWN = "UNKNOWN"


SCENE = np.dtype([
    ("frame_index_interval", "<i8", (2,)),
    ("host", "<U16"),
    ("start_time", "<i8"),
    ("end_time", "<i8"),
])  # fmt: skip
FRAME = np.dtype([
    ("timestamp", "<i8"),
    ("agent_index_interval", "<i8", (2,)),
    ("traffic_light_faces_index_interval", "<i8", (2,)),
    ("ego_translation", "<f8", (3,)),
    ("ego_rotation", "<f8", (3, 3)),
])  # fmt: skip
AGENT = np.dtype([
    ("centroid", "<f8", (2,)),
    ("extent", "<f4", (3,)),
    ("yaw", "<f4"),
    ("velocity", "<f4", (2,)),
    ("track_id", "<u8"),
    ("label_probabilities", "<f4", (len(LABELS),)),
])  # fmt: skip
FACE = np.dtype([
    ("face_id", "<U16"),
    ("traffic_light_id", "<U16"),
    ("traffic_light_face_status", "<f4", (len(FaceStatus),)),
])  # fmt: skip

COMPRESSOR: Final = Blosc("lz4", 5, Shuffle.BYTE)


def _spec(dtype: np.dtype[np.void], chunk: int) -> ArraySpec:
    return ArraySpec(dtype, (chunk,), COMPRESSOR)


SCENES: Final = "scenes"
FRAMES: Final = "frames"
AGENTS: Final = "agents"
FACES: Final = "traffic_light_faces"

SPECS: Final = {
    SCENES: _spec(SCENE, 10_000),
    FRAMES: _spec(FRAME, 10_000),
    AGENTS: _spec(AGENT, 20_000),
    FACES: _spec(FACE, 10_000),
}
"""Every array; L5Kit asks for exactly these chunks."""

INTERVALS: Final = {
    FRAMES: (SCENES, "frame_index_interval"),
    AGENTS: (FRAMES, "agent_index_interval"),
    FACES: (FRAMES, "traffic_light_faces_index_interval"),
}
"""By array: the array and field whose start-inclusive, end-exclusive intervals cover it."""


NAMES = "scene_names"
ORIGINS_ECEF = "scene_origins_ecef_m"
ORIGINS_GEODETIC = "scene_origins_lat_lon_alt"
_FAR = 1e9


@dataclass(frozen=True, slots=True)
class SceneNote:
    """Name and world origin of a scene, which the arrays do not hold; None if unknown.

    ``name`` is the sequence's name; ``origin`` is the zero of its world coordinates (ENU, metres).
    """

    name: str | None = None
    origin: GeoPoint | None = None

    @classmethod
    def of(cls, name: object, coordinates: Iterable[float] | None) -> SceneNote:
        """A note that was stored as JSON.

        Raises:
            ValueError, TypeError or OverflowError: this is no place on earth.
        """
        place = tuple(map(float, () if coordinates is None else coordinates))
        if not all(abs(value) < _FAR for value in place):
            raise ValueError(f"not a position on earth: {place}")
        return cls(None if name is None else str(name), None if coordinates is None else GeoPoint(*place))

    @property
    def origin_ecef_m(self) -> tuple[float, float, float] | None:
        """The origin in earth-centred, earth-fixed coordinates (WGS-84)."""
        if self.origin is None:
            return None
        place = (self.origin.latitude_deg, self.origin.longitude_deg, self.origin.altitude_m)
        x, y, z = pymap3d.geodetic2ecef(*place)
        return float(x), float(y), float(z)


def write_attributes(root: Path, notes: Iterable[SceneNote]) -> None:
    """Replace ``.zattrs``, unsynced; lists in which nothing is known are left out."""
    notes = list(notes)
    columns: dict[str, list[Any]] = {
        NAMES: [note.name for note in notes],
        ORIGINS_ECEF: [note.origin_ecef_m for note in notes],
        ORIGINS_GEODETIC: [
            note.origin and (note.origin.latitude_deg, note.origin.longitude_deg, note.origin.altitude_m)
            for note in notes
        ],
    }
    known = {key: column for key, column in columns.items() if any(value is not None for value in column)}
    values = {"format_version": FORMAT_VERSION, "labels": LABELS, **known}
    replace_file(root / ATTRIBUTES_KEY, json_bytes(values), sync=False)


def read_attributes(root: Path) -> dict[str, Any]:
    """The root attributes as they are; empty if there are none.

    Raises:
        DatasetError: they are not JSON.
    """
    path = root / ATTRIBUTES_KEY
    with refusing(path, DatasetError):
        try:
            values = parse_json(read_regular(path, MOST_REPORT_BYTES))
        except FileNotFoundError:
            return {}
    return values if isinstance(values, dict) else {}


def scene_notes(attributes: dict[str, Any], scenes: int) -> list[SceneNote]:
    """Notes of every scene, empty ones for a dataset from elsewhere.

    Raises:
        DatasetError: an origin is no place on earth.
    """
    names = _column(attributes, NAMES, scenes)
    origins = _column(attributes, ORIGINS_GEODETIC, scenes)
    with refusing(ATTRIBUTES_KEY, DatasetError, ORIGINS_GEODETIC):
        return [SceneNote.of(name, origin) for name, origin in zip(names, origins, strict=True)]


def _column(attributes: dict[str, Any], key: str, scenes: int) -> list[Any]:
    values = attributes.get(key)
    values = list(values) if isinstance(values, list) else []
    return [*values[:scenes], *[None] * (scenes - len(values))]
