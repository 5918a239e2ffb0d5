"""Samples to everything of a frame that needs no memory of the frames before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.base import NoPlace
from edgefirst_ros.formats.l5kit.boxes import (
    Boxes,
    PlacedBoxes,
    Setting,
    boxes_of,
    place_model,
    place_solid,
)
from edgefirst_ros.formats.l5kit.candidates import Candidates, repeats, shown_by, track_key
from edgefirst_ros.formats.l5kit.clusters import place_clusters, place_fused
from edgefirst_ros.formats.l5kit.geometry import Floats, rotation_matrix
from edgefirst_ros.formats.l5kit.labels import class_key, status_row
from edgefirst_ros.formats.l5kit.matching import identified
from edgefirst_ros.formats.l5kit.options import ROLES, L5KitOptions, Source
from edgefirst_ros.formats.l5kit.points import sensor_points
from edgefirst_ros.formats.l5kit.schema import AGENT, FACE, LIDAR, POINT, RADAR, Records
from edgefirst_ros.messages.detection import Detections
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.sample import GeoPoint, Role, Sample

NO_POSE = "no ego pose at the frame's time"
ALL_SHOWN = NoPlace("no object in it that no other source shows")
_COLORS = ("red", "yellow", "amber", "green")


@dataclass(frozen=True, slots=True)
class Pose:
    """Rig to world: ``rotation`` (3, 3), ``position_m`` (3,), in the world of ``origin``."""

    rotation: Floats
    position_m: Floats
    origin: GeoPoint | None


@dataclass(slots=True)
class _Account:
    """Topics that are read for the frame, bytes of the rows made of each, and why there are not more."""

    topics: set[str] = field(default_factory=set)
    stored: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PreparedFrame:
    """A frame but for motion; ``pose`` None makes it none.

    ``topics`` are those that were read for it, ``stored`` the bytes of its rows by the topic they come from.
    """

    sequence: str
    frame: int
    time_ns: int
    pose: Pose | None
    candidates: Candidates
    faces: Records
    points: Records
    topics: tuple[str, ...]
    stored: Mapping[str, int]
    refused: tuple[tuple[str, str], ...]

    @property
    def shown(self) -> Iterator[tuple[str, str]]:
        """Topics of whose message there is no row, and why."""
        told = {topic for topic, _ in self.refused}
        return ((t, ALL_SHOWN) for t in self.topics if t not in told and not self.stored.get(t))


def prepare_frame(sample: Sample, options: L5KitOptions) -> PreparedFrame:
    """Place every detection of the sample in the rig's frame; pure."""
    setting, account = Setting(sample.calibration, options), _Account()
    candidates = _candidates(sample, setting, account)
    faces = _faces(sample, setting, account)
    points = _points(sample, setting, account)
    pose = _pose(sample)
    if pose is None:
        account.refused = [(topic, NO_POSE) for topic in sorted(account.topics)]
    return PreparedFrame(
        sample.sequence.name,
        sample.frame,
        sample.time_ns,
        pose,
        candidates,
        faces,
        points,
        tuple(sorted(account.topics)),
        account.stored,
        tuple(account.refused),
    )


def _pose(sample: Sample) -> Pose | None:
    ego = sample.ego
    if ego.position_m is None or ego.rotation_xyzw is None:
        return None
    rotation, position = rotation_matrix(ego.rotation_xyzw), np.array(ego.position_m, np.float64)
    if not (np.isfinite(rotation).all() and np.isfinite(position).all()):
        return None
    return Pose(rotation, position, ego.origin)


def _candidates(sample: Sample, setting: Setting, account: _Account) -> Candidates:
    kept = Candidates.none()
    unplaced: list[tuple[str, str, int]] = []
    for source in setting.options.sources:
        measurement = sample.companions.get(ROLES[source])
        if measurement is None:
            continue
        try:
            placed = _placed(source, measurement, sample, setting)
        except DecodeError as error:
            account.refused.append((measurement.topic, str(error)))
            continue
        account.topics.add(measurement.topic)
        unplaced += [(measurement.topic, reason, key) for reason, key in placed.refused]
        again = repeats(placed.candidates)
        account.refused += [(measurement.topic, "a track twice in one frame")] * int(again.sum())
        more = placed.candidates.taken(~again)
        new = more.taken(~shown_by(kept, more))
        account.stored[measurement.topic] += len(new) * AGENT.itemsize
        kept = Candidates.joined([kept, new])
    # What one source could not place is only missing if no other one did.
    there = set(kept.key.tolist()) - {0}
    account.refused += [(topic, reason) for topic, reason, key in unplaced if key not in there]
    return kept


def _placed(source: Source, measurement: Measurement, sample: Sample, setting: Setting) -> PlacedBoxes:
    model = sample.companions.get(Role.MODEL)
    flat = _no_lights(model, setting) if model is not None else Boxes((), "")
    if source == "model":
        return place_model(flat, setting)
    if source == "boxes3d":
        return place_solid(identified(_no_lights(measurement, setting), flat, setting), setting)
    if source == "radar_clusters":
        return PlacedBoxes(place_clusters(measurement, setting))
    return PlacedBoxes(place_fused(measurement, flat, setting))


def _no_lights(measurement: Measurement, setting: Setting) -> Boxes:
    lights = setting.options.all_lights
    boxes = boxes_of(measurement)
    rest = tuple(box for box in boxes if class_key(setting.class_name(box.label)) not in lights)
    return Boxes(rest, measurement.frame_id)


def _faces(sample: Sample, setting: Setting, account: _Account) -> Records:
    """The traffic lights of the picture. A light is its track; a face, that and the colour of its class."""
    model = sample.companions.get(Role.MODEL)
    if model is None or not isinstance(model.datum, Detections):
        return np.zeros(0, FACE)
    rows: dict[str, tuple[str, str, object]] = {}
    for index, box in enumerate(model.datum.boxes):
        name = class_key(setting.class_name(box.label))
        status = setting.options.all_lights.get(name)
        if status is None:
            continue
        color = next((color[0] for color in _COLORS if color in name.split()), "-")
        key = track_key(box.track_id)
        # A light without a track is known in its own frame only.
        light = f"t{key:08x}" if key else f"f{sample.frame % 10**8:08d}.{index % 1000:03d}"
        face = f"{light}:{color}"
        rows.setdefault(face, (face, light, status_row(status)))
    if rows:
        account.topics.add(model.topic)
        account.stored[model.topic] += len(rows) * FACE.itemsize
    return np.array(list(rows.values()), FACE)


def _points(sample: Sample, setting: Setting, account: _Account) -> Records:
    wanted = setting.options.points
    parts = [np.zeros(0, POINT)]
    for role, sensor, name in (
        (Role.LIDAR_POINTS, LIDAR, "lidar"),
        (Role.RADAR_TARGETS, RADAR, "radar"),
    ):
        measurement = sample.companions.get(role)
        if measurement is None or wanted not in {name, "both"}:
            continue
        try:
            points = sensor_points(measurement, sensor, setting)
            parts.append(points)
            account.topics.add(measurement.topic)
            account.stored[measurement.topic] += points.nbytes
        except DecodeError as error:
            account.refused.append((measurement.topic, str(error)))
    return np.concatenate(parts)
