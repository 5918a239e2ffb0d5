"""Run by the interpreter that has nvidia-ncore: where its reader places points, cameras and the vehicle.

python ncore_places.py SEQUENCE_META_JSON OUT_NPZ
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from ncore.data.v4 import SequenceComponentGroupsReader, SequenceLoaderV4

MODEL = ("principal_point", "focal_length", "resolution", "radial_coeffs", "tangential_coeffs")


def to_world(sensor: Any, index: int) -> Any:  # noqa: ANN401 - the reader's own types
    """Pose of the sensor at the end of a frame, (4, 4)."""
    poses = np.asarray(sensor.get_frames_T_sensor_target("world", np.array([index]), None))
    return poses.reshape(-1, 4, 4)[-1]


def main(meta: Path, out: Path) -> None:
    """Collect everything into one file of arrays."""
    loader = SequenceLoaderV4(SequenceComponentGroupsReader([meta]))
    camera = loader.get_camera_sensor(loader.camera_ids[0])
    times = camera.frames_timestamps_us[:, 1]
    found: dict[str, Any] = {
        "T_world_global": loader.pose_graph.evaluate_poses("world", "world_global", times[:1])[0],
        "camera_times_us": times,
        "T_camera_world": np.stack([to_world(camera, n) for n in range(camera.frames_count)]),
        "T_rig_world": loader.pose_graph.evaluate_poses("rig", "world", times),
    }
    for index in range(camera.frames_count):
        for name in camera.get_frame_generic_data_names(index):
            found[f"{name}_{index}"] = np.asarray(camera.get_frame_generic_data(index, name))
    for name in MODEL:
        found[name] = np.asarray(getattr(camera.model_parameters, name), float)
    for kind, sensor in (
        ("lidar", loader.get_lidar_sensor(loader.lidar_ids[0])),
        ("radar", loader.get_radar_sensor(loader.radar_ids[0])),
    ):
        found[f"{kind}_times_us"] = sensor.frames_timestamps_us[:, 1]
        for index in range(sensor.frames_count):
            points = sensor.get_frame_point_cloud(
                index, motion_compensation=True, with_start_points=False, return_index=0
            ).xyz_m_end
            if kind == "lidar":
                found[f"lidar_local_{index}"] = points
            T_sensor_world = to_world(sensor, index)
            found[f"{kind}_{index}"] = points @ T_sensor_world[:3, :3].T + T_sensor_world[:3, 3]
    with out.open("wb") as file:
        np.savez(file, **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
