"""Heading and size of cuboids, solved over each track when a sequence is finished."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation, Slerp

from edgefirst_ros.formats.ncore.extrinsics import RIG, TransformRow, sensor_edges
from edgefirst_ros.formats.ncore.finish.cuboidtable import CuboidTable
from edgefirst_ros.formats.ncore.finish.trajectory import RigPoses
from edgefirst_ros.formats.pace import rest
from edgefirst_ros.formats.tracks.classes import PRIORS, Prior, Size
from edgefirst_ros.formats.tracks.motion import headings_of
from edgefirst_ros.formats.tracks.sizes import NEW_SIDE_RAD, SeenExtent, SizeEstimate, View, still_heading

_WINDOW_NS = 500_000_000
_MOVING_M_S = 1.0
_AWAY_US = 2_000_000
"""A track that was unseen for longer starts again."""

_TOO_FAST_M_S = 50.0
_POSE_GAP_US = 1_000_000
"""Rig poses further apart than this are not interpolated between."""

_POSE_HOLD_US = 60_000

_AXES_OF_BOX_IN_OPTICAL = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Columns: forward, left and up of a box facing away from the camera, in the optical frame."""


Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


class Heading(IntEnum):
    """What the heading of a cuboid is derived from."""

    MOTION = 0
    """The track's motion at that time, faster than 1 m/s."""
    HELD = 1
    """The track's motion at another time, as it is slower at this one."""
    VIEWS = 2
    """How wide it looked from several sides; which end is the front is not known."""
    ASSUMED = 3
    """Nothing: away from the sensor, or across that if it looks rather as long as its kind is."""


META: dict[str, Any] = {
    "dim": "length, width, height; the device sends height and the width across its view, length and width "
    "are solved over each track from these, the headings, and what is typical of and possible for the class",
    "rot": "heading of the track's motion, the box upright in the world; see heading_basis",
    "heading_basis": [each.name.lower() for each in Heading],
    "generic_data": "one row an observation, in order",
}
"""``heading_basis`` is by the numbers of the array of that name."""


@dataclass(slots=True)
class _Seen:
    """Cuboids while they are solved, one per row.

    Attributes:
        worlds: (N, 4, 4) pose of their frame of reference; meaningless where ``placed`` is False.
        placed: (N,) whether that pose is known.
        places_m: x and y in the world.
        bearings_rad: which way the sensor looks.
        lateral_m: extent across that.
        height_m: extent upwards.
        headings_rad: in the world, None if unknown.
        basis: (N,) ``Heading``.
        dims_m: (N, 3) length, width, height.
    """

    worlds: Floats
    placed: npt.NDArray[np.bool_]
    places_m: list[tuple[float, float]]
    bearings_rad: list[float]
    lateral_m: list[float]
    height_m: list[float]
    headings_rad: list[float | None]
    basis: npt.NDArray[np.uint8]
    dims_m: Floats


def solved(
    boxes: CuboidTable,
    poses: RigPoses | None,
    transforms: Sequence[TransformRow],
    rig_frame: str,
    nodes: Mapping[str, str],
) -> tuple[Floats, Floats, npt.NDArray[np.uint8]]:
    """Heading and size of cuboids, solved over their tracks.

    The box is upright in the world, x forward. A track's size is one for all its cuboids, its heading that of
    its motion at each time. Without rig poses, motion cannot be told from the rig's own.

    Args:
        boxes: all of a sequence.
        poses: the rig's, None if there are none.
        transforms: static ones.
        rig_frame: what tf calls the rig.
        nodes: coordinate frame by node of the pose graph.

    Returns:
        Length, width, height (N, 3) in metres; 'xyz' Euler angles (N, 3) in the frame of reference, radians;
        and by row the ``Heading`` that it has.
    """
    seen = _seen(boxes, poses, transforms, rig_frame, nodes)
    tracks, at = _tracks(boxes, seen)
    _solve_motion(boxes, seen, tracks, at)
    kinds = boxes.kinds
    for rows in np.split(tracks, np.flatnonzero(np.diff(at)) + 1) if len(tracks) else ():
        rest()
        track = rows.tolist()
        prior = PRIORS[Counter([kinds[row] for row in track]).most_common(1)[0][0]]
        _solve_still(track, seen, prior)
        seen.dims_m[rows] = _size(track, seen, prior)
    return seen.dims_m, _rotations(boxes, seen), seen.basis


def _rig_at(poses: RigPoses | None, wanted: Times) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """T_rig_world (N, 4, 4) at each time, and whether it is known (N,)."""
    matrices = np.tile(np.eye(4), (len(wanted), 1, 1))
    known = np.zeros(0, np.bool_) if poses is None else np.isfinite(poses.rows).all(axis=1)
    if poses is None or np.count_nonzero(known) < 2:
        return matrices, np.zeros(len(wanted), np.bool_)
    at_us, rows = poses.times_us[known], poses.rows[known]
    held = wanted.clip(at_us[0], at_us[-1])
    after = np.searchsorted(at_us, held).clip(1, len(at_us) - 1)
    off = np.minimum(np.abs(wanted - at_us[after]), np.abs(wanted - at_us[after - 1]))
    told = ((at_us[after] - at_us[after - 1] <= _POSE_GAP_US) & (held == wanted)) | (off <= _POSE_HOLD_US)
    begin = at_us[0]
    turns = Slerp((at_us - begin).astype(np.float64), Rotation.from_quat(rows[:, 3:]))
    matrices[:, :3, :3] = turns((held - begin).astype(np.float64)).as_matrix()
    for axis in range(3):
        matrices[:, axis, 3] = np.interp(held - begin, at_us - begin, rows[:, axis])
    return matrices, told


def _seen(
    boxes: CuboidTable,
    poses: RigPoses | None,
    transforms: Sequence[TransformRow],
    rig_frame: str,
    nodes: Mapping[str, str],
) -> _Seen:
    node_of = np.array(boxes.nodes, np.intp)
    wanted = {at: boxes.texts[at] for at in np.unique(node_of).tolist()}
    edges, _ = sensor_edges(
        transforms, rig_frame, {node: (nodes.get(node, node), False) for node in wanted.values()}
    )
    times_us, which = np.unique(np.array(boxes.reference_us, np.int64), return_inverse=True)
    rigs, told = _rig_at(poses, times_us)
    worlds = np.empty((len(boxes), 4, 4))
    for at, node in wanted.items():
        edge = np.eye(4) if node == RIG else edges.get(node, np.eye(4))
        here = node_of == at
        worlds[here] = (rigs @ edge)[which[here]]
    optical = np.array(boxes.optical, np.bool_)
    centroids = np.array(boxes.centroids).reshape(-1, 3)
    places = (worlds[:, :3, :3] @ centroids[:, :, None])[:, :, 0] + worlds[:, :3, 3]
    away = np.where(optical[:, None], worlds[:, :3, 2], worlds[:, :3, 0])
    measured = np.array(boxes.measured).reshape(-1, 3)
    return _Seen(
        worlds=worlds,
        placed=told[which],
        places_m=list(zip(places[:, 0].tolist(), places[:, 1].tolist(), strict=True)),
        bearings_rad=list(map(math.atan2, away[:, 1].tolist(), away[:, 0].tolist())),
        lateral_m=measured[:, 0].tolist(),
        height_m=np.where(optical, measured[:, 1], measured[:, 2]).tolist(),
        headings_rad=[None] * len(boxes),
        basis=np.full(len(boxes), Heading.ASSUMED, np.uint8),
        dims_m=np.zeros((len(boxes), 3)),
    )


def _tracks(boxes: CuboidTable, seen: _Seen) -> tuple[Rows, Times]:
    """Rows by track and in order of time, and the track of each: one ends where it was away or leapt."""
    times_us = np.array(boxes.times_us, np.int64)
    names = np.array(boxes.tracks, np.int64)
    loose = np.array(boxes.tracked, np.uint8) == 0
    names[loose] = len(boxes.texts) + np.flatnonzero(loose)
    rows = np.lexsort((times_us, names))  # stable, so rows of one time stay in order
    step_us, placed = np.diff(times_us[rows]), seen.placed[rows]
    places = [seen.places_m[row] for row in rows.tolist()]
    leaps = np.array(list(map(math.dist, places, places[1:])), np.float64)
    leapt = (leaps > _TOO_FAST_M_S * step_us / 1e6) & (step_us > 0) & placed[1:] & placed[:-1]
    another = (np.diff(names[rows]) != 0) | (step_us > _AWAY_US) | leapt
    return rows, np.concatenate([np.zeros(min(len(rows), 1), np.int64), np.cumsum(another)])


def _solve_motion(boxes: CuboidTable, seen: _Seen, tracks: Rows, track_of: Times) -> None:
    """Solve headings of cuboids that move at the time or at another time."""
    placed = seen.placed[tracks]
    rows, track = tracks[placed], track_of[placed]
    if not len(rows):
        return
    times_us = np.array(boxes.times_us, np.int64)[rows]
    # Times of all tracks on one axis, further apart than any window is wide.
    at_us = times_us - times_us.min() + track * (int(np.ptp(times_us)) + 2 * _WINDOW_NS // 1000)
    places = [seen.places_m[row] for row in rows.tolist()]
    headings = headings_of(at_us, track, places, window_ns=_WINDOW_NS, least_m_s=_MOVING_M_S)
    moving = np.array([heading is not None for heading in headings])
    for row, heading in zip(rows.tolist(), headings, strict=True):
        seen.headings_rad[row] = heading
    seen.basis[rows[moving]] = Heading.MOTION
    when, who, whence = at_us[moving], track[moving], rows[moving].tolist()
    slow = np.flatnonzero(~moving & np.isin(track, who))
    if not len(slow):
        return
    after = np.searchsorted(when, at_us[slow]).clip(0, len(when) - 1)
    before = np.searchsorted(when, when[(after - 1).clip(0)])  # the first of those of its time
    held = who[before] == track[slow]
    off_us = np.where(held, np.abs(when[before] - at_us[slow]), np.iinfo(np.int64).max)
    held &= (off_us <= np.abs(when[after] - at_us[slow])) | (who[after] != track[slow])
    for row, source in zip(rows[slow].tolist(), np.where(held, before, after).tolist(), strict=True):
        seen.headings_rad[row] = seen.headings_rad[whence[source]]
    seen.basis[rows[slow]] = Heading.HELD


def _solve_still(track: Sequence[int], seen: _Seen, prior: Prior) -> None:
    """Solve headings of objects that never move, from their views from several sides."""
    views: list[View] = []
    placed = [row for row in track if seen.placed[row]] if len(track) > 1 else []
    if not placed or seen.headings_rad[placed[0]] is not None:
        return
    for row in placed:
        bearing_rad = seen.bearings_rad[row]
        if not views or abs(bearing_rad - views[-1][0]) >= NEW_SIDE_RAD:
            views.append((bearing_rad, seen.lateral_m[row]))
    still = still_heading(views, prior)
    if still is not None:
        for row in placed:
            seen.headings_rad[row] = still
        seen.basis[placed] = Heading.VIEWS


def _size(track: Sequence[int], seen: _Seen, prior: Prior) -> Size:
    estimate = SizeEstimate()
    unknown = []
    for row in track:
        heading, turned = seen.headings_rad[row], None
        bearing = seen.bearings_rad[row] if seen.placed[row] else 0.0
        if heading is None:
            unknown.append((row, bearing))
        else:
            turned = heading - bearing
        estimate.see(SeenExtent(seen.lateral_m[row], math.nan, seen.height_m[row], turned))
    if unknown and estimate.lies_across(prior):
        for row, bearing in unknown:
            seen.headings_rad[row] = bearing + math.pi / 2
    return estimate.size(prior)


def _rotations(boxes: CuboidTable, seen: _Seen) -> Floats:
    """Euler angles (N, 3) of the boxes in their reference frames."""
    if not len(boxes):
        return np.zeros((0, 3))
    optical = np.array(boxes.optical, np.bool_)[:, None, None]
    frames = np.where(optical, _AXES_OF_BOX_IN_OPTICAL, np.eye(3))
    told = seen.basis != Heading.ASSUMED
    frames[told] = seen.worlds[told][:, :3, :3].transpose(0, 2, 1)
    known = np.array([heading is not None for heading in seen.headings_rad])
    bearings = np.where(seen.placed, seen.bearings_rad, 0.0)
    headings = np.array([heading or 0.0 for heading in seen.headings_rad])
    turns = np.where(told, headings, np.where(known, headings - bearings, 0.0))
    turned = frames @ Rotation.from_euler("z", turns[:, None]).as_matrix()
    angles: Floats = Rotation.from_matrix(turned).as_euler("xyz") + 0.0
    return angles
