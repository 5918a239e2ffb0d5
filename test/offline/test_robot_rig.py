"""A robot of six cameras, two lidars and three radars: as `simulate --rig` makes them.

Nothing is configured: what is found, and where it is placed, follows from what is in the recording.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from drives import simulated
from faulty import Truth
from livedrive import check_sums, live_and_converted
from oracle import NCORE_PYTHON, assert_sound
from rigjudge import off_surfaces_m, read_officially, worst_px

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.sample import Role
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import Recording
from edgefirst_ros.simulation.options import RIGS, drive_options, rig_options
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.suggest import Suggestion, look_at

FORMATS = ["edgefirst", "ncore", "l5kit"]
NAMES = {"robot": "robot_2026_05_01_09_00_00"}
LONG = [pytest.param(name, 10.0, marks=pytest.mark.long, id=f"{name}, 10 s") for name in NAMES]
RIG = [pytest.param("robot", 2.0, id="robot"), *LONG]
ROLE = {"camera": Role.CAMERA, "lidar": Role.LIDAR_POINTS, "radar": Role.RADAR_TARGETS}
needs_official = pytest.mark.skipif(
    not NCORE_PYTHON.is_file(), reason="needs nvidia-ncore in .venv-ncore (make oracles)"
)


@cache
def made(name: str, seconds: float) -> Recording:
    values = rig_options(yaml.safe_load(RIGS[name].read_text(encoding="utf-8")), name)
    return simulated(drive_options(values | {"seconds": seconds}))


@cache
def suggestion(name: str, seconds: float) -> Suggestion:
    return look_at([McapRecording(made(name, seconds).mcap)]).suggestion(name)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401
    @cache
    def of(name: str, seconds: float) -> tuple[Path, dict[str, Any]]:
        output = tmp_path_factory.mktemp(name)
        config = build_config({**suggestion(name, seconds).values, "formats": FORMATS})
        report = convert([made(name, seconds).mcap], output, config, dataset=f"{NAMES[name]}-dataset").report
        check_sums(report)
        return output, report

    return of


@pytest.mark.parametrize(("name", "seconds"), RIG)
def test_every_sensor_is_used_as_what_it_is(name: str, seconds: float) -> None:
    found, truth = suggestion(name, seconds), Truth.read(made(name, seconds).truth)
    expected = {"/tf_static": Role.TF}
    for sensor in truth.data["parameters"]["more"]:
        role = ROLE.get(sensor["kind"]) or Role(sensor["kind"])
        expected |= {f"/{sensor['topic']}": role}
        if sensor["info"]:
            expected[f"/{sensor['info']}"] = Role.CAMERA_INFO
    assert found.used == expected
    assert found.left_out == {}


@pytest.mark.parametrize(("name", "seconds"), RIG)
def test_nothing_is_lost_and_all_formats_are_sound(converted: Any, name: str, seconds: float) -> None:  # noqa: ANN401
    output, report = converted(name, seconds)
    assert all(each.ok for each in check(output))
    for topic, account in report["topics"].items():
        assert account["dropped"] == account["unpaired"] == 0, topic
        assert {*account["reasons"].get("refused", {})} <= {"repeated fix"}, topic
        if any(kind in topic for kind in ("image", "h264", "points", "targets")):
            assert account["written"] == account["written_to"]["ncore"] == account["received"], topic
    assert not [note for note in report["notes"] if "transforms" in note]


@needs_official
@pytest.mark.parametrize(("name", "seconds"), RIG)
def test_each_lidar_lies_in_each_picture_and_each_radar_on_what_is_there(
    converted: Any,  # noqa: ANN401
    tmp_path: Path,
    name: str,
    seconds: float,
) -> None:
    """Through NVIDIA's reader, against the truth; the camera at the robot's rear is a fisheye."""
    output, _ = converted(name, seconds)
    truth = Truth.read(made(name, seconds).truth)
    official = read_officially(output / "ncore" / NAMES[name], tmp_path / "rig.npz")
    kinds = [sensor["kind"] for sensor in truth.data["parameters"]["more"]]
    assert [kinds.count(kind) for kind in ("camera", "lidar", "radar")] == [
        len(official[f"{kind}s"]) for kind in ("camera", "lidar", "radar")
    ]
    assert any(official[f"{camera}/is_fisheye"] for camera in official["cameras"]) == (name == "robot")
    found = worst_px(official, truth, every=3)
    assert len(found) >= 2 * len(official["cameras"])
    assert max(found.values()) < 1.0, found
    returns = [off_surfaces_m(official, truth, f"{radar}") for radar in official["radars"]]
    assert sum(map(len, returns)) > 100
    assert max(off.max(initial=0.0) for off in returns) < 0.05


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_what_others_readers_open_is_sound(converted: Any, name: str) -> None:  # noqa: ANN401
    output, _ = converted(name, 10.0)
    for kind in FORMATS:
        assert_sound(kind, *(output / kind).glob("*/*.json" if kind == "ncore" else "*"))


@pytest.mark.parametrize("told", [True, False], ids=["as suggested", "not configured"])
def test_where_transforms_place_what_tells_the_motion_is_heeded_or_asked_for(
    tmp_path: Path,
    told: bool,
) -> None:
    """The IMU hangs upside down, and the antenna is a metre behind."""
    rig = {
        "clock": "realtime",
        "gps_no_fix": 0,
        "seconds": 2.0,
        "sensors": {
            "front": {"kind": "camera", "hz": 5},
            "imu": {"kind": "imu", "at_m": [0.5, 0, 1], "rpy_deg": [180, 0, 90]},
            "gps": {"kind": "gps", "at_m": [-1, 0, 2]},
        },
    }
    recording = simulated(drive_options(rig_options(rig, "test"))).mcap
    values = look_at([McapRecording(recording)]).suggestion("small").values
    entries = values["topics"]
    half = math.sqrt(0.5)
    assert entries["gps"]["mount"]["xyz_m"] == [-1.0, 0.0, 2.0]
    assert entries["imu"]["mount"]["xyz_m"] == [0.5, 0.0, 1.0]
    assert np.abs(entries["imu"]["mount"]["xyzw"]) == pytest.approx([half, half, 0.0, 0.0], abs=1e-5)
    if not told:
        entries = {
            name: {key: each for key, each in rule.items() if key != "mount"}
            for name, rule in entries.items()
        }
    config = build_config({**values, "topics": entries, "formats": ["l5kit"]})
    notes = [note for note in convert([recording], tmp_path, config).report["notes"] if "elsewhere" in note]
    assert len(notes) == (0 if told else 2)
    if not told:
        said = " ".join(sorted(notes))
        assert "/gps/fix elsewhere in base_link" in said
        assert "give its entry mount: {xyz_m: [-1.0, 0.0, 2.0]" in said
        assert "give its entry mount: {xyz_m: [0.5, 0.0, 1.0], xyzw:" in said


@pytest.mark.long
def test_live_equals_convert(tmp_path: Path) -> None:
    values = {**suggestion("robot", 2.0).values, "formats": FORMATS}
    sent = McapRecording(made("robot", 2.0).mcap).messages()
    live, again, report = live_and_converted(tmp_path, sent, values, "robot")
    assert report["samples"] > 20
    assert again == live
