"""Radar cubes and radar settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import edgefirst_msgs

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import array, decoder_of, repeated_decoder_of
from edgefirst_ros.naming import displayed


class Axis(IntEnum):
    """Meaning of an axis of a radar cube (constants of edgefirst_msgs/RadarCube)."""

    UNDEFINED = 0
    RANGE = 1
    DOPPLER = 2
    AZIMUTH = 3
    ELEVATION = 4
    RXCHANNEL = 5
    SEQUENCE = 6


@dataclass(frozen=True, slots=True)
class RadarCube:
    """The low-level data of a radar (edgefirst_msgs/RadarCube).

    Attributes:
        cube: int16, in the shape of the message.
        layout: meaning of each axis, slowest first.
        scales: unit of each axis: metres per range bin, m/s per doppler bin, 1 for others.
        is_complex: the last axis alternates real and imaginary parts; its length is twice its number of bins.
        radar_time_us: acquisition in microseconds of the radar's own clock.
    """

    cube: npt.NDArray[np.int16]
    layout: tuple[Axis, ...]
    scales: tuple[float, ...]
    is_complex: bool
    radar_time_us: int


@dataclass(frozen=True, slots=True)
class RadarInfo:
    """Settings of a radar, as sent (edgefirst_msgs/RadarInfo); ``cube`` is whether it publishes cubes."""

    center_frequency: str
    frequency_sweep: str
    range_toggle: str
    detection_sensitivity: str
    cube: bool


_AXES = {int(axis): axis for axis in Axis}


@decoder_of("edgefirst_msgs/RadarCube")
def decode_radar_cube(message: edgefirst_msgs.RadarCube) -> RadarCube:
    """Decode an edgefirst_msgs/RadarCube with any number and order of axes.

    Unknown axis codes become UNDEFINED, missing trailing scales 1.

    Raises:
        DecodeError: no valid message of this type, or shape, layout, scales and data contradict each other.
    """
    cube = array(message.cube, np.int16)
    shape = tuple(int(bins) for bins in array(message.shape, np.uint16))
    layout = tuple(_axis(int(code)) for code in array(message.layout, np.uint8))
    scales = tuple(float(scale) for scale in array(message.scales, np.float32))
    if not cube.size:
        raise DecodeError("radar cube is empty")
    if not shape or math.prod(shape) != cube.size:
        raise DecodeError("radar cube does not have the size of its shape")
    if len(layout) != len(shape):
        raise DecodeError("radar cube's layout and shape differ in rank")
    if len(scales) > len(shape):
        raise DecodeError("radar cube has more scales than axes")
    if not all(map(math.isfinite, scales)):
        raise DecodeError("radar cube's scales are not finite")
    if message.is_complex and shape[-1] % 2:
        raise DecodeError("complex radar cube with an odd last axis")
    return RadarCube(
        cube=cube.reshape(shape),
        layout=layout,
        scales=scales + (1.0,) * (len(shape) - len(scales)),
        is_complex=bool(message.is_complex),
        radar_time_us=int(message.timestamp),
    )


@repeated_decoder_of("edgefirst_msgs/RadarInfo")
def decode_radar_info(message: edgefirst_msgs.RadarInfo) -> RadarInfo:
    """Decode an edgefirst_msgs/RadarInfo."""
    return RadarInfo(
        center_frequency=displayed(str(message.center_frequency)),
        frequency_sweep=displayed(str(message.frequency_sweep)),
        range_toggle=displayed(str(message.range_toggle)),
        detection_sensitivity=displayed(str(message.detection_sensitivity)),
        cube=bool(message.cube),
    )


def _axis(code: int) -> Axis:
    return _AXES.get(code, Axis.UNDEFINED)
