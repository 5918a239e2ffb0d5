"""Detections placed in the rig's frame, before tracks give them motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.geometry import Floats
from edgefirst_ros.formats.l5kit.store.schema import LABELS

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
CLUSTER_KEYS = 1 << 32
"""Keys from here on are of clusters; the device reuses their numbers."""


def track_key(name: str) -> int:
    """The 32-bit key of a track's name: its FNV-1a hash, as the device's fusion computes it; 0 is no track.

    Source: ``track_id`` of fusion/radar and fusion/lidar, which is this hash of the model box's track id.
    """
    if not name:
        return 0
    value = _FNV_OFFSET
    for byte in name.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFF_FFFF
    return value or 1


@dataclass(frozen=True, slots=True)
class PlacedDetections:
    """N detections in the rig's frame (x forward, y left, z up).

    Attributes:
        place_m: (N, 2), the object's centre, metres.
        bearing_rad: (N,), direction away from the sensor; ``lateral_m`` is measured across it.
        lateral_m: (N,), extent seen across the bearing.
        depth_m: (N,), extent along the bearing; NaN where the sensor cannot tell.
        height_m: (N,).
        key: (N,) int64: ``track_key``, or CLUSTER_KEYS and a cluster's number, or 0 for no track.
        label: (N, 17) float32 probabilities.
        typical_m: (N, 2), typical length and width of its class.
        source: (N,) int64, which of the options' sources it is of, best first.
        time_ns: (N,) int64, when it was seen.
    """

    place_m: Floats
    bearing_rad: Floats
    lateral_m: Floats
    depth_m: Floats
    height_m: Floats
    key: npt.NDArray[np.int64]
    label: npt.NDArray[np.float32]
    typical_m: Floats
    source: npt.NDArray[np.int64]
    time_ns: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    def taken(self, index: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> PlacedDetections:
        """The rows that ``index`` selects."""
        return PlacedDetections(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def none(cls) -> PlacedDetections:
        """No detections."""
        plain, pairs = np.zeros(0), np.zeros((0, 2))
        labels = np.zeros((0, len(LABELS)), np.float32)
        whole = np.zeros(0, np.int64)
        return cls(pairs, plain, plain, plain, plain, whole, labels, pairs, whole, whole)

    def of(self, source: int, time_ns: int) -> PlacedDetections:
        """A copy with this source and time in every row."""
        count = len(self)
        return replace(self, source=np.full(count, source), time_ns=np.full(count, time_ns))

    @classmethod
    def joined(cls, parts: Sequence[PlacedDetections]) -> PlacedDetections:
        """All rows of all parts, in their order; at least one part."""
        return cls(*(np.concatenate([getattr(p, field.name) for p in parts]) for field in fields(cls)))


def repeats(candidates: PlacedDetections) -> npt.NDArray[np.bool_]:
    """Which rows (N,) repeat the track of an earlier row."""
    again: npt.NDArray[np.bool_] = np.asarray(candidates.key != 0)
    again[np.unique(candidates.key, return_index=True)[1]] = False
    return again


def shown_by(best: PlacedDetections, more: PlacedDetections) -> npt.NDArray[np.bool_]:
    """Which of ``more`` (N,) show an object that ``best`` has already.

    Named tracks are compared by key. A detection without a track, or a cluster, whose key says nothing about
    boxes, is the same object if its centre is within half the other's length plus 0.5 m.
    """
    anonymous = (more.key == 0) | (more.key >= CLUSTER_KEYS)
    apart = np.linalg.norm(more.place_m[:, None] - best.place_m[None], axis=2)
    reach = np.maximum(best.typical_m[:, 0], best.lateral_m) / 2 + 0.5
    near: npt.NDArray[np.bool_] = anonymous & (apart < reach).any(axis=1)
    same: npt.NDArray[np.bool_] = ~anonymous & np.isin(more.key, best.key)
    return near | same
