"""Names, types and chunk lengths of an L5Kit dataset (2020 competition format, ``format_version`` 2)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.zarr2.array import ArraySpec
from edgefirst_ros.formats.zarr2.compression import Blosc, Shuffle

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
        return list(AgentLabel).index(self)


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

POINT = np.dtype([("position_cm", "<i2", (3,)), ("sensor", "u1")])
"""A sensor's point in base_link, x forward, y left, z up; 1 cm steps, which reach 327 m."""

POINT_SPAN = np.dtype([("point_index_interval", "<i8", (2,))])
"""Where a frame's points are."""

LIDAR: Final = 0
RADAR: Final = 1
"""Values of ``sensor``."""

COMPRESSOR: Final = Blosc("lz4", 5, Shuffle.BYTE)


def _spec(dtype: np.dtype[np.void], chunk: int) -> ArraySpec:
    return ArraySpec(dtype, (chunk,), COMPRESSOR)


SCENES: Final = "scenes"
FRAMES: Final = "frames"
AGENTS: Final = "agents"
FACES: Final = "traffic_light_faces"
SPANS: Final = "point_spans"
POINTS: Final = "points"

SPECS: Final = {
    SCENES: _spec(SCENE, 10_000),
    FRAMES: _spec(FRAME, 10_000),
    AGENTS: _spec(AGENT, 20_000),
    FACES: _spec(FACE, 10_000),
    SPANS: _spec(POINT_SPAN, 10_000),
    POINTS: _spec(POINT, 100_000),
}
"""Every array; L5Kit knows the first four and asks for exactly these chunks."""

SIDE: Final = frozenset({SPANS, POINTS})
"""Arrays that only this package knows. They are not in the zarr group, which has L5Kit's four, but plain
files ``<array>.zarray``, ``<array>.0``, ``<array>.1``, ... beside them; L5Kit and zarr ignore such files."""

INTERVALS: Final = {
    FRAMES: (SCENES, "frame_index_interval"),
    AGENTS: (FRAMES, "agent_index_interval"),
    FACES: (FRAMES, "traffic_light_faces_index_interval"),
    POINTS: (SPANS, "point_index_interval"),
}
"""By array: the array and field whose start-inclusive, end-exclusive intervals cover it."""
