"""Samples by distance, and one of each stop: by the truth, offline and live, with every message counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from faulty import FaultyOptions, Truth
from livedrive import check_sums, live_and_converted
from ncoreread import Sequence
from written import Written

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.frames import Moving
from edgefirst_ros.pipeline.samples import Pictures
from edgefirst_ros.sources.mcap import McapRecording

STOP_S = (5.0, 12.0)
SMALL: dict[str, Any] = {
    "seconds": 17.0,
    "stops": (STOP_S,),
    "fps": 5,
    "width": 160,
    "height": 96,
    "lidar_points": 64,
    "lidar_hz": 5.0,
    "cube_hz": 0.0,
    "radar_hz": 0.0,
    "imu_hz": 20.0,
    "model_hz": 5.0,
    "clock": "realtime",
}


def drive(**more: Any) -> tuple[Path, Truth]:  # noqa: ANN401 - options
    made = simulated(FaultyOptions(**{**SMALL, **more}))
    return made.mcap, Truth.read(made.truth)


def converted(folder: Path, made: Path, **chosen: Any) -> dict[str, Any]:  # noqa: ANN401 - options
    return dict(convert([made], folder, build_config(chosen), dataset="d").report)


def times_s(folder: Path, truth: Truth) -> np.ndarray[Any, Any]:
    dataset = edgefirst_ros.open(folder, keys=["time_ns"])
    return np.array([truth.seconds(sample["time_ns"]) for sample in dataset])


def test_a_stop_is_one_sample_and_the_rest_is_skipped_with_its_reason(tmp_path: Path) -> None:
    made, truth = drive()
    report = converted(tmp_path, made, select={"moving": True})
    seconds = times_s(tmp_path, truth)
    assert ((seconds > STOP_S[0]) & (seconds < STOP_S[1])).sum() <= 1
    assert (seconds < STOP_S[0]).sum() >= 20
    assert (seconds > STOP_S[1] + 2).sum() >= 10
    (sequence,) = report["sequences"]
    assert (sequence["sample"], sequence["skipped"]) == (len(seconds), 85 - len(seconds))
    check_sums(report)
    camera, lidar = (report["topics"][topic]["reasons"] for topic in ("/camera/h264", "/lidar/points"))
    assert camera == {"skipped": {Reason.STANDING: sequence["skipped"]}}
    assert lidar == {"skipped": {Reason.FRAME_NOT_SELECTED: sequence["skipped"]}}


def test_samples_are_as_far_apart_as_asked(tmp_path: Path) -> None:
    made, truth = drive()
    report = converted(tmp_path, made, select={"distance_m": 4.0})
    places = np.array(
        [truth.rig(s["time_ns"])[:2, 3] for s in edgefirst_ros.open(tmp_path, keys=["time_ns"])]
    )
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    assert len(places) > 5
    assert steps.min() > 3.7
    assert np.median(steps) < 6.5
    skipped = report["topics"]["/camera/h264"]["reasons"]["skipped"]
    assert skipped[Reason.TOO_NEAR] > 20
    assert skipped[Reason.TOO_NEAR] + skipped[Reason.STANDING] + len(places) == 85


@pytest.mark.long
@pytest.mark.parametrize(
    "chosen", [{"select": {"distance_m": 3.0}}, {"select": {"moving": True}, "rate_hz": 2.0}]
)
def test_live_and_offline_choose_the_same(tmp_path: Path, chosen: dict[str, Any]) -> None:
    made, _ = drive()
    values = {"formats": ["edgefirst", "ncore"], **chosen}
    live, again, report = live_and_converted(tmp_path, McapRecording(made).messages(), values, "maivin-sim")
    assert live == again
    check_sums(report)
    assert 5 < report["samples"] < 40
    pictures = len(Written(next((tmp_path / "live" / "edgefirst").iterdir())).of_kind("camera.jpeg"))
    (sequence,) = (tmp_path / "live" / "ncore").iterdir()
    assert len(Sequence(sequence).frames("cameras/camera_optical")) == pictures == report["samples"]


def test_no_picture_is_decoded_that_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = drive(jpeg=True)
    asked: list[int] = []
    request = Pictures.request
    monkeypatch.setattr(
        Pictures, "request", lambda self, camera: (asked.append(camera.time_ns), request(self, camera))[1]
    )
    report = converted(tmp_path, made, select={"moving": True}, formats=["edgefirst", "ncore"])
    assert len(set(asked)) == report["samples"] < 60


def test_where_no_motion_is_known_nothing_is_left_out_and_it_is_said(tmp_path: Path) -> None:
    made, _ = drive(silent={"gps": ((0.0, 17.0),), "imu": ((0.0, 17.0),)})
    report = converted(tmp_path, made, select={"moving": True, "distance_m": 5.0})
    assert report["samples"] == 85
    assert any("no motion is known of 85 frames" in note for note in report["notes"])


class TestMoving:
    """Of positions and speeds alone."""

    def taken(self, speeds: list[float | None], distance_m: float = 0.0) -> list[int]:
        wants, place, found = Moving(distance_m, moving=not distance_m), 0.0, []
        for number, speed in enumerate(speeds):
            place += speed or 0.0
            if wants.refusal((place, 0.0), speed) is None:
                found.append(number)
        return found

    def test_between_both_speeds_it_goes_on_as_before(self) -> None:
        assert self.taken([5, 0.4, 0.3, 5]) == [0, 1, 2, 3]
        assert self.taken([5, 0.1, 0.4, 0.5, 0.1, 0.7, 0.4]) == [0, 1, 5, 6]

    def test_a_stop_whose_first_moment_cannot_be_taken_gives_the_next_one(self) -> None:
        wants = Moving(moving=True)
        found = [wants.refusal((0.0, 0.0), 0.0, can_be=n > 1) for n in range(4)]
        assert found == [None, None, None, Reason.STANDING]

    def test_what_is_not_known_is_taken(self) -> None:
        wants = Moving(5.0)
        assert [wants.refusal(None, None) for _ in range(3)] == [None] * 3
        assert wants.was_unknown
