"""The sensors of a report's rig, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.model.camera import split_tile
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.transform import Floats, Transform, bare, frame_in_base
from edgefirst_ros.report.models import Calibration, Report

KINDS: Mapping[str, str] = {
    Role.CAMERA: "camera",
    Role.DEPTH: "camera",
    Role.LIDAR_POINTS: "lidar",
    Role.RADAR_TARGETS: "radar",
    Role.RADAR_CUBE: "radar",
    Role.IMU: "imu",
    Role.GPS: "gps",
}
"""What is drawn of a role: clusters, masks and boxes come from no sensor of their own."""
FARTHEST_M = 50.0
"""No vehicle is longer; a transform in millimetres is."""
MOST_SENSORS, MOST_SEQUENCES = 48, 64


@dataclass(frozen=True, slots=True)
class Mounted:
    """A sensor of the rig.

    Attributes:
        kind: camera, lidar, ...
        name: of the sensor, or of its frame if several share it.
        frame: that its messages name; empty if they name none.
        pose: of the sensor in the rig (4, 4); None if no transform leads to it.
    """

    kind: str
    name: str
    frame: str
    pose: Floats | None

    @property
    def ahead(self) -> Floats:
        """The direction in which it looks, in the rig's frame: of a camera's frame z, else x."""
        return np.zeros(3) if self.pose is None else self.pose[:3, 2 if self.kind == "camera" else 0]


def mounted(report: Report) -> list[Mounted]:
    """The sensors that have sent, each where the first sequence that knows of its frame has it."""
    transforms: dict[str, Transform] = {}
    names: dict[tuple[str, str], dict[str, None]] = {}
    for sequence in report.sequences[:MOST_SEQUENCES]:
        known = sequence.calibration or Calibration()
        for each in known.transforms:
            made = Transform(each.parent, each.child, each.translation_m, each.rotation_xyzw)
            transforms.setdefault(each.child, made)
        for topic, stream in (sequence.streams or {}).items():
            kind = KINDS.get(stream.role)
            name, frame = stream.sensor or topic, bare(stream.frame_id)
            key = kind or "", frame or f"/{name}"
            if kind is None or (key not in names and len(names) == MOST_SENSORS):
                continue
            names.setdefault(key, {})[name] = None
    base, found, order = rig_frame(report), [], list(dict.fromkeys(KINDS.values()))
    for (kind, frame), several in names.items():
        label = next(iter(several)) if len(several) == 1 else frame
        pose = None if frame.startswith("/") else frame_in_base(transforms, frame, base)
        if pose is None and kind == "camera":  # a tile of a picture, whose frame no transform has
            pose = frame_in_base(transforms, split_tile(frame)[0], base)
        named = "" if frame.startswith("/") else frame
        found.append(Mounted(kind, label, named, pose))
    return sorted(found, key=lambda each: (order.index(each.kind), each.name))


def rig_frame(report: Report) -> str:
    """What transforms call the rig."""
    return next((s.calibration.rig for s in report.sequences if s.calibration is not None), "base_link")
