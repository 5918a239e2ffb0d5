"""The components that every sequence has once, called default: poses, intrinsics, masks, cuboids."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgefirst_ros.formats.motion import POSE_NOISE_M, Motion
from edgefirst_ros.formats.ncore.finish.cuboids import META as CUBOIDS_META
from edgefirst_ros.formats.ncore.finish.cuboids import solved
from edgefirst_ros.formats.ncore.finish.facts import Facts, Remarks, placed_rig, provenance, rear_axle_m
from edgefirst_ros.formats.ncore.options import AUTOLABEL, SYNTHETIC, readout_of
from edgefirst_ros.formats.ncore.poses import (
    ASSUMED,
    BASES,
    GLOBAL_DTYPE,
    POSE_DTYPE,
    RIG,
    WORLD,
    WORLD_GLOBAL,
    Pose,
    RigPoses,
    cover,
    enu_to_ecef,
    filled,
    rig_to_world,
    sensor_edges,
    thin,
    whole_camera,
)
from edgefirst_ros.formats.ncore.prepare import boxes as cuboids
from edgefirst_ros.formats.ncore.prepare.camera import camera_model, described_change
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, Json, generic_data
from edgefirst_ros.formats.ncore.store.base import VERSION, EntryTimes, Instance
from edgefirst_ros.formats.ncore.store.journal import JsonPayload
from edgefirst_ros.formats.zarr2 import (
    ATTRIBUTES_KEY,
    Record,
    array_records,
    blob_records,
    group,
    json_bytes,
    under,
)
from edgefirst_ros.model.transform import bare

DEFAULT = "default"
NAMES = ("poses", "intrinsics", "masks", "cuboids")

Arrays = dict[str, npt.NDArray[Any]]

Warn = Callable[[str], None]

_POSE_META: Json = {
    "basis": [str(basis) for basis in BASES],
    "position_basis, rotation_basis": "index into basis, by pose; what is assumed is a placeholder",
    "position_sigma_m": "one standard deviation along east, north, up; NaN where unknown",
    "rotation_sigma_rad": "one standard deviation about the rig's x, y, z; NaN where unknown",
}

Component = tuple[Json, list[Record], Arrays]
"""generic_meta_data of an instance, its records below the instance, and its generic data."""


def default_components(
    facts: Facts, instances: Mapping[Instance, EntryTimes], first_us: int, last_us: int, remarks: Remarks
) -> dict[str, Component]:
    """All four, for a sequence whose observations are from ``first_us`` to ``last_us``.

    Args:
        facts: the journal.
        instances: what the stores hold; other instances were registered but have no entry.
        first_us: first time of the sequence.
        last_us: last time of the sequence.
        remarks: takes warnings and notes for the user.
    """
    return {
        "poses": _poses(facts, instances, first_us, last_us, remarks.warn),
        "intrinsics": _intrinsics(facts, instances, remarks),
        "masks": _masks(facts, instances, remarks),
        "cuboids": _cuboids(facts),
    }


def component_records(name: str, component: Component, facts: Facts) -> list[Record]:
    """Records of one of the four, without the groups above it."""
    meta, records, arrays = component
    instance = (name, DEFAULT)
    attributes = instance_attributes(instance, meta | facts.meta.get(instance, {}))
    arrays = arrays | facts.generic.get(instance, {})
    return under("/".join(instance), [*records, attributes, *(generic_data(arrays) if arrays else ())])


def _pose_json(pose: npt.NDArray[Any]) -> list[Any]:
    values: list[Any] = (pose + 0.0).tolist()  # + 0.0 turns -0.0 into 0.0
    return values


def _static_json(edge: tuple[str, str], pose: Pose) -> Json:
    dtype = GLOBAL_DTYPE if edge == (WORLD, WORLD_GLOBAL) else POSE_DTYPE
    return {"pose": _pose_json(stored_poses(pose, dtype)), "dtype": dtype}


def _moving_json(poses: Pose, times_us: npt.NDArray[np.int64]) -> Json:
    stored = _pose_json(stored_poses(poses, POSE_DTYPE))
    return {"poses": stored, "timestamps_us": times_us.tolist(), "dtype": POSE_DTYPE}


def _mounts_us(facts: Facts, first_us: int, last_us: int) -> npt.NDArray[np.int64]:
    """When poses of mounts that move are written: as often as those of the rig, and at both ends."""
    told = np.unique(np.concatenate([[first_us, last_us], *(e.times_us for e in facts.mounted.values())]))
    times_us, gap_us = [first_us], facts.sequence.get("pose_gap_us", 50_000)
    inside = told[(told > first_us) & (told <= last_us)].tolist()
    for now_us, next_us in pairwise(inside):
        if next_us - times_us[-1] > gap_us:
            times_us.append(now_us)
    return np.array([*times_us, *inside[-1:]], np.int64)


def stored_poses(poses: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Poses (..., 4, 4) as they are stored.

    Raises:
        ValueError: one of a damaged journal is beyond what the type can hold.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        stored = poses.astype(dtype)
    if (np.isfinite(poses) & ~np.isfinite(stored)).any():
        raise ValueError(f"a pose is beyond what {dtype} can hold")
    return stored


def _poses(
    facts: Facts, instances: Mapping[Instance, EntryTimes], first_us: int, last_us: int, warn: Warn
) -> Component:
    nodes = {node: (frame_id, False) for node, frame_id in facts.nodes.items()}
    for component, name in instances:
        if component in {"cameras", "lidars", "radars"}:
            frame_id = facts.instances.get((component, name), {}).get("frame_id", "")
            nodes[name] = (frame_id, component == "cameras")
    rig_frame = facts.sequence.get("rig_frame", "base_link")
    times_us = _mounts_us(facts, first_us, last_us)
    edges, assumed = sensor_edges(*placed_rig(facts), nodes, facts.mounted_at(times_us))
    for name in assumed:
        frame_id, camera = nodes[name]
        looking = ", facing forward" if camera else ""
        warn(
            f"no transform for {name} (frame {frame_id!r}): it is placed at the origin of the rig"
            f"{looking}; publish one from {rig_frame}{_to_base(frame_id, facts)}, or set rig_frame to the "
            "rig's frame"
        )
    static = {(node, RIG): pose for node, pose in edges.items() if pose.ndim == 2}
    dynamic: Json = {
        str((node, RIG)): _moving_json(pose, times_us) for node, pose in edges.items() if pose.ndim == 3
    }
    trajectory, T_world_enu = _trajectory(facts, (first_us, last_us), static, dynamic, warn)
    _warn_of_poses(trajectory, last_us - first_us, facts, warn)
    if T_world_enu is not None and facts.origin is not None:
        static[WORLD, WORLD_GLOBAL] = enu_to_ecef(*facts.origin) @ T_world_enu
    meta: Json = provenance(facts, len(assumed), len(edges))
    if assumed:
        meta["assumed_extrinsics"] = assumed
    arrays: Arrays = {}
    if trajectory is not None and str((RIG, WORLD)) in dynamic:
        arrays = _pose_arrays(trajectory)
        meta[f"{RIG}_{WORLD}"] = _POSE_META
    else:
        rests = (ASSUMED, ASSUMED) if trajectory is None else trajectory.basis[0].tolist()
        meta[f"{RIG}_{WORLD}"] = {"position": BASES[rests[0]], "rotation": BASES[rests[1]]}
    for prefix, series in facts.series.items():
        arrays |= series.arrays(prefix)
        meta.setdefault("series", {})[prefix] = {"topic": series.topic, "kind": series.kind}
    attributes = {str(edge): _static_json(edge, pose) for edge, pose in sorted(static.items())}
    records = [
        *group(""),
        *under("static_poses", group("", attributes)),
        *under("dynamic_poses", group("", dynamic)),
    ]
    return meta, records, arrays


def _to_base(frame_id: str, facts: Facts) -> str:
    """To where a frame's own transforms lead, such as a second device's base, and how else that is placed."""
    parents = {bare(child): bare(row[0]) for child, row in facts.transforms.items()}
    chain = [bare(frame_id)]
    while parents.get(chain[-1], chain[-1]) not in chain:
        chain.append(parents[chain[-1]])
    prefix = chain[-1].rpartition("/")[0]
    if len(chain) == 1:
        return ""
    return f" to {chain[-1]}" + (
        f", give mount.xyz_m to the tf entry with frame_prefix {prefix}" if prefix else ""
    )


def _trajectory(
    facts: Facts, span_us: tuple[int, int], static: dict[tuple[str, str], Pose], dynamic: Json, warn: Warn
) -> tuple[RigPoses | None, Pose | None]:
    """Put (rig, world) among the static or dynamic poses.

    Returns:
        The trajectory if there is one, else None; and T_world_enu if anything of a pose was ever known.
    """
    if not facts.pose_times_us or (told := facts.rig_poses()).is_unknown:
        static[RIG, WORLD] = np.eye(4)
        return None, None
    covered = cover(filled(told), *span_us)
    kept = covered.taken(thin(covered, facts.sequence.get("pose_gap_us", 50_000)))
    poses, T_world_enu = rig_to_world(kept.rows, rear_axle_m(facts) or (0.0, 0.0, 0.0))
    if len(kept.times_us) < 2:
        static[RIG, WORLD] = np.eye(4)
    else:
        motion = Motion(POSE_NOISE_M)
        written = stored_poses(poses, POSE_DTYPE)
        read = written.astype(np.float64)  # as check has them
        known = kept.basis[:, 0] != ASSUMED
        motion.move(kept.times_us[known] * 1000, read[known, :3, 3])
        if warning := motion.warning(facts.sequence["id"]):
            warn(warning)
        dynamic[str((RIG, WORLD))] = _moving_json(poses, kept.times_us)
    return kept, T_world_enu


def _pose_arrays(poses: RigPoses) -> Arrays:
    """What each pose of (rig, world) rests on, pose by pose."""
    prefix = f"{RIG}_{WORLD}"
    return {
        f"{prefix}_timestamps_us": poses.times_us.astype(np.uint64),
        f"{prefix}_position_basis": poses.basis[:, 0],
        f"{prefix}_rotation_basis": poses.basis[:, 1],
        f"{prefix}_position_sigma_m": poses.sigma[:, :3].astype(np.float32),
        f"{prefix}_rotation_sigma_rad": poses.sigma[:, 3:].astype(np.float32),
    }


WORTH_SAYING_US = 100_000
"""Assumed poses of less than this, at the ends of what is known, are marked and not warned of."""


def _warn_of_poses(poses: RigPoses | None, span_us: int, facts: Facts, warn: Warn) -> None:
    sequence, span = facts.sequence["id"], f"{span_us / 1e6:,.1f} s"
    if poses is None:
        warn(f"{sequence}: no pose of the rig is known: it is written at the origin for all {span}")
        return
    for part, what in enumerate(("position", "rotation")):
        assumed_us = poses.assumed_us(part)
        if assumed_us >= WORTH_SAYING_US:
            warn(
                f"{sequence}: the rig's {what} is assumed for {assumed_us / 1e6:,.1f} s of {span}; "
                f"{RIG}_{WORLD}_{what}_basis in the poses' generic data marks these parts, and "
                "ncore.unknown_pose: cut leaves them out"
            )


def _intrinsics(facts: Facts, instances: Mapping[Instance, EntryTimes], remarks: Remarks) -> Component:
    records = [*group(""), *group("cameras"), *group("lidars")]
    meta: Json = {}
    known = {bare(child) for _, child, *_ in facts.transforms.values()}
    for component, name in instances:
        if component == "cameras":
            told = facts.instances.get((component, name), {})
            width, height = told.get("size", (1, 1))
            model = camera_model(
                facts.camera_info.get(name),
                (width, height),
                rolling=readout_of(facts.sequence.get("readouts_ms", {}), name) > 0,
                tile=whole_camera(told.get("frame_id", ""), known)[1],
            )
            records += group(f"cameras/{name}", model.attributes)
            if model.assumed:
                meta.setdefault("assumed", {})[name] = model.assumed
                remarks.warn(f"the intrinsics of {name} are assumed: {model.assumed}")
            if change := described_change(facts.first_info.get(name), facts.camera_info.get(name)):
                remarks.warn(
                    f"the CameraInfo of {name} changed: {change}; the newest is taken for all pictures"
                )
            if model.derived:
                meta.setdefault("derived", {})[name] = model.derived
                remarks.note(f"the intrinsics of {name} follow from its CameraInfo: {model.derived}")
    return meta, records, {}


def _masks(facts: Facts, instances: Mapping[Instance, EntryTimes], remarks: Remarks) -> Component:
    records = [*group(""), *group("cameras")]
    for component, name in instances:
        if component == "cameras":
            size = tuple(facts.instances.get((component, name), {}).get("size", ()))
            masks = facts.masks.get(name, {})
            fitting = {mask: png for mask, png in masks.items() if size in {(), _mask_size(png)}}
            for mask in masks.keys() - fitting.keys():
                remarks.warn(
                    f"{facts.sequence['id']}: ncore.ego_masks.{name}.{mask} is left out: its size is not the "
                    f"pictures' {size[0]}x{size[1]}"
                )
            records += group(f"cameras/{name}", {"mask_names": list(fitting)})
            for mask, png in fitting.items():
                records += blob_records(f"cameras/{name}/{mask}", png, {"format": "png"})
    return {}, records, {}


def _cuboids(facts: Facts) -> Component:
    boxes = facts.cuboids
    poses = facts.rig_poses() if facts.pose_times_us else None
    rig_frame = facts.sequence.get("rig_frame", "base_link")
    placed = [*facts.transforms.values()], rig_frame, facts.nodes
    dims, rotations, headings = solved(boxes, poses, *placed, mounted=facts.mounted_at)
    source = {"source": SYNTHETIC if facts.is_simulated else AUTOLABEL, "source_version": facts.model or None}
    attributes = JsonPayload(*boxes.attributes(dims, rotations, source))
    records: list[Record] = [*group(""), *group("cuboids"), (f"cuboids/{ATTRIBUTES_KEY}", attributes)]
    messages_us = np.unique(
        np.concatenate([np.array(boxes.times_us, np.int64), np.array(facts.nothing_us, np.int64)])
    )
    if not len(messages_us):
        return {}, records, {}
    if not len(boxes):
        return {MESSAGES: MESSAGES_META}, records, {MESSAGES: messages_us.astype(np.uint64)}
    extra = np.array(boxes.extra).reshape(len(boxes), len(cuboids.EXTRA))
    columns: Arrays = {name: extra[:, index] for index, name in enumerate(cuboids.EXTRA)}
    columns["heading_basis"] = headings
    columns[MESSAGES] = messages_us.astype(np.uint64)
    meta = CUBOIDS_META | {MESSAGES: MESSAGES_META}
    if boxes is facts.flat:
        meta |= {BASIS: FLAT}
    elif boxes is facts.radar:
        meta |= {BASIS: RADAR, "dim": RADAR_DIM}
    return meta, records, columns


BASIS = "basis"
FLAT = "2-D boxes with a track, each along the ray through its middle, at the distance that came with it"
RADAR = "tracks of a radar"
RADAR_DIM = (
    "length, width, height as the radar sends them, the median over each track; 1 m stands for a height of 0"
)
MESSAGES = "messages_timestamps_us"
MESSAGES_META = (
    "times of all messages of 3-D boxes, those without boxes too: what has no observation at such a time was "
    "looked for and not there"
)


COMPONENT_VERSION = "v1"
SEGMENTATION = "segmentation."
"""Labels of classes by pixel have names that begin so."""

_TIMES_ARRAY = {"pcs": "pc_timestamps_us", "labels": "timestamps_us"}


def root_attributes(sequence_id: str, interval_us: tuple[int, int], meta: Json, group_name: str) -> Record:
    """Attributes of a store's root; the interval is half-open."""
    return ATTRIBUTES_KEY, json_bytes({
        "sequence_id": sequence_id,
        "sequence_timestamp_interval_us": {"start": interval_us[0], "stop": interval_us[1]},
        "generic_meta_data": meta,
        "version": VERSION,
        "component_group_name": group_name,
    })  # fmt: skip


def instance_attributes(instance: Instance, meta: Json) -> Record:
    """Attributes of a component's instance."""
    component, name = instance
    return ATTRIBUTES_KEY, json_bytes({
        "component_name": component,
        "component_instance_name": name,
        "component_version": COMPONENT_VERSION,
        "generic_meta_data": meta,
    })  # fmt: skip


def instance_meta(instance: Instance, facts: Facts) -> Json:
    """generic_meta_data of an instance: where it comes from, and what was said about it since."""
    known = facts.instances.get(instance, {})
    meta: Json = {key: known[key] for key in ("topic", "frame_id") if key in known} | known.get("meta", {})
    if instance[0] == "camera_labels" and instance[1].startswith(SEGMENTATION) and facts.classes:
        meta["label-class-string-id-map"] = {name: index for index, name in enumerate(facts.classes)}
    if instance[0] == "radars" and (info := facts.radar_infos.get(instance[1])):
        meta["radar_info"] = info
    return meta | facts.meta.get(instance, {})


def instance_records(instance: Instance, times: EntryTimes, facts: Facts) -> list[Record]:
    """What completes an instance that has entries, below the store's root."""
    records: list[Record] = []
    if times.collection == "frames":
        pairs: list[Any] = [list(pair) for pair in zip(times.starts, times.ends, strict=True)]
        records.append((f"frames/{ATTRIBUTES_KEY}", json_bytes({"frames_timestamps_us": pairs})))
    else:
        ends = np.array(times.ends, np.uint64)
        records += array_records(_TIMES_ARRAY[times.collection], ends, COMPRESSOR)
    records.append(instance_attributes(instance, instance_meta(instance, facts)))
    if arrays := facts.generic.get(instance):
        records += generic_data(arrays)
    return under("/".join(instance), records)


def _mask_size(png: bytes) -> tuple[int, int]:
    """Width and height of a mask."""
    with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
        return image.size
