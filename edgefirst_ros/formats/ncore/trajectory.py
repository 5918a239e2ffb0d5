"""Rig poses to the dynamic pose of NCore: thinned, cut to the interval, relative to the first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pymap3d
from scipy.spatial.transform import Rotation, Slerp

from edgefirst_ros.formats.ncore.extrinsics import Pose, inverse

Rows = npt.NDArray[np.float64]
"""(N, 7): x y z in ENU metres, then the quaternion x y z w."""


def thin(times_us: npt.NDArray[np.int64], gap_us: int) -> npt.NDArray[np.int64]:
    """Indices to keep so that gaps stay within ``gap_us`` where they were; first and last are kept."""
    if len(times_us) <= 2:
        return np.arange(len(times_us))
    kept = [0]
    for index in range(1, len(times_us) - 1):
        if times_us[index + 1] - times_us[kept[-1]] > gap_us:
            kept.append(index)
    return np.array([*kept, len(times_us) - 1])


def cover(
    times_us: npt.NDArray[np.int64], rows: Rows, first_us: int, last_us: int
) -> tuple[npt.NDArray[np.int64], Rows]:
    """The trajectory from ``first_us`` to ``last_us`` exactly: cut and interpolated, its ends held.

    Args:
        times_us: (N,), strictly increasing, N at least 1.
        rows: poses at these times.
        first_us: first time wanted.
        last_us: last time wanted.
    """
    inside = (times_us > first_us) & (times_us < last_us)
    wanted = np.unique(np.concatenate([[first_us], times_us[inside], [last_us]]))
    if len(times_us) == 1:
        return wanted, np.repeat(rows, len(wanted), axis=0)
    at = np.clip(wanted, times_us[0], times_us[-1])
    result = np.empty((len(wanted), 7))
    origin = times_us[0]
    for axis in range(3):
        result[:, axis] = np.interp(at - origin, times_us - origin, rows[:, axis])
    rotations = Slerp((times_us - origin).astype(np.float64), Rotation.from_quat(rows[:, 3:]))
    result[:, 3:] = rotations((at - origin).astype(np.float64)).as_quat()
    return wanted, result


def rig_to_world(rows: Rows) -> tuple[npt.NDArray[np.float64], Pose]:
    """T_rig_world (N, 4, 4), the first the identity, and T_world_enu, the first pose itself."""
    poses = np.tile(np.eye(4), (len(rows), 1, 1))
    poses[:, :3, :3] = Rotation.from_quat(rows[:, 3:]).as_matrix()
    poses[:, :3, 3] = rows[:, :3]
    T_world_enu = poses[0].copy()
    poses = inverse(T_world_enu) @ poses
    poses[:, 3] = (0.0, 0.0, 0.0, 1.0)
    poses[0] = np.eye(4)
    return poses, T_world_enu


def enu_to_ecef(latitude_deg: float, longitude_deg: float, altitude_m: float) -> Pose:
    """T_enu_ecef of the local east, north, up frame at a WGS-84 position."""
    lat, lon = np.radians([latitude_deg, longitude_deg])
    pose = np.eye(4)
    pose[:3, 0] = (-np.sin(lon), np.cos(lon), 0.0)
    pose[:3, 1] = (-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat))
    pose[:3, 2] = (np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat))
    pose[:3, 3] = pymap3d.geodetic2ecef(latitude_deg, longitude_deg, altitude_m)
    return pose
