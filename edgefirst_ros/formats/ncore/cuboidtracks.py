"""Heading and size of cuboids, solved over each track when a sequence is finished."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation, Slerp

from edgefirst_ros.formats.ncore.entry import Json
from edgefirst_ros.formats.ncore.extrinsics import RIG, Pose, TransformRow, sensor_edges
from edgefirst_ros.formats.ncore.trajectory import RigPoses
from edgefirst_ros.tracks.classes import KINDS, PRIORS, Kind, Size, class_key
from edgefirst_ros.tracks.motion import Path
from edgefirst_ros.tracks.sizes import Extent, SizeEstimate
from edgefirst_ros.tracks.still import NEW_SIDE_RAD, View, still_heading

_WINDOW_NS = 500_000_000
_MOVING_M_S = 1.0
_AWAY_US = 2_000_000
"""A track unseen for longer starts anew."""

_TOO_FAST_M_S = 50.0
_POSE_GAP_US = 1_000_000
"""Rig poses further apart than this are not interpolated between."""

_POSE_HOLD_US = 60_000

_AXES_OF_BOX_IN_OPTICAL = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Columns: forward, left, up of a box that looks away from an optical frame, in it."""


class Heading(IntEnum):
    """What the heading of a cuboid rests on."""

    MOTION = 0
    """The track's motion at that time, faster than 1 m/s."""
    HELD = 1
    """The track's motion at another time, as it is slower at this one."""
    VIEWS = 2
    """How wide it looked from several sides; which end is the front is not known."""
    ASSUMED = 3
    """Nothing: away from the sensor, or across that if it looks rather as long as its kind is."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Cuboids as they came, one a row.

    Attributes:
        observations: as NCore has them, but rotation and dimensions as measured: width across, and height.
        kinds: of the objects.
        tracked: False for boxes that the device numbers anew in every message.
        optical: whether the reference frame is an optical one.
    """

    observations: Sequence[Json]
    kinds: Sequence[Kind]
    tracked: Sequence[bool]
    optical: Sequence[bool]


@dataclass(slots=True)
class _Seen:
    """One cuboid on its way: where and how it was seen, in the world if the rig's pose is known then."""

    row: int
    time_us: int
    kind: Kind
    world: Pose | None
    place_m: tuple[float, float]
    bearing_rad: float
    lateral_m: float
    height_m: float
    optical: bool
    size_m: Size = (0.0, 0.0, 0.0)
    heading_rad: float | None = None
    basis: Heading = Heading.ASSUMED


def kind_of(name: str) -> Kind:
    """The kind that a class name stands for."""
    return KINDS.get(class_key(name), Kind.UNKNOWN)


def solved(
    boxes: Boxes,
    poses: RigPoses | None,
    transforms: Sequence[TransformRow],
    rig_frame: str,
    nodes: Mapping[str, str],
) -> tuple[list[Json], npt.NDArray[np.uint8]]:
    """The cuboids with the heading and size of their tracks.

    ``bbox3`` becomes length, width, height and the rotation ('xyz' Euler angles, radians) of a box upright
    in the world, x forward, in its reference frame. A track's size is one for all its cuboids, its heading
    that of its motion at each time. Without the rig's pose nothing tells motion from the rig's own.

    Args:
        boxes: all of a sequence.
        poses: the rig's, None if there are none.
        transforms: static ones.
        rig_frame: what tf calls the rig.
        nodes: coordinate frame by node of the pose graph.

    Returns:
        The observations, and by row the ``Heading`` that it has.
    """
    wanted = {str(each["reference_frame_id"]) for each in boxes.observations}
    edges, _ = sensor_edges(transforms, rig_frame, {node: (nodes.get(node, node), False) for node in wanted})
    worlds = _rig_at(poses, [each["reference_frame_timestamp_us"] for each in boxes.observations])
    seen = [_seen(boxes, row, edges, worlds[row]) for row in range(len(boxes.observations))]
    for track in _tracks(seen, boxes):
        _solve_headings(track)
        size = _size(track)
        for each in track:
            each.size_m = size
    result: list[Json] = []
    for each, angles in zip(seen, _rotations(seen).tolist(), strict=True):
        observation = dict(boxes.observations[each.row])
        dim = [float(edge) for edge in each.size_m]
        observation["bbox3"] = {**observation["bbox3"], "dim": dim, "rot": angles}
        result.append(observation)
    return result, np.array([each.basis for each in seen], np.uint8)


def _rig_at(poses: RigPoses | None, times_us: Sequence[int]) -> list[Pose | None]:
    """T_rig_world (4, 4) at each time; None where it is not known."""
    known = np.zeros(0, np.bool_) if poses is None else np.isfinite(poses.rows).all(axis=1)
    if poses is None or np.count_nonzero(known) < 2:
        return [None] * len(times_us)
    at_us, rows, wanted = poses.times_us[known], poses.rows[known], np.array(times_us, np.int64)
    held = wanted.clip(at_us[0], at_us[-1])
    after = np.searchsorted(at_us, held).clip(1, len(at_us) - 1)
    off = np.minimum(np.abs(wanted - at_us[after]), np.abs(wanted - at_us[after - 1]))
    told = ((at_us[after] - at_us[after - 1] <= _POSE_GAP_US) & (held == wanted)) | (off <= _POSE_HOLD_US)
    begin = at_us[0]
    turns = Slerp((at_us - begin).astype(np.float64), Rotation.from_quat(rows[:, 3:]))
    matrices = np.tile(np.eye(4), (len(wanted), 1, 1))
    matrices[:, :3, :3] = turns((held - begin).astype(np.float64)).as_matrix()
    for axis in range(3):
        matrices[:, axis, 3] = np.interp(held - begin, at_us - begin, rows[:, axis])
    return [matrix if there else None for matrix, there in zip(matrices, told.tolist(), strict=True)]


def _seen(boxes: Boxes, row: int, edges: Mapping[str, Pose], rig: Pose | None) -> _Seen:
    observation = boxes.observations[row]
    node, bbox = observation["reference_frame_id"], observation["bbox3"]
    optical = boxes.optical[row]
    world = None if rig is None else rig @ (np.eye(4) if node == RIG else edges.get(node, np.eye(4)))
    x, y, bearing = 0.0, 0.0, 0.0
    if world is not None:
        x, y, _ = (world[:3, :3] @ np.array(bbox["centroid"]) + world[:3, 3]).tolist()
        away = world[:3, 2 if optical else 0]
        bearing = math.atan2(away[1], away[0])
    return _Seen(
        row=row,
        time_us=observation["timestamp_us"],
        kind=boxes.kinds[row],
        world=world,
        place_m=(x, y),
        bearing_rad=bearing,
        lateral_m=bbox["dim"][0],
        height_m=bbox["dim"][1 if optical else 2],
        optical=optical,
    )


def _tracks(seen: Sequence[_Seen], boxes: Boxes) -> Iterator[list[_Seen]]:
    """The cuboids of each object in order of time: a track ends where it was away or leapt."""
    by_name: dict[str, list[_Seen]] = {}
    for each in seen:
        if boxes.tracked[each.row]:
            by_name.setdefault(boxes.observations[each.row]["track_id"], []).append(each)
        else:
            yield [each]
    for every in by_name.values():
        every.sort(key=lambda each: (each.time_us, each.row))
        track: list[_Seen] = []
        for each in every:
            if track and _is_another(track[-1], each):
                yield track
                track = []
            track.append(each)
        yield track


def _is_another(last: _Seen, now: _Seen) -> bool:
    step_us = now.time_us - last.time_us
    leapt = math.dist(last.place_m, now.place_m) > _TOO_FAST_M_S * step_us / 1e6
    return step_us > _AWAY_US or (last.world is not None and now.world is not None and leapt and step_us > 0)


def _solve_headings(track: Sequence[_Seen]) -> None:
    placed = [each for each in track if each.world is not None]
    path = Path(_WINDOW_NS)
    for each in placed:
        path.add(each.time_us * 1000, each.place_m)
    moving: list[_Seen] = []
    for each in placed:
        each.heading_rad = path.heading(each.time_us * 1000, _MOVING_M_S)
        if each.heading_rad is not None:
            each.basis = Heading.MOTION
            moving.append(each)
    if moving:
        times = np.array([each.time_us for each in moving])
        for each in placed:
            if each.heading_rad is None:
                nearest = moving[int(np.argmin(np.abs(times - each.time_us)))]
                each.heading_rad, each.basis = nearest.heading_rad, Heading.HELD
        return
    still = still_heading(_views(placed), PRIORS[_kind(track)])
    if still is not None:
        for each in placed:
            each.heading_rad, each.basis = still, Heading.VIEWS


def _views(track: Sequence[_Seen]) -> list[View]:
    """The sides that it was seen from, each once."""
    views: list[View] = []
    for each in track:
        if not views or abs(each.bearing_rad - views[-1][0]) >= NEW_SIDE_RAD:
            views.append((each.bearing_rad, each.lateral_m))
    return views


def _kind(track: Sequence[_Seen]) -> Kind:
    """The kind that most of its cuboids are of."""
    return Counter(each.kind for each in track).most_common(1)[0][0]


def _size(track: Sequence[_Seen]) -> Size:
    estimate, prior = SizeEstimate(), PRIORS[_kind(track)]
    for each in track:
        turned = None if each.heading_rad is None else each.heading_rad - each.bearing_rad
        estimate.see(Extent(each.lateral_m, math.nan, each.height_m, turned))
    for each in track:
        if each.heading_rad is None and estimate.lies_across(prior):
            each.heading_rad = each.bearing_rad + math.pi / 2
    return estimate.size(prior)


def _rotations(seen: Sequence[_Seen]) -> npt.NDArray[np.float64]:
    """Euler angles (N, 3) of the boxes in their reference frames."""
    if not seen:
        return np.zeros((0, 3))
    frames, turns = np.empty((len(seen), 3, 3)), np.empty(len(seen))
    for row, each in enumerate(seen):
        heading = each.heading_rad
        if each.world is not None and heading is not None and each.basis is not Heading.ASSUMED:
            frames[row], turns[row] = each.world[:3, :3].T, heading
        else:
            frames[row] = _AXES_OF_BOX_IN_OPTICAL if each.optical else np.eye(3)
            turns[row] = 0.0 if heading is None else heading - each.bearing_rad
    boxes = frames @ Rotation.from_euler("z", turns[:, None]).as_matrix()
    angles: npt.NDArray[np.float64] = Rotation.from_matrix(boxes).as_euler("xyz") + 0.0
    return angles
