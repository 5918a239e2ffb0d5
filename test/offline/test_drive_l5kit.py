"""A simulated drive as an L5Kit dataset, judged by the world it was computed from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pymap3d
import pytest
from drives import simulate
from faulty import FaultyOptions, Truth
from oracle import assert_sound
from scipy.spatial.transform import Rotation

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.l5kit.read.dataset import ChunkedDataset
from edgefirst_ros.formats.ncore.store.files import FinishedTar
from edgefirst_ros.offline.convert import convert

Drive = tuple[Path, Truth]


def l5kit(recording: Path, out: Path) -> Path:
    convert([recording], out, build_config({"formats": ["l5kit"]}), dataset="d")
    return out / "l5kit" / "d.zarr"


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Drive:
    folder = tmp_path_factory.mktemp("drive")
    options = FaultyOptions(
        seconds=8.0, width=320, height=180, fps=15, lidar_points=500, gps_no_fix=0, boxes3d=False
    )
    made = simulate(folder, options)
    return l5kit(made.mcap, folder), Truth.read(made.truth)


def to_truth(dataset: Path, truth: Truth, points_m: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Points of the scene's world in the ENU frame of the drive's truth."""
    (origin,) = json.loads((dataset / ".zattrs").read_text())["scene_origins_lat_lon_alt"]
    ecef = pymap3d.enu2ecef(*points_m.T, *origin)
    world = (truth.world.latitude_deg, truth.world.longitude_deg, truth.world.altitude_m)
    return np.stack(pymap3d.ecef2enu(*ecef, *world), axis=1)


@pytest.mark.long
def test_the_ego_path_is_the_true_path(drive: Drive, record_property: pytest.RecordProperty) -> None:
    dataset, truth = drive
    frames = ChunkedDataset(dataset).open().frames[:]
    there = to_truth(dataset, truth, frames["ego_translation"])
    rigs = np.stack([truth.rig(int(t)) for t in frames["timestamp"]])
    off_m = np.linalg.norm((there - rigs[:, :3, 3])[:, :2], axis=1)[2:-2]
    turned = np.einsum("nij,nij->n", frames["ego_rotation"], rigs[:, :3, :3])
    angle_deg = np.degrees(np.arccos(np.clip((turned - 1) / 2, -1, 1)))
    rms_m = float(np.sqrt((off_m**2).mean()))
    record_property("ego_rms_mm", f"{rms_m * 1000:.1f}")
    assert len(frames) >= 75
    assert rms_m < 0.05
    assert angle_deg.max() < 0.2


def test_agents_stand_where_the_boxes_are(drive: Drive, record_property: pytest.RecordProperty) -> None:
    """Placed by camera ray and range alone, so a partly hidden or cut box is off; half of them are close."""
    dataset, truth = drive
    opened = ChunkedDataset(dataset).open()
    frames, agents = opened.frames[:], opened.agents[:]
    off: list[float] = []
    for frame in frames:
        first, stop = frame["agent_index_interval"]
        mine = agents[first:stop]
        if not len(mine):
            continue
        flat = np.column_stack([mine["centroid"], np.zeros(len(mine))])
        there = to_truth(dataset, truth, flat)[:, :2]
        boxes = np.stack(
            [truth.box(n, int(frame["timestamp"]))[:2, 3] for n in range(len(truth.world.boxes))]
        )
        off += np.linalg.norm(there[:, None] - boxes[None], axis=2).min(axis=1).tolist()
    median_m, rms_m = float(np.median(off)), float(np.sqrt(np.mean(np.square(off))))
    record_property("agents_rms_m", f"{rms_m:.2f}, median {median_m:.2f} of {len(off)}")
    assert len(off) > 100
    assert median_m < 0.5
    assert rms_m < 1.5


def test_tracks_are_stable_and_move_as_the_boxes_do(drive: Drive) -> None:
    dataset, truth = drive
    agents = ChunkedDataset(dataset).open().agents[:]
    tracks, counts = np.unique(agents["track_id"], return_counts=True)
    assert 3 <= len(tracks) <= len(truth.world.boxes)
    assert counts.max() > 40
    moving = agents[np.linalg.norm(agents["velocity"], axis=1) > 0.5]
    assert len(moving) > 50


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """Both formats of a drive as the device makes it: pictures at 30 Hz, boxes at 15; a bus crosses."""
    folder = tmp_path_factory.mktemp("fused")
    options = FaultyOptions(
        seconds=5.0,
        width=320,
        height=192,
        lidar_points=64,
        radar_hz=0.0,
        gps_no_fix=0,
        boxes3d=True,
        crossings_s=(2.5,),
    )
    made = simulate(folder, options)
    convert([made.mcap], folder, build_config({"formats": ["l5kit", "ncore"]}), dataset="d")
    return folder, Truth.read(made.truth)


@pytest.mark.long
def test_cuboids_lie_as_the_boxes_do(fused: Drive) -> None:
    folder, truth = fused
    (store,) = (folder / "ncore").glob("*/*.ncore4.zarr.itar")
    opened = FinishedTar(store)
    observations = json.loads(opened.get("cuboids/default/cuboids/.zattrs"))["cuboid_track_observations"]
    opened.close()
    by_id = {box.track_id: box for box in truth.world.boxes}
    off, shares = [], []
    for each in observations:
        box, time_ns = by_id[each["track_id"]], each["timestamp_us"] * 1000
        state = box.motion.state(truth.seconds(time_ns))
        turned = Rotation.from_euler("xyz", each["bbox3"]["rot"]).as_matrix()[:, 0]
        ahead = truth.rig(time_ns)[:3, :3] @ turned
        if np.linalg.norm(state.velocity_m_s) > 1.0:
            off.append(np.arctan2(ahead[1], ahead[0]) - state.yaw_rad)
            shares.append(np.array(each["bbox3"]["dim"]) / box.size_m)
    turned_rad = np.abs((np.array(off) + np.pi) % (2 * np.pi) - np.pi)
    assert len(off) > 100
    assert np.degrees(np.percentile(turned_rad, 50)) < 3.0
    assert np.abs(np.array(shares) - 1.0).max() < 0.2


def test_only_what_the_format_is_made_of_is_required(drive: Drive) -> None:
    """At 2 Hz the radar cube would leave one frame in five; L5Kit has no use for it."""
    report = json.loads((drive[0].parent / "d.capture_report.json").read_text())
    assert report["topics"]["/radar/cube"]["received"] == 16
    assert report["samples"] == report["topics"]["/model/output"]["received"] == 120
    assert report["warnings"] == []


def test_what_l5kit_opens_is_sound(recording: Path, tmp_path: Path) -> None:
    assert_sound("l5kit", l5kit(recording, tmp_path))
