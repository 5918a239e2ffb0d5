"""The clouds of several lidars as one, in the rig's frame and at a sample's time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, as_type, is_seen, point_offsets_ns
from edgefirst_ros.model.sample import EgoPose, Sample, Sweep
from edgefirst_ros.model.transform import between, frame_in_base, matrix_of, quaternion_of

LIDAR = "lidar"
"""Field with the number of the lidar that a point is of, by the order of topics."""
Floats = npt.NDArray[np.float64]
_Pose = tuple[Floats, Floats]
"""Place and quaternion."""


def merged_sweeps(sample: Sample) -> tuple[PointCloud | None, dict[str, int], list[tuple[str, str]]]:
    """The points of all lidars, bytes by topic, and topics that cannot be merged with the reason.

    Besides x, y, z and ``lidar`` it has the fields that all of them have. Each point is where what it was
    measured of is at the sample's time, if that stands still; where the rig's motion is not known, points are
    where they were measured.
    """
    parts: list[tuple[int, str, PointCloud, Floats]] = []
    refused = []
    for number, sweep in enumerate(sample.sweeps):
        topic, cloud = sweep.measurement.topic, sweep.measurement.datum
        if not isinstance(cloud, PointCloud):
            refused.append((topic, f"{type(cloud).__name__} instead of PointCloud"))
            continue
        try:
            parts.append((number, topic, cloud, _placed(sweep, cloud, sample)))
        except DecodeError as error:
            refused.append((topic, str(error)))
    if not parts:
        return None, {}, refused
    fields = _common([cloud for _, _, cloud, _ in parts])
    dtype = np.dtype([*((axis, "<f4") for axis in "xyz"), *fields.items(), (LIDAR, "u1")])
    rows, sizes = [], {}
    for number, topic, cloud, points_m in parts:
        seen = is_seen(*points_m.T)
        row = np.empty(int(seen.sum()), dtype)
        for axis, values in zip("xyz", points_m[seen].T, strict=True):
            row[axis] = values
        for name, kind in fields.items():
            row[name] = as_type(cloud.points[name], np.dtype(kind).type)[seen]
        row[LIDAR] = number
        rows.append(row)
        sizes[topic] = row.nbytes
    merged = np.concatenate(rows)
    return PointCloud(merged, 1, len(merged)), sizes, refused


def _common(clouds: list[PointCloud]) -> dict[str, str]:
    """Fields that all have with one type, in the order of the first, as their type in little-endian."""
    types = [{n: c.points.dtype[n].newbyteorder("<") for n in c.points.dtype.names or ()} for c in clouds]
    first, *others = types
    return {
        name: kind.str
        for name, kind in first.items()
        if name not in {*"xyz", LIDAR} and kind.shape == () and all(each.get(name) == kind for each in others)
    }


def _placed(sweep: Sweep, cloud: PointCloud, sample: Sample) -> Floats:
    """Points (n, 3) in the rig's frame at the sample's time.

    Raises:
        DecodeError: no x, y, z, or no transform from the lidar to the rig.
    """
    measurement, rig = sweep.measurement, sample.sequence.rig_frame
    ends = []
    for mounted in sweep.mounted:
        T_lidar_rig = frame_in_base({**sample.calibration.transforms, **mounted}, measurement.frame_id, rig)
        if T_lidar_rig is None:
            raise DecodeError(f"no transform from {measurement.frame_id} to {rig}")
        ends.append(T_lidar_rig)
    points_m: Floats = cloud.xyz().astype(np.float64)
    if (ends[0] == ends[1]).all():
        points_m = points_m @ ends[0][:3, :3].T + ends[0][:3, 3]
    else:
        turn, place_m = _path(sweep, cloud, [(T[:3, 3], quaternion_of(T[:3, :3])) for T in ends])
        points_m = np.einsum("nij,nj->ni", matrix_of(turn), points_m) + place_m
    poses = (sweep.begin, sweep.end, sample.ego)
    if not all(pose.is_known and pose.origin == sample.ego.origin for pose in poses):
        return points_m
    turn, place_m = _path(sweep, cloud, [_pose(sweep.begin), _pose(sweep.end)])
    in_world = np.einsum("nij,nj->ni", matrix_of(turn), points_m) + place_m
    at_m, rotation = _pose(sample.ego)
    moved_m: Floats = (in_world - at_m) @ matrix_of(rotation)
    return moved_m


def _path(sweep: Sweep, cloud: PointCloud, ends: list[_Pose]) -> tuple[Floats, Floats]:
    """Rotations (n, 4) and places (n, 3) when each point was measured, from those at the sweep's ends."""
    (begin_m, begin), (end_m, end) = ends
    told = point_offsets_ns(cloud, sweep.measurement.stamp_ns)
    span_ns = sweep.end.time_ns - sweep.begin.time_ns
    if told is None or span_ns <= 0:
        share = np.zeros(len(cloud.points))
    else:
        share = (sweep.measurement.time_ns + told[1] - sweep.begin.time_ns) / span_ns
    return between(begin, end, share), begin_m + share[:, None] * (end_m - begin_m)


def _pose(pose: EgoPose) -> _Pose:
    return np.array(pose.position_m or (0.0, 0.0, 0.0)), np.array(pose.rotation_xyzw or (0.0, 0.0, 0.0, 1.0))
