"""Radars of other makers: whatever their drivers call a field, it is found in what is written."""

from __future__ import annotations

import math
from math import cos, sin
from typing import Any

import numpy as np
import pytest
from recorded import messages, record
from test_camera_kinds import as_type, header, run
from valid_messages import HEADER
from wire_encoder import encode
from written import Written, cloud

from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import (
    SYNONYMS,
    decode_radar_scan,
    decode_radar_tracks,
    radar_cloud,
)
from edgefirst_ros.model.sample import RawMessage

RADAR, LIDAR = "/radar/targets", "/lidar/points"


def made(**columns: list[float]) -> PointCloud:
    points = np.zeros(len(columns["x"]), [(name, "<f4") for name in columns])
    for name, values in columns.items():
        points[name] = values
    return PointCloud(points, 1, len(points))


@pytest.mark.parametrize(
    ("sent", "known"), [(sent, known) for known, names in SYNONYMS.items() for sent in names]
)
def test_usual_names_are_known_in_any_case(sent: str, known: str) -> None:
    renamed = radar_cloud(made(x=[1], y=[2], z=[3], **{sent.title(): [4], "rcs": [5]}), {})
    assert renamed.points.dtype.names == ("x", "y", "z", known, "rcs")
    assert renamed.points[known].tolist() == [4]


def test_a_cartesian_velocity_becomes_its_part_along_the_line_of_sight() -> None:
    sent = made(x=[3, 0, 0], y=[4, 5, 0], z=[0, 0, 0], velocity_x=[5, 2, 1], velocity_y=[5, -3, 1])
    assert radar_cloud(sent, {}).points["speed"].tolist() == [7, -3, 0]


def test_a_scan_is_in_cartesian_coordinates() -> None:
    returns = [
        {"range": 10, "azimuth": 0.5, "elevation": 0.25, "doppler_velocity": -3, "amplitude": 12.5},
        {"range": 2, "azimuth": -1.0, "elevation": 0, "doppler_velocity": 1, "amplitude": 1},
    ]
    data = encode("radar_msgs/RadarScan", {"header": HEADER, "returns": returns})
    scan = decode_radar_scan(data).datum
    expected = [
        (10 * cos(0.25) * cos(0.5), 10 * cos(0.25) * sin(0.5), 10 * sin(0.25), -3, 12.5),
        (2 * cos(1), -2 * sin(1), 0, 1, 1),
    ]
    assert scan.points.dtype.names == ("x", "y", "z", "speed", "power")
    assert np.allclose(scan.points.tolist(), expected, atol=1e-6)
    empty = encode("radar_msgs/RadarScan", {"header": HEADER, "returns": []})
    assert decode_radar_scan(empty).datum.points.shape == (0,)
    for field in ("range", "azimuth", "elevation"):
        odd = {**returns[0], field: math.inf}
        data = encode("radar_msgs/RadarScan", {"header": HEADER, "returns": [odd]})
        assert not all(map(math.isfinite, decode_radar_scan(data).datum.points.tolist()[0]))


def test_tracks_keep_their_identity_class_and_extent() -> None:
    track = {
        "uuid": {"uuid": bytes([1, 2, 3, 4, *[9] * 12])},
        "position": {"x": 3, "y": 4, "z": 0},
        "velocity": {"x": 5, "y": 5, "z": 7},
        "size": {"x": 4.5, "y": 2, "z": 1.5},
        "classification": 2,
    }
    data = encode("radar_msgs/RadarTracks", {"header": HEADER, "tracks": [track]})
    points = radar_cloud(decode_radar_tracks(data).datum, {}).points
    assert points["track_id"].tolist() == [0x04030201]
    assert points["uuid"].tolist() == [[1, 2, 3, 4, *[9] * 12]]
    assert (points["speed"][0], points["classification"][0], points["size_x"][0]) == (7, 2, 4.5)


def foreign(message: RawMessage) -> RawMessage:
    """A radar that calls its fields otherwise; a lidar one of whose points is where none can be."""
    if message.topic == RADAR:
        returns: list[dict[str, Any]] = [
            {"range": 10, "azimuth": 0, "elevation": 0, "doppler_velocity": -3, "amplitude": 12.5}
        ]
        return as_type(message, "radar_msgs/RadarScan", {"header": header(message), "returns": returns})
    if message.topic == LIDAR:
        points = np.array([[1, 2, 3], [2.7e15, 0, 0], [np.nan, 0, 0], [4, 5, 6]], "<f4")
        fields = [
            {"name": name, "offset": 4 * at, "datatype": 7, "count": 1} for at, name in enumerate("xyz")
        ]
        values = {"height": 1, "width": 4, "point_step": 12, "row_step": 48, "data": points.tobytes()}
        return as_type(
            message, "sensor_msgs/PointCloud2", {"header": header(message), "fields": fields, **values}
        )
    return message


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    content = [foreign(message) for message in messages(seconds=1.0, jpeg=True)]
    path = tmp_path_factory.mktemp("foreign") / "k_2026_05_01_09_00_00.mcap"
    return run(record(path, content), {})


def test_a_radar_scan_is_in_the_dataset(written: Written) -> None:
    scans = [cloud(data) for data in written.of_kind("radar.pcd").values()]
    assert scans
    for scan in scans:
        assert scan[["x", "speed", "power"]].tolist() == [(10, -3, 12.5)]
