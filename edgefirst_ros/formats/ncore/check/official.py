"""Runs NVIDIA's own reader over a sequence, in whichever interpreter has it.

As a script, ``python official.py META``, it needs nvidia-ncore and nothing of this package, and prints one
JSON object: what was read, or the error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgefirst_ros.formats.format import Findings

ENVIRONMENT = "EDGEFIRST_NCORE_PYTHON"
_TIMEOUT_S = 3600


def find_python(wanted: Path | None = None) -> Path | None:
    """The interpreter to use: the one asked for, this one, or the environment variable's."""
    found = importlib.util.find_spec("ncore")
    if wanted is None and found is not None and found.origin:  # without one it is any folder of that name
        return Path(sys.executable)
    named = os.environ.get(ENVIRONMENT)
    return wanted or (Path(named) if named else None)


def run_official(meta: Path, python: Path | None, findings: Findings) -> None:
    """Read the whole sequence with the official reader, where it is."""
    if (found := find_python(python)) is None:
        return
    command = [str(found), str(Path(__file__).resolve()), str(meta)]
    # Who names an interpreter wants its verdict: without one the sequence must not pass.
    tell = findings.note if python is None else findings.error
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        result = json.loads((done.stdout.splitlines() or [""])[-1])
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        tell(meta.name, "official reader not run", f"{found}: {error}")
        return
    if "error" in result:
        findings.error(meta.name, "official reader", result["error"])
    else:
        findings.note(meta.name, "official reader read everything", json.dumps(result))


def read_all(meta: Path) -> dict[str, Any]:
    """Read all that the official loader offers of a sequence; counts by kind."""
    v4 = importlib.import_module("ncore.data.v4")
    numpy = importlib.import_module("numpy")
    loader = v4.SequenceLoaderV4(v4.SequenceComponentGroupsReader([meta]))
    counts: dict[str, int] = dict.fromkeys(("cameras", "labels", "clouds"), 0)
    for camera in map(loader.get_camera_sensor, loader.camera_ids):
        camera.get_mask_images()
        camera.get_frames_T_sensor_target("world", numpy.arange(camera.frames_count), None)
        for index in range(camera.frames_count):
            camera.get_frame_handle(index).get_data().get_decoded_image().load()
        counts["cameras"] += camera.frames_count
    counts["lidars"] = sum(map(_read_rays, map(loader.get_lidar_sensor, loader.lidar_ids)))
    counts["radars"] = sum(map(_read_rays, map(loader.get_radar_sensor, loader.radar_ids)))
    for labels in map(loader.get_camera_labels, loader.camera_labels_ids):
        for time in labels.label_timestamps_us.tolist():
            labels.get_label(time).get_data()
        counts["labels"] += labels.labels_count
    for source in map(loader.get_point_clouds_source, loader.point_clouds_ids):
        for cloud in map(source.get_pc, range(source.pcs_count)):
            cloud.transform("world", cloud.reference_frame_timestamp_us, loader.pose_graph)
        counts["clouds"] += int(source.pcs_count)
    counts["cuboids"] = sum(1 for _ in loader.get_cuboid_track_observations())
    return counts


def _read_rays(sensor: Any) -> int:  # noqa: ANN401  types of another interpreter's package
    for index in range(sensor.frames_count):
        sensor.get_frame_point_cloud(index, motion_compensation=True, with_start_points=False)
        for name in sensor.get_frame_generic_data_names(index):
            sensor.get_frame_generic_data(index, name)
    return int(sensor.frames_count)


def main() -> int:
    """Print what was read as JSON; 1 if anything failed."""
    try:
        result = read_all(Path(sys.argv[1]))
    except Exception as error:  # noqa: BLE001  whatever another package raises is the finding
        result = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(result) + "\n")
    return int("error" in result)


if __name__ == "__main__":
    sys.exit(main())
