"""Frames whose transform changes: how far they moved, and which sensors are on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import motion_entries, motion_place, rig_from_imu, sensor_of
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.transform import (
    Transform,
    bare,
    change_of,
    frame_in_base,
    quaternion_of,
)
from edgefirst_ros.timing.gaps import StreamStats

ON_MOUNTS = frozenset({"camera", "lidar_points", "radar_targets", "radar_cube", "depth"})
"""Roles of what measures from a place on the rig."""
PLACES = {role.value: role for role in (Role.GPS, Role.IMU)}
"""What poses depend on where it is."""
FAR_M, TURNED_DEG = 0.1, 2.0
"""An antenna or IMU that is off by less is off by no more than fixes and mountings are."""
OFTEN = 3
"""Changes that are no correction of a place, which comes once or twice, but a mount that moves."""


@dataclass(slots=True)
class MovedFrame:
    """A frame that moved.

    Attributes:
        first: where it was at first.
        text: what its first change was.
        changes: how many there were.
        moved_m: farthest from where it was at first; turned_deg likewise.
        held: measurements that were placed by a single message, see ``TransformBuffer``.
    """

    first: Transform
    text: str
    changes: int = 0
    moved_m: float = 0.0
    turned_deg: float = 0.0
    held: int = 0

    def follow(self, transform: Transform) -> None:
        """It is here now."""
        moved_m, turned_deg = change_of(self.first, transform)
        self.changes += 1
        self.moved_m = max(self.moved_m, moved_m)
        self.turned_deg = max(self.turned_deg, turned_deg)

    @property
    def said(self) -> str:
        """A sentence for the user."""
        if self.changes >= OFTEN:
            return (
                f"{self.first.child} moved by up to {self.moved_m:.3g} m and {self.turned_deg:.3g} degrees "
                f"in {self.first.parent}, in {self.changes:,} steps; each measurement is placed by where it "
                "was then"
            )
        return (
            f"{self.text}; the newest applies from then on, in formats with one place for it to the whole "
            "sequence"
        )


def without_rig(
    moved: Mapping[str, MovedFrame], transforms: Mapping[str, Transform], rig_frame: str
) -> dict[str, MovedFrame]:
    """What moves on the rig: a frame that carries the rig is odometry's, in whose frame the rig moves."""
    carrying = {*way_up(rig_frame, transforms)}
    return {child: each for child, each in moved.items() if bare(child) not in carrying}


def mounts(
    moved: Mapping[str, MovedFrame], transforms: Mapping[str, Transform], streams: Iterable[StreamStats]
) -> Iterator[dict[str, Any]]:
    """For the report: each frame that moves with sensors on it, how far, and these sensors' topics."""
    sensors = (each for each in streams if each.role in ON_MOUNTS and each.frame_id)
    ways = {each.topic: {*way_up(each.frame_id, transforms)} for each in sensors}
    for child, each in moved.items():
        topics = sorted(topic for topic, way in ways.items() if bare(child) in way)
        if topics and each.changes >= OFTEN:
            yield {
                "frame": bare(child),
                "parent": bare(each.first.parent),
                "moved_m": round(each.moved_m, 4),
                "turned_deg": round(each.turned_deg, 3),
                "held": each.held,
                "topics": topics,
            }


def unheeded(
    config: Config, transforms: Mapping[str, Transform], streams: Iterable[StreamStats]
) -> Iterator[str]:
    """Where transforms place what tells the motion elsewhere than the configuration does, which counts."""
    told_by = {sensor_of(entry, config.topics[entry]) for entry in motion_entries(config)}
    for each in streams:
        T_sensor_rig = frame_in_base(transforms, each.frame_id, config.rig_frame) if each.frame_id else None
        if T_sensor_rig is None or each.role not in PLACES or each.sensor not in told_by:
            continue
        at_m, believed_m = T_sensor_rig[:3, 3], motion_place(config, PLACES[each.role])[:3, 3]
        xyzw, turned = quaternion_of(T_sensor_rig[:3, :3]), rig_from_imu(config) or (0.0, 0.0, 0.0, 1.0)
        told = [f"xyz_m: {at_m.round(3).tolist()}"] * (float(np.linalg.norm(at_m - believed_m)) > FAR_M)
        apart_deg = 2 * math.degrees(math.acos(min(1.0, abs(float(xyzw @ turned)))))
        if each.role == Role.IMU and apart_deg > TURNED_DEG:
            told.append(f"rotation_xyzw: {xyzw.round(6).tolist()}")
        if told:
            yield (
                f"transforms place {each.topic} elsewhere in {config.rig_frame} than poses take it to be: "
                f"give its entry {', '.join(told)}"
            )


def way_up(frame: str, transforms: Mapping[str, Transform]) -> list[str]:
    """A frame and those that it hangs on."""
    parents = {bare(child): bare(each.parent) for child, each in transforms.items()}
    found = [bare(frame)]
    while (above := parents.get(found[-1])) is not None and above not in found:
        found.append(above)
    return found
