"""Live sessions that are split: what is lost at the seam, how full the queue gets, how poses go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from faults import GpsErrors, Truth
from scenarios import Figure, at_most, exactly, scenario, seconds, simulated, told
from truth_ego import KNOWN, MEMS, NAVIGATION, PathOff, path_of

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.session import Finished
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.mcap import McapRecording

AFTER_S = 5.0


def captured(
    folder: Path,
    messages: Sequence[RawMessage],
    split_at: Sequence[int] = (),
    *,
    pace: float = 0.0,
    formats: Sequence[str] = ("ncore",),
) -> tuple[list[Finished], float]:
    """Sessions, and the fullest that the queue was; at so many times real time, 0 as fast as it goes."""
    one = LiveCapture(build_config({"min_free_mb": 0, "formats": formats}), folder, "live")
    one.start("live")
    start_s, fullest, places = time.monotonic(), 0.0, set(split_at)
    for number, message in enumerate(messages):
        if number in places:
            one.split()
        if pace:
            due_s = start_s + (message.receive_ns - messages[0].receive_ns) / 1e9 / pace
            threading.Event().wait(max(0.0, due_s - time.monotonic()))
        one.put(message)
        fullest = max(fullest, one.status().queue_fill) if pace and number % 20 == 0 else fullest
    return one.stop(600), fullest


def rms_after(path: PathOff, part: str, seam_s: float) -> float:
    """Of the first seconds after a seam."""
    values, basis = (path.off_m, path.position) if part == "position" else (path.turned_deg, path.rotation)
    chosen = (path.time_s >= seam_s) & (path.time_s < seam_s + AFTER_S) & np.isin(basis, KNOWN)
    return float(np.sqrt(np.mean(values[chosen] ** 2)))


def path(session: Finished, truth: Truth) -> PathOff:
    """Of its NCore sequence."""
    return path_of(next(p for p in session.paths if p.parent.parent.name == "ncore"), truth)


@scenario("live seam", "poses after a split are as good as without one, and better than begun anew")
def seam(folder: Path) -> Iterator[Figure]:
    """A cheap receiver and a cheap IMU without orientation, split in the middle of 40 s."""
    options = NAVIGATION | {"gps": GpsErrors(sigma_m=(0.5, 1.0)), "imu": MEMS}
    made = simulated(folder / "drive", seconds=seconds(40.0), **options)
    truth = Truth.read(made.truth)
    messages = list(McapRecording(made.mcap).messages())
    middle = len(messages) // 2
    (whole,), _ = captured(folder / "whole", messages)
    (_, second), _ = captured(folder / "parts", messages, [middle])
    (anew,), _ = captured(folder / "anew", messages[middle:])
    split, begun, one = path(second, truth), path(anew, truth), path(whole, truth)
    seam_s = float(split.time_s[0])
    for part, unit in (("position", "m"), ("rotation", "°")):
        unsplit = rms_after(one, part, seam_s)
        name = f"{part} RMS in the {AFTER_S:g} s after it"
        yield at_most(name, rms_after(split, part, seam_s), 1.02 * unsplit + 1e-3, unit)
        yield told(f"{name}: without a split", unsplit, unit)
        yield told(f"{name}: begun anew", rms_after(begun, part, seam_s), unit)


@scenario("live load", "three formats at real time, split every 5 s: nothing is dropped or lost")
def load(folder: Path) -> Iterator[Figure]:
    """Small pictures; what counts is what finishing a session does to the queue."""
    made = simulated(
        folder / "drive",
        seconds=seconds(20.0),
        fps=10,
        width=640,
        height=360,
        lidar_points=4000,
        imu_hz=200.0,
    )
    messages = list(McapRecording(made.mcap).messages())
    places = [len(messages) * n // 4 for n in (1, 2, 3)]
    formats = ("edgefirst", "ncore", "l5kit")
    (whole,), _ = captured(folder / "whole", messages, formats=formats)
    parts, fullest = captured(folder / "parts", messages, places, pace=1.0, formats=formats)
    yield exactly("sessions", len(parts), 4)
    yield exactly("messages dropped", sum(p.report["totals"]["dropped"] for p in parts), 0)
    yield exactly("messages", sum(p.report["totals"]["received"] for p in parts), len(messages))
    yield exactly("samples", sum(p.report["samples"] for p in parts), whole.report["samples"])
    yield told("queue at its fullest", 100 * fullest, "%")
