"""3-D boxes to ``cuboids``: one observation a box, tracked where the device tracks."""

from __future__ import annotations

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.prepare.parts import Cuboids, Json
from edgefirst_ros.formats.tracks.classes import kind_of
from edgefirst_ros.messages.boxes3d import BoxAxes
from edgefirst_ros.messages.detection import Box, Detections
from edgefirst_ros.sample import Observation

EXTRA = ("score", "speed_m_s", "track_lifetime", "track_created_us")
"""Per observation, in the component's generic data: what an observation has no field for."""

SOURCE = "AUTOLABEL"
"""Label source of every cuboid."""


def cuboids_of(observation: Observation) -> tuple[Cuboids, tuple[str, ...]]:
    """The boxes of a message that have an extent, and why others are left out.

    Their frame and axes are those of ``BoxAxes``.

    Raises:
        DecodeError: not a message of boxes.
    """
    measurement = observation.measurement
    if not isinstance(measurement.datum, Detections):
        raise DecodeError(f"message is {type(measurement.datum).__name__}, not boxes")
    time_us = measurement.time_ns // 1000
    axes = BoxAxes.of(measurement.frame_id, observation.calibration.transforms)
    observations, extra, kinds, tracked, refused = [], [], [], [], set()
    labels = observation.calibration.model_info.labels if observation.calibration.model_info else ()
    for index, box in enumerate(measurement.datum.boxes):
        if not (box.width > 0.0 and box.height > 0.0 and _finite(box)):
            refused.add("box without extent or position")
            continue
        observations.append(_observation(box, time_us, index, axes))
        is_number = box.label.isdecimal() and int(box.label) < len(labels)
        kinds.append(kind_of(labels[int(box.label)] if is_number else box.label).value)
        tracked.append(bool(box.track_id) and not (box.track_id.isdecimal() and box.track_lifetime == 0))
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


def _finite(box: Box) -> bool:
    values = (box.center_x, box.center_y, box.distance_m, box.width, box.height)
    return all(abs(value) < float("inf") for value in values)


def _observation(box: Box, time_us: int, index: int, axes: BoxAxes) -> Json:
    """An observation without its frame of reference, which the writer knows; dimensions as measured."""
    centroid, dim = axes.centre_m(box), axes.extents_m(box)
    return {
        "track_id": box.track_id or f"untracked-{time_us}-{index}",
        "class_id": box.label,
        "timestamp_us": time_us,
        "reference_frame_timestamp_us": time_us,
        "bbox3": {"centroid": [float(v) for v in centroid], "dim": [float(v) for v in dim], "rot": [0.0] * 3},
        "source": SOURCE,
        "source_version": None,
    }
