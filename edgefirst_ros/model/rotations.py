"""Rotations as matrices, quaternions (x, y, z, w) and angles, many at once.

Angles are roll, pitch and yaw in radians: the rotation is yaw about z, then pitch about the turned y, then
roll about the turned x, which is the same as about fixed x, y and z in this order (REP 103).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_LOCKED = 1e-7
"""Where the cosine of the pitch is smaller, roll and yaw turn about the same axis."""


def matrix_of(xyzw: npt.ArrayLike) -> Floats:
    """The matrices (..., 3, 3) of quaternions (..., 4) of any length; one of length 0 turns nothing."""
    x, y, z, w = np.moveaxis(_unit(np.asarray(xyzw, np.float64)), -1, 0)
    rows = (
        (x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w),
    )
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


def quaternion_of_vector(vectors_rad: npt.ArrayLike) -> Floats:
    """The quaternions (..., 4) of turns about vectors (..., 3) by their length."""
    vectors = np.asarray(vectors_rad, np.float64)
    half = np.linalg.norm(vectors, axis=-1, keepdims=True) / 2
    return np.concatenate([vectors * np.sinc(half / np.pi) / 2, np.cos(half)], axis=-1)


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
