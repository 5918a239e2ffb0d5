"""examples/egomask.py finds the vehicle where it is, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageDraw
from places import REPOSITORY

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions, simulate
from edgefirst_ros.simulation.camera import Pixels, Renderer

SIZE = 480, 270


def bonnet() -> npt.NDArray[np.bool_]:
    drawn = Image.new("L", SIZE)
    ImageDraw.Draw(drawn).ellipse((-0.12 * 480, 0.72 * 270, 1.12 * 480, 1.5 * 270), fill=255)
    return np.asarray(drawn) > 0


def drafted(folder: Path, *, stops: tuple[tuple[float, float], ...] = ()) -> tuple[int, str]:
    """Exit code of the example for a drive, and what it said; the mask is ego.png."""
    options = DriveOptions(
        seconds=14.0, fps=3, width=SIZE[0], height=SIZE[1], jpeg=True, lidar_hz=1.0, lidar_points=200,
        cube_hz=0.1, radar_hz=1.0, imu_hz=10.0, boxes3d=False, stops=stops,
    )  # fmt: skip
    recording = simulate(folder / "recording", options)
    convert(list(recording.files), folder / "out", build_config({}), dataset="d")
    command = [sys.executable, str(REPOSITORY / "examples" / "egomask.py"), str(folder / "out")]
    done = subprocess.run(
        [*command, "-o", str(folder / "ego.png")], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("has_bonnet", [True, False])
def test_the_bonnet_is_masked_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_bonnet: bool
) -> None:
    plain, part = Renderer.picture, bonnet() & has_bonnet

    def seen(self: Renderer, time_s: float) -> Pixels:
        return np.where(part[..., None], 40, plain(self, time_s)).astype(np.uint8)

    monkeypatch.setattr(Renderer, "picture", seen)
    code, said = drafted(tmp_path)
    assert code == 0, said
    mask = np.asarray(Image.open(tmp_path / "ego.png"))
    assert set(np.unique(mask)) <= {0, 255}
    found = mask > 0
    if not has_bonnet:
        assert found.mean() < 0.01
        return
    assert (found & part).sum() / (found | part).sum() >= 0.9
    preview = np.asarray(Image.open(tmp_path / "ego_preview.jpg"), float)
    assert preview[-10, 240, 0] > preview[-10, 240, 1] + 50


def test_a_rig_that_stands_is_refused(tmp_path: Path) -> None:
    code, said = drafted(tmp_path, stops=((1.0, 60.0),))
    assert code == 1
    assert said.startswith("error: ")
    assert not (tmp_path / "ego.png").exists()
