"""Rows from what models saw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from edgefirst_samples import TOPICS, box, class_mask, radar_targets, sample
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.formats.edgefirst.prepare.annotations import Annotations, annotate
from edgefirst_ros.model.detection import Box, Detections, Mask
from edgefirst_ros.model.sample import Datum, Role

INSTANCE = Mask(np.full((4, 4, 1), 255, np.uint8), boxed=True)


def annotated(
    companions: dict[Role, Datum], *, labels: tuple[str, ...] = ("background", "car", "person")
) -> Annotations:
    return annotate(sample(0, companions, labels=labels), with_raster=True)


def of_boxes(*boxes: Box, masks: tuple[Mask, ...] = ()) -> Annotations:
    return annotated({Role.MODEL: Detections(boxes, masks)})


def test_a_box_is_a_row() -> None:
    result = of_boxes(box(0.5, 0.25, 0.2, 0.1, track_id="t-1", score=0.75))
    (row,) = result.rows
    assert row.box2d == pytest.approx((0.5, 0.25, 0.2, 0.1))
    assert (row.label, row.label_index, row.object_id, row.box2d_score) == ("car", 1, "t-1", 0.75)
    assert (row.box3d, row.polygons, row.mask) == (None, None, None)
    assert result.topics == ["/model/output"]
    assert result.refused == []


@pytest.mark.parametrize(
    ("sent", "label", "index"),
    [
        ("car", "car", 1),
        ("2", "person", 2),
        ("7", "7", 7),
        ("dog", "dog", None),
        ("", None, None),
        ("²", "²", None),
    ],
)
def test_labels_are_looked_up_by_number(sent: str, label: str | None, index: int | None) -> None:
    (row,) = of_boxes(box(label=sent)).rows
    assert (row.label, row.label_index) == (label, index)


def test_without_a_model_numbers_stay_numbers() -> None:
    (row,) = annotated({Role.MODEL: Detections((box(label="2"),), ())}, labels=()).rows
    assert (row.label, row.label_index) == ("2", 2)


@given(*[st.floats(-2, 3)] * 2, *[st.floats(-1, 4)] * 2)
def test_boxes_are_clipped_to_the_image_or_refused(x: float, y: float, w: float, h: float) -> None:
    result = of_boxes(box(x, y, w, h))
    left, right = max(0.0, x - w / 2), min(1.0, x + w / 2)
    top, bottom = max(0.0, y - h / 2), min(1.0, y + h / 2)
    if right - left < 1e-6 or bottom - top < 1e-6:
        assert result.rows == []
        assert result.refused == [("/model/output", "2-D box without area inside the image")]
        return
    (row,) = result.rows
    expected = ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
    assert row.box2d == pytest.approx(expected, abs=1e-12)


def test_boxes_that_are_not_finite_are_refused_one_by_one() -> None:
    result = of_boxes(box(math.nan), box(), box(w=math.inf))
    assert len(result.rows) == 1
    assert result.refused == [("/model/output", "2-D box that is not finite")] * 2
    assert result.topics == ["/model/output"]


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan])
def test_scores_that_are_none_are_null(score: float) -> None:
    (row,) = of_boxes(box(score=score)).rows
    assert row.box2d_score is None


def test_an_instance_mask_shares_its_boxs_row() -> None:
    first, second, third = of_boxes(box(), box(0.3), box(0.7), masks=(INSTANCE, INSTANCE)).rows
    assert first.polygons
    assert first.mask
    assert second.polygons
    assert third.polygons is None


def test_a_refused_box_takes_its_mask_along_and_no_other() -> None:
    empty = Mask(np.zeros((4, 4, 1), np.uint8), boxed=True)
    (row,) = of_boxes(box(math.nan), box(0.3), masks=(INSTANCE, empty)).rows
    assert row.polygons is None


def test_rasters_are_left_out_when_not_asked_for() -> None:
    sent = sample(0, {Role.MODEL: Detections((box(),), (INSTANCE,)), Role.MASK: class_mask()})
    rows = annotate(sent, with_raster=False).rows
    assert [row.mask for row in rows] == [None] * 3
    assert all(row.polygons for row in rows)


def test_a_class_mask_has_a_row_a_class() -> None:
    for companions in ({Role.MASK: class_mask()}, {Role.MODEL: Detections((), (class_mask(),))}):
        rows = annotated(companions).rows  # type: ignore[arg-type]
        assert [(row.label, row.label_index) for row in rows] == [("car", 1), ("person", 2)]
        assert all(row.polygons and row.box2d is None for row in rows)


def test_mask_values_the_model_does_not_have_are_refused() -> None:
    result = annotated({Role.MASK: class_mask()}, labels=("background", "car"))
    assert [row.label for row in result.rows] == ["car"]
    assert result.refused == [("/model/mask", "mask value that is not a class of the model")]


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (INSTANCE, "instance mask without its box"),
        (Mask(np.zeros((0, 3, 1), np.uint8), boxed=False), "mask without pixels"),
    ],
)
def test_masks_without_a_place_are_refused(mask: Mask, reason: str) -> None:
    assert annotated({Role.MASK: mask}).refused == [("/model/mask", reason)]


def test_an_instance_mask_of_another_shape_costs_only_the_mask() -> None:
    wrong = Mask(np.zeros((4, 4, 3), np.uint8), boxed=True)
    result = of_boxes(box(), masks=(wrong,))
    assert result.rows[0].box2d
    assert result.refused == [("/model/output", "instance mask of shape 4×4×3")]


def test_three_d_boxes_by_the_wires_own_axes() -> None:
    sent = box(-2.0, 0.5, 1.8, 1.5, distance_m=12.0, score=0.6)
    (row,) = annotated({Role.BOXES_3D: Detections((sent,), ())}).rows
    assert row.box3d == (12.0, 2.0, -0.5, 1.8, 1.8, 1.5), "x, y, z, then along x (the width again), y, z"
    assert row.box3d_score == 0.6
    assert row.box2d is None


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (box(distance_m=math.inf), "3-D box that is not finite"),
        (box(w=0.0, distance_m=3.0), "3-D box without volume"),
        (box(h=-1.0, distance_m=3.0), "3-D box without volume"),
    ],
)
def test_three_d_boxes_that_are_none_are_refused(sent: Box, reason: str) -> None:
    result = annotated({Role.BOXES_3D: Detections((sent,), ())})
    assert (result.rows, result.refused) == ([], [("/fusion/boxes3d", reason)])


def test_the_same_track_shares_a_row_if_the_labels_agree() -> None:
    flat = (box(track_id="a"), box(0.3, track_id="b", label="person"), box(0.7))
    solid = (
        box(track_id="a", label="1", distance_m=5.0),
        box(track_id="a", distance_m=6.0),
        box(track_id="b", distance_m=7.0),
        box(distance_m=8.0),
    )
    rows = annotated({Role.MODEL: Detections(flat, ()), Role.BOXES_3D: Detections(solid, ())}).rows
    shape = [(row.object_id, row.label, row.box2d is not None, row.box3d and row.box3d[0]) for row in rows]
    assert shape == [
        ("a", "car", True, 5.0),
        ("b", "person", True, None),
        (None, "car", True, None),
        ("a", "car", False, 6.0),
        ("b", "car", False, 7.0),
        (None, "car", False, 8.0),
    ]


def test_other_data_under_the_role_is_refused() -> None:
    result = annotated({Role.MODEL: radar_targets()})
    assert result.refused == [(TOPICS[Role.MODEL], "PointCloud instead of Detections")]
    assert result.topics == []
