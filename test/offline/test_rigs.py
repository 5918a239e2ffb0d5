"""A rig of several cameras and lidars: NCore takes all of them, each with its own calibration and times."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import yaml
from drives import simulated
from faulty import Truth, read_number
from livedrive import check_sums, dataset_files
from ncoreread import Sequence
from oracle import NCORE_PYTHON, assert_sound
from PIL import Image
from recorded import record
from rigjudge import read_officially
from robots import instead_of
from scipy.spatial.transform import Rotation
from wire_encoder import encode

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.reasons import Code, Severity
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.model.transform import matrix_of
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report.judge import judge
from edgefirst_ros.report.models import parsed
from edgefirst_ros.simulation import DriveOptions, MoreSensor
from edgefirst_ros.sources.mcap import McapRecording

HOST = "rig"
SEQUENCE = "rig_2026_05_01_09_00_00"
LEFT, REAR = "rig-left_2026_05_01_09_00_00", "rig-rear_2026_05_01_09_00_00"
FRONT = "/lidar/points"
MORE = (
    MoreSensor(
        "camera", "left/image", "left_optical", (1.0, 0.5, 1.6), (0, 0, 60), 10.0, 35.0, info="left/info"
    ),
    MoreSensor(
        *("camera", "rear/h264", "rear_optical", (-1.0, 0.0, 1.6), (0, 0, 180), 15.0, 11.0, 480, 270),
        codec="h264",
        info="rear/info",
    ),
    MoreSensor("lidar", "rear/points", "rear_lidar", (-1.0, 0.0, 1.8), (0, 0, 180), 10.0, 55.0, points=1_280),
)
OPTIONS = DriveOptions(
    seconds=4.0,
    fps=10,
    width=640,
    height=360,
    more=MORE,
    lidar_points=1_280,
    cube_hz=0.0,
    gps_no_fix=0,
    host=HOST,
)
TOPICS: dict[str, Any] = {
    "left": {"role": "camera", "topic": "left/image"},
    "rear": {"role": "camera", "topic": "rear/h264"},
    # Whose they are is found by their names.
    "one_info": {"role": "camera_info", "topic": "rear/info"},
    "other_info": {"role": "camera_info", "topic": "left/info"},
    "rear_lidar": {"role": "lidar_points", "topic": "rear/points"},
}
CAMERAS = {"camera_optical": "/camera/h264", "left_optical": "/left/image", "rear_optical": "/rear/h264"}
needs_official = pytest.mark.skipif(
    not NCORE_PYTHON.is_file(), reason="needs nvidia-ncore in .venv-ncore (make oracles)"
)


def converted(folder: Path, **values: Any) -> tuple[Path, dict[str, Any]]:  # noqa: ANN401
    config = build_config({"formats": ["edgefirst", "ncore", "l5kit"], "topics": TOPICS, **values})
    done = convert([simulated(OPTIONS).mcap], folder, config, dataset="d")
    check_sums(done.report)
    return folder, done.report


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    return converted(tmp_path_factory.mktemp("rig"))


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth.read(simulated(OPTIONS).truth)


@pytest.fixture(scope="module")
def official(rig: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything as NVIDIA's own reader places it."""
    return read_officially(rig[0] / "ncore" / SEQUENCE, tmp_path_factory.mktemp("official") / "rig.npz")


def sequence(output: Path) -> Sequence:
    return Sequence(output / "ncore" / SEQUENCE)


def pictures(found: Sequence, camera: str) -> dict[int, npt.NDArray[np.uint8]]:
    """Pictures by start in microseconds."""
    shown = {}
    for begin_us, end_us in found.frames(f"cameras/{camera}"):
        data = bytes(found.array(f"cameras/{camera}/frames/{end_us}/image"))
        shown[begin_us] = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    return shown


@pytest.mark.parametrize(
    ("camera", "width"), [("camera_optical", 640), ("left_optical", 320), ("rear_optical", 480)]
)
def test_each_camera_has_its_own_intrinsics_and_its_own_place(
    rig: tuple[Path, dict[str, Any]], truth: Truth, camera: str, width: int
) -> None:
    found = sequence(rig[0])
    model = found.attributes(f"intrinsics/default/cameras/{camera}")["camera_model_parameters"]
    assert model["resolution"][0] == width
    assert model["focal_length"] == pytest.approx([0.66 * width] * 2)
    mount = next(each for each in truth.world.mounts if each.child == camera)
    T_camera_rig = found.pose(camera, "rig")
    assert T_camera_rig[:3, 3] == pytest.approx(mount.translation_m, abs=1e-5)
    assert T_camera_rig[:3, :3] == pytest.approx(matrix_of(mount.rotation_xyzw), abs=1e-5)


def saved(focal_px: float, width: int, height: int) -> dict[str, Any]:
    """What ROS's camera_calibration writes, of pixels from the centre of the first."""
    k = [focal_px, 0.0, width / 2 - 0.5, 0.0, focal_px, height / 2 - 0.5, 0.0, 0.0, 1.0]
    return {
        "image_width": width,
        "image_height": height,
        "camera_matrix": {"rows": 3, "cols": 3, "data": k},
        "distortion_model": "plumb_bob",
        "distortion_coefficients": {"rows": 1, "cols": 5, "data": [-0.25, 0.06, 0.0, 0.0, 1e-7]},
    }


def test_a_calibration_file_counts_in_place_of_camera_info(tmp_path: Path) -> None:
    """Of the reference and of another camera; that of another size is scaled; the third has its messages."""
    (tmp_path / "left.yaml").write_text(yaml.safe_dump(saved(500.0, 640, 360)), encoding="utf-8")
    topics = TOPICS | {
        "camera": {"info_file": saved(444.0, 640, 360)},
        "left": TOPICS["left"] | {"info_file": str(tmp_path / "left.yaml")},
    }
    output, report = converted(tmp_path, topics=topics, formats=["ncore"])
    found = sequence(output)
    for camera, focal_px in (("camera_optical", 444.0), ("left_optical", 250.0), ("rear_optical", 316.8)):
        model = found.attributes(f"intrinsics/default/cameras/{camera}")["camera_model_parameters"]
        assert model["focal_length"] == pytest.approx([focal_px] * 2)
        assert model["principal_point"] == pytest.approx([side / 2 for side in model["resolution"]])
        is_filed = camera != "rear_optical"
        assert model["radial_coeffs"][:3] == ([-0.25, 0.06, 1e-7] if is_filed else [0.0, 0.0, 0.0])
    assert report["sequences"][0]["calibration"]["camera"]["focal_px"] == [444.0, 444.0]
    infos = ("/camera/info", "/left/info", "/rear/info")
    assert all(report["topics"][topic]["refused"] == 0 for topic in infos)


def test_a_description_of_the_robot_places_what_no_transform_does(tmp_path: Path, truth: Truth) -> None:
    """Of what both say the transforms count; the robot's description is sent once, at some time."""
    mounts = {each.child: each for each in truth.world.mounts}
    joints = [
        f'<joint name="{child}" type="fixed"><parent link="base_link"/><child link="{child}"/>'
        f'<origin xyz="{" ".join(map(str, mount.translation_m))}" rpy="{" ".join(map(str, rpy))}"/></joint>'
        for child, mount in (mounts | {"lidar": mounts["rear_lidar"]}).items()
        for rpy in [Rotation.from_quat(mount.rotation_xyzw).as_euler("xyz")]
    ]
    moving = '<joint name="pan" type="revolute"><parent link="base_link"/><child link="pan"/></joint>'
    text = f"<robot>{''.join(joints)}{moving}</robot>"
    sent: list[RawMessage] = []
    for message in McapRecording(simulated(OPTIONS).mcap).messages():
        if message.topic != "/tf_static" or decode(message).datum.transforms[0].child == "lidar":  # type: ignore[attr-defined]
            sent.append(message)
        if message.topic == "/rear/points" and not any(each.topic.endswith("description") for each in sent):
            data = encode("std_msgs/String", {"data": text})
            sent.append(message._replace(topic="/robot_description", schema="std_msgs/msg/String", data=data))
            sent[-1] = sent[-1]._replace(definition="string data")
    recording = record(tmp_path / "robot.mcap", sent)
    config = build_config({"formats": ["ncore"], "topics": TOPICS, "host": HOST})
    done = convert([recording], tmp_path / "out", config, dataset="d")
    found = sequence(tmp_path / "out")
    for sensor in ("camera_optical", "left_optical", "rear_optical", "rear_lidar", "lidar"):
        assert found.pose(sensor, "rig") == pytest.approx(mounts[sensor].matrix(), abs=1e-5)
    assert done.report["topics"]["/robot_description"]["decoded"] == 1
    said = "robot_description: of pan (revolute) the place is not fixed, and not taken"
    assert said in done.report["notes"]
    assert not [each for each in done.report["warnings"] if "no transform" in each or "moved by" in each]


def test_a_mount_that_moves_is_found_and_graded_and_odometry_is_none(tmp_path: Path) -> None:
    """A lidar on a head that turns by 30 degrees, beside the rig's own way in the frame of odometry."""
    sent: list[RawMessage] = []
    swings = 0
    for message in McapRecording(simulated(OPTIONS).mcap).messages():
        is_tf = message.topic == "/tf_static"
        if is_tf and decode(message).datum.transforms[0].child == "rear_lidar":  # type: ignore[attr-defined]
            continue
        sent.append(message)
        if message.topic == "/rear/points":
            half = math.radians(15.0) * math.sin(swings / 5) ** 2
            stamp = {"sec": message.receive_ns // 10**9, "nanosec": message.receive_ns % 10**9}
            made = [
                {
                    "header": {"stamp": stamp, "frame_id": parent},
                    "child_frame_id": child,
                    "transform": {
                        "translation": {"x": x},
                        "rotation": {"z": math.sin(angle), "w": math.cos(angle)},
                    },
                }
                for parent, child, x, angle in (
                    ("odom", "base_link", 0.5 * swings, 0.0),
                    ("base_link", "head", 0.25, half),
                    ("head", "rear_lidar", 0.1, 0.0),
                )
            ]
            sent.append(instead_of(message, "/tf", "tf2_msgs/TFMessage", {"transforms": made}))
            swings += 1
    recording = record(tmp_path / "robot.mcap", sent)
    topics = TOPICS | {"tf_of_mounts": {"role": "tf", "topic": "/tf"}}
    config = build_config({"formats": ["ncore"], "topics": topics, "host": HOST})
    done = convert([recording], tmp_path / "out", config, dataset="d")
    (mount,) = done.report["sequences"][0]["mounts"]
    widest_deg = max(30.0 * math.sin(at / 5) ** 2 for at in range(swings))
    assert mount == {
        "frame": "head",
        "parent": "base_link",
        "moved_m": 0.0,
        "turned_deg": pytest.approx(widest_deg, abs=0.01),
        "held": 1,
        "topics": ["/rear/points"],
    }
    moves = "rear/points on a mount that moves: head by up to 30 degrees and 0 m in base_link"
    # The first sweep was before the first transform.
    held = f"; 1 of {swings} measurements are placed by the nearest transform only"
    for formats, grade, end in (
        ("ncore", "good", ""),
        ("edgefirst", "fair", "; edgefirst does not say where it was"),
    ):
        there = {formats: done.report["formats"]["ncore"]}
        verdict = judge(parsed({**done.report, "formats": there}))
        (found,) = (each for each in verdict.findings if each.code is Code.MOUNT_MOVES)
        assert f"{moves}{held}{end}" in found.text
        assert found.severity is Severity.WARNING
        assert verdict.grade == grade
    assert not [each for each in done.report["notes"] if "base_link moved" in each]


def samples(output: Path) -> dict[str, list[dict[str, Any]]]:
    """Of an EdgeFirst dataset, by sequence."""
    found: dict[str, list[dict[str, Any]]] = {}
    for sample in edgefirst_ros.open(output / "edgefirst"):
        found.setdefault(sample["sequence"], []).append(sample)
    return found


def picture_numbers(found: list[dict[str, Any]]) -> list[int | None]:
    return [read_number(each["image"]) for each in found]


def test_in_edgefirst_each_camera_is_a_sequence_at_its_own_times(
    rig: tuple[Path, dict[str, Any]], truth: Truth
) -> None:
    output, report = rig
    found = samples(output)
    names = {"/camera/h264": SEQUENCE, "/left/image": LEFT, "/rear/h264": REAR}
    assert {*names.values()} == found.keys()
    for topic, name in names.items():
        true_ns = truth.true_ns(topic)
        assert picture_numbers(found[name]) == [*range(len(true_ns))]
        assert np.abs(np.array([each["time_ns"] for each in found[name]]) - true_ns).max() <= 1_000_000
    assert report["formats"]["edgefirst"]["samples"] == 40 + 40 + 60
    cameras = report["sequences"][0]["cameras"]
    assert {name: (each["name"], each["sample"]) for name, each in cameras.items()} == {
        "left": (LEFT, 40),
        "rear": (REAR, 60),
    }


def lidars(report: dict[str, Any]) -> dict[str, set[str]]:
    """Topics of the lidars that samples of each camera have."""
    (sequence,) = report["sequences"]
    every = {"camera": sequence, **sequence["cameras"]}
    return {name: {t for t in each["companions"] if t.endswith("points")} for name, each in every.items()}


def test_each_camera_has_its_own_devices_lidar_and_never_anothers(
    rig: tuple[Path, dict[str, Any]],
) -> None:
    """The rear one by its name, the left one the nearest."""
    output, report = rig
    assert lidars(report) == {"camera": {FRONT}, "left": {FRONT}, "rear": {"/rear/points"}}
    found = samples(output)
    # The ground lies 1.8 m below the lidar at the rear, and only the one in front is tilted.
    assert found[REAR][30]["lidar"]["z"].min() == pytest.approx(-1.8, abs=0.02)
    near = [found[SEQUENCE][number]["lidar"] for number in (20, 21)]
    assert any(np.array_equal(found[LEFT][20]["lidar"], each) for each in near)
    assert near[0]["z"].min() < -2
    # What a model says of one camera's pictures says nothing of another's.
    assert all(each["boxes2d"] is None for name in (LEFT, REAR) for each in found[name])
    assert any(each["boxes2d"] is not None for each in found[SEQUENCE])


def test_what_a_model_says_is_of_the_camera_whose_name_it_shares(tmp_path: Path) -> None:
    sent = (
        message._replace(topic="/left/model") if message.topic == "/model/output" else message
        for message in McapRecording(simulated(OPTIONS).mcap).messages()
    )
    recording = record(tmp_path / "rig.mcap", sent)
    topics = TOPICS | {"left_model": {"role": "model", "topic": "left/model"}}
    values = {"formats": ["edgefirst", "l5kit"], "topics": topics, "rate_hz": 2.0, "select": {"every": 1}}
    report = convert([recording], tmp_path, build_config(values), dataset="d").report
    check_sums(report)
    found = samples(tmp_path)
    assert any(each["boxes2d"] is not None and len(each["boxes2d"]) for each in found[LEFT])
    assert all(each["boxes2d"] is None for name in (SEQUENCE, REAR) for each in found[name])
    account = report["topics"]["/left/model"]
    assert {*account["written_to"]} == {"edgefirst", "l5kit"}
    assert account["left_out"] == {}


def test_what_all_cameras_saw_at_one_time_is_in_one_group(rig: tuple[Path, dict[str, Any]]) -> None:
    """Else validation sees what training has seen, from a metre beside."""
    found = samples(rig[0])
    group = {each["time_ns"] // 50_000_000: each["group"] for each in found[SEQUENCE]}
    assert {*group.values()} == {"train", "val", "test"}
    shared = [s for name in (LEFT, REAR) for s in found[name] if s["time_ns"] // 50_000_000 in group]
    changes = sum(each["group"] != group[each["time_ns"] // 50_000_000] for each in shared)
    assert len(shared) > 60
    assert changes <= 4  # where a block ends within these 50 ms


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    "chosen", [{"rate_hz": 2.0}, {"select": {"every": 4}}, {"select": {"keyframes": True}}], ids=str
)
def test_of_a_selection_all_cameras_have_the_pictures_of_the_same_moments(
    tmp_path: Path, truth: Truth, chosen: dict[str, Any]
) -> None:
    output, report = converted(tmp_path, **chosen, formats=["ncore", "edgefirst"])
    found = sequence(output)
    moments_us = np.array(sorted(pictures(found, "camera_optical")))
    assert 3 < len(moments_us) == report["samples"] < 15
    edgefirst = samples(output)
    for camera, name in (("left_optical", LEFT), ("rear_optical", REAR)):
        assert picture_numbers(edgefirst[name]) == [
            read_number(each) for _, each in sorted(pictures(found, camera).items())
        ]
    for camera in ("left_optical", "rear_optical"):
        taken = pictures(found, camera)
        all_us = truth.true_ns(CAMERAS[camera]) // 1000
        nearest = {int(all_us[np.abs(all_us - at).argmin()]) for at in moments_us}
        assert {int(all_us[np.abs(all_us - at).argmin()]) for at in taken} == nearest
        assert len(taken) == len(moments_us)
        for at, picture in taken.items():
            assert read_number(picture) == np.abs(all_us - at).argmin()
        account = report["topics"][CAMERAS[camera]]
        assert account["reasons"]["skipped"] == {"not selected": account["received"] - len(taken)}


@pytest.mark.long
@pytest.mark.parametrize("chosen", [{}, {"rate_hz": 3.0}], ids=["all", "rate"])
def test_live_equals_convert(tmp_path: Path, chosen: dict[str, Any]) -> None:
    """Of each session, where they follow one another without a gap."""
    values = {
        "formats": ["ncore", "edgefirst"],
        "topics": TOPICS,
        "ego": {"smoothing": "lag"},
        "overload": {"latency_s": 0},
        "record": True,
        **chosen,
    }
    live = LiveCapture(build_config(values | {"prefix": ""}), tmp_path / "live", HOST)
    live.start("d", sequence=SEQUENCE)
    for number, message in enumerate(McapRecording(simulated(OPTIONS).mcap).messages()):
        if number == 600:
            live.split()
        live.put(message)
    sessions = live.stop(120)
    assert len(sessions) == 2
    assert all(each.report["topics"]["/left/image"]["written"] > 2 for each in sessions)
    for recording in sorted((tmp_path / "live" / "recordings").glob("*.mcap")):
        convert([recording], tmp_path / "again", build_config(values | {"prefix": "", "record": False}))
    assert dataset_files(tmp_path / "again") == dataset_files(tmp_path / "live")


def test_what_nvidias_reader_opens_is_sound(rig: tuple[Path, dict[str, Any]]) -> None:
    assert_sound("ncore", rig[0] / "ncore" / SEQUENCE / f"{SEQUENCE}.json")
