"""2-D boxes to the generic data of the picture that they were seen in, 3-D boxes to ``cuboids``.

NCore has no component for them: its camera labels are aligned with the picture, [H, W] and more. A model
answers after its picture was written, and readers look for a frame's generic data below the frame. So boxes
go to the journal as they come, and are put to their frames when the sequence is finished
(``finish/labels.py``).

3-D boxes are one observation each, tracked where the device tracks; so are the tracks of a radar.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, Cuboids, FlatBoxes, Json
from edgefirst_ros.formats.tracks.rays import CAMERA_FRAME, along_rays, not_placed
from edgefirst_ros.formats.tracks.sizes import kind_of
from edgefirst_ros.formats.zarr2 import array_records
from edgefirst_ros.model.detection import Box, BoxAxes, Detections, is_optical
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, is_seen
from edgefirst_ros.model.sample import Observation
from edgefirst_ros.model.transform import bare


def flat_boxes(observation: Observation) -> tuple[FlatBoxes, tuple[str, ...]]:
    """The boxes of a message that have an extent, and why others are left out.

    Raises:
        DecodeError: not a message of boxes.
    """
    measurement = observation.measurement
    if not isinstance(measurement.datum, Detections):
        raise DecodeError(f"message is {type(measurement.datum).__name__}, not boxes")
    info = observation.calibration.model_info
    sound = [box for box in measurement.datum.boxes if box.width > 0 and box.height > 0]
    refused = () if len(sound) == len(measurement.datum.boxes) else ("2-D box without extent",)
    columns = _columns(sound, info.labels if info else ())
    packed = {name: (column.dtype.str, column.tobytes()) for name, column in columns.items()}
    time_us = measurement.time_ns // 1000
    masked = bool(measurement.datum.masks)
    encoded = {name: tuple(array_records("", column, COMPRESSOR)) for name, column in columns.items() if name}
    boxes = FlatBoxes(measurement.topic, bare(measurement.frame_id), time_us, packed, masked, encoded)
    return boxes, refused


def _columns(boxes: Sequence[Box], labels: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    place = np.array([(b.center_x, b.center_y, b.width, b.height) for b in boxes], np.float64).reshape(-1, 4)
    middle, half = place[:, :2], place[:, 2:] / 2
    classes = [_class(box.label, labels) for box in boxes]
    return {
        "": np.concatenate([middle - half, middle + half], axis=1),
        "class_id": np.array([index for index, _ in classes], np.int32),
        "label": np.array([name for _, name in classes], str),
        "score": np.array([box.score for box in boxes], np.float32),
        "track_id": np.array([box.track_id for box in boxes], str),
        "distance_m": np.array([box.distance_m for box in boxes], np.float32),
        "speed_m_s": np.array([box.speed_m_s for box in boxes], np.float32),
    }


def _class(label: str, labels: Sequence[str]) -> tuple[int, str]:
    """Index and name of a class; the device sends either."""
    if label.isascii() and label.isdigit():
        index = int(label)
        return (index, labels[index]) if index < len(labels) else (min(index, 2**31 - 1), label)
    return (labels.index(label) if label in labels else -1), label


EXTRA = ("score", "speed_m_s", "track_lifetime", "track_created_us")
"""Per observation, in the component's generic data: what an observation has no field for."""


def cuboids_of(observation: Observation) -> tuple[Cuboids, tuple[str, ...]]:
    """The boxes of a message that have an extent, and why others are left out.

    Their frame and axes are those of ``BoxAxes``.

    Raises:
        DecodeError: not a message of boxes.
    """
    measurement = observation.measurement
    if not isinstance(measurement.datum, Detections):
        raise DecodeError(f"message is {type(measurement.datum).__name__}, not boxes")
    axes = BoxAxes.of(measurement.frame_id, observation.calibration.transforms)
    return _in_space(measurement.datum.boxes, axes, observation)


def placed_boxes(observation: Observation) -> Cuboids | None:
    """The 2-D boxes of a message that have a track and a distance, along their rays; None without any.

    The CameraInfo must be of the camera that the boxes are of: of several it is not known.
    """
    measurement, calibration = observation.measurement, observation.calibration
    info, frame = calibration.camera_info, bare(measurement.frame_id) or CAMERA_FRAME
    if info is None or calibration.other_cameras or frame not in map(bare, calibration.transforms):
        return None
    datum = measurement.datum
    seen = datum.boxes if isinstance(datum, Detections) else ()
    boxes = [box for box in seen if box.track_id and not not_placed(box, info)]
    try:
        _, places, sizes = along_rays(boxes, info)
    except DecodeError:  # of a camera whose distortion has no inverse here
        return None
    solid = [
        replace(box, center_x=x, center_y=y, distance_m=z, width=width, height=height)
        for box, (x, y, z), (width, height) in zip(boxes, places.tolist(), sizes.tolist(), strict=True)
    ]
    found, _ = _in_space(solid, BoxAxes(frame, optical=True), observation)
    return replace(found, record="flat_cuboids") if found.observations else None


_CLASSES = {0: "unclassified", 1: "static", 2: "dynamic"}
"""Constants of radar_msgs/RadarTrack; what a number from 32000 on means, its maker knows."""
_SIZE = ("size_x", "size_y", "size_z")


def radar_tracks(observation: Observation) -> Iterator[Cuboids]:
    """The tracks of a radar that have an extent, ``dim`` as sent; nothing without any.

    Drivers put their own small numbers into the UUID, so it is unique only together with the topic.
    """
    measurement = observation.measurement
    cloud = measurement.datum
    if not isinstance(cloud, PointCloud) or not _are_tracks(cloud):
        return
    places = cloud.xyz()
    sizes: npt.NDArray[np.float32] = np.stack([cloud.column(name) for name in _SIZE], axis=1)
    sizes[~(sizes[:, 2] > 0), 2] = 0.0  # of a radar that does not tell heights
    kept = is_seen(*places.T) & is_seen(*sizes.T) & (sizes[:, :2] > 0).all(axis=1)
    if not kept.any():
        return
    speeds = cloud.column("speed") if cloud.has("speed") else np.full(len(places), np.nan, np.float32)
    names = [UUID(bytes=row.tobytes()) for row in cloud.column("uuid", np.uint8)[kept]]
    classes = [
        _class_name(number, cloud.class_names)
        for number in cloud.column("classification", np.uint16)[kept].tolist()
    ]
    time_us = measurement.time_ns // 1000
    yield Cuboids(
        frame_id=bare(measurement.frame_id),
        time_us=time_us,
        observations=tuple(
            _as_json(
                f"{measurement.topic}/{name}" if name.int else f"untracked-{time_us}-{index}",
                label,
                time_us,
                place,
            )
            for index, (name, label, *place) in enumerate(
                zip(names, classes, places[kept].tolist(), sizes[kept].tolist(), strict=True)
            )
        ),
        extra=tuple((math.nan, speed, 0.0, 0.0) for speed in speeds[kept].tolist()),
        kinds=tuple(kind_of(label).value for label in classes),
        tracked=tuple(name.int != 0 for name in names),
        optical=is_optical(measurement.frame_id),
        record="radar_cuboids",
    )


def _class_name(number: int, names: Mapping[str, str]) -> str:
    """As configured for the number or for its own name, else that."""
    own = _CLASSES.get(number, f"class {number}")
    return names.get(str(number), names.get(own, own))


def _are_tracks(cloud: PointCloud) -> bool:
    dtype = cloud.points.dtype
    return (
        cloud.has("uuid", "classification", *_SIZE)
        and dtype["uuid"].shape == (16,)
        and not any(dtype[name].shape for name in ("classification", *_SIZE))
    )


def _in_space(
    boxes: Sequence[Box], axes: BoxAxes, observation: Observation
) -> tuple[Cuboids, tuple[str, ...]]:
    time_us = observation.measurement.time_ns // 1000
    observations, extra, kinds, tracked, refused = [], [], [], [], set()
    labels = observation.calibration.model_info.labels if observation.calibration.model_info else ()
    for index, box in enumerate(boxes):
        place = box.center_x, box.center_y, box.distance_m, box.width, box.height
        if not (box.width > 0.0 and box.height > 0.0 and all(map(math.isfinite, place))):
            refused.add("box without extent or position")
            continue
        observations.append(_observation(box, time_us, index, axes))
        is_number = box.label.isdecimal() and int(box.label) < len(labels)
        kinds.append(kind_of(labels[int(box.label)] if is_number else box.label).value)
        tracked.append(box.is_tracked)
        extra.append((box.score, box.speed_m_s, float(box.track_lifetime), box.track_created_ns / 1000))
    found = Cuboids(
        frame_id=axes.frame_id,
        time_us=time_us,
        observations=tuple(observations),
        extra=tuple(extra),
        kinds=tuple(kinds),
        tracked=tuple(tracked),
        optical=axes.optical,
    )
    return found, tuple(sorted(refused))


def _observation(box: Box, time_us: int, index: int, axes: BoxAxes) -> Json:
    """An observation without its frame of reference, which the writer knows; dimensions as measured."""
    track = box.track_id or f"untracked-{time_us}-{index}"
    return _as_json(track, box.label, time_us, (axes.centre_m(box), axes.extents_m(box)))


def _as_json(track: str, label: str, time_us: int, place: Sequence[Sequence[float]]) -> Json:
    """An observation of this centroid and these dimensions."""
    centroid, dim = place
    return {
        "track_id": track,
        "class_id": label,
        "timestamp_us": time_us,
        "reference_frame_timestamp_us": time_us,
        "bbox3": {"centroid": [float(v) for v in centroid], "dim": [float(v) for v in dim], "rot": [0.0] * 3},
    }
