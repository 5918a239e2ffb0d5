"""Cuboids of 2-D boxes: an object that stands in the world, seen from a rig that passes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ncoremade import CALIBRATION, START_NS, box, camera, lidar, observation, pose
from ncoreread import Sequence
from test_ncore_provenance import written

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import Look
from edgefirst_ros.formats.ncore.check import official
from edgefirst_ros.formats.ncore.poses import inverse, matrix
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.detection import Box, Detections
from edgefirst_ros.model.sample import EgoPose, Observation, Role

MS = 1_000_000
SIZE, FOCAL, CENTRE = (640, 480), 400.0, (319.5, 239.5)
INFO = CameraInfo(
    *SIZE, "plumb_bob", (), np.array([[FOCAL, 0, CENTRE[0]], [0, FOCAL, CENTRE[1]], [0, 0, 1]]), np.eye(3),
    np.eye(3, 4),
)  # fmt: skip
KNOWN = replace(CALIBRATION, camera_info=INFO)
OBJECT_M = np.array([25.0, 3.0, 1.0, 1.0])
WIDTH_M, HEIGHT_M = 1.9, 1.6


@pytest.fixture(autouse=True)
def _no_official_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "find_python", lambda wanted=None: wanted)


def seen(time_ns: int, track: str = "a") -> Box:
    """The object as a pinhole sees it: pixels from the middle of the first one, shares from its edge."""
    rig = pose(time_ns)
    assert rig.position_m is not None
    assert rig.rotation_xyzw is not None
    mount = CALIBRATION.transforms["camera_optical"]
    world_camera = inverse(
        matrix(rig.position_m, rig.rotation_xyzw) @ matrix(mount.translation_m, mount.rotation_xyzw)
    )
    x, y, z, _ = world_camera @ OBJECT_M
    u, v = FOCAL * x / z + CENTRE[0] + 0.5, FOCAL * y / z + CENTRE[1] + 0.5
    wide, high = FOCAL * WIDTH_M / z / SIZE[0], FOCAL * HEIGHT_M / z / SIZE[1]
    distance = float(np.linalg.norm([x, y, z]))
    return Box(u / SIZE[0], v / SIZE[1], wide, high, "car", 0.8, distance, 0.0, track, 3, START_NS)


def passing(*others: Box) -> list[Observation | EgoPose]:
    found: list[Observation | EgoPose] = []
    for ms in range(0, 1000, 50):
        now = START_NS + ms * MS
        found += [pose(now), camera(now, ms, size=SIZE, calibration=KNOWN)]
        boxes = Detections((seen(now), *others), ())
        found.append(
            observation(Role.MODEL, "/model/output", now, boxes, "camera_optical", calibration=KNOWN)
        )
    return found


def in_world(sequence: Sequence) -> tuple[np.ndarray, list[dict[str, object]]]:
    """Middles of cuboids (N, 3), each by the rig's pose at its time."""
    told = sequence.attributes("cuboids/default/cuboids")["cuboid_track_observations"]
    times = sequence.attributes("poses/default/dynamic_poses")["('rig', 'world')"]["timestamps_us"]
    rigs, mount = sequence.pose("rig", "world"), sequence.pose("camera_optical", "rig")
    places = [
        (rigs[times.index(each["timestamp_us"])] @ mount @ [*each["bbox3"]["centroid"], 1.0])[:3]
        for each in told
    ]
    return np.array(places), told


def test_a_thing_that_stands_is_one_track_at_its_place(tmp_path: Path) -> None:
    found = written(tmp_path, passing(), cuboids_of_boxes2d=True)
    places, told = in_world(found)
    assert len(told) == 20
    assert np.abs(places - OBJECT_M[:3]).max() < 0.01  # poses are float32, times microseconds
    assert {(each["track_id"], each["class_id"], each["source"]) for each in told} == {
        ("a", "car", "AUTOLABEL")
    }
    assert told[0]["bbox3"]["dim"][2] == pytest.approx(HEIGHT_M, abs=0.02)  # type: ignore[index]
    assert "along the ray" in found.attributes("cuboids/default")["generic_meta_data"]["basis"]
    (result,) = check(tmp_path, look=Look(quick=True, user="nurec"))
    assert result.ok, result.text
    (point,) = (each for each in result.points if each.name == "cuboids")
    assert point.verdict == "fulfilled"
    assert "along the ray" in point.found


def test_what_has_no_track_no_distance_or_is_cut_is_nowhere(tmp_path: Path) -> None:
    good = seen(START_NS, "b")
    others = [
        replace(good, track_id=""),
        replace(good, distance_m=0.0),
        replace(good, center_x=0.99, width=0.1),
    ]
    _, told = in_world(written(tmp_path, passing(*others), cuboids_of_boxes2d=True))
    assert {each["track_id"] for each in told} == {"a"}


@pytest.mark.parametrize("why", ["3-D boxes", "off", "several cameras", "no transform"])
def test_cuboids_are_not_guessed_where_better_is_known_or_nothing(tmp_path: Path, why: str) -> None:
    steps, options = passing(), {"cuboids_of_boxes2d": why != "off"}
    known = KNOWN
    if why == "3-D boxes":
        steps.append(
            observation(
                Role.BOXES_3D, "/boxes3d", START_NS + 980 * MS, Detections((box(9.0, 1.0, 0.5),), ()), "lidar"
            )
        )
    elif why == "several cameras":
        known = replace(KNOWN, other_cameras={"rear": INFO})
    elif why == "no transform":
        known = replace(KNOWN, transforms={})
    steps = [each if isinstance(each, EgoPose) else replace(each, calibration=known) for each in steps]
    found = written(tmp_path, [*steps, lidar(START_NS + 990 * MS)], **options)
    told = found.attributes("cuboids/default/cuboids")["cuboid_track_observations"]
    assert len(told) == (why == "3-D boxes")
    assert "basis" not in found.attributes("cuboids/default")["generic_meta_data"]
