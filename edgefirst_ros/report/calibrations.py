"""Whether calibrations can be meant: where transforms put sensors, and how CameraInfo says that cameras see.

Drivers send camera frames whose x looks ahead, inverse transforms, millimetres, and K of other pictures;
nothing in a message tells, but no rig is so. What the configuration says of a sensor is taken as meant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from edgefirst_ros.model.camera import FISHEYE_MODELS, PINHOLE_MODELS, split_tile
from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.transform import Floats, bare, quaternion_of
from edgefirst_ros.report.models import Camera, Report, Sequence, Stream
from edgefirst_ros.report.sensors import FARTHEST_M, Mounted, mounted, rig_frame
from edgefirst_ros.report.shortfalls import MOVES_SHARE

UP, UPRIGHT = 0.8, 0.9
"""Cosines to the zenith: of an axis that looks up, within 37°, and of the top of an upright picture."""
RIGHT = 0.95
"""The inverse of an upright camera's transform looks to the right, whatever its yaw."""
OFF, MIDDLE, BORDER = 0.15, 0.05, 0.3
"""Distance of a principal point from the middle, as a share of the picture: lenses are within a tenth. With
more, a mistake that explains it exactly is one; without, a picture may be a part of a larger one."""
WIDEST_DEG = 150.0
"""No lens without a fisheye model sees that; with K in millimetres or in shares of the picture, it is 179."""
PLACES, INTRINSICS = ("xyz_m", "rpy_deg", "rotation_xyzw"), ("info_file",)
_OPTICAL = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


def calibration_findings(report: Report) -> Iterator[Finding]:
    """What contradicts itself, with what mends it; by each the dataset's geometry is wrong, unless a note."""
    rig, moving = rig_frame(report), _moving(report)
    for each in mounted(report):
        is_sure = each.frame not in moving and not _is_meant(report, each.name, PLACES)
        if is_sure and (text := _misplaced(each, rig)):
            yield Finding(Code.MISPLACED, text, share=MOVES_SHARE)
    found = (each for sequence in report.sequences for each in _of_cameras(report, sequence))
    yield from {each.text: each for each in found}.values()


def _of_cameras(report: Report, sequence: Sequence) -> Iterator[Finding]:
    streams = sequence.streams or {}
    cameras = [each for each in streams.values() if each.role == Role.CAMERA]
    for topic, stream in streams.items():
        if _is_meant(report, stream.sensor, INTRINSICS):
            continue
        if stream.role == Role.CAMERA_INFO:
            yield from _of_another(topic, stream, cameras)
        camera = sequence.intrinsics_of(stream) if stream.role == Role.CAMERA else None
        if camera is None or not (all(camera.size) and min(camera.focal_px) > 0):
            continue
        if text := _focal(camera) or ("" if _is_tile(stream, cameras) else _principal(camera)):
            text = f"CameraInfo of {topic.strip('/')} {text}: mend it, or give the camera an info_file"
            yield Finding(Code.CAMERA_INFO, text, (topic,), MOVES_SHARE)


def _moving(report: Report) -> set[str]:
    """Frames of sensors on mounts that move, of which one moment says nothing."""
    return {
        bare(stream.frame_id)
        for sequence in report.sequences
        for mount in sequence.mounts
        for topic, stream in (sequence.streams or {}).items()
        if topic in mount.topics
    }


def _is_meant(report: Report, sensor: str, settings: tuple[str, ...]) -> bool:
    """Whether the configuration says it of the sensor."""
    entries = report.configuration.get("topics")
    return isinstance(entries, dict) and any(
        (each.get("sensor") or name) == sensor and any(each.get(setting) is not None for setting in settings)
        for name, each in entries.items()
        if isinstance(each, dict)
    )


def _misplaced(sensor: Mounted, rig: str) -> str:
    """Why a sensor cannot be where transforms say; empty if it can, or if they do not say it."""
    if sensor.pose is None:
        return ""
    pose, who = sensor.pose, sensor.name
    if (far_m := float(np.linalg.norm(pose[:3, 3]))) > FARTHEST_M:
        return (
            f"{who} is {far_m:,.0f} m from {rig} by its transform, which is in metres by REP 103: "
            "send these, or give its entry xyz_m"
        )
    if sensor.kind != "camera":
        return ""
    turn, at_m = pose[:3, :3], pose[:3, 3]
    if turn[2, 2] > UP:
        return (
            f"{who} looks up by its transform, as if {sensor.frame} had x ahead and z up; a picture's frame "
            "has z ahead and y down (REP 103): send that one, or give its entry "
            f"{_place(turn @ _OPTICAL, at_m)}"
        )
    inverse_m = -turn.T @ at_m
    if turn[2, 1] > -UPRIGHT and turn[1, 2] < -RIGHT and at_m[2] < inverse_m[2]:
        return (
            f"{who} is not upright by its transform, but upright and higher by the inverse: "
            f"send that one, or give its entry {_place(turn.T, inverse_m)}"
        )
    return ""


def _place(turn: Floats, at_m: Floats) -> str:
    """As the configuration has it; no number is -0.0."""
    place = (at_m.round(3) + 0.0).tolist(), (quaternion_of(turn).round(6) + 0.0).tolist()
    return "xyz_m: {}, rotation_xyzw: {}".format(*place)


def _is_tile(stream: Stream, cameras: list[Stream]) -> bool:
    """Whether the pictures are parts of the camera's, or may be."""
    return bool(split_tile(stream.frame_id)[1]) or sum(each.sensor == stream.sensor for each in cameras) > 1


def _focal(camera: Camera) -> str:
    """What no camera has of its focal length, empty if there is nothing."""
    span = max(size / focal for size, focal in zip(camera.size, camera.focal_px, strict=True))
    across_deg, model = math.degrees(2 * math.atan(span / 2)), camera.distortion_model.lower()
    if model in FISHEYE_MODELS and span > 2 * math.pi:
        return "has a fisheye see more than all around"
    if model in PINHOLE_MODELS and across_deg > WIDEST_DEG:
        return f"has it see {across_deg:.0f} degrees across, as if K were not in pixels"
    return ""


def _principal(camera: Camera) -> str:
    """What no lens has of its principal point, empty if there is nothing."""
    (width, height), (x, y) = camera.size, camera.principal_px
    u, v = x / width, y / height
    text = f"has its principal point at {u:.2f} and {v:.2f} of {width}x{height}"
    if _is_within(OFF, u, v):
        return ""
    if _is_within(MIDDLE, y / width, x / height):
        return f"{text}, as if cx and cy, or width and height, were exchanged"
    if u + v > OFF and _is_within(MIDDLE, u / (u + v), v / (u + v)):
        return f"{text}, as if K were of pictures {u + v:.3g} times as large"
    return "" if _is_within(BORDER, u, v) else text


def _is_within(distance: float, u: float, v: float) -> bool:
    return max(abs(u - 0.5), abs(v - 0.5)) <= distance


def _of_another(topic: str, info: Stream, cameras: list[Stream]) -> Iterator[Finding]:
    """That a CameraInfo names another frame than its camera; that of another camera contradicts it."""
    frame, own = bare(info.frame_id), [bare(each.frame_id) for each in cameras if each.sensor == info.sensor]
    if not frame or not any(own) or any(split_tile(each)[0] == split_tile(frame)[0] for each in own):
        return
    is_other = frame in {bare(each.frame_id) for each in cameras}
    text = f"{topic.strip('/')} is of {frame}, but taken for the pictures in {own[0]}"
    if is_other:
        text += ": give its entry the sensor that it is of"
    severity = Severity.WARNING if is_other else Severity.NOTE
    yield Finding(Code.CAMERA_INFO, text, (topic,), MOVES_SHARE, severity)
