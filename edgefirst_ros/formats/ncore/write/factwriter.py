"""Writes a sequence's facts to its journal, each once: calibration, poses, raw series, cuboids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version

import cbor2

from edgefirst_ros.formats.ncore.finish.facts import Facts
from edgefirst_ros.formats.ncore.finish.labels import KIND as EARLY_LABEL
from edgefirst_ros.formats.ncore.finish.labels import label_json
from edgefirst_ros.formats.ncore.options import (
    POSE_GAP_MS,
    SAME_PICTURE_MS,
    SAME_SCAN_MS,
    TRUTH,
    NCoreOptions,
)
from edgefirst_ros.formats.ncore.poses import ASSUMED, BASES, node
from edgefirst_ros.formats.ncore.prepare import parts
from edgefirst_ros.formats.ncore.prepare.camera import camera_info_json
from edgefirst_ros.formats.ncore.prepare.scans import radar_info_meta
from edgefirst_ros.formats.ncore.store.base import Instance
from edgefirst_ros.formats.ncore.store.journal import FactJournal
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.radar import RadarInfo
from edgefirst_ros.model.sample import Calibration, EgoPose, GeoPoint, SequenceInfo
from edgefirst_ros.model.transform import Transform, bare

_KEPT_BYTES = 128_000_000
"""An hour of IMU, poses and GPS takes 90 MB; of a sequence with more the journal is read again at its end."""
_LOOK_EVERY = 1024
_OFTEN = {"pose", "mounted", "row", "cuboids", "flat_cuboids", "radar_cuboids", "boxes2d", EARLY_LABEL}
"""Frequent records, of which ``Facts`` keeps the same as if they were read back from CBOR."""


class FactWriter:
    """Writes facts to a journal when they are new; every method returns the bytes written.

    Attributes:
        box_messages: messages of 2-D boxes so far.
        facts: what the journal says so far, the same as if it were read; None if that became too much.
    """

    def __init__(self, journal: FactJournal, sequence: SequenceInfo) -> None:
        self._journal = journal
        self._rig_frame = sequence.rig_frame
        self._is_moved = sequence.vehicle.rear_axle_m is not None
        self._transforms: dict[str, Transform] = {}
        self._moving: set[str] = set()
        self._radar_infos: dict[str, RadarInfo] = {}
        self._classes: tuple[str, ...] = ()
        self._model = ""
        self._simulated = sequence.simulated
        self._seen_info: dict[str, CameraInfo] = {}
        self._camera_info: dict[str, parts.Json] = {}
        self._nodes: set[str] = set()
        self._series: dict[str, str] = {}
        self._origin: GeoPoint | None = None
        self._pose_us = -1
        self.facts: Facts | None = Facts(boxes2d=[], labels=[])
        self.box_messages = 0
        self._recorded = 0

    def _record(self, kind: str, value: object) -> int:
        """Record in the journal, then in the facts kept in memory."""
        written = self._journal.record(kind, value)
        if self.facts is not None:
            self.facts.take(kind, value if kind in _OFTEN else cbor2.loads(cbor2.dumps(value)))
            self._recorded += 1
            look = self._recorded % _LOOK_EVERY == 0 or kind == EARLY_LABEL
            if look and self.facts.size > _KEPT_BYTES:
                self.facts = None
        return written

    def begin(
        self,
        files_id: str,
        sequence: SequenceInfo,
        part: int,
        options: NCoreOptions,
        boxes2d_tolerances_ms: Mapping[str, float],
    ) -> None:
        """Which sequence this is, and the options that finishing it needs."""
        self._record("sequence", {
            "id": files_id,
            "host": sequence.host,
            "name": sequence.name,
            "part": part,
            "store": options.store,
            "profile": options.profile,
            "rig_frame": self._rig_frame,
            "vehicle": {key: told for key, told in asdict(sequence.vehicle).items() if told is not None},
            "pictures": sequence.pictures,
            "converter_version": version("edgefirst_ros"),
            "pose_gap_us": round(POSE_GAP_MS * 1000),
            "readouts_ms": options.camera_readout_ms,
            "simulated": sequence.simulated,
            "boxes2d_tolerance_us": round(SAME_PICTURE_MS * 1000),
            "boxes2d_tolerances_us": {topic: round(ms * 1000) for topic, ms in boxes2d_tolerances_ms.items()},
            "cube_tolerance_us": round(SAME_SCAN_MS * 1000),
        })  # fmt: skip

    def masks(self, masks: Mapping[str, Mapping[str, bytes]]) -> None:
        """Ego masks by camera and name, as PNG."""
        for camera, named in masks.items():
            for name, png in named.items():
                self._record("mask", [camera, name, png])

    def mounted(self, time_us: int, mounted: Mapping[str, Transform]) -> int:
        """Where frames on mounts that move were."""
        if not mounted:
            return 0
        self._moving |= mounted.keys()
        rows = [[t.parent, t.child, t.translation_m, t.rotation_xyzw] for t in mounted.values()]
        return self._record("mounted", [time_us, rows])

    def calibration(self, calibration: Calibration) -> int:
        """Transforms, but of mounts that move, and classes of the model that changed."""
        written = 0
        if calibration.transforms != self._transforms:
            known = self._transforms
            placed = calibration.transforms.items()
            new = [t for child, t in placed if known.get(child) != t and child not in self._moving]
            self._transforms = dict(placed)
            rows = [[t.parent, t.child, t.translation_m, t.rotation_xyzw] for t in new]
            written += self._record("transforms", rows) if rows else 0
        info = calibration.model_info
        if info is not None and info.labels != self._classes:
            self._classes = info.labels
            written += self._record("classes", list(info.labels))
        if info is not None and info.name != self._model:
            self._model = info.name
            written += self._record("model", info.name)
        return written

    @property
    def is_simulated(self) -> bool:
        """Whether it is a simulation, as far as is known by now."""
        return self._simulated or self._model == TRUTH

    def camera(self, name: str, info: CameraInfo | None) -> int:
        """The CameraInfo in force for a camera."""
        if info is None or self._seen_info.get(name) is info:
            return 0
        self._seen_info[name] = info
        found = camera_info_json(info)
        if self._camera_info.get(name) == found:
            return 0
        self._camera_info[name] = found
        return self._record("camera_info", [name, found])

    def radar(self, name: str, info: RadarInfo | None) -> int:
        """The settings in force of a radar."""
        if info is None or self._radar_infos.get(name) == info:
            return 0
        self._radar_infos[name] = info
        return self._record("radar_settings", [name, radar_info_meta(info)])

    def instance(self, component: str, name: str, facts: parts.Json) -> int:
        """What a new instance is."""
        return self._record("instance", {"component": component, "name": name, **facts})

    def meta(self, instance: Instance, meta: parts.Json) -> None:
        """Metadata of an instance that were not known when it began."""
        self._record("meta", [*instance, meta])

    def label(self, entry: parts.ComponentEntry, topic: str) -> int:
        """A label of a camera that has no picture yet."""
        return self._record(EARLY_LABEL, label_json(entry, topic))

    def boxes2d(self, boxes: parts.FlatBoxes) -> int:
        """The 2-D boxes of one message."""
        value = [boxes.topic, boxes.frame_id, boxes.time_us, boxes.packed, boxes.masked]
        written = self._record("boxes2d", value)
        self.box_messages += 1
        if self.facts is not None:
            self.facts.keep(boxes)
        return written

    def name_of(self, frame_id: str) -> str:
        """What a coordinate frame is called in the pose graph."""
        return node(frame_id or self._rig_frame, "" if self._is_moved else self._rig_frame)

    def node(self, frame_id: str) -> int:
        """A coordinate frame that something refers to."""
        name = self.name_of(frame_id)
        if name in self._nodes:
            return 0
        self._nodes.add(name)
        return self._record("node", [name, bare(frame_id)])

    def pose(self, pose: EgoPose) -> bool:
        """A rig pose, whatever of it is known; False for one without progress, or of another origin."""
        time_us = pose.time_ns // 1000
        if time_us <= self._pose_us:
            return False
        if pose.origin is not None and pose.origin != self._origin:
            if self._origin is not None:
                return False
            self._origin = pose.origin
            origin = (pose.origin.latitude_deg, pose.origin.longitude_deg, pose.origin.altitude_m)
            self._record("origin", origin)
        self._pose_us = time_us
        self._record("pose", [
            time_us,
            *(pose.position_m or (math.nan,) * 3),
            *(pose.rotation_xyzw or (math.nan,) * 4),
            BASES.index(pose.position_basis) if pose.position_m else ASSUMED,
            BASES.index(pose.rotation_basis) if pose.rotation_xyzw else ASSUMED,
            *(pose.position_sigma_m or (math.nan,) * 3),
            *(pose.rotation_sigma_rad or (math.nan,) * 3),
        ])  # fmt: skip
        return True

    def row(self, value: parts.SeriesValue, topic: str) -> int:
        """One message of a raw series, named after its topic."""
        written = 0
        if topic not in self._series:
            prefix = parts.safe_name(topic.strip("/")) or value.kind
            while prefix in self._series.values():
                prefix += "_"
            self._series[topic] = prefix
            layout = [list(column) for column in value.layout]
            written = self._record("series", [prefix, topic, value.kind, layout])
        return written + self._record("row", [self._series[topic], value.time_us, *value.values])

    def cuboids(self, cuboids: parts.Cuboids, topic: str) -> int:
        """The boxes of one message, which may have none: it looked all the same."""
        if not cuboids.observations:
            return self._record("nothing", cuboids.time_us)
        written = self.node(cuboids.frame_id)
        name = self.name_of(cuboids.frame_id)
        facts = [name, cuboids.observations, cuboids.extra, cuboids.kinds, cuboids.tracked, cuboids.optical]
        return written + self._record(cuboids.record, [*facts, topic])
