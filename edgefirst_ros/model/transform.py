"""Transforms between frames, also of a robot's description (URDF), and rotations of many at once.

Rotations are matrices, quaternions (x, y, z, w) or angles: roll, pitch and yaw in radians. The rotation is
yaw about z, then pitch about the turned y, then roll about the turned x, which is the same as about
fixed x, y and z in this order (REP 103).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol
from xml.parsers import expat

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import geometry_msgs

from edgefirst_ros.model.cdr import Message, decoder_of, header_of, repeated_decoder_of
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.untrusted import displayed, visible

_ROUNDING_M = 1e-5
_ROUNDING_DEG = 1e-2
"""Smaller angles cannot be computed from a cosine near 1, because of rounding."""


@dataclass(frozen=True, slots=True)
class Transform:
    """Pose of ``child`` in ``parent``: p_parent = R(rotation) p_child + translation.

    ``translation_m`` is x, y, z; ``rotation_xyzw`` a unit quaternion, normalised on decoding.
    """

    parent: str
    child: str
    translation_m: tuple[float, float, float]
    rotation_xyzw: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Transforms:
    """The transforms of one message, with the stamp of each in nanoseconds, as sent.

    Source: tf2_msgs/TFMessage, or geometry_msgs/TransformStamped with one transform.
    """

    transforms: tuple[Transform, ...]
    stamps_ns: tuple[int, ...]


class _TFMessage(Protocol):
    transforms: list[geometry_msgs.TransformStamped]


def bare(frame_id: str) -> str:
    """A frame's name without surrounding blanks and the leading slash of ROS 1."""
    return frame_id.strip().lstrip("/")


def prefixed(frame_id: str, prefix: str) -> str:
    """A frame's name below a prefix; without a prefix, or without a name, as it is."""
    return f"{prefix}/{bare(frame_id)}" if prefix and bare(frame_id) else frame_id


def with_prefix(transform: Transform, prefix: str) -> Transform:
    """A transform between frames whose names have a prefix."""
    parent, child = (prefixed(frame, prefix) for frame in (transform.parent, transform.child))
    return replace(transform, parent=parent, child=child)


def makes_cycle(transform: Transform, known: Mapping[str, Transform]) -> bool:
    """Whether adding a transform to the known ones (by child) would make a frame its own ancestor."""
    parents = {bare(child): bare(other.parent) for child, other in known.items()}
    parents[bare(transform.child)] = frame = bare(transform.parent)
    for _ in range(len(parents) + 1):
        if frame == bare(transform.child):
            return True
        if frame not in parents:
            return False
        frame = parents[frame]
    return False


def change_of(before: Transform, after: Transform) -> tuple[float, float]:
    """How far a frame moved, in metres, and by how many degrees it turned."""
    cosine = abs(sum(a * b for a, b in zip(before.rotation_xyzw, after.rotation_xyzw, strict=True)))
    moved_m = math.dist(before.translation_m, after.translation_m)
    return moved_m, math.degrees(2 * math.acos(min(1.0, cosine)))


def describe_change(before: Transform, after: Transform) -> str:
    """How a frame's pose changed, as a sentence; empty if it changed by rounding only."""
    if bare(before.parent) != bare(after.parent):
        return f"the parent of {after.child} changed from {before.parent} to {after.parent}"
    moved_m, turned_deg = change_of(before, after)
    if moved_m < _ROUNDING_M and turned_deg < _ROUNDING_DEG:
        return ""
    return f"{after.child} moved by {moved_m:.3g} m and {turned_deg:.3g} degrees in {after.parent}"


@repeated_decoder_of(
    "geometry_msgs/TransformStamped", lambda before, stamp_ns: replace(before, stamps_ns=(stamp_ns,))
)
def decode_transform(message: geometry_msgs.TransformStamped) -> Transforms:
    """Decode a geometry_msgs/TransformStamped, which the device sends as tf_static.

    Raises:
        DecodeError: no valid message of this type, or its transform is invalid (see ``decode_tf``).
    """
    return _stamped([message])


@decoder_of("tf2_msgs/TFMessage", lambda message: message.transforms[0])
def decode_tf(message: _TFMessage) -> Transforms:
    """Decode a tf2_msgs/TFMessage; stamp and frame are those of its first transform.

    Raises:
        DecodeError: no valid message of this type, it is empty, or one of its transforms is zero, not finite,
            impossibly long, or without two different, printable frame names.
    """
    if not message.transforms:
        raise DecodeError("no transforms in the message")
    return _stamped(message.transforms)


def _stamped(messages: Sequence[geometry_msgs.TransformStamped]) -> Transforms:
    stamps_ns = tuple(header_of(message)[0] for message in messages)
    return Transforms(tuple(map(_transform, messages)), stamps_ns)


def _transform(message: geometry_msgs.TransformStamped) -> Transform:
    _, parent = header_of(message)
    turn = message.transform.rotation
    return plausible_transform(
        parent,
        displayed(str(message.child_frame_id)),
        xyz(message.transform.translation),
        (float(turn.x), float(turn.y), float(turn.z), float(turn.w)),
    )


def rigid(rotation: Floats, translation_m: tuple[float, float, float]) -> Floats:
    """The (4, 4) transform of a (3, 3) rotation and a translation."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation
    matrix[:3, 3] = translation_m
    return matrix


def frame_in_base(transforms: Mapping[str, Transform], frame_id: str, base: str) -> Floats | None:
    """T_frame_base (4, 4) along the chain of parents; None if the chain does not end at ``base``.

    Args:
        transforms: by child frame.
        frame_id: empty is the base itself.
        base: name of the rig's frame.
    """
    known = {bare(child): transform for child, transform in transforms.items()}
    T_frame_base = np.eye(4)
    frame, base = bare(frame_id), bare(base)
    for _ in range(len(known) + 1):
        if frame in {"", base}:
            return T_frame_base
        step = known.get(frame)
        if step is None:
            return None
        T_frame_base = _mount(_MOUNT.pack(*step.rotation_xyzw, *step.translation_m)) @ T_frame_base
        frame = bare(step.parent)
    return None


_MOUNT = struct.Struct("7d")


@lru_cache(maxsize=256)
def _mount(packed: bytes) -> Floats:
    """The (4, 4) transform of a mount, the same in most messages; told by its bits, as 0.0 equals -0.0."""
    values = _MOUNT.unpack(packed)
    return rigid(matrix_of(values[:4]), values[4:])


def plausible_transform(
    parent: str,
    child: str,
    translation: tuple[float, float, float],
    xyzw: tuple[float, float, float, float],
) -> Transform:
    """The transform of these values; the quaternion may have any length.

    Raises:
        DecodeError: there is none, as ``decode_tf`` says.
    """
    rotation = unit(xyzw)
    if rotation is None or not all(map(math.isfinite, translation)):
        raise DecodeError("transform is zero or not finite")
    if max(map(abs, translation)) > FARTHEST_M:
        raise DecodeError("transform out of range")
    if not bare(child) or bare(child) == bare(parent):
        raise DecodeError("transform does not connect two frames")
    if visible(child + parent) != child + parent:
        raise DecodeError("transform of a frame whose name is unreadable")
    return Transform(parent, child, translation, rotation)


_LEAST_NORM = 1e-9
_UNIT_WITHIN = 0.1
"""Rounding to bytes leaves lengths within 0.01 of 1."""
FASTEST_RAD_S = 100.0
"""The widest range of a gyroscope is 4000 degrees, 70 radians, a second."""
LEAST_SIGMA, MOST_SIGMA = 1e-6, 1e6
"""Standard deviations beyond these, in metres or radians, are no sensor's, and would overflow later."""
FARTHEST_M = 1e8
"""No frame on earth has larger coordinates: they come from damage, and would overflow later."""


def unit(xyzw: tuple[float, float, float, float]) -> tuple[float, float, float, float] | None:
    """The unit quaternion of one of any length; None if it is zero or not finite.

    Devices send mounts as they were typed in, such as -1, 1, -1, 1.
    """
    norm = math.hypot(*xyzw)
    if not _LEAST_NORM < norm < math.inf:
        return None
    x, y, z, w = xyzw
    return x / norm, y / norm, z / norm, w / norm


def measured_unit(xyzw: tuple[float, float, float, float]) -> tuple[float, float, float, float] | None:
    """As ``unit``, of an orientation that was measured, and is of unit length.

    Raises:
        DecodeError: its length is another, so that a component is wrong.
    """
    found = unit(xyzw)
    if found is not None and abs(math.hypot(*xyzw) - 1) > _UNIT_WITHIN:
        raise DecodeError("the orientation is not a unit quaternion")
    return found


def known(values: tuple[float, ...], most: float, what: str) -> tuple[float, float, float]:
    """A vector's components; all NaN, which means unknown, if one of them is.

    Raises:
        DecodeError: a component of ``what`` is larger than ``most``, which nothing can measure.
    """
    x, y, z = values
    if abs(x) <= most and abs(y) <= most and abs(z) <= most:
        return x, y, z
    if any(abs(value) > most for value in values):
        raise DecodeError(f"{what} of more than {most:g}, which nothing measures")
    return (math.nan,) * 3


def xyz(vector: geometry_msgs.Vector3 | geometry_msgs.Point) -> tuple[float, float, float]:
    """The components of a geometry_msgs/Vector3 or Point."""
    return float(vector.x), float(vector.y), float(vector.z)


Floats = npt.NDArray[np.float64]

_LOCKED = 1e-7
"""Where the cosine of the pitch is smaller, roll and yaw turn about the same axis."""


def matrix_of(xyzw: npt.ArrayLike) -> Floats:
    """The matrices (..., 3, 3) of quaternions (..., 4) of any length; one of length 0 turns nothing."""
    unit = _unit(np.asarray(xyzw, np.float64))
    x, y, z, w = unit.tolist() if unit.ndim == 1 else np.moveaxis(unit, -1, 0)
    rows = (
        (x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w),
    )
    if unit.ndim == 1:
        return np.array(rows)
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_of(matrices: Floats) -> Floats:
    """The unit quaternions (..., 4) of matrices (..., 3, 3)."""
    m = matrices
    # Four times the products of the quaternion's parts; the row of the largest is the most accurate.
    products = np.empty((*m.shape[:-2], 4, 4))
    trace = np.trace(m, axis1=-2, axis2=-1)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        products[..., i, i] = 1 - trace + 2 * m[..., i, i]
        products[..., i, j] = products[..., j, i] = m[..., j, i] + m[..., i, j]
        products[..., i, 3] = products[..., 3, i] = m[..., k, j] - m[..., j, k]
    products[..., 3, 3] = 1 + trace
    largest = np.argmax(np.diagonal(products, axis1=-2, axis2=-1), axis=-1)
    chosen: Floats = np.take_along_axis(products, largest[..., None, None], axis=-2)[..., 0, :]
    return _unit(chosen)


def quaternion_of_angles(rpy_rad: npt.ArrayLike) -> Floats:
    """The quaternions (..., 4) of angles (..., 3)."""
    half = np.asarray(rpy_rad, np.float64) / 2
    about = np.zeros((3, *half.shape[:-1], 4))
    for axis in range(3):
        about[axis, ..., axis], about[axis, ..., 3] = np.sin(half[..., axis]), np.cos(half[..., axis])
    return product(product(about[2], about[1]), about[0])


def angles_of(matrices: Floats) -> Floats:
    """The angles (..., 3) of matrices (..., 3, 3); where roll and yaw turn about the same axis, yaw is 0."""
    m = matrices
    level = np.hypot(m[..., 0, 0], m[..., 1, 0])
    locked = level < _LOCKED
    roll = np.where(locked, np.arctan2(-m[..., 1, 2], m[..., 1, 1]), np.arctan2(m[..., 2, 1], m[..., 2, 2]))
    yaw = np.where(locked, 0.0, np.arctan2(m[..., 1, 0], m[..., 0, 0]))
    return np.stack([roll, np.arctan2(-m[..., 2, 0], level), yaw], axis=-1)


def product(outer: Floats, inner: Floats) -> Floats:
    """The rotations (..., 4) by ``inner``, then by ``outer``."""
    vectors = outer[..., 3:] * inner[..., :3] + inner[..., 3:] * outer[..., :3]
    vectors += np.cross(outer[..., :3], inner[..., :3])
    scalar = outer[..., 3:] * inner[..., 3:] - (outer[..., :3] * inner[..., :3]).sum(-1, keepdims=True)
    return np.concatenate([vectors, scalar], axis=-1)


def between(start: Floats, end: Floats, share: npt.ArrayLike) -> Floats:
    """Unit quaternions (..., 4) a share (...) of the shortest turn from one to another, or beyond it."""
    turn = product(start * (-1, -1, -1, 1), end)
    turn = np.where(turn[..., 3:] < 0, -turn, turn)
    size = np.linalg.norm(turn[..., :3], axis=-1)
    half = np.asarray(share) * np.arctan2(size, turn[..., 3])
    # A turn too small to have an axis is as good as none.
    scale = np.divide(np.sin(half), size, out=np.zeros_like(half), where=size > 0)
    part = np.concatenate([scale[..., None] * turn[..., :3], np.cos(half)[..., None]], axis=-1)
    return _unit(product(start, part))


def interpolated(known_s: Floats, xyzw: Floats, wanted_s: Floats) -> Floats:
    """Quaternions (M, 4) at wanted times (M,), from those at ascending times (N,), N at least 2."""
    after = np.clip(np.searchsorted(known_s, wanted_s), 1, len(known_s) - 1)
    start_s, end_s = known_s[after - 1], known_s[after]
    unit = _unit(xyzw)
    return between(unit[after - 1], unit[after], (wanted_s - start_s) / (end_s - start_s))


def _unit(xyzw: Floats) -> Floats:
    length = np.linalg.norm(xyzw, axis=-1, keepdims=True)
    unit: Floats = np.where(length > 0, xyzw, (0.0, 0.0, 0.0, 1.0)) / np.where(length > 0, length, 1.0)
    return unit


_MOST_CHARACTERS = 16 << 20
"""Descriptions that hold their meshes have some megabytes."""
_DEEPEST, _MOST_JOINTS = 64, 10_000
_JOINT = ["robot", "joint"]
"""Elements of this name are also in those for transmissions, Gazebo and controllers."""


@dataclass(frozen=True, slots=True)
class RobotDescription:
    """Where links are on a robot.

    Attributes:
        transforms: of the fixed joints, as tf_static would have them.
        moving: the other joints, each with its type; only who measures them knows where their links are.
    """

    transforms: tuple[Transform, ...]
    moving: tuple[str, ...] = ()


@dataclass(slots=True)
class _Joint:
    name: str
    kind: str
    parent: str = ""
    child: str = ""
    origin: dict[str, str] = field(default_factory=dict)


class _UrdfReader:
    """Takes the joints of a document, and refuses whatever a description needs not have."""

    def __init__(self) -> None:
        self.joints: list[_Joint] = []
        self._way: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._doctype

    def read(self, text: str) -> None:
        try:
            self._parser.Parse(text.encode(), True)
        except (expat.ExpatError, UnicodeEncodeError) as error:
            raise DecodeError("the robot's description is not XML") from error

    def _doctype(self, *_: Any) -> None:  # noqa: ANN401 - expat's
        raise DecodeError("the robot's description has a document type, and with it maybe entities")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._way.append(name)
        if len(self._way) > _DEEPEST or len(self.joints) > _MOST_JOINTS:
            raise DecodeError("the robot's description is nested too deeply, or has too many joints")
        if self._way[0] != "robot":
            raise DecodeError("no robot's description (URDF)")
        if self._way == _JOINT:
            self.joints.append(_Joint(attributes.get("name", ""), attributes.get("type", "")))
        elif self._way[:-1] == _JOINT:
            joint = self.joints[-1]
            if name == "origin":
                joint.origin = attributes
            elif name == "parent":
                joint.parent = attributes.get("link", "")
            elif name == "child":
                joint.child = attributes.get("link", "")

    def _end(self, _: str) -> None:
        self._way.pop()


@decoder_of("std_msgs/String")
def decode_description(message: Message) -> RobotDescription:
    """Decode a std_msgs/String with a URDF.

    Raises:
        DecodeError: no valid message of this type, no URDF, or a fixed joint without two links or with an
            origin that is none.
    """
    text = str(message.data)
    if len(text) > _MOST_CHARACTERS:
        raise DecodeError("the robot's description is too long")
    reader = _UrdfReader()
    reader.read(text)
    fixed = tuple(_of_joint(each) for each in reader.joints if each.kind == "fixed")
    moving = (
        f"{displayed(each.name)} ({displayed(each.kind)})" for each in reader.joints if each.kind != "fixed"
    )
    return RobotDescription(fixed, tuple(moving))


def _of_joint(joint: _Joint) -> Transform:
    """Roll, pitch and yaw are about the parent's x, y and z, in this order."""
    x, y, z, w = map(float, quaternion_of_angles(_three(joint.origin, "rpy")))
    parent, child = displayed(joint.parent), displayed(joint.child)
    return plausible_transform(parent, child, _three(joint.origin, "xyz"), (x, y, z, w))


def _three(origin: dict[str, str], name: str) -> tuple[float, float, float]:
    try:
        x, y, z = map(float, origin.get(name, "0 0 0").split())
    except ValueError as error:
        raise DecodeError(f"the {name} of a fixed joint is not three numbers") from error
    if not all(map(math.isfinite, (x, y, z))):
        raise DecodeError(f"the {name} of a fixed joint is not finite")
    return x, y, z
