"""The components that every sequence has once, called default: poses, intrinsics, masks, cuboids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore import cuboids, lidarmodel
from edgefirst_ros.formats.ncore.closing import COMPONENT_VERSION, instance_attributes
from edgefirst_ros.formats.ncore.entry import Json, generic_data
from edgefirst_ros.formats.ncore.extrinsics import RIG, WORLD, WORLD_GLOBAL, Pose, sensor_edges
from edgefirst_ros.formats.ncore.facts import Facts
from edgefirst_ros.formats.ncore.intrinsics import camera_model
from edgefirst_ros.formats.ncore.marks import Instance, Times
from edgefirst_ros.formats.ncore.trajectory import cover, enu_to_ecef, rig_to_world, thin
from edgefirst_ros.formats.zarr2.array import blob_records
from edgefirst_ros.formats.zarr2.metadata import Record, group, under

DEFAULT = "default"
NAMES = ("poses", "intrinsics", "masks", "cuboids")

Arrays = dict[str, npt.NDArray[Any]]

Component = tuple[Json, list[Record], Arrays]
"""generic_meta_data of an instance, its records below the instance, and its generic data."""


def default_components(
    facts: Facts, instances: Mapping[Instance, Times], first_us: int, last_us: int
) -> dict[str, Component]:
    """All four, for a sequence whose observations are from ``first_us`` to ``last_us``.

    Args:
        facts: the journal.
        instances: what the stores hold; other instances were registered but have no entry.
        first_us: first time of the sequence.
        last_us: last time of the sequence.
    """
    return {
        "poses": _poses(facts, instances, first_us, last_us),
        "intrinsics": _intrinsics(facts, instances),
        "masks": _masks(facts, instances),
        "cuboids": _cuboids(facts),
    }


def component_records(name: str, component: Component, facts: Facts) -> list[Record]:
    """Records of one of the four, without the groups above it."""
    meta, records, arrays = component
    instance = (name, DEFAULT)
    attributes = instance_attributes(instance, COMPONENT_VERSION, meta | facts.meta.get(instance, {}))
    arrays = arrays | facts.generic.get(instance, {})
    return under("/".join(instance), [*records, attributes, *(generic_data(arrays) if arrays else ())])


def _pose_json(pose: npt.NDArray[np.float64]) -> list[Any]:
    values: list[Any] = (pose + 0.0).tolist()  # + 0.0 turns -0.0 into 0.0
    return values


def _poses(facts: Facts, instances: Mapping[Instance, Times], first_us: int, last_us: int) -> Component:
    nodes = {node: (frame_id, False) for node, frame_id in facts.nodes.items()}
    for component, name in instances:
        if component in {"cameras", "lidars", "radars"}:
            frame_id = facts.instances.get((component, name), {}).get("frame_id", "")
            nodes[name] = (frame_id, component == "cameras")
    rig_frame = facts.sequence.get("rig_frame", "base_link")
    edges, assumed = sensor_edges(facts.transforms.values(), rig_frame, nodes)
    static = {(node, RIG): pose for node, pose in edges.items()}
    dynamic: Json = {}
    T_world_enu = _trajectory(facts, first_us, last_us, static, dynamic)
    if T_world_enu is not None and facts.origin is not None:
        static[WORLD, WORLD_GLOBAL] = enu_to_ecef(*facts.origin) @ T_world_enu
    meta: Json = {"assumed_extrinsics": assumed} if assumed else {}
    arrays: Arrays = {}
    for prefix, series in facts.series.items():
        arrays |= series.arrays(prefix)
        meta.setdefault("series", {})[prefix] = {"topic": series.topic, "kind": series.kind}
    attributes = {
        str(edge): {"pose": _pose_json(pose), "dtype": "float64"} for edge, pose in sorted(static.items())
    }
    records = [
        *group(""),
        *under("static_poses", group("", attributes)),
        *under("dynamic_poses", group("", dynamic)),
    ]
    return meta, records, arrays


def _trajectory(
    facts: Facts, first_us: int, last_us: int, static: dict[tuple[str, str], Pose], dynamic: Json
) -> Pose | None:
    """Put (rig, world) among the static or dynamic poses; T_world_enu if there is a trajectory."""
    times_us = np.array(facts.pose_times_us, np.int64)
    if not len(times_us):
        static[RIG, WORLD] = np.eye(4)
        return None
    rows = np.array(facts.poses).reshape(-1, 7)
    covered_us, covered = cover(times_us, rows, first_us, last_us)
    kept = thin(covered_us, facts.sequence.get("pose_gap_us", 50_000))
    poses, T_world_enu = rig_to_world(covered[kept])
    if len(kept) < 2:
        static[RIG, WORLD] = np.eye(4)
    else:
        dynamic[str((RIG, WORLD))] = {
            "poses": _pose_json(poses),
            "timestamps_us": covered_us[kept].tolist(),
            "dtype": "float64",
        }
    return T_world_enu


def _intrinsics(facts: Facts, instances: Mapping[Instance, Times]) -> Component:
    records = [*group(""), *group("cameras"), *group("lidars")]
    meta: Json = {}
    for component, name in instances:
        if component == "cameras":
            width, height = facts.instances.get((component, name), {}).get("size", (1, 1))
            model, assumed = camera_model(
                facts.camera_info.get(name),
                (width, height),
                facts.sequence.get("hfov_deg", 80.0),
                rolling=facts.sequence.get("rolling", False),
            )
            records += group(f"cameras/{name}", model)
            if assumed:
                meta.setdefault("assumed", {})[name] = assumed
        elif component == "lidars" and name in facts.row_models:
            model = lidarmodel.attributes(facts.row_models[name], instances[component, name])
            records += group(f"lidars/{name}", model)
    return meta, records, {}


def _masks(facts: Facts, instances: Mapping[Instance, Times]) -> Component:
    records = [*group(""), *group("cameras")]
    for component, name in instances:
        if component == "cameras":
            masks = facts.masks.get(name, {})
            records += group(f"cameras/{name}", {"mask_names": list(masks)})
            for mask, png in masks.items():
                records += blob_records(f"cameras/{name}/{mask}", png, {"format": "png"})
    return {}, records, {}


def _cuboids(facts: Facts) -> Component:
    records = [*group(""), *group("cuboids", {"cuboid_track_observations": facts.cuboids})]
    if not facts.cuboids:
        return {}, records, {}
    extra = np.array(facts.cuboid_extra).reshape(len(facts.cuboids), len(cuboids.EXTRA))
    columns: Arrays = {name: extra[:, index] for index, name in enumerate(cuboids.EXTRA)}
    return cuboids.META, records, columns
