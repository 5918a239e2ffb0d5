"""Poses of converted drives whose GPS fails, is wrong, or whose IMU is turned, as the formats hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulate
from faulty import FaultyOptions, GpsErrors, ImuErrors, Truth
from scipy.spatial.transform import Rotation
from written import Written

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.l5kit import ChunkedDataset
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.offline.convert import Conversion, Position, convert

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
    recording = simulate(folder, FaultyOptions(**{**TINY, **options}))
    return recording.mcap, Truth.read(recording.truth)


def converted(folder: Path, recording: Path, formats: str, **values: object) -> Conversion:
    return convert([recording], folder, build_config({"formats": [formats], **values}), dataset="d")


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
    reasons = done.report["topics"]["/gps"]["reasons"]
    assert reasons == {"skipped": {Reason.SAME_EPOCH: 25}, "refused": {Reason.OUTLYING_FIX: 1}}
    assert any("farthest by 240.0 m" in note for note in done.report["notes"])


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
    (warning,) = [each for each in said if "mount.xyzw" in each]
    assert "the IMU's heading is +30." in warning
    line = warning.partition("topics.imu.mount.xyzw: ")[2]
    values = [float(value) for value in line.strip("[]").split(",")]
    mended = converted(tmp_path / "mended", recording, "ncore", topics={"imu": {"mount": {"xyzw": values}}})
    assert not [each for each in mended.report["warnings"] if "mount.xyzw" in each]


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
