"""Point clouds of radar, lidar and fusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class PointCloud:
    """A cloud with its fields as on the wire (sensor_msgs/PointCloud2).

    ``points`` is a structured array of shape (height * width,), row by row, whose field names,
    types and counts are those of the message; unaligned and big-endian fields stay as they are, so
    convert a column with ``astype`` before arithmetic in a hurry. ``height`` > 1 means organised.
    """

    points: npt.NDArray[np.void]
    height: int
    width: int
