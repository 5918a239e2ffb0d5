"""What two cameras see is in L5Kit's frames, against the truth of the simulation."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from faulty import BoxErrors, FaultyOptions, Truth
from livedrive import check_sums, dataset_files
from oracle import assert_sound

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import MoreSensor
from edgefirst_ros.simulation.detector import detected
from edgefirst_ros.sources.mcap import McapRecording

pytestmark = pytest.mark.long  # test_l5_placement has a second camera
SEQUENCE = "rig_2026_05_01_09_00_00"
# Pictures span 74 degrees, so those of the two overlap by 29.
RIGHT = MoreSensor(
    *("camera", "right/image", "right_optical", (1.0, -0.5, 1.6), (0.0, 0.0, -45.0), 10.0, 60.0, 320, 180),
    info="right/info",
    boxes="right/model",
)
OPTIONS = FaultyOptions(
    seconds=6.0,
    fps=10,
    width=320,
    height=180,
    model_hz=10,
    boxes=BoxErrors(center_m=0.2, size=0.02),
    more=(RIGHT,),
    lidar_hz=0.0,
    radar_hz=0.0,
    cube_hz=0.0,
    gps_no_fix=0,
    host="rig",
)
TOPICS: dict[str, Any] = {
    "right": {"role": "camera", "topic": "right/image"},
    "right_info": {"role": "camera_info", "topic": "right/info"},
    # As the device's own, whose boxes must not go with another picture; it looks 40 ms after the front one.
    "right_model": {"role": "model", "topic": "right/model", "tolerance_ms": 16.0},
}
VALUES = {"formats": ["l5kit"], "topics": TOPICS, "prefix": ""}


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth.read(simulated(OPTIONS).truth)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("rig")
    done = convert([simulated(OPTIONS).mcap], folder, build_config(VALUES), dataset="d")
    check_sums(done.report)
    return folder / "l5kit" / "d.zarr", done.report


@pytest.fixture(scope="module")
def shown(converted: tuple[Path, dict[str, Any]], truth: Truth) -> list[tuple[float, dict[int, list[int]]]]:
    """By frame its time in seconds and, by true object, the tracks of the agents that are nearest to it."""
    dataset = FORMATS["l5kit"].read(converted[0])
    found = []
    for frame in dataset.frames[:]:
        time_ns = int(frame["timestamp"])
        true = np.array([truth.box(index, time_ns)[:2, 3] for index in range(len(truth.world.boxes))])
        true += frame["ego_translation"][:2] - truth.rig(time_ns)[:2, 3]
        tracks: dict[int, list[int]] = defaultdict(list)
        for agent in dataset.agents[slice(*frame["agent_index_interval"])]:
            apart_m = np.linalg.norm(true - agent["centroid"], axis=1)
            assert apart_m.min() < 2.5
            tracks[int(apart_m.argmin())].append(int(agent["track_id"]))
        found.append((truth.seconds(time_ns), dict(tracks)))
    return found


def seen(truth: Truth, time_s: float, frame: str) -> set[int]:
    """Objects of whose box the edges of the picture cut nothing."""
    boxes = detected(truth.world, time_s, frame)
    return {index for index, (left, _, right, _) in boxes if left > 3 and right < OPTIONS.width - 3}


def test_what_only_the_second_camera_sees_is_there(
    shown: list[tuple[float, dict[int, list[int]]]], truth: Truth
) -> None:
    there = lost = 0
    for time_s, found in shown[5:-5]:
        front, right = (seen(truth, time_s, name) for name in ("camera_optical", "right_optical"))
        there += len((right - front) & found.keys())
        lost += len((right - front) - found.keys())
    # Where it comes into the picture, or goes, it may be a frame early or late.
    assert there > 25
    assert lost <= 3


def test_messages_of_both_cameras_are_accounted_for(converted: tuple[Path, dict[str, Any]]) -> None:
    """What is of objects that the first camera saw as well is in no frame."""
    account = converted[1]["topics"]["/right/model"]
    assert account["received"] == 60
    assert account["written_to"]["l5kit"] >= 25
    assert {*account["reasons"].get("decoded", {})} == {"not used by any frame"}


def test_what_l5kit_opens_is_sound(converted: tuple[Path, dict[str, Any]]) -> None:
    assert_sound("l5kit", converted[0])


def test_live_equals_convert(tmp_path: Path) -> None:
    values = VALUES | {
        "min_free_mb": 0,
        "ego": {"smoothing": "lag"},
        "overload": {"latency_s": 0},
        "record": True,
    }
    live = LiveCapture(build_config(values), tmp_path / "live", "rig")
    live.start("d", sequence=SEQUENCE)
    for number, message in enumerate(McapRecording(simulated(OPTIONS).mcap).messages()):
        if number == 700:
            live.split()
        live.put(message)
    assert all(each.report["topics"]["/right/model"]["written"] > 2 for each in live.stop(120))
    for recording in sorted((tmp_path / "live" / "recordings").glob("*.mcap")):
        convert([recording], tmp_path / "again", build_config(values | {"record": False}))
    assert dataset_files(tmp_path / "again") == dataset_files(tmp_path / "live")
