"""Radar cubes and radar settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Axis(IntEnum):
    """Meaning of a cube's axis (edgefirst_msgs/RadarCube constants)."""

    UNDEFINED = 0
    RANGE = 1
    DOPPLER = 2
    AZIMUTH = 3
    ELEVATION = 4
    RXCHANNEL = 5
    SEQUENCE = 6


@dataclass(frozen=True, slots=True)
class RadarCube:
    """The radar's low-level tensor (edgefirst_msgs/RadarCube).

    ``cube`` is int16 of the wire's shape; if ``is_complex`` the last axis interleaves (re, im), so
    its length is twice the number of bins. ``scales`` are per axis: metres a range bin, m/s a
    doppler bin, else 1. ``radar_time_us`` is of the radar's own clock.
    """

    cube: npt.NDArray[np.int16]
    layout: tuple[Axis, ...]
    scales: tuple[float, ...]
    is_complex: bool
    radar_time_us: int


@dataclass(frozen=True, slots=True)
class RadarInfo:
    """Radar settings in force (edgefirst_msgs/RadarInfo)."""

    center_frequency: str
    frequency_sweep: str
    range_toggle: str
    detection_sensitivity: str
    cube: bool
