"""Agents of L5Kit and cuboids of NCore against where objects were, how they lay and how large they are."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d
from faults import BoxErrors, Truth
from mcap.writer import Writer
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

import edgefirst_ros
from edgefirst_ros.formats.l5kit import ChunkedDataset
from edgefirst_ros.formats.l5kit.write.boxes import track_key
from edgefirst_ros.formats.ncore.store.files import FinishedTar
from edgefirst_ros.formats.tracks.sizes import KINDS, PRIORS
from edgefirst_ros.formats.tracks.solver import Heading
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.sources.mcap import McapRecording

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
        assumed: (N,) whether the format says that nothing tells the heading.
    """

    box: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]
    place_m: Floats
    yaw_rad: Floats
    share: Floats
    size_m: Floats
    velocity_m_s: Floats
    speed_m_s: Floats
    assumed: npt.NDArray[np.bool_]

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
            rows.append(
                (index, time_ns, place, float(agent["yaw"]), agent["extent"], agent["velocity"], False)
            )
    return _compared(rows, truth)


def cuboids(sequence: Path, truth: Truth) -> Labels:
    """The cuboids of an NCore sequence, by the true pose of their frame of reference, which is the rig."""
    (store,) = sequence.glob("*.ncore4.zarr.itar")
    opened = FinishedTar(store)
    key = "cuboids/default/cuboids/.zattrs"
    observations = json.loads(opened.get(key))["cuboid_track_observations"]
    key = "cuboids/default/generic_data/heading_basis"
    basis = read_array(opened.get, key) if observations else []
    opened.close()
    by_id = {box.track_id: index for index, box in enumerate(truth.world.boxes)}
    stamps = np.concatenate(
        [truth.true_ns(topic) for topic in truth.data["messages"] if topic.endswith("boxes3d")]
    )
    rows = []
    for each, of in zip(observations, basis, strict=True):
        time_ns = int(stamps[np.argmin(np.abs(stamps // 1000 - each["timestamp_us"]))])
        T_world_rig = truth.rig(time_ns)
        centroid = T_world_rig[:3, :3] @ each["bbox3"]["centroid"] + T_world_rig[:3, 3]
        ahead = (T_world_rig[:3, :3] @ Rotation.from_euler("xyz", each["bbox3"]["rot"]).as_matrix())[:, 0]
        yaw = float(np.arctan2(ahead[1], ahead[0]))
        rows.append(
            (
                by_id[each["track_id"]],
                time_ns,
                centroid[:2],
                yaw,
                each["bbox3"]["dim"],
                None,
                of == Heading.ASSUMED,
            )
        )
    return _compared(rows, truth)


def _compared(rows: list[tuple[int, int, Any, float, Any, Any, bool]], truth: Truth) -> Labels:
    found = []
    for index, time_ns, place, yaw, size, velocity, assumed in rows:
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
            assumed,
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


_NOISE = BoxErrors(center_m=0.1, size=0.05)


def _with_noise(name: str, labels: Labels, truth: Truth, origin_s: float) -> Iterator[Figure]:
    """Figures by what an object does; objects that are seen for less than a second are not judged."""
    kinds = {"parked": [], "oncoming": [], "ahead": []}  # type: dict[str, list[int]]
    for index in np.unique(labels.box).tolist():
        rows = labels.box == index
        box = truth.world.boxes[index]
        if box.label not in {"car", "truck", "bus"} or np.count_nonzero(rows) < 10:
            continue
        state, rig = (motion.state(origin_s) for motion in (box.motion, truth.world.rig))
        against = float(np.dot(state.velocity_m_s, rig.velocity_m_s))
        still = np.linalg.norm(state.velocity_m_s) < _MOVING_M_S
        kinds["parked" if still else "oncoming" if against < 0 else "ahead"].append(index)
    for kind, indices in kinds.items():
        chosen = np.isin(labels.box, indices)
        yield told(f"{name}, {kind}: labels", int(chosen.sum()))
        if not chosen.any():
            continue
        off = np.abs(labels.share[chosen, 0] - 1) * 100
        yield at_most(f"{name}, {kind}: length off, p95", np.percentile(off, 95), 15.0, "%")
        yaw = np.degrees(labels.yaw_rad[chosen])
        if kind == "parked":
            assumed = labels.assumed[chosen]
            yield told(f"{name}, {kind}: heading assumed", 100 * assumed.mean(), "%")
            yaw = np.minimum(yaw, 180 - yaw)[~assumed]  # which end is the front is not said
            if name == "cuboids" and len(yaw):
                yield at_most(f"{name}, {kind}: yaw off where told, most", yaw.max(), 5.0, "deg")
        else:
            yield at_most(f"{name}, {kind}: yaw off, p50", np.percentile(yaw, 50), 3.0, "deg")
            yield at_most(f"{name}, {kind}: yaw off, p95", np.percentile(yaw, 95), 8.0, "deg")


@scenario("labels-noise", "boxes with 0.1 m and 5 %: parked within 5 deg or assumed, length within 15 %")
def noise(folder: Path) -> Iterator[Figure]:
    """Cars and trucks that are parked, come, and go ahead."""
    for seed in (3, 5):
        where = folder / str(seed)
        _, truth = driven(where, ["l5kit", "ncore"], seconds=seconds(24.0), seed=seed, boxes=_NOISE, **_DRIVE)
        (dataset,) = (where / "out" / "l5kit").glob("*.zarr")
        (sequence,) = [path for path in (where / "out" / "ncore").iterdir() if path.is_dir()]
        for name, labels in (("cuboids", cuboids(sequence, truth)), ("agents", agents(dataset, truth))):
            yield from _with_noise(name, labels, truth, 0.0)


@scenario("labels-stands", "people who first stand have the heading with which they walk, in both formats")
def stands(folder: Path) -> Iterator[Figure]:
    """They stand as long as the rig does, then start to walk in circles of 2.2 m, ever faster for 4 s.

    At 1 m/s, from where on motion is a heading, they have turned by up to 38 degrees since they stood.
    """
    walk_s = 8.0
    _, truth = driven(
        folder,
        ["l5kit", "ncore"],
        seconds=seconds(12.0),
        walkers_stand_s=walk_s,
        stops=((4.0, walk_s),),
        **_DRIVE,
    )
    (dataset,) = (folder / "out" / "l5kit").glob("*.zarr")
    (sequence,) = [path for path in (folder / "out" / "ncore").iterdir() if path.is_dir()]
    for name, labels in (("cuboids", cuboids(sequence, truth)), ("agents", agents(dataset, truth))):
        people = np.array([truth.world.boxes[index].label == "person" for index in labels.box])
        last_s = np.array([truth.seconds(time_ns) for time_ns in labels.time_ns])
        walked = np.unique(labels.box[people & (last_s > walk_s + 3.0)])
        chosen = np.isin(labels.box, walked) & (last_s < walk_s)
        yield at_least(f"{name}: labels of people who stand", int(chosen.sum()), 10)
        yield at_most(
            f"{name}: yaw off, p95", np.degrees(np.percentile(labels.yaw_rad[chosen], 95)), 40.0, "deg"
        )


@scenario("labels-two-lidars", "of two lidars of one role EdgeFirst holds the clouds of one, L5Kit of both")
def two_lidars(folder: Path) -> Iterator[Figure]:
    """The first misses every fourth sweep; the other one's are counted as left out."""
    made = simulated(folder / "drive", seconds=seconds(8.0), fps=10, radar_hz=0.0, lidar_points=64)
    first, second = "/lidar_a/points", "/lidar_b/points"
    mixed = folder / "two.mcap"
    sweeps = 0
    with mixed.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="two lidars")
        channels: dict[str, int] = {}
        for message in McapRecording(made.mcap).messages():
            topics = [message.topic]
            if message.topic == "/lidar/points":
                sweeps += 1
                topics = [second, first] if sweeps % 4 else [second]
            for topic in topics:
                if topic not in channels:
                    schema = writer.register_schema(message.schema, "ros2msg", message.definition.encode())
                    channels[topic] = writer.register_channel(topic, "cdr", schema)
                writer.add_message(channels[topic], message.receive_ns, message.data, message.publish_ns)
        writer.finish()
    entries = {
        "lidar_points": {"topic": first},
        "lidar_b": {"role": "lidar_points", "topic": second, "required": "never"},
    }
    done = converted(mixed, folder / "out", topics=entries, formats=["edgefirst", "l5kit"])
    topics = done.report["topics"]
    written = topics[second]["written_to"]
    yield exactly("clouds of the second in EdgeFirst, which has one lidar", written.get("edgefirst", 0), 0)
    yield exactly("clouds of the second in L5Kit, which has all", written.get("l5kit", 0), sweeps)
    yield exactly("told as left out", sum(topics[second]["left_out"]["edgefirst"].values()), sweeps)
    with zipfile.ZipFile(next((folder / "out").rglob("*.zip"))) as files:
        clouds = sum(name.endswith("lidar.pcd") for name in files.namelist())
    yield exactly("clouds", clouds, topics[first]["pairing_error_ms"] and done.report["companions"][first])


@scenario("labels-unlabelled", "a camera of 30 Hz and a model of 15 Hz: what nobody looked at is no negative")
def unlabelled(folder: Path) -> Iterator[Figure]:
    """The samples, their boxes and the COCO export against the truth's model messages."""
    done, truth = driven(folder, seconds=seconds(6.0), fps=30, model_hz=15.0, radar_hz=0.0, lidar_points=64)
    looked = len(truth.true_ns("/model/output"))
    (dataset,) = (folder / "out" / "edgefirst").iterdir()
    samples = list(edgefirst_ros.open(dataset, keys=["boxes2d"]))
    yield told("samples", len(samples))
    yield exactly("with labels, by the report", done.report["labelled"], looked)
    yield exactly("with boxes or none to see", sum(each["boxes2d"] is not None for each in samples), looked)
    files = edgefirst_ros.export_coco(dataset, folder / "coco")
    pictures = sum(len(json.loads(path.read_text())["images"]) for path in files)
    yield exactly("pictures in COCO", pictures, looked)
    only = converted([folder / "drive"], folder / "only", require="model", formats=["edgefirst"])
    yield at_most("samples of --require model beyond those", only.report["samples"] - looked, 0)
