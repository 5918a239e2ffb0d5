"""Static transforms between coordinate frames."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transform:
    """Pose of ``child`` in ``parent``: p_parent = R(rotation) p_child + translation.

    Metres; the quaternion is normalised on decoding because the device's is not.
    """

    parent: str
    child: str
    translation_m: tuple[float, float, float]
    rotation_xyzw: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Transforms:
    """All transforms of one message (tf2_msgs/TFMessage, or one of geometry_msgs/TransformStamped)."""

    transforms: tuple[Transform, ...]
