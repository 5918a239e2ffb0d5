"""What models on the device saw: boxes, masks and their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Box:
    """One detection (edgefirst_msgs/Box) as sent.

    In a 2-D message centre and size are normalised to the image (0..1) and ``distance_m`` is 0 when
    unknown. In fusion/boxes3d they are metres in the optical sense: x = distance, y = -center_x,
    z = -center_y, width along y, height along z; the wire has no depth.
    """

    center_x: float
    center_y: float
    width: float
    height: float
    label: str
    score: float
    distance_m: float
    speed_m_s: float
    track_id: str
    track_lifetime: int
    track_created_ns: int


@dataclass(frozen=True, slots=True)
class Mask:
    """A segmentation mask (edgefirst_msgs/Mask): uint8, (height, width, length) with length classes or 1.

    ``boxed`` masks belong to the box of the same index.
    """

    mask: npt.NDArray[np.uint8]
    boxed: bool


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes and masks of one inference (edgefirst_msgs/Model, or the legacy Detect)."""

    boxes: tuple[Box, ...]
    masks: tuple[Mask, ...]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Which model runs and its labels by class index (edgefirst_msgs/ModelInfo)."""

    name: str
    labels: tuple[str, ...]
