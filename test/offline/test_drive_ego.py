"""Poses of converted drives whose GPS fails, is wrong, or whose IMU is turned, as the formats hold them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulate
from places import contents
from scipy.spatial.transform import Rotation
from written import Written

from edgefirst_ros.config.model import build_config
from edgefirst_ros.ego import geometry
from edgefirst_ros.ego.geometry import Vector
from edgefirst_ros.formats.l5kit import ChunkedDataset
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import GeoPoint
from edgefirst_ros.offline.convert import Conversion, Position, convert
from edgefirst_ros.simulation import DriveOptions, Truth
from edgefirst_ros.simulation.options import GpsErrors, ImuErrors

TINY: dict[str, Any] = {
    "seconds": 10.0,
    "width": 160,
    "height": 96,
    "fps": 10,
    "lidar_hz": 0.0,
    "radar_hz": 0.0,
    "model_hz": 0.0,
    "imu_hz": 100.0,
    "clock": "realtime",
    "gps_no_fix": 0,
}


def made(folder: Path, **options: Any) -> tuple[Path, Truth]:  # noqa: ANN401
    recording = simulate(folder, DriveOptions(**{**TINY, **options}))
    return recording.mcap, Truth.read(recording.truth)


def converted(folder: Path, recording: Path, formats: str, **ego: object) -> Conversion:
    return convert([recording], folder, build_config({"formats": [formats], "ego": ego}), dataset="d")


def places_off(folder: Path, truth: Truth) -> tuple[np.ndarray, np.ndarray]:
    """Seconds, and by how many metres the locations of an EdgeFirst dataset are off; NaN where none is."""
    dataset = Written(folder / "edgefirst" / "d")
    times = truth.true_ns("/camera/h264")
    seconds, metres = [], []
    for frame, place in zip(dataset.table["frame"], dataset.table["location"], strict=True):
        time_ns = int(times[frame])
        seconds.append(truth.seconds(time_ns))
        known = None if place is None else place.to_list()
        if known is None or any(value is None for value in known):
            metres.append(np.nan)
            continue
        longitude, latitude = known
        found = truth.enu(latitude, longitude, truth.world.altitude_m)
        metres.append(float(np.linalg.norm(found - truth.rig(time_ns)[:3, 3])))
    return np.array(seconds), np.array(metres)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("silent", [(4.0, 10.0), (0.0, 5.0)], ids=["dies", "late"])
def test_locations_are_right_where_the_receiver_is_silent(
    tmp_path: Path, silent: tuple[float, float]
) -> None:
    recording, truth = made(tmp_path / "drive", silent={"gps": (silent,)})
    done = converted(tmp_path / "out", recording, "edgefirst")
    _, metres = places_off(tmp_path / "out", truth)
    assert len(metres) == 100
    assert metres.max() < 0.3
    (sequence,) = done.report["sequences"]
    assert sequence["poses_s"]["position"]["dead-reckoned"] > 4
    assert any("dead-reckoned" in warning for warning in done.report["warnings"])


def test_one_flipped_message_does_not_move_the_rig(tmp_path: Path) -> None:
    errors = GpsErrors(jumps=((5.0, 0.0, 240.0),))
    recording, truth = made(tmp_path / "drive", gps=errors, gps_hz=2.5)
    done = converted(tmp_path / "out", recording, "edgefirst")
    _, metres = places_off(tmp_path / "out", truth)
    assert metres.max() < 0.1
    reasons = done.report["topics"]["/gps"]["reasons"]["refused"]
    assert reasons == {Reason.SAME_EPOCH: 25, Reason.OUTLYING_FIX: 1}
    assert any("farthest by 240.0 m (" in note for note in done.report["notes"])


def test_l5kit_frames_are_where_the_rig_was_without_gps(tmp_path: Path) -> None:
    recording, truth = made(tmp_path / "drive", silent={"gps": ((4.0, 10.0),)})
    converted(tmp_path / "out", recording, "l5kit")
    dataset = ChunkedDataset(str(tmp_path / "out" / "l5kit" / "d.zarr")).open()
    frames = dataset.frames[:]
    start_m = truth.rig(int(frames[0]["timestamp"]))[:3, 3]
    moved = frames["ego_translation"] - frames[0]["ego_translation"]
    true = np.array([truth.rig(int(each))[:3, 3] - start_m for each in frames["timestamp"]])
    assert len(frames) >= 95
    assert np.linalg.norm(moved - true, axis=1).max() < 0.1
    turned = Rotation.from_matrix([truth.rig(int(each))[:3, :3] for each in frames["timestamp"]])
    off = (Rotation.from_matrix(frames["ego_rotation"]).inv() * turned).magnitude()
    assert np.degrees(off.max()) < 0.2


@pytest.mark.long
def test_a_turned_imu_is_told_with_the_line_that_mends_it(tmp_path: Path) -> None:
    recording, _ = made(tmp_path / "drive", imu=ImuErrors(mounting_deg=(0.0, 0.0, 30.0)))
    said = converted(tmp_path / "told", recording, "ncore").report["warnings"]
    (warning,) = [each for each in said if "rig_from_imu" in each]
    assert "the IMU's heading is +30." in warning
    line = warning.partition("ego.rig_from_imu_xyzw: ")[2]
    values = [float(value) for value in line.strip("[]").split(",")]
    mended = converted(tmp_path / "mended", recording, "ncore", rig_from_imu_xyzw=values)
    assert not [each for each in mended.report["warnings"] if "rig_from_imu" in each]


def test_lag_reads_once_and_whole_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgefirst_ros.offline.convert.PROGRESS_EVERY_S", 0.0)
    recording, _ = made(tmp_path / "drive", seconds=2.0)
    off = {"topics": {"imu": {"topic": ""}, "gps": {"topic": ""}}}
    totals = []
    for number, values in enumerate(({}, {"ego": {"smoothing": "lag"}}, off)):
        seen: list[Position] = []
        out = tmp_path / str(number)
        convert([recording], out, build_config(values), dataset="d", on_progress=seen.append)
        totals.append(seen[-1].bytes_total / recording.stat().st_size)
    assert totals == [2, 1, 1]


def test_a_drive_played_at_its_pace_is_followed_as_if_it_were_live(tmp_path: Path) -> None:
    recording, _ = made(tmp_path / "drive", seconds=2.0)
    places = []
    for name, smoothing, pace in (("a", "auto", lambda _: None), ("b", "lag", None), ("c", "auto", None)):
        config = build_config({"ego": {"smoothing": smoothing}})
        convert([recording], tmp_path / name, config, dataset="d", pace=pace)
        places.append(Written(tmp_path / name / "edgefirst" / "d").table["location"].to_list())
    assert places[0] == places[1] != places[2]


def test_a_stop_on_the_first_reading_leaves_no_samples(tmp_path: Path) -> None:
    recording, _ = made(tmp_path / "drive", seconds=2.0)
    stop = threading.Event()
    stop.set()
    done = convert([recording], tmp_path / "out", build_config({}), dataset="d", stop=stop)
    assert done.interrupted
    assert done.report["samples"] == 0
    first, second = done.report["warnings"]
    assert first.startswith("the dataset is empty")
    assert second.startswith(f"{recording.name}: not converted: interrupted in the first of two passes")
    assert "ego.smoothing: lag" in second
    assert done.interruption == "interrupted before anything was converted"


def test_what_follows_an_interruption_is_said_not_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first recording is whole by then, the second was gone through for its motion alone."""
    recordings = [made(tmp_path / name, seconds=1.0)[0].rename(tmp_path / f"{name}.mcap") for name in "abc"]
    stop = threading.Event()
    monkeypatch.setattr("edgefirst_ros.offline.convert.PROGRESS_EVERY_S", 0.0)

    def heard(position: Position) -> None:
        if position.file == "b.mcap":
            stop.set()

    config = build_config({})
    done = convert(recordings, tmp_path / "out", config, dataset="d", stop=stop, on_progress=heard)
    assert done.report["samples"] > 0
    assert done.interruption == "interrupted: the dataset is complete up to here"
    assert [text.split(":")[0] for text in done.report["warnings"][:2]] == ["b.mcap", "c.mcap"]
    assert "rig's motion" in done.report["warnings"][0]
    assert "not read" in done.report["warnings"][1]


def test_the_same_bytes_whatever_the_workers(tmp_path: Path) -> None:
    recording, _ = made(tmp_path / "drive", seconds=3.0, silent={"gps": ((1.0, 2.0),)})
    files = []
    for workers in (1, 4):
        out = tmp_path / str(workers)
        config = build_config({"formats": ["edgefirst", "ncore", "l5kit"], "workers": workers})
        convert([recording], out, config, dataset="d")
        files.append(contents(out))
    assert files[0] == files[1]


def test_positions_become_locations_for_samples_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording, _ = made(tmp_path / "drive", seconds=3.0)
    located: list[Vector] = []

    def from_enu(position_m: Vector, origin: GeoPoint) -> GeoPoint:
        located.append(position_m)
        return geometry.from_enu(position_m, origin)

    monkeypatch.setattr("edgefirst_ros.ego.trajectory.from_enu", from_enu)
    done = converted(tmp_path / "out", recording, "edgefirst")
    assert len(located) == done.report["samples"] > 0
