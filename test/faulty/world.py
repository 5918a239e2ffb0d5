"""Motion of which simulated drives have none: a rig that its road rocks, and vehicles that cross it."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from edgefirst_ros.model.transform import matrix_of, quaternion_of_angles
from edgefirst_ros.simulation.world import (
    CRUISE_M_S,
    BodyState,
    Circuit,
    FloatArray,
    Move,
    World,
    driven,
    scene,
    transform,
)
from faulty.options import FaultyOptions

CROSSING_AHEAD_M = 18.0
CROSSING = (("bus", (10.5, 2.5, 3.2)), ("car", (4.4, 1.8, 1.5)), ("truck", (7.5, 2.4, 3.0)))
ROCKS = ((0.9, 0.3), (1.3, 2.0), (1.9, 4.4), (2.8, 1.1), (4.1, 5.2))
"""Hz and phase of what a road makes a car do, in no ratio that repeats within a drive's beginning."""


@dataclass(frozen=True)
class Tilted(BodyState):
    """A body that is not upright."""

    tilt_rad: tuple[float, float] = (0.0, 0.0)
    """Roll and pitch, applied about x after y after z; tilt_rate_rad_s are their changes."""
    tilt_rate_rad_s: tuple[float, float] = (0.0, 0.0)

    def quaternion_xyzw(self) -> tuple[float, float, float, float]:
        if not any(self.tilt_rad):
            return super().quaternion_xyzw()
        x, y, z, w = quaternion_of_angles((*self.tilt_rad, self.yaw_rad)).tolist()
        return x, y, z, w

    def turning_rad_s(self) -> tuple[float, float, float]:
        (roll, pitch), (rolling, pitching) = self.tilt_rad, self.tilt_rate_rad_s
        level = self.yaw_rate_rad_s * math.cos(pitch)
        return (
            rolling - self.yaw_rate_rad_s * math.sin(pitch),
            pitching * math.cos(roll) + level * math.sin(roll),
            level * math.cos(roll) - pitching * math.sin(roll),
        )

    def rotation(self) -> FloatArray:
        return matrix_of(self.quaternion_xyzw()) if any(self.tilt_rad) else super().rotation()

    def velocity_at(self, points_m: FloatArray) -> FloatArray:
        if not any(self.tilt_rad):
            return super().velocity_at(points_m)
        arm = points_m - self.position_m
        moving: FloatArray = self.velocity_m_s + np.cross(self.rotation() @ self.turning_rad_s(), arm)
        return moving


@dataclass(frozen=True)
class Rocked(Circuit):
    """A rig that the road rocks while it drives, at this rate in roll and in pitch."""

    rocking_rad_s: float = 0.0
    is_level: ClassVar[bool] = False

    def computed(self, time_s: float) -> BodyState:
        state, (_, share, change_1_s) = super().computed(time_s), driven(time_s, self.stops)
        tilts, rates = [], []
        for slower in (1.0, 1.1):
            waves = [(2 * math.pi * hz / slower, phase * slower) for hz, phase in ROCKS]
            swung = sum(self.rocking_rad_s / wave * math.sin(wave * time_s + phase) for wave, phase in waves)
            rate = sum(self.rocking_rad_s * math.cos(wave * time_s + phase) for wave, phase in waves)
            tilts.append(share * swung)
            rates.append(share * rate + change_1_s * swung)
        return Tilted(**vars(state), tilt_rad=(tilts[0], tilts[1]), tilt_rate_rad_s=(rates[0], rates[1]))


@dataclass(frozen=True)
class Line:
    """Straight motion at constant speed from ``start_m`` at time 0."""

    start_m: tuple[float, float]
    heading_rad: float
    speed_m_s: float

    def state(self, time_s: float) -> BodyState:
        return _along(self, time_s)


@lru_cache(maxsize=256)  # sensors ask for the same bodies at the same times
def _along(line: Line, time_s: float) -> BodyState:
    velocity = line.speed_m_s * cmath.exp(1j * line.heading_rad)
    at = complex(*line.start_m) + velocity * time_s
    place, way = (np.array([each.real, each.imag, 0.0]) for each in (at, velocity))
    return BodyState(place, way, np.zeros(3), line.heading_rad, 0.0)


def changed(world: World, options: FaultyOptions) -> World:
    """The world with what the options say of its traffic, its walkers and its road."""
    rig, boxes, until_s = world.rig, world.boxes, options.walkers_stand_s
    if options.traffic != "lanes":
        parked = boxes[-2:] if options.traffic != "none" else ()
        moves: list[Move] = [(box.label, box.size_m, box.motion) for box in parked]
        if options.traffic == "crossing":
            moves += _crossings(rig, options.crossings_s)
        boxes = scene(options.seed, moves)
    if until_s:
        boxes = tuple(
            replace(box, motion=replace(box.motion, stops=((0.0, until_s),)))
            if box.label == "person" and isinstance(box.motion, Circuit)
            else box
            for box in boxes
        )
    if options.rocking_rad_s:
        rig = Rocked(**vars(rig), rocking_rad_s=options.rocking_rad_s)
    return replace(world, rig=rig, boxes=boxes)


def _crossings(rig: Circuit, times_s: Sequence[float]) -> list[Move]:
    """Vehicles at a right angle to the rig's heading, 18 m ahead of it at these times."""
    moves: list[Move] = []
    for number, time_s in enumerate(times_s):
        state = rig.state(time_s)
        x, y, _ = transform(state.matrix(), np.array([CROSSING_AHEAD_M, 0.0, 0.0])).tolist()
        heading = state.yaw_rad + (1 if number % 2 else -1) * math.pi / 2
        before = complex(x, y) - CRUISE_M_S * time_s * cmath.exp(1j * heading)
        line = Line((before.real, before.imag), heading, CRUISE_M_S)
        moves.append((*CROSSING[number % len(CROSSING)], line))
    return moves
