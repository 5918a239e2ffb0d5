"""Tracked clusters of points as detections: fused clouds with a track, and the radar's own clusters.

Sensor points for the bird's-eye view, thinned, in the rig's frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.geometry import Floats, moved
from edgefirst_ros.formats.l5kit.options import label_rows
from edgefirst_ros.formats.l5kit.store.schema import POINT, Records
from edgefirst_ros.formats.l5kit.write.boxes import CLUSTER_KEYS, Boxes, PlacedDetections, Setting, track_key
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Measurement

Cells = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)

_REACH_M = 327.0
_CELL_M = 0.2
"""Of each square of this size the highest point is kept: half a pixel of L5Kit's usual pictures."""


def check_points(measurement: Measurement, setting: Setting) -> None:
    """Raise what ``sensor_points`` would raise, without its cost.

    Raises:
        DecodeError: as ``sensor_points`` does.
    """
    cloud = cloud_of(measurement)
    setting.frame_pose(measurement.frame_id)
    _check_fields(cloud.points.dtype)


@lru_cache(maxsize=64)
def _check_fields(dtype: np.dtype[np.void]) -> None:
    PointCloud(np.empty(0, dtype), 1, 0).xyz()


def sensor_points(measurement: Measurement, sensor: int, setting: Setting) -> Records:
    """The highest point of each square cell; if there are too many, an even selection of them.

    Returns rows of POINT, ordered by cell; the same cloud gives the same rows.

    Raises:
        DecodeError: no cloud, or a frame that is not connected to the rig.
    """
    cloud = cloud_of(measurement)
    T_sensor_base = setting.frame_pose(measurement.frame_id)
    sensed = cloud.xyz()
    points = moved(T_sensor_base, _rows(sensed, np.isfinite(sensed)).astype(np.float64))
    points = _rows(points, np.abs(points) < _REACH_M)
    across, along = (np.floor(points[:, axis] / _CELL_M).astype(np.int64) for axis in (0, 1))
    points, most = points[highest(across, along, points[:, 2])], setting.options.points_per_frame
    if len(points) > most:
        points = points[np.arange(most) * len(points) // most]
    rows = np.zeros(len(points), POINT)
    rows["position_cm"] = np.rint(points * 100)
    rows["sensor"] = sensor
    return rows


def highest(across: Cells, along: Cells, height: Floats) -> Cells:
    """Indices of the highest point of every cell, the first of several, in the order of cells.

    Args:
        across: (N,) row of each point's cell.
        along: (N,) column of it.
        height: (N,).
    """
    if not len(height):
        return np.zeros(0, np.int64)
    low = int(across.min()), int(along.min())
    tall, wide = int(across.max()) - low[0] + 1, int(along.max()) - low[1] + 1
    bits = len(height).bit_length()
    if tall * wide >> (62 - bits):  # cell and index are too large for one number
        order = np.lexsort((-height, along, across))
        return order[_changes(across[order]) | _changes(along[order])]
    # Sorting one number a point takes a quarter of the time of sorting by three columns.
    number = (across - low[0]) * wide + (along - low[1])
    key = np.sort((number << bits) | np.arange(len(height)))
    order, number = key & ((1 << bits) - 1), key >> bits
    sorted_height = height[order]
    starts = np.flatnonzero(_changes(number))
    tops = np.maximum.reduceat(sorted_height, starts)
    at = np.flatnonzero(sorted_height == np.repeat(tops, np.diff(starts, append=len(order))))
    return order[at[_changes(number[at])]]


def _changes(values: Cells) -> npt.NDArray[np.bool_]:
    """Which values (N,) differ from the one before; the first does."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _rows(points: npt.NDArray[Scalar], sound: npt.NDArray[np.bool_]) -> npt.NDArray[Scalar]:
    """The points (N, 3) of which all three coordinates are sound."""
    return points if sound.all() else points[sound[:, 0] & sound[:, 1] & sound[:, 2]]


def cloud_of(measurement: Measurement) -> PointCloud:
    """The cloud of a measurement.

    Raises:
        DecodeError: it holds none.
    """
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


_LEAST_EXTENT_M = 0.2
_SCORE = 1.0
_FARTHEST_M = 1e6

_Spans = tuple[Floats, Floats]
"""Least and greatest x, y, z (N, 3) of the points of each object, in the rig's frame."""


def place_fused(measurement: Measurement, flat: Boxes, setting: Setting) -> PlacedDetections:
    """Objects of a fused cloud, grouped by ``track_id``; class and score are those of the model's box.

    Without a box of that track the class is the most frequent ``vision_class``, named by the model's labels.

    Raises:
        DecodeError: no cloud, no ``track_id``, or a frame that is not connected to the rig.
    """
    cloud = cloud_of(measurement)
    if not cloud.has("track_id", "vision_class"):
        raise DecodeError("fused cloud without track_id")
    track = cloud.column("track_id", np.uint32).astype(np.int64)
    keys, spans = _spans(cloud, track, setting.frame_pose(measurement.frame_id))
    classes = cloud.column("vision_class", np.uint16)
    by_key = {track_key(box.track_id): box for box in flat.boxes}
    names, scores = [], []
    for key in keys.tolist():
        box = by_key.get(key)
        label = box.label if box else str(np.bincount(classes[track == key]).argmax())
        names.append(setting.class_name(label))
        scores.append(box.score if box else _SCORE)
    return _candidates(keys, spans, names, np.array(scores, np.float64), setting)


def place_clusters(measurement: Measurement, setting: Setting) -> PlacedDetections:
    """The radar's own clusters, grouped by ``cluster_id`` (0 is none); they have no class.

    Raises:
        DecodeError: no cloud, no ``cluster_id``, or a frame that is not connected to the rig.
    """
    cloud = cloud_of(measurement)
    if not cloud.has("cluster_id"):
        raise DecodeError("cloud without cluster_id")
    number = cloud.column("cluster_id", np.int64)
    keys, spans = _spans(cloud, number, setting.frame_pose(measurement.frame_id))
    return _candidates(keys + CLUSTER_KEYS, spans, [""] * len(keys), np.ones(len(keys)), setting)


def _spans(
    cloud: PointCloud, group: npt.NDArray[np.int64], frame_pose: Floats
) -> tuple[npt.NDArray[np.int64], _Spans]:
    with np.errstate(invalid="ignore"):
        points = moved(frame_pose, cloud.xyz().astype(np.float64))
    used = (group > 0) & (np.abs(points) < _FARTHEST_M).all(axis=1)
    order = np.argsort(group[used], kind="stable")
    keys, starts = np.unique(group[used][order], return_index=True)
    if not len(keys):
        return keys, (np.zeros((0, 3)), np.zeros((0, 3)))
    grouped = points[used][order]
    return keys, (np.minimum.reduceat(grouped, starts), np.maximum.reduceat(grouped, starts))


def _candidates(
    keys: npt.NDArray[np.int64], spans: _Spans, names: Sequence[str], scores: Floats, setting: Setting
) -> PlacedDetections:
    low, high = spans
    extent = np.maximum(high - low, _LEAST_EXTENT_M)
    return PlacedDetections(
        place_m=(low[:, :2] + high[:, :2]) / 2,
        bearing_rad=np.zeros(len(keys)),
        lateral_m=extent[:, 1],
        depth_m=extent[:, 0],
        height_m=extent[:, 2],
        key=keys,
        label=label_rows(names, scores, setting.options.all_labels),
        typical_m=setting.typical_m(names),
        source=np.zeros(len(keys), np.int64),
        time_ns=np.zeros(len(keys), np.int64),
    )
