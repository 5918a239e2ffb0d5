"""Agents of L5Kit and cuboids of NCore against where objects were, how they lay and how large they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d
from scenarios import (
    Figure,
    at_least,
    at_most,
    converted,
    driven,
    exactly,
    scenario,
    seconds,
    simulated,
    told,
)
from scipy.spatial.transform import Rotation

from edgefirst_ros.formats.l5kit import ChunkedDataset
from edgefirst_ros.formats.l5kit.write.candidates import track_key
from edgefirst_ros.formats.ncore.store.reading import FinishedTar
from edgefirst_ros.formats.tracks.classes import KINDS, PRIORS
from edgefirst_ros.simulation import Truth

Floats = npt.NDArray[np.float64]

_DRIVE: dict[str, Any] = {"boxes3d": True, "radar_hz": 0.0, "gps_no_fix": 0, "lidar_points": 64}
_MOVING_M_S = 1.0
_SETTLED_S = 2.0
"""The first pose of a drive is held before the first fix; what is compared with the truth begins after it."""


@dataclass(frozen=True, slots=True)
class Labels:
    """N labels against the truth.

    Attributes:
        box: (N,) index of the true box.
        time_ns: (N,).
        place_m: (N,) distance from the middle of its floor, seen from above.
        yaw_rad: (N,) heading error.
        share: (N, 3) length, width, height over the true ones.
        size_m: (N, 3).
        velocity_m_s: (N,) error; NaN where the format has none.
        speed_m_s: (N,) the true one.
    """

    box: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]
    place_m: Floats
    yaw_rad: Floats
    share: Floats
    size_m: Floats
    velocity_m_s: Floats
    speed_m_s: Floats

    @property
    def first(self) -> npt.NDArray[np.bool_]:
        """Which is the first of its box."""
        found = np.zeros(len(self.box), np.bool_)
        found[np.unique(self.box, return_index=True)[1]] = True
        return found


def agents(dataset: Path, truth: Truth) -> Labels:
    """The agents of an L5Kit dataset of one scene."""
    opened = ChunkedDataset(dataset).open()
    (origin,) = json.loads((dataset / ".zattrs").read_text())["scene_origins_lat_lon_alt"]
    world = (truth.world.latitude_deg, truth.world.longitude_deg, truth.world.altitude_m)
    by_key = {track_key(box.track_id): index for index, box in enumerate(truth.world.boxes)}
    rows = []
    every = opened.agents[:]
    for frame in opened.frames[:]:
        time_ns = int(frame["timestamp"])
        for agent in every[slice(*frame["agent_index_interval"])]:
            index = by_key[int(agent["track_id"])]
            ecef = pymap3d.enu2ecef(*agent["centroid"], 0.0, *origin)
            place = np.array(pymap3d.ecef2enu(*ecef, *world), np.float64)[:2]
            rows.append((index, time_ns, place, float(agent["yaw"]), agent["extent"], agent["velocity"]))
    return _compared(rows, truth)


def cuboids(sequence: Path, truth: Truth) -> Labels:
    """The cuboids of an NCore sequence, by the true pose of their frame of reference, which is the rig."""
    (store,) = sequence.glob("*.ncore4.zarr.itar")
    opened = FinishedTar(store)
    key = "cuboids/default/cuboids/.zattrs"
    observations = json.loads(opened.get(key))["cuboid_track_observations"]
    opened.close()
    by_id = {box.track_id: index for index, box in enumerate(truth.world.boxes)}
    stamps = np.concatenate(
        [truth.true_ns(topic) for topic in truth.data["messages"] if topic.endswith("boxes3d")]
    )
    rows = []
    for each in observations:
        time_ns = int(stamps[np.argmin(np.abs(stamps // 1000 - each["timestamp_us"]))])
        T_world_rig = truth.rig(time_ns)
        centroid = T_world_rig[:3, :3] @ each["bbox3"]["centroid"] + T_world_rig[:3, 3]
        ahead = (T_world_rig[:3, :3] @ Rotation.from_euler("xyz", each["bbox3"]["rot"]).as_matrix())[:, 0]
        yaw = float(np.arctan2(ahead[1], ahead[0]))
        rows.append((by_id[each["track_id"]], time_ns, centroid[:2], yaw, each["bbox3"]["dim"], None))
    return _compared(rows, truth)


def _compared(rows: list[tuple[int, int, Any, float, Any, Any]], truth: Truth) -> Labels:
    found = []
    for index, time_ns, place, yaw, size, velocity in rows:
        box = truth.world.boxes[index]
        state = box.motion.state(truth.seconds(time_ns))
        off = (yaw - state.yaw_rad + np.pi) % (2 * np.pi) - np.pi
        moved = np.nan if velocity is None else np.linalg.norm(velocity - state.velocity_m_s[:2])
        found.append((
            index,
            time_ns,
            np.linalg.norm(place - state.position_m[:2]),
            abs(off),
            np.array(size) / box.size_m,
            np.array(size, np.float64),
            moved,
            np.linalg.norm(state.velocity_m_s),
        ))  # fmt: skip
    return Labels(*(np.array(column) for column in zip(*found, strict=True)))


def _sizes(name: str, labels: Labels, truth: Truth) -> Iterator[Figure]:
    off = np.abs(labels.share - 1).max(axis=1) * 100
    yield at_most(f"{name}: size off, p50", np.percentile(off, 50), 20.0, "%")
    yield at_most(f"{name}: size off, p95", np.percentile(off, 95), 20.0, "%")
    outside = 0
    for index, size in zip(labels.box, labels.size_m, strict=True):
        prior = PRIORS[KINDS[truth.world.boxes[index].label]]
        outside += bool(
            (size > np.array(prior.most_m) + 1e-3).any() or (size < np.array(prior.least_m) - 1e-3).any()
        )
    yield exactly(f"{name}: sizes out of their class's range", outside, 0)


@scenario("labels-grid", "L5Kit frames 100 ms apart, agents within 0.05 m, first rows with a velocity")
def grid(folder: Path) -> Iterator[Figure]:
    """The default set-up: camera at 30 frames a second, model at 15."""
    made = simulated(folder, seconds=seconds(16.0), fps=30, **_DRIVE)
    truth = Truth.read(made.truth)
    done = converted(made.mcap, folder / "out", formats=["l5kit"], dataset="d")
    dataset = folder / "out" / "l5kit" / "d.zarr"
    steps = np.diff(ChunkedDataset(dataset).open().frames[:]["timestamp"]) / 1e6
    yield exactly("step, least", float(steps.min()), 100.0, "ms")
    yield exactly("step, most", float(steps.max()), 100.0, "ms")
    yield told("frames", len(steps) + 1)
    labels = agents(dataset, truth)
    yield at_most("agents off, p95", np.percentile(labels.place_m, 95), 0.05, "m")
    moving = labels.speed_m_s > _MOVING_M_S
    yield at_most("yaw off, moving, p50", np.degrees(np.percentile(labels.yaw_rad[moving], 50)), 3.0, "deg")
    late = labels.first & moving & (labels.time_ns > truth.data["start_ns"] + _SETTLED_S * 1e9)
    share = labels.velocity_m_s[late] / labels.speed_m_s[late]
    yield at_most("velocity of first rows off, worst", share.max() * 100, 20.0, "%")
    yield from _sizes("agents", labels, truth)
    account = done.report["topics"]["/fusion/boxes3d"]
    yield exactly("boxes3d messages not written", account["received"] - account["written"], 0)


@scenario("labels-crossing", "a bus, a car and a truck that cross are never larger than such are")
def crossing(folder: Path) -> Iterator[Figure]:
    """All traffic crosses 18 m ahead: seen from the side, nothing but the class tells how wide it is."""
    done, truth = driven(
        folder,
        ["l5kit", "ncore"],
        seconds=seconds(14.0),
        traffic="crossing",
        crossings_s=(3.0, 6.0, 9.0),
        **_DRIVE,
    )
    del done
    (dataset,) = (folder / "out" / "l5kit").glob("*.zarr")
    labels = agents(dataset, truth)
    yield at_least("labels", len(labels.box), 10)
    yield at_most(
        "agents: length and width of the first row, most", labels.size_m[labels.first, :2].max(), 12.0, "m"
    )
    yield from _sizes("agents", labels, truth)
    (sequence,) = [path for path in (folder / "out" / "ncore").iterdir() if path.is_dir()]
    yield from _sizes("cuboids", cuboids(sequence, truth), truth)


@scenario("labels-cuboids", "NCore cuboids have their track's heading, p50 3 deg, and size, within 20 %")
def headings(folder: Path) -> Iterator[Figure]:
    """Lanes, walkers and parked vehicles."""
    _, truth = driven(folder, ["ncore"], seconds=seconds(16.0), **_DRIVE)
    (sequence,) = [path for path in (folder / "out" / "ncore").iterdir() if path.is_dir()]
    labels = cuboids(sequence, truth)
    yield told("cuboids", len(labels.box))
    yield at_most("yaw off, p50", np.degrees(np.percentile(labels.yaw_rad, 50)), 3.0, "deg")
    moving = labels.speed_m_s > _MOVING_M_S
    yield at_most("yaw off, moving, p95", np.degrees(np.percentile(labels.yaw_rad[moving], 95)), 6.0, "deg")
    yield at_most("centroid off, p95", np.percentile(labels.place_m, 95), 0.05, "m")
    yield from _sizes("cuboids", labels, truth)
