"""Objects that several cameras see: what their detections have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.tracks.sizes import Kind

Floats = npt.NDArray[np.float64]

_LEAST_M = 1.0
_SHARE = 0.05
HANDOVER_NS = 1_000_000_000
"""A track that was not seen for longer is not continued by another camera's: nobody saw where it went."""
SURE = 3
"""So many detections must fit before tracks are one, or be apart before they are two: one may be off."""
_FAMILIES = (
    {Kind.CAR, Kind.VAN, Kind.TRAM, Kind.BUS, Kind.TRUCK, Kind.EMERGENCY_VEHICLE, Kind.OTHER_VEHICLE},
    {Kind.BICYCLE, Kind.MOTORCYCLE, Kind.CYCLIST, Kind.MOTORCYCLIST},
)


def fit_m(width_m: Floats, away_m: Floats) -> Floats:
    """How far apart (N,) two cameras' detections of an object of this width and distance (N,) may be.

    Two of a kind are not nearer to each other than one is wide. Detectors' distances are good to some 5 %,
    and times, mounts and what is seen of it from two sides make up to 1 m.
    """
    found: Floats = np.maximum(np.maximum(width_m, _LEAST_M), _SHARE * away_m)
    return found


Seconds = TypeVar("Seconds", float, Floats)


def unseen_m(seconds: Seconds) -> Seconds:
    """How far an object gets from where it would go as it did, unseen: at 2 m/s² in any direction."""
    return seconds**2


Seen = tuple[int, float, float]
"""Of a track: its camera, and the times of its first and last detection."""


def are_two(ones: Sequence[Seen], others: Sequence[Seen]) -> bool:
    """Whether some camera saw both objects at one time, each of which several tracks are of."""
    return any(
        view == other_view and last >= other_first and other_last >= first
        for view, first, last in ones
        for other_view, other_first, other_last in others
    )


def may_be_one(kind: Kind, other: Kind) -> bool:
    """Whether two cameras may see one object as these: a van passes for a truck, but not for a person."""
    if kind is other or Kind.UNKNOWN in {kind, other}:
        return True
    return any(kind in family and other in family for family in _FAMILIES)
