"""PCD files, judged by pypcd4."""

from __future__ import annotations

import io
import re

import numpy as np
import pypcd4
import pytest
from edgefirst_samples import cloud, radar_targets
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgefirst_ros.formats.edgefirst.prepare.clouds import encode_lidar, encode_radar
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import FARTHEST_M, PointCloud

TYPES = ["u1", "i1", "<u2", ">u2", "<i2", ">i4", "<u4", "<f4", ">f4", "<f8", ">f8"]
NAMES = st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda name: name not in {"x", "y", "z"})


def header(data: bytes) -> dict[str, str]:
    text = data[: data.index(b"DATA binary\n")].decode("ascii")
    return dict(re.findall(r"^([A-Z]+) (.*)$", text, re.MULTILINE))


def read(data: bytes) -> np.ndarray:
    return pypcd4.PointCloud.from_fileobj(io.BytesIO(data)).pc_data  # type: ignore[arg-type]


@st.composite
def clouds(draw: st.DrawFn) -> PointCloud:
    """Finite points of any layout: any order and type of fields, with or without padding."""
    extra = draw(st.lists(NAMES.filter(bool), max_size=4, unique=True))
    names = draw(st.permutations(["x", "y", "z", *extra]))
    formats = [draw(st.sampled_from(TYPES)) for _ in names]
    gaps = [draw(st.integers(0, 3)) for _ in names]
    offsets, end = [], 0
    for kind, gap in zip(formats, gaps, strict=True):
        offsets.append(end + gap)
        end += gap + np.dtype(kind).itemsize
    dtype = np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": end + draw(st.integers(0, 3))}
    )
    height, width = draw(st.integers(1, 3)), draw(st.integers(0, 5))
    points = np.zeros(height * width, dtype)
    for name, kind in zip(names, formats, strict=True):
        finite = {"elements": {"allow_nan": False, "allow_infinity": False}} if "f" in kind else {}
        points[name] = draw(hnp.arrays(kind, len(points), **finite))
        if name in ("x", "y", "z"):
            points[name][np.abs(points[name].astype(float)) > FARTHEST_M] = 0
    return PointCloud(points, height, width)


@given(clouds())
def test_lidar_fields_come_back_as_on_the_wire(points: PointCloud) -> None:
    encoded = encode_lidar(points)
    back, names = read(encoded.data), points.points.dtype.names or ()
    assert encoded.left_out == 0
    assert len(back.dtype.names or ()) == len(names)
    for name, column in zip(names, back.dtype.names or (), strict=True):
        wire = points.points[name]
        assert back.dtype[column] == wire.dtype.newbyteorder("<")
        np.testing.assert_array_equal(back[column], wire)
    head = header(encoded.data)
    organised = points.height > 1 and points.width > 0
    assert int(head["WIDTH"]) == (points.width if organised else len(points.points))
    assert int(head["HEIGHT"]) == (points.height if organised or not points.width else 1)
    assert (int(head["POINTS"]), head["VERSION"]) == (len(points.points), "0.7")


def test_field_names_become_unique_pcd_tokens() -> None:
    one = np.ones(1, np.float32)
    names = ["x", "y", "z", "a b", "a_b", "_", "é", "#c"]
    data = encode_lidar(cloud(dict.fromkeys(names, one))).data
    assert header(data)["FIELDS"].split() == ["x", "y", "z", "a_b", "a_b_2", "field", "field_2", "_c"]


def test_several_values_in_a_field_are_a_count() -> None:
    normals = np.arange(12, dtype=np.float32).reshape(4, 3)
    points = cloud({**dict.fromkeys("xyz", np.ones(4, np.float32)), "normal": normals})
    data = encode_lidar(points).data
    assert header(data)["COUNT"] == "1 1 1 3"
    back = read(data)
    np.testing.assert_array_equal(np.stack([back[f"normal__{i:04d}"] for i in range(3)], 1), normals)


def test_radar_begins_with_the_seven_columns() -> None:
    targets = radar_targets(3, 6)
    fields = {name: targets.points[name] for name in targets.points.dtype.names or ()}
    wire = cloud({"cluster_id": np.arange(6, dtype=np.uint32), **fields})
    back = read(encode_radar(wire).data)
    assert back.dtype == np.dtype(
        [(name, "<f4") for name in ("x", "y", "z", "speed", "power", "noise", "rcs")]
        + [("cluster_id", "<u4")]
    )
    for name in (*fields, "cluster_id"):
        np.testing.assert_array_equal(back[name], wire.points[name])
    assert np.isnan(back["noise"]).all(), "which the wire does not have"


@pytest.mark.parametrize("encode", [encode_radar, encode_lidar])
def test_points_that_are_not_finite_are_left_out_and_counted(encode: object) -> None:
    x = np.array([1, np.nan, 3, np.inf, 5, 6], np.float32)
    points = cloud({"x": x, "y": x, "z": np.ones(6, np.float32)}, height=2)
    encoded = encode(points)  # type: ignore[operator]
    assert encoded.left_out == 2
    np.testing.assert_array_equal(read(encoded.data)["x"], [1, 3, 5, 6])
    assert (header(encoded.data)["WIDTH"], header(encoded.data)["HEIGHT"]) == ("4", "1")


def test_what_overflows_float32_is_not_finite_in_a_radar_file() -> None:
    points = cloud(dict.fromkeys("xyz", np.array([1e300, 2.0])))
    assert encode_radar(points).left_out == 1


def test_a_cloud_without_points_is_a_file_without_points() -> None:
    data = encode_radar(radar_targets(0, 0)).data
    assert len(read(data)) == 0
    assert header(data)["POINTS"] == "0"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"x": np.ones(1, np.float32), "y": np.ones(1, np.float32)}, "without z"),
        (dict.fromkeys("xyz", np.ones((1, 2), np.float32)), "more than one x, y or z"),
        ({**dict.fromkeys("xyz", np.ones(1, np.float32)), "h": np.ones(1, np.float16)}, "float16"),
        ({**dict.fromkeys("xyz", np.ones(1, np.float32)), "s": np.array(["a"], "S1")}, "S1"),
    ],
)
def test_clouds_that_pcd_cannot_hold_are_refused(fields: dict[str, np.ndarray], reason: str) -> None:
    for encode in (encode_radar, encode_lidar):
        with pytest.raises(DecodeError, match=reason):
            encode(cloud(fields))
