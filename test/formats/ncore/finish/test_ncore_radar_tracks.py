"""Cuboids of a radar's tracks: as large, where and whither as what drives past the rig."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from ncoremade import SEQUENCE, START_NS, box, observation
from ncoreread import Sequence, recover_all
from radartracks import CARS, MS, passing, tracks
from scipy.spatial.transform import Rotation
from test_ncore_flat_cuboids import passing as passing_boxes
from test_ncore_provenance import written

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import Look
from edgefirst_ros.formats.ncore.check import official
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.detection import Detections, relabelled
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import radar_cloud
from edgefirst_ros.model.sample import EgoPose, Observation, Role


@pytest.fixture(autouse=True)
def _no_official_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "find_python", lambda wanted=None: wanted)


def told(sequence: Sequence) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sequence.attributes("cuboids/default/cuboids")["cuboid_track_observations"]
    return found


def basis(sequence: Sequence) -> str:
    return str(sequence.attributes("cuboids/default")["generic_meta_data"].get("basis", "3-D boxes"))


@pytest.mark.parametrize("role", [Role.RADAR_TARGETS, Role.RADAR_CLUSTERS])
def test_tracks_are_where_and_as_large_as_the_radar_says_and_head_where_they_go(
    tmp_path: Path, role: Role
) -> None:
    found = written(tmp_path, passing(*CARS, role=role))
    cuboids = told(found)
    assert len(cuboids) == 20 * len(CARS)
    times = found.attributes("poses/default/dynamic_poses")["('rig', 'world')"]["timestamps_us"]
    rigs, mount = found.pose("rig", "world"), found.pose("radar", "rig")
    for number, each in enumerate(cuboids):
        car = CARS[number % len(CARS)]
        placed = rigs[times.index(each["timestamp_us"])] @ mount
        box3 = each["bbox3"]
        where = (placed @ [*box3["centroid"], 1.0])[:3]
        assert np.abs(where - car.at(each["timestamp_us"] * 1000)).max() < 0.01  # poses are float32
        assert box3["dim"] == list(car.size_m)
        ahead = placed[:3, :3] @ Rotation.from_euler("xyz", box3["rot"]).as_matrix()[:, 0]
        assert np.arctan2(ahead[1], ahead[0]) == pytest.approx(car.heading_rad, abs=0.02)
        assert each["track_id"] == f"/radar/tracks/{car.uuid}"
        assert each["class_id"] == ("dynamic" if car.classification == 2 else "class 32003")
    assert basis(found) == "tracks of a radar"
    (result,) = check(tmp_path, look=Look(quick=True, user="nurec"))
    assert result.ok, result.text
    (point,) = (each for each in result.points if each.name == "cuboids")
    assert "tracks of a radar" in point.found
    assert point.verdict == "fulfilled"


@pytest.mark.parametrize("role", [Role.RADAR_TARGETS, Role.RADAR_CLUSTERS])
def test_its_classes_have_the_names_that_are_configured(tmp_path: Path, role: Role) -> None:
    """By the number that is sent, which only its maker knows, or by the name of a known one."""
    names = {"32003": "truck", "dynamic": "vehicle"}
    steps = passing(*CARS, role=role)
    for number, step in enumerate(steps):
        if isinstance(step, Observation) and step.role is role:
            cloud = relabelled(step.measurement.datum, names)
            assert isinstance(cloud, PointCloud)
            datum = radar_cloud(cloud, {})  # in the order in which the pipeline does it
            steps[number] = replace(step, measurement=step.measurement._replace(datum=datum))
    assert {each["class_id"] for each in told(written(tmp_path, steps))} == {"vehicle", "truck"}


def test_radars_that_count_alike_have_tracks_of_their_own(tmp_path: Path) -> None:
    car, behind = CARS[0], replace(CARS[0], start_m=(-30.0, 0.0, 1.0), size_m=(1.0, 1.0, 1.0))
    steps = passing(car)
    steps += [tracks(START_NS + ms * MS, behind, frame="rear") for ms in range(0, 1000, 100)]
    cuboids = told(written(tmp_path, steps))
    sizes = {(each["track_id"].split("/")[1], *each["bbox3"]["dim"]) for each in cuboids}
    assert sizes == {("radar", *car.size_m), ("rear", 1.0, 1.0, 1.0)}


def test_a_track_without_extent_is_none_and_one_without_name_is_another_each_time(tmp_path: Path) -> None:
    car = CARS[0]
    steps = passing(
        replace(car, size_m=(4.5, 0.0, 1.5)),
        replace(car, size_m=(4.5, float("nan"), 1.5)),
        replace(car, start_m=(float("nan"), 0.0, 0.0)),
        replace(car, uuid=UUID(int=0), size_m=(4.5, 1.75, 0.0)),
    )
    cuboids = told(written(tmp_path, steps))
    assert len({each["track_id"] for each in cuboids}) == len(cuboids) == 20
    assert {tuple(each["bbox3"]["dim"]) for each in cuboids} == {(4.5, 1.75, 1.0)}


def test_a_size_that_varies_is_one_for_the_track(tmp_path: Path) -> None:
    steps: list[Observation | EgoPose] = [
        tracks(START_NS + ms * MS, replace(CARS[0], size_m=(length, 2.0, 1.5)))
        for ms, length in ((0, 4.0), (50, 4.5), (100, 9.0))
    ]
    assert {tuple(each["bbox3"]["dim"]) for each in told(written(tmp_path, steps))} == {(4.5, 2.0, 1.5)}


def test_boxes_of_a_model_come_first(tmp_path: Path) -> None:
    flat = [*passing_boxes(), *passing(*CARS)[2::3]]
    found = written(tmp_path / "flat", flat, cuboids_of_boxes2d=True)
    assert {each["class_id"] for each in told(found)} == {"car"}
    assert "along the ray" in basis(found)
    off = written(tmp_path / "off", flat)
    assert basis(off) == "tracks of a radar"
    for name, boxes in (("solid", (box(9.0, 1.0, 0.5),)), ("nothing", ())):
        seen = observation(Role.BOXES_3D, "/boxes3d", START_NS, Detections(boxes, ()), "lidar")
        found = written(tmp_path / name, [*flat, seen], cuboids_of_boxes2d=True)
        assert len(told(found)) == len(boxes)
        assert basis(found) == "3-D boxes"


@pytest.mark.parametrize("kept", [True, False], ids=["in memory", "in the journal"])
def test_a_crash_loses_no_tracks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool) -> None:
    whole = written(tmp_path / "whole", passing(*CARS))
    if not kept:
        monkeypatch.setattr("edgefirst_ros.formats.ncore.write.factwriter._LOOK_EVERY", 1)
        monkeypatch.setattr("edgefirst_ros.formats.ncore.write.factwriter._KEPT_BYTES", 1)
    writer = NCoreWriter(tmp_path / "cut", NCoreOptions())
    writer.begin(SEQUENCE)
    for step in passing(*CARS):
        if isinstance(step, EgoPose):
            writer.pose(step)
        else:
            writer.write(writer.prepare(step))
    if kept:
        writer.abort()
        assert len(recover_all(tmp_path / "cut")) == 1
    else:
        writer.close()
    cut = Sequence(tmp_path / "cut" / SEQUENCE.name)
    assert len(told(whole)) == 40
    assert {key for key in whole.records if whole.records[key] != cut.records.get(key)} == set()
    assert whole.records.keys() == cut.records.keys()


def test_the_scan_keeps_the_whole_name(tmp_path: Path) -> None:
    found = written(tmp_path, passing(*CARS))
    (at, *_) = found.attributes("radars/radar/frames")["frames_timestamps_us"]
    names = found.array(f"radars/radar/frames/{at[-1]}/generic_data/uuid")
    assert [UUID(bytes=row.tobytes()) for row in names] == [car.uuid for car in CARS]
