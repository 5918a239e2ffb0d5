from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymap3d
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
    gps,
    imu,
    lidar,
    observation,
    points,
    pose,
    radar,
)
from ncoreread import Sequence, recover_all
from PIL import Image
from places import contents
from pydantic import ValidationError

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import MeasurementWriter, Written
from edgefirst_ros.formats.ncore.finish import sequence as finish
from edgefirst_ros.formats.ncore.finish.facts import Remarks
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write.sequence import SequenceWriter
from edgefirst_ros.formats.ncore.write.writer import SPLIT_US, NCoreWriter
from edgefirst_ros.formats.pace import pace_here
from edgefirst_ros.model.detection import Detections, Mask
from edgefirst_ros.model.errors import ConfigError, OutputExists, WriteError
from edgefirst_ros.model.navigation import Odometry
from edgefirst_ros.model.radar import RadarInfo
from edgefirst_ros.model.sample import Calibration, CameraImage, EgoPose, Observation, Role

START_US = START_NS // 1000
MS = 1_000_000


def write(
    root: Path,
    steps: Iterable[Observation | EgoPose],
    *,
    overwrite: bool = False,
    split_us: int = SPLIT_US,
    **options: object,
) -> tuple[list[Sequence], list[Written]]:
    """Write the steps as one capture; every sequence read back, and what was said about each write."""
    writer = NCoreWriter(root, NCoreOptions(**options), overwrite=overwrite, split_us=split_us)  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    said = []
    for step in steps:
        if isinstance(step, EgoPose):
            writer.pose(step)
        else:
            said.append(writer.write(writer.prepare(step)))
    return [Sequence(path.parent) for path in writer.close()], said


def one(root: Path, steps: Iterable[Observation | EgoPose], **options: object) -> Sequence:
    (sequence,), _ = write(root, steps, **options)
    return sequence


@pytest.mark.parametrize("store", ["itar", "directory"])
@pytest.mark.parametrize("profile", ["separate-sensors", "single"])
def test_a_drive_has_every_component(tmp_path: Path, store: str, profile: str) -> None:
    (sequence,), said = write(tmp_path, drive(0.5), store=store, profile=profile, radar_cube=True)
    assert not any(written.refused for written in said)
    assert all(len(written.topics) == 1 for written in said)
    assert sequence.instances("cameras") == ["camera_optical"]
    assert sequence.instances("lidars") == ["lidar"]
    assert sequence.instances("radars") == ["radar"]
    assert sequence.instances("point_clouds") == ["fusion_lidar", "radar_clusters"]
    assert sequence.instances("camera_labels") == [
        "depth.z@camera_optical",
        "segmentation.semantic@camera_optical",
    ]
    for name in ("poses", "intrinsics", "masks", "cuboids"):
        assert sequence.instances(name) == ["default"]
    assert len(sequence.stores) == (1 if profile == "single" else 8)
    assert len(sequence.frames("cameras/camera_optical")) == 10
    assert sorted(path.name for path in sequence.folder.iterdir()) == sorted(
        [*sequence.stores, f"{SEQUENCE.name}.json"]
    )
    start, stop = sequence.interval()
    assert (start, stop) == (START_US, START_US + 490_000 + 1)
    for key in sequence.records:
        if key == ".zattrs":
            continue
        parents = key.split("/")[:-1]
        assert all(
            "/".join([*parents[:depth], ".zgroup"]) in sequence.records for depth in range(len(parents))
        ), key


def test_stores_of_a_sequence_say_the_same(tmp_path: Path) -> None:
    sequence = one(tmp_path, drive(0.2))
    roots = [json.loads(store[".zattrs"]) for store in sequence.stores.values()]
    names = [root.pop("component_group_name") for root in roots]
    assert all(root == roots[0] for root in roots)
    assert roots[0]["version"] == "v4"
    assert (
        roots[0]["generic_meta_data"].items() >= {"host": "maivin", "name": SEQUENCE.name, "part": 0}.items()
    )
    for name, path in zip(names, sequence.stores, strict=True):
        assert path == f"{SEQUENCE.name}.ncore4{'-' + name if name else ''}.zarr.itar"


@pytest.mark.parametrize("store", ["itar", "directory"])
def test_the_meta_file_has_the_stores_and_their_md5(tmp_path: Path, store: str) -> None:
    sequence = one(tmp_path, drive(0.1), store=store)
    for listed in sequence.meta["component_stores"]:
        path = sequence.folder / listed["path"]
        digest = hashlib.md5(usedforsecurity=False)
        for file in [path] if path.is_file() else _walk(path):
            if path.is_dir():
                digest.update(file.name.encode())
            if file.is_file():
                digest.update(file.read_bytes())
        assert listed["md5"] == digest.hexdigest()
        for component, instances in listed["components"].items():
            for name, said in instances.items():
                attributes = json.loads(sequence.stores[listed["path"]][f"{component}/{name}/.zattrs"])
                assert said == {
                    "version": attributes["component_version"],
                    "generic_meta_data": attributes["generic_meta_data"],
                }


def test_finishing_reads_as_little_of_a_large_sequence_as_of_a_small_one(tmp_path: Path) -> None:
    def read_by_close(count: int, size: int) -> int:
        writer = NCoreWriter(tmp_path / f"{size}", NCoreOptions())
        writer.begin(SEQUENCE)
        for index in range(count):
            picture = camera(START_NS + index * 33_000_000)
            image = CameraImage("jpeg", b"\xff" * size, WIDTH, HEIGHT)
            writer.write(writer.prepare(replace(picture, image=image)))
        before = _bytes_read()
        writer.close()
        return _bytes_read() - before

    small, large = read_by_close(20, 1_000), read_by_close(20, 1_000_000)
    assert abs(large - small) < 100_000


def _bytes_read() -> int:
    """What this process has read from files, cached or not."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir(), key=lambda path: str(path).lower()):
        yield path
        if path.is_dir():
            yield from _walk(path)


def test_the_same_measurements_give_the_same_bytes_whatever_the_threads(tmp_path: Path) -> None:
    one(tmp_path / "a", drive(0.3), radar_cube=True)
    writer = NCoreWriter(tmp_path / "b", NCoreOptions(radar_cube=True))
    writer.begin(SEQUENCE)
    steps = list(drive(0.3))
    with ThreadPoolExecutor(4) as pool:
        prepared = pool.map(lambda step: step if isinstance(step, EgoPose) else writer.prepare(step), steps)
        for each in prepared:
            if isinstance(each, EgoPose):
                writer.pose(each)
            else:
                writer.write(each)
    writer.close()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_writer_is_what_the_pipeline_asks_for(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    assert isinstance(writer, MeasurementWriter)
    with pytest.raises(RuntimeError, match="begin"):
        writer.pose(pose(START_NS))
    writer.abort()


def test_a_writer_replaces_nothing_unless_it_is_told_to(tmp_path: Path) -> None:
    one(tmp_path, [camera(START_NS)])
    with pytest.raises(OutputExists, match="exists"):
        NCoreWriter(tmp_path, NCoreOptions()).begin(SEQUENCE)


def test_times_that_do_not_advance_are_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    steps = [
        camera(START_NS),
        camera(START_NS + 900),
        camera(START_NS - MS),
        camera(START_NS + MS),
        lidar(START_NS),
    ]
    (sequence,), said = write(tmp_path, steps)
    reasons = [[reason for _, reason in written.refused] for written in said]
    assert reasons == [[], ["same time as the one before"], ["time goes back"], [], []]
    assert [bool(written.topics) for written in said] == [True, False, False, True, True]
    assert sequence.frames("cameras/camera_optical") == [[START_US] * 2, [START_US + 1000] * 2]


def test_times_before_1970_and_other_picture_sizes_are_refused(tmp_path: Path) -> None:
    _, said = write(tmp_path, [camera(-5), camera(START_NS), camera(START_NS + MS, size=(32, 32))])
    assert [written.refused for written in said] == [
        (("/camera/h264", "time before 1970"),),
        (),
        (("/camera/h264", f"picture is no longer {WIDTH}x{HEIGHT}"),),
    ]


def test_a_part_that_is_refused_takes_no_other_with_it(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(camera(START_NS)))
    twice, then = (writer.prepare(camera(START_NS + after)) for after in (0, MS))
    said = writer.write(replace(then, parts=(*twice.parts, *then.parts)))
    assert [reason for _, reason in said.refused] == ["same time as the one before"]
    assert said.topics == ("/camera/h264",)
    writer.abort()


def test_bytes_are_counted_as_they_are_written(tmp_path: Path) -> None:
    (sequence,), said = write(tmp_path, [lidar(START_NS), lidar(START_NS + MS)], profile="single")
    payload = sum(
        len(data) for key, data in sequence.records.items() if key.startswith("lidars/lidar/frames/1")
    )
    assert sum(written.bytes for written in said) > payload


def test_poses_cover_the_sequence_and_place_the_rig_on_earth(tmp_path: Path) -> None:
    steps = sorted(
        [
            *(pose(START_NS + ms * MS) for ms in range(-30, 900, 5)),
            *(lidar(START_NS + ms * MS) for ms in range(2, 700, 100)),
        ],
        key=lambda step: step.time_ns if isinstance(step, EgoPose) else step.measurement.time_ns,
    )
    sequence = one(tmp_path, steps)
    dynamic = sequence.attributes("poses/default/dynamic_poses")["('rig', 'world')"]
    times = np.array(dynamic["timestamps_us"])
    start, stop = sequence.interval()
    assert (times[0], times[-1]) == (start, stop - 1) == (START_US + 2000, START_US + 602_000)
    assert np.diff(times).max() <= 50_000
    assert len(times) < 30
    poses = np.array(dynamic["poses"])
    assert (poses[0] == np.eye(4)).all()
    distance = np.linalg.norm(poses[-1][:3, 3])
    assert distance == pytest.approx(2 * 50 * np.sin(0.6 * 0.2 / 2), rel=1e-3)
    T = sequence.pose("world", "world_global")
    assert T.dtype == np.float64
    up = T[:3, 3] / np.linalg.norm(T[:3, 3])
    latitude = np.degrees(np.arcsin(up[2]))
    assert latitude == pytest.approx(ORIGIN.latitude_deg, abs=0.3)
    assert T[:3, :3] @ [0, 0, 1] @ up > 0.99  # the rig stands upright there


def test_without_ego_the_rig_is_static(tmp_path: Path) -> None:
    sequence = one(tmp_path, [EgoPose(START_NS), lidar(START_NS), EgoPose(START_NS + 50 * MS)])
    assert (sequence.pose("rig", "world") == np.eye(4)).all()
    assert sequence.attributes("poses/default/dynamic_poses") == {}
    assert "('world', 'world_global')" not in sequence.attributes("poses/default/static_poses")
    meta = sequence.attributes("poses/default")["generic_meta_data"]
    assert meta["rig_world"] == {"position": "assumed", "rotation": "assumed"}


def test_every_pose_says_what_it_rests_on(tmp_path: Path) -> None:
    def unknown(ms: int) -> EgoPose:
        return EgoPose(START_NS + ms * MS)

    poses = [*map(unknown, range(0, 200, 50)), *(pose(START_NS + ms * MS) for ms in range(200, 500, 50))]
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    for each in poses:
        writer.pose(each)
        writer.write(writer.prepare(lidar(each.time_ns)))
    writer.close()
    sequence = Sequence(tmp_path / SEQUENCE.name)
    data = "poses/default/generic_data/rig_world"
    dynamic = sequence.attributes("poses/default/dynamic_poses")["('rig', 'world')"]
    assert sequence.array(f"{data}_timestamps_us").tolist() == dynamic["timestamps_us"]
    names = sequence.attributes("poses/default")["generic_meta_data"]["rig_world"]["basis"]
    assert [names[n] for n in sequence.array(f"{data}_position_basis")] == ["assumed"] * 4 + ["measured"] * 6
    assert [names[n] for n in sequence.array(f"{data}_rotation_basis")][4:] == ["interpolated"] * 6
    assert np.allclose(sequence.array(f"{data}_position_sigma_m")[4:], (0.1, 0.2, 0.3))
    assert np.isnan(sequence.array(f"{data}_rotation_sigma_rad")[:4]).all()
    assert np.allclose(dynamic["poses"][0], dynamic["poses"][4]), "a placeholder is what comes next"
    assert [w.split(";")[0] for w in writer.warnings] == [
        f"{SEQUENCE.name}: the rig's {part} is assumed for 0.2 s of 0.5 s"
        for part in ("position", "rotation")
    ]


def test_a_rotation_without_a_position_is_kept(tmp_path: Path) -> None:
    turning = [replace(pose(START_NS + ms * MS), position_m=None) for ms in (0, 50, 100)]
    sequence = one(tmp_path, [turning[0], lidar(START_NS), *turning[1:], lidar(START_NS + 100 * MS)])
    dynamic = np.array(sequence.attributes("poses/default/dynamic_poses")["('rig', 'world')"]["poses"])
    assert np.allclose(dynamic[:, :3, 3], 0)
    turned = np.degrees(np.arctan2(dynamic[-1, 1, 0], dynamic[-1, 0, 0]))
    assert turned == pytest.approx(np.degrees(0.1 * 10 / 50))


def test_a_single_instant_has_a_static_rig_even_with_poses(tmp_path: Path) -> None:
    sequence = one(tmp_path, [pose(START_NS), lidar(START_NS), pose(START_NS + 10 * MS)])
    assert sequence.interval() == (START_US, START_US + 1)
    assert (sequence.pose("rig", "world") == np.eye(4)).all()


def test_poses_alone_are_a_sequence(tmp_path: Path) -> None:
    sequence = one(tmp_path, [pose(START_NS), pose(START_NS + 10 * MS)])
    assert sequence.interval() == (START_US, START_US + 10_001)
    assert list(sequence.stores) == [f"{SEQUENCE.name}.ncore4.zarr.itar"]


def test_sensors_hang_where_tf_has_them(tmp_path: Path) -> None:
    sequence = one(tmp_path, [lidar(START_NS), camera(START_NS), radar(START_NS)])
    T = sequence.pose("lidar", "rig")
    assert np.allclose(T @ [1, 0, 0, 1], [0.1, 1.0, 1.7, 1.0])
    T = sequence.pose("camera_optical", "rig")
    assert np.allclose(T @ [0, 0, 1, 1], [2.0, 0.0, 1.2, 1.0])
    assert "assumed_extrinsics" not in sequence.attributes("poses/default")["generic_meta_data"]


def test_sensors_that_tf_does_not_know_are_placed_and_named(tmp_path: Path) -> None:
    nothing = Calibration()
    sequence = one(tmp_path, [lidar(START_NS, calibration=nothing), camera(START_NS, calibration=nothing)])
    meta = sequence.attributes("poses/default")["generic_meta_data"]
    assert meta["assumed_extrinsics"] == ["camera_optical", "lidar"]
    assert np.allclose(sequence.pose("camera_optical", "rig") @ [0, 0, 1, 1], [1, 0, 0, 1])
    intrinsics = sequence.attributes("intrinsics/default")["generic_meta_data"]
    assert intrinsics == {
        "assumed": {"camera_optical": "no CameraInfo; taken to be a pinhole of 80 degrees across"}
    }
    assert (
        sequence.attributes("intrinsics/default/cameras/camera_optical")["camera_model_type"]
        == "opencv-pinhole"
    )


def test_calibration_that_comes_later_counts(tmp_path: Path) -> None:
    moved = replace(CALIBRATION.transforms["lidar"], translation_m=(9.0, 0.0, 0.0), parent="base_link")
    later = replace(CALIBRATION, transforms={**CALIBRATION.transforms, "lidar": moved})
    steps = [
        camera(START_NS, calibration=Calibration()),
        camera(START_NS + MS),
        lidar(START_NS + MS, calibration=later),
    ]
    sequence = one(tmp_path, steps)
    model = sequence.attributes("intrinsics/default/cameras/camera_optical")
    assert model["camera_model_parameters"]["focal_length"] == [60.0, 61.0]
    assert sequence.pose("lidar", "rig")[0, 3] == 9.0


def test_ids_are_frames_or_roles_and_unique(tmp_path: Path) -> None:
    def sweep(topic: str, frame: str, ms: int) -> Observation:
        array = cloud(points(np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("reflect", "u1")]), 5, ms))
        return observation(Role.LIDAR_POINTS, topic, START_NS + ms * MS, array, frame)

    steps = [
        sweep("/a", "/front/lidar", 1), sweep("/b", "", 2), sweep("/c", "", 3), sweep("/d", "lidar", 4),
        sweep("/e", "world", 5), sweep("/a", "/front/lidar", 6),
    ]  # fmt: skip
    sequence = one(tmp_path, steps)
    assert sequence.instances("lidars") == ["front_lidar", "lidar", "lidar_2", "lidar_3", "world_2"]
    assert len(sequence.frames("lidars/front_lidar")) == 2
    assert np.allclose(sequence.pose("lidar_3", "rig"), sequence.pose("lidar", "rig"))


def test_masks_are_there_for_every_camera(tmp_path: Path) -> None:
    Image.new("L", (WIDTH, HEIGHT), 255).save(tmp_path / "hood.png")
    masks = {"camera_optical": {"hood": tmp_path / "hood.png"}}
    sequence = one(tmp_path / "out", [camera(START_NS)], ego_masks=masks)
    assert sequence.attributes("masks/default/cameras/camera_optical") == {"mask_names": ["hood"]}
    assert (
        sequence.array("masks/default/cameras/camera_optical/hood").item()
        == (tmp_path / "hood.png").read_bytes()
    )
    empty = one(tmp_path / "none", [camera(START_NS)])
    assert empty.attributes("masks/default/cameras/camera_optical") == {"mask_names": []}


def test_masks_that_are_no_png_stop_the_start_with_every_fault(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    masks = {"front": {"a": tmp_path / "text.png", "b": tmp_path / "absent.png"}}
    with pytest.raises(ConfigError) as caught:
        NCoreWriter(tmp_path, NCoreOptions(ego_masks=masks))
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"ego_masks": {"front": {".hidden": "a.png"}}},
        {"stores": "itar"},
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NCoreOptions(**options)  # type: ignore[arg-type]


def test_cuboids_are_in_the_frame_of_their_message_with_what_has_no_field(tmp_path: Path) -> None:
    boxes = Detections((box(10.0, 2.0, 0.5), box(20.0, 1.0, 0.1, track="")), ())
    steps = [observation(Role.BOXES_3D, "/fusion/boxes3d", START_NS, boxes, "mast")]
    sequence = one(tmp_path, steps)
    first, second = sequence.attributes("cuboids/default/cuboids")["cuboid_track_observations"]
    assert first["reference_frame_id"] == second["reference_frame_id"] == "mast"
    assert sequence.array("cuboids/default/generic_data/score").tolist() == [0.9, 0.9]
    assert sequence.pose("mast", "rig")[2, 3] == 1.5
    assert one(tmp_path / "none", [lidar(START_NS)]).attributes("cuboids/default/cuboids") == {
        "cuboid_track_observations": []
    }


def test_frames_that_only_boxes_name_are_in_the_pose_graph(tmp_path: Path) -> None:
    boxes = Detections((box(10.0, 2.0, 0.5),), ())
    sequence = one(tmp_path, [observation(Role.BOXES_3D, "/b", START_NS, boxes, "nowhere")])
    assert (sequence.pose("nowhere", "rig") == np.eye(4)).all()
    assert sequence.attributes("poses/default")["generic_meta_data"]["assumed_extrinsics"] == ["nowhere"]


def test_raw_series_are_columns_of_poses(tmp_path: Path) -> None:
    sequence = one(tmp_path, [imu(START_NS), gps(START_NS + 3 * MS), imu(START_NS + 5 * MS)])
    base = "poses/default/generic_data"
    assert sequence.array(f"{base}/imu_timestamps_us").tolist() == [START_US, START_US + 5000]
    assert sequence.array(f"{base}/imu_linear_acceleration_m_s2").tolist() == [[0.0, 0.0, 9.81]] * 2
    assert sequence.array(f"{base}/gps_latitude_deg").tolist() == [45.5]
    meta = sequence.attributes("poses/default")["generic_meta_data"]["series"]
    assert meta == {"imu": {"topic": "/imu", "kind": "imu"}, "gps": {"topic": "/gps", "kind": "navsat"}}
    assert sequence.interval() == (START_US, START_US + 5001)


def test_topics_whose_names_differ_in_slashes_are_series_of_their_own(tmp_path: Path) -> None:
    def row(topic: str) -> Observation:
        found = imu(START_NS)
        return replace(found, measurement=found.measurement._replace(topic=topic))

    sequence = one(tmp_path, [row("/imu/data"), row("/imu_data")])
    meta = sequence.attributes("poses/default")["generic_meta_data"]["series"]
    assert {found["topic"] for found in meta.values()} == {"/imu/data", "/imu_data"}
    assert len(meta) == 2


def test_labels_are_keyed_by_the_end_of_the_picture_they_belong_to(tmp_path: Path) -> None:
    mask = Mask(np.zeros((2, 2, 1), np.uint8), boxed=False)

    def label(ns: int) -> Observation:
        return observation(Role.MASK, "/model/mask", ns, mask, "camera_optical")

    steps = [
        label(START_NS - 50 * MS), camera(START_NS), label(START_NS + 300_000), camera(START_NS + 30 * MS),
        label(START_NS + 40 * MS),
    ]  # fmt: skip
    (sequence,), said = write(tmp_path, steps, camera_readout_ms=5.0)
    assert not any(written.refused for written in said)
    name = "camera_labels/segmentation.semantic@camera_optical"
    times = [START_US + 5000]  # the others are of pictures that were left out
    assert sequence.array(f"{name}/timestamps_us").tolist() == times
    descriptor = sequence.attributes(f"{name}/labels")["descriptor"]
    assert descriptor["camera_id"] == "camera_optical"
    assert sequence.attributes(f"{name}/labels/{START_US + 5000}")["generic_meta_data"] == {}


@pytest.mark.parametrize("store", ["itar", "directory"])
@pytest.mark.parametrize("profile", ["separate-sensors", "single"])
@pytest.mark.parametrize("end", ["closed", "killed", "torn"])
def test_labels_that_come_before_their_camera_are_kept(
    store: str, profile: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairing holds pictures back, so the first label of a picture comes before any."""
    mask = Mask(np.arange(4, dtype=np.uint8).reshape(2, 2, 1), boxed=False)
    labels = [
        observation(Role.MASK, "/model/mask", START_NS + ms * MS, mask, "camera_optical")
        for ms in (0, 50, 100)
    ]
    writer = NCoreWriter(tmp_path, NCoreOptions(store=store, profile=profile))  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    steps = [*labels[:2], camera(START_NS + 20_000), labels[2], camera(START_NS + 50 * MS)]
    for step in steps:
        assert writer.write(writer.prepare(step)).topics == (step.measurement.topic,)
    if end == "torn":
        with monkeypatch.context() as patch:
            patch.setattr(finish, "_attach_boxes", _die)
            with pytest.raises(KeyboardInterrupt):
                writer.close()
    if end == "killed":
        writer.abort()
    elif end == "closed":
        writer.close()
    recover_all(tmp_path)
    sequence = Sequence(tmp_path / SEQUENCE.name)
    name = "camera_labels/segmentation.semantic@camera_optical"
    times = [START_US + 20, START_US + 50_000]  # the last one's picture was left out
    assert sequence.array(f"{name}/timestamps_us").tolist() == times
    for time_us in times:
        png = sequence.array(f"{name}/labels/{time_us}/data").tobytes()
        assert np.asarray(Image.open(io.BytesIO(png))).max() == 3
    assert sequence.attributes(f"{name}/labels")["descriptor"]["camera_id"] == "camera_optical"
    assert sequence.attributes(name)["generic_meta_data"]["topic"] == "/model/mask"
    (checked,) = check(tmp_path)
    assert checked.ok, checked.text


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_labels_without_any_camera_are_a_warning(tmp_path: Path) -> None:
    mask = Mask(np.zeros((2, 2, 1), np.uint8), boxed=False)
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    for step in (lidar(START_NS), observation(Role.MASK, "/model/mask", START_NS, mask, "camera_optical")):
        writer.write(writer.prepare(step))
    writer.close()
    assert any("1 labels of /model/mask are left out" in warning for warning in writer.warnings)


def test_clouds_whose_fields_change_are_refused(tmp_path: Path) -> None:
    first = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("vision_class", "<u2")])
    second = np.dtype([*first.descr, ("track_id", "<u4")])
    steps = [
        observation(Role.FUSION_LIDAR, "/f", START_NS + index * MS, cloud(points(dtype, 4, 1)), "lidar")
        for index, dtype in enumerate((first, second, first))
    ]
    (sequence,), said = write(tmp_path, steps)
    assert [written.refused for written in said] == [(), (("/f", "fields or format changed"),), ()]
    assert sequence.array("point_clouds/fusion_lidar/pc_timestamps_us").tolist() == [
        START_US,
        START_US + 2000,
    ]
    assert sequence.attributes("point_clouds/fusion_lidar/pcs/1")["reference_frame_id"] == "lidar"


def test_long_captures_split_into_sequences_complete_in_themselves(tmp_path: Path) -> None:
    sequences, said = write(tmp_path, drive(1.0), split_us=400_000, radar_cube=True)
    assert [sequence.folder.name for sequence in sequences] == [
        SEQUENCE.name, f"{SEQUENCE.name}-001", f"{SEQUENCE.name}-002"
    ]  # fmt: skip
    frames = [sequence.frames("cameras/camera_optical") for sequence in sequences]
    assert [len(found) for found in frames] == [8, 8, 4]
    assert not any(written.refused for written in said)
    for part, sequence in enumerate(sequences):
        dynamic = sequence.attributes("poses/default/dynamic_poses")["('rig', 'world')"]
        start, stop = sequence.interval()
        assert (dynamic["timestamps_us"][0], dynamic["timestamps_us"][-1]) == (start, stop - 1)
        assert sequence.attributes("intrinsics/default/cameras/camera_optical")
        assert sequence.meta["generic_meta_data"]["part"] == part
        # the pose at the start is that of this time, not a held one of an earlier or later time
        first = sequence.pose("world", "world_global")[:3, 3]
        angle = (start - START_US) / 1e6 * 0.2
        expected = np.array([50 * np.sin(angle), 50 * (1 - np.cos(angle))])
        east, north = _east_north(first)
        assert np.allclose([east, north], expected, atol=0.02)


def _east_north(ecef: np.ndarray) -> tuple[float, float]:
    east, north, _ = pymap3d.ecef2enu(*ecef, ORIGIN.latitude_deg, ORIGIN.longitude_deg, ORIGIN.altitude_m)
    return float(east), float(north)


def test_poses_that_come_after_the_split_still_reach_the_sequence_before(tmp_path: Path) -> None:
    steps: list[Observation | EgoPose] = []
    for ms in range(0, 600, 50):
        steps.append(lidar(START_NS + ms * MS))
        if ms >= 200:  # poses lag 200 ms
            steps += [pose(START_NS + (ms - 200 + more) * MS) for more in range(0, 50, 10)]
    steps += [pose(START_NS + ms * MS) for ms in range(400, 600, 10)]
    first, second = write(tmp_path, steps, split_us=300_000)[0]
    poses = first.pose("rig", "world")
    expected = 2 * 50 * np.sin(0.25 * 0.2 / 2)
    assert np.linalg.norm(poses[-1][:3, 3]) == pytest.approx(expected, rel=1e-3)
    assert len(second.frames("lidars/lidar")) == 6


def test_what_is_finished_meanwhile_waits_for_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests between its parts, until the next one is to be finished, or the writer is closed."""
    complete, go_on, begun = SequenceWriter.complete, threading.Semaphore(0), threading.Semaphore(0)
    hurried: list[tuple[bool, bool]] = []

    def slow(sequence: SequenceWriter, remarks: Remarks) -> bool:
        pace = pace_here()
        assert pace is not None
        before = pace.is_hurried
        begun.release()
        go_on.acquire()
        hurried.append((before, pace.is_hurried))
        return complete(sequence, remarks)

    monkeypatch.setattr(SequenceWriter, "complete", slow)
    writer = NCoreWriter(tmp_path, NCoreOptions(), split_us=3_000_000)
    writer.begin(SEQUENCE)
    for seconds in range(7):
        writer.write(writer.prepare(lidar(START_NS + seconds * 1000 * MS)))
    begun.acquire()
    go_on.release()
    while not hurried:
        time.sleep(0.01)
    for seconds in range(7, 12):
        writer.write(writer.prepare(lidar(START_NS + seconds * 1000 * MS)))
    begun.acquire()
    closing = threading.Thread(target=writer.close)
    closing.start()
    while not writer._pace.is_hurried:
        time.sleep(0.01)
    for _ in range(3):
        go_on.release()
    closing.join()
    assert hurried[0] == (False, False)
    assert hurried[-1] == (True, True)
    assert len(hurried) == 4


def test_a_new_sequence_finishes_the_one_before(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(lidar(START_NS)))
    writer.begin(replace(SEQUENCE, name="later"))
    assert (tmp_path / SEQUENCE.name / f"{SEQUENCE.name}.json").exists()
    writer.write(writer.prepare(lidar(START_NS - 500 * MS)))
    assert [path.parent.name for path in writer.close()] == [SEQUENCE.name, "later"]


def test_a_full_disk_is_said_and_what_was_written_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(lidar(START_NS)))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.pwritev", full)
        with pytest.raises(WriteError, match="No space left"):
            writer.write(writer.prepare(lidar(START_NS + MS)))
    (meta,) = writer.close()
    assert len(Sequence(meta.parent).frames("lidars/lidar")) == 1


def test_a_sequence_that_cannot_be_finished_is_said_at_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions())
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(lidar(START_NS)))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwritev", full)
    with pytest.raises(WriteError, match="No space left"):
        writer.close()
    assert not (tmp_path / SEQUENCE.name / f"{SEQUENCE.name}.json").exists()


def test_a_store_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path / "ok", NCoreOptions())
    writer.begin(SEQUENCE)
    (tmp_path / "ok" / SEQUENCE.name / f"{SEQUENCE.name}.ncore4-lidar.zarr.itar.part").mkdir()
    with pytest.raises(WriteError, match="Is a directory"):
        writer.write(writer.prepare(lidar(START_NS)))
    writer.abort()


def odometry(ms: int) -> Observation:
    datum = Odometry(
        "base_link", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (float(ms), 0.0, 0.0), (0.0, 0.0, 0.0)
    )
    return observation(Role.ODOMETRY, "/odom", START_NS + ms * MS, datum, "odom")


def test_each_radar_has_its_own_settings(tmp_path: Path) -> None:
    writer = NCoreWriter(tmp_path, NCoreOptions(radar_cube=True))
    writer.begin(SEQUENCE)
    for number, (frame, sweep) in enumerate((("radar", "short"), ("rear", "long"), ("side", None)) * 2):
        info = None if sweep is None else RadarInfo("medium", sweep, "off", "high", cube=True)
        seen = radar(START_NS + number * 1_000_000, calibration=replace(CALIBRATION, radar_info=info))
        place = seen.measurement._replace(topic=f"/{frame}/targets", frame_id=frame)
        writer.write(writer.prepare(replace(seen, measurement=place)))
    (meta,) = writer.close()
    told = {
        name: Sequence(meta.parent).attributes(f"radars/{name}")["generic_meta_data"].get("radar_info")
        for name in ("radar", "rear", "side")
    }
    assert told["side"] is None
    assert [told[name]["frequency_sweep"] for name in ("radar", "rear")] == ["short", "long"]


def scans(sequence: Sequence) -> dict[int, int | None]:
    """Milliseconds of every radar frame, and of the cube in it."""
    found: dict[int, int | None] = {}
    for _, end in sequence.frames("radars/radar"):
        key = f"radars/radar/frames/{end}/generic_data"
        cube_us = None
        if f"{key}/.zattrs" in sequence.records:
            cube_us = sequence.attributes(key)["radar_cube"]["timestamp_us"]
            assert sequence.array(f"{key}/radar_cube").shape == (2, 4, 2, 16)
        found[(end - START_US) // 1000] = None if cube_us is None else (cube_us - START_US) // 1000
    return found


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("s0 c0 s55 c55", {0: 0, 55: 55}),
        ("c0 s0 c55 s55", {0: 0, 55: 55}),
        ("s0 c1 s55", {0: 1, 55: None}),
        ("s0 c20 s55", {0: 20, 55: None}),
        ("s0 c40 s55", {0: None, 55: 40}),
        ("s0 c40", {0: 40}),
        ("s0 c0 c20 s90", {0: 0, 20: 20, 90: None}),
        ("s0 s200 c300 s400", {0: None, 200: None, 300: 300, 400: None}),
        ("c5", {5: 5}),
        ("c5 s200 c203", {5: 5, 200: 203}),
        ("s0 c0 s55 s110 c110 c150", {0: 0, 55: None, 110: 110, 150: 150}),
    ],
)
def test_a_cube_goes_to_the_scan_nearest_in_time(
    tmp_path: Path, steps: str, expected: dict[int, int | None]
) -> None:
    made = {"s": radar, "c": cube}
    observed = [made[step[0]](START_NS + int(step[1:]) * MS) for step in steps.split()]
    (sequence,), said = write(tmp_path, observed, radar_cube=True)
    assert scans(sequence) == expected
    assert not any(written.refused for written in said)
    assert all(written.topics for written in said)
    assert sequence.instances("radars") == ["radar"]


def test_cubes_that_do_not_advance_are_refused(tmp_path: Path) -> None:
    steps = [radar(START_NS), cube(START_NS), cube(START_NS), cube(START_NS - MS)]
    _, said = write(tmp_path, steps, radar_cube=True)
    assert [len(written.refused) for written in said] == [0, 0, 1, 1]


def test_topics_are_counted_once(tmp_path: Path) -> None:
    steps = list(drive(0.3))
    _, said = write(tmp_path, steps, radar_cube=True)
    sent = Counter(step.measurement.topic for step in steps if isinstance(step, Observation))
    assert Counter(topic for written in said for topic in written.topics) == sent
