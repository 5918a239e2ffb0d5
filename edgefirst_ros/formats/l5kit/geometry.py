"""Rotations and frames for placing detections."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.transform import Transform, bare, matrix_of

Floats = npt.NDArray[np.float64]


def rigid(rotation: Floats, translation_m: tuple[float, float, float]) -> Floats:
    """The (4, 4) transform of a (3, 3) rotation and a translation."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation
    matrix[:3, 3] = translation_m
    return matrix


def moved(transform: Floats, points_m: Floats) -> Floats:
    """Points (..., 3) of the source frame in the target frame, by T_source_target (4, 4)."""
    result: Floats = points_m @ transform[:3, :3].T + transform[:3, 3]
    return result


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
        T_frame_base = rigid(matrix_of(step.rotation_xyzw), step.translation_m) @ T_frame_base
        frame = bare(step.parent)
    return None


def yaw_of(rotations: Floats) -> Floats:
    """Yaw (...,) in radians of rotations (..., 3, 3): the heading of their x axis, as L5Kit takes it."""
    yaw: Floats = np.arctan2(rotations[..., 1, 0], rotations[..., 0, 0])
    return yaw


def wrapped(angles: Floats) -> Floats:
    """Angles in [-pi, pi)."""
    result: Floats = (angles + np.pi) % (2 * np.pi) - np.pi
    return result
