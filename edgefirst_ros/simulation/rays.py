"""Ray casting for lidar, radar and visibility."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from edgefirst_ros.simulation.world import FloatArray, World, transform

NOTHING = -2
GROUND = -1


def cast(
    world: World, time_s: float, origin_m: FloatArray, directions: FloatArray, reach_m: float
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """First hits of rays from one point (3,) outside all boxes along unit directions (N, 3) of the world.

    Returns:
        Distances (N,) in metres, infinite where nothing is hit, and what was hit (N,): a box's index,
        GROUND or NOTHING.
    """
    distance = np.full(len(directions), np.inf)
    hit = np.full(len(directions), NOTHING)
    with np.errstate(divide="ignore"):
        to_ground = -origin_m[2] / directions[:, 2]
    down = (to_ground > 0) & (to_ground <= reach_m)
    distance[down], hit[down] = to_ground[down], GROUND
    for index, box in enumerate(world.boxes):
        state = box.motion.state(time_s)
        half_m = np.array(box.size_m) / 2
        arm = transform(state.matrix(), half_m * [0, 0, 1]) - origin_m
        away_m, radius_m = math.hypot(*arm), math.hypot(*half_m)
        if away_m > reach_m + radius_m:
            continue
        # Most rays miss the box by far: test only those through its bounding sphere.
        least = math.sqrt(away_m**2 - radius_m**2) if away_m > radius_m else -math.inf
        toward = np.flatnonzero(directions @ arm >= least)
        if not len(toward):
            continue
        start, along = -arm @ state.rotation(), directions[toward] @ state.rotation()
        with np.errstate(divide="ignore", invalid="ignore"):
            slabs = (-half_m - start) / along, (half_m - start) / along
        # Where a ray lies in a side's plane, 0 / 0 says nothing of that side: fmax and fmin leave it out.
        near = np.fmax.reduce(np.minimum(*slabs), axis=1)
        far = np.fmin.reduce(np.maximum(*slabs), axis=1)
        first = (near <= far) & (near > 0) & (near <= reach_m) & (near < distance[toward])
        distance[toward[first]], hit[toward[first]] = near[first], index
    return distance, hit


def sees(
    world: World, time_s: float, eye_m: FloatArray, points_m: FloatArray, slack_m: float = 0.02
) -> npt.NDArray[np.bool_]:
    """Which points (N, 3) on or in an object are not hidden from the eye (3,) by another surface."""
    arms = points_m - eye_m
    away = np.linalg.norm(arms, axis=1)
    distance, _ = cast(world, time_s, eye_m, arms / away[:, None], math.inf)
    clear: npt.NDArray[np.bool_] = distance >= away - slack_m
    return clear
