"""The scale of each lidar's intensity: known from its field's type, or learnt from the first sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.formats.ncore.finish.remarks import Remarks
from edgefirst_ros.formats.ncore.prepare.lidar import scaled_intensity
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, Intensity, Json
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import Record, under
from edgefirst_ros.messages.pointcloud import float_scale

_EIGHT_BITS = 255


@dataclass(slots=True)
class _Seen:
    """What a lidar has sent so far."""

    field: str
    dtype: str
    scale: float | None
    learnt: bool
    largest: float = 0.0
    outside: int = 0


class LidarScales:
    """One scale per lidar for a whole run; once learnt from a float field, later sweeps do not change it."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def scaled(self, name: str, intensity: Intensity | None) -> Sequence[Record]:
        """Intensity records, below the frame, of a sweep whose scale has to be learnt; else none."""
        if intensity is None:
            return ()
        learnt = intensity.scale is None
        seen = self._seen.setdefault(name, _Seen(intensity.field, intensity.dtype, intensity.scale, learnt))
        seen.largest = max(seen.largest, intensity.largest)
        if not learnt:
            seen.outside += intensity.outside
            return ()
        if seen.scale is None and intensity.largest > 0:
            seen.scale = float_scale(intensity.largest)
        scale = seen.scale or 1.0
        sent = np.frombuffer(intensity.values, np.float32)
        seen.outside += int(np.count_nonzero((sent < 0) | (sent > scale)))
        values = scaled_intensity(intensity.values, scale)
        return under("ray_bundle_returns", array_records("intensity", values[None], COMPRESSOR))

    def learnt(self, name: str) -> Json:
        """Metadata of a learnt scale; empty if it was known from the type, or is not known yet."""
        seen = self._seen.get(name)
        if seen is None or not seen.learnt or seen.scale is None:
            return {}
        how = f"{seen.dtype}; the least of 1, 255 and 65535 that holds the first sweep's values"
        return {"intensity_max": seen.scale, "intensity_scale": how}

    def remark(self, remarks: Remarks) -> None:
        """Warn of clipped intensities, and note scales that were learnt or look wrong."""
        for name, seen in self._seen.items():
            option = "set ncore.lidar_intensity_max to its full scale"
            if seen.outside:
                remarks.warn(
                    f"{seen.outside} intensities of {name} were clipped: its {seen.field} reached "
                    f"{seen.largest:g}, above the full scale of {seen.scale or 1:g}; {option}"
                )
            elif seen.scale is not None and seen.scale > _EIGHT_BITS >= seen.largest > 0:
                remarks.note(
                    f"the {seen.field} of {name} is {seen.dtype} but never exceeds {seen.largest:g} of "
                    f"{seen.scale:g}; if it has 8 bits, {option}"
                )
            elif seen.learnt and seen.scale is not None:
                remarks.note(
                    f"the {seen.field} of {name} is {seen.dtype}; {seen.scale:g} is taken as full scale"
                )
