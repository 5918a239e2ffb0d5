"""A rig as NVIDIA's own reader places it, against the truth of the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pymap3d
from oracle import run_ncore

from edgefirst_ros.simulation import Truth

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


def off_px(official: dict[str, Any], truth: Truth, camera: str, lidar: str, every: int = 1) -> Floats:
    """By how much a lidar's points are off in a camera's pictures (N,), of those that it has before it."""
    times_us, T_world = official[f"{camera}/times_us"], official[f"{camera}/T_world"]
    off = [np.empty(0)]
    for number in range(0, len(official[f"{lidar}/times_us"]), every):
        apart_us = np.abs(times_us - official[f"{lidar}/times_us"][number])
        at, points = int(apart_us.argmin()), official[f"{lidar}/{number}"]
        T = np.linalg.inv(T_world[at])
        optical = points @ T[:3, :3].T + T[:3, 3]
        true, depth = truth.project(enu(official, truth, points), int(times_us[at]) * 1000, camera)
        shown = (true >= 0).all(axis=1) & (true < official[f"{camera}/resolution"]).all(axis=1)
        seen = shown & (depth > 1) & (apart_us[at] < 100_000)
        off.append(np.linalg.norm(pixels(official, camera, optical[seen]) - true[seen], axis=1))
    return np.concatenate(off)


def worst_px(official: dict[str, Any], truth: Truth, every: int = 1) -> dict[tuple[str, str], float]:
    """Root mean square by camera and lidar, of those that see the same."""
    pairs = [(f"{camera}", f"{lidar}") for camera in official["cameras"] for lidar in official["lidars"]]
    found = {pair: off_px(official, truth, *pair, every) for pair in pairs}
    return {pair: float(np.sqrt((off**2).mean())) for pair, off in found.items() if len(off) > 50}


def off_surfaces_m(official: dict[str, Any], truth: Truth, sensor: str) -> Floats:
    """How far the points of a lidar or radar are from what is there (N,)."""
    points = [
        (official[f"{sensor}/{n}"], int(t) * 1000) for n, t in enumerate(official[f"{sensor}/times_us"])
    ]
    off = [
        truth.surface_distance(enu(official, truth, each), time_ns)[0]
        for each, time_ns in points
        if len(each)
    ]
    return np.concatenate([np.empty(0), *off])
