"""The instances of components in finished stores, and whether they have what readers go by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.formats.ncore.finish.components import DEFAULT, NAMES
from edgefirst_ros.formats.ncore.poses import RIG, WORLD, edge_of
from edgefirst_ros.formats.ncore.store.files import FinishedStore
from edgefirst_ros.formats.zarr2 import ATTRIBUTES_KEY, MOST_BYTES, read_array
from edgefirst_ros.model.untrusted import displayed

Edge = tuple[str, str]
_SENSORS = ("cameras", "lidars", "radars")


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

    def frames(self) -> npt.NDArray[np.int64]:
        """Start and end (N, 2) of a sensor's frames."""
        return np.array(self.attributes("frames").get("frames_timestamps_us", []), np.int64).reshape(-1, 2)


def check_instances(instances: Sequence[Instance], findings: Findings) -> dict[str, int]:
    """Check what the loader refuses a sequence without; the number of entries of each sensor."""
    by_path = {instance.path: instance for instance in instances}
    for name in NAMES:
        if f"{name}/{DEFAULT}" not in by_path:
            findings.error(name, f"no instance called {DEFAULT}: the loader refuses the sequence")
    nodes: set[str] = set()
    if poses := by_path.get(f"poses/{DEFAULT}"):
        with reading(findings, poses.path, "content"):
            nodes = _check_poses(poses, findings)
    counts: dict[str, int] = {}
    for instance in instances:
        with reading(findings, instance.path, "content"):
            _check_attributes(instance, findings)
            if instance.component in _SENSORS:
                if instance.name not in nodes:
                    findings.error(instance.path, "no frame of this name in the pose graph")
                counts[instance.path] = _check_frames(instance, findings)
            if instance.component == "cameras":
                _check_camera(instance, by_path, findings)
            if instance.component == "cuboids":
                observations = instance.attributes("cuboids").get("cuboid_track_observations")
                if observations is None:
                    findings.error(instance.path, "no list of observations, not even an empty one")
                counts[instance.path] = len(observations or ())
    return counts


def _check_attributes(instance: Instance, findings: Findings) -> None:
    attributes = instance.attributes()
    for key in ("component_name", "component_instance_name", "component_version", "generic_meta_data"):
        if key not in attributes:
            findings.error(instance.path, f"no {key}")


def _check_frames(instance: Instance, findings: Findings) -> int:
    """Check that frames are in order, inside the sequence, and have the groups that readers ask for."""
    where, (start, stop), times = instance.path, instance.interval_us, instance.frames()
    if not len(times):
        findings.error(where, "no frames: readers refuse the whole sequence")
        return 0
    if (np.diff(times, axis=0) <= 0).any() or (times[:, 1] < times[:, 0]).any():
        findings.error(where, "frames are not in order of time")
    if times.min() < start or times.max() >= stop:
        findings.error(where, "frames outside the sequence", f"[{start}, {stop})")
    for end_us in times[:, 1].tolist():
        if f"{where}/frames/{end_us}/generic_data/.zgroup" not in instance.metadata:
            findings.error(f"{where}@{end_us}", "frame has no generic_data")
    return len(times)


def _check_camera(camera: Instance, by_path: Mapping[str, Instance], findings: Findings) -> None:
    group = f"cameras/{camera.name}"
    intrinsics, masks = by_path.get(f"intrinsics/{DEFAULT}"), by_path.get(f"masks/{DEFAULT}")
    if masks and "mask_names" not in masks.attributes(group):
        findings.error(camera.path, "no masks, not even an empty list of them")
    if not intrinsics or "resolution" not in intrinsics.attributes(group).get("camera_model_parameters", {}):
        findings.error(camera.path, "no intrinsics: the loader refuses the camera")


def read_edges(
    instance: Instance, findings: Findings
) -> Iterator[tuple[Edge, npt.NDArray[Any], npt.NDArray[np.int64] | None]]:
    """Source and target, poses (N, 4, 4), and their times unless they are static."""
    for kind in ("static_poses", "dynamic_poses"):
        for key, value in instance.attributes(kind).items():
            where = f"{instance.path}:{displayed(key)}"
            with reading(findings, where, "pose"):
                if value["dtype"] not in {"float32", "float64"}:
                    findings.error(where, "pose cannot be read", f"its dtype is {value['dtype']!r:.80}")
                    continue
                poses = np.array(value.get("poses", [value.get("pose")]), value["dtype"])
                times = np.array(value["timestamps_us"], np.int64) if kind == "dynamic_poses" else None
                yield edge_of(key), poses.reshape(-1, 4, 4), times


def _check_poses(instance: Instance, findings: Findings) -> set[str]:
    """Check that moving poses cover the sequence, and that all form one tree; its nodes."""
    edges, (start, stop) = [], instance.interval_us
    for edge, poses, times in read_edges(instance, findings):
        edges.append(edge)
        where = f"{instance.path}:{edge[0]}->{edge[1]}"
        if not np.isfinite(poses).all():
            findings.error(where, "a pose is not finite")
        if times is None:
            continue
        if len(times) != len(poses) or len(times) < 2:
            findings.error(where, "too few poses or times", f"{len(poses)} poses, {len(times)} times")
        elif (np.diff(times) <= 0).any():
            findings.error(where, "times are not strictly increasing")
        elif times[0] != start or times[-1] != stop - 1:
            found = f"[{times[0]}, {times[-1]}] of [{start}, {stop})"
            findings.error(where, "does not cover the sequence", found)
    nodes = {node for edge in edges for node in edge}
    if len(edges) != len(nodes) - 1 or _reached(edges) != nodes:
        found = f"{len(edges)} edges between {len(nodes)} frames"
        findings.error(instance.path, "poses do not form a tree", found)
    for wanted in {RIG, WORLD} - nodes:
        findings.error(instance.path, f"no frame {wanted}")
    return nodes


def _reached(edges: Sequence[Edge]) -> set[str]:
    """Frames connected to the first."""
    reached = set(edges[0][:1]) if edges else set[str]()
    for _ in edges:
        reached.update(node for edge in edges if reached & {*edge} for node in edge)
    return reached
