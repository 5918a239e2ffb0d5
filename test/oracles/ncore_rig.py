"""Run by the interpreter that has nvidia-ncore: where its reader places the sensors of a rig.

python ncore_rig.py SEQUENCE_META_JSON OUT_NPZ
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from ncore.data.v4 import SequenceComponentGroupsReader, SequenceLoaderV4


def to_world(sensor: Any, index: int) -> Any:  # noqa: ANN401 - the reader's own types
    """Pose of the sensor at the end of a frame, (4, 4)."""
    poses = np.asarray(sensor.get_frames_T_sensor_target("world", np.array([index]), None))
    return poses.reshape(-1, 4, 4)[-1]


def main(meta: Path, out: Path) -> None:
    """Collect everything into one file of arrays."""
    loader = SequenceLoaderV4(SequenceComponentGroupsReader([meta]))
    found: dict[str, Any] = {"cameras": np.array(loader.camera_ids), "lidars": np.array(loader.lidar_ids)}
    for name in loader.camera_ids:
        camera = loader.get_camera_sensor(name)
        times = found[f"{name}/times_us"] = camera.frames_timestamps_us[:, 1].astype(np.int64)
        found[f"{name}/T_world"] = np.stack([to_world(camera, n) for n in range(camera.frames_count)])
        for key in ("principal_point", "focal_length", "resolution", "radial_coeffs"):
            found[f"{name}/{key}"] = np.asarray(getattr(camera.model_parameters, key), float)
        found[f"{name}/is_fisheye"] = np.array("Fisheye" in type(camera.model_parameters).__name__)
        found.setdefault(
            "T_world_global", loader.pose_graph.evaluate_poses("world", "world_global", times[:1])[0]
        )
    for name in loader.lidar_ids:
        lidar = loader.get_lidar_sensor(name)
        found[f"{name}/times_us"] = lidar.frames_timestamps_us[:, 1].astype(np.int64)
        found[f"{name}/T_world"] = np.stack([to_world(lidar, n) for n in range(lidar.frames_count)])
        for index in range(lidar.frames_count):
            points = lidar.get_frame_point_cloud(
                index, motion_compensation=True, with_start_points=False, return_index=0
            ).xyz_m_end
            T_lidar_world = found[f"{name}/T_world"][index]
            found[f"{name}/{index}"] = points @ T_lidar_world[:3, :3].T + T_lidar_world[:3, 3]
    found["radars"] = np.array(loader.radar_ids)
    for name in loader.radar_ids:
        radar = loader.get_radar_sensor(name)
        found[f"{name}/times_us"] = radar.frames_timestamps_us[:, 1].astype(np.int64)
        for index in range(radar.frames_count):
            points = radar.get_frame_point_cloud(
                index, motion_compensation=True, with_start_points=False, return_index=0
            ).xyz_m_end
            T_radar_world = to_world(radar, index)
            found[f"{name}/{index}"] = points @ T_radar_world[:3, :3].T + T_radar_world[:3, 3]
    with out.open("wb") as file:
        np.savez(file, **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
