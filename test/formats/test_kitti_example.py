"""The format in examples/kitti, installed as another package's, through the command line."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from drives import simulate
from PIL import Image
from places import REPOSITORY

from edgefirst_ros.simulation import DriveOptions

pytest.importorskip("setuptools")
FRAMES = 5


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the module and its metadata, which setuptools makes without a network."""
    folder = tmp_path_factory.mktemp("site")
    for source in (REPOSITORY / "examples" / "kitti").glob("*.[pt]*"):
        shutil.copy(source, folder)
    code = "import setuptools; setuptools.setup()"
    subprocess.run(
        [sys.executable, "-c", code, "-q", "egg_info"], cwd=folder, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = DriveOptions(seconds=1, fps=FRAMES, width=160, height=96, lidar_points=64, cube_hz=0, imu_hz=50)
    return simulate(tmp_path_factory.mktemp("drive"), options).mcap


def run(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{REPOSITORY}"}
    command = [sys.executable, "-m", "edgefirst_ros", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=installed)


@pytest.fixture(scope="module")
def converted(installed: Path, drive: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:  # type: ignore[type-arg]
    out = tmp_path_factory.mktemp("out")
    config = out / "config.yaml"
    config.write_text("kitti: {digits: 10}\ntopics: {camera: {required: never}}\n")
    words = ["-o", f"{out}", "--name", "d", "--config", f"{config}", "--json"]
    done = run(installed, "convert", f"{drive}", "--format", "kitti,ncore", *words)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_it_writes_folders_beside_our_own_format(converted: tuple[Path, dict]) -> None:  # type: ignore[type-arg]
    out, report = converted
    folder = out / "kitti" / "d"
    names = {path.name: sorted(p.name for p in path.iterdir()) for path in folder.iterdir()}
    numbers = [f"{number:010d}" for number in range(FRAMES)]
    assert names["image_2"] == [f"{number}.jpg" for number in numbers]
    assert names["oxts"] == names["calib"] == [f"{number}.txt" for number in numbers]
    assert names["velodyne"]
    points = np.fromfile(folder / "velodyne" / names["velodyne"][0], "<f4").reshape(-1, 4)
    assert np.isfinite(points).all()
    assert (out / "ncore").is_dir()
    assert report["formats"]["kitti"]["frames"] == FRAMES


def test_its_messages_are_accounted_for(converted: tuple[Path, dict]) -> None:  # type: ignore[type-arg]
    _, report = converted
    account = report["topics"]["/camera/h264"]
    assert account["written_to"] == {"kitti": FRAMES, "ncore": FRAMES}
    alone = report["topics"]["/radar/targets"]
    assert "kitti" not in alone["written_to"]


def test_recover_and_check_know_it(installed: Path, converted: tuple[Path, dict], tmp_path: Path) -> None:  # type: ignore[type-arg]
    out = Path(shutil.copytree(converted[0] / "kitti", tmp_path / "kitti"))
    done = run(installed, "check", f"{out}")
    assert done.stdout.startswith("OK: kitti/d, 0 errors"), done.stdout + done.stderr
    (out / "d").rename(out / "d.part")
    (out / "d.part" / "oxts" / f"{FRAMES - 1:010d}.txt").write_text("torn")
    assert run(installed, "check", f"{out}").returncode == 1
    done = run(installed, "recover", f"{out}")
    assert f"{FRAMES - 1} frames are kept" in done.stdout, done.stdout + done.stderr
    assert len(list((out / "d" / "image_2").iterdir())) == FRAMES - 1


def test_it_is_seen_like_our_own_formats(
    installed: Path,
    converted: tuple[Path, dict],  # type: ignore[type-arg]
    tmp_path: Path,
) -> None:
    """Its pictures are on a report page and on a contact sheet, with nothing of it known to either."""
    folder = Path(shutil.copytree(converted[0] / "kitti" / "d", tmp_path / "kitti" / "d"))
    done = run(installed, "report", f"{folder}", "-o", f"{tmp_path / 'page.html'}")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    written = [Image.open(BytesIO(base64.b64decode(each))) for each in re.findall('base64,([^"]+)"', page)]
    assert [picture.size for picture in written] == [(160, 96)] * 4  # start, end, and at random between
    sheet = tmp_path / "sheet.png"
    done = run(installed, "report", f"{folder}", "--picture", f"{sheet}", "--rows", "2")
    assert done.returncode == 0, done.stderr
    camera, lidar, radar, _ = np.split(np.asarray(Image.open(sheet).convert("L"))[60:200, 6:1630], 4, axis=1)
    assert camera.std() > 20
    assert lidar.std() > radar.std() > 0


def test_help_names_it_and_its_options_are_checked(installed: Path, drive: Path, tmp_path: Path) -> None:
    assert "kitti" in run(installed, "convert", "--help").stdout
    config = tmp_path / "config.yaml"
    config.write_text("formats: kitti\nkitti: {digit: 0}\n")
    done = run(installed, "convert", f"{drive}", "-o", f"{tmp_path / 'out'}", "--config", f"{config}")
    assert done.returncode == 2
    assert "kitti.digit: no such parameter\nhint: did you mean kitti.digits?" in done.stderr
