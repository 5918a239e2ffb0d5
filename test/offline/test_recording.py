"""A recording with the clocks and quirks of the device, and a truth that knows the answers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import assert_sound
from written import Written, burnt_in_number, cube_int16, exif_time_ns, xyz

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import Conversion, convert
from edgefirst_ros.pipeline.ledger import COLUMNS

VARIANTS = [("2025.01", "zip"), ("2025.01", "folder"), ("2026.10", "zip")]


@pytest.fixture(scope="session")
def converted(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Written]:
    """The recording converted with nothing but defaults, in every version and container."""
    made = {}
    for version, container in VARIANTS:
        out = tmp_path_factory.mktemp("out")
        options = {"schema_version": version, "container": container}
        config = build_config({"select": {"require": "all"}, "edgefirst": options})
        done = convert([recording], out, config)
        assert isinstance(done, Conversion)
        made[version, container] = Written(out / "edgefirst" / recording.stem)
    return made


@pytest.fixture(scope="session")
def dataset(converted: dict[tuple[str, str], Written]) -> Written:
    return converted["2025.01", "zip"]


@pytest.fixture(scope="session")
def every_frame(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Every camera frame, whatever it lacks."""
    out = tmp_path_factory.mktemp("all")
    convert([recording], out, build_config({}))
    return Written(out / "edgefirst" / recording.stem)


@pytest.mark.parametrize("variant", VARIANTS, ids="-".join)
def test_what_the_client_and_others_open_is_sound(
    converted: dict[tuple[str, str], Written], variant: tuple[str, str]
) -> None:
    assert_sound("edgefirst", converted[variant].folder, complete=True)


def test_samples_that_lack_a_sensor_are_sound(every_frame: Written) -> None:
    assert_sound("edgefirst", every_frame.folder)


def test_every_message_is_received_and_accounted_for(dataset: Written, truth: dict[str, Any]) -> None:
    topics = dataset.report["topics"]
    assert {t: a["received"] for t, a in topics.items()} == truth["counts"]
    for topic, account in topics.items():
        assert account["received"] == sum(account[c] for c in COLUMNS), topic
        for column, reasons in account["reasons"].items():
            assert sum(reasons.values()) == account[column], (topic, column)
    assert topics["/gps"]["refused"] == 0
    assert topics["/gps"]["skipped"] == truth["counts"]["/gps"] - len(truth["gps"]["accepted"])


def test_radar_and_lidar_pair_although_their_clock_differs(
    dataset: Written, every_frame: Written, truth: dict[str, Any]
) -> None:
    counts, topics, samples = truth["counts"], dataset.report["topics"], dataset.report["samples"]
    assert samples >= counts["/radar/cube"]
    for kind in ("camera.jpeg", "radar.pcd", "radar.png", "lidar.pcd"):
        assert len(dataset.of_kind(kind)) == samples
    assert topics["/radar/cube"]["written"] == counts["/radar/cube"]
    assert dataset.report["complete"] == samples
    # Half of the pictures have no boxes, and cubes go to the nearest one.
    assert 0 < every_frame.report["complete"] <= samples
    assert len(every_frame.of_kind("radar.png")) == counts["/radar/cube"]
    for topic in ("/radar/cube", "/camera/h264", "/lidar/points", "/radar/targets"):
        assert every_frame.report["topics"][topic]["written"] == counts[topic]


def test_the_clock_offset_is_recovered_to_10_ms(dataset: Written, truth: dict[str, Any]) -> None:
    clocks = dataset.report["sequences"][0]["clocks"]
    for topic in ("/lidar/points", "/radar/cube", "/radar/targets", "/imu"):
        assert abs(clocks[topic]["offset_ns"] - truth["realtime_minus_monotonic_ns"]) < 10_000_000
    assert len({clocks[t]["clock"] for t in ("/lidar/points", "/radar/cube", "/imu")}) == 1
    for topic in ("/camera/info", "/radar/info", "/tf_static"):
        assert clocks[topic]["source"] == "receive"


def test_pairs_are_the_nearest_in_true_time(every_frame: Written, truth: dict[str, Any]) -> None:
    """Which sweep a picture got, against a search over the true times."""
    sweeps = [m[0] for m in truth["messages"]["/lidar/points"]]
    by_hash = {h: n for n, h in enumerate(truth["sha256"]["/lidar/points"])}
    pictures, clouds = every_frame.of_kind("camera.jpeg"), every_frame.of_kind("lidar.pcd")
    assert len(clouds) > 0.94 * len(pictures)
    for frame, data in clouds.items():
        time_ns = exif_time_ns(pictures[frame])
        chosen = sweeps[by_hash[hashlib.sha256(xyz(data).tobytes()).hexdigest()]]
        best = min(abs(s - time_ns) for s in sweeps)
        assert abs(chosen - time_ns) - best < 10_000_000


def test_every_picture_is_the_one_its_time_names(every_frame: Written, truth: dict[str, Any]) -> None:
    messages, presentation = truth["messages"]["/camera/h264"], truth["video"]["/camera/h264"]["presentation"]
    number_at = {m[0]: presentation[n] for n, m in enumerate(messages)}
    pictures = every_frame.of_kind("camera.jpeg")
    assert len(pictures) == len(messages)
    for frame, picture in pictures.items():
        assert burnt_in_number(picture) == number_at[exif_time_ns(picture)] == frame


def test_clouds_and_cubes_read_back_to_the_truths_hashes(every_frame: Written, truth: dict[str, Any]) -> None:
    clouds = {hashlib.sha256(xyz(d).tobytes()).hexdigest() for d in every_frame.of_kind("lidar.pcd").values()}
    assert clouds == set(truth["sha256"]["/lidar/points"])
    cubes = {
        hashlib.sha256(cube_int16(d).tobytes()).hexdigest() for d in every_frame.of_kind("radar.png").values()
    }
    assert cubes == set(truth["sha256"]["/radar/cube"])


def test_locations_lie_on_the_accepted_fixes(dataset: Written, truth: dict[str, Any]) -> None:
    accepted = truth["gps"]["accepted"]
    # Carried on for the second before the first fix; the last digit of a fix is 0.2 m.
    times, places = np.array([f[0] for f in accepted]), np.array([f[1:3] for f in accepted])
    beyond_deg = np.abs(np.diff(places, axis=0) / np.diff(times)[:, None] * 1e9).max(axis=0) + 1e-5
    low, high = places.min(axis=0) - beyond_deg, places.max(axis=0) + beyond_deg
    for longitude, latitude in dataset.table["location"].to_list():
        assert low[0] <= latitude <= high[0]
        assert low[1] <= longitude <= high[1]


def test_a_poor_result_names_its_cause(dataset: Written) -> None:
    warnings = [warning for warning in dataset.report["warnings"] if "became samples" in warning]
    assert len(warnings) == 1
    assert "radar/cube" in warnings[0]
    assert "2.0 Hz" in warnings[0]


def test_one_worker_and_four_write_the_same_bytes(
    recording: Path, tmp_path: Path, converted: dict[tuple[str, str], Written]
) -> None:
    hashes = []
    for workers in (1, 4):
        out = tmp_path / str(workers)
        convert([recording], out, build_config({"select": {"require": "all"}, "workers": workers}))
        hashes.append(_hashes(out / "edgefirst" / recording.stem))
    assert hashes[0] == hashes[1]
    assert hashes[0] == _hashes(converted["2025.01", "zip"].folder)
    assert set(hashes[0]) == {
        *(f"{recording.stem}.{end}" for end in ("arrow", "manifest", "zip")),
        "capture_report.json",
        "quality.parquet",
    }


def _hashes(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}
