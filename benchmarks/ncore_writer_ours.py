"""Our side of ncore_writer.py: python ncore_writer_ours.py THREADS SETS STORE FOLDER.

With 0 threads, what no writer does without: Blosc of arrays that are there, MD5, and the bytes in one file.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from ncore_writer_frames import PERIOD_US, sets

from edgefirst_ros.formats.ncore.finish import sequence as finish
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, Prepared, rays_of
from edgefirst_ros.formats.ncore.store import base as meta
from edgefirst_ros.formats.ncore.write.writer import NCoreWriter
from edgefirst_ros.model.camera import CameraInfo, VideoPacket
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import (
    Calibration,
    CameraImage,
    Datum,
    EgoPose,
    Measurement,
    Observation,
    Role,
    SequenceInfo,
)
from edgefirst_ros.model.transform import Transform

K = np.array([[1000.0, 0, 960], [0, 1000, 540], [0, 0, 1]])
CALIBRATION = Calibration(
    camera_info=CameraInfo(1920, 1080, "plumb_bob", (0.0,) * 5, K, np.eye(3), np.eye(3, 4)),
    transforms={
        name: Transform("base_link", name, (1.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0))
        for name in ("camera", "lidar", "radar")
    },
)


def observation(role: Role, name: str, time_ns: int, datum: Datum, image: CameraImage | None) -> Observation:
    """A measurement as the pipeline would deliver it."""
    return Observation(
        role, Measurement(f"/{name}", time_ns, time_ns, time_ns, 0, name, datum), CALIBRATION, image
    )


def observations(count: int) -> Iterator[Observation | EgoPose]:
    """A pose, a picture, a sweep and a scan a set."""
    frames = list(sets(min(count, 8)))
    for index in range(count):
        _, data, lidar, radar = frames[index % len(frames)]
        time_ns = (frames[0][0] + index * PERIOD_US) * 1000
        position = (float(index), 0.0, 0.0)
        yield EgoPose(time_ns, position_m=position, rotation_xyzw=(0.0, 0.0, 0.0, 1.0))
        image = CameraImage("jpeg", data, 1920, 1080)
        yield observation(Role.CAMERA, "camera", time_ns, VideoPacket("h264", b""), image)
        yield observation(Role.LIDAR_POINTS, "lidar", time_ns, PointCloud(lidar, 1, len(lidar)), None)
        yield observation(Role.RADAR_TARGETS, "radar", time_ns, PointCloud(radar, 1, len(radar)), None)


def write(writer: NCoreWriter, threads: int, source: Iterator[Observation | EgoPose]) -> None:
    """Prepare in threads, write in order: what the pipeline does."""
    pool = ThreadPoolExecutor(threads)
    waiting: deque[Future[Prepared] | EgoPose] = deque()

    def take() -> None:
        first = waiting.popleft()
        if isinstance(first, EgoPose):
            writer.pose(first)
        elif (written := writer.write(first.result())).refused:
            raise SystemExit(f"refused: {written.refused}")

    for each in source:
        waiting.append(each if isinstance(each, EgoPose) else pool.submit(writer.prepare, each))
        if len(waiting) > 8:
            take()
    while waiting:
        take()
    pool.shutdown()


def write_alone(writer: NCoreWriter, source: Iterator[Observation | EgoPose]) -> None:
    """Everything in one thread, as nvidia-ncore's writer does."""
    for each in source:
        if isinstance(each, EgoPose):
            writer.pose(each)
        elif (written := writer.write(writer.prepare(each))).refused:
            raise SystemExit(f"refused: {written.refused}")


def floor(count: int, file: Path) -> None:
    """What no writer does without."""
    given = []
    for time_us, image, lidar, radar in sets(min(count, 8)):
        arrays = [
            lidar["reflect"] / np.float32(255),
            *(radar[name].copy() for name in ("speed", "power", "rcs")),
        ]
        for cloud in (lidar, radar):
            rays = rays_of(PointCloud(cloud, 1, len(cloud)))
            times, valid = np.full(len(rays), time_us, np.uint64), np.packbits(np.ones(len(rays), bool))
            arrays += [rays.direction, rays.distance_m, times, valid]
        given.append((image, arrays))
    began, cpu_began_s = time.perf_counter(), time.process_time()
    digest = hashlib.md5(usedforsecurity=False)
    with file.open("wb", buffering=0) as stream:
        for index in range(count):
            image, arrays = given[index % len(given)]
            for data in (image, *map(COMPRESSOR.encode, arrays)):
                digest.update(data)
                stream.write(data)
        os.fsync(stream.fileno())
    taken = {
        "write_s": time.perf_counter() - began,
        "meta_s": 0.0,
        "cpu_s": time.process_time() - cpu_began_s,
    }
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({**taken, "peak_mb": peak_mb}))


def main() -> None:
    """Write, and print times and peak memory as JSON."""
    threads, count, store, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    if not threads:
        folder.mkdir()
        floor(count, folder / "floor")
        return
    spent = 0.0
    plain = meta.write_meta

    def timed(*args: object) -> None:
        nonlocal spent
        began = time.perf_counter()
        plain(*args)  # type: ignore[arg-type]
        spent += time.perf_counter() - began

    finish.write_meta = timed  # type: ignore[attr-defined]
    source = observations(count)
    writer = NCoreWriter(folder, NCoreOptions(store=store))  # type: ignore[arg-type]
    writer.begin(SequenceInfo("benchmark", "benchmark", 0))
    began, cpu_began_s = time.perf_counter(), time.process_time()
    if threads > 1:
        write(writer, threads, source)
    else:
        write_alone(writer, source)
    writer.close()
    total = time.perf_counter() - began
    taken = {"write_s": total - spent, "meta_s": spent, "cpu_s": time.process_time() - cpu_began_s}
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({**taken, "peak_mb": peak_mb}))


if __name__ == "__main__":
    main()
