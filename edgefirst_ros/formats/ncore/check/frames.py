"""Checks of frames (times, pictures, ray bundles) and of the pose graph (rotations, times, one tree)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.formats.motion import POSE_NOISE_M, Motion
from edgefirst_ros.formats.ncore.poses import (
    ASSUMED,
    GLOBAL_DTYPE,
    POSE_DTYPE,
    RIG,
    WORLD,
    WORLD_GLOBAL,
    edge_of,
)
from edgefirst_ros.formats.ncore.store.base import BOX_ARRAYS, FLAT_BOXES
from edgefirst_ros.formats.ncore.store.files import MOST_RAY_BYTES, FinishedStore
from edgefirst_ros.formats.zarr2.array import MOST_BYTES, read_array
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY, ATTRIBUTES_KEY
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.untrusted import displayed

_UNIT_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a component in a finished store."""

    component: str
    name: str
    store: FinishedStore
    metadata: Mapping[str, Any]
    interval_us: tuple[int, int]

    @property
    def path(self) -> str:
        """Group of the instance."""
        return f"{self.component}/{self.name}"

    def attributes(self, group: str = "") -> Any:  # noqa: ANN401  JSON
        """Attributes of a group below the instance, empty if it has none."""
        where = f"{self.path}/{group}" if group else self.path
        return self.metadata.get(f"{where}/{ATTRIBUTES_KEY}", {})

    def array(self, name: str, kinds: str = "", most_bytes: int = MOST_BYTES) -> npt.NDArray[Any]:
        """An array below the instance; see ``read_array``.

        Raises:
            KeyError: no such array.
            ValueError: it does not decode.
        """
        return read_array(self.store.get, f"{self.path}/{name}", kinds, most_bytes)


def check_times(instance: Instance, findings: Findings) -> npt.NDArray[np.int64]:
    """Check that frames are in order and inside the sequence; return their start and end times (N, 2)."""
    where, (start, stop) = instance.path, instance.interval_us
    times = np.array(instance.attributes("frames").get("frames_timestamps_us", []), np.int64).reshape(-1, 2)
    if not len(times):
        findings.error(where, "no frames: readers refuse the whole sequence")
    if (times[:, 1] < times[:, 0]).any():
        findings.error(where, "a frame ends before it starts")
    for column, what in enumerate(("starts", "ends")):
        if (np.diff(times[:, column]) <= 0).any():
            findings.error(where, f"frame {what} are not strictly increasing")
    if len(times) and (times.min() < start or times.max() >= stop):
        findings.error(where, "frames outside the sequence", f"[{start}, {stop})")
    if (times[1:, 0] < times[:-1, 1]).any():
        findings.warning(where, "frames overlap")
    return times


def check_picture(instance: Instance, end_us: int, size: tuple[int, int] | None, findings: Findings) -> None:
    """Check that a picture has the stated format and the size of the intrinsics."""
    where = f"{instance.path}@{end_us}"
    with reading(findings, where, "picture"), warnings.catch_warnings(action="ignore"):
        data = instance.array(f"frames/{end_us}/image").item()
        findings.look.passed(len(data))
        kind = instance.attributes(f"frames/{end_us}/image").get("format", "")
        with open_picture(data) as image:
            if str(kind).upper() != image.format:
                raise ValueError(f"it is a {image.format}, its metadata say {kind}")
            if size is not None and image.size != size:
                findings.error(where, "picture size", f"{image.size}, intrinsics say {size}")
            if not findings.look.quick:
                image.load()


def check_boxes(instance: Instance, end_us: int, findings: Findings) -> None:
    """Check a picture's 2-D boxes: ordered corners, columns of equal length."""
    where, group = f"{instance.path}@{end_us}", f"frames/{end_us}/generic_data"
    shapes = {name: _shape(instance, f"{group}/{name}") for name in BOX_ARRAYS}
    if shapes[FLAT_BOXES] is None:
        return
    try:
        corners = instance.array(f"{group}/{FLAT_BOXES}")
    except (KeyError, ValueError) as error:
        findings.error(where, "2-D boxes cannot be read", str(error))
        return
    if corners.ndim != 2 or corners.shape[1] != 4 or not (corners[:, :2] < corners[:, 2:]).all():
        findings.error(where, "2-D boxes are not left, top, right, bottom")
    lacking = [name for name, shape in shapes.items() if not shape or shape[0] != len(corners)]
    if lacking:
        findings.error(where, "2-D boxes with another number of", ", ".join(lacking))


def _shape(instance: Instance, name: str) -> list[int] | None:
    """The shape of an array below the instance, None if there is none."""
    found = instance.metadata.get(f"{instance.path}/{name}/{ARRAY_KEY}")
    return None if found is None else list(found["shape"])


def check_rays(instance: Instance, start_us: int, end_us: int, findings: Findings) -> None:
    """Check for unit directions, times inside the frame, and returns consistent with the valid mask."""
    where, frame = f"{instance.path}@{end_us}", f"frames/{end_us}"
    try:
        direction = instance.array(f"{frame}/ray_bundle/direction", "f", MOST_RAY_BYTES)
        times = instance.array(f"{frame}/ray_bundle/timestamp_us", "iu", MOST_RAY_BYTES).astype(np.int64)
        rays = instance.attributes(f"{frame}/ray_bundle")["n_rays"]
        returns = instance.attributes(f"{frame}/ray_bundle_returns")["n_returns"]
        distance = instance.array(f"{frame}/ray_bundle_returns/distance_m", "f", MOST_RAY_BYTES)
        packed = instance.array(f"{frame}/ray_bundle_returns_valid_mask_packed", "u", MOST_RAY_BYTES)
    except (KeyError, ValueError) as error:
        findings.error(where, "ray bundle cannot be read", str(error))
        return
    if direction.shape != (rays, 3) or times.shape != (rays,) or distance.shape != (returns, rays):
        findings.error(where, "ray bundle has arrays of different lengths")
        return
    lengths = np.einsum("ij,ij->i", direction, direction, dtype=np.float64)
    if not (np.abs(lengths - 1) <= _UNIT_TOLERANCE).all():
        findings.error(where, "directions are not unit vectors")
    if rays and (times.min() < start_us or times.max() > end_us):
        findings.error(where, "ray times outside the frame")
    valid = np.unpackbits(packed, count=returns * rays).astype(bool).reshape(returns, rays)
    _check_returns(where, "distance_m", distance, valid, findings)
    if instance.component == "lidars":
        try:
            intensity = instance.array(f"{frame}/ray_bundle_returns/intensity", "f", MOST_RAY_BYTES)
        except (KeyError, ValueError) as error:
            findings.error(where, "no intensity", str(error))
        else:
            _check_returns(where, "intensity", intensity, valid, findings)
            if intensity[valid].size and intensity[valid].max() > 1:
                findings.error(where, "intensity above 1")


def _check_returns(
    where: str, name: str, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_], findings: Findings
) -> None:
    if values.shape != valid.shape or not np.array_equal(~np.isnan(values), valid):
        findings.error(where, f"{name} does not match the valid mask")
    elif values[valid].size and not (np.isfinite(values[valid]).all() and values[valid].min() >= 0):
        findings.error(where, f"{name} is negative or infinite")
    elif name == "distance_m" and (values[valid] == 0).any():
        findings.warning(where, "returns at distance 0")


_ORTHONORMAL = {"float32": 1e-4, "float64": 1e-9}
_LARGEST_GAP_US = 200_000
_EARTH_RADIUS_M = (6.3e6, 6.5e6)

Edge = tuple[str, str]


def check_poses(instance: Instance, findings: Findings) -> set[str]:
    """Check that every edge is a rigid transform, in order of time, and that all form one tree; its nodes."""
    edges = []
    for edge, poses, times in read_edges(instance, findings):
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


def read_edges(
    instance: Instance, findings: Findings
) -> Iterator[tuple[Edge, npt.NDArray[Any], npt.NDArray[np.int64] | None]]:
    """Source and target, poses (N, 4, 4), and their times unless they are static."""
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
    """Check that the rig is no faster than a vehicle can be; assumed poses are exempt."""
    known = known_poses(instance, "position", len(times))
    Motion(POSE_NOISE_M, findings.at(where)).move(times[known] * 1000, poses[known, :3, 3])


def known_poses(instance: Instance, part: str, count: int) -> npt.NDArray[np.intp]:
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
