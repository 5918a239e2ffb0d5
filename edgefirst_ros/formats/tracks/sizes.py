"""Length, width and height of an object from its visible extents, and its heading if it does not move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgefirst_ros.formats.tracks.classes import Prior, Size

SIGMA_M = 0.15
"""Standard deviation of one measured extent, metres."""

_MOST_SIGMA_M = 1.5
_INDEPENDENT = 30.0
"""Further sightings add no information, as their errors are alike."""


def prior_weights(prior: Prior) -> tuple[float, float]:
    """Weights of a kind's proportion and typical width against one measured extent.

    Each is as uncertain as a quarter of the kind's range, the length for a given width by 1.5 m at most.
    """
    length, width, _ = (most - least for least, most in zip(prior.least_m, prior.most_m, strict=True))
    return (SIGMA_M / min(length / 4, _MOST_SIGMA_M)) ** 2, (4 * SIGMA_M / width) ** 2


@dataclass(frozen=True, slots=True)
class SeenExtent:
    """What one sighting shows of an object.

    ``lateral_m`` is its extent across the direction it is seen along, ``depth_m`` along that, NaN where the
    sensor cannot tell. ``turned_rad`` is its heading against that direction, None where it is not known.
    """

    lateral_m: float
    depth_m: float
    height_m: float
    turned_rad: float | None


class SizeEstimate:
    """The size of a rigid object, a rectangle seen from above, over all its sightings.

    A rectangle L by W, turned by a, looks L |sin a| + W |cos a| wide and L |cos a| + W |sin a| deep. Of the
    sightings with a known heading these are solved for L and W by least squares, with the kind's typical
    width and proportion as two more measurements. Without any, it is the kind's typical size, made longer or
    narrower as far as what was seen demands. Nothing leaves the kind's range.

    Args:
        forget: share by which older sightings count less with each new one; 0 weighs all alike.
    """

    def __init__(self, forget: float = 0.0) -> None:
        self._kept = 1.0 - forget
        # Sums of the normal equations over sightings with a heading: of sin², sin cos, cos², sin l, cos l.
        self._ss = self._sc = self._cc = self._sl = self._cl = 0.0
        self._turned = 0.0
        self._height_m = 0.0
        self._weight = 0.0
        self._widest_m = 0.0
        self._narrowest_m = math.inf
        self._last = (0.0, math.nan)

    def see(self, extent: SeenExtent) -> None:
        """Take one sighting."""
        self._weight = self._kept * self._weight + 1.0
        self._height_m += (extent.height_m - self._height_m) / self._weight
        if extent.turned_rad is None:
            self._widest_m = max(self._widest_m, extent.lateral_m)
            self._narrowest_m = min(self._narrowest_m, extent.lateral_m)
            self._last = (extent.lateral_m, extent.depth_m)
            return
        sine, cosine = abs(math.sin(extent.turned_rad)), abs(math.cos(extent.turned_rad))
        kept = self._kept
        self._turned = kept * self._turned + 1.0
        self._ss, self._sc, self._cc = kept * self._ss, kept * self._sc, kept * self._cc
        self._sl, self._cl = kept * self._sl, kept * self._cl
        self._add(sine, cosine, extent.lateral_m)
        if not math.isnan(extent.depth_m):
            self._add(cosine, sine, extent.depth_m)

    def size(self, prior: Prior) -> Size:
        """Length, width and height as far as they are known by now, for an object of this kind."""
        length, width = self._seen(prior) if self._ss + self._cc > 0 else self._assumed(prior)
        height = self._height_m if self._weight else prior.typical_m[2]
        sizes = zip((length, width, height), prior.least_m, prior.most_m, strict=True)
        length, width, height = (min(max(size, least), most) for size, least, most in sizes)
        return length, width, height

    def lies_across(self, prior: Prior) -> bool:
        """Whether an object of unknown heading is seen from the side: nearer its kind's length than width."""
        length, width, _ = prior.typical_m
        seen, depth = self._last
        return length > width and seen > ((length + width) / 2 if math.isnan(depth) else depth)

    def _add(self, along: float, across: float, seen_m: float) -> None:
        """An equation: L times ``along`` and W times ``across`` are what was seen."""
        self._ss += along * along
        self._sc += along * across
        self._cc += across * across
        self._sl += along * seen_m
        self._cl += across * seen_m

    def _assumed(self, prior: Prior) -> tuple[float, float]:
        (length, width, _), (seen, depth) = prior.typical_m, self._last
        if not self._widest_m:
            return length, width
        if not math.isnan(depth):
            return (seen, depth) if self.lies_across(prior) else (depth, seen)
        return max(length, self._widest_m), min(width, self._narrowest_m)

    def _seen(self, prior: Prior) -> tuple[float, float]:
        typical = prior.typical_m
        proportion = typical[0] / typical[1]
        shared = max(self._turned / _INDEPENDENT, 1.0)
        length_w, width_w = (shared * weight for weight in prior_weights(prior))
        ll, lw = self._ss + length_w, self._sc - proportion * length_w
        ww = self._cc + proportion**2 * length_w + width_w
        right = self._cl + typical[1] * width_w
        width = (ll * right - lw * self._sl) / (ll * ww - lw * lw)
        width = min(max(width, prior.least_m[1]), prior.most_m[1])
        length = (self._sl - lw * width) / ll
        bounded = min(max(length, prior.least_m[0]), prior.most_m[0])
        if bounded != length:
            width = (right - lw * bounded) / ww
        return bounded, width


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
