"""A rig as NVIDIA's own reader places it, against the truth of the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d
from faulty import Truth
from oracle import run_ncore

Floats = npt.NDArray[np.float64]


def read_officially(sequence: Path, out: Path) -> dict[str, Any]:
    """Times and poses of all sensors of an NCore sequence's folder, intrinsics, and points in the world."""
    script = Path(__file__).resolve().parent / "oracles" / "ncore_rig.py"
    done = run_ncore(script, sequence / f"{sequence.name}.json", out)
    assert done.returncode == 0, done.stderr
    with np.load(out) as found:
        return dict(found)


def enu(official: dict[str, Any], truth: Truth, points_m: Floats) -> Floats:
    """Points of NCore's world in the simulation's."""
    T_world_global = official["T_world_global"]
    origin = (truth.world.latitude_deg, truth.world.longitude_deg, truth.world.altitude_m)
    ecef = points_m @ T_world_global[:3, :3].T + T_world_global[:3, 3]
    return np.stack(pymap3d.ecef2enu(*ecef.T, *origin), axis=1)


def pixels(official: dict[str, Any], camera: str, optical_m: Floats) -> Floats:
    """Where a camera sees points (N, 3), by the formulas that NCore names; whole numbers are centres."""
    plane = optical_m[:, :2] / optical_m[:, 2:]
    if official[f"{camera}/is_fisheye"]:
        aside = np.linalg.norm(optical_m[:, :2], axis=1)
        angle = np.arctan2(aside, optical_m[:, 2])
        bends = enumerate(official[f"{camera}/radial_coeffs"], start=1)
        plane = (
            optical_m[:, :2] * ((angle + sum(k * angle ** (2 * n + 1) for n, k in bends)) / aside)[:, None]
        )
    focal, centre = official[f"{camera}/focal_length"], official[f"{camera}/principal_point"]
    found: Floats = focal * plane + centre - 0.5
    return found


def true_ns(official: dict[str, Any], truth: Truth, sensor: str) -> npt.NDArray[np.int64]:
    """When the frames of a rig's sensor were taken (N,); the device's own have their true times.

    Of others what has no pose yet is missing at the begin.
    """
    times_us = official[f"{sensor}/times_us"]
    topics = [each["topic"] for each in truth.data["parameters"]["more"] if each["frame"] == sensor]
    return truth.true_ns(f"/{topics[0]}")[-len(times_us) :] if topics else times_us * 1000


def off_px(official: dict[str, Any], truth: Truth, camera: str, lidar: str, every: int = 1) -> Floats:
    """By how much a lidar's points are off in a camera's pictures (N,), of those that it has before it.

    The truth is where both were when they were taken, whatever time they are given.
    """
    taken_ns, swept_ns = (true_ns(official, truth, name) for name in (camera, lidar))
    off = [np.empty(0)]
    for number in range(0, len(swept_ns), every):
        apart_ns = np.abs(taken_ns - swept_ns[number])
        at, points = int(apart_ns.argmin()), official[f"{lidar}/{number}"]
        T = np.linalg.inv(official[f"{camera}/T_world"][at])
        optical = points @ T[:3, :3].T + T[:3, 3]
        T = np.linalg.inv(official[f"{lidar}/T_world"][number])
        local = points @ T[:3, :3].T + T[:3, 3]
        T = truth.sensor(lidar, int(swept_ns[number]))
        true, depth = truth.project(local @ T[:3, :3].T + T[:3, 3], int(taken_ns[at]), camera)
        shown = (true >= 0).all(axis=1) & (true < official[f"{camera}/resolution"]).all(axis=1)
        seen = shown & (depth > 1) & (apart_ns[at] < 100_000_000)
        off.append(np.linalg.norm(pixels(official, camera, optical[seen]) - true[seen], axis=1))
    return np.concatenate(off)


def worst_px(official: dict[str, Any], truth: Truth, every: int = 1) -> dict[tuple[str, str], float]:
    """Root mean square by camera and lidar, of those that see the same."""
    pairs = [(f"{camera}", f"{lidar}") for camera in official["cameras"] for lidar in official["lidars"]]
    found = {pair: off_px(official, truth, *pair, every) for pair in pairs}
    return {pair: float(np.sqrt((off**2).mean())) for pair, off in found.items() if len(off) > 50}


def off_ms(report: dict[str, Any], truth: Truth) -> dict[str, float]:
    """By topic how much later than it was the first thing that it tells is dated, in the one sequence."""
    (sequence,) = report["sequences"]
    messages = truth.data["messages"]
    return {
        topic: (messages[topic][0][1] + clock["offset_ns"] - messages[topic][0][0]) / 1e6
        for topic, clock in sequence["clocks"].items()
        if clock["source"] == "stamp"
    }


def off_surfaces_m(official: dict[str, Any], truth: Truth, sensor: str) -> Floats:
    """How far the points of a lidar or radar are from what was there when it saw them (N,)."""
    points = [(official[f"{sensor}/{n}"], int(t)) for n, t in enumerate(true_ns(official, truth, sensor))]
    off = [
        truth.surface_distance(enu(official, truth, each), time_ns)[0]
        for each, time_ns in points
        if len(each)
    ]
    return np.concatenate([np.empty(0), *off])
