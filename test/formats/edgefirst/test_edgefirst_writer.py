"""Whole datasets: what is written, in what form, and that nothing is lost, overwritten or left to chance."""

from __future__ import annotations

import io
import random
import resource
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pydantic
import pypcd4
import pytest
from edgefirst_samples import (
    HEIGHT,
    SEQUENCE,
    START_NS,
    WIDTH,
    box,
    cloud,
    ego,
    full_sample,
    jpeg,
    lidar_points,
    radar_cube,
    radar_targets,
    sample,
)
from PIL import Image
from places import contents

import edgefirst_ros
from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.prepare.cube import read_cube
from edgefirst_ros.formats.edgefirst.writer import EdgeFirstWriter
from edgefirst_ros.formats.format import LeftOut, Written
from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.errors import ConfigError, DatasetError, OutputExists, WriteError
from edgefirst_ros.model.sample import CameraImage, EgoPose, GeoPoint, Role, Sample, SequenceInfo
from edgefirst_ros.model.transform import Transform, matrix_of, quaternion_of, quaternion_of_angles

SECOND = replace(SEQUENCE, name="raivin-7_2026_03_14_11_20_30", start_ns=START_NS + 3600 * 10**9)
PUBLISHED = {
    "camera.jpeg",
    "radar.pcd",
    "radar.png",
    "lidar.pcd",
    "lidar.png",
    "lidar.jpeg",
    "depth.png",
}


def options(**changes: object) -> EdgeFirstOptions:
    small: dict[str, Any] = {"lidar_image_size": (16, 64)} | changes
    return EdgeFirstOptions(**small)


def write(root: Path, samples: list[Sample], name: str = "ds", **changes: object) -> list[Written]:
    writer = EdgeFirstWriter(root, name, options(**changes))
    done = []
    for entry in samples:
        if not done or entry.frame == 0:
            writer.begin(entry.sequence)
        done.append(writer.write(writer.prepare(entry)))
    writer.close()
    return done


def one(root: Path, entry: Sample, **changes: object) -> tuple[Written, dict[str, bytes], dict[str, Any]]:
    """A dataset of one sample: what was reported, the files by kind, the first row."""
    (done,) = write(root, [entry], **changes)
    with zipfile.ZipFile(root / "ds/ds.zip") as archive:
        files = {name.partition(".")[2]: archive.read(name) for name in archive.namelist()}
    return done, files, table(root).row(0, named=True)


def table(root: Path, name: str = "ds") -> pl.DataFrame:
    return pl.read_ipc((root / name / f"{name}.arrow").read_bytes())


def tree(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize("container", ["zip", "folder"])
@pytest.mark.parametrize(
    ("version", "kinds"), [("2025.01", PUBLISHED), ("2026.10", PUBLISHED - {"lidar.png", "lidar.jpeg"})]
)
def test_a_dataset_of_two_sequences(tmp_path: Path, container: str, version: str, kinds: set[str]) -> None:
    samples = [
        full_sample(frame, sequence=sequence) for sequence in (SEQUENCE, SECOND) for frame in (0, 1, 5)
    ]
    write(tmp_path, samples, container=container, schema_version=version)
    expected = {
        f"{sequence.name}/{sequence.name}_{frame}.{kind}"
        for sequence in (SEQUENCE, SECOND)
        for frame in ("000", "001", "005")
        for kind in kinds
    }
    folder = tmp_path / "ds"
    container_name = "ds" if container == "folder" else "ds.zip"
    listing = {"dataset.yaml"} if (container, version) == ("folder", "2026.10") else set()
    assert tree(folder) == {"ds.arrow", "ds.manifest", "quality.parquet", container_name, *listing}
    if container == "folder":
        assert set(contents(folder / "ds")) == expected
    else:
        with zipfile.ZipFile(folder / "ds.zip") as archive:
            assert archive.testzip() is None
            assert set(archive.namelist()) == expected
            times = {info.date_time for info in archive.infolist()}
            assert times == {(2026, 3, 14, 10, 20, 30), (2026, 3, 14, 11, 20, 30)}
    frame = table(tmp_path)
    assert set(frame.select("name", "frame").unique().iter_rows()) == {
        (sequence.name, number) for sequence in (SEQUENCE, SECOND) for number in (0, 1, 5)
    }
    assert frame.filter(pl.col("frame") == 0)["box2d"].null_count() == 2, (
        "a row of nulls for each without any"
    )


def test_everything_of_a_sample_is_read_back(tmp_path: Path) -> None:
    entry = full_sample(1)
    done, files, row = one(tmp_path, entry)
    assert set(files) == PUBLISHED
    assert done.bytes == sum(map(len, files.values()))
    assert set(done.topics) == {
        "/camera/h264",
        "/depth",
        "/fusion/boxes3d",
        "/lidar/points",
        "/model/mask",
        "/model/output",
        "/radar/cube",
        "/radar/targets",
    }
    assert done.refused == ()
    cube = read_cube(files["radar.png"])
    np.testing.assert_array_equal(cube.cube, radar_cube(1).cube)
    for kind, sent in (("radar.pcd", radar_targets(1)), ("lidar.pcd", lidar_points(1))):
        back = pypcd4.PointCloud.from_fileobj(io.BytesIO(files[kind])).pc_data  # type: ignore[arg-type]
        for name in sent.points.dtype.names or ():
            np.testing.assert_array_equal(back[name], sent.points[name])
    with Image.open(io.BytesIO(files["camera.jpeg"])) as image, Image.open(io.BytesIO(jpeg(1))) as sent_image:
        assert image.tobytes() == sent_image.tobytes()
        assert image.getexif().get_ifd(0x8769)[0xA420] == f"{SEQUENCE.name}_001"
    with Image.open(io.BytesIO(files["lidar.png"])) as image:
        assert image.size == (64, 16)
    with Image.open(io.BytesIO(files["depth.png"])) as image:
        assert set(np.asarray(image).ravel()) == {1001}
    assert row["pose"] == [0.5, -1.25, 179.75]


def test_samples_that_lack_what_is_required_are_left_out(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        samples = [full_sample(frame) for frame in range(8)]
        for each in samples[::2]:
            each.companions.pop(Role.RADAR_CUBE)  # type: ignore[attr-defined]
            each.error_ns.pop(Role.RADAR_CUBE)  # type: ignore[attr-defined]
        write(tmp_path / folder, samples)
    one, both = tmp_path / "a", [tmp_path / "a", tmp_path / "b"]
    for places, count in ((one, 1), (both, 2)):
        found = edgefirst_ros.open(places, keys=["cube", "lidar"], require=("cube", "lidar"))
        assert [sample["frame"] for sample in found] == [1, 3, 5, 7] * count
        assert all(sample["cube"] is not None for sample in found)
    with pytest.raises(ConfigError, match=r"require: expected some of .*, found tube"):
        edgefirst_ros.open(one, require=("cube", "tube"))


@pytest.mark.parametrize("names", [["x" * (1 << 20)] * 500, ["x"] * 300_000], ids=["long", "many"])
def test_what_sensors_showed_takes_no_more_memory_than_such_a_table(tmp_path: Path, names: list[str]) -> None:
    write(tmp_path, [full_sample(0)])
    rows = len(names)
    columns = {"name": names, "frame": pa.array([0] * rows, pa.uint32()), "time_ns": [0] * rows}
    pq.write_table(pa.table(columns), tmp_path / "ds" / "quality.parquet")
    with pytest.raises(DatasetError, match=r"quality\.parquet: is not a complete Parquet file: it h"):
        edgefirst_ros.open(tmp_path / "ds", keys=["quality"])[0]


@pytest.mark.parametrize("frame_id", ["camera_optical", "camera_color_optical_frame", "usb_cam", "camera"])
def test_the_pose_is_the_cameras(tmp_path: Path, frame_id: str) -> None:
    """Of one that looks to the left and 10 degrees down, on a rig that looks east."""
    given = full_sample(1)
    looks = matrix_of(quaternion_of_angles(np.radians([0.0, 10.0, 90.0])))
    optical = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])  # its axes in those of a body
    turn = looks @ optical if frame_id != "camera" else looks
    mount = Transform("base_link", frame_id, (1.0, 0.0, 1.5), tuple(quaternion_of(turn).tolist()))
    camera = given.companions[Role.RADAR_TARGETS]._replace(frame_id=frame_id, datum=None)
    for transforms, pose in (({}, [0.0, 0.0, 0.0]), ({frame_id: mount}, [0.0, 10.0, 90.0])):
        made = replace(
            given,
            companions={**given.companions, Role.CAMERA: camera},
            calibration=replace(given.calibration, transforms=transforms),
            ego=replace(given.ego, rpy_deg=(0.0, 0.0, 0.0), rotation_xyzw=(0.0, 0.0, 0.0, 1.0)),
        )
        write(tmp_path / str(len(transforms)), [made], degradation="low")
        (row, *_) = table(tmp_path / str(len(transforms))).iter_rows(named=True)
        assert row["pose"] == pytest.approx(pose, abs=1e-9)
        assert row["degradation"] == "low"


def test_options_are_checked() -> None:
    assert all(field.description for field in EdgeFirstOptions.model_fields.values())
    for wrong in ({"val_ratio": 1.5}, {"typo": 1}):
        with pytest.raises(pydantic.ValidationError):
            EdgeFirstOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("container", ["zip", "folder"])
def test_the_same_samples_give_the_same_bytes_whatever_the_threads(tmp_path: Path, container: str) -> None:
    samples = [full_sample(frame) for frame in range(12)]
    write(tmp_path / "alone", samples, container=container)
    writer = EdgeFirstWriter(tmp_path / "pool", "ds", options(container=container))
    shuffled = random.Random(1).sample(samples, len(samples))
    with ThreadPoolExecutor(4) as pool:
        prepared = dict(zip((s.frame for s in shuffled), pool.map(writer.prepare, shuffled), strict=True))
    writer.begin(SEQUENCE)
    for frame in sorted(prepared):
        writer.write(prepared[frame])
    writer.close()
    assert contents(tmp_path / "alone") == contents(tmp_path / "pool")


def test_images_of_the_device_go_before_projected_ones(tmp_path: Path) -> None:
    depth = RawImage("mono16", np.array([[1, 2, 3]], np.uint16))
    reflect = RawImage("mono8", np.full((8, 8), 200, np.uint8))
    sent = {Role.LIDAR_POINTS: lidar_points(), Role.LIDAR_DEPTH: depth, Role.LIDAR_REFLECT: reflect}
    done, files, _ = one(tmp_path, sample(0, sent))
    assert {"/lidar/depth", "/lidar/reflect", "/lidar/points"} <= set(done.topics)
    with Image.open(io.BytesIO(files["lidar.png"])) as image:
        np.testing.assert_array_equal(np.asarray(image), [[1, 2, 3]])
    with Image.open(io.BytesIO(files["lidar.jpeg"])) as image:
        assert set(np.asarray(image).ravel()) == {200}


def test_lidar_images_have_the_size_that_is_asked_for(tmp_path: Path) -> None:
    """Points at 5° are in the upper row of two from 45° to -45°."""
    ahead, up = np.full(4, 10.0, np.float32), np.full(4, 10.0 * np.tan(np.radians(5)), np.float32)
    sent = {Role.LIDAR_POINTS: cloud({"x": ahead, "y": np.zeros(4, np.float32), "z": up})}
    _, files, _ = one(tmp_path, sample(0, sent), lidar_image_size=(2, 8))
    with Image.open(io.BytesIO(files["lidar.png"])) as image:
        assert image.size == (8, 2)
        assert [bool(row.any()) for row in np.asarray(image)] == [True, False]


@pytest.mark.parametrize("changes", [{"schema_version": "2026.10"}, {"lidar_image_size": (0, 0)}])
def test_device_images_without_a_place_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    sent = {Role.LIDAR_DEPTH: RawImage("mono16", np.ones((2, 2), np.uint16))}
    done, files, _ = one(tmp_path, sample(0, sent), **changes)
    assert set(files) == {"camera.jpeg"}
    assert [topic for topic, _ in done.refused] == ["/lidar/depth"]
    assert done.topics == ("/camera/h264",)


def test_a_cloud_without_reflectivity_has_no_lidar_jpeg(tmp_path: Path) -> None:
    sent = {Role.LIDAR_POINTS: cloud(dict.fromkeys("xyz", np.ones(3, np.float32)))}
    _, files, _ = one(tmp_path, sample(0, sent))
    assert set(files) == {"camera.jpeg", "lidar.pcd", "lidar.png"}


def test_what_cannot_be_encoded_is_refused_and_the_rest_written(tmp_path: Path) -> None:
    broken = {
        Role.RADAR_TARGETS: cloud({"x": np.ones(1, np.float32)}),
        Role.RADAR_CUBE: replace(radar_cube(), layout=()),
        Role.LIDAR_POINTS: cloud({"y": np.ones(1, np.float32)}),
        Role.DEPTH: RawImage("rgb8", np.zeros((2, 2, 3), np.uint8)),
        Role.RADAR_CLUSTERS: radar_targets(),
        Role.MODEL: Detections((box(float("nan")),), ()),
    }
    done, files, row = one(tmp_path, sample(0, broken))
    assert set(files) == {"camera.jpeg"}
    assert row["box2d"] is None
    assert dict(done.refused) == {
        "/radar/targets": "cloud without y, z",
        "/radar/cube": "cube layout has 0 axes, shape 4",
        "/lidar/points": "cloud without x, z",
        "/depth": "image of encoding rgb8 where one channel is expected",
        "/radar/clusters": "EdgeFirst has no file for radar_clusters",
        "/model/output": "2-D box that is not finite",
    }
    assert done.topics == ("/camera/h264",)


def test_other_data_under_a_role_is_refused(tmp_path: Path) -> None:
    done, _, _ = one(tmp_path, sample(0, {Role.RADAR_CUBE: radar_targets()}))
    assert done.refused == (("/radar/cube", "PointCloud instead of RadarCube"),)


def test_padding_of_a_cloud_is_left_out_and_refuses_nothing(tmp_path: Path) -> None:
    x = np.array([1.0, np.nan], np.float32)
    done, files, _ = one(tmp_path, sample(0, {Role.RADAR_TARGETS: cloud(dict.fromkeys("xyz", x))}))
    assert done.refused == ()
    assert "/radar/targets" in done.topics
    assert "radar.pcd" in files


def test_a_damaged_camera_picture_is_refused(tmp_path: Path) -> None:
    done, files, _ = one(tmp_path, sample(0, {Role.RADAR_TARGETS: radar_targets()}, image=b"no picture"))
    assert done.refused == (("/camera/h264", "camera image is not a JPEG"),)
    assert set(files) == {"radar.pcd"}


def test_a_png_camera(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT)).save(out, "PNG")
    entry = replace(sample(0), image=CameraImage("png", out.getvalue(), WIDTH, HEIGHT))
    _, files, _ = one(tmp_path, entry)
    with Image.open(io.BytesIO(files["camera.png"])) as image:
        assert image.getexif().get_ifd(0x8825)[1] == "N"


def test_a_sample_without_files_is_not_committed(tmp_path: Path) -> None:
    sent = sample(0, {Role.MODEL: Detections((box(),), ())}, image=b"")
    done = write(tmp_path, [sent, sample(1)])
    reason = "sample without sensor files"
    assert done[0] == Written(refused=(("/model/output", reason),), left_out=LeftOut("unusable", reason))
    assert table(tmp_path)["frame"].to_list() == [1]


def test_images_of_another_size_are_refused_within_a_sequence(tmp_path: Path) -> None:
    def depth(frame: int, width: int, sequence: SequenceInfo = SEQUENCE) -> Sample:
        return sample(
            frame, {Role.DEPTH: RawImage("16UC1", np.ones((4, width), np.uint16))}, sequence=sequence
        )

    done = write(tmp_path, [depth(0, 8), depth(1, 9), depth(2, 8), depth(0, 9, SECOND)])
    reason = "depth.png differs in size from the sequence's first"
    assert [entry.refused for entry in done] == [(), (("/depth", reason),), (), ()]
    assert ["/depth" in entry.topics for entry in done] == [True, False, True, True]


@pytest.mark.parametrize(
    "where",
    [
        EgoPose(START_NS),
        EgoPose(START_NS, location=GeoPoint(0.0, 0.0, 5.0)),
        EgoPose(START_NS, location=GeoPoint(91.0, 5.0, 5.0)),
        EgoPose(START_NS, location=GeoPoint(float("nan"), 5.0, 5.0), rpy_deg=(0.0, float("nan"), 0.0)),
    ],
)
def test_a_place_that_is_none_is_null_and_not_in_the_exif(tmp_path: Path, where: EgoPose) -> None:
    _, files, row = one(tmp_path, sample(0, where=where))
    assert (row["location"], row["pose"]) == (None, None)
    with Image.open(io.BytesIO(files["camera.jpeg"])) as image:
        assert not image.getexif().get_ifd(0x8825)


@pytest.mark.parametrize("place", [GeoPoint(-90.0, 180.0, 5.0), GeoPoint(90.0, -180.0, 5.0)])
def test_the_poles_and_the_date_line_are_on_earth(tmp_path: Path, place: GeoPoint) -> None:
    _, _, row = one(tmp_path, sample(0, where=EgoPose(START_NS, location=place)))
    assert row["location"] == [place.longitude_deg, place.latitude_deg]


def test_location_and_exif_agree(tmp_path: Path) -> None:
    _, files, row = one(tmp_path, sample(0))
    place = ego().location
    assert place is not None
    assert row["location"] == [place.longitude_deg, place.latitude_deg]
    with Image.open(io.BytesIO(files["camera.jpeg"])) as image:
        degrees, minutes, seconds = map(float, image.getexif().get_ifd(0x8825)[2])
    assert degrees + minutes / 60 + seconds / 3600 == pytest.approx(place.latitude_deg, abs=1e-9)


@pytest.mark.parametrize(
    ("topic", "chosen", "maker"),
    [
        ("/camera/h264", {}, ("Au-Zone Technologies", "Maivin")),
        ("/rt/camera/jpeg", {}, ("Au-Zone Technologies", "Maivin")),
        ("maivin-042/camera/h264/tl", {}, ("Au-Zone Technologies", "Maivin")),
        ("/camera/image_raw/compressed", {}, (None, None)),
        ("/front/left/camera/jpeg", {}, (None, None)),
        ("/camera/h264", {"exif_camera": ("", "Raivin")}, (None, "Raivin")),
        ("/image", {"exif_camera": ("Basler", "ace 2")}, ("Basler", "ace 2")),
    ],
)
def test_exif_names_the_maker_that_is_known(
    tmp_path: Path, topic: str, chosen: dict[str, str], maker: tuple[str | None, str | None]
) -> None:
    entry = sample(0)
    camera = entry.companions[Role.CAMERA]._replace(topic=topic)
    entry = replace(entry, companions={Role.CAMERA: camera})
    _, files, _ = one(tmp_path, entry, **chosen)
    with Image.open(io.BytesIO(files["camera.jpeg"])) as image:
        found = image.getexif()
    assert (found.get(0x010F), found.get(0x0110)) == maker


def test_names_from_the_recording_stay_in_the_folder(tmp_path: Path) -> None:
    evil = replace(SEQUENCE, name="../../evil\\host_2026_03_14_10_20_30")
    write(tmp_path / "out", [sample(0, sequence=evil)], name="../up/ds", container="folder")
    safe = "evil-host_2026_03_14_10_20_30"
    assert set(contents(tmp_path)) == {
        "out/up-ds/up-ds.arrow",
        "out/up-ds/up-ds.manifest",
        "out/up-ds/quality.parquet",
        f"out/up-ds/up-ds/{safe}/{safe}_000.camera.jpeg",
    }
    assert table(tmp_path / "out", "up-ds")["name"].to_list() == [safe]


def test_sequences_of_one_name_are_refused(tmp_path: Path) -> None:
    writer = EdgeFirstWriter(tmp_path, "ds", options())
    writer.begin(SEQUENCE)
    with pytest.raises(OutputExists, match=r"has a sequence .* already"):
        writer.begin(SEQUENCE)
    writer.abort()


def test_a_cameras_sequence_goes_on_beside_that_of_the_rig(tmp_path: Path) -> None:
    """Each has its own order and sizes; what both saw at one time is in one group; they end together."""
    camera = replace(SEQUENCE, name="other", rig=SEQUENCE.name)
    writer = EdgeFirstWriter(tmp_path, "ds", options(val_ratio=0.5))
    writer.begin(SEQUENCE)
    writer.begin_camera(camera)
    depth = {
        sequence: RawImage("16UC1", np.ones((4, width), np.uint16))
        for sequence, width in ((SEQUENCE, 8), (camera, 9))
    }
    for frame in range(30):
        for sequence, image in depth.items():
            made = sample(frame, {Role.DEPTH: image}, sequence=sequence)
            assert writer.write(writer.prepare(made)).left_out is None
    with pytest.raises(OutputExists, match="other already"):
        writer.begin_camera(camera)
    writer.begin(SECOND)
    with pytest.raises(WriteError, match="begin each sequence before its samples"):
        writer.write(writer.prepare(sample(30, sequence=camera)))
    writer.close()
    rows = table(tmp_path).select("name", "frame", "group").to_dicts()
    groups = {(row["name"], row["frame"]): row["group"] for row in rows}
    assert len(groups) == 60
    own = [groups[SEQUENCE.name, frame] for frame in range(30)]
    assert own == [groups["other", frame] for frame in range(30)]
    assert {*own} == {"train", "val", "test"}


def test_samples_must_come_in_order_and_of_the_sequence_begun(tmp_path: Path) -> None:
    writer = EdgeFirstWriter(tmp_path, "ds", options())
    with pytest.raises(WriteError, match="not being written"):
        writer.write(writer.prepare(sample(0)))
    writer.begin(SEQUENCE)
    writer.write(writer.prepare(sample(3)))
    for late in (sample(3), sample(2)):
        said = writer.write(writer.prepare(late))
        assert (said.topics, said.left_out) == ((), LeftOut("unusable", "not later than the frame before"))
    with pytest.raises(WriteError, match="begin each sequence before its samples"):
        writer.write(writer.prepare(sample(4, sequence=SECOND)))
    writer.write(writer.prepare(sample(4)))
    writer.close()
    assert table(tmp_path)["frame"].to_list() == [3, 4]


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("container", ["zip", "folder"])
def test_a_full_disk_is_told_and_keeps_what_is_committed(tmp_path: Path, container: str) -> None:
    writer = EdgeFirstWriter(tmp_path, "ds", options(container=container))
    writer.begin(SEQUENCE)
    limit = 0
    for frame in range(3):
        writer.write(writer.prepare(full_sample(frame)))
        limit = max(limit, *(p.stat().st_size for p in (tmp_path / "ds").rglob("*") if p.is_file()))
    late = full_sample(3)
    assert late.image is not None
    large = replace(late.image, data=late.image.data + bytes(2 * limit))
    prepared = writer.prepare(replace(late, image=large))
    with (
        file_size_limit(limit + 1000),
        pytest.raises(WriteError, match=r"cannot be written: File too large.*recover"),
    ):
        writer.write(prepared)
    with pytest.raises(WriteError, match="not being written"):
        writer.write(writer.prepare(full_sample(4)))
    with pytest.raises(WriteError, match="not being written"):
        writer.close()
    assert all(name.endswith(".part") for name in tree(tmp_path / "ds"))
