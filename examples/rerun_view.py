"""Logs an EdgeFirst dataset to Rerun: pictures with boxes, lidar, radar, cube, boxes in space, places.

    pip install rerun-sdk
    python examples/rerun_view.py DATASET [-o drive.rrd] [--every 5]

DATASET is the folder of a dataset as it was converted: where its sensors are is in the capture_report.json
beside it; without that file all of them are drawn at the rig's origin. Without -o the viewer opens. Lidar is
coloured by range (red is near), radar by speed (blue approaches, red recedes).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import rerun as rr

import edgefirst_ros
from edgefirst_ros.formats.edgefirst.read.decoding import positions
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.untrusted import REPORT
from edgefirst_ros.report.drawing import range_colours, speed_colours
from edgefirst_ros.report.models import Report, read_report

KEYS = ("time_ns", "image", "lidar", "radar", "cube", "boxes2d", "boxes3d")
RIG = "rig"
ENTITIES = {"lidar": Role.LIDAR_POINTS, "radar": Role.RADAR_TARGETS, "boxes3d": Role.BOXES_3D}


class Sensors:
    """The frames of one sequence's sensors."""

    def __init__(self, report: Report, sequence: str) -> None:
        self._found = report.sequence(sequence)
        calibration = None if self._found is None else self._found.calibration
        self.mounts = () if calibration is None else calibration.transforms
        self.children = {RIG, *(each.child for each in self.mounts)}

    def frame(self, role: Role) -> str:
        """The frame of a sensor; the rig's if nobody said where it is."""
        name = "" if self._found is None else self._found.frame_of(role)
        return name if name in self.children else RIG

    def log(self) -> None:
        """Log where the sensors are, and in whose frames what they measure is."""
        for path, role in ENTITIES.items():
            rr.log(path, rr.CoordinateFrame(self.frame(role)), static=True)
        for mount in self.mounts:
            parent = mount.parent if mount.parent in self.children else RIG
            placed = rr.Transform3D(
                translation=mount.translation_m,
                quaternion=rr.Quaternion(xyzw=mount.rotation_xyzw),
                parent_frame=parent,
                child_frame=mount.child,
            )
            rr.log(f"mounts/{rr.escape_entity_path_part(mount.child)}", placed, static=True)


def log_picture(sample: dict[str, Any], labels: list[str]) -> None:
    """Log the picture, and what was found on it."""
    rr.log("camera/picture", rr.Image(sample["image"]).compress(jpeg_quality=90))
    height, width = sample["image"].shape[:2]
    boxes = sample["boxes2d"]
    if boxes is not None:
        scale = np.array([width, height])
        named = rr.Boxes2D(centers=boxes[:, :2] * scale, sizes=boxes[:, 2:] * scale, labels=labels)
        rr.log("camera/boxes2d", named)


def log_clouds(sample: dict[str, Any]) -> None:
    """Log the points of lidar and radar, and the radar's cube."""
    for key in ("lidar", "radar"):
        cloud = sample[key]
        if cloud is not None:
            points = positions(cloud)
            if key == "radar" and "speed" in cloud.dtype.names:
                colours = speed_colours(cloud["speed"])
            else:
                colours = range_colours(np.linalg.norm(points, axis=1))
            rr.log(key, rr.Points3D(points, colors=colours, radii=-1.5 if key == "lidar" else -4.0))
    cube, axes = sample["cube"], list(sample["cube_axes"] or ())
    if cube is not None and {"range", "doppler"} <= set(axes):
        others = tuple(n for n, axis in enumerate(axes) if axis not in {"range", "doppler"})
        power_db = 10 * np.log10((np.abs(cube) ** 2).sum(axis=others) + 1.0)
        shown = power_db if axes.index("range") < axes.index("doppler") else power_db.T
        rr.log("radar_cube", rr.Tensor(shown.astype(np.float32), dim_names=("range", "doppler")))


def log_sample(sample: dict[str, Any], names: tuple[str, ...]) -> None:
    """Log all that a sample has."""

    def labels(key: str) -> list[str]:
        return [names[label] if label >= 0 else "" for label in sample[key]]

    if sample["image"] is not None:
        log_picture(sample, labels("labels2d") if sample["boxes2d"] is not None else [])
    log_clouds(sample)
    boxes = sample["boxes3d"]
    if boxes is not None:
        rr.log("boxes3d", rr.Boxes3D(centers=boxes[:, :3], sizes=boxes[:, 3:], labels=labels("labels3d")))
    if sample["location"] is not None:
        rr.log("place", rr.GeoPoints(lat_lon=[sample["location"]], radii=-7.0))
    if sample["pose"] is not None:
        for name, angle_deg in zip(("roll", "pitch", "yaw"), sample["pose"], strict=True):
            rr.log(f"attitude/{name}", rr.Scalars(float(angle_deg)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Logs an EdgeFirst dataset to Rerun.")
    parser.add_argument("dataset", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="save a file; do not open the viewer")
    parser.add_argument("--every", type=int, default=1, help="one of so many samples")
    chosen = parser.parse_args()
    try:
        dataset = edgefirst_ros.open(chosen.dataset, keys=KEYS)
        place = dataset.path / REPORT
        report = read_report(place) if place.is_file() else Report()
    except edgefirst_ros.EdgeFirstError as error:
        raise SystemExit(f"error: {error}") from error
    rr.init("edgefirst_ros", spawn=chosen.output is None)
    if chosen.output is not None:
        rr.save(chosen.output)
    for span in dataset.sequences:
        Sensors(report, span.name).log()
        for number in range(span.start, span.stop, chosen.every):
            sample = dataset[number]
            rr.reset_time()
            rr.set_time("sample", sequence=number)
            if sample["time_ns"] is not None:
                rr.set_time("time", timestamp=np.datetime64(sample["time_ns"], "ns"))
            log_sample(sample, dataset.labels)


if __name__ == "__main__":
    main()
