"""The cuboids of a sequence, kept in columns and encoded as NCore's observations in JSON and CBOR.

Heading and size of cuboids, solved over each track when a sequence is finished.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cbor2
import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.poses import RIG, Pose, RigPoses, TransformRow, poses_at, sensor_edges
from edgefirst_ros.formats.ncore.prepare.parts import Json
from edgefirst_ros.formats.ncore.store.journal import ARRAY, MAP, cbor_head
from edgefirst_ros.formats.pace import rest
from edgefirst_ros.formats.tracks.sizes import PRIORS, Kind, Prior
from edgefirst_ros.formats.tracks.solver import AWAY_NS, Heading, Sightings
from edgefirst_ros.formats.tracks.solver import solved as solve_track
from edgefirst_ros.formats.zarr2 import json_bytes
from edgefirst_ros.model.transform import angles_of, matrix_of, quaternion_of_angles

LIST = "cuboid_track_observations"
"""Attribute that holds the observations."""

_KINDS = tuple(Kind)
_NUMBERS = {str(kind): number for number, kind in enumerate(_KINDS)}
Floats = npt.NDArray[np.float64]
Mounted = Callable[[npt.NDArray[np.int64]], Mapping[str, Pose]]


class CuboidTable:
    """Cuboids in order of arrival, one per row of some 134 bytes.

    Attributes:
        times_us: of the messages.
        reference_us: of their frames of reference.
        nodes: frame of reference, index in ``texts``.
        classes: class as sent, index in ``texts``.
        tracks: track, index in ``texts``.
        texts: each once.
        centroids: (N * 3,) in the frame of reference, metres.
        measured: (N * 3,) ``dim`` as measured: width across, and height; if ``is_sized`` as it is.
        extra: (N * 4,) what observations have no field for.
        tracked: 0 for boxes that the device numbers anew in every message.
        optical: 1 where the frame of reference is an optical one.
        is_sized: the device sends length, width and height.
    """

    def __init__(self, *, is_sized: bool = False) -> None:
        self.is_sized = is_sized
        self.times_us, self.reference_us = array("q"), array("q")
        self.nodes, self.classes, self.tracks = array("I"), array("I"), array("I")
        self._topics: list[str] = []
        self.texts: list[str] = []
        self.centroids, self.measured, self.extra = array("d"), array("d"), array("d")
        self.tracked, self.optical = bytearray(), bytearray()
        self._kinds = bytearray()
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.times_us)

    @property
    def kinds(self) -> list[Kind]:
        """Of the objects."""
        return [_KINDS[kind] for kind in self._kinds]

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return 134 * len(self) + 200 * len(self.texts)

    def add(
        self, node: str, observations: Sequence[Any], extra: Iterable[Iterable[float]], topic: str = ""
    ) -> None:
        """Append the cuboids of a message as in the journal; ``mark`` must follow.

        Topics number their tracks each for itself: those of all but the first topic get its name.
        """
        at = self._text(node)
        if topic not in self._topics:
            self._topics.append(topic)
        whose = "" if topic == self._topics[0] else f"{topic}/"
        for each in observations:
            bbox = each["bbox3"]
            self.times_us.append(each["timestamp_us"])
            self.reference_us.append(each["reference_frame_timestamp_us"])
            self.nodes.append(at)
            self.classes.append(self._text(each["class_id"]))
            self.tracks.append(self._text(whose + each["track_id"]))
            self.centroids.extend(bbox["centroid"])
            self.measured.extend(bbox["dim"])
        for row in extra:
            self.extra.extend(row)

    def mark(self, kinds: Iterable[str], tracked: Iterable[bool], *, optical: bool) -> None:
        """Set kind and tracking of the cuboids added last."""
        self._kinds.extend(_NUMBERS[kind] for kind in kinds)
        self.tracked.extend(map(int, tracked))
        self.optical.extend([int(optical)] * (len(self) - len(self.optical)))

    def _text(self, text: str) -> int:
        index = self._index.setdefault(text, len(self.texts))
        if index == len(self.texts):
            self.texts.append(text)
        return index

    def attributes(self, dims: Floats, rotations: Floats, source: Json) -> tuple[bytes, bytes]:
        """The observations with these dimensions and rotations (N, 3), as compact JSON and as CBOR.

        ``source`` is who says it: ``source`` and ``source_version``.

        Raises:
            ValueError: NaN or infinity, which JSON cannot express.
        """
        texts, packed = [], [cbor_head(MAP, 1) + cbor2.dumps(LIST) + cbor_head(ARRAY, len(self))]
        for observation in self._observations(dims, rotations, source):
            rest()
            texts.append(json_bytes(observation).decode())
            packed.append(cbor2.dumps(observation))
        return f'{{"{LIST}":[{",".join(texts)}]}}'.encode(), b"".join(packed)

    def _observations(self, dims: Floats, rotations: Floats, source: Json) -> Iterator[Json]:
        """By row, with keys in their order."""
        places = (np.array(self.centroids).reshape(-1, 3).tolist(), dims.tolist(), rotations.tolist())
        columns = (self.classes, self.nodes, self.reference_us, self.times_us, self.tracks)
        for centroid, dim, rot, class_, node, reference_us, time_us, track in zip(
            *places, *columns, strict=True
        ):
            yield {
                "bbox3": {"centroid": centroid, "dim": dim, "rot": rot},
                "class_id": self.texts[class_],
                "reference_frame_id": self.texts[node],
                "reference_frame_timestamp_us": reference_us,
                **source,
                "timestamp_us": time_us,
                "track_id": self.texts[track],
            }


_TOO_FAST_M_S = 50.0
_POSE_GAP_US = 1_000_000
"""Rig poses further apart than this are not interpolated between."""

_POSE_HOLD_US = 60_000

_AXES_OF_BOX_IN_OPTICAL = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Columns: forward, left and up of a box facing away from the camera, in the optical frame."""


Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


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
        headings_rad: (N,) in the world, NaN if unknown.
        across: (N,) whether what is of unknown heading lies across the sensor's direction.
        basis: (N,) ``Heading``.
        dims_m: (N, 3) length, width, height.
    """

    worlds: Floats
    placed: npt.NDArray[np.bool_]
    places_m: Floats
    bearings_rad: Floats
    lateral_m: Floats
    height_m: Floats
    headings_rad: Floats
    across: npt.NDArray[np.bool_]
    basis: npt.NDArray[np.uint8]
    dims_m: Floats


def solved(
    boxes: CuboidTable,
    poses: RigPoses | None,
    transforms: Sequence[TransformRow],
    rig_frame: str,
    nodes: Mapping[str, str],
    *,
    mounted: Mounted,
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
        mounted: where frames on mounts that move are at times, as ``Facts.mounted_at``.

    Returns:
        Length, width, height (N, 3) in metres; 'xyz' Euler angles (N, 3) in the frame of reference, radians;
        and by row the ``Heading`` that it has.
    """
    seen = _seen(boxes, poses, transforms, rig_frame, nodes, mounted=mounted)
    tracks, at = _tracks(boxes, seen)
    kinds, times_ns = boxes.kinds, np.array(boxes.times_us, np.int64) * 1000
    measured = np.array(boxes.measured).reshape(-1, 3)
    for rows in np.split(tracks, np.flatnonzero(np.diff(at)) + 1) if len(tracks) else ():
        rest()
        prior = PRIORS[Counter([kinds[row] for row in rows]).most_common(1)[0][0]]
        _solve(rows, times_ns[rows], seen, prior)
        if boxes.is_sized:
            sent = np.median(measured[rows], axis=0)
            seen.dims_m[rows] = np.where(sent > 0, sent, prior.typical_m)
    return seen.dims_m, _rotations(boxes, seen), seen.basis


def _solve(rows: Rows, times_ns: Times, seen: _Seen, prior: Prior) -> None:
    """Solve a track; of two cuboids at one time the first counts, and the other is as it."""
    first = np.concatenate([[True], np.diff(times_ns) > 0])
    own, whose = rows[first], np.cumsum(first) - 1
    found = solve_track(
        Sightings(
            times_ns[first],
            np.where(seen.placed[own, None], seen.places_m[own], np.nan),
            seen.bearings_rad[own],
            seen.lateral_m[own],
            seen.height_m[own],
        ),
        prior,
    )
    seen.headings_rad[rows], seen.basis[rows] = found.headings_rad[whose], found.basis[whose]
    seen.across[rows], seen.dims_m[rows] = found.across, found.size_m


def _rig_at(poses: RigPoses | None, wanted: Times) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """T_rig_world (N, 4, 4) at each time, and whether it is known (N,)."""
    known = np.zeros(0, np.bool_) if poses is None else np.isfinite(poses.rows).all(axis=1)
    if poses is None or np.count_nonzero(known) < 2:
        return np.tile(np.eye(4), (len(wanted), 1, 1)), np.zeros(len(wanted), np.bool_)
    at_us, rows = poses.times_us[known], poses.rows[known]
    held = wanted.clip(at_us[0], at_us[-1])
    after = np.searchsorted(at_us, held).clip(1, len(at_us) - 1)
    off = np.minimum(np.abs(wanted - at_us[after]), np.abs(wanted - at_us[after - 1]))
    told = ((at_us[after] - at_us[after - 1] <= _POSE_GAP_US) & (held == wanted)) | (off <= _POSE_HOLD_US)
    return poses_at(at_us, rows, held), told


def _seen(
    boxes: CuboidTable,
    poses: RigPoses | None,
    transforms: Sequence[TransformRow],
    rig_frame: str,
    nodes: Mapping[str, str],
    *,
    mounted: Mounted,
) -> _Seen:
    node_of = np.array(boxes.nodes, np.intp)
    wanted = {at: boxes.texts[at] for at in np.unique(node_of).tolist()}
    times_us, which = np.unique(np.array(boxes.reference_us, np.int64), return_inverse=True)
    frames = {node: (nodes.get(node, node), False) for node in wanted.values()}
    edges, _ = sensor_edges(transforms, rig_frame, frames, mounted(times_us))
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
        places_m=places[:, :2],
        bearings_rad=np.where(told[which], np.arctan2(away[:, 1], away[:, 0]), 0.0),
        lateral_m=measured[:, 0],
        height_m=np.where(optical, measured[:, 1], measured[:, 2]),
        headings_rad=np.full(len(boxes), np.nan),
        across=np.zeros(len(boxes), np.bool_),
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
    leaps = np.linalg.norm(np.diff(seen.places_m[rows], axis=0), axis=1)
    leapt = (leaps > _TOO_FAST_M_S * step_us / 1e6) & (step_us > 0) & placed[1:] & placed[:-1]
    another = (np.diff(names[rows]) != 0) | (step_us > AWAY_NS // 1000) | leapt
    return rows, np.concatenate([np.zeros(min(len(rows), 1), np.int64), np.cumsum(another)])


def _rotations(boxes: CuboidTable, seen: _Seen) -> Floats:
    """Euler angles (N, 3) of the boxes in their reference frames."""
    if not len(boxes):
        return np.zeros((0, 3))
    optical = np.array(boxes.optical, np.bool_)[:, None, None]
    frames = np.where(optical, _AXES_OF_BOX_IN_OPTICAL, np.eye(3))
    told = seen.basis != Heading.ASSUMED
    frames[told] = seen.worlds[told][:, :3, :3].transpose(0, 2, 1)
    turns = np.where(told, seen.headings_rad, np.where(seen.across, math.pi / 2, 0.0))
    yaws = np.stack([np.zeros_like(turns), np.zeros_like(turns), turns], axis=-1)
    return angles_of(frames @ matrix_of(quaternion_of_angles(yaws))) + 0.0
