"""Transforms to the poses of sensors in the rig, and rig poses to the dynamic pose of NCore."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pymap3d

from edgefirst_ros.model.camera import Tile, split_tile
from edgefirst_ros.model.sample import PoseBasis
from edgefirst_ros.model.transform import bare, interpolated, matrix_of

Pose = npt.NDArray[np.float64]
"""(4, 4), maps points of the source frame to the target frame."""

RIG = "rig"
WORLD = "world"
WORLD_GLOBAL = "world_global"

POSE_DTYPE = "float32"
"""Of every written pose but (world, world_global): NVIDIA's converters write it, and NuRec takes no other."""
GLOBAL_DTYPE = "float64"
"""Of (world, world_global): in float32 a place on earth would be up to 0.25 m off."""

_LONGEST_KEY = 600
_OPTICAL_XYZW = (-0.5, 0.5, -0.5, 0.5)
"""Optical axes (x right, y down, z forward) in a frame with x forward, y left, z up (REP 103)."""

REAR_AXLE = "middle of the rear axle"
"""The rig's frame where a configuration puts its origin there; no frame of a robot has this name."""

TransformRow = tuple[str, str, tuple[float, float, float], tuple[float, float, float, float]]
"""Parent, child, translation in metres, rotation x y z w."""


def matrix(translation_m: Iterable[float], rotation_xyzw: Iterable[float]) -> Pose:
    """A pose from a translation and a quaternion of any length but 0."""
    pose = np.eye(4)
    pose[:3, :3] = matrix_of(tuple(rotation_xyzw))
    pose[:3, 3] = tuple(translation_m)
    return pose


def inverse(pose: Pose) -> Pose:
    """The pose, or each of several (N, 4, 4), in the other direction."""
    result = np.zeros_like(pose)
    back = result[..., :3, :3] = pose[..., :3, :3].swapaxes(-1, -2)
    result[..., :3, 3:] = -back @ pose[..., :3, 3:]
    result[..., 3, 3] = 1.0
    return result


def node(frame_id: str, rig_frame: str) -> str:
    """What a coordinate frame is called in the pose graph."""
    name = bare(frame_id)
    if name in {"", bare(rig_frame)}:
        return RIG
    return f"tf_{name}" if name in {RIG, WORLD, WORLD_GLOBAL} else name


def whole_camera(frame_id: str, known: Container[str]) -> tuple[str, Tile]:
    """The frame of the whole camera, and which quarter of its picture a frame is of.

    A tile is cut from the camera's picture, so it has the camera's optical frame. A frame that is ``known``
    stands for itself, whatever it is called.
    """
    frame = bare(frame_id)
    return (frame, "") if frame in known else split_tile(frame)


def frames_in_rig(
    transforms: Iterable[TransformRow], rig_frame: str, mounted: Mapping[str, Pose] = MappingProxyType({})
) -> dict[str, Pose]:
    """T_frame_rig of every frame that is connected to ``rig_frame``, in whichever direction.

    What is on frames that are ``mounted`` where (N, 4, 4) says, has as many poses.
    """
    edges: dict[str, dict[str, Pose]] = {}
    for parent, child, translation_m, rotation_xyzw in transforms:
        T_child_parent = mounted.get(bare(child), matrix(translation_m, rotation_xyzw))
        edges.setdefault(bare(child), {})[bare(parent)] = T_child_parent
        edges.setdefault(bare(parent), {})[bare(child)] = inverse(T_child_parent)
    rig = bare(rig_frame)
    found: dict[str, Pose] = {rig: np.eye(4)}
    queue = [rig]
    for frame in queue:
        for near in sorted(edges.get(frame, ())):
            if near not in found:
                found[near] = found[frame] @ edges[near][frame]
                queue.append(near)
    del found[rig]
    return found


def sensor_edges(
    transforms: Iterable[TransformRow],
    rig_frame: str,
    nodes: Mapping[str, tuple[str, bool]],
    mounted: Mapping[str, Pose] = MappingProxyType({}),
) -> tuple[dict[str, Pose], list[str]]:
    """T_node_rig of every node of the pose graph below rig, and which of them are assumed.

    Args:
        transforms: those in force.
        rig_frame: what tf calls the rig.
        nodes: every node that must be there: its coordinate frame, and whether it is a camera. A tile has
            the pose of its camera. Without a transform a node is at the rig's origin, a camera looking
            forward.
        mounted: as in ``frames_in_rig``.
    """
    known = frames_in_rig(transforms, rig_frame, mounted)
    edges = {node(frame, rig_frame): pose for frame, pose in known.items()}
    assumed = []
    for name, (frame_id, camera) in nodes.items():
        frame = whole_camera(frame_id, known)[0] if camera else bare(frame_id)
        if name == RIG:
            continue
        if frame and frame in known:
            edges[name] = known[frame]
        elif frame == bare(rig_frame):
            edges[name] = np.eye(4)
        elif name not in edges:
            edges[name] = matrix((0.0, 0.0, 0.0), _OPTICAL_XYZW) if camera else np.eye(4)
            assumed.append(name)
    return edges, sorted(assumed)


def edge_of(key: str) -> tuple[str, str]:
    """Source and target of a pose, by its key in a store: a pair of names as Python writes it.

    Raises:
        ValueError: it is none.
        SyntaxError: likewise.
    """
    if len(key) > _LONGEST_KEY:  # it may be nested deeply
        raise ValueError(f"{key:.80} names no pose")
    source, target = literal_eval(key)
    return str(source), str(target)


BASES = tuple(PoseBasis)
"""The possible bases of a position or rotation, the best first; stored as index."""
ASSUMED = BASES.index(PoseBasis.ASSUMED)

_EXACT_US = 1_000
"""How long a pose at the end may be held without counting as assumed: 3 cm at 30 m/s."""

Floats = npt.NDArray[np.float64]
Rows = Floats
"""(N, 7): x y z in ENU metres, then the quaternion x y z w."""


@dataclass(frozen=True, slots=True)
class RigPoses:
    """The rig's trajectory, the basis and the uncertainty of each pose.

    Attributes:
        times_us: (N,), strictly increasing.
        rows: (N, 7) poses; after ``filled`` all finite.
        basis: (N, 2) of position and rotation, indices into ``BASES``.
        sigma: (N, 6) standard deviations: east, north, up in metres, about the rig's x, y, z in radians; NaN
            where unknown.
    """

    times_us: npt.NDArray[np.int64]
    rows: Rows
    basis: npt.NDArray[np.uint8]
    sigma: Floats

    def taken(self, index: npt.NDArray[np.intp]) -> RigPoses:
        """A selection of the poses."""
        return RigPoses(self.times_us[index], self.rows[index], self.basis[index], self.sigma[index])

    def assumed_us(self, part: int) -> int:
        """For how long position (0) or rotation (1) is assumed: at either end of an interval is enough."""
        bad = self.basis[:, part] == ASSUMED
        return int(np.diff(self.times_us)[bad[1:] | bad[:-1]].sum())

    @property
    def is_unknown(self) -> bool:
        """Whether no position and no rotation is known at all."""
        return not np.isfinite(self.rows).any()


def filled(poses: RigPoses) -> RigPoses:
    """The trajectory with placeholders, marked as such, for what is unknown: readers refuse holes.

    Between known positions (rotations) the straight (shortest) way, before the first and after the last that
    one; the origin (identity) where none is ever known.
    """
    rows, basis = poses.rows.copy(), poses.basis.copy()
    at = (poses.times_us - poses.times_us[0]).astype(np.float64)
    for part, columns in enumerate((slice(0, 3), slice(3, 7))):
        known = np.isfinite(rows[:, columns]).all(axis=1)
        basis[~known, part] = ASSUMED
        if known.all():
            continue
        if not known.any():
            rows[:, columns] = (0.0, 0.0, 0.0) if part == 0 else (0.0, 0.0, 0.0, 1.0)
            continue
        wanted = at[~known].clip(at[known][0], at[known][-1])
        rows[~known, columns] = _interpolated(at[known], rows[known, columns], wanted)
    return RigPoses(poses.times_us, rows, basis, poses.sigma)


def thin(poses: RigPoses, gap_us: int) -> npt.NDArray[np.intp]:
    """Indices to keep so that gaps stay within ``gap_us`` where they were.

    First and last are kept, and both sides of every change of what a pose rests on.
    """
    count = len(poses.times_us)
    if count <= 2:
        return np.arange(count)
    changes = (np.diff(poses.basis.astype(np.int16), axis=0) != 0).any(axis=1)
    forced = np.concatenate([changes, [True]]) | np.concatenate([[True], changes])
    kept = [0]
    for index in range(1, count - 1):
        if forced[index] or poses.times_us[index + 1] - poses.times_us[kept[-1]] > gap_us:
            kept.append(index)
    return np.array([*kept, count - 1])


def cover(poses: RigPoses, first_us: int, last_us: int) -> RigPoses:
    """The trajectory from ``first_us`` to ``last_us`` exactly: cut and interpolated, its ends held.

    What is held longer than a millisecond is assumed. What is interpolated rests on the worse of its sides.

    Args:
        poses: N at least 1, all of them finite.
        first_us: first time wanted.
        last_us: last time wanted.
    """
    times_us = poses.times_us
    inside = (times_us > first_us) & (times_us < last_us)
    wanted = np.unique(np.concatenate([[first_us], times_us[inside], [last_us]]))
    at = np.clip(wanted, times_us[0], times_us[-1])
    after = np.searchsorted(times_us, at)
    before = np.where(times_us[after] == at, after, after - 1)
    rows = _rows_at(times_us, poses.rows, at)
    basis = np.maximum(poses.basis[before], poses.basis[after])
    basis[np.abs(wanted - at) > _EXACT_US] = ASSUMED
    return RigPoses(wanted, rows, basis, np.fmax(poses.sigma[before], poses.sigma[after]))


def poses_at(known_us: npt.NDArray[np.int64], rows: Rows, wanted_us: npt.NDArray[np.int64]) -> Pose:
    """Poses (M, 4, 4) at wanted times, none beyond the known ones."""
    return _poses(_rows_at(known_us, rows, wanted_us))


def _poses(rows: Rows) -> Pose:
    poses = np.tile(np.eye(4), (len(rows), 1, 1))
    poses[:, :3, :3] = matrix_of(rows[:, 3:])
    poses[:, :3, 3] = rows[:, :3]
    return poses


def _rows_at(known_us: npt.NDArray[np.int64], rows: Rows, wanted_us: npt.NDArray[np.int64]) -> Rows:
    known, wanted = ((times_us - known_us[0]).astype(np.float64) for times_us in (known_us, wanted_us))
    return np.hstack([_interpolated(known, values, wanted) for values in (rows[:, :3], rows[:, 3:])])


def _interpolated(known: Floats, values: Floats, wanted: Floats) -> Floats:
    """Positions (M, 3) along straight lines, or quaternions (M, 4) along the shortest way."""
    if len(known) == 1:
        return np.repeat(values, len(wanted), axis=0)
    if values.shape[1] == 4:
        return interpolated(known, values, wanted)
    return np.stack([np.interp(wanted, known, values[:, axis]) for axis in range(3)], axis=1)


def rig_to_world(
    rows: Rows, origin_m: Iterable[float] = (0.0, 0.0, 0.0)
) -> tuple[npt.NDArray[np.float64], Pose]:
    """T_rig_world (N, 4, 4), the first the identity, and T_world_enu, the first pose itself.

    Args:
        rows: poses of the frame that is located.
        origin_m: of the rig, in that frame.
    """
    poses = _poses(rows)
    poses[:, :3, 3] += poses[:, :3, :3] @ np.array([*origin_m])
    T_world_enu = poses[0].copy()
    poses = inverse(T_world_enu) @ poses
    poses[:, 3] = (0.0, 0.0, 0.0, 1.0)
    poses[0] = np.eye(4)
    return poses, T_world_enu


def enu_to_ecef(latitude_deg: float, longitude_deg: float, altitude_m: float) -> Pose:
    """T_enu_ecef of the local east, north, up frame at a WGS-84 position."""
    lat, lon = np.radians([latitude_deg, longitude_deg])
    pose = np.eye(4)
    pose[:3, 0] = (-np.sin(lon), np.cos(lon), 0.0)
    pose[:3, 1] = (-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat))
    pose[:3, 2] = (np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat))
    pose[:3, 3] = pymap3d.geodetic2ecef(latitude_deg, longitude_deg, altitude_m)
    return pose
