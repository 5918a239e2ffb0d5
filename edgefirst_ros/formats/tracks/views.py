"""Objects that several cameras see: what their detections have in common."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.tracks.sizes import Kind

Floats = npt.NDArray[np.float64]

_LEAST_M = 1.0
_SHARE = 0.05
HANDOVER_NS = 1_000_000_000
"""What one camera has not seen for longer, another one's track does not continue: where it went, nobody saw."""
SURE = 3
"""Detections in succession that fit before tracks are one: one may fit by chance. At 10 Hz that is less than
frames wait for what follows them."""
_FAMILIES = (
    {Kind.CAR, Kind.VAN, Kind.TRAM, Kind.BUS, Kind.TRUCK, Kind.EMERGENCY_VEHICLE, Kind.OTHER_VEHICLE},
    {Kind.BICYCLE, Kind.MOTORCYCLE, Kind.CYCLIST, Kind.MOTORCYCLIST},
)


def fit_m(width_m: Floats, away_m: Floats) -> Floats:
    """How far apart (N,) two cameras' detections of one object may be, of its width and its distance (N,).

    Two of a kind are not nearer to each other than one is wide. Detectors' distances are good to some 5 %, and
    times, mounts and what is seen of it from two sides make up to 1 m.
    """
    found: Floats = np.maximum(np.maximum(width_m, _LEAST_M), _SHARE * away_m)
    return found


def may_be_one(kind: Kind, other: Kind) -> bool:
    """Whether two cameras may see the same object as these: a van passes for a truck, but not for a person."""
    if kind is other or Kind.UNKNOWN in {kind, other}:
        return True
    return any(kind in family and other in family for family in _FAMILIES)
