"""Clocks and latencies: another clock's offset, topics that die, and masks that carry no stamp."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from scenarios import Figure, at_least, at_most, driven, exactly, scenario, seconds, told

from edgefirst_ros.formats.zarr2.array import read_array
from edgefirst_ros.simulation import DriveOptions, Truth
from edgefirst_ros.simulation.lidar import Lidar
from edgefirst_ros.simulation.options import Latency
from edgefirst_ros.simulation.world import transform

RARE = {"cube_hz": 0.0, "gps_hz": 2.0, "model_hz": 5.0}
MASKS = {"masks": True, "mask_size": (96, 54), "lidar_hz": 0.0, "radar_hz": 0.0, "gps_hz": 1.0, "fps": 30}
LABELS = {"ncore": {"labels_at_camera_size": False}}


def stored(folder: Path, what: str) -> dict[str, bytes]:
    """The records of NCore stores with this in their name."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob(f"*{what}*.itar")):
        with tarfile.open(path, "r:") as archive:
            for member in archive.getmembers():
                file = archive.extractfile(member)
                found[member.name] = b"" if file is None else file.read()
    return found


def lidar_px(folder: Path, truth: Truth) -> float:
    """RMS distance in the nearest picture of points placed by their written time from where they are."""
    records = stored(folder, "-lidar")
    (key,) = (k for k in records if k.startswith("lidars/") and k.endswith("/frames/.zattrs"))
    written_ns = np.array(json.loads(records[key])["frames_timestamps_us"])[:, -1] * 1000
    sweeps_ns, pictures_ns = truth.true_ns("/lidar/points"), truth.true_ns("/camera/h264")
    lidar = Lidar(truth.world, DriveOptions(lidar_points=2048))
    width, height = truth.world.camera.width, truth.world.camera.height
    squares = []
    for time_ns in written_ns:
        true_ns = int(sweeps_ns[np.abs(sweeps_ns - time_ns).argmin()])
        shown_ns = int(pictures_ns[np.abs(pictures_ns - true_ns).argmin()])
        points = lidar.sweep(truth.seconds(true_ns), 0, np.random.default_rng(0)).points
        xyz = np.stack([points[axis] for axis in "xyz"], axis=1).astype(np.float64)
        there, depth_m = truth.project(transform(truth.sensor("lidar", true_ns), xyz), shown_ns)
        placed, _ = truth.project(transform(truth.sensor("lidar", int(time_ns)), xyz), shown_ns)
        inside = (depth_m > 2) & np.all((there > 0) & (there < (width, height)), axis=1)
        squares.append(((placed - there)[inside] ** 2).sum(axis=1))
    return float(np.sqrt(np.concatenate(squares).mean()))


def offset(report: dict[str, Any], truth: Truth, topic: str = "/lidar/points") -> tuple[float, float]:
    """Error of the offset of a topic's clock, and its stated uncertainty, in ms."""
    clock = report["sequences"][0]["clocks"][topic]
    off_ns = clock["offset_ns"] - truth.data["realtime_minus_monotonic_ns"]
    return off_ns / 1e6, clock["uncertainty_ns"] / 1e6


@scenario(
    "clock offset", "lidar to camera < 0.5 px RMS at 1280 x 720 without options, and the uncertainty holds"
)
def clock_offset(folder: Path) -> Iterator[Figure]:
    """The usual latencies; an IMU of another latency; no IMU at all."""
    drives: list[tuple[str, dict[str, Any]]] = [
        ("usual", {}),
        ("imu 1 ms", {"latency": Latency(imu=1.0)}),
        ("imu 5 ms", {"latency": Latency(imu=5.0)}),
        ("no imu", {"imu_hz": 0.0}),
        ("lidar alone, 80 ms", {"imu_hz": 0.0, "radar_hz": 0.0, "latency": Latency(lidar=80.0)}),
    ]
    for name, options in drives:
        size = {"width": 1280, "height": 720, "fps": 10, "lidar_points": 640}
        done, truth = driven(folder / name, ("ncore",), seconds=seconds(5), **(RARE | size | options))
        error_ms, sure_ms = offset(done.report, truth)
        px = lidar_px(folder / name / "out", truth)
        yield (
            at_most(f"{name}: lidar to camera", px, 0.5, "px")
            if name in {"usual", "no imu"}
            else told(f"{name}: lidar to camera", px, "px")
        )
        yield at_most(f"{name}: offset off by", abs(error_ms), sure_ms + 0.05, "ms")


@scenario("dead topics", "sensors that die move no clock: one sequence, no jump")
def dead_topics(folder: Path) -> Iterator[Figure]:
    """Radar and IMU die, then the camera does; a drive of a minute and more."""
    tiny = {"width": 192, "height": 108, "fps": 10, "lidar_points": 320, "imu_hz": 100.0, **RARE}
    end_s = seconds(70)
    cases = {
        "radar and imu": {"radar": ((end_s * 0.3, end_s),), "imu": ((end_s * 0.35, end_s),)},
        "camera": {"camera": ((end_s * 0.4, end_s),)},
    }
    for name, silent in cases.items():
        values = {"reference": "lidar_points"}
        done, truth = driven(folder / name, ("ncore",), values, seconds=end_s, silent=silent, **tiny)
        yield exactly(f"{name} die: sequences", len(done.report["sequences"]), 1)
        yield at_most(f"{name} die: offset off by", abs(offset(done.report, truth)[0]), 0.5, "ms")


@scenario("masks", "a mask is of exactly the picture it is written with: IoU 1.0")
def masks(folder: Path) -> Iterator[Figure]:
    """Labels of NCore against the truth of the picture at their time."""
    end_s = seconds(8)
    cases: dict[str, dict[str, Any]] = {
        "half the camera's rate": {},
        "every picture": {"model_hz": 30.0},
        "no model/output": {"silent": {"model/output": ((0.0, end_s),)}},
        "silences": {"silent": {"model/mask": ((2.0, 3.0), (5.0, 5.4))}},
        "twice the jitter": {"jitter": {"model/mask": 2.0, "model/output": 2.0}},
    }
    for name, options in cases.items():
        small = {**MASKS, "width": 192, "height": 108}
        done, truth = driven(folder / name, ("ncore",), LABELS, seconds=end_s, **(small | options))
        ious = list(mask_ious(folder / name / "out", truth))
        yield at_least(f"{name}: least IoU", min(ious, default=0.0), 1.0)
        yield at_least(f"{name}: written", len(ious) / done.report["topics"]["/model/mask"]["received"], 0.9)


def mask_ious(folder: Path, truth: Truth) -> Iterator[float]:
    """By label, the share of pixels of either that agree."""
    records = stored(folder, "segmentation")
    pictures_ns = truth.true_ns("/camera/h264")
    for key in (k.removesuffix("/data/.zarray") for k in records if k.endswith("/data/.zarray")):
        png = read_array(records.__getitem__, f"{key}/data").tobytes()
        classes: npt.NDArray[np.uint8] = np.asarray(Image.open(io.BytesIO(png)))
        label_ns = int(key.rpartition("/")[2]) * 1000
        shown_ns = int(pictures_ns[np.abs(pictures_ns - label_ns).argmin()])
        true = truth.mask(shown_ns, (classes.shape[1], classes.shape[0]))
        either = (true > 0) | (classes > 0)
        yield float((true == classes)[either].mean()) if either.any() else 1.0
