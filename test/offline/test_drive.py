"""A simulated drive through the whole path, judged by the world it was computed from."""

from __future__ import annotations

import hashlib
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drives import simulate
from faulty import FaultyOptions, Truth
from PIL import Image
from written import Written, burnt_in_number, cloud, cube_int16, exif_time_ns, xyz

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation.world import inverse, transform

MONOTONIC = ("/lidar/points", "/radar/targets", "/radar/cube", "/imu")
ALL_OPTIONAL = {
    "topics": {n: {"required": "never"} for n in ("radar_cube", "radar_targets", "lidar_points", "model")}
}
SMALL: dict[str, Any] = {
    "width": 384,
    "height": 216,
    "lidar_points": 500,
    "cube_shape": (1, 20, 2, 8),
    "imu_hz": 50.0,
}


def drive(folder: Path, values: dict[str, Any] | None = None, **options: Any) -> tuple[Written, Truth]:  # noqa: ANN401
    made = simulate(folder, FaultyOptions(**options))
    convert([made.mcap], folder / "out", build_config(values or ALL_OPTIONAL), dataset="drive")
    return Written(folder / "out" / "edgefirst" / "drive"), Truth.read(made.truth)


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> tuple[Written, Truth]:
    folder = tmp_path_factory.mktemp("drive")
    return drive(folder, seconds=5.0, width=640, height=360, lidar_points=4000, fps=15, cube_hz=5.0)


def sweep_times(written: Written, truth: Truth) -> dict[int, int]:
    """True time of the sweep in each frame, by the hash of its points."""
    times = truth.true_ns("/lidar/points")
    at = {digest: int(t) for digest, t in zip(truth.data["sha256"]["/lidar/points"], times, strict=True)}
    return {
        frame: at[hashlib.sha256(xyz(data).tobytes()).hexdigest()]
        for frame, data in written.of_kind("lidar.pcd").items()
    }


@pytest.mark.long
def test_lidar_points_on_a_box_fall_on_that_box_in_the_picture(driven: tuple[Written, Truth]) -> None:
    written, truth = driven
    pictures, clouds = written.of_kind("camera.jpeg"), written.of_kind("lidar.pcd")
    hits = total = 0
    for frame, sweep_ns in sweep_times(written, truth).items():
        picture = np.asarray(Image.open(io.BytesIO(pictures[frame])))
        time_ns = exif_time_ns(pictures[frame])
        at_sweep = transform(truth.sensor("lidar", sweep_ns), xyz(clouds[frame]).astype(np.float64))
        distance_m, box = truth.surface_distance(at_sweep, sweep_ns)
        assert np.quantile(distance_m, 0.99) < 0.01
        for index in set(box[box >= 0].tolist()):
            mine = at_sweep[(box == index) & (at_sweep[:, 2] > 0.1)]
            moved = transform(truth.box(index, time_ns) @ inverse(truth.box(index, sweep_ns)), mine)
            pixels, depth_m = truth.project(moved, time_ns)
            inside = (
                (depth_m > 1) & np.all((pixels > 3) & (pixels < (636, 356)), axis=1) & (pixels[:, 1] > 20)
            )
            inside &= truth.seen(moved, time_ns)
            u, v = pixels[inside].round().astype(int).T
            seen = truth.box_of_color(picture[v, u].reshape(-1, 3))
            hits, total = hits + int((seen == index).sum()), total + len(seen)
    assert total > 300
    assert hits / total > 0.9, f"{hits} of {total} points fall on their box"


def test_written_locations_and_poses_follow_the_true_path(driven: tuple[Written, Truth]) -> None:
    written, truth = driven
    pictures = written.of_kind("camera.jpeg")
    checked = 0
    for row in written.table.unique(subset=["frame"], maintain_order=True).iter_rows(named=True):
        time_ns = exif_time_ns(pictures[row["frame"]])
        rig = truth.rig(time_ns)
        roll, pitch, yaw = row["pose"]
        true_yaw = math.degrees(math.atan2(rig[1, 0], rig[0, 0]))
        assert abs((yaw - true_yaw + 180) % 360 - 180) < 0.1
        assert abs(roll) < 0.1
        assert abs(pitch) < 0.1
        first_fix_ns = truth.data["gps"]["accepted"][0][0]
        last_fix_ns = truth.data["gps"]["accepted"][-1][0]
        if first_fix_ns <= time_ns <= last_fix_ns:
            longitude, latitude = row["location"]
            there = truth.enu(latitude, longitude, truth.world.altitude_m)
            assert np.hypot(*(there - rig[:3, 3])[:2]) < 0.05
            checked += 1
    assert checked > 40


def test_boxes_are_those_of_the_projected_world(driven: tuple[Written, Truth]) -> None:
    written, truth = driven
    pictures = written.of_kind("camera.jpeg")
    table = written.table.filter(written.table["box2d"].is_not_null())
    assert len(table) > 50
    for row in table.iter_rows(named=True):
        time_ns = exif_time_ns(pictures[row["frame"]])
        xc, yc, w, h = row["box2d"]
        mine = np.array([xc - w / 2, yc - h / 2, xc + w / 2, yc + h / 2]) * (640, 360, 640, 360)
        candidates = [
            box
            for index, solid in enumerate(truth.world.boxes)
            if solid.label == row["label"] and (box := truth.box_in_image(index, time_ns)) is not None
        ]
        assert min(np.abs(mine - np.array(box)).max() for box in candidates) < 1.0


def test_radar_points_and_cubes_are_the_wires(driven: tuple[Written, Truth]) -> None:
    written, truth = driven
    cubes = {
        hashlib.sha256(cube_int16(d).tobytes()).hexdigest() for d in written.of_kind("radar.png").values()
    }
    assert cubes <= set(truth.data["sha256"]["/radar/cube"])
    assert len(cubes) >= 24
    for data in written.of_kind("radar.pcd").values():
        points = cloud(data)
        assert points.dtype.names is not None
        assert points.dtype.names[:7] == ("x", "y", "z", "speed", "power", "noise", "rcs")
        assert np.isnan(points["noise"]).all()
        assert np.isfinite(points["speed"]).all()


def test_the_clock_offset_is_the_true_one_within_what_is_said(driven: tuple[Written, Truth]) -> None:
    written, truth = driven
    clocks = written.report["sequences"][0]["clocks"]
    offsets = {clocks[topic]["offset_ns"] for topic in MONOTONIC}
    assert len(offsets) == 1, "the offset is the clock's, not a topic's own"
    off_ns = offsets.pop() - truth.data["realtime_minus_monotonic_ns"]
    assert abs(off_ns) < 500_000
    assert {clocks[topic]["uncertainty_ns"] for topic in MONOTONIC} == {2_000_000}
    assert "± 2.0 ms" in clocks["/imu"]["finding"]


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    "options",
    [
        {"bframes": 2, "prefix": "rt", "compression": "zstd", "footer": False},
        {"codec": "h265", "bframes": 3, "prefix": "maivin-sim"},
        {"tiles": True, "width": 768, "height": 432},
        {"jpeg": True, "clock": "realtime", "compression": "none"},
        {"drop_video": 0.05, "bframes": 2},
        {"drop_video": 0.05, "codec": "h265"},
    ],
    ids=lambda o: "-".join(f"{k}={v}" for k, v in o.items()) or "plain",
)
def test_every_picture_is_the_one_its_time_names(tmp_path: Path, options: dict[str, Any]) -> None:
    written, truth = drive(tmp_path, **{**SMALL, "seconds": 4.0, "fps": 15, **options})
    pictures = written.of_kind("camera.jpeg")
    topic, video = next(iter(truth.data["video"].items()))
    times, shown = truth.true_ns(topic), video["presentation"]
    number_at = {int(t): shown[n] for n, t in enumerate(times)}
    clean = {shown[n] for n in truth.clean_messages(topic)}
    found = set()
    for picture in pictures.values():
        number = burnt_in_number(picture)
        assert number == number_at[exif_time_ns(picture)]
        found.add(number)
    assert found <= clean, "nothing may be written between a loss and the next key frame"
    # Losses among reordered frames cost a few more than need be; nothing else may be missing.
    assert len(found) >= len(clean) * (0.8 if options.get("drop_video") else 1.0)
    if options.get("tiles"):
        assert {Image.open(io.BytesIO(p)).size for p in pictures.values()} == {(768, 432)}
    account = written.report["topics"]
    assert {t: a["received"] for t, a in account.items()} == truth.data["counts"]


def test_a_rate_takes_one_in_so_many_and_decodes_no_more(tmp_path: Path) -> None:
    values = {**ALL_OPTIONAL, "rate_hz": 1.0}
    written, truth = drive(tmp_path, values, **{**SMALL, "seconds": 4.0, "fps": 15})
    assert sorted(written.of_kind("camera.jpeg")) == [0, 15, 30, 45]
    camera = written.report["topics"]["/camera/h264"]
    assert (camera["written"], camera["skipped"]) == (4, 56)
    assert truth.data["counts"]["/camera/h264"] == 60


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("reference", ["lidar/points", "radar/targets"])
def test_lidar_and_radar_can_be_the_reference(tmp_path: Path, reference: str) -> None:
    values = {**ALL_OPTIONAL, "reference": reference}
    written, truth = drive(tmp_path, values, **{**SMALL, "seconds": 3.0, "fps": 15})
    kind = {"lidar/points": "lidar.pcd", "radar/targets": "radar.pcd"}[reference]
    assert len(written.of_kind(kind)) == truth.data["counts"]["/" + reference]
    pairing = written.report["topics"]["/camera/h264"]["pairing_error_ms"]
    assert pairing["max"] <= 1000 / 15 / 2 + 5
