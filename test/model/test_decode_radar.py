from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valid_messages import VALUES
from wire_encoder import FieldValue, encode

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.radar import Axis, RadarCube, RadarInfo, decode_radar_cube, decode_radar_info

SCHEMA = "edgefirst_msgs/RadarCube"


def cube(**changes: FieldValue) -> RadarCube:
    return decode_radar_cube(encode(SCHEMA, {**VALUES[SCHEMA], **changes})).datum


def test_the_cube_of_the_wire() -> None:
    made = cube()
    assert made.layout == (Axis.SEQUENCE, Axis.RANGE, Axis.RXCHANNEL, Axis.DOPPLER)
    assert made.scales == (1, 0.5, 1, 0.25)
    assert made.is_complex
    assert made.radar_time_us == 123_456_789_012
    assert made.cube.dtype == np.int16
    assert made.cube.dtype.isnative
    assert made.cube.shape == (2, 3, 1, 4)
    assert made.cube.ravel().tolist() == VALUES[SCHEMA]["cube"]
    assert not made.cube.flags.writeable


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_any_rank_and_order_of_axes(shape: list[int], data: st.DataObject) -> None:
    layout = data.draw(st.lists(st.integers(0, 6), min_size=len(shape), max_size=len(shape)))
    scales = data.draw(st.lists(st.floats(0, 8, width=32), max_size=len(shape)))
    values = [index - 50 for index in range(math.prod(shape))]
    made = cube(layout=bytes(layout), shape=shape, scales=scales, cube=values, is_complex=False)
    assert made.cube.shape == tuple(shape)
    assert made.layout == tuple(map(Axis, layout))
    assert made.scales == tuple(scales) + (1.0,) * (len(shape) - len(scales))
    for flat, index in enumerate(itertools.product(*map(range, shape))):
        assert made.cube[index] == values[flat]


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("size of its shape", {"shape": [2, 3, 1, 5]}),
        ("size of its shape", {"shape": []}),
        ("size of its shape", {"shape": [65535] * 4}),
        ("size of its shape", {"cube": [0] * 23}),
        ("is empty", {"cube": [], "shape": [0, 3, 1, 4]}),
        ("differ in rank", {"layout": b"\1\2\3"}),
        ("differ in rank", {"layout": b""}),
        ("more scales than axes", {"scales": [1] * 5}),
        ("not finite", {"scales": [1, math.nan, 1, 1]}),
        ("not finite", {"scales": [math.inf]}),
        ("odd last axis", {"shape": [2, 4, 1, 3]}),
    ],
)
def test_contradictions_in_a_cube_are_refused(reason: str, changes: dict[str, Any]) -> None:
    with pytest.raises(DecodeError, match=reason):
        cube(**changes)


def test_radar_info() -> None:
    schema = "edgefirst_msgs/RadarInfo"
    info = decode_radar_info(encode(schema, VALUES[schema])).datum
    assert info == RadarInfo("low", "medium", "off", "high", cube=True)
