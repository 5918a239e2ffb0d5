"""Radar cubes in PNG: the grid of the format's article, and back to the wire without a loss."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from edgefirst_samples import WIRE
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from edgefirst_ros.formats.edgefirst.prepare.cube import encode_cube, read_cube
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import encode_gray
from edgefirst_ros.model.radar import Axis, RadarCube

LAYOUTS = st.lists(st.sampled_from(Axis), max_size=5).map(tuple)


@st.composite
def cubes(draw: st.DrawFn) -> RadarCube:
    layout = draw(LAYOUTS)
    bins = [draw(st.integers(1, 4)) for _ in layout]
    is_complex = bool(bins) and draw(st.booleans())
    shape = (*bins[:-1], 2 * bins[-1]) if is_complex else tuple(bins)
    values = draw(hnp.arrays(np.int16, shape))
    scales = tuple(draw(st.lists(st.floats(width=32, allow_nan=False), max_size=5)))
    return RadarCube(values, layout, scales, is_complex, draw(st.integers(0, 2**64 - 1)))


def pixels_of(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image).astype(np.int64)


@given(cubes())
def test_every_cube_comes_back_exactly(cube: RadarCube) -> None:
    back = read_cube(encode_cube(cube))
    assert back.cube.dtype == np.int16
    np.testing.assert_array_equal(back.cube, cube.cube)
    assert back.cube.shape == cube.cube.shape
    assert (back.layout, back.scales, back.is_complex, back.radar_time_us) == (
        cube.layout,
        cube.scales,
        cube.is_complex,
        cube.radar_time_us,
    )


@given(st.permutations(range(4)))
def test_any_order_of_axes_gives_the_grid_of_the_article(order: list[int]) -> None:
    sequences, rx, ranges, dopplers = 2, 4, 3, 5
    values = np.arange(-60, 60, dtype=np.int16).reshape(sequences, ranges, rx, dopplers)
    wire = np.ascontiguousarray(values.transpose(order))
    cube = RadarCube(wire, tuple(WIRE[axis] for axis in order), (1.0,) * 4, False, 0)
    pixels = pixels_of(encode_cube(cube))
    assert pixels.shape == (sequences * ranges, rx * dopplers * 2)
    for s, r, a, d in np.ndindex(sequences, ranges, rx, dopplers):
        row, column = s * ranges + r, (a * dopplers + d) * 2
        assert pixels[row, column] == int(values[s, r, a, d]) + 32768
        assert pixels[row, column + 1] == 32768, "the imaginary part of a real value"


def test_the_wire_layout_is_a_plain_reshape() -> None:
    values = np.random.default_rng(1).integers(-32768, 32767, (2, 200, 4, 256), np.int16, endpoint=True)
    pixels = pixels_of(encode_cube(RadarCube(values, WIRE, (1.0, 0.1, 1.0, 0.2), True, 5)))
    assert pixels.shape == (400, 1024)
    np.testing.assert_array_equal(pixels, values.reshape(400, 1024).astype(np.int64) + 32768)


def test_the_text_tells_shape_and_axes() -> None:
    values = np.ones((200, 8), np.int16)
    png = encode_cube(RadarCube(values, (Axis.RANGE, Axis.DOPPLER), (0.5, 0.25), True, 77))
    with Image.open(io.BytesIO(png)) as image:
        assert image.text == {  # type: ignore[attr-defined]
            "shape": "1,1,200,4",
            "layout": "RANGE,DOPPLER",
            "lengths": "200,8",
            "scales": "0.5,0.25",
            "is_complex": "true",
            "offset": "32768",
            "radar_time_us": "77",
        }
        assert math.prod((1, 1, 200, 4)) * 2 == image.width * image.height


@pytest.mark.parametrize(
    ("cube", "reason"),
    [
        (RadarCube(np.zeros((2, 3), np.int16), WIRE, (), False, 0), "4 axes, shape 2"),
        (RadarCube(np.zeros((2, 3), np.int16), WIRE[:2], (), True, 0), "pairs"),
        (RadarCube(np.zeros((), np.int16), (), (), True, 0), "pairs"),
        (RadarCube(np.zeros((0, 4), np.int16), WIRE[:2], (), True, 0), "without values"),
    ],
)
def test_cubes_that_contradict_themselves_are_refused(cube: RadarCube, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        encode_cube(cube)


@pytest.mark.parametrize(
    "png",
    [b"", b"\x89PNG\r\n\x1a\n", encode_gray(np.zeros((2, 2), np.uint16))],
    ids=["empty", "torn", "another PNG"],
)
def test_reading_something_else_says_so(png: bytes) -> None:
    with pytest.raises(DecodeError, match=r"not a radar\.png"):
        read_cube(png)
