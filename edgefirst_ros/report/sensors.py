"""The sensors of a report's rig: where they are, and whether they can be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.model.camera import LOOKS_UP, split_tile
from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.transform import Floats, Transform, bare, frame_in_base, quaternion_of
from edgefirst_ros.report.models import Calibration, Report
from edgefirst_ros.report.shortfalls import MOVES_SHARE

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
_SEEING = frozenset({"camera", "lidar", "radar"})
FARTHEST_M = 50.0
"""No vehicle is longer; a transform in millimetres is."""
_OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
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


def misplaced(report: Report) -> Iterator[Finding]:
    """Sensors that cannot be where transforms say: far away, or a camera whose frame has x ahead.

    What the configuration says of a sensor is taken as meant; of one that turns a moment says nothing.
    """
    turning = {topic for sequence in report.sequences for mount in sequence.mounts for topic in mount.topics}
    streams = [item for sequence in report.sequences for item in (sequence.streams or {}).items()]
    moving = {bare(stream.frame_id) for topic, stream in streams if topic in turning}
    shared = {n: (e.frame_id, e.other_frame_id) for n, e in streams if e.other_frame_id and e.role in KINDS}
    for topic, (frame, other) in shared.items():
        text = (
            f"{topic} comes in the frames {frame} and {other}: two publishers share it, and one of them is "
            "misplaced; give each a topic of its own"
        )
        yield Finding(Code.MISPLACED, text, (topic,), share=MOVES_SHARE)
    for each in mounted(report):
        if each.pose is None or each.frame in moving or _is_meant(report, each.name):
            continue
        turn, at_m = each.pose[:3, :3], each.pose[:3, 3]
        text = ""
        if (far_m := float(np.linalg.norm(at_m))) > FARTHEST_M:
            text = (
                f"{each.name} is {far_m:,.0f} m from {rig_frame(report)} by its transform, in metres by "
                "REP 103: send these, or give its entry mount.xyz_m"
            )
        elif each.kind == "camera" and turn[2, 2] > LOOKS_UP:
            xyzw = (quaternion_of(turn @ _OPTICAL).round(6) + 0.0).tolist()
            text = (
                f"{each.name} looks up by its transform, as if {each.frame} had x ahead and z up; a "
                "picture's frame has z ahead and y down (REP 103): send that one, or give its entry "
                f"mount: {{xyz_m: {(at_m.round(3) + 0.0).tolist()}, xyzw: {xyzw}}}"
            )
        if text:
            yield Finding(Code.MISPLACED, text, share=MOVES_SHARE)


def assumed(report: Report) -> Iterator[Finding]:
    """Sensors of which nobody says where they are, or how they see, where there are several."""
    rig = [each for each in mounted(report) if each.kind in _SEEING]
    lost = [each.name for each in rig if each.pose is None and not _is_meant(report, each.name)]
    calibrations = [each.calibration for each in report.sequences if each.calibration is not None]
    known = {name for each in calibrations for name in each.cameras}
    streams = (stream for sequence in report.sequences for stream in (sequence.streams or {}).values())
    blind = {stream.sensor for stream in streams if stream.role == Role.CAMERA} - known
    if calibrations:
        lost = lost if len(rig) > 1 else []  # one alone is where it is
        # Pictures are of use without intrinsics.
        sides = ("extrinsics", lost, Severity.WARNING), ("intrinsics", sorted(blind), Severity.NOTE)
        for what, names, severity in (side for side in sides if side[1]):
            text = f"{what} of {len(names)} sensor{'s' * (len(names) > 1)} are assumed: {', '.join(names)}"
            yield Finding(Code.MISPLACED, text, share=MOVES_SHARE, severity=severity)


def unstamped(report: Report) -> Iterator[Finding]:
    """Sensors whose times are guessed, as their stamps say nothing and nobody chose the time of receipt."""
    guessed: dict[str, None] = {}
    for sequence in report.sequences:
        for topic, stream in (sequence.streams or {}).items():
            clock = sequence.clocks.get(topic)
            if KINDS.get(stream.role) not in _SEEING or clock is None or clock.source != "receive":
                continue
            if "as configured" not in clock.finding:
                guessed[topic] = None
    if guessed:
        names = ", ".join(topic.strip("/") for topic in guessed)
        text = f"no usable stamps: {names}: times are those of receipt less their latency_ms"
        yield Finding(Code.UNSTAMPED, text, tuple(guessed), share=MOVES_SHARE)


def _is_meant(report: Report, sensor: str) -> bool:
    """Whether the configuration says where a sensor is."""
    entries = report.configuration.get("topics")
    return isinstance(entries, dict) and any(
        (each.get("sensor") or name) == sensor
        and isinstance(mount := each.get("mount"), dict)
        and any(mount.get(setting) is not None for setting in ("xyz_m", "rpy_deg", "xyzw"))
        for name, each in entries.items()
        if isinstance(each, dict)
    )


def rig_frame(report: Report) -> str:
    """What transforms call the rig."""
    return next((s.calibration.rig for s in report.sequences if s.calibration is not None), "base_link")
