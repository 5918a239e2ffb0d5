"""Four devices on one vehicle, whose clocks one server sets: each has its place, and one tells the motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from faulty import Truth
from livedrive import check_sums, live_and_converted
from ncoreread import Sequence
from oracle import NCORE_PYTHON
from rigdrive import CLOCKS, HOST, messages, options, recorded_rig, settings
from rigjudge import off_surfaces_m, read_officially, worst_px

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert

pytestmark = pytest.mark.long  # test_rigs has several cameras and lidars, test/timing several clocks
needs_official = pytest.mark.skipif(
    not NCORE_PYTHON.is_file(), reason="needs nvidia-ncore in .venv-ncore (make oracles)"
)
VALUES = settings("edgefirst", "ncore")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    output = tmp_path_factory.mktemp("devices")
    recording = recorded_rig(output)
    done = convert([recording], output, build_config(VALUES), dataset="d")
    check_sums(done.report)
    return output, done.report


@pytest.mark.parametrize("device", CLOCKS)
def test_pictures_and_sweeps_of_every_device_are_at_their_true_times(
    rig: tuple[Path, dict[str, Any]], device: str
) -> None:
    output, report = rig
    truth = Truth.read(simulated(options()).truth)
    (sequence,) = report["sequences"]
    found = Sequence(output / "ncore" / sequence["name"])
    for group, sensor, topic in (
        ("cameras", f"{device}_optical", f"/{device}/camera/jpeg"),
        ("lidars", f"{device}_lidar", f"/{device}/lidar/points"),
        ("radars", f"{device}_radar", f"/{device}/radar/targets"),
    ):
        times_us = np.array(sorted(begin for begin, _ in found.frames(f"{group}/{sensor}")))
        true_us = truth.true_ns(topic)[-len(times_us) :] // 1000
        assert len(times_us) > 17
        # The clock drifts by 20 ppm, which 5 s are too short to show.
        assert np.abs(times_us - true_us).max() < 2_500


@needs_official
def test_the_lidar_of_each_lies_in_the_pictures_of_each_other(
    rig: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Through NVIDIA's reader, against the truth: clocks, poses, extrinsics and intrinsics at once."""
    output, report = rig
    official = read_officially(output / "ncore" / report["sequences"][0]["name"], tmp_path / "rig.npz")
    truth = Truth.read(simulated(options()).truth)
    found = worst_px(official, truth, every=3)
    assert found.keys() == {(f"{a}_optical", f"{b}_lidar") for a in CLOCKS for b in CLOCKS}
    assert max(found.values()) < 1.0
    for name in CLOCKS:
        off_m = off_surfaces_m(official, truth, f"{name}_radar")
        assert len(off_m) > 20
        assert off_m.max() < 0.05


def test_only_one_devices_imu_tells_the_motion(rig: tuple[Path, dict[str, Any]]) -> None:
    _, report = rig
    for name in ("left", "right", "rear"):
        account = report["topics"][f"/{name}/imu"]
        reason = "the motion is that of another device"
        assert account["reasons"]["skipped"] == {reason: account["received"]}
    assert report["topics"]["/front/imu"]["written"] > 400


def test_each_devices_camera_has_its_own_lidar(rig: tuple[Path, dict[str, Any]]) -> None:
    _, report = rig
    (sequence,) = report["sequences"]
    assert {*sequence["companions"]} == {"/front/lidar/points", "/front/radar/targets"}
    for name, each in sequence["cameras"].items():
        assert {*each["companions"]} == {f"/{name}/lidar/points", f"/{name}/radar/targets"}
        assert each["sample"] > 17


def test_live_equals_convert(tmp_path: Path) -> None:
    live, again, report = live_and_converted(tmp_path, messages(), VALUES, HOST)
    assert report["samples"] > 17
    assert again == live
