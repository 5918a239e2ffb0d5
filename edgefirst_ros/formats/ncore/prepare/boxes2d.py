"""2-D boxes on their way to the generic data of the picture that they were seen in.

NCore has no component for them: its camera labels are aligned with the picture, [H, W] and more. A model
answers after its picture was written, and readers look for a frame's generic data below the frame. So boxes
go to the journal as they come, and are put to their frames when the sequence is finished (``boxattach``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, FlatBoxes
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.messages.detection import Box, Detections
from edgefirst_ros.messages.transform import bare
from edgefirst_ros.sample import Observation


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
