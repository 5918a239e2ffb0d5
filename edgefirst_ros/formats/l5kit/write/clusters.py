"""Tracked clusters of points as detections: fused clouds with a track, and the radar's own clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.l5kit.geometry import Floats, moved
from edgefirst_ros.formats.l5kit.labels import label_rows
from edgefirst_ros.formats.l5kit.write.boxes import Boxes, Setting
from edgefirst_ros.formats.l5kit.write.candidates import CLUSTER_KEYS, PlacedDetections, track_key
from edgefirst_ros.formats.l5kit.write.points import cloud_of
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.messages.pointcloud import PointCloud

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
