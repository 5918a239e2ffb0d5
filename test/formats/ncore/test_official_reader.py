"""What NVIDIA's own reader reads of our sequences is what was measured."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ncoremade import (
    CALIBRATION,
    HEIGHT,
    ORIGIN,
    SEQUENCE,
    START_NS,
    WIDTH,
    box,
    camera,
    cloud,
    cube,
    drive,
    lidar,
    observation,
    pose,
    radar,
)
from ncoreread import Sequence, recover_all
from oracle import NCORE_PYTHON, run_ncore
from PIL import Image
from radartracks import CARS, passing
from scipy.spatial.transform import Rotation

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.poses import enu_to_ecef, matrix
from edgefirst_ros.formats.ncore.write.writer import SPLIT_US, NCoreWriter
from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.detection import Detections, Mask
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Calibration, EgoPose, Observation, Role, SequenceInfo, Vehicle

SCRIPT = Path(__file__).with_name("official_conformance.py")
START_US = START_NS // 1000
MS = 1_000_000

Read = Callable[[Path], dict[str, Any]]


@pytest.fixture(scope="module")
def ncore_python() -> Path:
    """An interpreter with nvidia-ncore."""
    named = os.environ.get("EDGEFIRST_NCORE_PYTHON")
    python = Path(named) if named else NCORE_PYTHON
    if not python.exists():
        where = "EDGEFIRST_NCORE_PYTHON" if named else "no EDGEFIRST_NCORE_PYTHON, and"
        pytest.skip(f"the official reader is not installed: {where} {python} does not exist (make oracles)")
    return python


@pytest.fixture(scope="module")
def official(ncore_python: Path) -> Read:
    def read(folder: Path) -> dict[str, Any]:
        done = run_ncore(SCRIPT, folder / f"{folder.name}.json", python=ncore_python)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return read


def write(
    root: Path,
    steps: Iterable[Observation | EgoPose],
    *,
    kill: bool = False,
    overwrite: bool = False,
    info: SequenceInfo = SEQUENCE,
    split_us: int = SPLIT_US,
    **options: object,
) -> Path:
    writer = NCoreWriter(root, NCoreOptions(**options), overwrite=overwrite, split_us=split_us)  # type: ignore[arg-type]
    writer.begin(info)
    for step in steps:
        if isinstance(step, EgoPose):
            writer.pose(step)
        else:
            written = writer.write(writer.prepare(step))
            assert not written.refused
    if kill:
        writer.abort()
    else:
        writer.close()
    return root / SEQUENCE.name


def digest(array: np.ndarray) -> str:
    return f"{array.dtype.str}{list(array.shape)}{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def of(steps: Iterable[Observation | EgoPose], role: Role) -> list[Observation]:
    return [step for step in steps if isinstance(step, Observation) and step.role is role]


def micros(step: Observation) -> int:
    return step.measurement.time_ns // 1000


def points_of(step: Observation) -> np.ndarray:
    assert isinstance(step.measurement.datum, PointCloud)
    return step.measurement.datum.points


@pytest.fixture(scope="module", params=["itar", "directory"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["separate-sensors", "single"])
def driven(
    request: pytest.FixtureRequest, store: str, official: Read, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """A drive with everything, as the official reader reads it."""
    root = tmp_path_factory.mktemp("drive")
    Image.new("L", (WIDTH, HEIGHT), 255).save(root / "hood.png")
    masks = {"camera_optical": {"hood": root / "hood.png"}}
    options = {"store": store, "profile": request.param, "radar_cube": True, "ego_masks": masks}
    return official(write(root / "out", drive(0.5), **options))


STEPS = list(drive(0.5))


def test_sequence(driven: dict[str, Any]) -> None:
    assert driven["id"] == SEQUENCE.name
    assert driven["interval"] == [START_US, START_US + 490_001]
    assert driven["generic_meta_data"] == {
        "host": "maivin",
        "name": SEQUENCE.name,
        "part": 0,
        "converter": "edgefirst_ros",
        "converter_version": version("edgefirst_ros"),
        "source": "real",
        "pictures": "all",
    }


def test_cameras(driven: dict[str, Any]) -> None:
    (found,) = driven["cameras"].values()
    sent = of(STEPS, Role.CAMERA)
    assert found["frames"] == [[micros(step)] * 2 for step in sent]
    assert found["images"] == [hashlib.sha256(step.image.data).hexdigest() for step in sent if step.image]
    assert found["sizes"] == [[WIDTH, HEIGHT]] * len(sent)
    assert found["masks"] == {"hood": [WIDTH, HEIGHT]}
    parameters = found["parameters"]
    assert found["model"] == "OpenCVPinholeCameraModelParameters"
    assert parameters["radial_coeffs"] == pytest.approx([-0.1, 0.02, 0.003, 0, 0, 0])
    assert parameters["tangential_coeffs"] == pytest.approx([0.001, -0.002])
    assert parameters["principal_point"] == [32.0, 24.0]
    assert np.allclose(np.array(found["T_sensor_rig"]) @ [0, 0, 1, 1], [2.0, 0.0, 1.2, 1.0])


def test_lidars(driven: dict[str, Any]) -> None:
    found = driven["lidars"]["lidar"]
    sent = of(STEPS, Role.LIDAR_POINTS)
    assert found["frames"] == [[micros(step)] * 2 for step in sent]
    assert found["model"] is None
    for frame, step in zip(found["rays"], sent, strict=True):
        wire = points_of(step)
        assert np.allclose(frame["xyz"], np.stack([wire[axis] for axis in "xyz"], axis=1), atol=1e-4)
        assert np.allclose(np.array(frame["intensity"]) * 255, wire["reflect"], atol=1e-3)
        assert frame["finite"]
        assert frame["valid"]
        assert set(frame["times"]) == {micros(step)}
        assert frame["model_element"] is None


def test_radars_and_cubes(driven: dict[str, Any]) -> None:
    found = driven["radars"]["radar"]
    sent, cubes = of(STEPS, Role.RADAR_TARGETS), of(STEPS, Role.RADAR_CUBE)
    assert found["frames"] == [[micros(step)] * 2 for step in sent]
    for frame, step, each in zip(found["rays"], sent, cubes, strict=True):
        wire = points_of(step)
        assert np.allclose(frame["xyz"], np.stack([wire[axis] for axis in "xyz"], axis=1), atol=1e-4)
        values = each.measurement.datum.cube  # type: ignore[union-attr]
        assert frame["generic"] == {
            "power": digest(np.ascontiguousarray(wire["power"])),
            "radar_cube": digest(values),
            "radial_velocity_m_s": digest(np.ascontiguousarray(wire["speed"])),
            "rcs_dBsm": digest(np.ascontiguousarray(wire["rcs"])),
        }
        assert frame["meta"]["radar_cube"]["layout"] == ["SEQUENCE", "RANGE", "RXCHANNEL", "DOPPLER"]
        assert frame["meta"]["radar_cube"]["timestamp_us"] == micros(each)


def test_the_vehicle_is_where_it_was(driven: dict[str, Any]) -> None:
    found = driven["poses"]
    times = np.array(found["at"])
    angle = (times - START_US) / 1e6 * 0.2
    rig_world = np.array(found["rig_world"])
    assert np.allclose(rig_world[:, 0, 3], 50 * np.sin(angle), atol=0.02)
    assert np.allclose(rig_world[:, 1, 3], 50 * (1 - np.cos(angle)), atol=0.02)
    assert np.allclose(np.arctan2(rig_world[:, 1, 0], rig_world[:, 0, 0]), angle, atol=1e-5)
    T_enu_ecef = enu_to_ecef(ORIGIN.latitude_deg, ORIGIN.longitude_deg, ORIGIN.altitude_m)
    assert np.allclose(np.array(found["rig_ecef"]), T_enu_ecef @ rig_world, atol=1e-3)
    assert set(found["nodes"]) == {"camera_optical", "lidar", "mast", "radar", "rig", "world", "world_global"}
    assert len(found["generic"]["imu_timestamps_us"]) == 50
    assert found["generic"]["gps_altitude_m"] == [30.0] * 3
    assert found["meta"]["series"]["odom"]["kind"] == "odometry"


def test_poses_have_nurecs_types_and_lose_no_more_than_their_rounding(official: Read, tmp_path: Path) -> None:
    """A drive of ten kilometres that begins eleven from the first fix, so that its world matters."""
    mount = CALIBRATION.transforms["lidar"]
    rig = replace(CALIBRATION, transforms=dict(CALIBRATION.transforms) | {
        "lidar": replace(mount, translation_m=(1.1, -0.3, 2.7), rotation_xyzw=(0.1, -0.2, 0.3, 0.9)),
    })  # fmt: skip
    truth = {}
    steps: list[Observation | EgoPose] = []
    for ms in range(0, 200_001, 50):
        turn = Rotation.from_euler("ZYX", (0.3 + ms / 70_000, 0.1 * np.sin(ms / 900), 0.05))
        place = (7_000.1 + ms * 0.04, -9_000.7 + ms * 0.0301, 12.3 + ms * 1e-4)
        where = {"position_m": place, "rotation_xyzw": tuple(turn.as_quat().tolist())}
        steps.append(replace(pose(START_NS + ms * MS), **where))
        truth[START_US + ms * 1000] = matrix(place, turn.as_quat())
        if ms % 200_000 == 0:
            steps.append(lidar(START_NS + ms * MS, calibration=rig))
    found = official(write(tmp_path, steps))["poses"]
    assert {edge: dtype for edge, (dtype, _) in found["static"].items()} == {
        **dict.fromkeys(("lidar->rig", "mast->rig", "camera_optical->rig", "radar->rig"), "float32"),
        "world->world_global": "float64",
    }
    dtype, stored, times = found["dynamic"]["rig->world"]
    assert (list(found["dynamic"]), dtype) == (["rig->world"], "float32")
    first = truth[START_US]
    exact = np.stack([np.linalg.solve(first, truth[time]) for time in times])
    assert np.abs(exact[-1, :3, 3]).max() > 9_000
    off = np.abs(np.array(stored) - exact)
    assert (off <= 2.0**-24 * np.abs(exact) + 1e-10).all(), "rounded once, and nothing before"
    assert off[:, :3, 3].max() < 1e-3
    assert (np.array(stored)[:, 3] == (0.0, 0.0, 0.0, 1.0)).all()
    T_lidar_mast = matrix((1.1, -0.3, 2.7), (0.1, -0.2, 0.3, 0.9))
    T_mast_rig = np.array(found["static"]["mast->rig"][1])
    assert np.allclose(found["static"]["lidar->rig"][1], T_mast_rig @ T_lidar_mast, rtol=0, atol=4e-7)
    T_enu_ecef = enu_to_ecef(ORIGIN.latitude_deg, ORIGIN.longitude_deg, ORIGIN.altitude_m)
    assert np.abs(np.array(found["static"]["world->world_global"][1]) - T_enu_ecef @ first).max() < 1e-8
    on_earth = np.array(found["rig_ecef"])[[0, -1], :3, 3]
    expected = [(T_enu_ecef @ truth[time])[:3, 3] for time in (times[0], times[-1])]
    assert np.abs(on_earth - expected).max() < 1e-3


def test_a_rig_at_the_rear_axle_is_a_way_from_where_it_would_be(
    official: Read, ncore_python: Path, tmp_path: Path
) -> None:
    """NVIDIA's pose graph puts every sensor where it was; its box takes what is in the metadata."""
    axle_m = (-1.3, 0.1, -0.4)
    van = replace(SEQUENCE, vehicle=Vehicle(4.5, 1.8, 1.6, axle_m, 0.9))
    plain = official(write(tmp_path / "plain", STEPS, radar_cube=True))["poses"]
    folder = write(tmp_path / "moved", STEPS, info=van, radar_cube=True)
    moved = official(folder)["poses"]
    for each in ("lidar->rig", "camera_optical->rig", "radar->rig"):
        off = np.array(moved["static"][each][1]) - plain["static"][each][1]
        assert np.allclose(off[:3, 3], np.negative(axle_m), atol=1e-6)
        assert np.allclose(off[:, :3], 0, atol=1e-6)
    ways = np.array(moved["rig_ecef"])[:, :3, 3] - np.array(plain["rig_ecef"])[:, :3, 3]
    turned = np.array(plain["rig_ecef"])[:, :3, :3] @ np.array(axle_m)
    assert np.allclose(ways, turned, atol=1e-4)
    script = tmp_path / "box.py"
    script.write_text(
        "import json, sys; from ncore.data import BBox3\n"
        "box = json.load(open(sys.argv[1]))['generic_meta_data']['vehicle-bbox']\n"
        "print(BBox3(**{name: tuple(value) for name, value in box.items()}).to_array().tolist())"
    )
    done = run_ncore(script, folder / f"{folder.name}.json", python=ncore_python)
    assert json.loads(done.stdout) == pytest.approx([1.35, 0, 0.8, 4.5, 1.8, 1.6, 0, 0, 0]), done.stderr


def test_labels(driven: dict[str, Any]) -> None:
    semantic = driven["labels"]["segmentation.semantic@camera_optical"]
    masks = of(STEPS, Role.MASK)
    assert semantic["times"] == [micros(step) for step in masks]
    assert (semantic["type"], semantic["encoding"], semantic["unit"]) == (
        "SEGMENTATION.semantic", "IMAGE_ENCODED", "UNITLESS"
    )  # fmt: skip
    for found, step in zip(semantic["data"], masks, strict=True):
        assert isinstance(step.measurement.datum, Mask)
        small = Image.fromarray(step.measurement.datum.mask[..., 0])
        assert found == digest(np.asarray(small.resize((WIDTH, HEIGHT), Image.Resampling.NEAREST)))
    depth = driven["labels"]["depth.z@camera_optical"]
    assert (depth["type"], depth["unit"], depth["encoding"]) == ("DEPTH.z", "METERS", "RAW")
    for found, step in zip(depth["data"], of(STEPS, Role.DEPTH), strict=True):
        assert isinstance(step.measurement.datum, RawImage)
        metres = (step.measurement.datum.pixels.astype(np.float64) * 0.001 + 0.0).astype(np.float32)
        assert found == digest(metres)
    for name, label in driven["labels"].items():
        assert (label["camera"], label["default_name"]) == ("camera_optical", name)


def test_boxes_of_pictures(driven: dict[str, Any]) -> None:
    """A picture that the model answered for has its boxes, in its pixels; the others have none."""
    camera_ = driven["cameras"]["camera_optical"]
    sent = {micros(step): step.measurement.datum for step in of(STEPS, Role.MODEL)}
    assert len(sent) == 5
    seen = 0
    for (_, end_us), found, meta in zip(
        camera_["frames"], camera_["generic"], camera_["generic_meta"], strict=True
    ):
        datum = sent.get(end_us)
        if datum is None:
            assert (found, meta) == ({}, {})
            continue
        assert isinstance(datum, Detections)
        seen += 1
        corners = [
            (
                (b.center_x - b.width / 2) * WIDTH, (b.center_y - b.height / 2) * HEIGHT,
                (b.center_x + b.width / 2) * WIDTH, (b.center_y + b.height / 2) * HEIGHT,
            )
            for b in datum.boxes
        ]  # fmt: skip
        assert np.allclose(
            np.array(found["boxes2d"]).reshape(-1, 4), np.array(corners).reshape(-1, 4), atol=1e-4
        )
        assert found["boxes2d_label"] == [b.label for b in datum.boxes]
        assert found["boxes2d_track_id"] == [b.track_id for b in datum.boxes]
        assert found["boxes2d_score"] == pytest.approx([b.score for b in datum.boxes])
        assert found["boxes2d_distance_m"] == pytest.approx([b.distance_m for b in datum.boxes])
        assert found["boxes2d_speed_m_s"] == pytest.approx([b.speed_m_s for b in datum.boxes])
        assert found["boxes2d_class_id"] == [-1] * len(datum.boxes)
        assert meta["boxes2d"]["timestamp_us"] == end_us
    assert seen == 5
    assert camera_["meta"]["boxes2d"]["topics"] == {"boxes2d": "/model/output"}


def test_clouds(driven: dict[str, Any]) -> None:
    fused = driven["clouds"]["fusion_lidar"]
    sent = of(STEPS, Role.FUSION_LIDAR)
    assert fused["times"] == [micros(step) for step in sent]
    assert fused["frames"] == ["lidar"] * len(sent)
    assert (fused["unit"], fused["finite_in_world"]) == ("METERS", True)
    for found, step in zip(fused["xyz"], sent, strict=True):
        wire = points_of(step)
        assert found == digest(np.stack([wire[axis] for axis in "xyz"], axis=1))
    wire = points_of(sent[0])
    assert fused["attributes"] == {
        "class": digest(np.ascontiguousarray(wire["vision_class"])),
        "instance": digest(np.ascontiguousarray(wire["instance_id"])),
        "track": digest(np.ascontiguousarray(wire["track_id"])),
    }
    assert driven["clouds"]["radar_clusters"]["attributes"]["cluster"].startswith("<i4[9]")


def test_cuboids(driven: dict[str, Any]) -> None:
    sent = of(STEPS, Role.BOXES_3D)
    assert len(driven["cuboids"]) == 2 * len(sent)
    first = driven["cuboids"][0]
    assert first["bbox3"]["centroid"] == [10.0, 2.0, 0.5]
    # It is carried along on the circle that the vehicle drives, and the lidar looks to the left.
    assert first["bbox3"]["rot"] == pytest.approx([0.0, 0.0, -np.pi / 2], abs=0.3)
    assert first["bbox3"]["dim"] == pytest.approx([1.5, 1.4, 1.2], abs=0.15)
    assert (first["track_id"], first["class_id"], first["source"]) == ("7", "3", "AUTOLABEL")
    assert (first["reference_frame_id"], first["timestamp_us"]) == ("lidar", micros(sent[0]))


@pytest.mark.parametrize("role", [Role.RADAR_TARGETS, Role.RADAR_CLUSTERS])
def test_a_radars_tracks_are_cuboids_where_it_says(official: Read, tmp_path: Path, role: Role) -> None:
    steps = passing(*CARS, role=role)
    found = official(write(tmp_path, steps))["cuboids"]
    assert len(found) == len(CARS) * len(of(steps, role))
    for step, (first, second) in zip(of(steps, role), zip(found[::2], found[1::2], strict=True), strict=True):
        for each, car, sent in zip((first, second), CARS, points_of(step), strict=True):
            assert each["bbox3"]["centroid"] == [float(sent[axis]) for axis in "xyz"]
            assert each["bbox3"]["dim"] == list(car.size_m)
            assert each["track_id"] == f"/radar/tracks/{car.uuid}"
            assert (each["reference_frame_id"], each["timestamp_us"]) == ("radar", micros(step))


def test_the_meta_file_is_what_the_official_reader_would_write(
    store: str, official: Read, tmp_path: Path
) -> None:
    folder = write(tmp_path, drive(0.2), store=store, radar_cube=True)
    theirs, ours = official(folder)["meta"], Sequence(folder).meta
    for meta in (theirs, ours):
        meta["component_stores"].sort(key=lambda listed: listed["path"])
    assert theirs == ours


@pytest.mark.long(cases=2)
@pytest.mark.parametrize("profile", ["separate-sensors", "single"])
def test_a_killed_and_recovered_sequence(official: Read, store: str, profile: str, tmp_path: Path) -> None:
    folder = write(tmp_path, drive(0.3), kill=True, store=store, profile=profile, radar_cube=True)
    assert recover_all(tmp_path)[0].kept["lidars/lidar"] == 3
    found = official(folder)
    assert len(found["cameras"]["camera_optical"]["frames"]) == 6
    assert len(found["radars"]["radar"]["frames"]) == 6
    assert found["interval"] == [START_US, START_US + 290_001]


def test_a_complete_sequence_and_what_a_killed_overwrite_left_beside_it(
    official: Read, store: str, tmp_path: Path
) -> None:
    def read(folder: Path) -> dict[str, Any]:
        found = official(folder)
        found["meta"]["component_stores"].sort(key=lambda listed: listed["path"])  # in any order
        return found

    folder = write(tmp_path, drive(0.2), store=store, radar_cube=True)
    complete = read(folder)
    write(tmp_path, drive(0.3), kill=True, overwrite=True, store=store, radar_cube=True)
    assert read(folder) == complete
    (done,) = recover_all(tmp_path)
    assert read(folder) == complete
    beside = read(done.path)
    assert beside["id"] == f"{SEQUENCE.name}_recovered"
    assert len(beside["cameras"]["camera_optical"]["frames"]) == 6
    write(tmp_path, drive(0.3), overwrite=True, store=store, radar_cube=True)
    assert read(folder)["cameras"] == beside["cameras"]


def test_every_part_of_a_split_capture(official: Read, tmp_path: Path) -> None:
    write(tmp_path, drive(0.6), split_us=250_000, radar_cube=True)
    for folder, frames in zip(sorted(tmp_path.iterdir()), (5, 5, 2), strict=True):
        found = official(folder)
        assert len(found["cameras"]["camera_optical"]["frames"]) == frames
        assert np.allclose(found["poses"]["rig_world"][0], np.eye(4))


def test_the_poorest_sequence_opens(official: Read, tmp_path: Path) -> None:
    nothing = Calibration()
    found = official(
        write(tmp_path, [camera(START_NS, calibration=nothing), lidar(START_NS, calibration=nothing)])
    )
    assert found["poses"]["meta"] == {
        "calibration_type": "edgefirst_ros:assumed",
        "egomotion_type": "edgefirst_ros:assumed",
        "assumed_extrinsics": ["camera_optical", "lidar"],
        "rig_world": {"position": "assumed", "rotation": "assumed"},
    }
    assert found["cuboids"] == []
    assert found["cameras"]["camera_optical"]["masks"] == {}


def test_frames_without_points_and_cubes_without_scan(official: Read, tmp_path: Path) -> None:
    empty = observation(
        Role.LIDAR_POINTS, "/lidar/points", START_NS, cloud(np.zeros(3, points_of(lidar(0)).dtype)), "lidar"
    )
    steps = [empty, cube(START_NS + MS), lidar(START_NS + 200 * MS), radar(START_NS + 200 * MS)]
    found = official(write(tmp_path, steps, radar_cube=True))
    assert [len(frame["xyz"]) for frame in found["lidars"]["lidar"]["rays"]] == [0, 50]
    assert list(found["radars"]["radar"]["rays"][0]["generic"]) == ["radar_cube"]


def test_fisheye_cameras_and_rolling_shutters(official: Read, tmp_path: Path) -> None:
    assert CALIBRATION.camera_info is not None
    info = CALIBRATION.camera_info
    fisheye = Calibration(
        camera_info=type(info)(WIDTH, HEIGHT, "equidistant", (0.01, 0.001, 0.0, 0.0), info.k, info.r, info.p),
        transforms=CALIBRATION.transforms,
    )
    folder = write(tmp_path, [camera(START_NS, calibration=fisheye)], camera_readout_ms=10.0)
    found = official(folder)["cameras"]["camera_optical"]
    assert found["model"] == "OpenCVFisheyeCameraModelParameters"
    assert found["parameters"]["shutter_type"] == "ROLLING_TOP_TO_BOTTOM"
    assert 0 < found["parameters"]["max_angle"] < np.pi
    assert found["frames"] == [[START_US, START_US + 10_000]]


def test_rays_of_a_moving_lidar_are_compensated_with_their_own_times(official: Read, tmp_path: Path) -> None:
    """A wall seen from a moving lidar: rays with times, taken to the end of the sweep, lie on one plane."""
    count, sweep_ns, wall_m = 41, 80 * MS, 20.0
    offset = np.linspace(0, sweep_ns, count).astype(np.uint32)
    wire = np.zeros(count, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("t", "<u4")])
    forward = wall_m - offset / 1e9 * 10.0  # 10 m/s towards the wall
    wire["x"], wire["y"], wire["t"] = forward, np.linspace(-3, 3, count), offset
    steps: list[Observation | EgoPose] = [
        EgoPose(START_NS + ms * MS, position_m=(ms / 100.0, 0.0, 0.0), rotation_xyzw=(0.0, 0.0, 0.0, 1.0))
        for ms in range(-10, 101, 10)
    ]
    steps.append(observation(Role.LIDAR_POINTS, "/l", START_NS, cloud(wire), "base_link"))
    steps.append(observation(Role.LIDAR_POINTS, "/l", START_NS + 100 * MS, cloud(wire), "base_link"))
    folder = write(tmp_path, steps)
    found = official(folder)["lidars"]["base_link"]
    assert found["frames"][0] == [START_US, START_US + 80_000]
    assert found["rays"][0]["times"] == (START_US + offset.astype(np.int64) // 1000).tolist()
    assert np.allclose(np.array(found["rays"][0]["moved"])[:, 0], wall_m - 0.8, atol=1e-3)


def test_check_runs_the_official_reader_where_it_is(ncore_python: Path, tmp_path: Path) -> None:
    boxes = Detections((box(10.0, 2.0, 0.5),), ())
    steps = [
        camera(START_NS),
        observation(Role.BOXES_3D, "/b", START_NS, boxes, "lidar"),
        pose(START_NS + MS),
    ]
    folder = write(tmp_path, steps)
    (found,) = check(tmp_path, official_python=ncore_python)
    assert found.ok
    assert any("official reader read everything" in finding.what for finding in found.findings)
    stores = sorted(folder.glob("*camera_optical*"))
    data = bytearray(stores[0].read_bytes())
    at = data.find(b"\xff\xd8\xff")
    assert Image.open(io.BytesIO(data[at:])).size == (WIDTH, HEIGHT)
    data[at + 20 : at + 400] = bytes(380)  # the picture no longer decodes, its head still opens
    stores[0].write_bytes(data)
    (found,) = check(tmp_path, official_python=ncore_python)
    assert not found.ok
