"""PNG files, judged by Pillow."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import GrayPixels, chunks, encode_gray, encode_rgb, read_header

MODES = {np.dtype(np.bool_): "1", np.dtype(np.uint8): "L", np.dtype(np.uint16): "I;16"}
IMAGES = st.sampled_from([np.bool_, np.uint8, np.uint16]).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=2, max_dims=2, max_side=40))
)


@given(IMAGES)
def test_pillow_reads_the_same_pixels(pixels: GrayPixels) -> None:
    data = encode_gray(pixels, {"shape": "1,2,3,4", "Comment": "Höhe"})
    Image.open(io.BytesIO(data)).verify()
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == MODES[pixels.dtype]
        np.testing.assert_array_equal(np.asarray(image), pixels)
        assert image.text == {"shape": "1,2,3,4", "Comment": "Höhe"}  # type: ignore[attr-defined]
    assert data[25] == 0, "colour type gray"


def test_views_that_are_not_contiguous() -> None:
    pixels = np.arange(600, dtype=np.uint16).reshape(20, 30).T[::2]
    with Image.open(io.BytesIO(encode_gray(pixels))) as image:
        np.testing.assert_array_equal(np.asarray(image), pixels)


@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))))
def test_pillow_reads_the_same_colours(pixels: np.ndarray) -> None:
    with Image.open(io.BytesIO(encode_rgb(pixels))) as image:
        assert image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), pixels)


def test_every_cut_and_every_damaged_chunk_is_found() -> None:
    data = encode_gray(np.arange(6, dtype=np.uint8).reshape(2, 3))
    assert read_header(data[:20]) is None
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            list(chunks(data[:end]))
    damaged = data.replace(b"IDAT", b"IDAU")
    with pytest.raises(DecodeError, match="IDAU' is damaged"):
        list(chunks(damaged))
    assert [kind for kind, _, _ in chunks(damaged, verify=False)] == [b"IHDR", b"IDAU", b"IEND"]
