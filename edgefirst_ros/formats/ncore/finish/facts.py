"""What a journal says about a sequence: everything that is written only when the sequence is finished.

Where it comes from and what carried its sensors, under the names that NVIDIA's converters use (those of Waymo
and PAI write them; NuRec, stereo matching and simulators look for them). Warnings and notes, for the user.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.finish.cuboids import CuboidTable
from edgefirst_ros.formats.ncore.options import TRUTH
from edgefirst_ros.formats.ncore.poses import (
    REAR_AXLE,
    Pose,
    RigPoses,
    TransformRow,
    frames_in_rig,
    inverse,
    poses_at,
)
from edgefirst_ros.formats.ncore.prepare.parts import FlatBoxes, Json
from edgefirst_ros.formats.ncore.store.base import Instance
from edgefirst_ros.formats.ncore.store.journal import read_facts
from edgefirst_ros.model.transform import bare


@dataclass(slots=True)
class Series:
    """A raw series: where it comes from, its columns, and its rows so far, flat."""

    topic: str
    kind: str
    layout: list[tuple[str, int]]
    times_us: array[int] = field(default_factory=lambda: array("Q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """One array a column, the times first."""
        width = sum(size for _, size in self.layout)
        table = np.array(self.values).reshape(len(self.times_us), width)
        found: dict[str, npt.NDArray[Any]] = {f"{prefix}_timestamps_us": np.array(self.times_us, np.uint64)}
        start = 0
        for name, size in self.layout:
            column = table[:, start : start + size] if size > 1 else table[:, start]
            found[f"{prefix}_{name}"] = column
            start += size
        return found


@dataclass(slots=True)
class Mounted:
    """Where a frame was in its parent: times, and x y z and quaternion at each, flat."""

    parent: str
    times_us: array[int] = field(default_factory=lambda: array("q"))
    rows: array[float] = field(default_factory=lambda: array("d"))

    def at(self, times_us: npt.NDArray[np.int64]) -> Pose:
        """T_child_parent (N, 4, 4), in between on the straight and the shortest way."""
        known_us, first = np.unique(np.array(self.times_us, np.int64), return_index=True)
        rows = np.array(self.rows).reshape(-1, 7)[first]
        return poses_at(known_us, rows, times_us.clip(known_us[0], known_us[-1]))


@dataclass(slots=True)
class Facts:
    """A sequence's journal, read.

    Attributes:
        sequence: identity, and the options that finishing needs.
        instances: what each registered instance is.
        transforms: latest transform by child frame.
        mounted: where frames on mounts that move were, by child frame.
        camera_info: latest CameraInfo by camera; first_info the first one.
        classes: of the model on the device; model is its name.
        radar_infos: latest settings by radar.
        nodes: coordinate frame of every node that something refers to.
        masks: PNG by camera and mask name.
        origin: latitude, longitude and altitude of the ENU origin.
        pose_times_us: (N,) times of the rig poses.
        poses: (N * 7,) position and quaternion of the rig poses, NaN what is unknown of them.
        pose_rests: (N * 8,) what position and rotation rest on, indices of ``trajectory.BASES``, and their
            standard deviations, NaN where unknown.
        series: raw series by prefix.
        solid: cuboids as they came.
        flat: those of 2-D boxes.
        radar: those of a radar's tracks.
        nothing_us: times of messages of 3-D boxes without any.
        boxes2d_span_us: first and last time of 2-D boxes.
        boxes2d: the 2-D boxes, if kept in memory; None if they must be read from the journal.
        early_labels: whether labels came before their camera.
        labels: the early labels, if kept in memory; None if they must be read from the journal.
        generic: component-level generic data by instance.
        meta: component-level metadata given later, by instance.
    """

    sequence: Json = field(default_factory=dict)
    instances: dict[Instance, Json] = field(default_factory=dict)
    transforms: dict[str, TransformRow] = field(default_factory=dict)
    mounted: dict[str, Mounted] = field(default_factory=dict)
    camera_info: dict[str, Json] = field(default_factory=dict)
    first_info: dict[str, Json] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    model: str = ""
    radar_infos: dict[str, Json] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    masks: dict[str, dict[str, bytes]] = field(default_factory=dict)
    origin: tuple[float, float, float] | None = None
    pose_times_us: array[int] = field(default_factory=lambda: array("q"))
    poses: array[float] = field(default_factory=lambda: array("d"))
    pose_rests: array[float] = field(default_factory=lambda: array("d"))
    series: dict[str, Series] = field(default_factory=dict)
    solid: CuboidTable = field(default_factory=CuboidTable)
    flat: CuboidTable = field(default_factory=CuboidTable)
    radar: CuboidTable = field(default_factory=lambda: CuboidTable(is_sized=True))
    nothing_us: array[int] = field(default_factory=lambda: array("q"))
    boxes2d_span_us: tuple[int, int] | None = None
    boxes2d: list[FlatBoxes] | None = None
    _boxes2d_size: int = 0
    early_labels: bool = False
    labels: list[list[Any]] | None = None
    _labels_size: int = 0
    generic: dict[Instance, dict[str, npt.NDArray[Any]]] = field(default_factory=dict)
    meta: dict[Instance, Json] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Facts:
        """The facts of a journal up to its first record that is not whole.

        Raises:
            DatasetError: the file is not a journal of this version.
        """
        facts = cls()
        for kind, value in read_facts(path):
            facts.take(kind, value)
        return facts

    def keep(self, boxes: FlatBoxes) -> None:
        """The 2-D boxes of one message."""
        if self.boxes2d is not None:
            self.boxes2d.append(boxes)
            self._boxes2d_size += boxes.size

    def take(self, kind: str, value: Any) -> None:  # noqa: ANN401 - what the journal holds
        """One record of the journal."""
        take = getattr(self, f"_take_{kind}", None)
        tables = {"cuboids": self.solid, "flat_cuboids": self.flat, "radar_cuboids": self.radar}
        if kind in tables:
            _fill(tables[kind], value)
        elif take is not None:  # a later version may write more than this one knows
            take(value)

    @property
    def size(self) -> int:
        """About how many bytes of memory what grows with the sequence takes."""
        numbers = len(self.pose_times_us) + len(self.poses) + len(self.pose_rests)
        numbers += sum(9 * len(each.times_us) for each in self.mounted.values())
        numbers += sum(len(series.times_us) + len(series.values) for series in self.series.values())
        tables = self.solid.size + self.flat.size + self.radar.size
        return 8 * numbers + tables + self._boxes2d_size + self._labels_size

    @property
    def cuboids(self) -> CuboidTable:
        """Those that the sequence has: of 2-D boxes where nobody sent 3-D ones, of radar tracks without both.

        Boxes say what an object is, which a radar seldom does.
        """
        if len(self.solid) or self.nothing_us:
            return self.solid
        return self.flat if len(self.flat) else self.radar

    @property
    def is_simulated(self) -> bool:
        """Whether nothing of it is real."""
        return bool(self.sequence.get("simulated")) or self.model == TRUTH

    def rig_poses(self) -> RigPoses:
        """The rig poses as recorded."""
        rests = np.array(self.pose_rests).reshape(-1, 8)
        return RigPoses(
            np.array(self.pose_times_us, np.int64),
            np.array(self.poses).reshape(-1, 7),
            rests[:, :2].astype(np.uint8),
            rests[:, 2:],
        )

    def mounted_at(self, times_us: npt.NDArray[np.int64]) -> dict[str, Pose]:
        """T_child_parent (N, 4, 4) of frames on mounts that move, by child; held at the ends."""
        return {bare(child): each.at(times_us) for child, each in self.mounted.items()}

    def times_us(self) -> list[int]:
        """First and last times of the raw series and cuboids in the journal."""
        times = [t for series in self.series.values() if series.times_us for t in _ends(series.times_us)]
        return [*times, *(_ends(self.cuboids.times_us) if len(self.cuboids) else ())]

    def _take_sequence(self, value: Json) -> None:
        self.sequence.update(value)

    def _take_instance(self, value: Json) -> None:
        self.instances[value["component"], value["name"]] = value

    def _take_transforms(self, rows: list[Any]) -> None:
        for parent, child, translation_m, rotation_xyzw in rows:
            self.transforms[child] = (parent, child, tuple(translation_m), tuple(rotation_xyzw))

    def _take_mounted(self, value: list[Any]) -> None:
        time_us, rows = value
        self._take_transforms(rows)
        for parent, child, translation_m, rotation_xyzw in rows:
            if child not in self.mounted or self.mounted[child].parent != parent:
                self.mounted[child] = Mounted(parent)
            self.mounted[child].times_us.append(time_us)
            self.mounted[child].rows.extend([*translation_m, *rotation_xyzw])

    def _take_camera_info(self, value: list[Any]) -> None:
        name, info = value
        self.first_info.setdefault(name, info)
        self.camera_info[name] = info

    def _take_classes(self, value: list[str]) -> None:
        self.classes = value

    def _take_model(self, value: str) -> None:
        self.model = value

    def _take_boxes2d(self, value: list[Any]) -> None:
        self.boxes2d_span_us = _joined(self.boxes2d_span_us, value[2])

    def _take_label(self, value: list[Any]) -> None:
        self.early_labels = True
        if self.labels is not None:
            self.labels.append(value)
            self._labels_size += sum(len(payload) + 200 for _, payload in value[-1])

    def _take_radar_settings(self, value: list[Any]) -> None:
        self.radar_infos[value[0]] = value[1]

    def _take_origin(self, value: list[float]) -> None:
        latitude_deg, longitude_deg, altitude_m = value
        self.origin = (latitude_deg, longitude_deg, altitude_m)

    def _take_mask(self, value: tuple[str, str, bytes]) -> None:
        self.masks.setdefault(value[0], {})[value[1]] = value[2]

    def _take_pose(self, value: list[Any]) -> None:
        self.pose_times_us.append(value[0])
        self.poses.extend(value[1:8])
        self.pose_rests.extend(value[8:])

    def _take_series(self, value: list[Any]) -> None:
        prefix, topic, kind, layout = value
        self.series[prefix] = Series(topic, kind, [(name, size) for name, size in layout])

    def _take_row(self, value: list[Any]) -> None:
        series = self.series[value[0]]
        series.times_us.append(value[1])
        series.values.extend(value[2:])

    def _take_nothing(self, value: int) -> None:
        self.nothing_us.append(value)

    def _take_meta(self, value: list[Any]) -> None:
        component, name, meta = value
        self.meta.setdefault((component, name), {}).update(meta)

    def _take_node(self, value: list[str]) -> None:
        self.nodes[value[0]] = value[1]


def _fill(table: CuboidTable, value: list[Any]) -> None:
    node, observations, extra, kinds, tracked, optical, *topic = value
    table.add(node, observations, extra, *topic)
    table.mark(kinds, tracked, optical=optical)


def _joined(span: tuple[int, int] | None, time_us: int) -> tuple[int, int]:
    return (time_us, time_us) if span is None else (min(span[0], time_us), max(span[1], time_us))


def _ends(times: array[int]) -> tuple[int, int]:
    return min(times), max(times)


@dataclass(slots=True)
class Remarks:
    """Sentences in the order in which they were found, each once."""

    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Add a warning: the data are not what a reader would assume."""
        if text not in self.warnings:
            self.warnings.append(text)

    def note(self, text: str) -> None:
        """Add a note: something was done to the data."""
        if text not in self.notes:
            self.notes.append(text)


VEHICLE_BOX = "vehicle-bbox"
"""In the sequence's metadata: a box in the rig's frame, as NVIDIA's exporters read it."""
STEREO_PAIRS = "stereo_pairs"
RIG_ORIGIN = "rig_origin"
"""In the poses' metadata: where the rig's origin is, by the configuration."""
AT_REAR_AXLE = "middle of the rear axle on the ground"

_OVERHANG = 0.2
"""Of cars' lengths what is behind the rear axle: 0.18 to 0.22 of usual ones."""
_SAME_BASELINE = 0.1
"""How well a CameraInfo's baseline fits the way between two mounts: a tenth, for calibrations differ."""


def rear_axle_m(facts: Facts) -> tuple[float, ...] | None:
    """Where the rig's origin goes in the frame that is located; None: it is that frame's."""
    found = facts.sequence.get("vehicle", {}).get("rear_axle_m")
    return None if found is None else tuple(found)


def placed_rig(facts: Facts) -> tuple[Iterable[TransformRow], str]:
    """Transforms and the rig's frame.

    NCore's rig has its origin at the middle of the rear axle on the ground, and so have the readers' box of
    the vehicle and the distance within which cuboids are taken for it. Where the configuration says where
    that is, the rig is a frame of its own there, and the robot's base one like any other.
    """
    base, rows = facts.sequence.get("rig_frame", "base_link"), facts.transforms.values()
    origin_m = rear_axle_m(facts)
    if origin_m is None:
        return rows, base
    x, y, z = origin_m
    return [*rows, (base, REAR_AXLE, (x, y, z), (0.0, 0.0, 0.0, 1.0))], REAR_AXLE


def provenance(facts: Facts, assumed: int, frames: int) -> Json:
    """What the poses say of themselves.

    Args:
        facts: the journal.
        assumed: how many frames are placed without a transform.
        frames: how many there are.
    """
    kinds = {series.kind for series in facts.series.values()}
    if not facts.pose_times_us or facts.rig_poses().is_unknown:
        motion = "assumed"
    elif facts.origin is None:
        motion = "odometry"
    else:
        motion = "gnss-imu" if "imu" in kinds else "gnss"
    calibration = "transforms" if not assumed else "assumed" if assumed == frames else "transforms-assumed"
    meta: Json = {
        "calibration_type": f"edgefirst_ros:{calibration}",
        "egomotion_type": f"edgefirst_ros:{motion}",
    }
    if rear_axle_m(facts) is not None:
        meta[RIG_ORIGIN] = AT_REAR_AXLE
    return meta


def sequence_meta(facts: Facts, cameras: Sequence[str]) -> Json:
    """The generic_meta_data that all stores of a sequence share."""
    told = facts.sequence
    meta: Json = {key: told[key] for key in ("host", "name", "part") if key in told}
    meta |= {"converter": "edgefirst_ros", "source": "simulation" if facts.is_simulated else "real"}
    meta |= {key: told[key] for key in ("converter_version", "pictures")}
    vehicle = told["vehicle"]
    if platform := vehicle.get("platform"):
        meta["platform_class"] = platform
    if "length_m" in vehicle:
        length, width, height = (float(vehicle[f"{side}_m"]) for side in ("length", "width", "height"))
        overhang = float(vehicle.get("rear_overhang_m", _OVERHANG * length))
        centroid = [length / 2 - overhang, 0.0, height / 2]
        meta[VEHICLE_BOX] = {"centroid": centroid, "dim": [length, width, height], "rot": [0.0, 0.0, 0.0]}
        assumed = [name for name in ("rear_axle_m", "rear_overhang_m") if name not in vehicle]
        if assumed:
            meta["vehicle_assumed"] = assumed
    if pairs := [*_side_by_side(facts, cameras)]:
        meta[STEREO_PAIRS] = [{"left": left, "right": right} for left, right in pairs]
    return meta


def _side_by_side(facts: Facts, cameras: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Left and right cameras of which the right one's CameraInfo says how far it is from the left one.

    ROS leaves open which that is: it counts if a camera of the same size is just there.
    """
    frames = frames_in_rig(*placed_rig(facts))
    for left, right in permutations(cameras, 2):
        infos = [facts.camera_info.get(name, {}) for name in (left, right)]
        baseline_m = infos[1].get("baseline_m", 0.0)
        names = [bare(facts.instances["cameras", name].get("frame_id", "")) for name in (left, right)]
        is_pair = baseline_m > 0 and "baseline_m" not in infos[0] and infos[0].get("size") == infos[1]["size"]
        if is_pair and names[0] != names[1] and frames.keys() >= {*names}:
            between_m = (inverse(frames[names[0]]) @ frames[names[1]])[:3, 3]
            if np.abs(between_m - [baseline_m, 0.0, 0.0]).max() <= _SAME_BASELINE * baseline_m:
                yield left, right
