"""What sequences say of where they come from, and the rig's origin where a vehicle is configured."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from ncoremade import (
    CALIBRATION,
    CAMERA_INFO,
    SEQUENCE,
    START_NS,
    box,
    camera,
    drive,
    imu,
    lidar,
    observation,
    pose,
)
from ncoreread import Sequence

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import Look
from edgefirst_ros.formats.ncore.check import official
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.poses import inverse
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.detection import Detections, Mask, ModelInfo, relabelled
from edgefirst_ros.model.sample import Calibration, EgoPose, Observation, Role, SequenceInfo, Vehicle
from edgefirst_ros.model.transform import Transform

AXLE_M = (-1.3, 0.1, -0.4)
VAN = Vehicle(4.5, 1.8, 1.6, AXLE_M, 0.9, "van")
MS = 1_000_000


@pytest.fixture(autouse=True)
def _no_official_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "find_python", lambda wanted=None: wanted)


def written(
    root: Path, steps: list[Observation | EgoPose], info: SequenceInfo = SEQUENCE, **options: object
) -> Sequence:
    writer = NCoreWriter(root, NCoreOptions.model_validate(options))
    writer.begin(info)
    for step in steps:
        if isinstance(step, EgoPose):
            writer.pose(step)
        else:
            writer.write(writer.prepare(step))
    writer.close()
    return Sequence(root / info.name)


def test_every_sequence_says_who_made_it_of_what(tmp_path: Path) -> None:
    found = written(tmp_path, [*drive(0.3)], replace(SEQUENCE, pictures="one of 2"))
    assert found.meta["generic_meta_data"] == {
        "host": "maivin", "name": SEQUENCE.name, "part": 0, "converter": "edgefirst_ros",
        "converter_version": version("edgefirst_ros"), "source": "real", "pictures": "one of 2",
    }  # fmt: skip
    said = found.attributes("poses/default")["generic_meta_data"]
    assert said["calibration_type"] == "edgefirst_ros:transforms"
    assert said["egomotion_type"] == "edgefirst_ros:gnss-imu"


def test_what_a_simulator_made_is_not_real(tmp_path: Path) -> None:
    mask = Mask(np.zeros((2, 2, 1), np.uint8), boxed=False)
    label = observation(Role.MASK, "/model/mask", START_NS, mask, "camera_optical")
    for simulated, model in ((True, "yolo"), (False, "truth")):
        calibration = replace(CALIBRATION, model_info=ModelInfo(model, ("car",)))
        found_boxes = Detections((box(9.0, 1.0, 0.5),), ())
        boxes = observation(
            Role.BOXES_3D, "/boxes3d", START_NS, found_boxes, "lidar", calibration=calibration
        )
        info = replace(SEQUENCE, simulated=simulated)
        found = written(tmp_path / model, [boxes, camera(START_NS), label, lidar(START_NS)], info)
        assert found.meta["generic_meta_data"]["source"] == "simulation"
        (cuboid,) = found.attributes("cuboids/default/cuboids")["cuboid_track_observations"]
        assert (cuboid["source"], cuboid["source_version"]) == ("GT_SYNTHETIC", model)
        labels = found.attributes("camera_labels/segmentation.semantic@camera_optical/labels")
        assert labels["descriptor"]["label_source"] == "GT_SYNTHETIC"


def test_types_say_what_is_assumed_and_what_poses_are_of(tmp_path: Path) -> None:
    bare_ = [camera(START_NS, calibration=Calibration())]
    said = written(tmp_path / "a", bare_).attributes("poses/default")["generic_meta_data"]
    assert said["calibration_type"] == "edgefirst_ros:assumed"
    assert said["egomotion_type"] == "edgefirst_ros:assumed"
    wheels = [replace(pose(START_NS + ms * MS), origin=None) for ms in (0, 50)]
    steps = [camera(START_NS), lidar(START_NS, calibration=CALIBRATION), *wheels]
    unknown = observation(
        Role.CAMERA, "/rear", START_NS, steps[0].measurement.datum, "rear", image=steps[0].image
    )
    said = written(tmp_path / "b", [*steps, unknown]).attributes("poses/default")["generic_meta_data"]
    assert said["calibration_type"] == "edgefirst_ros:transforms-assumed"
    assert said["egomotion_type"] == "edgefirst_ros:odometry"


def steps() -> list[Observation | EgoPose]:
    """On a slope, so that the way to the axle turns with the rig."""
    found: list[Observation | EgoPose] = []
    for ms in range(0, 500, 50):
        now = START_NS + ms * MS
        tilted = replace(pose(now), rotation_xyzw=(0.1, 0.2, 0.3, float(np.sqrt(1 - 0.14))))
        found += [tilted, imu(now), camera(now, ms), lidar(now, ms)]
        boxes = Detections((box(10.0, 2.0, 0.5), box(0.5, 0.5, 0.5, track="8")), ())
        found += [observation(Role.BOXES_3D, "/boxes3d", now, boxes, frame) for frame in ("base_link", "")]
    return found


def on_earth(found: Sequence, frame: str) -> np.ndarray:
    """T_frame_ecef at every pose of the rig."""
    rig_ecef = found.pose("world", "world_global") @ found.pose("rig", "world")
    return rig_ecef @ (np.eye(4) if frame == "rig" else found.pose(frame, "rig"))


def test_the_rigs_origin_goes_to_the_axle_and_nothing_else_moves(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain", steps())
    moved = written(tmp_path / "moved", steps(), replace(SEQUENCE, vehicle=VAN))
    for frame in ("camera_optical", "lidar", "radar"):
        assert np.abs(on_earth(moved, frame) - on_earth(plain, frame)).max() < 2e-5  # float32 of some metres
    assert np.abs(on_earth(moved, "base_link") - on_earth(plain, "rig")).max() < 2e-5
    to_axle = inverse(on_earth(plain, "rig")[3]) @ on_earth(moved, "rig")[3]
    assert to_axle == pytest.approx(np.block([[np.eye(3), np.array([AXLE_M]).T], [np.zeros(3), 1]]), abs=2e-5)
    assert np.array_equal(moved.pose("rig", "world")[0], np.eye(4))
    seen = [
        each.attributes("cuboids/default/cuboids")["cuboid_track_observations"] for each in (plain, moved)
    ]
    assert {each["reference_frame_id"] for each in seen[0]} == {"rig"}
    assert [each | {"reference_frame_id": "base_link"} for each in seen[0]] == seen[1]
    assert moved.attributes("poses/default")["generic_meta_data"]["rig_origin"].startswith(
        "middle of the rear"
    )
    (result,) = check(tmp_path / "moved", look=Look(quick=True, user="nurec"))
    assert result.ok, result.text
    assert next(point.verdict for point in result.points if point.name == "rig_origin") == "fulfilled"


def test_the_vehicles_box_stands_over_its_axle(tmp_path: Path) -> None:
    meta = written(tmp_path / "a", steps(), replace(SEQUENCE, vehicle=VAN)).meta["generic_meta_data"]
    assert meta["platform_class"] == "van"
    assert meta["vehicle-bbox"] == {"centroid": [1.35, 0, 0.8], "dim": [4.5, 1.8, 1.6], "rot": [0, 0, 0]}
    assert "vehicle_assumed" not in meta
    bare_ = Vehicle(5.0, 2.0, 2.0)
    found = written(tmp_path / "b", steps(), replace(SEQUENCE, vehicle=bare_)).meta["generic_meta_data"]
    assert found["vehicle-bbox"]["centroid"] == [1.5, 0, 1]
    assert found["vehicle_assumed"] == ["rear_axle_m", "rear_overhang_m"]
    (result,) = check(tmp_path / "b", look=Look(quick=True, user="nurec"))
    assert next(point.verdict for point in result.points if point.name == "rig_origin") == "unknown"


def pair(apart_m: float, baseline_m: float = 0.12) -> list[Observation | EgoPose]:
    """Two cameras apart along x of their pictures, the right one with a baseline in its CameraInfo."""
    mounts = {
        name: Transform("base_link", name, (1.0, y, 1.2), (-0.5, 0.5, -0.5, 0.5))
        for name, y in (("left", 0.0), ("right", -apart_m))
    }
    p = np.array([[60.0, 0, 31.5, 0], [0, 61.0, 23.5, 0], [0, 0, 1, 0]])
    shifted = p.copy()
    shifted[0, 3] = -60.0 * baseline_m
    found: list[Observation | EgoPose] = []
    for name, projection in (("left", p), ("right", shifted)):
        own = Calibration(camera_info=replace(CAMERA_INFO, p=projection), transforms=mounts)
        seen = camera(START_NS, calibration=own)
        found.append(
            replace(seen, measurement=seen.measurement._replace(topic=f"/{name}/image", frame_id=name))
        )
    return found


def test_stereo_pairs_are_those_that_are_certain(tmp_path: Path) -> None:
    told = [{"left": "left", "right": "right"}]
    assert written(tmp_path / "a", pair(0.12)).meta["generic_meta_data"]["stereo_pairs"] == told
    assert "stereo_pairs" not in written(tmp_path / "b", pair(0.2)).meta["generic_meta_data"]
    assert "stereo_pairs" not in written(tmp_path / "c", pair(0.12, 0.0)).meta["generic_meta_data"]


def test_labels_by_pixel_have_a_map_of_classes(tmp_path: Path) -> None:
    info = ModelInfo("m", ("background", "person", "car"))
    known = replace(CALIBRATION, model_info=info)
    every = [
        replace(each, calibration=known) if isinstance(each, Observation) else each for each in drive(0.2)
    ]
    found = written(tmp_path, every)
    names = found.instances("camera_labels")
    metas = {name: found.attributes(f"camera_labels/{name}")["generic_meta_data"] for name in names}
    maps = {name: meta.get("label-class-string-id-map") for name, meta in metas.items()}
    assert maps["segmentation.semantic@camera_optical"] == {"background": 0, "person": 1, "car": 2}
    assert maps["depth.z@camera_optical"] is None


def test_names_of_classes_are_changed_where_they_are_decoded() -> None:
    names = {"car": "automobile", "3": "bus"}
    assert relabelled(ModelInfo("m", ("car", "dog")), names) == ModelInfo("m", ("automobile", "dog"))
    boxes = Detections((box(1, 2, 3, "car"), box(1, 2, 3, "3"), box(1, 2, 3, "dog")), ())
    told = relabelled(boxes, names)
    assert isinstance(told, Detections)
    assert [each.label for each in told.boxes] == ["automobile", "bus", "dog"]
    assert relabelled(CAMERA_INFO, names) is CAMERA_INFO
