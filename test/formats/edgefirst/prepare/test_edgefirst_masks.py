"""Masks as polygons and rasters: filled again, the polygons give the mask back."""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt
import pytest
from edgefirst_samples import box
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from edgefirst_ros.formats.edgefirst.prepare.annotations import Outline, class_outlines, instance_outline
from edgefirst_ros.model.detection import Mask
from edgefirst_ros.model.errors import DecodeError


def rings(outline: Outline) -> list[npt.NDArray[np.float32]]:
    return [np.frombuffer(base64.b64decode(ring), "<f4").reshape(-1, 2) for ring in outline.polygons]


def filled(outline: Outline, height: int, width: int) -> npt.NDArray[np.bool_]:
    """Even-odd rule at the pixel centres: a ray to the right crosses an odd number of edges."""
    y, x = np.mgrid[:height, :width]
    y, x = (y + 0.5) / height, (x + 0.5) / width
    inside = np.zeros((height, width), np.bool_)
    for ring in rings(outline):
        for (x0, y0), (x1, y1) in zip(
            ring.astype(float), np.roll(ring, -1, axis=0).astype(float), strict=True
        ):
            crosses = (y0 > y) != (y1 > y)
            with np.errstate(divide="ignore", invalid="ignore"):
                inside ^= crosses & (x < x0 + (y - y0) / (y1 - y0) * (x1 - x0))
    return inside


# every class index but background once at most, so that small arrays have something to outline
CLASSES = hnp.arrays(
    np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.integers(0, 3)
)


@given(CLASSES)
def test_polygons_of_a_class_cover_its_pixels_and_no_others(classes: npt.NDArray[np.uint8]) -> None:
    found = dict(class_outlines(Mask(classes[:, :, None], boxed=False)))
    assert list(found) == sorted(set(classes.ravel().tolist()) - {0}), "0 is background"
    for index, outline in found.items():
        np.testing.assert_array_equal(outline.raster, classes == index)
        np.testing.assert_array_equal(filled(outline, *classes.shape), classes == index)
        for ring in rings(outline):
            assert len(ring) >= 3
            assert (ring >= 0).all()
            assert (ring <= 1).all()


def test_the_raster_is_a_one_bit_png() -> None:
    classes = np.zeros((5, 11), np.uint8)
    classes[1:3, 2:7] = 4
    ((_, outline),) = class_outlines(Mask(classes[:, :, None], boxed=False))
    with Image.open(io.BytesIO(base64.b64decode(outline.png()))) as image:
        assert image.mode == "1"
        np.testing.assert_array_equal(np.asarray(image), classes == 4)


def test_straight_edges_have_no_points_between_their_corners() -> None:
    classes = np.zeros((20, 20), np.uint8)
    classes[4:16, 5:15] = 1
    ((_, outline),) = class_outlines(Mask(classes[:, :, None], boxed=False))
    (ring,) = rings(outline)
    assert len(ring) == 8, "each corner is cut by half a pixel"
    np.testing.assert_allclose(ring.min(axis=0) * 20, [5, 4])
    np.testing.assert_allclose(ring.max(axis=0) * 20, [15, 16])


def test_of_several_channels_the_greatest_score_wins() -> None:
    scores = np.zeros((2, 3, 3), np.uint8)
    scores[:, :, 0] = 100
    scores[0, 0, 2] = 101
    scores[1, 2, 1] = 200
    scores[1, 1, 1] = 100
    found = dict(class_outlines(Mask(scores, boxed=False)))
    assert list(found) == [1, 2]
    assert np.argwhere(found[1].raster).tolist() == [[1, 2]], (
        "an equal score does not displace the lower class"
    )
    assert np.argwhere(found[2].raster).tolist() == [[0, 0]]


def test_an_instance_mask_lies_in_its_box() -> None:
    scores = np.zeros((10, 20, 1), np.uint8)
    scores[2:8, 5:15] = 128
    scores[0, 0] = 127
    outline = instance_outline(Mask(scores, boxed=True), box(0.5, 0.4, 0.25, 0.5))
    assert outline is not None
    assert outline.raster.shape == (20, 80), "the image at the mask's own resolution"
    found = np.argwhere(outline.raster)
    np.testing.assert_array_equal([found.min(axis=0), found.max(axis=0)], [[5, 35], [10, 44]])
    np.testing.assert_array_equal(filled(outline, 20, 80), outline.raster)


@given(
    hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)),
    st.tuples(*[st.floats(-0.2, 1.2)] * 2, *[st.floats(1e-5, 3)] * 2),
)
def test_instance_masks_of_any_box_stay_in_the_image(
    scores: npt.NDArray[np.uint8], place: tuple[float, float, float, float]
) -> None:
    outline = instance_outline(Mask(scores[:, :, None], boxed=True), box(*place))
    if outline is None:
        return
    height, width = outline.raster.shape
    assert max(height, width) <= 2048
    x, y, w, h = place
    for row, column in np.argwhere(outline.raster)[:50]:
        assert abs((column + 0.5) / width - x) <= w / 2 + 1e-9
        assert abs((row + 0.5) / height - y) <= h / 2 + 1e-9
    for ring in rings(outline):
        assert len(ring) >= 3
        assert (ring >= 0).all()
        assert (ring <= 1).all()


def test_no_pixel_of_the_object_is_no_outline() -> None:
    assert instance_outline(Mask(np.full((4, 4, 1), 127, np.uint8), boxed=True), box()) is None
    far_left = box(-2.0, 0.5, 0.1, 0.1)
    assert instance_outline(Mask(np.full((4, 4, 1), 255, np.uint8), boxed=True), far_left) is None


@pytest.mark.parametrize("shape", [(4, 4, 2), (0, 4, 1), (4, 0, 1)])
def test_instance_masks_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DecodeError, match="instance mask of shape"):
        instance_outline(Mask(np.zeros(shape, np.uint8), boxed=True), box())
