"""Root attributes: those that L5Kit requires, and the name and world origin of each scene."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymap3d

from edgefirst_ros.errors import DatasetError
from edgefirst_ros.formats.crashsafe.replacing import replace_file
from edgefirst_ros.formats.l5kit.store.schema import FORMAT_VERSION, LABELS
from edgefirst_ros.formats.zarr2.metadata import ATTRIBUTES_KEY, json_bytes
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, parse_json, read_regular, refusing
from edgefirst_ros.sample import GeoPoint

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
