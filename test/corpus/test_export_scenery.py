"""COLMAP and nerfstudio exports against the world of the drive, and as COLMAP's own library reads them."""

from __future__ import annotations

import json
import subprocess
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import readable
import surveyed
from edgefirst_foreign import picture as some_picture
from PIL import Image
from PIL.ExifTags import GPS, IFD
from places import REPOSITORY
from s3server import upload
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.corpus import fetching
from edgefirst_ros.corpus.cloud import ColouredCloud, projected
from edgefirst_ros.corpus.scenery import colmap_model, export_colmap, export_nerfstudio
from edgefirst_ros.corpus.survey import View, surveys
from edgefirst_ros.formats.edgefirst.read.decoding import taken_at
from edgefirst_ros.model.camera import Intrinsics
from edgefirst_ros.model.errors import ConfigError, DatasetError, OutputExists
from edgefirst_ros.model.transform import matrix_of
from edgefirst_ros.model.untrusted import REPORT
from edgefirst_ros.simulation.world import inverse, transform

FORMATS = ("edgefirst", "ncore")
PYCOLMAP = REPOSITORY / ".venv-colmap" / "bin" / "python"
Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module", params=FORMATS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("colmap") / "out"
    masks = surveyed.folder() / "masks" if request.param == "edgefirst" else None
    (done,) = export_colmap(surveyed.folder() / "out" / request.param, out, masks=masks)
    assert done.pictures == 30
    assert done.unplaced == 0
    return done.folder


def test_a_drive_in_a_store_is_exported_as_here(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "_OWN", {})
    for kind in FORMATS:
        upload(surveyed.folder() / "out", f"{bucket}/{kind}/out")
        local, remote = tmp_path / f"local-{kind}", tmp_path / f"remote-{kind}"
        export_colmap(surveyed.folder() / "out" / kind, local)
        export_colmap(f"{bucket}/{kind}/out/{kind}", remote)
        files = [path.relative_to(local) for path in sorted(local.rglob("*")) if path.is_file()]
        assert len(files) > 30
        assert [(remote / each).read_bytes() == (local / each).read_bytes() for each in files] == [
            True
        ] * len(files)


def rows(file: Path) -> list[list[str]]:
    lines = file.read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def model(project: Path) -> tuple[dict[int, Intrinsics], list[tuple[str, int, Floats]], Floats]:
    """Lenses, name, lens and T_world_camera of pictures, and points, as the text model says."""
    folder = project / "sparse" / "0"
    lenses = {}
    for number, kind, width, height, *values in rows(folder / "cameras.txt"):
        fx, fy, cx, cy, *more = map(float, values)
        size, is_fisheye = (int(width), int(height)), kind == "OPENCV_FISHEYE"
        lenses[int(number)] = Intrinsics((fx, fy), (cx, cy), size, distortion=(*more,), is_fisheye=is_fisheye)
    images = []
    for _, w, x, y, z, *moved, camera, name in rows(folder / "images.txt"):
        pose = np.eye(4)
        pose[:3, :3] = matrix_of([float(x), float(y), float(z), float(w)])
        pose[:3, 3] = list(map(float, moved))
        images.append((name, int(camera), pose))
    return lenses, images, np.array([row[1:4] for row in rows(folder / "points3D.txt")], float)


def taken_ns(project: Path, name: str) -> int:
    """When a picture was taken, by the truth: the one whose own time is nearest to that of its turn."""
    side = name.startswith("side_optical")
    topic = (
        "/side/image/compressed"
        if side
        else next(t for t in surveyed.truth().data["messages"] if "h264" in t)
    )
    names = sorted(p.name for p in (project / "images" / name.split("/", maxsplit=1)[0]).iterdir())
    return int(surveyed.truth().true_ns(topic)[names.index(name.split("/")[1])])


def test_points_lie_on_pictures_where_the_world_has_them(project: Path) -> None:
    truth, (lenses, images, points) = surveyed.truth(), model(project)
    assert {lens.is_fisheye for lens in lenses.values()} == {False, True}
    first = next(image for image in images if image[0].startswith("camera_optical"))
    begin_ns = taken_ns(project, first[0])
    world = transform(truth.sensor("camera_optical", begin_ns) @ first[2], points)
    still = truth.surface_distance(world, begin_ns)[0] < 0.05
    assert still.mean() > 0.95  # the others are on cars, which drive
    points, world = points[still][::7], world[still][::7]
    seen = 0
    for name, number, pose in images:
        frame = "side_optical" if name.startswith("side") else "camera_optical"
        pixels = projected(transform(pose, points), lenses[number])
        true, _ = truth.project(world, taken_ns(project, name), frame)
        with np.errstate(invalid="ignore"):
            on = ((pixels >= 0) & (pixels < lenses[number].size)).all(axis=1)
        error_px = np.linalg.norm(pixels[on] - 0.5 - true[on], axis=1)
        assert error_px.max(initial=0.0) < 0.5
        seen += int(on.sum())
    assert seen > 1000


def test_the_cloud_has_the_colours_of_the_pictures_and_one_point_a_voxel(project: Path) -> None:
    points = model(project)[2]
    cells = np.floor(points / 0.1 + 1e-4)
    assert len(np.unique(cells, axis=0)) > 0.97 * len(points) > 5000
    colours = np.array([row[4:7] for row in rows(project / "sparse" / "0" / "points3D.txt")], int)
    boxes = surveyed.truth().box_of_color(colours.astype(np.uint8))
    assert (boxes >= 0).sum() > 20  # cars are coloured, the road and what no picture shows is gray


def test_what_the_mask_calls_vehicle_is_black_under_the_name_of_the_picture(project: Path) -> None:
    pictures = sorted((project / "images" / "camera_optical").iterdir())
    masks = sorted((project / "masks" / "camera_optical").iterdir())
    assert [mask.name for mask in masks] == [f"{picture.name}.png" for picture in pictures]
    mask = np.asarray(Image.open(masks[0]))
    assert (mask[surveyed.EGO] == 0).all()
    assert (mask == 0).sum() == mask[surveyed.EGO].size
    assert not (project / "masks" / "side_optical").exists()


def asked(script: str, argument: str) -> Any:  # noqa: ANN401 - JSON
    """What a script says in an interpreter with pycolmap."""
    if not PYCOLMAP.exists():
        pytest.skip("pycolmap is not installed: make test-exports")
    command = [str(PYCOLMAP), "-c", script, argument]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_colmap_reads_the_model_and_projects_as_we_do(project: Path) -> None:
    script = """
import json, sys, pycolmap
model = pycolmap.Reconstruction(sys.argv[1])
points = [point.xyz for point in list(model.points3D.values())[::50]]
found = {}
for image in list(model.images.values())[::5]:
    seen = [image.cam_from_world() * point for point in points]
    lens = model.cameras[image.camera_id]
    found[image.name] = [None if p[2] < 0.2 else lens.img_from_cam(p).tolist() for p in seen]
print(json.dumps([[p.tolist() for p in points], found, len(model.images)]))
"""
    points, found, count = asked(script, str(project / "sparse" / "0"))
    lenses, images, _ = model(project)
    assert count == len(images)
    for name, number, pose in images:
        for point, theirs in zip(points, found.get(name, []), strict=False):
            if theirs is not None and 0 <= theirs[0] < lenses[number].size[0]:
                mine = projected(transform(pose, np.array([point])), lenses[number])[0]
                assert mine == pytest.approx(theirs, abs=0.01)


@pytest.mark.parametrize("name", FORMATS)
def test_transforms_say_the_same_poses_in_axes_of_opengl(tmp_path: Path, name: str) -> None:
    """Of cameras of one kind; nerfstudio has one kind for all."""
    source = surveyed.folder() / "out" / name
    with pytest.raises(DatasetError, match="pinhole or fisheye cameras, not both"):
        export_nerfstudio(source, tmp_path / "nerf")
    assert not (tmp_path / "nerf").exists()


def test_transforms_of_one_camera(tmp_path: Path) -> None:
    (done,) = export_nerfstudio(readable.dataset(), tmp_path / "nerf")
    content = json.loads((done.folder / "transforms.json").read_text())
    assert content["camera_model"] == "OPENCV"
    assert len(content["frames"]) == done.pictures == 15
    header, _, body = (done.folder / content["ply_file_path"]).read_bytes().partition(b"end_header\n")
    assert f"element vertex {done.points}".encode() in header
    cloud = np.frombuffer(body, np.dtype([("xyz", "<f4", 3), ("rgb", "u1", 3)]))
    assert len(cloud) == done.points > 1000
    topic = next(t for t in readable.truth().data["messages"] if "h264" in t)
    times_ns = readable.truth().true_ns(topic)
    opengl = np.diag([1.0, -1.0, -1.0, 1.0])
    poses = [np.array(frame["transform_matrix"]) @ opengl for frame in content["frames"]]
    to_world = readable.truth().sensor("camera_optical", int(times_ns[0])) @ inverse(poses[0])
    for frame, pose, time_ns in zip(content["frames"], poses, times_ns, strict=True):
        assert (done.folder / frame["file_path"]).is_file()
        true = readable.truth().sensor("camera_optical", int(time_ns))
        assert np.abs((to_world @ pose)[:3, 3] - true[:3, 3]).max() < 0.02
        assert np.abs((to_world @ pose)[:3, :3] - true[:3, :3]).max() < 0.002
        assert (frame["w"], frame["h"], frame["fl_x"]) == (384, 216, pytest.approx(253.44))


def test_without_places_in_pictures_poses_are_those_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a drive with odometry alone."""
    by_place = [each for survey in surveys([readable.dataset()]) for each in survey if isinstance(each, View)]
    monkeypatch.setattr("edgefirst_ros.formats.edgefirst.scenes.taken_at", lambda _: None)
    by_track = [each for survey in surveys([readable.dataset()]) for each in survey if isinstance(each, View)]
    assert len(by_track) == len(by_place) == 15
    for views in (by_place, by_track):
        first = views[0].T_camera_world[:3, 3].copy()
        for view in views:
            view.T_camera_world[:3, 3] -= first
    for mine, theirs in zip(by_track, by_place, strict=True):
        assert mine.T_camera_world == pytest.approx(theirs.T_camera_world, abs=0.02)


def test_places_of_pictures_are_signed() -> None:
    file, exif = BytesIO(), Image.Exif()
    exif[IFD.GPSInfo] = {
        GPS.GPSLatitudeRef: "S",
        GPS.GPSLatitude: (33.0, 30.0, 36.0),
        GPS.GPSLongitudeRef: "W",
        GPS.GPSLongitude: (70.0, 0.0, 1.8),
        GPS.GPSAltitudeRef: b"\x01",
        GPS.GPSAltitude: 12.5,
    }
    Image.new("RGB", (8, 8)).save(file, "JPEG", exif=exif)
    assert taken_at(Image.open(file)) == pytest.approx((-33.51, -70.0005, -12.5))
    assert taken_at(Image.open(BytesIO(some_picture()))) is None


def test_several_drives_are_folders_side_by_side(tmp_path: Path) -> None:
    out = surveyed.folder() / "out"
    done = export_colmap([out / "edgefirst", out / "ncore"], tmp_path / "all")
    assert len({each.folder for each in done}) == 2
    assert {each.folder.parent for each in done} == {tmp_path / "all"}


def test_a_folder_with_both_formats_is_exported_once_from_the_sensors_own_frames(tmp_path: Path) -> None:
    (done,) = export_colmap(surveyed.folder() / "out", tmp_path / "all")
    assert (done.folder / "masks").is_dir()  # which only one of them has


def test_nothing_is_overwritten_and_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(OutputExists):
        export_colmap(surveyed.folder() / "out", tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
    (masks := tmp_path / "masks").mkdir()
    (masks / "camera_optical.png").write_bytes(some_picture())
    with pytest.raises(DatasetError, match="the mask of camera_optical is not of 384x216"):
        export_colmap(surveyed.folder() / "out" / "edgefirst", tmp_path / "new", masks=masks)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ConfigError, match="voxel"):
        export_colmap(surveyed.folder() / "out", tmp_path / "new", voxel_m=0)


def test_without_the_report_the_export_says_what_is_missing(tmp_path: Path) -> None:
    folder = readable.copied(tmp_path)
    (folder / REPORT).unlink()
    with pytest.raises(DatasetError, match=r"capture_report\.json is missing"):
        export_colmap(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("distortion", "is_fisheye", "name", "count"),
    [
        ((), False, "PINHOLE", 4),
        ((0.0,) * 5, False, "PINHOLE", 4),
        ((0.1, -0.2, 0.001, 0.002, 0.0), False, "OPENCV", 8),
        ((0.1, -0.2, 0.001, 0.002, 0.03), False, "FULL_OPENCV", 12),
        ((0.1, 0.2), True, "OPENCV_FISHEYE", 8),
    ],
)
def test_the_first_model_that_says_all_is_taken(
    distortion: tuple[float, ...], *, is_fisheye: bool, name: str, count: int
) -> None:
    lens = Intrinsics((300.0, 301.0), (160.0, 90.0), (320, 180), distortion=distortion, is_fisheye=is_fisheye)
    found, parameters = colmap_model(lens)
    assert (found, len(parameters)) == (name, count)


def test_a_lens_that_no_model_has_is_refused() -> None:
    lens = Intrinsics((300.0, 300.0), (160.0, 90.0), (320, 180), distortion=(0.0,) * 8 + (0.01,))
    with pytest.raises(DatasetError, match="thin prism"):
        colmap_model(lens)


@pytest.mark.parametrize("is_fisheye", [False, True])
def test_bent_lenses_project_as_colmap_projects(*, is_fisheye: bool) -> None:
    own = (0.08, -0.02, 0.003, 0.001) if is_fisheye else (0.1, -0.05, 0.002, -0.001, 0.01, 0.05, -0.02, 0.003)
    lens = Intrinsics((300.0, 310.0), (160.0, 92.0), (320, 180), distortion=own, is_fisheye=is_fisheye)
    points = np.random.default_rng(1).uniform((-2, -1, 3), (2, 1, 9), (50, 3))
    name, parameters = colmap_model(lens)
    theirs = asked(
        "import json, sys, pycolmap; name, values, points = json.loads(sys.argv[1]);"
        "camera = pycolmap.Camera(model=name, width=320, height=180, params=values);"
        "print(json.dumps([camera.img_from_cam(point).tolist() for point in points]))",
        json.dumps([name, parameters, points.tolist()]),
    )
    assert projected(points, lens) == pytest.approx(np.array(theirs), abs=1e-6)


def test_the_cloud_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgefirst_ros.corpus.cloud.MOST_POINTS", 1000)
    monkeypatch.setattr("edgefirst_ros.corpus.cloud._PENDING", 3000)
    cloud = ColouredCloud(0.1)
    lens = Intrinsics((100.0, 100.0), (16.0, 10.0), Image.open(BytesIO(some_picture())).size)
    cloud.see(View("c", "0", 0, some_picture(), lens, np.eye(4)))
    rng = np.random.default_rng(1)
    for _ in range(6):
        cloud.add(rng.uniform(-20, 20, (2000, 3)))
    points, colours = cloud.result()
    assert 300 < len(points) <= 1000
    assert len(colours) == len(points)


def test_the_command_says_where_and_how_much(tmp_path: Path) -> None:
    source = surveyed.folder() / "out" / "edgefirst" / "d"
    done = CliRunner().invoke(app, ["export", "colmap", str(source), "-o", str(tmp_path / "x")])
    assert done.exit_code == 0, done.output
    assert "30 pictures, " in done.output
