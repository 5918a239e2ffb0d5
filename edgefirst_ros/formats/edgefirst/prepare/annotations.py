"""Boxes and masks of models as rows of the annotation table."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import contourpy
import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.edgefirst.store.journal import Annotation, Looked
from edgefirst_ros.model.detection import Box, BoxAxes, Detections, Mask, ModelInfo
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import encode_gray
from edgefirst_ros.model.sample import Role, Sample

SCORE_THRESHOLD = 128
"""Instance masks are sigmoid scores of 0 to 255: pixels of 0.5 or more belong to the object."""
BACKGROUND = 0
MAX_SIDE = 2048
"""Largest width and height of the raster of an instance mask, whose box may be arbitrarily small."""

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outline:
    """The pixels of an object: polygons as in ``Annotation``, and a raster (height, width) of the image."""

    polygons: tuple[str, ...]
    raster: Bits

    def png(self) -> str:
        """The raster as a 1-bit gray PNG in base64."""
        return base64.b64encode(encode_gray(self.raster)).decode()


def class_outlines(mask: Mask) -> Iterator[tuple[int, Outline]]:
    """Class index and outline of each class in a mask of the whole image, ascending.

    Several channels are scores of the classes: a pixel belongs to the class with the highest, of equal ones
    to the lowest class. One channel has class indices. Class 0 is background, as in the vendor's viewer.
    """
    classes = mask.mask.argmax(axis=2) if mask.mask.shape[2] > 1 else mask.mask[:, :, 0]
    for index in np.flatnonzero(np.bincount(classes.ravel())):
        if index != BACKGROUND:
            raster = classes == index
            yield int(index), Outline(_polygons(raster, (0, 0), raster.shape), raster)


def instance_outline(mask: Mask, box: Box) -> Outline | None:
    """The outline of a mask that covers ``box``, in the image scaled to the mask's resolution.

    Source: the vendor's model publisher, whose masks of boxes are sigmoid scores of the box's region.

    Returns:
        None if no pixel inside the image belongs to the object.

    Raises:
        DecodeError: the mask has several channels, or no pixels.
    """
    rows, columns, channels = mask.mask.shape
    if channels != 1 or not rows or not columns:
        raise DecodeError(f"instance mask of shape {rows}×{columns}×{channels}")
    height, y, source_row = _layout(box.center_y, box.height, rows)
    width, x, source_column = _layout(box.center_x, box.width, columns)
    window = mask.mask[np.ix_(source_row, source_column)][:, :, 0] >= SCORE_THRESHOLD
    if not window.any():
        return None
    raster = np.zeros((height, width), np.bool_)
    raster[y : y + len(source_row), x : x + len(source_column)] = window
    return Outline(_polygons(window, (y, x), raster.shape), raster)


def _layout(center: float, extent: float, pixels: int) -> tuple[int, int, npt.NDArray[np.intp]]:
    """The image's length at the mask's resolution, the first index in the box, the mask's index of each."""
    length = max(1, min(MAX_SIDE, round(pixels / extent)))
    source = ((np.arange(length) + 0.5) / length - (center - extent / 2)) / extent * pixels
    inside = np.flatnonzero((source >= 0.0) & (source < pixels))
    first = int(inside[0]) if len(inside) else 0
    return length, first, source[inside].astype(np.intp)


def _polygons(window: Bits, origin: tuple[int, int], shape: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(base64.b64encode(ring.tobytes()).decode() for ring in _rings(window, origin, shape))


def outline(raster: Bits) -> list[npt.NDArray[np.float32]]:
    """The polygons of a raster of the whole image, as rings (P, 2) of x and y."""
    return list(_rings(raster, (0, 0), raster.shape))


def _rings(
    window: Bits, origin: tuple[int, int], shape: tuple[int, ...]
) -> Iterator[npt.NDArray[np.float32]]:
    """Rings around pixels and holes (readers fill by the even-odd rule), normalised to the image.

    A ring runs halfway between the centres of pixels inside and outside, so it is always within 0..1.
    """
    padded = np.pad(window, 1).astype(np.float64)
    offset = np.array([origin[1], origin[0]], np.float64) - 0.5
    scale = np.array([shape[1], shape[0]], np.float64)
    lines = contourpy.contour_generator(z=padded, name="serial", line_type="Separate").lines(0.5)
    for line in lines:
        yield ((_corners(np.asarray(line)[:-1]) + offset) / scale).astype("<f4")


def _corners(ring: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ring without points on the straight line between their neighbours."""
    before = ring - np.roll(ring, 1, axis=0)
    after = np.roll(ring, -1, axis=0) - ring
    turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    corners: npt.NDArray[np.float64] = ring[turns != 0.0]
    return corners


ANNOTATION_ROLES = frozenset({Role.MODEL, Role.MASK, Role.BOXES_3D})
"""Roles whose messages become rows."""
LEAST_EXTENT = 1e-6
"""Boxes of less width or height count as empty; a fraction of the image, or metres."""


@dataclass(slots=True)
class Annotations:
    """Rows of one sample.

    Attributes:
        rows: the rows.
        looked: which messages say what is in the sample, be it nothing.
        topics: topics of the messages read.
        stored: for each topic, bytes of its rows in the journal.
        refused: (topic, reason) of messages, boxes and masks that are not stored.
    """

    rows: list[Annotation] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    stored: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)
    looked: set[Looked] = field(default_factory=set)

    def add(self, topic: str, rows: Iterable[Annotation]) -> None:
        """Append the rows of a topic."""
        for row in rows:
            self.rows.append(row)
            self.stored[topic] += row.size


def annotate(sample: Sample, *, with_raster: bool) -> Annotations:
    """Make rows of 2-D boxes, masks and 3-D boxes.

    A 2-D box, its instance mask, and the 3-D box of the same track and label share a row; everything else has
    a row of its own. Boxes that the format cannot hold are refused one by one.

    Args:
        sample: the sample.
        with_raster: store masks as rasters, too (schema 2026.10).
    """
    result = Annotations()
    labels = _Labels(sample.calibration.model_info)
    for role, datum_type in ((Role.MODEL, Detections), (Role.MASK, Mask), (Role.BOXES_3D, Detections)):
        measurement = sample.companions.get(role)
        if measurement is None:
            continue
        topic, datum = measurement.topic, measurement.datum
        if not isinstance(datum, datum_type):
            result.refused.append((topic, f"{type(datum).__name__} instead of {datum_type.__name__}"))
            continue
        result.topics.append(topic)
        result.looked |= _looked(role, datum)
        if isinstance(datum, Mask):
            result.add(topic, _class_rows(datum, topic, labels, result.refused, with_raster))
        elif isinstance(datum, Detections) and role is Role.MODEL:
            result.add(topic, _box_rows(datum, topic, labels, result.refused, with_raster))
            for mask in datum.masks:
                if not mask.boxed:
                    result.add(topic, _class_rows(mask, topic, labels, result.refused, with_raster))
        elif isinstance(datum, Detections):
            _add_boxes_3d(datum, topic, labels, result)
    return result


def _looked(role: Role, datum: Detections | Mask) -> set[Looked]:
    """What a message looked for: a model finds boxes, masks or both, and tells which by what it finds."""
    if isinstance(datum, Mask):
        return {Looked.MASK} if datum.mask.size else set()
    if role is Role.BOXES_3D:
        return {Looked.BOXES_3D}
    found = {Looked.MODEL}
    if datum.boxes:
        found.add(Looked.MODEL_BOXES)
    if any(mask.mask.size for mask in datum.masks):
        found.add(Looked.MODEL_MASKS)
    return found


class _Labels:
    """Finds names and indices of classes by the labels of the model in use; numeric labels are indices."""

    def __init__(self, info: ModelInfo | None) -> None:
        self._names = info.labels if info else ()

    def by_index(self, index: int) -> tuple[str, int]:
        name = self._names[index] if 0 <= index < len(self._names) else ""
        return name or str(index), index

    def by_name(self, label: str) -> tuple[str | None, int | None]:
        if label.isascii() and label.isdigit():
            return self.by_index(int(label))
        index = self._names.index(label) if label in self._names else None
        return label or None, index

    def is_class(self, index: int) -> bool:
        return not self._names or index < len(self._names)


def _box_rows(
    detections: Detections, topic: str, labels: _Labels, refused: list[tuple[str, str]], with_raster: bool
) -> Iterator[Annotation]:
    boxed = [mask if mask.boxed else None for mask in detections.masks]
    for index, box in enumerate(detections.boxes):
        try:
            box2d = _box2d(box)
        except DecodeError as error:
            refused.append((topic, str(error)))
            continue
        label, label_index = labels.by_name(box.label)
        row = Annotation(
            label=label,
            label_index=label_index,
            object_id=box.track_id or None,
            box2d=box2d,
            box2d_score=_score(box.score),
        )
        mask = boxed[index] if index < len(boxed) else None
        try:
            outline = instance_outline(mask, box) if mask else None
        except DecodeError as error:
            refused.append((topic, str(error)))
            outline = None
        if outline:
            row = replace(row, polygons=outline.polygons, mask=outline.png() if with_raster else None)
        yield row


def _class_rows(
    mask: Mask, topic: str, labels: _Labels, refused: list[tuple[str, str]], with_raster: bool
) -> Iterator[Annotation]:
    if mask.boxed:
        refused.append((topic, "instance mask without its box"))
        return
    if not mask.mask.size:
        refused.append((topic, "mask without pixels"))
        return
    for index, outline in class_outlines(mask):
        if not labels.is_class(index):
            refused.append((topic, "mask value that is not a class of the model"))
            continue
        label, label_index = labels.by_index(index)
        yield Annotation(
            label=label,
            label_index=label_index,
            polygons=outline.polygons,
            mask=outline.png() if with_raster else None,
        )


def _add_boxes_3d(detections: Detections, topic: str, labels: _Labels, result: Annotations) -> None:
    by_track = {row.object_id: index for index, row in enumerate(result.rows) if row.object_id}
    for box in detections.boxes:
        try:
            box3d = _box3d(box)
        except DecodeError as error:
            result.refused.append((topic, str(error)))
            continue
        label, label_index = labels.by_name(box.label)
        index = by_track.get(box.track_id)
        match = None if index is None else result.rows[index]
        if index is not None and match is not None and match.label == label and match.box3d is None:
            merged = result.rows[index] = replace(match, box3d=box3d, box3d_score=_score(box.score))
            result.stored[topic] += merged.size - match.size
            continue
        row = Annotation(
            label=label,
            label_index=label_index,
            object_id=box.track_id or None,
            box3d=box3d,
            box3d_score=_score(box.score),
        )
        result.add(topic, [row])


def _box2d(box: Box) -> tuple[float, float, float, float]:
    """Centre, width, height, clipped to the image."""
    if not all(map(math.isfinite, (box.center_x, box.center_y, box.width, box.height))):
        raise DecodeError("2-D box that is not finite")
    left, right = _clip(box.center_x, box.width)
    top, bottom = _clip(box.center_y, box.height)
    width, height = right - left, bottom - top
    if width < LEAST_EXTENT or height < LEAST_EXTENT:
        raise DecodeError("2-D box without area inside the image")
    return (left + right) / 2, (top + bottom) / 2, width, height


def _clip(center: float, extent: float) -> tuple[float, float]:
    return min(1.0, max(0.0, center - extent / 2)), min(1.0, max(0.0, center + extent / 2))


_AHEAD = BoxAxes("", optical=False)


def _box3d(box: Box) -> tuple[float, float, float, float, float, float]:
    """Centre and extents along x (forward), y (left), z (up) in metres.

    The message has no extent along x. The vendor's viewer draws the width instead, which is stored here.
    """
    values = (*_AHEAD.centre_m(box), *_AHEAD.extents_m(box))
    if not all(map(math.isfinite, values)):
        raise DecodeError("3-D box that is not finite")
    if min(values[3:]) <= LEAST_EXTENT:
        raise DecodeError("3-D box without volume")
    return values


def _score(score: float) -> float | None:
    return score if 0.0 <= score <= 1.0 else None
