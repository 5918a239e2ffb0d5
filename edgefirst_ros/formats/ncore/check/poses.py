"""Checks of the pose graph: rotations, times, one tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.formats.motion import POSE_NOISE_M, Motion
from edgefirst_ros.formats.ncore.check.frames import Instance
from edgefirst_ros.formats.ncore.poses import (
    ASSUMED,
    GLOBAL_DTYPE,
    POSE_DTYPE,
    RIG,
    WORLD,
    WORLD_GLOBAL,
    edge_of,
)
from edgefirst_ros.model.untrusted import displayed

_ORTHONORMAL = {"float32": 1e-4, "float64": 1e-9}
_LARGEST_GAP_US = 200_000
_EARTH_RADIUS_M = (6.3e6, 6.5e6)

Edge = tuple[str, str]


def check_poses(instance: Instance, findings: Findings) -> set[str]:
    """Check that every edge is a rigid transform, in order of time, and that all form one tree; its nodes."""
    edges = []
    for edge, poses, times in _edges(instance, findings):
        edges.append(edge)
        where = f"{instance.path}:{edge[0]}->{edge[1]}"
        _check_matrices(where, edge, poses, findings)
        if times is not None:
            _check_times(where, instance, poses, times, findings)
            if edge == (RIG, WORLD) and len(times) == len(poses) > 1:
                _check_motion(where, instance, poses.astype(np.float64), times, findings)
    nodes = {node for edge in edges for node in edge}
    if len(edges) != len(nodes) - 1 or _reached(edges) != nodes:
        findings.error(
            instance.path, "poses do not form a tree", f"{len(edges)} edges between {len(nodes)} frames"
        )
    for wanted in (RIG, WORLD):
        if wanted not in nodes:
            findings.error(instance.path, f"no frame {wanted}")
    return nodes


def _edges(
    instance: Instance, findings: Findings
) -> Iterator[tuple[Edge, npt.NDArray[Any], npt.NDArray[np.int64] | None]]:
    for kind in ("static_poses", "dynamic_poses"):
        for key, value in instance.attributes(kind).items():
            where = f"{instance.path}:{displayed(key)}"
            with reading(findings, where, "pose"):
                if value["dtype"] not in _ORTHONORMAL:
                    findings.error(where, "pose cannot be read", f"its dtype is {value['dtype']!r:.80}")
                    continue
                poses = np.array(value.get("poses", [value.get("pose")]), value["dtype"])
                times = np.array(value["timestamps_us"], np.int64) if kind == "dynamic_poses" else None
                yield edge_of(key), poses.reshape(-1, 4, 4), times


def _check_matrices(where: str, edge: Edge, poses: npt.NDArray[Any], findings: Findings) -> None:
    rotation = poses[:, :3, :3].astype(np.float64)
    deviation = np.abs(rotation @ rotation.transpose(0, 2, 1) - np.eye(3)).max()
    if not np.isfinite(poses).all() or deviation > _ORTHONORMAL[str(poses.dtype)]:
        findings.error(where, "not a rotation", f"|R Rt - I| = {deviation:.1e}")
    elif (np.linalg.det(rotation) < 0).any():
        findings.error(where, "not a rotation", "mirrored")
    if not (poses[:, 3] == [0.0, 0.0, 0.0, 1.0]).all():
        findings.error(where, "last row is not 0 0 0 1")
    if edge == (WORLD, WORLD_GLOBAL):
        radius = float(np.linalg.norm(poses[0, :3, 3]))
        if poses.dtype != GLOBAL_DTYPE or not _EARTH_RADIUS_M[0] < radius < _EARTH_RADIUS_M[1]:
            findings.error(where, "no ECEF position in float64", f"{radius:.0f} m from the centre")
    elif poses.dtype != POSE_DTYPE:  # NCore allows it
        findings.note(where, "pose in float64", f"NuRec loads lidar points only if it is {POSE_DTYPE}")


def _check_times(
    where: str,
    instance: Instance,
    poses: npt.NDArray[Any],
    times: npt.NDArray[np.int64],
    findings: Findings,
) -> None:
    start, stop = instance.interval_us
    if len(times) != len(poses) or len(times) < 2:
        findings.error(where, "too few poses or times", f"{len(poses)} poses, {len(times)} times")
        return
    if (np.diff(times) <= 0).any():
        findings.error(where, "times are not strictly increasing")
    if times[0] != start or times[-1] != stop - 1:
        findings.error(
            where, "does not cover the sequence", f"[{times[0]}, {times[-1]}] of [{start}, {stop})"
        )
    if np.diff(times).max() > _LARGEST_GAP_US:
        findings.warning(where, "gap between poses", f"{np.diff(times).max() / 1000:.0f} ms")


def _check_motion(
    where: str,
    instance: Instance,
    poses: npt.NDArray[np.float64],
    times: npt.NDArray[np.int64],
    findings: Findings,
) -> None:
    """Check that the rig moves as a vehicle can; assumed poses are exempt."""
    moving, turning = (_known(instance, part, len(times)) for part in ("position", "rotation"))
    times_ns = times * 1000
    motion = Motion(POSE_NOISE_M, findings.at(where))
    motion.move(times_ns[moving], poses[moving, :3, 3])
    motion.turn(times_ns[turning], poses[turning, :3, :3])
    motion.finish()


def _known(instance: Instance, part: str, count: int) -> npt.NDArray[np.intp]:
    """Indices of the poses whose position or rotation is not assumed; poses of other writers do not say."""
    try:
        basis = instance.array(f"generic_data/{RIG}_{WORLD}_{part}_basis")
    except (KeyError, ValueError):
        return np.arange(count)
    if basis.shape != (count,):
        return np.arange(count)
    return np.flatnonzero(basis != ASSUMED)


def _reached(edges: list[Edge]) -> set[str]:
    """Frames connected to the first."""
    if not edges:
        return set()
    near: dict[str, list[str]] = {}
    for source, target in edges:
        near.setdefault(source, []).append(target)
        near.setdefault(target, []).append(source)
    reached, waiting = set(), [edges[0][0]]
    while waiting:
        if (node := waiting.pop()) not in reached:
            reached.add(node)
            waiting += near[node]
    return reached
