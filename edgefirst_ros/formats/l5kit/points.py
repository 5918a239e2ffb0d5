"""Sensor points for the bird's eye view: few enough to keep, in the rig's frame."""

from __future__ import annotations

import numpy as np

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.l5kit.boxes import Setting
from edgefirst_ros.formats.l5kit.geometry import Floats, moved
from edgefirst_ros.formats.l5kit.schema import POINT, Records
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.messages.pointcloud import PointCloud

_REACH_M = 327.0


def check_points(measurement: Measurement, setting: Setting) -> None:
    """Find out, without the work, whether ``sensor_points`` can be made of a measurement.

    Raises:
        DecodeError: as ``sensor_points`` does.
    """
    cloud = _cloud_of(measurement)
    setting.frame_pose(measurement.frame_id)
    PointCloud(cloud.points[:0], 1, 0).xyz()


def sensor_points(measurement: Measurement, sensor: int, setting: Setting) -> Records:
    """The highest point of every square cell; if those are too many, cells evenly spread over all.

    Returns rows of POINT, ordered by cell; the same cloud gives the same rows.

    Raises:
        DecodeError: no cloud, or a frame that is not connected to the rig.
    """
    cloud = _cloud_of(measurement)
    T_base_sensor = setting.frame_pose(measurement.frame_id)
    sensed = cloud.xyz()
    points = moved(T_base_sensor, sensed[np.isfinite(sensed).all(axis=1)].astype(np.float64))
    points = points[(np.abs(points) < _REACH_M).all(axis=1)]
    cell = np.floor(points[:, :2] / setting.options.points_cell_m).astype(np.int64)
    order = np.lexsort((-points[:, 2], cell[:, 1], cell[:, 0]))
    cell, points = cell[order], points[order]
    first = np.ones(len(cell), np.bool_)
    first[1:] = (cell[1:] != cell[:-1]).any(axis=1)
    points, most = points[first], setting.options.points_per_frame
    if len(points) > most:
        points = points[np.arange(most) * len(points) // most]
    rows = np.zeros(len(points), POINT)
    rows["position_cm"] = np.rint(points * 100)
    rows["sensor"] = sensor
    return rows


def _cloud_of(measurement: Measurement) -> PointCloud:
    if not isinstance(measurement.datum, PointCloud):
        raise DecodeError(f"message is {type(measurement.datum).__name__}, not a cloud")
    return measurement.datum


def seen_from(points: Records, now_from_then: Floats) -> Records:
    """Points in the frame of the rig where it is now, by a transform (4, 4); without those out of reach."""
    place = moved(now_from_then, points["position_cm"] / 100.0)
    near = (np.abs(place) < _REACH_M).all(axis=1)
    rows = points[near].copy()
    rows["position_cm"] = np.rint(place[near] * 100)
    return rows
