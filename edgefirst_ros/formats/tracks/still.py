"""Heading of an object that does not move, from its apparent width seen from several sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from edgefirst_ros.formats.tracks.classes import Prior
from edgefirst_ros.formats.tracks.sizes import SIGMA_M, prior_weights

View = tuple[float, float]
"""Direction along which an object was seen, radians, and how wide it looked across that, metres."""

NEW_SIDE_RAD = math.radians(2.0)
"""Views from directions closer than this add no information."""

_STEP_DEG = 1.0
_APART_DEG = 20.0
_CLEAR = 9.0
"""How much worse any other orientation must fit, in squared standard deviations."""

_LEAST_PROPORTION = 1.4


def still_heading(views: Sequence[View], prior: Prior) -> float | None:
    """The heading that explains all views best; None if another explains them about as well.

    For every orientation, length and width are solved as ``SizeEstimate`` does, and what remains is
    compared. Which end is the front cannot be seen: of the two it is that which points rather away from
    where it was seen first.

    Args:
        views: from as many sides as there are, each once.
        prior: of its kind; nothing is told of kinds that are about as wide as long.
    """
    if prior.typical_m[0] < _LEAST_PROPORTION * prior.typical_m[1] or len(views) < 2:
        return None
    bearing, seen = np.array(views, np.float64).T
    headings = np.radians(np.arange(0.0, 180.0, _STEP_DEG))
    turned = headings[:, None] - bearing
    sine, cosine = np.abs(np.sin(turned)), np.abs(np.cos(turned))
    length_w, width_w = prior_weights(prior)
    proportion, width0 = prior.typical_m[0] / prior.typical_m[1], prior.typical_m[1]
    ll = (sine**2).sum(axis=1) + length_w
    lw = (sine * cosine).sum(axis=1) - proportion * length_w
    ww = (cosine**2).sum(axis=1) + proportion**2 * length_w + width_w
    left, right = (sine * seen).sum(axis=1), (cosine * seen).sum(axis=1) + width0 * width_w
    width = ((ll * right - lw * left) / (ll * ww - lw * lw)).clip(prior.least_m[1], prior.most_m[1])
    length = ((left - lw * width) / ll).clip(prior.least_m[0], prior.most_m[0])
    off = seen - sine * length[:, None] - cosine * width[:, None]
    cost = (off**2).sum(axis=1) + length_w * (length - proportion * width) ** 2
    cost = (cost + width_w * (width - width0) ** 2) / SIGMA_M**2
    best = int(np.argmin(cost))
    apart = np.abs((headings - headings[best] + math.pi / 2) % math.pi - math.pi / 2)
    others = cost[apart > math.radians(_APART_DEG)]
    if others.min() - cost[best] < _CLEAR:
        return None
    heading = float(headings[best])
    return heading if math.cos(heading - bearing[0]) >= 0 else heading - math.pi
