"""Rigs of the simulated drive: any mounts and lenses, several devices, and the truth about each sensor."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import yaml
from faulty import LABELS, faulty_options, simulate
from faulty.sensors import quaternion_of_vector
from played import Played, play

from edgefirst_ros.cli.app import app
from edgefirst_ros.model.transform import matrix_of
from edgefirst_ros.simulation.camera import view
from edgefirst_ros.simulation.options import RIGS, rig_options

SIZE = {"width": 240, "height": 160}
RIG: dict[str, Any] = {
    "clock": "realtime",
    "gps_no_fix": 0,
    "uptimes_s": {"far": 137.0},
    "sensors": {
        "front": {"kind": "camera", "hz": 2, **SIZE},
        "wide": {"kind": "camera", "hz": 2, "model": "fisheye", "rpy_deg": [0, 10, 30], **SIZE},
        "portrait": {"kind": "camera", "hz": 2, "rpy_deg": [90, 5, 0], **SIZE},
        "far/lidar": {"kind": "lidar", "points": 640, "rpy_deg": [180, 0, 0], "at_m": [1, 0, 2]},
        "far/radar": {"kind": "radar", "at_m": [2, 0, 0.6]},
        "far/imu": {"kind": "imu", "at_m": [1, 0, 1], "rpy_deg": [0, 0, 90]},
        "gps": {"kind": "gps", "at_m": [0, 0, 2]},
    },
}


def made(folder: Path, **more: Any) -> Played:  # noqa: ANN401
    return play(simulate(folder, faulty_options(rig_options(RIG, "test") | {"seconds": 2.0} | more)))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return made(tmp_path_factory.mktemp("rig"), rocking_rad_s=0.02)


def test_topics_and_frames_are_called_like_the_sensors(rig: Played) -> None:
    assert {*rig.topics} == {
        *("/front/image/compressed", "/front/camera_info", "/wide/image/compressed", "/wide/camera_info"),
        *("/portrait/image/compressed", "/portrait/camera_info", "/far/lidar/points", "/far/radar/targets"),
        *("/far/imu/data", "/gps/fix", "/tf_static"),
    }
    frames = {mount.child for mount in rig.truth.world.mounts}
    assert {"front_optical", "wide_optical", "far_lidar", "far_radar", "far_imu", "gps"} <= frames


@pytest.mark.parametrize("camera", ["front", "wide", "portrait"])
def test_every_camera_shows_the_world_where_its_truth_projects_it(rig: Played, camera: str) -> None:
    """Points of the lidar on boxes have the box's colour in the picture, and its class in the truth."""
    truth, lidar_ns = rig.truth, rig.truth.true_ns("/far/lidar/points")
    judged = right = 0
    for entry, time_ns in zip(
        rig.topics[f"/{camera}/image/compressed"],
        truth.true_ns(f"/{camera}/image/compressed").tolist(),
        strict=True,
    ):
        picture = simplejpeg.decode_jpeg(bytes(entry.message.data))
        nearest = int(np.abs(lidar_ns - time_ns).argmin())
        cloud, at = (
            rig.points("/far/lidar/points", nearest),
            truth.sensor("far_lidar", int(lidar_ns[nearest])),
        )
        points = np.stack([cloud[axis] for axis in "xyz"], axis=1).astype(float) @ at[:3, :3].T + at[:3, 3]
        distance, box = truth.surface_distance(points, time_ns)
        pixel, depth = truth.project(points, time_ns, f"{camera}_optical")
        kept = (box >= 0) & (distance < 0.01) & (depth > 1) & truth.seen(points, time_ns, f"{camera}_optical")
        kept &= (pixel > [4, 16]).all(axis=1) & (pixel < [SIZE["width"] - 5, SIZE["height"] - 5]).all(axis=1)
        column, row = np.rint(pixel[kept]).astype(int).T
        shown = truth.box_of_color(picture[row, column])
        classes = truth.mask(time_ns, (SIZE["width"], SIZE["height"]), f"{camera}_optical")[row, column]
        judged += len(row)
        labels = [LABELS.index(truth.world.boxes[index].label) for index in box[kept]]
        right += int(((shown == box[kept]) | (shown < 0)).sum() + (classes == labels).sum())
        for index in set(box[kept].tolist()):
            rectangle = truth.box_in_image(index, time_ns, f"{camera}_optical")
            assert rectangle is not None
            left, top, right_px, bottom = rectangle
            its = pixel[kept][box[kept] == index] + 0.5
            assert (its > [left - 1, top - 1]).all()
            assert (its < [right_px + 1, bottom + 1]).all()
    assert judged > 5
    assert right > 0.9 * 2 * judged


def test_a_fisheye_projects_along_its_own_rays(rig: Played) -> None:
    lens = rig.truth.world.lens("wide_optical")
    seen = lens.project(lens.directions() * 7.0)
    columns, rows = np.meshgrid(np.arange(lens.width), np.arange(lens.height))
    assert np.abs(seen - np.stack([columns, rows], axis=-1)).max() < 1e-3
    info = rig.topics["/wide/camera_info"][0].message
    assert (info.distortion_model, len(info.d)) == ("equidistant", 4)
    assert view(rig.truth.world, "wide_optical").picture(0.5).shape == (lens.height, lens.width, 3)


def test_lidars_and_radars_of_a_device_are_stamped_by_its_time_since_the_start(rig: Played) -> None:
    for topic in rig.topics:
        true, stamp, _ = np.array(rig.truth.data["messages"][topic], np.int64).T
        by_uptime = topic in {"/far/lidar/points", "/far/radar/targets"}
        off_ns = rig.truth.data["start_ns"] - 137 * 10**9 if by_uptime else 0
        assert topic == "/tf_static" or (true - stamp == off_ns).all()
        assert [entry.stamp_ns for entry in rig.topics[topic]] == stamp.tolist()
    assert rig.truth.data["video"]["/front/image/compressed"]["same_stamp"] == []


def test_an_imu_on_a_rocking_rig_turns_as_the_rig_does(rig: Played) -> None:
    """In the axes of its mount: its rates, one after the other, lead from the first pose to the last."""
    topic, turned = "/far/imu/data", np.eye(3)
    times_ns = rig.truth.true_ns(topic)
    rates = [entry.message.angular_velocity for entry in rig.topics[topic]]
    rates_rad_s = np.array([(each.x, each.y, each.z) for each in rates])
    mean, dt_s = (rates_rad_s[1:] + rates_rad_s[:-1]) / 2, np.diff(times_ns) / 1e9
    for step in quaternion_of_vector(mean * dt_s[:, None]):
        turned = turned @ matrix_of(step)
    first, last = (rig.truth.sensor("far_imu", int(at))[:3, :3] for at in (times_ns[0], times_ns[-1]))
    assert turned == pytest.approx(first.T @ last, abs=2e-4)
    assert np.ptp(rates_rad_s[:, 0]) > 0.02


def test_radar_and_receiver_measure_from_where_they_are(rig: Played) -> None:
    truth, topic = rig.truth, "/far/radar/targets"
    for number, time_ns in enumerate(truth.true_ns(topic).tolist()):
        cloud, at = rig.points(topic, number), truth.sensor("far_radar", time_ns)
        points = np.stack([cloud[axis] for axis in "xyz"], axis=1).astype(float) @ at[:3, :3].T + at[:3, 3]
        assert not len(points) or truth.surface_distance(points, time_ns)[0].max() < 0.01
    (fixes,) = truth.data["fixes"].values()
    time_ns, *place = fixes["accepted"][5]
    assert truth.enu(*place) == pytest.approx(truth.sensor("gps", time_ns)[:3, 3], abs=1e-6)


def test_what_is_silent_is_so_of_a_rig_as_well(tmp_path: Path) -> None:
    silent = {"front": [[0.4, 1.2]], "far/lidar": [[0.4, 1.2]]}
    played = made(tmp_path, silent=silent)
    for topic in ("/front/image/compressed", "/far/lidar/points"):
        since_s = (played.truth.true_ns(topic) - played.truth.data["start_ns"]) / 1e9
        assert len(since_s) == len(played.topics[topic]) > 1
        assert not ((since_s >= 0.4) & (since_s < 1.2)).any()
    assert played.truth.data["video"]["/front/image/compressed"]["dropped"]


@pytest.mark.parametrize("name", RIGS)
def test_rigs_with_a_name_are_what_they_are_said_to_be(name: str) -> None:
    options = faulty_options(rig_options(yaml.safe_load(RIGS[name].read_text(encoding="utf-8")), name))
    kinds = Counter(sensor.kind for sensor in options.more)
    assert kinds == {"robot": {"camera": 6, "lidar": 2, "radar": 3, "imu": 1, "gps": 1}}[name]


def test_a_rig_is_read_from_a_file_and_faults_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rig.yaml").write_text(yaml.safe_dump({"sensors": {"top": {"kind": "lidar", "points": 64}}}))
    (tmp_path / "none.yaml").write_text("sensors: 3")
    command = ["simulate", "-o", str(tmp_path / "out"), "--seconds", "1", "-q", "--rig"]
    codes = []
    for rig in (tmp_path / "rig.yaml", tmp_path / "none.yaml", "roboter"):
        with pytest.raises(SystemExit) as ended:
            app([*command, str(rig)])
        codes.append(ended.value.code)
    assert codes == [0, 2, 2]
    said = capsys.readouterr()
    assert said.out.strip().endswith(".mcap")
    assert "expected sensors by name" in said.err
    assert "roboter: no such configuration file" in said.err
