"""A simulated drive as an NCore sequence, placed by NVIDIA's own reader and judged by the true world."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d
import pytest
from drives import simulate
from faulty import FaultyOptions, Truth
from oracle import NCORE_PYTHON, assert_sound, run_ncore

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.ncore.store.files import Reading
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.pipeline.ledger import COLUMNS

STORES = [("itar", "separate-sensors"), ("itar", "single"), ("directory", "single")]
needs_official = pytest.mark.skipif(
    not NCORE_PYTHON.is_file(), reason="needs nvidia-ncore in .venv-ncore (make oracles)"
)
Stored = Callable[[str, str], tuple[Path, dict[str, Any]]]
Places = tuple[dict[str, npt.NDArray[Any]], Truth]


def ncore(folder: Path, recording: Path, **options: str) -> tuple[Path, dict[str, Any]]:
    values = {"formats": ["ncore"], "ncore": options, "topics": {"radar_cube": {"required": "never"}}}
    done = convert([recording], folder, build_config(values), dataset="d")
    return folder / "ncore" / recording.stem / f"{recording.stem}.json", done.report


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    options = FaultyOptions(
        seconds=4.0, fps=15, model_hz=7.5, width=640, height=360, lidar_points=4000, gps_no_fix=0
    )
    made = simulate(tmp_path_factory.mktemp("drive"), options)
    return made.mcap, Truth.read(made.truth)


@pytest.fixture(scope="module")
def stored(drive: tuple[Path, Truth], tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """The drive in a kind of store, made when it is first asked for."""

    @cache
    def made(store: str, profile: str) -> tuple[Path, dict[str, Any]]:
        return ncore(tmp_path_factory.mktemp("stored"), drive[0], store=store, profile=profile)

    return made


@pytest.fixture(scope="module")
def places(
    drive: tuple[Path, Truth],
    stored: Stored,
    tmp_path_factory: pytest.TempPathFactory,
) -> Places:
    """Everything as the official reader places it."""
    return official_places(stored(*STORES[0])[0], tmp_path_factory.mktemp("places")), drive[1]


def to_truth(found: Places, points_m: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Points of the sequence's world in the ENU frame of the drive's truth, through ECEF."""
    arrays, truth = found
    T_world_global = arrays["T_world_global"]
    ecef = points_m @ T_world_global[:3, :3].T + T_world_global[:3, 3]
    origin = (truth.world.latitude_deg, truth.world.longitude_deg, truth.world.altitude_m)
    return np.stack(pymap3d.ecef2enu(*ecef.T, *origin), axis=1)


def true_time(truth: Truth, topic: str, time_us: int) -> int:
    """The true acquisition nearest to a written time."""
    times = truth.true_ns(topic)
    return int(times[np.abs(times - int(time_us) * 1000).argmin()])


@pytest.mark.long
@needs_official
def test_lidar_points_lie_on_the_true_boxes_and_ground(
    places: Places, record_property: pytest.RecordProperty
) -> None:
    arrays, truth = places
    squares, on_boxes = [], 0
    for index, time_us in enumerate(arrays["lidar_times_us"]):
        sweep_ns = true_time(truth, "/lidar/points", time_us)
        distance_m, box = truth.surface_distance(to_truth(places, arrays[f"lidar_{index}"]), sweep_ns)
        squares.append(distance_m**2)
        on_boxes += int((box >= 0).sum())
    rms_m = float(np.sqrt(np.concatenate(squares).mean()))
    record_property("lidar_rms_mm", f"{rms_m * 1000:.1f}")
    assert on_boxes > 500
    assert rms_m < 0.05


@needs_official
def test_the_vehicle_follows_the_true_path(places: Places) -> None:
    arrays, truth = places
    there = to_truth(places, arrays["T_rig_world"][:, :3, 3])
    true = np.stack([truth.rig(int(t) * 1000)[:3, 3] for t in arrays["camera_times_us"]])
    # Before the first fix and after the last the reader's ends are held, so they are left out.
    assert np.median(np.linalg.norm(there - true, axis=1)) < 0.05
    assert np.linalg.norm(there - true, axis=1)[10:-10].max() < 0.2


@needs_official
def test_lidar_points_project_onto_their_box_in_the_picture(
    places: Places, drive: tuple[Path, Truth]
) -> None:
    arrays, truth = places
    camera_us = arrays["camera_times_us"].astype(np.int64)
    assert not arrays["radial_coeffs"].any(), "this reading of the model knows no distortion"
    hits = total = 0
    for index, time_us in enumerate(arrays["lidar_times_us"].astype(np.int64)):
        frame = int(np.abs(camera_us - time_us).argmin())
        if abs(int(camera_us[frame]) - time_us) > 8_000:
            continue
        sweep_ns = true_time(truth, "/lidar/points", int(time_us))
        shown_ns = true_time(truth, "/camera/h264", int(camera_us[frame]))
        world = arrays[f"lidar_{index}"]
        at_sweep = to_truth(places, world)
        _, box = truth.surface_distance(at_sweep, sweep_ns)
        T_camera_world = arrays["T_camera_world"][frame]
        optical = (world - T_camera_world[:3, 3]) @ T_camera_world[:3, :3]
        chosen = (optical[:, 2] > 1) & (box >= 0) & (at_sweep[:, 2] > 0.1) & truth.seen(at_sweep, shown_ns)
        corner = (
            arrays["focal_length"] * optical[chosen, :2] / optical[chosen, 2:] + arrays["principal_point"]
        )
        for index_of_box in set(box[chosen].tolist()):
            mine = corner[box[chosen] == index_of_box]
            extent = truth.box_in_image(index_of_box, shown_ns)
            if extent is None:
                continue
            inside = (mine >= 0).all(axis=1) & (mine < arrays["resolution"]).all(axis=1)
            left, top, right, bottom = extent
            on = (mine > (left - 2, top - 2)).all(axis=1) & (mine < (right + 2, bottom + 2)).all(axis=1)
            hits, total = hits + int((on & inside).sum()), total + int(inside.sum())
    assert total > 200
    assert hits / total > 0.97, f"{hits} of {total}"


@needs_official
def test_the_boxes_of_pictures_are_the_true_ones(places: Places) -> None:
    """Every message of the model is with its picture, in its pixels; a picture between has none."""
    arrays, truth = places
    labels = [box.label for box in truth.world.boxes]
    tracks = {box.track_id: index for index, box in enumerate(truth.world.boxes)}
    answered = found = 0
    for frame, time_us in enumerate(arrays["camera_times_us"].tolist()):
        if f"boxes2d_{frame}" not in arrays:
            continue
        answered += 1
        shown_ns = true_time(truth, "/camera/h264", time_us)
        for corners, label, track in zip(
            arrays[f"boxes2d_{frame}"],
            arrays[f"boxes2d_label_{frame}"],
            arrays[f"boxes2d_track_id_{frame}"],
            strict=True,
        ):
            found += 1
            assert label == labels[tracks[track]]
            assert truth.box_in_image(tracks[track], shown_ns) == pytest.approx(corners.tolist(), abs=0.02)
    assert answered == truth.data["counts"]["/model/output"]
    assert answered < len(arrays["camera_times_us"])
    assert found > 50


def official_places(meta: Path, folder: Path) -> dict[str, npt.NDArray[Any]]:
    """Everything as the official reader places it."""
    script = Path(__file__).parents[1] / "oracles" / "ncore_places.py"
    done = run_ncore(script, meta, folder / "p.npz")
    assert done.returncode == 0, done.stderr
    with np.load(folder / "p.npz") as arrays:
        return dict(arrays)


@needs_official
def test_a_picture_of_tiles_is_the_cameras(tmp_path: Path) -> None:
    """The device names each tile's frame, which no transform has; the whole picture is of the camera."""
    options = FaultyOptions(
        seconds=1.0, width=640, height=360, fps=10, lidar_points=640, gps_no_fix=0, tiles=True
    )
    made = simulate(tmp_path / "drive", options)
    truth = Truth.read(made.truth)
    meta, report = ncore(tmp_path, made.mcap)
    arrays = official_places(meta, tmp_path)
    assert not [
        warning for warning in report["warnings"] if "transform" in warning or "intrinsics" in warning
    ]
    camera = truth.world.camera
    assert arrays["principal_point"] == pytest.approx([camera.center_px[0] + 0.5, camera.center_px[1] + 0.5])
    assert arrays["focal_length"] == pytest.approx([camera.focal_px] * 2)
    (mount,) = (mount for mount in truth.world.mounts if mount.child == "camera_optical")
    T_camera_rig = np.linalg.inv(arrays["T_rig_world"]) @ arrays["T_camera_world"]
    assert np.allclose(T_camera_rig[:, :3, 3], mount.translation_m, atol=1e-6)
    assert np.allclose(T_camera_rig[:, :3, 2], [1, 0, 0], atol=1e-6)


@pytest.fixture(scope="module")
def late_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = FaultyOptions(seconds=2.0, width=320, height=180, fps=10, model_hz=10.0, lidar_points=100)
    return simulate(tmp_path_factory.mktemp("drive"), options).mcap


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(
    ("values", "within_ms"),
    [
        ({}, 16.0),
        ({"topics": {"model": {"offset_ms": 20.0, "tolerance_ms": 30.0}}}, None),
        ({"topics": {"model": {"offset_ms": 20.0, "tolerance_ms": 7.5}}}, 7.5),
        (
            {"topics": {"model": {"offset_ms": 20.0, "tolerance_ms": 30.0}}, "reference": "lidar_points"},
            16.0,
        ),
    ],
)
def test_boxes_are_as_near_to_their_picture_as_the_models_topic_has_it(
    late_model: Path, values: dict[str, Any], within_ms: float | None, tmp_path: Path
) -> None:
    """The boxes are 20 ms behind their pictures, pictures 100 ms apart."""
    values = {"topics": {"model": {"offset_ms": 20.0}}, "formats": ["ncore"], **values}
    report = convert([late_model], tmp_path, build_config(values), dataset="d").report
    told = [text for text in [*report["warnings"], *report["notes"]] if "have no picture within" in text]
    assert [f"within {within_ms:g} ms" in text for text in told] == ([] if within_ms is None else [True])


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("variant", STORES, ids="-".join)
def test_every_store_and_profile_is_sound(
    drive: tuple[Path, Truth],
    stored: Stored,
    variant: tuple[str, str],
) -> None:
    meta, report = stored(*variant)
    (result,) = check(meta)
    assert result.ok, result.text
    counts, sent = result.counts, drive[1].data["counts"]
    assert counts["cameras/camera_optical"] == sent["/camera/h264"]
    assert counts["lidars/lidar"] == sent["/lidar/points"]
    assert counts["radars/radar"] == sent["/radar/targets"]
    for account in report["topics"].values():
        assert account["received"] == sum(account[c] for c in COLUMNS)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize("variant", STORES, ids="-".join)
def test_what_nvidias_reader_opens_is_sound(stored: Stored, variant: tuple[str, str]) -> None:
    assert_sound("ncore", stored(*variant)[0])


def test_what_nvidias_reader_opens_of_a_recording_is_sound(recording: Path, tmp_path: Path) -> None:
    assert_sound("ncore", ncore(tmp_path, recording)[0])


@pytest.mark.long
def test_both_formats_in_one_pass_share_every_picture(drive: tuple[Path, Truth], tmp_path: Path) -> None:
    """Each alone and both together write the same bytes; the NCore picture is the JPEG less its EXIF."""
    topics = {n: {"required": "never"} for n in ("radar_cube", "radar_targets", "lidar_points", "model")}
    for formats in (["edgefirst"], ["ncore"], ["edgefirst", "ncore"]):
        config = build_config({"formats": formats, "topics": topics})
        convert([drive[0]], tmp_path / "-".join(formats), config, dataset="d")
    both = tmp_path / "edgefirst-ncore"
    for alone in ("edgefirst", "ncore"):
        files = [p for p in (tmp_path / alone / alone).rglob("*") if p.is_file() and "report" not in p.name]
        assert len(files) >= 2
        for path in files:
            assert path.read_bytes() == (both / path.relative_to(tmp_path / alone)).read_bytes(), path.name


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing but a camera and a lidar after the fixes ended."""
    options = FaultyOptions(
        seconds=20.0,
        fps=5,
        width=320,
        height=180,
        lidar_points=64,
        lidar_hz=5.0,
        radar_hz=0.0,
        cube_hz=0.0,
        imu_hz=0.0,
        model_hz=0.0,
        silent={"gps": ((3.0, 20.0),)},
    )
    return simulate(tmp_path_factory.mktemp("lost"), options).mcap


def stretches(meta: Path) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Stretches of assumed position, and the sequence's interval, in microseconds."""
    told = json.loads(meta.read_text())
    interval = told["sequence_timestamp_interval_us"]
    with Reading(meta.with_name(f"{meta.stem}.ncore4.zarr.itar")) as reading:
        about = json.loads(reading.store.get("poses/default/.zattrs"))["generic_meta_data"]["rig_world"]
        times, basis = (
            read_array(reading.store.get, f"poses/default/generic_data/rig_world_{name}")
            for name in ("timestamps_us", "position_basis")
        )
    assumed = basis == about["basis"].index("assumed")
    pairs = zip(times[:-1].tolist(), times[1:].tolist(), assumed[1:] | assumed[:-1], strict=True)
    return [(a, b) for a, b, bad in pairs if bad], (interval["start"], interval["stop"])


def test_a_position_that_nothing_tells_is_marked_and_said(lost: Path, tmp_path: Path) -> None:
    meta, report = ncore(tmp_path, lost)
    spans, (start, stop) = stretches(meta)
    unknown_s = sum(b - a for a, b in spans) / 1e6
    assert 8 < unknown_s < 17.5
    assert stop - start > 19.5e6
    (sequence,) = report["sequences"]
    assert sequence["poses_s"]["position"]["assumed"] == pytest.approx(unknown_s, abs=0.6)
    told = "\n".join(report["warnings"])
    assert f"{lost.stem}: the rig's position is unknown for " in told
    assert f"ncore: {lost.stem}: the rig's position is assumed for {unknown_s:.1f} s of 19." in told
    assert next(check(meta)).ok


@pytest.mark.long
def test_what_is_measured_at_an_unknown_place_can_be_cut(lost: Path, tmp_path: Path) -> None:
    marked, before = ncore(tmp_path / "mark", lost)
    spans, _ = stretches(marked)
    meta, report = ncore(tmp_path / "cut", lost, unknown_pose="cut")
    _, (start, stop) = stretches(meta)
    assert not any(start < b and a < stop - 300_000 for a, b in spans), "but for one frame's period"
    for topic in ("/camera/h264", "/lidar/points"):
        account, all_of_it = report["topics"][topic], before["topics"][topic]
        left_out = account["reasons"]["skipped"][Reason.POSE_UNKNOWN]
        assert left_out > 40
        assert account["written"] + left_out == all_of_it["written"]
        assert sum(account[column] for column in COLUMNS) == account["received"]
    found = next(check(meta))
    assert found.counts["cameras/camera_optical"] == report["topics"]["/camera/h264"]["written"] > 0
    assert found.ok
