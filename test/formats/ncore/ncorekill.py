"""One SIGKILL trial: a writer killed at some moment, recovered, and judged by what it had acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ncoreread import Sequence, recover_all

from edgefirst_ros.formats.datasets import check

CHILD = Path(__file__).with_name("ncorekilled.py")
PLACES = {
    "camera": "cameras/camera_optical",
    "lidar_points": "lidars/lidar",
    "radar_targets": "radars/radar",
    "mask": "camera_labels/segmentation.semantic@camera_optical",
    "depth": "camera_labels/depth.z@camera_optical",
    "radar_clusters": "point_clouds/radar_clusters",
    "fusion_lidar": "point_clouds/fusion_lidar",
}


@dataclass(frozen=True)
class Trial:
    """What was acknowledged before the kill, what of it is lost, and what more was found."""

    after_s: float
    acknowledged: int
    lost: list[str]
    more: int
    said: str
    errors: str


def kill_trial(root: Path, after_s: float, **options: object) -> Trial:
    """Kill a writer ``after_s`` after its first acknowledgement and recover."""
    log = root.with_name(root.name + ".acknowledged")
    with log.open("wb") as file:
        command = [sys.executable, str(CHILD), str(root), json.dumps(options)]
        child = subprocess.Popen(command, stdout=file)
        try:
            while not log.stat().st_size and child.poll() is None:
                time.sleep(0.01)
            time.sleep(after_s)
        finally:
            child.kill()
            child.wait()
    if child.returncode != -9:
        raise RuntimeError(f"the writer ended by itself with {child.returncode}")
    acknowledged = defaultdict(list)
    for line in log.read_text().split("\n")[:-1]:
        kind, time_us = line.split()
        acknowledged[kind].append(int(time_us))
    done = recover_all(root)
    held: dict[str, set[int]] = defaultdict(set)
    for folder in sorted(root.iterdir()):
        if any(folder.iterdir()):  # else it was killed before the folder's first file
            collect(Sequence(folder), held)
    lost = [
        f"{kind} {time_us}"
        for kind, times in acknowledged.items()
        for time_us in sorted(set(times) - held[kind])
    ]
    more = sum(len(held[kind]) - len(times) for kind, times in acknowledged.items() if kind in PLACES)
    errors = "\n".join(found.text for found in check(root) if not found.ok)
    return Trial(
        after_s,
        sum(map(len, acknowledged.values())),
        lost,
        more,
        "\n".join(each.text for each in done),
        errors,
    )


def collect(sequence: Sequence, held: dict[str, set[int]]) -> None:
    """Add the times of everything in a sequence, by the role that it came with."""
    for kind, path in PLACES.items():
        component, name = path.split("/")
        if name not in sequence.instances(component):
            continue
        if component in {"cameras", "lidars", "radars"}:
            held[kind] |= {end for _, end in sequence.frames(path)}
        else:
            array = "timestamps_us" if component == "camera_labels" else "pc_timestamps_us"
            held[kind] |= set(sequence.array(f"{path}/{array}").tolist())
    for end in held["radar_targets"]:
        key = f"radars/radar/frames/{end}/generic_data"
        if f"{key}/.zattrs" in sequence.records:
            held["radar_cube"].add(sequence.attributes(key)["radar_cube"]["timestamp_us"])
    _collect_boxes(sequence, held)
    observations = sequence.attributes("cuboids/default/cuboids")["cuboid_track_observations"]
    held["boxes3d"] |= {observation["timestamp_us"] for observation in observations}
    base = "poses/default/generic_data"
    for kind, prefix in (("imu", "imu"), ("gps", "gps"), ("odometry", "odom")):
        if f"{base}/{prefix}_timestamps_us/.zarray" in sequence.records:
            held[kind] |= set(sequence.array(f"{base}/{prefix}_timestamps_us").tolist())
    # poses are thinned, but they come with every IMU message here
    held["pose"] |= held["imu"]


def _collect_boxes(sequence: Sequence, held: dict[str, set[int]]) -> None:
    """2-D boxes, with their picture or without one."""
    for end in held["camera"]:
        key = f"cameras/camera_optical/frames/{end}/generic_data"
        if f"{key}/.zattrs" in sequence.records:
            held["model"].add(sequence.attributes(key)["boxes2d"]["timestamp_us"])
    unpaired = "cuboids/default/generic_data/boxes2d_unpaired_messages_us"
    if f"{unpaired}/.zarray" in sequence.records:
        held["model"] |= set(sequence.array(unpaired).tolist())
