"""The power of a radar cube by range and Doppler, as the contact sheet and the viewer draw it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from edgefirst_ros.messages.radar import Axis, RadarCube

SHOWN_AXES = (Axis.RANGE, Axis.DOPPLER)
"""Rows and columns of the picture; all other axes are summed over."""


def power_db(radar: RadarCube) -> npt.NDArray[np.float64]:
    """Power in decibels (range, Doppler), near first, summed over sequences and receivers.

    A cube that lacks one of the two axes has a single row or column of it.
    """
    bins = radar.cube.astype(np.float64)
    if radar.is_complex:
        bins = np.hypot(bins[..., 0::2], bins[..., 1::2])
    wanted = [radar.layout.index(axis) for axis in SHOWN_AXES if axis in radar.layout]
    others = tuple(n for n in range(bins.ndim) if n not in wanted)
    power = np.atleast_2d((bins**2).sum(axis=others))
    if wanted != sorted(wanted) or Axis.DOPPLER not in radar.layout:
        power = power.T
    shown: npt.NDArray[np.float64] = 10 * np.log10(power + 1.0)
    return shown
