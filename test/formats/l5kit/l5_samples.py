"""Samples and datasets made by hand, for the tests of the L5Kit format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from places import contents

from edgefirst_ros.formats.format import Written
from edgefirst_ros.formats.l5kit import ChunkedDataset, L5KitOptions, L5KitWriter
from edgefirst_ros.formats.l5kit.store.growingdataset import GrowingDataset
from edgefirst_ros.formats.l5kit.store.schema import AGENT, FRAME, SPECS, SceneNote
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.detection import Box, Detections, ModelInfo
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import (
    Calibration,
    Datum,
    EgoPose,
    GeoPoint,
    Measurement,
    Role,
    Sample,
    SequenceInfo,
)
from edgefirst_ros.model.transform import Transform
from edgefirst_ros.simulation.detector import Detector
from edgefirst_ros.simulation.world import World, build

START_NS = 1_777_626_000_000_000_000
STEP_NS = 100_000_000
ORIGIN = GeoPoint(45.5017, -73.5673, 35.0)
SEQUENCE = SequenceInfo("maivin_2026_05_01_09_00_00", "maivin", START_NS)

# 500 pixels a unit of the image plane, 1000 by 500, its middle the optical axis.
CAMERA = CameraInfo(
    1000,
    500,
    "plumb_bob",
    (0.0,) * 5,
    np.array([[500.0, 0.0, 499.5], [0.0, 500.0, 249.5], [0.0, 0.0, 1.0]]),
    np.eye(3),
    np.zeros((3, 4)),
)
OPTICAL = Transform("base_link", "camera_optical", (2.0, 0.0, 1.5), (-0.5, 0.5, -0.5, 0.5))
LIDAR = Transform("base_link", "lidar", (1.0, 0.0, 2.0), (0.0, 0.0, 0.0, 1.0))
RADAR = Transform("base_link", "radar", (3.0, 0.0, 0.5), (0.0, 0.0, 1.0, 0.0))
CALIBRATION = Calibration(
    camera_info=CAMERA,
    model_info=ModelInfo("net", ("background", "car", "person")),
    transforms={t.child: t for t in (OPTICAL, LIDAR, RADAR)},
)

FRAMES_OF = {
    Role.MODEL: ("/model/output", "camera_optical"),
    Role.BOXES_3D: ("/fusion/boxes3d", "base_link"),
    Role.LIDAR_POINTS: ("/lidar/points", "lidar"),
    Role.RADAR_TARGETS: ("/radar/targets", "radar"),
}


def box(**changes: Any) -> Box:  # noqa: ANN401 - any field of the message
    """A car straight ahead, 20 m from the camera, a tenth of the picture wide and high."""
    values: dict[str, Any] = {
        "center_x": 0.5,
        "center_y": 0.5,
        "width": 0.1,
        "height": 0.1,
        "label": "car",
        "score": 0.75,
        "distance_m": 20.0,
        "speed_m_s": 0.0,
        "track_id": "car-1",
        "track_lifetime": 1,
        "track_created_ns": 0,
    }
    return Box(**{**values, **changes})


def boxes(*found: Box) -> Detections:
    return Detections(tuple(found), ())


def cloud(**columns: Any) -> PointCloud:  # noqa: ANN401 - arrays by field name
    points = np.zeros(
        len(next(iter(columns.values()))), [(n, np.asarray(c).dtype) for n, c in columns.items()]
    )
    for name, column in columns.items():
        points[name] = column
    return PointCloud(points, 1, len(points))


def sample(
    frame: int = 0,
    data: dict[Role, Datum] | None = None,
    *,
    position_m: tuple[float, float, float] | None = (0.0, 0.0, 0.0),
    yaw_deg: float = 0.0,
    sequence: SequenceInfo = SEQUENCE,
    calibration: Calibration = CALIBRATION,
    time_ns: int | None = None,
) -> Sample:
    """A sample at 10 Hz, its rig at a place of the world, its messages in their usual frames."""
    time = START_NS + frame * STEP_NS if time_ns is None else time_ns
    half = np.radians(yaw_deg) / 2
    ego = EgoPose(
        time,
        origin=ORIGIN,
        position_m=position_m,
        rotation_xyzw=(0.0, 0.0, float(np.sin(half)), float(np.cos(half))),
    )
    companions = {
        role: Measurement(FRAMES_OF[role][0], time, time, time, frame, FRAMES_OF[role][1], datum)
        for role, datum in (data or {}).items()
    }
    return Sample(sequence, frame, time, companions, {}, ego, calibration)


def hand_over(writer: L5KitWriter, each: Sample) -> Future[Written]:
    """Write a sample; what became of it, as soon as that is known."""
    result = writer.write(writer.prepare(each))
    if isinstance(result, Future):
        return result
    at_once: Future[Written] = Future()
    at_once.set_result(result)
    return at_once


def write(root: Path, samples: Iterable[Sample], name: str = "ds", **options: Any) -> ChunkedDataset:  # noqa: ANN401 - any option
    """A dataset of samples, opened."""
    writer = L5KitWriter(root, name, L5KitOptions(**options))
    begun: list[str] = []
    for each in samples:
        if each.sequence.name not in begun:
            begun.append(each.sequence.name)
            writer.begin(each.sequence)
        writer.write(writer.prepare(each))
    (path,) = writer.close()
    return ChunkedDataset(path).open()


def scenes(*counts: int) -> Iterator[Sample]:
    """Samples with a changing number of agents and lights in each frame."""
    rng = np.random.default_rng(0)
    for number, count in enumerate(counts):
        sequence = SequenceInfo(f"scene-{number}", "host", START_NS)
        for frame in range(count):
            found = [box(track_id=f"t{i}", center_x=0.1 + 0.1 * i) for i in range(int(rng.integers(0, 4)))]
            found += [box(track_id=f"l{i}", label="traffic light") for i in range(int(rng.integers(0, 2)))]
            data = {Role.MODEL: boxes(*found)}
            yield sample(frame, data, sequence=sequence, position_m=(float(frame), 0.0, 0.0))


def feed(writer: L5KitWriter, samples: Iterable[Sample]) -> None:
    """Write samples, beginning their sequences."""
    begun = ""
    for each in samples:
        if each.sequence.name != begun:
            begun = each.sequence.name
            writer.begin(each.sequence)
        writer.write(writer.prepare(each))


@cache
def drive_samples(
    seed: int, seconds: float, *, rate_hz: int = 10, solid: bool = False
) -> tuple[tuple[Sample, World], ...]:
    """Samples of the simulated world as an ideal pipeline would align them."""
    return tuple(_drive_samples(seed, seconds, rate_hz, solid=solid))


def _drive_samples(seed: int, seconds: float, rate_hz: int, *, solid: bool) -> Iterator[tuple[Sample, World]]:
    world = build(seed, 1280, 720)
    (cx, cy), focal = world.camera.center_px, world.camera.focal_px
    info = CameraInfo(
        1280,
        720,
        "plumb_bob",
        (0.0,) * 5,
        np.array([[focal, 0, cx], [0, focal, cy], [0, 0, 1.0]]),
        np.eye(3),
        np.zeros((3, 4)),
    )
    mounts = {
        m.child: Transform("base_link", m.child, m.translation_m, m.rotation_xyzw) for m in world.mounts
    }
    flat, full = Detector(world), Detector(world)
    for frame in range(int(seconds * rate_hz)):
        time_ns = START_NS + frame * 1_000_000_000 // rate_hz
        at = (time_ns - START_NS) / 1e9
        data: dict[Role, Datum] = {Role.MODEL: boxes(*map(_simulated, flat.boxes_2d(time_ns, at)))}
        if solid:
            data[Role.BOXES_3D] = boxes(*map(_simulated, full.boxes_3d(time_ns, at)))
        state = world.rig.state(at)
        x, y, z = state.position_m.tolist()
        yield (
            sample(
                frame,
                data,
                position_m=(x, y, z),
                yaw_deg=float(np.degrees(state.yaw_rad)),
                calibration=Calibration(camera_info=info, transforms=mounts),
                time_ns=time_ns,
            ),
            world,
        )


def _simulated(sent: Any) -> Box:  # noqa: ANN401 - the vendor's message object
    return box(
        center_x=sent.center_x,
        center_y=sent.center_y,
        width=sent.width,
        height=sent.height,
        label=sent.label,
        distance_m=sent.distance,
        score=sent.score,
        track_id=sent.track_id,
        track_lifetime=sent.track_lifetime,
    )


def random_dataset(path: Path, rng: np.random.Generator, frames: list[int]) -> Path:
    """A dataset with so many frames a scene, every field random but for the intervals."""
    growing = GrowingDataset(path)
    for number, count in enumerate(frames):
        note = SceneNote(f"{path.stem}-{number}", GeoPoint(*rng.uniform(-60, 60, 3).tolist()))
        start = int(START_NS + rng.integers(1 << 40))
        growing.begin_scene(f"host{number}", start, note)
        for frame in range(count):
            rows = {name: rng.integers(0, 4) for name in ("agents", "traffic_light_faces")}
            row = np.zeros(1, FRAME)
            row["timestamp"] = start + frame * STEP_NS
            row["ego_translation"], row["ego_rotation"] = rng.normal(size=3), rng.normal(size=(3, 3))
            for name, field in (
                ("agents", "agent_index_interval"),
                ("traffic_light_faces", "traffic_light_faces_index_interval"),
            ):
                row[field] = growing.length(name), growing.length(name) + rows[name]
            for name, many in rows.items():
                growing.append(name, random_rows(rng, SPECS[name].dtype, int(many)))
            growing.append("frames", row)
        growing.end_scene(start + (count - 1) * STEP_NS)
    growing.finish()
    return path


def random_rows(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Rows with a random number in every element, text of random digits."""
    rows = np.zeros(count, dtype)
    for name in dtype.names or ():
        field = rows[name]
        if field.dtype.kind == "U":
            rows[name] = [f"{n:08x}" for n in rng.integers(1 << 32, size=count)]
        else:
            rows[name] = rng.integers(0, 200, field.shape) / (4 if field.dtype.kind == "f" else 1)
    return rows


def agent(**fields: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - any field
    """One agent (1,), a car for certain unless a field says otherwise."""
    row = np.zeros(1, AGENT)
    row["extent"] = 4.0, 2.0, 1.5
    row["label_probabilities"][0, 3] = 1.0
    for name, value in fields.items():
        row[name] = value
    return row


def content(path: Path) -> dict[str, bytes]:
    """All files, but of agents without what later sightings settle, and without the sums of all that."""
    found = contents(path)
    if "agents/0" in found and ".zgroup" in found:
        agents = unsettled(np.asarray(ChunkedDataset(path).open().agents[:]))
        found = {
            name: data for name, data in found.items() if not re.fullmatch(r"agents/\d+|\.manifest", name)
        }
        found["agents"] = agents.tobytes()
    return found


def unsettled(agents: np.ndarray) -> np.ndarray:
    """Agents without heading and size: of these a killed run has what was known when the frame was made."""
    rows = agents.copy()
    rows["yaw"], rows["extent"] = 0.0, 0.0
    return rows


ARRAYS = ("scenes", "frames", "agents", "traffic_light_faces")


def cut(dataset: ChunkedDataset, count: int) -> dict[str, np.ndarray]:
    """Rows of the first frames, and the scenes that they make up."""
    rows = {name: np.asarray(getattr(dataset, "tl_faces" if "light" in name else name)[:]) for name in ARRAYS}
    rows["frames"] = rows["frames"][:count]
    for name, owner, field in (
        ("agents", "frames", "agent_index_interval"),
        ("traffic_light_faces", "frames", "traffic_light_faces_index_interval"),
    ):
        rows[name] = rows[name][: int(rows[owner][field][-1, 1])]
    rows["agents"] = unsettled(rows["agents"])
    scenes = rows["scenes"][rows["scenes"]["frame_index_interval"][:, 0] < count].copy()
    scenes["frame_index_interval"][-1, 1] = min(scenes["frame_index_interval"][-1, 1], count)
    scenes["end_time"][-1] = rows["frames"]["timestamp"][-1]
    return {**rows, "scenes": scenes}


def same_rows(path: Path, expected: dict[str, np.ndarray]) -> bool:
    dataset = ChunkedDataset(path).open()
    found = cut(dataset, len(dataset.frames))
    return all(found[name].tobytes() == rows.tobytes() for name, rows in expected.items())
