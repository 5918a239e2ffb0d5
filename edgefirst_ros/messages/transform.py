"""Transforms between coordinate frames, and the quaternions and vectors of messages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from edgefirst.schemas import geometry_msgs

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import decoder_of, header_of, repeated_decoder_of
from edgefirst_ros.naming import displayed, visible

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


def describe_change(before: Transform, after: Transform) -> str:
    """How a frame's pose changed, as a sentence; empty if it changed by rounding only."""
    if bare(before.parent) != bare(after.parent):
        return f"the parent of {after.child} changed from {before.parent} to {after.parent}"
    moved_m = math.dist(before.translation_m, after.translation_m)
    cosine = abs(sum(a * b for a, b in zip(before.rotation_xyzw, after.rotation_xyzw, strict=True)))
    turned_deg = math.degrees(2 * math.acos(min(1.0, cosine)))
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


def known(values: tuple[float, float, float], most: float, what: str) -> tuple[float, float, float]:
    """A vector's components; all NaN, which means unknown, if one of them is.

    Raises:
        DecodeError: a component of ``what`` is larger than ``most``, which nothing can measure.
    """
    x, y, z = values
    if abs(x) <= most and abs(y) <= most and abs(z) <= most:
        return values
    if any(abs(value) > most for value in values):
        raise DecodeError(f"{what} of more than {most:g}, which nothing measures")
    return (math.nan,) * 3


def xyz(vector: geometry_msgs.Vector3 | geometry_msgs.Point) -> tuple[float, float, float]:
    """The components of a geometry_msgs/Vector3 or Point."""
    return float(vector.x), float(vector.y), float(vector.z)
