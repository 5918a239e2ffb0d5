"""Checks of every component of a sequence, across its stores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgefirst_ros.formats.format import Findings, reading
from edgefirst_ros.formats.ncore.check.frames import (
    Instance,
    check_boxes,
    check_picture,
    check_poses,
    check_rays,
    check_times,
)
from edgefirst_ros.formats.ncore.finish.components import DEFAULT, NAMES

_SENSORS = ("cameras", "lidars", "radars")


def check_components(instances: Sequence[Instance], findings: Findings) -> dict[str, int]:
    """Check all instances; return the number of entries of each."""
    by_path = {instance.path: instance for instance in instances}
    for name in NAMES:
        if f"{name}/{DEFAULT}" not in by_path:
            findings.error(name, f"no instance called {DEFAULT}: the loader refuses the sequence")
    poses = by_path.get(f"poses/{DEFAULT}")
    nodes: set[str] = set()
    if poses:
        with reading(findings, poses.path, "content"):
            nodes = check_poses(poses, findings)
    counts: dict[str, int] = {}
    for instance in instances:
        with reading(findings, instance.path, "content"):
            _check_attributes(instance, findings)
            if instance.component in _SENSORS:
                if instance.name not in nodes:
                    findings.error(instance.path, "no frame of this name in the pose graph")
                counts[instance.path] = _check_sensor(instance, by_path, findings)
            elif instance.component == "point_clouds":
                counts[instance.path] = _check_clouds(instance, nodes, findings)
            elif instance.component == "camera_labels":
                counts[instance.path] = _check_labels(instance, by_path, findings)
            elif instance.component == "cuboids":
                counts[instance.path] = _check_cuboids(instance, nodes, findings)
    return counts


def _check_attributes(instance: Instance, findings: Findings) -> None:
    attributes = instance.attributes()
    expected = {"component_name": instance.component, "component_instance_name": instance.name}
    for key, value in expected.items():
        if attributes.get(key) != value:
            findings.error(instance.path, f"{key} is {attributes.get(key)!r}")
    for key in ("component_version", "generic_meta_data"):
        if key not in attributes:
            findings.error(instance.path, f"no {key}")


def _check_sensor(instance: Instance, by_path: dict[str, Instance], findings: Findings) -> int:
    times = check_times(instance, findings)
    size = None
    if instance.component == "cameras":
        size = _camera_size(instance, by_path, findings)
    for start_us, end_us in times.tolist():
        if f"{instance.path}/frames/{end_us}/generic_data/.zgroup" not in instance.metadata:
            findings.error(f"{instance.path}@{end_us}", "frame has no generic_data")
        if instance.component == "cameras":
            check_picture(instance, end_us, size, findings)
            check_boxes(instance, end_us, findings)
        else:
            check_rays(instance, start_us, end_us, findings)
    return len(times)


def _camera_size(
    instance: Instance, by_path: dict[str, Instance], findings: Findings
) -> tuple[int, int] | None:
    intrinsics, masks = by_path.get(f"intrinsics/{DEFAULT}"), by_path.get(f"masks/{DEFAULT}")
    group = f"cameras/{instance.name}"
    if masks and "mask_names" not in masks.attributes(group):
        findings.error(instance.path, "no masks, not even an empty list of them")
    parameters = intrinsics.attributes(group).get("camera_model_parameters", {}) if intrinsics else {}
    if "resolution" not in parameters:
        findings.error(instance.path, "no intrinsics: the loader refuses the camera")
        return None
    if min(parameters["focal_length"]) <= 0 or parameters.get("max_angle", 1.0) <= 0:
        findings.error(instance.path, "intrinsics without focal length or angle")
    width, height = parameters["resolution"]
    return int(width), int(height)


def _inside(instance: Instance, times: list[int]) -> bool:
    start, stop = instance.interval_us
    return all(start <= time < stop for time in times)


def _check_clouds(instance: Instance, nodes: set[str], findings: Findings) -> int:
    try:
        times = instance.array("pc_timestamps_us").astype(np.int64).tolist()
    except (KeyError, ValueError) as error:
        findings.error(instance.path, "no pc_timestamps_us", str(error))
        return 0
    if not _inside(instance, times):
        findings.error(instance.path, "times outside the sequence")
    schemas = instance.attributes("pcs").get("attribute_schemas", {})
    for index in range(len(times)):
        where = f"{instance.path}@{index}"
        reference = instance.attributes(f"pcs/{index}").get("reference_frame_id")
        if reference not in nodes:
            findings.error(where, "reference frame is not in the pose graph", str(reference))
        try:
            points = len(instance.array(f"pcs/{index}/xyz"))
            for name, schema in schemas.items():
                column = instance.array(f"pcs/{index}/{name}")
                shape = (points, *schema["shape_suffix"])
                if column.shape != shape or schema["dtype"] not in {column.dtype.name, column.dtype.str}:
                    findings.error(
                        where, f"attribute {name} does not match its schema", f"{column.dtype}{column.shape}"
                    )
        except (KeyError, ValueError) as error:
            findings.error(where, "cloud cannot be read", str(error))
    return len(times)


def _check_labels(instance: Instance, by_path: dict[str, Instance], findings: Findings) -> int:
    descriptor = instance.attributes("labels").get("descriptor", {})
    camera = by_path.get(f"cameras/{descriptor.get('camera_id')}")
    if camera is None:
        findings.error(instance.path, "its camera is not in the sequence", str(descriptor.get("camera_id")))
    try:
        times = instance.array("timestamps_us").astype(np.int64).tolist()
        for time in times:
            instance.array(f"labels/{time}/data")
    except (KeyError, ValueError) as error:
        findings.error(instance.path, "label cannot be read", str(error))
        return 0
    if not _inside(instance, times):
        findings.error(instance.path, "times outside the sequence")
    frames = camera.attributes("frames").get("frames_timestamps_us", []) if camera else []
    alone = len(set(times) - {end for _, end in frames})
    if alone:
        findings.note(instance.path, "labels of pictures that are not in the dataset", str(alone))
    return len(times)


def _check_cuboids(instance: Instance, nodes: set[str], findings: Findings) -> int:
    observations = instance.attributes("cuboids").get("cuboid_track_observations")
    if observations is None:
        findings.error(instance.path, "no list of observations, not even an empty one")
        return 0
    for observation in observations:
        where = f"{instance.path}@{observation['timestamp_us']}"
        times = [observation["timestamp_us"], observation["reference_frame_timestamp_us"]]
        if not _inside(instance, times):
            findings.error(where, "times outside the sequence")
        if observation["reference_frame_id"] not in nodes:
            findings.error(
                where, "reference frame is not in the pose graph", observation["reference_frame_id"]
            )
        box = observation["bbox3"]
        if min(box["dim"]) <= 0 or not np.isfinite([*box["centroid"], *box["dim"], *box["rot"]]).all():
            findings.error(where, "box without extent or position")
    return len(observations)
