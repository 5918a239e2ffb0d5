"""nvidia-ncore in ncore_writer.py: python ncore_writer_theirs.py SETS STORE FOLDER, in a venv of its own."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np
from ncore.data import OpenCVPinholeCameraModelParameters, ShutterType
from ncore.data.v4 import (
    CameraSensorComponent,
    CuboidsComponent,
    IntrinsicsComponent,
    LidarSensorComponent,
    MasksComponent,
    PosesComponent,
    RadarSensorComponent,
    SequenceComponentGroupsReader,
    SequenceComponentGroupsWriter,
)
from ncore.impl.common.transformations import HalfClosedInterval
from ncore_writer_frames import PERIOD_US, START_US, sets
from upath import UPath


def rays(cloud: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Unit directions and distances, which our writer finds itself."""
    xyz = np.stack([cloud["x"], cloud["y"], cloud["z"]], axis=1)
    distance = np.linalg.norm(xyz, axis=1).astype(np.float32)
    return (xyz / distance[:, None]).astype(np.float32), distance[None]


def main() -> None:
    """Write, and print times and peak memory as JSON."""
    count, store, folder = int(sys.argv[1]), sys.argv[2], UPath(sys.argv[3])
    frames = list(sets(min(count, 8)))
    began, cpu_began_s = time.perf_counter(), time.process_time()
    last_us = START_US + (count - 1) * PERIOD_US
    interval = HalfClosedInterval(START_US, last_us + 1)
    writer = SequenceComponentGroupsWriter(folder, "benchmark", "benchmark", interval, {}, store)
    poses = writer.register_component_writer(PosesComponent.Writer, "default", None, {})
    intrinsics = writer.register_component_writer(IntrinsicsComponent.Writer, "default", None, {})
    masks = writer.register_component_writer(MasksComponent.Writer, "default", None, {})
    cuboids = writer.register_component_writer(CuboidsComponent.Writer, "default", None, {})
    camera = writer.register_component_writer(CameraSensorComponent.Writer, "camera", "camera", {})
    lidar = writer.register_component_writer(LidarSensorComponent.Writer, "lidar", "lidar", {})
    radar = writer.register_component_writer(RadarSensorComponent.Writer, "radar", "radar", {})
    for index in range(count):
        time_us = START_US + index * PERIOD_US
        _, image, lidar_cloud, radar_cloud = frames[index % len(frames)]
        span = np.array([time_us, time_us], np.uint64)
        camera.store_frame(image, "jpeg", span, {}, {})
        direction, distance = rays(lidar_cloud)
        times = np.full(len(direction), time_us, np.uint64)
        intensity = (lidar_cloud["reflect"] / np.float32(255))[None].astype(np.float32)
        lidar.store_frame(direction, times, None, distance, intensity, span, {}, {})
        direction, distance = rays(radar_cloud)
        times = np.full(len(direction), time_us, np.uint64)
        generic = {
            "radial_velocity_m_s": np.ascontiguousarray(radar_cloud["speed"]),
            "power": np.ascontiguousarray(radar_cloud["power"]),
            "rcs_dBsm": np.ascontiguousarray(radar_cloud["rcs"]),
        }
        radar.store_frame(direction, times, distance, span, generic, {})
    trajectory = np.tile(np.eye(4, dtype=np.float32), (count, 1, 1))
    trajectory[:, 0, 3] = np.arange(count)
    times = START_US + np.arange(count, dtype=np.uint64) * PERIOD_US
    poses.store_dynamic_pose("rig", "world", trajectory, times.astype(np.uint64))
    for name in ("camera", "lidar", "radar"):
        poses.store_static_pose(name, "rig", np.eye(4, dtype=np.float32))
    parameters = OpenCVPinholeCameraModelParameters(
        resolution=np.array([1920, 1080], np.uint64),
        shutter_type=ShutterType.GLOBAL,
        external_distortion_parameters=None,
        principal_point=np.array([960.5, 540.5], np.float32),
        focal_length=np.array([1000, 1000], np.float32),
        radial_coeffs=np.zeros(6, np.float32),
        tangential_coeffs=np.zeros(2, np.float32),
        thin_prism_coeffs=np.zeros(4, np.float32),
    )
    intrinsics.store_camera_intrinsics("camera", parameters)
    masks.store_camera_masks("camera", {})
    cuboids.store_observations([])
    paths = writer.finalize()
    written = time.perf_counter()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    meta = SequenceComponentGroupsReader(paths).get_sequence_meta().to_dict()
    (folder / "benchmark.json").write_text(json.dumps(meta, indent=2))
    taken = {"write_s": written - began, "meta_s": time.perf_counter() - written, "peak_mb": peak_mb}
    sys.stdout.write(json.dumps({**taken, "cpu_s": time.process_time() - cpu_began_s}))


if __name__ == "__main__":
    main()
