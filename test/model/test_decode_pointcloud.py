from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valid_messages import HEADER, VALUES
from wire_encoder import FieldValue, encode

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import KILOMETRES, TOO_FAR, PointCloud, decode_pointcloud, far_points

CODES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
SCHEMA = "sensor_msgs/PointCloud2"


def field(name: str, offset: int, datatype: int = 7, count: int = 1) -> dict[str, Any]:
    return {"name": name, "offset": offset, "datatype": datatype, "count": count}


XYZ = [field("x", 0), field("y", 4), field("z", 8)]


def cloud(fields: list[dict[str, Any]], data: bytes, **changes: FieldValue) -> PointCloud:
    step = changes.pop("point_step", 12)
    width = changes.pop("width", len(data) // step if step else 0)
    values = {
        "height": 1,
        "width": width,
        "point_step": step,
        "row_step": width * step,
        "data": data,
        **changes,
    }
    return decode_pointcloud(encode(SCHEMA, {"header": HEADER, "fields": fields, **values})).datum


def test_points_are_a_view_of_the_message() -> None:
    data = encode(SCHEMA, VALUES[SCHEMA])
    points = decode_pointcloud(data).datum.points
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    assert points.__array_interface__["data"][0] == start + data.index(VALUES[SCHEMA]["data"])
    assert not points.flags.writeable


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[dict[str, Any]], int]:
    fields, end = [], 0
    for index in range(draw(st.integers(1, 6))):
        end += draw(st.integers(0, 3))
        datatype, count = draw(st.integers(1, 8)), draw(st.integers(1, 3))
        fields.append(field(f"f{index}", end, datatype, count))
        end += np.dtype(CODES[datatype]).itemsize * count
    return draw(st.permutations(fields)), end + draw(st.integers(0, 5))


@settings(max_examples=150, deadline=None)
@given(layouts(), st.integers(1, 4), st.integers(1, 5), st.integers(0, 7), st.booleans())
def test_any_layout_reads_what_was_written(
    layout: tuple[list[dict[str, Any]], int],
    height: int,
    width: int,
    padding: int,
    bigendian: bool,
) -> None:
    fields, step = layout
    row_step = width * step + padding
    data = np.random.default_rng(row_step).bytes(row_step * height)
    made = cloud(
        fields, data, height=height, width=width, point_step=step, row_step=row_step, is_bigendian=bigendian
    )
    assert made.points.shape == (height * width,)
    assert made.points.dtype.itemsize == step
    assert not made.points.flags.writeable
    for one in fields:
        dtype = np.dtype((">" if bigendian else "<") + CODES[one["datatype"]])
        expected = [
            np.frombuffer(data, dtype, one["count"], row * row_step + column * step + one["offset"])
            for row in range(height)
            for column in range(width)
        ]
        column = made.column(one["name"], dtype.newbyteorder("=").type)
        assert column.dtype.isnative
        assert column.flags.c_contiguous
        assert column.shape == ((height * width,) if one["count"] == 1 else (height * width, one["count"]))
        native = np.array(expected).astype(dtype.newbyteorder("="))
        assert column.tobytes() == native.tobytes()


@pytest.mark.parametrize(("height", "width"), [(1, 0), (0, 1), (0, 0), (0, 2**32 - 1)])
def test_empty_clouds(height: int, width: int) -> None:
    made = cloud(XYZ, b"", height=height, width=width, point_step=16, row_step=0)
    assert made.xyz().shape == (0, 3)
    assert made.points.dtype.itemsize == 16
    assert not made.points.flags.writeable


def test_data_beyond_the_last_point_is_ignored() -> None:
    assert len(cloud(XYZ, bytes(24 + 5), width=2).points) == 2


@pytest.mark.parametrize("row_step", [0, 12, 48])
def test_a_row_step_that_a_driver_forgot_to_change_costs_nothing(row_step: int) -> None:
    data = np.arange(12, dtype="<f4").tobytes()
    made = cloud(XYZ, data, height=2, width=2, row_step=row_step)
    assert made.xyz().tobytes() == data


@pytest.mark.parametrize(
    ("reason", "fields", "changes"),
    [
        ("unknown datatype", [field("x", 0, 0)], {}),
        ("unknown datatype", [field("x", 0, 9)], {}),
        ("without unique names", [field("x", 0), field("x", 4)], {}),
        ("without unique names", [field("", 0)], {}),
        ("beyond the point step", [field("x", 9)], {}),
        ("beyond the point step", [field("x", 0, 8, 2)], {}),
        ("beyond the point step", [field("x", 2**32 - 1, 8, 2**32 - 1)], {}),
        ("beyond the point step", XYZ, {"point_step": 0, "width": 0}),
        ("without fields", [], {}),
        ("absurd point step", XYZ, {"point_step": 2**32 - 1, "width": 0}),
        ("rows overlap", XYZ, {"height": 3, "width": 1, "row_step": 11}),
        ("shorter than declared", XYZ, {"width": 3}),
        ("shorter than declared", XYZ, {"height": 3, "width": 1, "row_step": 13}),
        (
            "shorter than declared",
            XYZ,
            {
                "width": 2**32 - 1,
                "height": 2**32 - 1,
                "row_step": 2**32 - 1,
                "point_step": 1,
                "fields": [field("x", 0, 1)],
            },
        ),
    ],
)
def test_contradictions_are_refused(
    reason: str, fields: list[dict[str, Any]], changes: dict[str, Any]
) -> None:
    with pytest.raises(DecodeError, match=reason):
        cloud(changes.pop("fields", fields), bytes(24), **changes)


def test_coordinates_must_be_three_numbers() -> None:
    with pytest.raises(DecodeError, match="no field z"):
        cloud(XYZ[:2], bytes(12)).xyz()
    with pytest.raises(DecodeError, match="more than one number"):
        cloud([field("x", 0), field("y", 4), field("z", 8, 3, 2)], bytes(12)).xyz()


@pytest.mark.parametrize(
    ("metres", "found"),
    [
        ([3.0, 200.0, np.nan, np.inf], ""),
        ([3.0, 200.0, 900.0, 1e9], TOO_FAR),
        ([6000.0, 12.0, 12_000.0, 8000.0], KILOMETRES),
    ],
)
def test_a_lidar_that_sees_kilometres_is_told_from_stray_points(metres: list[float], found: str) -> None:
    points = np.zeros(len(metres), np.dtype([(axis, "f4") for axis in "xyz"]))
    points["x"] = metres
    assert far_points(PointCloud(points, 1, len(metres))) == found
