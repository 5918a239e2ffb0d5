"""Four devices on one vehicle, each with two clocks of its own: what they send is of one time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulated
from livedrive import check_sums, live_and_converted
from ncoreread import Sequence
from oracle import NCORE_PYTHON
from rigdrive import CLOCKS, HOST, messages, options, recorded_rig, settings
from rigjudge import off_ms, off_surfaces_m, read_officially, worst_px

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DeviceClock, DriveOptions, Truth
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.suggest import look_at

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


KINDS = "camera/jpeg", "lidar/points", "radar/targets", "imu"


def errors_ms(report: dict[str, Any], **drive: Any) -> dict[str, float]:  # noqa: ANN401
    """By topic, against the front's IMU."""
    found = off_ms(report, Truth.read(simulated(options(**drive)).truth))
    return {topic: ms - found["/front/imu"] for topic, ms in found.items()}


@pytest.mark.parametrize("device", CLOCKS)
def test_offsets_between_devices_are_those_by_which_they_turn_together(
    rig: tuple[Path, dict[str, Any]], device: str
) -> None:
    """Whatever latencies are: to within 2 ms, and to within what is said."""
    _, report = rig
    off = errors_ms(report)
    (sequence,) = report["sequences"]
    for kind in KINDS:
        apart_ms = off[f"/{device}/{kind}"]
        assert abs(apart_ms) < 2.0
        assert abs(apart_ms) < sequence["clocks"][f"/{device}/{kind}"]["uncertainty_ns"] / 1e6 + 0.01
    how = "as its IMU turns with the others"
    assert (how in sequence["clocks"][f"/{device}/imu"]["finding"]) == (device != "front")


def test_without_their_imus_times_of_receipt_are_all_there_is(tmp_path: Path) -> None:
    """Which is why they are compared."""
    recording = recorded_rig(tmp_path, imus=False)
    report = convert([recording], tmp_path, build_config(VALUES), dataset="d").report
    off = errors_ms(report, imus=False)
    assert abs(off["/rear/camera/jpeg"]) < 2.0
    assert off["/left/camera/jpeg"] > 20.0
    assert off["/right/camera/jpeg"] == pytest.approx(-300.0, abs=5.0)


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
        reason = "the motion is that of another device; its clock is known by this"
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


def test_where_a_drive_begins_at_rest_the_whole_of_it_tells_the_clocks(tmp_path: Path) -> None:
    """A conversion reads it twice; what comes in the first seconds says nothing there."""
    recording = recorded_rig(tmp_path, still_s=3.5)
    report = convert([recording], tmp_path, build_config(VALUES), dataset="d").report
    off = errors_ms(report, still_s=3.5)
    assert max(abs(off[f"/{name}/{kind}"]) for name in CLOCKS for kind in KINDS) < 2.0
    lag = VALUES | {"ego": {"smoothing": "lag"}}
    report = convert([recording], tmp_path / "once", build_config(lag), dataset="d").report
    assert errors_ms(report, still_s=3.5)["/right/camera/jpeg"] < -290.0


def suggested_errors_ms(drive: DriveOptions, folder: Path) -> dict[str, float]:
    made = simulated(drive)
    values = look_at([McapRecording(made.mcap)]).suggestion("drive").values
    report = convert([made.mcap], folder, build_config({**values, "formats": ["ncore"]})).report
    return off_ms(report, Truth.read(made.truth))


@pytest.mark.long
def test_a_device_that_is_late_is_so_by_both_of_its_clocks_as_suggested(tmp_path: Path) -> None:
    """The left one's stamps are right; the right one's clock is behind as well, which turning tells apart."""
    devices = CLOCKS | {"left": replace(CLOCKS["left"], offset_s=0.0)}
    found = suggested_errors_ms(replace(options(), devices=devices), tmp_path)
    apart = {topic: ms - found["/front/imu"] for topic, ms in found.items()}
    assert max(abs(apart[f"/{name}/{kind}"]) for name in CLOCKS for kind in KINDS) < 2.0, apart


@pytest.mark.parametrize(
    ("clock", "off"), [(DeviceClock(late_ms=40, uptime_s=4000), 0), (DeviceClock(-0.2, uptime_s=4000), -200)]
)
def test_of_a_robot_alone_both_clocks_are_at_one(tmp_path: Path, clock: DeviceClock, off: float) -> None:
    """By what its IMU says, whether that is late or its clock is behind, which nothing tells."""
    names = {
        "left/camera/jpeg": "cam/image/compressed",
        "left/lidar/points": "velodyne/points",
        "left/radar/targets": "ars/radar",
        "left/imu": "imu/data",
    }
    more = tuple(
        replace(each, topic=names[each.topic], info="cam/camera_info" * bool(each.info), device="d")
        for each in options().more
        if each.topic in names
    )
    found = suggested_errors_ms(replace(options(), more=more, devices={"d": clock}), tmp_path)
    assert len(found) == 5
    assert [*found.values()] == pytest.approx([off] * 5, abs=2.0)
