"""What models on the device detect: boxes, masks and their labels, and in which frame fused boxes are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import edgefirst_msgs

from edgefirst_ros.model.cdr import array, decoder_of, repeated_decoder_of, time_ns
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pixels import quoted
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.transform import bare
from edgefirst_ros.model.untrusted import displayed

_MAX_MASK_BYTES = 1 << 28
_PIECE_BYTES = 1 << 24
"""Of memory, taken at a time for a mask that is unpacked; most fit into one."""
_MAX_CLASSES = 256
_FARTHEST = 1e6
"""Largest number in a box: metres, m/s or widths of the picture."""


@dataclass(frozen=True, slots=True)
class Box:
    """One detection as sent (edgefirst_msgs/Box).

    In 2-D messages, centre and size are normalised to the image (0..1) and a ``distance_m`` of 0 is unknown.
    In fusion/boxes3d they are metres; in axes x forward, y left, z up the centre is (``distance_m``,
    -``center_x``, -``center_y``), ``width`` is along y and ``height`` along z. There is no length along x.
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

    @property
    def is_tracked(self) -> bool:
        """Whether its id is a track's; the device's fusion numbers its boxes anew in every message."""
        return bool(self.track_id) and not (self.track_id.isdecimal() and self.track_lifetime == 0)


@dataclass(frozen=True, slots=True)
class Mask:
    """A segmentation mask (edgefirst_msgs/Mask).

    Attributes:
        mask: uint8 (height, width, classes or 1); (0, 0, 1) while the device has no model.
        boxed: the mask covers the box of the same index only, not the whole image.
    """

    mask: npt.NDArray[np.uint8]
    boxed: bool


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes and masks of one inference (edgefirst_msgs/Model, or Detect of older devices)."""

    boxes: tuple[Box, ...]
    masks: tuple[Mask, ...]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Name of the model in use, and its labels by class index (edgefirst_msgs/ModelInfo)."""

    name: str
    labels: tuple[str, ...]


def relabelled(datum: object, names: Mapping[str, str]) -> object:
    """Boxes, a model's labels or tracks with other names, by those that were sent; anything else as it is."""
    if isinstance(datum, Detections):
        boxes = (replace(box, label=names.get(box.label, box.label)) for box in datum.boxes)
        return replace(datum, boxes=tuple(boxes))
    if isinstance(datum, ModelInfo):
        return replace(datum, labels=tuple(names.get(label, label) for label in datum.labels))
    if isinstance(datum, PointCloud) and datum.has("classification"):
        return replace(datum, class_names=names)
    return datum


@decoder_of("edgefirst_msgs/Model")
def decode_model(message: edgefirst_msgs.Model) -> Detections:
    """Decode an edgefirst_msgs/Model, without the durations of the inference.

    Raises:
        DecodeError: no valid message of this type, numbers of a box are not finite or too large, or the data
            of a mask do not have the size that it declares.
    """
    return Detections(tuple(map(_box, message.boxes)), tuple(map(_mask, message.masks)))


@decoder_of("edgefirst_msgs/Detect")
def decode_detect(message: edgefirst_msgs.Detect) -> Detections:
    """Decode an edgefirst_msgs/Detect: fusion/boxes3d, and model/boxes2d of older devices.

    Raises:
        DecodeError: no valid message of this type, or numbers of a box are not finite or too large.
    """
    return Detections(tuple(map(_box, message.boxes)), ())


@decoder_of("edgefirst_msgs/Mask")
def decode_mask(message: edgefirst_msgs.Mask | edgefirst_msgs.MaskBox) -> Mask:
    """Decode an edgefirst_msgs/Mask; the stamp is 0, as it has no header.

    With a declared length of 0 or 1, the number of classes follows from the size of the data.

    Raises:
        DecodeError: no valid message of this type, unknown encoding, or the data do not have the size that it
            declares.
    """
    return _mask(message)


@repeated_decoder_of("edgefirst_msgs/ModelInfo")
def decode_model_info(message: edgefirst_msgs.ModelInfo) -> ModelInfo:
    """Decode an edgefirst_msgs/ModelInfo, with or without the fields that newer devices send."""
    labels = tuple(displayed(str(label)) for label in message.labels)
    return ModelInfo(displayed(str(message.model_name)), labels)


def _box(box: edgefirst_msgs.DetectBox) -> Box:
    values = (float(box.center_x), float(box.center_y), float(box.width), float(box.height), float(box.score))
    if not all(map(math.isfinite, values)):
        raise DecodeError("box is not finite")
    if max(map(abs, values)) > _FARTHEST:
        raise DecodeError("box farther or larger than any sensor can see")
    center_x, center_y, width, height, score = values
    track = getattr(box, "track", None)
    if track is None:
        track_id, lifetime, created = box.track_id, box.track_lifetime, box.track_created
    else:
        track_id, lifetime, created = track.id, track.lifetime, track.created
    return Box(
        center_x=center_x,
        center_y=center_y,
        width=width,
        height=height,
        label=displayed(str(box.label)),
        score=score,
        distance_m=_or_zero(box.distance),
        speed_m_s=_or_zero(box.speed),
        track_id=displayed(str(track_id)),
        track_lifetime=int(lifetime),
        track_created_ns=time_ns(created),
    )


def _or_zero(value: float) -> float:
    """Zero stands for an unknown or impossible value."""
    return float(value) if abs(value) <= _FARTHEST else 0.0


def _mask(message: edgefirst_msgs.Mask | edgefirst_msgs.MaskBox) -> Mask:
    height, width, length = int(message.height), int(message.width), int(message.length)
    values = array(message.mask, np.uint8)
    if message.encoding == "zstd":
        values = _unpacked(values, height * width * (length if length > 1 else _MAX_CLASSES))
    elif message.encoding:
        raise DecodeError(f"mask encoding {quoted(message.encoding)}")
    if length <= 1:
        # older devices always send 1, whatever the number of classes
        length = max(len(values) // max(height * width, 1), 1)
    if len(values) != height * width * length:
        raise DecodeError("mask does not have the size of its shape")
    return Mask(values.reshape(height, width, length), bool(getattr(message, "boxed", False)))


def _unpacked(packed: npt.NDArray[np.uint8], most: int) -> npt.NDArray[np.uint8]:
    import zstandard  # noqa: PLC0415 - takes a moment, and few masks are packed

    data, most = packed.tobytes(), min(most, _MAX_MASK_BYTES)
    try:
        size = zstandard.frame_content_size(data)
        left = (size if 0 <= size < most else most) + 1  # the one shows that there is too much
        pieces: list[bytes] = []
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            while left and (piece := reader.read(min(left, _PIECE_BYTES))):
                pieces.append(piece)
                left -= len(piece)
        return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8)
    except zstandard.ZstdError as error:
        raise DecodeError("mask is not zstd data") from error


Triple = tuple[float, float, float]
_OPTICAL = "_optical"


def is_optical(frame_id: str) -> bool:
    """Whether a frame's name says that x is to the right, y down and z forward: REP 103's, or a driver's."""
    return bare(frame_id).removesuffix("_frame").removesuffix("_link").endswith(_OPTICAL)


@dataclass(frozen=True, slots=True)
class BoxAxes:
    """The frame that a message's boxes are in, and its axes.

    Attributes:
        frame_id: the frame's name.
        optical: its axes are x right, y down, z forward, not x forward, y left, z up.
    """

    frame_id: str
    optical: bool

    @classmethod
    def of(cls, frame_id: str, known: Iterable[str]) -> BoxAxes:
        """The frame and axes of a message.

        Centres are sent in optical axes whatever the frame: they become x = distance, y = -center_x,
        z = -center_y, except in a frame named ``*_optical``, which is optical (fusion before 1.7.2). One that
        no transform has stands for the frame without this ending.

        Args:
            frame_id: of the message.
            known: frames that transforms have.
        """
        frame = bare(frame_id)
        optical = is_optical(frame) and frame in map(bare, known)
        return cls(frame if optical else frame.removesuffix(_OPTICAL), optical)

    def centre_m(self, box: Box) -> Triple:
        """The middle of a box."""
        if self.optical:
            return box.center_x, box.center_y, box.distance_m
        return box.distance_m, -box.center_x, -box.center_y

    def extents_m(self, box: Box) -> Triple:
        """The extents of a box along the axes; it has none ahead, for which the width is taken."""
        return self.turned_extents_m((box.width, box.width, box.height))

    def turned_extents_m(self, forward_left_up: Triple) -> Triple:
        """Extents along these axes, of which those forward, to the left and up are given."""
        x, y, z = forward_left_up
        return (y, z, x) if self.optical else (x, y, z)
