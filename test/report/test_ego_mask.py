"""Drafts of ego masks: the vehicle is found where it is, and nowhere else; what cannot be told is refused."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import yaml
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from edgefirst_ros.cli.app import app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import Look
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report.unchanging import AHEAD, Aim, unchanging
from edgefirst_ros.simulation import DriveOptions, simulate
from edgefirst_ros.simulation.camera import Grain, Pixels, Renderer
from edgefirst_ros.simulation.options import MoreSensor
from edgefirst_ros.simulation.world import CRUISE_M_S, build

SIZE = 480, 270
FRONT, REAR = "camera_optical", "rear_optical"
TOPICS = {
    "rear": {"role": "camera", "topic": "/rear/image"},
    "rear_info": {"role": "camera_info", "topic": "/rear/info"},
}
APART_S = 5.0 / CRUISE_M_S


def shape(name: str, size: tuple[int, int] = SIZE) -> npt.NDArray[np.bool_]:
    """What the camera sees of the vehicle."""
    drawn = Image.new("L", size)
    across, down = size
    draw = ImageDraw.Draw(drawn)
    if name == "bonnet":
        draw.ellipse((-0.12 * across, 0.72 * down, 1.12 * across, 1.5 * down), fill=255)
    elif name == "corner":
        draw.polygon([(0, 0.55 * down), (0.14 * across, down), (0, down)], fill=255)
    elif name == "mirror":
        draw.ellipse((-0.06 * across, 0.55 * down, 0.08 * across, 0.85 * down), fill=255)
    return np.asarray(drawn) > 0


def laid_over(picture: Pixels, part: npt.NDArray[np.bool_], colour: int, mirrored: float) -> Pixels:
    vehicle = (1 - mirrored) * colour + mirrored * np.roll(picture[::-1], 40, axis=0)
    return np.where(part[..., None], vehicle, picture).astype(np.uint8)


def driven(
    part: npt.NDArray[np.bool_],
    *,
    colour: int = 40,
    mirrored: float = 0.0,
    seed: int = 1,
    apart_s: float = APART_S,
    shaken_px: int = 0,
    empty: bool = False,
) -> npt.NDArray[np.uint8]:
    """Luma of 24 JPEG pictures along a drive, each of another exposure and with noise."""
    world = build(seed, *SIZE, traffic="none" if empty else "lanes")
    renderer, grain, random = Renderer(world), Grain(3.0, *SIZE, seed), np.random.default_rng(seed)
    found = []
    for number in range(24):
        picture = np.roll(renderer.picture(number * apart_s), random.integers(-shaken_px, shaken_px + 1), 0)
        shown = laid_over(picture, part, colour, mirrored) * random.uniform(0.75, 1.2)
        noisy = grain.added(shown.clip(0, 255).astype(np.uint8), number)
        written = io.BytesIO()
        Image.fromarray(noisy).save(written, "JPEG", quality=85)
        found.append(np.asarray(Image.open(written).convert("L")))
    return np.stack(found)


def overlap(found: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> float:
    return float((found & true).sum() / (found | true).sum())


@pytest.mark.parametrize(
    ("name", "colour", "mirrored"),
    [
        ("bonnet", 40, 0.0),
        ("bonnet", 109, 0.0),  # as bright as the road on average
        ("bonnet", 40, 0.15),
        ("corner", 200, 0.0),
        ("mirror", 30, 0.0),
    ],
)
def test_what_is_in_view_of_the_vehicle_is_found(name: str, colour: int, mirrored: float) -> None:
    true = shape(name)
    assert overlap(unchanging(driven(true, colour=colour, mirrored=mirrored)).vehicle, true) >= 0.9


@pytest.mark.parametrize(("seed", "shaken_px", "empty"), [(2, 0, True), (2, 3, True), (3, 3, False)])
def test_sky_road_and_horizon_are_not_the_vehicle(seed: int, shaken_px: int, empty: bool) -> None:
    nothing = np.zeros(SIZE[::-1], np.bool_)
    found = unchanging(driven(nothing, seed=seed, shaken_px=shaken_px, empty=empty))
    assert found.vehicle.mean() <= 0.01
    assert found.changes > 0.3


def plain_road(contour: Callable[[npt.NDArray[np.float64], npt.NDArray[np.float64]], object]) -> Pixels:
    """Luma of 24 pictures of a road without a mark on it, cut by a line that stays; trees above change."""
    y, x = np.mgrid[: SIZE[1], : SIZE[0]].astype(float)
    random, pictures = np.random.default_rng(0), []
    for _ in range(24):
        trees = np.repeat(np.repeat(random.integers(0, 255, (27, 48)), 10, 0), 10, 1)
        road = np.where(contour(x, y), 70, 110) + random.normal(0, 1, x.shape)
        pictures.append(np.where(y < SIZE[1] / 2, trees, road).clip(0, 255).astype(np.uint8))
    return np.stack(pictures)


def test_a_lane_marking_that_stays_where_it_is_bounds_no_vehicle() -> None:
    along = plain_road(lambda x, y: x - SIZE[0] / 2 > 0.8 * (y - SIZE[1] / 2))
    assert not unchanging(along).vehicle.any()
    across = plain_road(lambda _, y: y > 0.8 * SIZE[1])
    assert 0.15 < unchanging(across).vehicle.mean() < 0.25


def test_along_and_across_are_meant_from_where_the_camera_looks() -> None:
    sideways: Aim = (1.0, 0.0, 0.0)
    step = plain_road(lambda _, y: y > 0.8 * SIZE[1])
    assert unchanging(step, AHEAD).vehicle.any()
    assert not unchanging(step, sideways).vehicle.any()  # a kerb, beside the car


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of a drive whose front camera sees the bonnet, and whose rear camera sees nothing of it."""
    folder = tmp_path_factory.mktemp("masked")
    rear = MoreSensor(
        "camera", "rear/image", REAR, (-1.0, 0.0, 1.5), (0.0, 0.0, 180.0), hz=2.0, info="rear/info",
        width=SIZE[0], height=SIZE[1],
    )  # fmt: skip
    options = DriveOptions(
        seconds=14.0, fps=3, width=SIZE[0], height=SIZE[1], jpeg=True, more=(rear,), lidar_hz=1.0,
        lidar_points=200, cube_hz=0.1, radar_hz=1.0, imu_hz=10.0, boxes3d=False,
    )  # fmt: skip
    plain, bonnet = Renderer.picture, shape("bonnet")

    def seen(self: Renderer, time_s: float) -> Pixels:
        picture = plain(self, time_s)
        return laid_over(picture, bonnet, 40, 0.1) if self._frame == FRONT else picture

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Renderer, "picture", seen)
        recording = simulate(folder / "recording", options)
    config = build_config({"formats": ["ncore"], "topics": TOPICS})
    convert(list(recording.files), folder / "out", config, dataset="d")
    return folder


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def test_what_is_printed_makes_the_next_dataset_masked(drive: Path, tmp_path: Path) -> None:
    code, out, said = run("mask", drive / "out", "-o", tmp_path / "masks")
    assert code == 0, said
    told, settings = out.split("ncore:")
    assert "of the picture is masked, from " in told
    assert f"{REAR}: nothing of the vehicle is in view" in told
    masks = {name: np.asarray(Image.open(tmp_path / "masks" / f"{name}.png")) for name in (FRONT, REAR)}
    assert {mask.dtype for mask in masks.values()} == {np.dtype(np.uint8)}
    assert overlap(masks[FRONT] > 0, shape("bonnet")) >= 0.9
    assert set(np.unique(masks[FRONT])) == {0, 255}
    assert not masks[REAR].any()
    preview = np.asarray(Image.open(tmp_path / "masks" / f"{FRONT}_preview.jpg"), float)
    assert preview[-10, 240, 0] > preview[-10, 240, 1] + 50

    found = yaml.safe_load("ncore:" + settings)
    config = build_config({"formats": ["ncore"], "topics": TOPICS, **found})
    convert(sorted((drive / "recording").glob("*.mcap")), tmp_path / "again", config, dataset="d")
    (result,) = check(tmp_path / "again", look=Look(user="nurec"))
    (line,) = (line for line in result.text.splitlines() if "ego_masks" in line)
    assert "YES" in line
    assert f"{REAR} 0.0% masked" in line


def test_a_mask_that_may_have_been_corrected_stays(drive: Path, tmp_path: Path) -> None:
    (tmp_path / f"{REAR}.png").write_bytes(b"mine")
    code, _, said = run("mask", drive / "out", "-o", tmp_path)
    assert code == 2
    assert "corrected by hand" in said
    assert "--overwrite replaces it" in said
    assert (tmp_path / f"{REAR}.png").read_bytes() == b"mine"
    assert run("mask", drive / "out", "-o", tmp_path, "--overwrite")[0] == 0


def test_a_rig_that_stands_or_a_format_without_masks_is_refused(tmp_path: Path) -> None:
    options = DriveOptions(
        seconds=12.0, fps=2, width=160, height=96, jpeg=True, stops=((5.0, 60.0),), lidar_hz=1.0,
        lidar_points=200, cube_hz=0.1, imu_hz=10.0,
    )  # fmt: skip
    recording = simulate(tmp_path / "recording", options)
    convert(list(recording.files), tmp_path / "out", build_config({"formats": ["edgefirst", "ncore"]}))
    code, _, said = run("mask", tmp_path / "out", "-o", tmp_path / "masks")
    assert code == 2
    assert "the rig hardly moves" in said
    assert "take a drive of 80 m or more" in said
    shutil.rmtree(tmp_path / "out" / "ncore")
    code, _, said = run("mask", tmp_path / "out", "-o", tmp_path / "masks")
    assert code == 2
    assert "convert the drive with --format ncore first" in said
    assert not (tmp_path / "masks").exists()


def test_where_hardly_anything_changes_nothing_is_told() -> None:
    assert unchanging(driven(shape("bonnet"), apart_s=0.0)).changes < 0.15
