"""Run by the interpreter that has nvidia-ncore: what its reader finds wrong with sequences.

    python judge_ncore.py SEQUENCE_META_JSON...

A line for each fault; the exit code is 1 if there is any. Everything is read through NVIDIA's own classes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ncore.data.v4 import (
    CameraLabelsComponent,
    CameraSensorComponent,
    CuboidsComponent,
    IntrinsicsComponent,
    LidarSensorComponent,
    MasksComponent,
    PointCloudsComponent,
    PosesComponent,
    RadarSensorComponent,
    SequenceComponentGroupsReader,
    SequenceLoaderV4,
)

COMPONENTS = (
    PosesComponent,
    IntrinsicsComponent,
    MasksComponent,
    CameraSensorComponent,
    LidarSensorComponent,
    RadarSensorComponent,
    CuboidsComponent,
    PointCloudsComponent,
    CameraLabelsComponent,
)
LONGEST_GAP_US = 200_000
"""Between poses: what is longer is not a motion that one may interpolate."""
ROUNDING = 1e-4
EARTH_M = 6.3e6, 6.5e6
Faults = Iterator[str]


def places(reader: Any, interval: Any) -> Faults:  # noqa: ANN401 - the reader's own types
    """Of static and of dynamic poses: rotations, finite, and the latter over the whole interval."""
    edges = [(edge, pose[None], None) for edge, pose in reader.get_static_poses()]
    edges += [(edge, poses, times) for edge, (poses, times) in reader.get_dynamic_poses()]
    for (source, target), poses, times in edges:
        turn = poses[:, :3, :3].astype(np.float64)
        if not np.isfinite(poses).all() or (poses[:, 3] != [0, 0, 0, 1]).any():
            yield f"{source}->{target} is no pose"
        elif (
            np.abs(turn @ turn.transpose(0, 2, 1) - np.eye(3)).max() > ROUNDING
            or np.linalg.det(turn).min() < 0
        ):
            yield f"{source}->{target} is no rotation"
        if target == "world_global" and not EARTH_M[0] < np.linalg.norm(poses[0, :3, 3]) < EARTH_M[1]:
            yield f"{source}->{target} is not on the earth"
        if times is None:
            continue
        steps = np.diff(times.astype(np.int64))
        if len(times) != len(poses) or len(times) < 2 or steps.min() <= 0:
            yield f"{source}->{target}: times do not ascend"
        elif steps.max() > LONGEST_GAP_US:
            yield f"{source}->{target}: {steps.max() / 1e3:.0f} ms without a pose"
        if (int(times[0]), int(times[-1])) != (interval.start, interval.stop - 1):
            yield f"{source}->{target} does not cover the sequence"


def moments(sensor: Any, interval: Any) -> Faults:  # noqa: ANN401
    """Times of the frames, and that the sensor has a place in the world at each."""
    times = sensor.frames_timestamps_us.astype(np.int64)
    if not len(times):
        yield "no frames"
        return
    if (times[:, 0] > times[:, 1]).any() or (np.diff(times, axis=0) <= 0).any():
        yield "times do not ascend"
    if (times[1:, 0] < times[:-1, 1]).any():
        yield "frames overlap"
    if times.min() < interval.start or times.max() >= interval.stop:
        yield "frames are outside of the sequence"
    poses = sensor.get_frames_T_sensor_target("world", np.arange(len(times)), None)
    if not np.isfinite(poses).all():
        yield "no place in the world"


def pictures(camera: Any, interval: Any) -> Faults:  # noqa: ANN401
    """That each picture is whole, and as large as the model of its camera says."""
    yield from moments(camera, interval)
    size = tuple(map(int, camera.model_parameters.resolution))
    for name, mask in camera.get_mask_images().items():
        if mask.size != size:
            yield f"mask {name} is {mask.size}, the camera {size}"
    for index in range(camera.frames_count):
        picture = camera.get_frame_handle(index).get_data().get_decoded_image()
        picture.load()
        if picture.size != size:
            yield f"picture {index} is {picture.size}, the camera {size}"
        yield from values(camera, index, None)


def values(sensor: Any, index: int, count: int | None) -> Faults:  # noqa: ANN401
    """That data of a frame which have no place in the format are finite, and one for each ray."""
    for name in sensor.get_frame_generic_data_names(index):
        data = sensor.get_frame_generic_data(index, name)
        if data.dtype.kind == "f" and not np.isfinite(data).all():
            yield f"{name} of frame {index} is not finite"
        if count is not None and data.ndim and count not in data.shape[:2]:
            yield f"{name} of frame {index} is {data.shape} for {count} rays"


def rays(sensor: Any, reader: Any, interval: Any, *, is_lidar: bool) -> Faults:  # noqa: ANN401
    """That rays are unit vectors within their frame, and points placed by NVIDIA's own code."""
    yield from moments(sensor, interval)
    for index, (start, end) in enumerate(sensor.frames_timestamps_us.tolist()):
        count, returns = (
            reader.get_frame_ray_bundle_count(end),
            reader.get_frame_ray_bundle_return_count(end),
        )
        yield from values(sensor, index, count)
        if not count:
            continue
        direction = reader.get_frame_ray_bundle_data(end, "direction").astype(np.float64)
        if direction.shape != (count, 3) or not (np.abs((direction**2).sum(1) - 1) < ROUNDING).all():
            yield f"directions of frame {index} are no unit vectors"
        times = sensor.get_frame_ray_bundle_timestamp_us(index)
        if times.shape != (count,) or times.min() < start or times.max() > end:
            yield f"rays of frame {index} are outside of it"
        valid = reader.get_frame_ray_bundle_return_valid_mask(end)
        names = set(reader.get_frame_ray_bundle_return_data_names(end))
        if missing := {"distance_m", *(["intensity"] if is_lidar else [])} - names:
            yield f"frame {index} has no {missing}"
        for each in names:
            data = reader.get_frame_ray_bundle_return_data(end, each, None)
            sound = data[valid]
            if data.shape[:2] != (returns, count) or not np.isfinite(sound).all():
                yield f"{each} of frame {index} does not fit its returns"
            elif each == "distance_m" and (sound <= 0).any():
                yield f"distances of frame {index} are not positive"
            elif each == "intensity" and ((sound < 0) | (sound > 1)).any():
                yield f"intensities of frame {index} leave 0 to 1"
        if is_lidar and (element := sensor.get_frame_ray_bundle_model_element(index)) is not None:
            model = sensor.model_parameters
            if model is None or (element >= [model.n_rows, model.n_columns]).any():
                yield f"frame {index} names elements that its model has not"
        for number in range(returns):
            cloud = sensor.get_frame_point_cloud(
                index, motion_compensation=True, with_start_points=True, return_index=number
            )
            if (
                not np.isfinite(cloud.xyz_m_end[valid[number]]).all()
                or not np.isfinite(cloud.xyz_m_start).all()
            ):
                yield f"points of frame {index} are not finite"


def boxes(reader: Any, loader: Any) -> Faults:  # noqa: ANN401
    """That cuboids have a size, and a place in the world."""
    interval = loader.sequence_timestamp_interval_us
    for each in reader.get_observations():
        if each.timestamp_us not in interval or each.reference_frame_timestamp_us not in interval:
            yield f"{each.track_id} is outside of the sequence"
            continue
        box = each.transform("world", each.reference_frame_timestamp_us, loader.pose_graph).bbox3
        if min(box.dim) <= 0 or not np.isfinite(box.to_array()).all():
            yield f"{each.track_id} is no box"


def labels(reader: Any, loader: Any) -> Faults:  # noqa: ANN401
    """That each is of a picture, in its size and of the type that is declared."""
    about = reader.label_descriptor
    camera = loader.get_camera_sensor(about.camera_id)
    width, height = map(int, camera.model_parameters.resolution)
    if missing := set(reader.timestamps_us.tolist()) - set(camera.frames_timestamps_us[:, 1].tolist()):
        yield f"{len(missing)} labels are of no picture"
    for time in reader.timestamps_us.tolist():
        data = reader.get_label(time).get_data()
        if data.shape[:2] != (height, width) or data.dtype != about.label_schema.dtype:
            yield f"label at {time} is {data.dtype}{data.shape}"


def clouds(name: str, reader: Any, loader: Any) -> Faults:  # noqa: ANN401
    """That points and what is said of each can be placed in the world."""
    source = loader.get_point_clouds_source(name)
    for index, time in enumerate(reader.pc_timestamps_us.tolist()):
        placed = source.get_pc(index).transform("world", time, loader.pose_graph).xyz
        if placed.shape != reader.get_pc_xyz(index).shape or not np.isfinite(placed).all():
            yield f"cloud {index} is not finite"
        for each in reader.attribute_names:
            if len(reader.get_pc_attribute(index, each)) != len(placed):
                yield f"{each} of cloud {index} is not one for each point"


def component(kind: str, name: str, reader: Any, loader: Any) -> Faults:  # noqa: ANN401
    """What is wrong with one, by its kind."""
    interval = loader.sequence_timestamp_interval_us
    if kind == PosesComponent.COMPONENT_NAME:
        yield from places(reader, interval)
    elif kind == CameraSensorComponent.COMPONENT_NAME:
        yield from pictures(loader.get_camera_sensor(name), interval)
    elif kind == LidarSensorComponent.COMPONENT_NAME:
        yield from rays(loader.get_lidar_sensor(name), reader, interval, is_lidar=True)
    elif kind == RadarSensorComponent.COMPONENT_NAME:
        yield from rays(loader.get_radar_sensor(name), reader, interval, is_lidar=False)
    elif kind == CuboidsComponent.COMPONENT_NAME:
        yield from boxes(reader, loader)
    elif kind == PointCloudsComponent.COMPONENT_NAME:
        yield from clouds(name, reader, loader)
    elif kind == CameraLabelsComponent.COMPONENT_NAME:
        yield from labels(reader, loader)


def opened(meta: Path, *, consolidated: bool) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The reader of a sequence, and those of its components by their kind and name."""
    reader = SequenceComponentGroupsReader([meta], open_consolidated=consolidated)
    return reader, {c.COMPONENT_NAME: reader.open_component_readers(c.Reader) for c in COMPONENTS}


def faults(meta: Path) -> Faults:
    """All that is wrong with one sequence."""
    _, plain = opened(meta, consolidated=False)
    reader, found = opened(meta, consolidated=True)
    loader = SequenceLoaderV4(reader)
    stored = reader.get_sequence_meta()
    declared: dict[str, set[str]] = {}
    for store in stored.component_stores:
        for kind, names in store.components.items():
            declared.setdefault(kind, set()).update(names)
    for kind, readers in found.items():
        if not set(readers) == set(plain[kind]) == declared.get(kind, set()):
            yield f"{kind}: {declared.get(kind)} declared, {set(readers)} and {set(plain[kind])} opened"
    written, expected = json.loads(meta.read_text()), stored.to_dict()
    for each in (written, expected):
        each["component_stores"].sort(key=lambda store: store["path"])
    if written != expected:
        yield "the sequence's file is not that of its stores"
    if not {"rig", "world"} <= set(loader.pose_graph.nodes):
        yield "no rig in a world"
    for kind, readers in found.items():
        for name, each in readers.items():
            yield from (f"{kind} {name}: {fault}" for fault in component(kind, name, each, loader))


if __name__ == "__main__":
    all_faults = [f"{path}: {fault}" for path in map(Path, sys.argv[1:]) for fault in faults(path)]
    sys.exit("\n".join(all_faults) or 0)
