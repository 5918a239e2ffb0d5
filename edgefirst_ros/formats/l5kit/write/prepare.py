"""One sample to the parts of a frame that depend on no other sample.

The ego pose, interpolated between the samples.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from edgefirst_ros.formats.format import NO_FILE
from edgefirst_ros.formats.l5kit.options import ROLES, L5KitOptions, Source, status_row
from edgefirst_ros.formats.l5kit.store.schema import FACE, Records
from edgefirst_ros.formats.l5kit.write.boxes import (
    VIEWS,
    Boxes,
    PlacedBoxes,
    PlacedDetections,
    Setting,
    boxes_of,
    identified,
    place_model,
    place_solid,
    repeats,
    shown_by,
    track_key,
)
from edgefirst_ros.formats.tracks.rays import Floats
from edgefirst_ros.formats.tracks.sizes import class_key
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.sample import EgoPose, GeoPoint, Measurement, Role, Sample
from edgefirst_ros.model.transform import between, matrix_of, quaternion_of

NO_POSE = "no ego pose at the frame's time"
_COLORS = ("red", "yellow", "amber", "green")


@dataclass(frozen=True, slots=True)
class Pose:
    """Rig to world: ``rotation`` (3, 3), ``position_m`` (3,), in the world of ``origin``."""

    rotation: Floats
    position_m: Floats
    origin: GeoPoint | None


@dataclass(slots=True)
class _Account:
    """Topics that were read for the frame; topic and reason of what is not expressed in it."""

    topics: set[str] = field(default_factory=set)
    refused: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lights:
    """The faces of the traffic lights that a message shows, rows of FACE."""

    topic: str
    time_ns: int
    faces: Records


@dataclass(frozen=True, slots=True)
class PreparedFrame:
    """A sample placed in the rig's frame; without ``pose`` no frame is made of it.

    Attributes:
        candidates: the detections, each at the time of its own message.
        origins: topics of the candidates, by their source.
        lights: None without a message of the model.
        topics: those that were used.
        refused: topic and reason of what cannot be placed.
    """

    sequence: str
    frame: int
    time_ns: int
    pose: Pose | None
    candidates: PlacedDetections
    origins: Mapping[int, str]
    lights: Lights | None
    topics: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]

    @property
    def newest_ns(self) -> int:
        """Time of its lights, 0 if there are none."""
        return 0 if self.lights is None else self.lights.time_ns


def prepare_frame(sample: Sample, options: L5KitOptions) -> PreparedFrame:
    """Place every detection of the sample in the rig's frame; pure."""
    camera = sample.companions.get(Role.CAMERA)
    picture_frame = camera.frame_id if camera else ""
    setting = Setting(sample.calibration, options, sample.sequence.rig_frame, picture_frame)
    account = _Account()
    candidates, origins = _candidates(sample.companions, setting, account)
    for view in sample.views:
        number = track_key(view.camera)
        beside = Setting(view.calibration, options, sample.sequence.rig_frame, None)
        account.topics.update(each.topic for each in view.companions.values())
        found, topics = _candidates(view.companions, beside, account)
        candidates = PlacedDetections.joined([candidates, found.of_view(number)])
        origins |= {source + number: topic for source, topic in topics.items()}
    lights = _lights(sample, setting)
    pose = pose_of(sample.ego)
    if lights is not None:
        account.topics.add(lights.topic)
    if pose is None:
        account.refused = [(topic, NO_POSE) for topic in sorted(account.topics)]
    others = sample.companions.keys() - options.roles
    account.refused += [(sample.companions[role].topic, NO_FILE) for role in sorted(others)]
    return PreparedFrame(
        sample.sequence.name,
        sample.frame,
        sample.time_ns,
        pose,
        candidates,
        origins,
        lights,
        tuple(sorted(account.topics)),
        tuple(account.refused),
    )


def pose_of(ego: EgoPose) -> Pose | None:
    """The ego pose as matrix and position; None if it is unknown or not finite."""
    if ego.position_m is None or ego.rotation_xyzw is None:
        return None
    rotation, position = matrix_of(ego.rotation_xyzw), np.array(ego.position_m, np.float64)
    if not (np.isfinite(rotation).all() and np.isfinite(position).all()):
        return None
    return Pose(rotation, position, ego.origin)


def _candidates(
    companions: Mapping[Role, Measurement], setting: Setting, account: _Account
) -> tuple[PlacedDetections, dict[int, str]]:
    """The detections of one view, and their topics by source."""
    kept = PlacedDetections.none()
    unplaced: list[tuple[str, str, int]] = []
    origins: dict[int, str] = {}
    for rank, source in enumerate(setting.options.sources):
        measurement = companions.get(ROLES[source])
        if measurement is None:
            continue
        origins[rank * VIEWS] = measurement.topic
        try:
            placed = _placed(source, measurement, companions.get(Role.MODEL), setting.at(measurement))
        except DecodeError as error:
            account.refused.append((measurement.topic, str(error)))
            continue
        account.topics.add(measurement.topic)
        unplaced += [(measurement.topic, reason, key) for reason, key in placed.refused]
        again = repeats(placed.candidates)
        account.refused += [(measurement.topic, "the same track twice in one frame")] * int(again.sum())
        more = placed.candidates.taken(~again).of(rank * VIEWS, measurement.time_ns)
        kept = PlacedDetections.joined([kept, more.taken(~shown_by(kept, more))])
    # What one source could not place is only missing if no other one did.
    there = set(kept.key.tolist()) - {0}
    account.refused += [(topic, reason) for topic, reason, key in unplaced if key not in there]
    return kept, origins


def _placed(
    source: Source, measurement: Measurement, model: Measurement | None, setting: Setting
) -> PlacedBoxes:
    flat = _no_lights(model, setting) if model is not None else Boxes((), "")
    if source == "model":
        return place_model(flat, setting)
    return place_solid(identified(_no_lights(measurement, setting), flat, setting), setting)


def _no_lights(measurement: Measurement, setting: Setting) -> Boxes:
    lights = setting.options.all_lights
    boxes = boxes_of(measurement)
    rest = tuple(box for box in boxes if class_key(setting.class_name(box.label)) not in lights)
    return Boxes(rest, measurement.frame_id)


def _lights(sample: Sample, setting: Setting) -> Lights | None:
    """The traffic lights of the picture. A light is identified by its track, a face by light and colour."""
    model = sample.companions.get(Role.MODEL)
    if model is None or not isinstance(model.datum, Detections):
        return None
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
    return Lights(model.topic, model.time_ns, np.array(list(rows.values()), FACE))


_BEYOND_NS = 50_000_000
"""How far a known pose is extrapolated, for measurements a little before or after it."""


class EgoPath:
    """Ego poses of the samples in order of time; None where a sample has none.

    Between two poses the position follows a cubic, whose slope at each is that of the parabola through it and
    its neighbours; the rotation turns at a constant rate. Next to a sample without a pose, the pose is known
    within 50 ms of a known one only.
    """

    def __init__(self) -> None:
        self._times_ns: list[int] = []
        self._poses: list[Pose | None] = []

    def add(self, time_ns: int, pose: Pose | None) -> None:
        """Append the pose of the next sample."""
        self._times_ns.append(time_ns)
        self._poses.append(pose)

    def forget(self, before_ns: int) -> None:
        """Drop poses that interpolation from this time on does not need."""
        count = max(bisect_right(self._times_ns, before_ns) - 2, 0)
        del self._times_ns[:count]
        del self._poses[:count]

    def at(self, time_ns: int, *, beyond: bool = False) -> Pose | None:
        """The pose at a time.

        Args:
            time_ns: when.
            beyond: extrapolate by up to 50 ms where there is a pose on one side only.
        """
        times = self._times_ns
        after = bisect_left(times, time_ns)
        if after < len(times) and times[after] == time_ns:
            return self._poses[after]
        if self._known(after - 1) and self._known(after):
            return self._between(after, time_ns)
        if not beyond:
            return None
        for near, pair in ((after - 1, after - 1), (after, after + 1)):
            if self._known(near) and abs(time_ns - times[near]) <= _BEYOND_NS:
                if self._known(pair - 1) and self._known(pair):
                    return self._between(pair, time_ns)
                return self._poses[near]
        return None

    def _known(self, index: int) -> bool:
        return 0 <= index < len(self._poses) and self._poses[index] is not None

    def _between(self, after: int, time_ns: int) -> Pose:
        """The pose on the curve between two poses; beyond its ends, on a straight line."""
        start, end = self._poses[after - 1], self._poses[after]
        if start is None or end is None:
            raise ValueError(f"no pose on both sides of {time_ns}")
        step_s = (self._times_ns[after] - self._times_ns[after - 1]) / 1e9
        share = (time_ns - self._times_ns[after - 1]) / (self._times_ns[after] - self._times_ns[after - 1])
        first, last = quaternion_of(np.stack([start.rotation, end.rotation]))
        rotation = matrix_of(between(first, last, share))
        chord = end.position_m - start.position_m
        if not 0 <= share <= 1:
            return Pose(rotation, start.position_m + share * chord, start.origin)
        slopes = self._slope(after - 1), self._slope(after)
        before = chord / step_s if slopes[0] is None else slopes[0]
        behind = chord / step_s if slopes[1] is None else slopes[1]
        left, right = before * step_s - chord, chord - behind * step_s
        bend = share * (1 - share) * ((1 - share) * left + share * right)
        return Pose(rotation, start.position_m + share * chord + bend, start.origin)

    def _slope(self, index: int) -> Floats | None:
        """m/s at a pose by the parabola through it and its neighbours; None where one is not known."""
        before, here, behind = (
            self._poses[i] if self._known(i) else None for i in (index - 1, index, index + 1)
        )
        if before is None or here is None or behind is None:
            return None
        first_s = (self._times_ns[index] - self._times_ns[index - 1]) / 1e9
        second_s = (self._times_ns[index + 1] - self._times_ns[index]) / 1e9
        first = (here.position_m - before.position_m) / first_s
        second = (behind.position_m - here.position_m) / second_s
        slope: Floats = (first * second_s + second * first_s) / (first_s + second_s)
        return slope
