"""Radar measurements of the world."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from edgefirst_ros.simulation import rays
from edgefirst_ros.simulation.world import World, transform

Points = npt.NDArray[np.void]

RADAR_REACH_M = 90.0
RADAR_HALF_VIEW_RAD = math.radians(60)
RADAR_DTYPE = np.dtype([(name, "<f4") for name in ("x", "y", "z", "speed", "power", "rcs")])
RANGE_BIN_M = 0.5
DOPPLER_BIN_M_S = 0.3
CUBE_NOISE = 20
RCS_DBSM = {"person": -5.0, "bicycle": 0.0, "car": 10.0, "bus": 18.0, "truck": 18.0}
RETURNS = {"person": 3, "bicycle": 4, "car": 8, "bus": 12, "truck": 12}


def radar_scan(world: World, time_s: float, rng: np.random.Generator) -> Points:
    """Returns of RADAR_DTYPE in the radar frame, from the sides of boxes that face it within ±60° and 90 m.

    ``speed`` is that of the surface relative to the moving radar along the line of sight, m/s, positive =
    receding, not compensated for the vehicle's own motion; ``power`` dB, ``rcs`` dBsm.
    """
    T_radar_world = world.sensor("radar", time_s)
    eye = T_radar_world[:3, 3]
    own_velocity = world.rig.state(time_s).velocity_at(eye[None])[0]
    aimed = []
    for index, box in enumerate(world.boxes):
        state = box.motion.state(time_s)
        aims = (rng.uniform(-0.45, 0.45, (RETURNS[box.label], 3)) + np.array([0, 0, 0.5])) * box.size_m
        rcs = RCS_DBSM[box.label] + rng.normal(0, 1.5, len(aims))
        arms = transform(state.matrix(), aims) - eye
        if np.linalg.norm(arms, axis=1).min() > RADAR_REACH_M + box.size_m[0]:
            continue
        directions = arms / np.linalg.norm(arms, axis=1, keepdims=True)
        local = directions @ T_radar_world[:3, :3]
        in_view = np.abs(np.arctan2(local[:, 1], local[:, 0])) <= RADAR_HALF_VIEW_RAD
        aimed += [(index, state, directions[i], local[i], rcs[i]) for i in np.flatnonzero(in_view)]
    if not aimed:
        return np.zeros(0, RADAR_DTYPE)
    distances, hits = rays.cast(world, time_s, eye, np.array([ray[2] for ray in aimed]), RADAR_REACH_M)
    returns = []
    for (index, state, direction, local, rcs), distance, hit in zip(aimed, distances, hits, strict=True):
        if hit == index:
            speed = (state.velocity_at((eye + direction * distance)[None])[0] - own_velocity) @ direction
            power = 60 + rcs - 40 * math.log10(distance / 10)
            returns.append((*(local * distance), speed, power, rcs))
    return np.array(returns, RADAR_DTYPE)


def radar_cube(
    scan: Points, shape: tuple[int, int, int, int], rng: np.random.Generator
) -> npt.NDArray[np.int16]:
    """The cube of a scan, int16 [sequence, range, rx, 2·doppler]: noise, and one bin for each return.

    Range bin r is centred on r·0.5 m, doppler bin d on (d - bins / 2)·0.3 m/s and folds over beyond them;
    the phase advances by π·sin(azimuth) a receiver. Where returns share a bin the strongest stays.
    """
    sequences, ranges, receivers, dopplers = shape
    cube = rng.integers(-CUBE_NOISE, CUBE_NOISE, (*shape, 2), np.int16, endpoint=True)
    for x, y, z, speed, power, _ in np.sort(scan, order="power").tolist():
        away = math.hypot(x, y, z)
        row = round(away / RANGE_BIN_M)
        column = (round(speed / DOPPLER_BIN_M_S) + dopplers // 2) % dopplers
        if row < ranges:
            level = min(max(10 ** (power / 20), 300.0), 20_000.0)
            phase = math.pi * y / away * np.arange(receivers)
            cube[:, row, :, column] = np.rint(level * np.stack([np.cos(phase), np.sin(phase)], axis=-1))
    return cube.reshape(sequences, ranges, receivers, 2 * dopplers)
