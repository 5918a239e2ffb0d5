"""How long an NCore sequence takes to finish, by its size and by its length.

    python benchmarks/ncore_finish.py [--store itar|directory] [--gb 0.5 2 10] [--minutes 5 60] [--drive 5 10]

First 3,000 pictures, from small to large: only the size grows. Then small messages at the rates of a Raivin,
for so many minutes: only the number of records grows. Then a drive that has 64 x 1024 points ten times a
second, and as often fifteen boxes in the picture and fifteen in space. Below each, what the time went into.
Writing, in one thread, is timed as well: what is computed on the way is in there.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "formats" / "ncore"))

import ncoremade as made
import numpy as np

from edgefirst_ros.formats.ncore.finish import facts, lidarfit
from edgefirst_ros.formats.ncore.finish import sequence as finish
from edgefirst_ros.formats.ncore.options import NCoreOptions, StoreType
from edgefirst_ros.formats.ncore.store import directory as dirstore
from edgefirst_ros.formats.ncore.store import itar as tarstore
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import CameraImage, EgoPose, Observation, Role

PICTURES = 3_000
POINT = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("reflect", "u1"), ("ring", "<u2")])
SPENT: defaultdict[str, float] = defaultdict(float)
PARTS = (
    (facts.Facts, "read", "journal"),
    (lidarfit.LidarModels, "finish", "lidar models"),
    (finish, "_attach_boxes", "2-D boxes"),
    (finish, "_close_instances", "times"),
    (finish, "_close_defaults", "poses, cuboids"),
    (dirstore, "consolidate", "consolidated metadata"),
    (tarstore, "tail", "index"),
    (finish, "write_meta", "meta file, checksums"),
    (finish, "complete_sequence", "all"),
)


def timed(owner: Any, name: str, what: str) -> None:  # noqa: ANN401 - a module or a class
    """Count the time that a function takes, under a name."""
    plain: Callable[..., Any] = getattr(owner, name)

    def wrapped(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - as the function has it
        began_s = time.perf_counter()
        try:
            return plain(*args, **more)
        finally:
            SPENT[what] += time.perf_counter() - began_s

    setattr(owner, name, wrapped)


def picture(time_ns: int, data: bytes) -> Observation:
    """A picture of any bytes."""
    image = CameraImage("jpeg", data, 1920, 1080)
    return made.observation(
        Role.CAMERA, "/camera/h264", time_ns, VideoPacket("h264", b""), "camera_optical", image=image
    )


def large(size: int) -> Iterator[Observation | EgoPose]:
    """Pictures that are so many bytes together."""
    data = [random.Random(seed).randbytes(size // PICTURES) for seed in range(4)]
    for index in range(PICTURES):
        yield picture(made.START_NS + index * 33_333_333, data[index % 4])


def long(minutes: float) -> Iterator[Observation | EgoPose]:
    """Small messages at the rates of a Raivin: 30 pictures, 10 sweeps, 18 scans, 200 of the IMU a second."""
    data = random.Random(0).randbytes(2_000)
    kinds: tuple[tuple[float, Callable[[int], Observation | EgoPose]], ...] = (
        (30.0, lambda time_ns: picture(time_ns, data)),
        (10.0, made.lidar),
        (18.0, made.radar),
        (200.0, made.imu),
        (40.0, lambda t: EgoPose(t, position_m=(t / 1e9, 0.0, 0.0), rotation_xyzw=(0.0, 0.0, 0.0, 1.0))),
        (10.0, made.gps),
    )
    due = [0] * len(kinds)
    while True:
        first = min(range(len(kinds)), key=lambda at: due[at] / kinds[at][0])
        rate, make = kinds[first]
        after_ns = round(due[first] / rate * 1e9)
        if after_ns > minutes * 60e9:
            return
        due[first] += 1
        yield make(made.START_NS + after_ns)


def organised(number: int) -> PointCloud:
    """A cloud of 64 x 1024 points, the uppermost rows mostly sky."""
    random = np.random.default_rng(number)
    elevation = np.radians(np.linspace(15, -25, 64))[:, None] + np.zeros((64, 1024))
    azimuth = -np.linspace(0, 2 * np.pi, 1024, endpoint=False)[None] + np.zeros((64, 1024))
    distance = random.uniform(3, 60, elevation.shape)
    distance[random.random(elevation.shape) < np.linspace(0.95, 0.05, 64)[:, None]] = np.nan
    points = np.zeros(elevation.shape, POINT)
    points["x"] = distance * np.cos(elevation) * np.cos(azimuth)
    points["y"] = distance * np.cos(elevation) * np.sin(azimuth)
    points["z"] = distance * np.sin(elevation)
    points["ring"] = np.arange(64)[:, None]
    return made.cloud(points.ravel(), 64)


def driven(minutes: float) -> Iterator[Observation | EgoPose]:
    """As ``long``, with the clouds of a spinning lidar, and boxes."""
    clouds = [organised(number) for number in range(16)]
    for each in long(minutes):
        if isinstance(each, EgoPose) or each.role is not Role.LIDAR_POINTS:
            yield each
            continue
        time_ns = each.measurement.time_ns
        number = round((time_ns - made.START_NS) / 1e8)
        sweep = clouds[number % len(clouds)]
        yield made.observation(Role.LIDAR_POINTS, "/lidar/points", time_ns, sweep, "lidar")
        flat = Detections(tuple(made.flat_box(each, f"{number // 100}-{each}") for each in range(15)), ())
        yield made.observation(Role.MODEL, "/model/output", time_ns, flat, "camera_optical")
        solid = [made.box(10.0 + each, 2.0, 0.5, track=f"{number // 100}-{each}") for each in range(15)]
        boxes = Detections(tuple(solid), ())
        yield made.observation(Role.BOXES_3D, "/fusion/boxes3d", time_ns, boxes, "lidar")


def measure(name: str, kind: StoreType, source: Iterator[Observation | EgoPose], folder: Path) -> None:
    """Write everything, finish, and print a row."""
    writer = NCoreWriter(folder, NCoreOptions(store=kind), split_us=1 << 62)
    writer.begin(made.SEQUENCE)
    SPENT.clear()
    writing_s = 0.0
    for each in source:
        prepared = None if isinstance(each, EgoPose) else writer.prepare(each)
        began_s = time.perf_counter()
        if isinstance(each, EgoPose):
            writer.pose(each)
        elif prepared is not None and (written := writer.write(prepared)).refused:
            raise SystemExit(f"refused: {written.refused}")
        writing_s += time.perf_counter() - began_s
    began_s = time.perf_counter()
    writer.close()
    took_s = time.perf_counter() - began_s
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"| {name} | {size / 1e9:.2f} GB | {writing_s:.1f} s | {took_s:.2f} s |", flush=True)
    parts = [f"{what} {SPENT[what]:.2f} s" for _, _, what in PARTS if SPENT[what] >= 0.005]
    print(f"|  |  |  | {', '.join(parts)} |", flush=True)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=["itar", "directory"], default="itar")
    parser.add_argument("--gb", type=float, nargs="*", default=[0.5, 2.0, 10.0])
    parser.add_argument("--minutes", type=float, nargs="*", default=[5.0, 60.0])
    parser.add_argument("--drive", type=float, nargs="*", default=[5.0])
    parser.add_argument("--folder", type=Path, help="where to write; needs the room of the largest")
    args = parser.parse_args()
    for owner, name, what in PARTS:
        timed(owner, name, what)
    print("| sequence | size | writing | finishing |")
    print("|---|---|---|---|")
    cases = [(f"{PICTURES} pictures", large(round(gb * 1e9))) for gb in args.gb]
    cases += [(f"{minutes:g} min of small messages", long(minutes)) for minutes in args.minutes]
    cases += [(f"{minutes:g} min of a drive", driven(minutes)) for minutes in args.drive]
    for name, source in cases:
        folder = Path(tempfile.mkdtemp(prefix="ncore-finish-", dir=args.folder))
        try:
            measure(name, args.store, source, folder)
        finally:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
