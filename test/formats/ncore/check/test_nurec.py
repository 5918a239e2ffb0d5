"""What NuRec asks: each point turns with what it is about, and the figures are those that were put in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ncoremade import (
    HEIGHT,
    SEQUENCE,
    START_NS,
    WIDTH,
    camera,
    observation,
    pose,
)
from PIL import Image

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.format import Check, Look, Point
from edgefirst_ros.formats.ncore.check import official
from edgefirst_ros.formats.ncore.check.nurec import MOST_MOVE_CM, MOST_TURN_DEG
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.detection import Box, Detections
from edgefirst_ros.model.sample import EgoPose, Observation, Role

Steps = Iterable[Observation | EgoPose]
SECONDS = 4
MS = 1_000_000


@pytest.fixture(autouse=True)
def _no_official_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "find_python", lambda wanted=None: wanted)


def drive(
    seconds: float = SECONDS, *, poses: Callable[[int], EgoPose] = pose
) -> Iterator[Observation | EgoPose]:
    for ms in range(0, int(seconds * 1000), 10):
        now = START_NS + ms * MS
        yield poses(now)
        if ms % 100 == 0:
            yield camera(now, ms)


def written(root: Path, steps: Steps, **options: object) -> Check:
    writer = NCoreWriter(root, NCoreOptions.model_validate(options))
    writer.begin(SEQUENCE)
    for step in steps:
        if isinstance(step, EgoPose):
            writer.pose(step)
        else:
            writer.write(writer.prepare(step))
    writer.close()
    (found,) = check(root, look=Look(quick=True, user="nurec"))
    assert not found.errors, found.text
    return found


def judged(root: Path, steps: Steps, **options: object) -> dict[str, Point]:
    return {point.name: point for point in written(root, steps, **options).points}


def test_each_point_is_a_line_and_what_is_not_fulfilled_makes_it_not_ready(tmp_path: Path) -> None:
    found = written(tmp_path, drive(1.5))
    assert len({point.name for point in found.points}) == len(found.points) == 9
    lacking = [point for point in found.points if point.verdict == "not fulfilled"]
    assert (found.ok, found.errors, found.warnings) == (True, 0, 0)
    assert f"nurec: not ready, {len(lacking)} of 9" in found.text
    assert all(point.advice for point in lacking)
    for point in found.points:
        line = next(line for line in found.text.splitlines() if f" {point.name}: " in line)
        assert line.split()[0] == {"fulfilled": "YES", "not fulfilled": "NO"}.get(point.verdict, "UNKNOWN")


def test_nobody_asks_unless_asked(tmp_path: Path) -> None:
    written(tmp_path, drive(0.3))
    (found,) = check(tmp_path)
    assert (found.points, found.warnings) == ((), 0)


def mask(path: Path, share: float) -> Path:
    """The lowest rows of a picture are the vehicle."""
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
    pixels[round(HEIGHT * (1 - share)) :] = 1
    Image.fromarray(pixels).save(path)
    return path


@pytest.mark.parametrize(
    ("name", "share", "verdict"),
    [("ego", 0.25, "fulfilled"), ("hood", 0.25, "not fulfilled"), ("ego", 0.75, "not fulfilled")],
)
def test_each_camera_has_a_mask_called_ego(tmp_path: Path, name: str, share: float, verdict: str) -> None:
    png = mask(tmp_path / "mask.png", share)
    found = judged(tmp_path / "out", drive(0.3), ego_masks={"camera_optical": {name: png}})["ego_masks"]
    assert found.verdict == verdict
    if name == "ego":
        assert found.figures["masked"] == {"camera_optical": pytest.approx(share)}


def shaken(sigma_m: float = 0.0, sigma_rad: float = 0.0) -> Callable[[int], EgoPose]:
    """Poses with white noise every 50 ms, which are all that is written."""

    def at(time_ns: int) -> EgoPose:
        random = np.random.default_rng(time_ns % 2**32)
        true = pose(time_ns)
        off, turn = random.normal(0, 1, 3) * sigma_m, random.normal(0, 1) * sigma_rad
        x, y, z, w = true.rotation_xyzw or (0.0, 0.0, 0.0, 1.0)
        angle = 2 * np.arctan2(z, w) + turn
        return replace(
            true,
            position_m=tuple(map(float, np.add(true.position_m, off))),
            rotation_xyzw=(x, y, float(np.sin(angle / 2)), float(np.cos(angle / 2))),
        )

    return at


def test_a_smooth_curve_is_smooth(tmp_path: Path) -> None:
    found = judged(tmp_path, drive())["egomotion"]
    assert found.verdict == "fulfilled"
    assert found.figures["translation_p95_cm"] < 0.1
    assert found.figures["rotation_p95_deg"] < 0.02
    assert found.figures["frame_s"] == pytest.approx(0.1)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(("sigma_m", "sigma_deg"), [(0.005, 0.1), (0.02, 0.0), (0.0, 0.5)])
def test_egomotion_is_as_far_off_as_its_noise(tmp_path: Path, sigma_m: float, sigma_deg: float) -> None:
    """95 % of differences of white noise in three dimensions are below 2.795 √2 σ, in one below 1.96 √2 σ."""
    steps = drive(20, poses=shaken(sigma_m, np.radians(sigma_deg)))
    kept = (each for each in steps if not isinstance(each, EgoPose) or each.time_ns // MS % 50 == 0)
    found = judged(tmp_path, kept)["egomotion"]
    move_cm, turn_deg = 2.795 * 2**0.5 * sigma_m * 100, 1.96 * 2**0.5 * sigma_deg
    assert found.figures["translation_p95_cm"] == pytest.approx(move_cm, rel=0.2, abs=0.1)
    assert found.figures["rotation_p95_deg"] == pytest.approx(turn_deg, rel=0.2, abs=0.02)
    fits = move_cm < MOST_MOVE_CM and turn_deg < MOST_TURN_DEG
    assert found.verdict == ("fulfilled" if fits else "not fulfilled")


def test_poses_of_a_rig_that_nobody_located_fulfil_nothing(tmp_path: Path) -> None:
    found = judged(tmp_path, (camera(START_NS + ms * MS, ms) for ms in range(0, 1000, 100)))
    assert found["egomotion"].verdict == found["pose_coverage"].verdict == "not fulfilled"


def test_gaps_between_poses_are_measured(tmp_path: Path) -> None:
    steps = (
        each for each in drive(2) if not (isinstance(each, EgoPose) and 0 < each.time_ns // MS % 1000 < 120)
    )
    found = judged(tmp_path, steps)["pose_coverage"]
    assert found.verdict == "not fulfilled"
    assert found.figures["largest_gap_ms"] == pytest.approx(120)
    assert judged(tmp_path / "whole", drive(2))["pose_coverage"].verdict == "fulfilled"


def test_pictures_that_are_missing_are_counted(tmp_path: Path) -> None:
    lost = {START_NS + ms * MS for ms in (700, 1000, 1100)}
    steps = (each for each in drive(2) if isinstance(each, EgoPose) or each.measurement.time_ns not in lost)
    found = judged(tmp_path, steps)["pictures"]
    assert found.verdict == "not fulfilled"
    assert found.figures["camera_optical"] == {"rate_hz": pytest.approx(10), "pictures": 17, "missed": 3}


def boxes(labels: Iterable[str], x: float = 12.0) -> Iterator[Observation]:
    for ms in range(0, 500, 100):
        seen = tuple(
            Box(-2.0 * number, 0.0, 1.5, 1.2, label, 0.9, x, 0.5, f"t{number}", 3, START_NS)
            for number, label in enumerate(labels)
        )
        yield observation(Role.BOXES_3D, "/fusion/boxes3d", START_NS + ms * MS, Detections(seen, ()), "lidar")


def test_classes_are_those_that_nurec_knows_or_means(tmp_path: Path) -> None:
    found = judged(tmp_path, boxes(["person", "Cyclist", "car", "7"]))
    assert found["cuboids"].verdict == "fulfilled"
    assert found["cuboids"].figures == {"cuboids": 20, "tracks": 4, "seen_once": 0, "near": 0}
    assert found["classes"].figures == {"dynamic": ["person"], "others": ["7", "Cyclist", "car"]}
    assert "CYCLIST" in found["classes"].advice
    assert judged(tmp_path / "d", boxes(["car"], x=1.0))["cuboids"].figures["near"] == 5
