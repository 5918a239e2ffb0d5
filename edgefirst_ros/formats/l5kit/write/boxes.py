"""Boxes of a model and of its fusion with ranges, placed in the rig's frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.options import PRIORS_OF_LABELS, L5KitOptions, label_rows
from edgefirst_ros.formats.l5kit.store.schema import LABELS, AgentLabel
from edgefirst_ros.formats.tracks.rays import (
    CAMERA_FRAME,
    Floats,
    along_rays,
    in_image_plane,
    moved,
    not_placed,
)
from edgefirst_ros.formats.tracks.sizes import class_key
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.detection import Box, BoxAxes, Detections, is_optical
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.sample import Calibration, Measurement
from edgefirst_ros.model.transform import bare, frame_in_base

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
VIEWS = 1 << 32
"""A view is 0, the sample's own, or the ``track_key`` of another camera."""


def track_key(name: str) -> int:
    """The 32-bit key of a track's name: its FNV-1a hash, as the device's fusion computes it; 0 is no track.

    Source: ``track_id`` of fusion/radar and fusion/lidar, which is this hash of the model box's track id.
    """
    if not name:
        return 0
    value = _FNV_OFFSET
    for byte in name.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFF_FFFF
    return value or 1


@dataclass(frozen=True, slots=True)
class PlacedDetections:
    """N detections in the rig's frame (x forward, y left, z up).

    Attributes:
        place_m: (N, 2), the object's centre, metres.
        bearing_rad: (N,), direction away from the sensor; ``lateral_m`` is measured across it.
        lateral_m: (N,), extent seen across the bearing.
        height_m: (N,).
        key: (N,) int64 ``track_key``, 0 for no track.
        label: (N, 17) float32 probabilities.
        typical_m: (N, 2), typical length and width of its class.
        source: (N,) int64, which of the options' sources it is of, best first; times VIEWS, and its view.
        time_ns: (N,) int64, when it was seen.
    """

    place_m: Floats
    bearing_rad: Floats
    lateral_m: Floats
    height_m: Floats
    key: npt.NDArray[np.int64]
    label: npt.NDArray[np.float32]
    typical_m: Floats
    source: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    def taken(self, index: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> PlacedDetections:
        """The rows that ``index`` selects."""
        if index.dtype == np.bool_ and index.all():
            return self
        return PlacedDetections(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def none(cls) -> PlacedDetections:
        """No detections."""
        plain, pairs = np.zeros(0), np.zeros((0, 2))
        labels = np.zeros((0, len(LABELS)), np.float32)
        whole = np.zeros(0, np.int64)
        return cls(pairs, plain, plain, plain, whole, labels, pairs, whole, whole)

    def of(self, source: int, time_ns: int) -> PlacedDetections:
        """A copy with this source and time in every row."""
        count = len(self)
        return replace(self, source=np.full(count, source), time_ns=np.full(count, time_ns))

    def of_view(self, view: int) -> PlacedDetections:
        """A copy of which nothing has the key or the source of what another view has."""
        key = np.where(self.key > 0, np.maximum(self.key ^ view, 1), 0)
        return replace(self, key=key, source=self.source + view)

    @classmethod
    def joined(cls, parts: Sequence[PlacedDetections]) -> PlacedDetections:
        """All rows of all parts, in their order; at least one part."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(cls)))


def repeats(candidates: PlacedDetections) -> npt.NDArray[np.bool_]:
    """Which rows (N,) repeat the track of an earlier row."""
    again: npt.NDArray[np.bool_] = np.asarray(candidates.key != 0)
    again[np.unique(candidates.key, return_index=True)[1]] = False
    return again


def shown_by(best: PlacedDetections, more: PlacedDetections) -> npt.NDArray[np.bool_]:
    """Which of ``more`` (N,) show an object that ``best`` has already.

    Named tracks are compared by key. A detection without a track is the same object if its centre is within
    half the other's length plus 0.5 m.
    """
    anonymous = more.key == 0
    apart = np.linalg.norm(more.place_m[:, None] - best.place_m[None], axis=2)
    reach = np.maximum(best.typical_m[:, 0], best.lateral_m) / 2 + 0.5
    near: npt.NDArray[np.bool_] = anonymous & (apart < reach).any(axis=1)
    same: npt.NDArray[np.bool_] = ~anonymous & np.isin(more.key, best.key)
    return near | same


@dataclass(frozen=True, slots=True)
class Setting:
    """The calibration and options that placing detections needs."""

    calibration: Calibration
    options: L5KitOptions
    rig_frame: str = "base_link"
    picture_frame: str | None = ""
    """Of the sample's picture, as its message says; None where only messages name their frames."""

    def at(self, measurement: Measurement) -> Setting:
        """With what moves on the rig where it was at a measurement."""
        if not measurement.mounted:
            return self
        transforms = {**self.calibration.transforms, **measurement.mounted}
        return replace(self, calibration=replace(self.calibration, transforms=transforms))

    def frame_pose(self, frame_id: str) -> Floats:
        """T_frame_base (4, 4), a frame's pose in the rig; the empty name is the rig itself.

        Raises:
            DecodeError: the frame is not connected to the rig.
        """
        matrix = frame_in_base(self.calibration.transforms, frame_id, self.rig_frame)
        if matrix is None:
            raise DecodeError(f"no transform from {bare(frame_id)} to {self.rig_frame}")
        return matrix

    def camera_pose(self, frame_id: str) -> Floats:
        """T_camera_base (4, 4), of the named frame, or of the camera's if that is unknown.

        Raises:
            DecodeError: neither is connected to the rig.
        """
        if self.picture_frame is None:
            return self.frame_pose(frame_id)
        for name in (bare(frame_id), CAMERA_FRAME, bare(self.picture_frame)):
            matrix = frame_in_base(self.calibration.transforms, name, self.rig_frame)
            if name not in {"", self.rig_frame} and matrix is not None:
                return matrix
        return self.frame_pose(CAMERA_FRAME)

    @property
    def camera_info(self) -> CameraInfo:
        """Of the picture that boxes are in.

        Raises:
            DecodeError: it is not known.
        """
        if self.calibration.camera_info is None:
            raise DecodeError("no camera info to place boxes with")
        return self.calibration.camera_info

    def class_name(self, label: str) -> str:
        """A box's class by name: fusion sends class numbers, which the model's labels translate."""
        labels = self.calibration.model_info.labels if self.calibration.model_info else ()
        return labels[int(label)] if label.isdecimal() and int(label) < len(labels) else label

    def typical_m(self, names: Sequence[str]) -> Floats:
        """Typical length and width (N, 2) of classes."""
        labels = [self.options.all_labels.get(class_key(name), AgentLabel.UNKNOWN) for name in names]
        sizes = [PRIORS_OF_LABELS[label].typical_m[:2] for label in labels]
        return np.array(sizes, np.float64).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes of one message, traffic lights left out, and its frame."""

    boxes: tuple[Box, ...]
    frame_id: str


@dataclass(frozen=True, slots=True)
class PlacedBoxes:
    """The boxes that were placed, and reason and track key of each that was not."""

    candidates: PlacedDetections
    refused: tuple[tuple[str, int], ...] = ()


def boxes_of(measurement: Measurement) -> tuple[Box, ...]:
    """The boxes of a message.

    Raises:
        DecodeError: it holds no boxes.
    """
    if not isinstance(measurement.datum, Detections):
        raise DecodeError(f"message is {type(measurement.datum).__name__}, not boxes")
    return measurement.datum.boxes


def place_model(flat: Boxes, setting: Setting) -> PlacedBoxes:
    """2-D boxes with a distance, see ``along_rays``.

    Boxes that the left or right edge of the picture cuts are refused: their centre is not the object's.

    Raises:
        DecodeError: the camera is not calibrated.
    """
    info = setting.camera_info
    rays, optical, size = along_rays(flat.boxes, info)
    T_camera_base = setting.camera_pose(flat.frame_id)
    direction = rays @ T_camera_base[:3, :3].T
    bearing = np.arctan2(direction[:, 1], direction[:, 0])
    reasons = [not_placed(box, info) for box in flat.boxes]
    return _placed(flat.boxes, (moved(T_camera_base, optical), bearing, size), reasons, setting)


def place_solid(solid: Boxes, setting: Setting) -> PlacedBoxes:
    """Boxes of fusion/boxes3d, by their middle, in the frame that the message names.

    Raises:
        DecodeError: the frame is not connected to the rig.
    """
    forward = setting.frame_pose(solid.frame_id)[:3, 2 if is_optical(solid.frame_id) else 0]
    bearing = np.full(len(solid.boxes), np.arctan2(forward[1], forward[0]))
    place = solid_middles(solid, setting)
    size = np.array([(box.width, box.height) for box in solid.boxes], np.float64).reshape(-1, 2)
    return _placed(solid.boxes, (place, bearing, size), [""] * len(solid.boxes), setting)


def solid_middles(solid: Boxes, setting: Setting) -> Floats:
    """Middles (N, 3) of fusion/boxes3d in the rig's frame.

    A frame named ``*_optical`` has optical axes, any other one x forward, y left, z up; see ``BoxAxes``.

    Raises:
        DecodeError: the frame is not connected to the rig.
    """
    axes = BoxAxes(solid.frame_id, is_optical(solid.frame_id))
    points = np.array([axes.centre_m(box) for box in solid.boxes], np.float64).reshape(-1, 3)
    return moved(setting.frame_pose(solid.frame_id), points)


def _without(place_m: Sequence[float], size_m: Sequence[float]) -> str:
    """Why a box has no usable size or position; empty if it has both."""
    if not all(0 < edge < math.inf for edge in size_m):
        return "box without size"
    return "" if all(map(math.isfinite, place_m)) else "box without position"


def _placed(
    boxes: Sequence[Box], places: tuple[Floats, Floats, Floats], reasons: list[str], setting: Setting
) -> PlacedBoxes:
    """Boxes with centre (N, 3), bearing (N,) and size (N, 2), those with a reason against them left out."""
    place, bearing, size = places
    names = [setting.class_name(box.label) for box in boxes]
    scores = np.array([box.score for box in boxes], np.float64)
    candidates = PlacedDetections(
        place_m=place[:, :2],
        bearing_rad=bearing,
        lateral_m=size[:, 0],
        height_m=size[:, 1],
        key=np.array([track_key(box.track_id) for box in boxes], np.int64),
        label=label_rows(names, scores, setting.options.all_labels),
        typical_m=setting.typical_m(names),
        source=np.zeros(len(boxes), np.int64),
        time_ns=np.zeros(len(boxes), np.int64),
    )
    told = [
        reason or _without(where, extent)
        for reason, where, extent in zip(reasons, place.tolist(), size.tolist(), strict=True)
    ]
    refused = tuple((reason, int(key)) for reason, key in zip(told, candidates.key, strict=True) if reason)
    return PlacedBoxes(candidates.taken(np.array([not reason for reason in told], np.bool_)), refused)


def identified(solid: Boxes, flat: Boxes, setting: Setting) -> Boxes:
    """Boxes of fusion/boxes3d, each with track, label and score of the model's 2-D box that it projects into.

    The device's fusion numbers its boxes anew in every message (a decimal track id, lifetime 0) and sends
    classes as numbers, so neither identifies an object. A box whose centre projects into a 2-D box takes over
    that one's identity; matching is one to one, nearest pairs first. Boxes with a real track stay as they
    are. Without a match or a camera calibration the number is dropped.

    Raises:
        DecodeError: the frame of the solid boxes is not connected to the rig.
    """
    result = [box if box.is_tracked else replace(box, track_id="") for box in solid.boxes]
    loose = [index for index, box in enumerate(result) if not box.track_id]
    try:
        middles, half = in_image_plane(flat.boxes, setting.camera_info)
        T_camera_base = setting.camera_pose(flat.frame_id)
    except DecodeError:
        return Boxes(tuple(result), solid.frame_id)
    place = solid_middles(Boxes(tuple(result[i] for i in loose), solid.frame_id), setting)
    optical = (place - T_camera_base[:3, 3]) @ T_camera_base[:3, :3]
    ahead = optical[:, 2:] > 0
    seen = np.divide(optical[:, :2], optical[:, 2:], out=np.full((len(loose), 2), np.inf), where=ahead)
    off = np.abs(seen[:, None] - middles[None])
    within = (off <= half[None]).all(axis=2)
    pairs = np.argwhere(within)
    order = np.argsort(np.hypot(*off[within].T), kind="stable")
    taken: set[int] = set()
    matched: set[int] = set()
    for row, column in pairs[order].tolist():
        twin, own = flat.boxes[column], result[loose[row]]
        if column not in taken and loose[row] not in matched:
            taken.add(column)
            matched.add(loose[row])
            result[loose[row]] = replace(own, track_id=twin.track_id, label=twin.label, score=twin.score)
    return Boxes(tuple(result), solid.frame_id)
