"""Reads a sequence through NVIDIA's own reader and prints what it found as JSON; runs in a venv of its own.

    python official_conformance.py META_OR_STORE...

Every component is opened in both ways the reader has (with and without consolidated metadata), the default
loader is made, and everything a test wants to judge is printed: times, digests of arrays, poses, models.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ncore.data import LabelEncoding
from ncore.data.v4 import (
    CameraLabelsComponent,
    CameraSensorComponent,
    LidarSensorComponent,
    PointCloudsComponent,
    PosesComponent,
    RadarSensorComponent,
    SequenceComponentGroupsReader,
    SequenceLoaderV4,
)


def digest(array: object) -> str:
    """Shape, type and bytes of an array in one word."""
    found = np.asarray(array)
    return f"{found.dtype.str}{list(found.shape)}{hashlib.sha256(found.tobytes()).hexdigest()[:16]}"


def cameras(reader: SequenceComponentGroupsReader, loader: SequenceLoaderV4) -> dict[str, Any]:
    found = {}
    components = reader.open_component_readers(CameraSensorComponent.Reader)
    for name in loader.camera_ids:
        camera = loader.get_camera_sensor(name)
        parameters = camera.model_parameters
        found[name] = {
            "frames": camera.frames_timestamps_us.tolist(),
            "model": type(parameters).__name__,
            "parameters": parameters.to_dict(),
            "images": [
                hashlib.sha256(camera.get_frame_handle(i).get_data().get_encoded_image_data()).hexdigest()
                for i in range(camera.frames_count)
            ],
            "sizes": [
                list(camera.get_frame_handle(i).get_data().get_decoded_image().size)
                for i in range(camera.frames_count)
            ],
            "masks": {mask: list(image.size) for mask, image in camera.get_mask_images().items()},
            "T_sensor_rig": camera.T_sensor_rig.tolist(),
            "generic": [
                {
                    generic: camera.get_frame_generic_data(i, generic).tolist()
                    for generic in camera.get_frame_generic_data_names(i)
                }
                for i in range(camera.frames_count)
            ],
            "generic_meta": [camera.get_frame_generic_meta_data(i) for i in range(camera.frames_count)],
            "meta": components[name].generic_meta_data,
        }
    return found


def rays(sensor: Any, *, lidar: bool) -> dict[str, Any]:  # noqa: ANN401  two protocols without a common name
    found: dict[str, Any] = {"frames": sensor.frames_timestamps_us.tolist(), "rays": [], "T_sensor_rig": None}
    found["T_sensor_rig"] = sensor.T_sensor_rig.tolist()
    if lidar:
        found["model"] = None if sensor.model_parameters is None else sensor.model_parameters.to_dict()
    for index in range(sensor.frames_count):
        plain = sensor.get_frame_point_cloud(index, motion_compensation=False, with_start_points=False)
        moved = sensor.get_frame_point_cloud(index, motion_compensation=True, with_start_points=True)
        frame = {
            "xyz": plain.xyz_m_end.tolist(),
            "moved": moved.xyz_m_end.tolist(),
            "finite": bool(np.isfinite(moved.xyz_m_end).all() and np.isfinite(moved.xyz_m_start).all()),
            "times": sensor.get_frame_ray_bundle_timestamp_us(index).tolist(),
            "valid": bool(sensor.get_frame_ray_bundle_return_valid_mask(index).all()),
            "generic": {
                name: digest(sensor.get_frame_generic_data(index, name))
                for name in sorted(sensor.get_frame_generic_data_names(index))
            },
            "meta": sensor.get_frame_generic_meta_data(index),
        }
        if lidar:
            frame["intensity"] = sensor.get_frame_ray_bundle_return_intensity(index).tolist()
            element = sensor.get_frame_ray_bundle_model_element(index)
            frame["model_element"] = None if element is None else element.tolist()
        found["rays"].append(frame)
    return found


def labels(reader: SequenceComponentGroupsReader) -> dict[str, Any]:
    found = {}
    for name, each in reader.open_component_readers(CameraLabelsComponent.Reader).items():
        descriptor = each.label_descriptor
        found[name] = {
            "camera": descriptor.camera_id,
            "type": f"{descriptor.label_type.category.name}.{descriptor.label_type.qualifier}",
            "unit": descriptor.label_type.unit.name,
            "encoding": LabelEncoding(descriptor.label_schema.encoding).name,
            "default_name": descriptor.default_instance_name,
            "times": each.timestamps_us.tolist(),
            "data": [digest(each.get_label(time).get_data()) for time in each.timestamps_us.tolist()],
        }
    return found


def clouds(reader: SequenceComponentGroupsReader, loader: SequenceLoaderV4) -> dict[str, Any]:
    found = {}
    for name, each in reader.open_component_readers(PointCloudsComponent.Reader).items():
        source = loader.get_point_clouds_source(name)
        in_world = [
            source.get_pc(i).transform("world", int(each.pc_timestamps_us[i]), loader.pose_graph).xyz
            for i in range(each.pcs_count)
        ]
        found[name] = {
            "times": each.pc_timestamps_us.tolist(),
            "frames": [each.get_pc_reference_frame_id(i) for i in range(each.pcs_count)],
            "xyz": [digest(each.get_pc_xyz(i)) for i in range(each.pcs_count)],
            "attributes": {a: digest(each.get_pc_attribute(0, a)) for a in each.attribute_names},
            "unit": each.coordinate_unit.name,
            "finite_in_world": bool(all(np.isfinite(xyz).all() for xyz in in_world)),
        }
    return found


def poses(reader: SequenceComponentGroupsReader, loader: SequenceLoaderV4) -> dict[str, Any]:
    (component,) = reader.open_component_readers(PosesComponent.Reader).values()
    interval = loader.sequence_timestamp_interval_us
    times = np.linspace(interval.start, interval.stop - 1, 7).astype(np.uint64)
    found: dict[str, Any] = {
        "nodes": sorted(loader.pose_graph.nodes),
        "at": times.tolist(),
        "rig_world": loader.pose_graph.evaluate_poses("rig", "world", times).tolist(),
        "generic": {
            name: component.get_generic_data(name).tolist() for name in component.get_generic_data_names()
        },
        "meta": component.generic_meta_data,
        "static": {
            f"{edge[0]}->{edge[1]}": [pose.dtype.name, pose.tolist()]
            for edge, pose in component.get_static_poses()
        },
        "dynamic": {
            f"{edge[0]}->{edge[1]}": [path.dtype.name, path.tolist(), when.tolist()]
            for edge, (path, when) in component.get_dynamic_poses()
        },
    }
    if "world_global" in loader.pose_graph.nodes:
        found["rig_ecef"] = loader.pose_graph.evaluate_poses("rig", "world_global", times).tolist()
    return found


def main() -> None:
    paths = [Path(arg) for arg in sys.argv[1:]]
    plain = SequenceComponentGroupsReader(paths, open_consolidated=False)
    reader = SequenceComponentGroupsReader(paths)
    for component in (
        CameraSensorComponent,
        LidarSensorComponent,
        RadarSensorComponent,
        PointCloudsComponent,
    ):
        ways = [set(each.open_component_readers(component.Reader)) for each in (plain, reader)]
        if ways[0] != ways[1]:
            raise SystemExit(
                f"{component.COMPONENT_NAME}: {ways[0]} without consolidated metadata, {ways[1]} with"
            )
    loader = SequenceLoaderV4(reader)
    interval = loader.sequence_timestamp_interval_us
    json.dump(
        {
            "id": loader.sequence_id,
            "interval": [interval.start, interval.stop],
            "meta": loader.get_sequence_meta(),
            "generic_meta_data": loader.generic_meta_data,
            "cameras": cameras(reader, loader),
            "lidars": {name: rays(loader.get_lidar_sensor(name), lidar=True) for name in loader.lidar_ids},
            "radars": {name: rays(loader.get_radar_sensor(name), lidar=False) for name in loader.radar_ids},
            "labels": labels(reader),
            "clouds": clouds(reader, loader),
            "poses": poses(reader, loader),
            "cuboids": [observation.to_dict() for observation in loader.get_cuboid_track_observations()],
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
