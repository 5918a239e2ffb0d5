"""What value of a lidar's reflectivity or intensity field is full scale."""

from __future__ import annotations

from typing import Any

import numpy as np

_CONVENTIONS = (1.0, 255.0, 65535.0)
"""Floats are shares (0..1), or carry 8-bit or 16-bit values, as drivers for Velodyne and Ouster send them."""


def type_scale(dtype: np.dtype[Any]) -> float | None:
    """The largest value of an integer type; None for floats, whose type tells nothing."""
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else None


def float_scale(largest: float) -> float:
    """The least conventional full scale that holds ``largest``, else that itself."""
    return next((scale for scale in _CONVENTIONS if largest <= scale), largest)
