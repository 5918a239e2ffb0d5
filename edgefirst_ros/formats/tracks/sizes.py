"""Length, width and height of an object from its visible extents, and its heading if it does not move.

Class names of detectors to kinds of objects, and the sizes of each kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Size = tuple[float, float, float]
"""Length, width, height in metres."""


class Kind(StrEnum):
    """Kinds of objects on and beside a road."""

    UNKNOWN = "UNKNOWN"
    CAR = "CAR"
    VAN = "VAN"
    TRAM = "TRAM"
    BUS = "BUS"
    TRUCK = "TRUCK"
    EMERGENCY_VEHICLE = "EMERGENCY_VEHICLE"
    OTHER_VEHICLE = "OTHER_VEHICLE"
    BICYCLE = "BICYCLE"
    MOTORCYCLE = "MOTORCYCLE"
    CYCLIST = "CYCLIST"
    MOTORCYCLIST = "MOTORCYCLIST"
    PEDESTRIAN = "PEDESTRIAN"
    ANIMAL = "ANIMAL"


@dataclass(frozen=True, slots=True)
class Prior:
    """How large objects of a kind are: typically, at least and at most."""

    typical_m: Size
    least_m: Size
    most_m: Size


PRIORS: Mapping[Kind, Prior] = {
    Kind.UNKNOWN: Prior((1.0, 1.0, 1.0), (0.1, 0.1, 0.1), (60.0, 60.0, 10.0)),
    Kind.CAR: Prior((4.5, 1.8, 1.5), (2.5, 1.4, 1.1), (6.0, 2.3, 2.3)),
    Kind.VAN: Prior((5.2, 2.0, 2.0), (3.8, 1.6, 1.5), (7.5, 2.5, 3.2)),
    Kind.TRAM: Prior((30.0, 2.6, 3.6), (10.0, 2.1, 2.8), (60.0, 3.2, 4.6)),
    Kind.BUS: Prior((11.0, 2.5, 3.2), (5.5, 1.9, 2.2), (25.0, 2.9, 4.6)),
    Kind.TRUCK: Prior((8.0, 2.5, 3.2), (4.5, 1.7, 1.6), (22.0, 3.0, 4.6)),
    Kind.EMERGENCY_VEHICLE: Prior((6.0, 2.2, 2.6), (4.0, 1.7, 1.3), (13.0, 2.9, 4.2)),
    Kind.OTHER_VEHICLE: Prior((4.5, 1.8, 1.8), (1.0, 0.7, 0.7), (16.0, 4.5, 4.5)),
    Kind.BICYCLE: Prior((1.8, 0.6, 1.2), (1.0, 0.3, 0.7), (2.3, 1.0, 2.1)),
    Kind.MOTORCYCLE: Prior((2.1, 0.8, 1.3), (1.3, 0.4, 0.8), (3.0, 1.4, 2.1)),
    Kind.CYCLIST: Prior((1.8, 0.6, 1.7), (1.0, 0.3, 1.1), (2.3, 1.1, 2.2)),
    Kind.MOTORCYCLIST: Prior((2.1, 0.8, 1.7), (1.3, 0.4, 1.1), (3.0, 1.4, 2.2)),
    Kind.PEDESTRIAN: Prior((0.5, 0.6, 1.75), (0.2, 0.2, 0.6), (1.2, 1.2, 2.3)),
    Kind.ANIMAL: Prior((1.0, 0.4, 0.7), (0.1, 0.1, 0.1), (5.0, 2.0, 4.0)),
}
"""Common vehicles by makers' data sheets and the limits of road traffic law, rounded outwards."""

_ANIMALS = ("animal", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe")

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("car", "automobile", "suv", "taxi", "sedan", "vehicle"), Kind.CAR),
    **dict.fromkeys(("van", "minivan"), Kind.VAN),
    **dict.fromkeys(("tram", "train", "streetcar"), Kind.TRAM),
    **dict.fromkeys(("bus", "coach"), Kind.BUS),
    **dict.fromkeys(("truck", "lorry", "pickup"), Kind.TRUCK),
    **dict.fromkeys(("ambulance", "fire truck", "police car"), Kind.EMERGENCY_VEHICLE),
    **dict.fromkeys(("tractor", "trailer", "forklift", "golf cart", "boat"), Kind.OTHER_VEHICLE),
    **dict.fromkeys(("bicycle", "bike"), Kind.BICYCLE),
    **dict.fromkeys(("motorcycle", "motorbike", "scooter"), Kind.MOTORCYCLE),
    **dict.fromkeys(("cyclist", "rider"), Kind.CYCLIST),
    "motorcyclist": Kind.MOTORCYCLIST,
    **dict.fromkeys(("person", "pedestrian", "people", "human", "child"), Kind.PEDESTRIAN),
    **dict.fromkeys(_ANIMALS, Kind.ANIMAL),
}
"""Class names of COCO and of common road datasets by ``class_key``; any other name is UNKNOWN."""

_SEPARATORS = re.compile(r"[\s_\-]+")


def class_key(name: str) -> str:
    """A class name as the mappings spell it: lower case, words separated by one space."""
    return _SEPARATORS.sub(" ", name).strip().lower()


def kind_of(name: str) -> Kind:
    """The kind of object that a class name stands for; UNKNOWN if the name is not known."""
    return KINDS.get(class_key(name), Kind.UNKNOWN)


Floats = npt.NDArray[np.float64]

SIGMA_M = 0.15
"""Standard deviation of one measured extent, metres, at least: boxes do not fit what they show."""

_MOST_SIGMA_M = 1.5
_INDEPENDENT = 30.0
"""Further sightings add no information, as their errors are alike."""
_ALIKE_M = 0.1
"""What does not average out of sightings from one side, for the same reason."""
_SURE = 2.0
"""Standard deviations of a heading: an angle smaller than these cannot be told from none."""
_TYPICAL_SHARE = 90.0
"""Percentile that stands for the largest extent seen: the largest of many has the largest error."""


def scatter(values: Floats, times_s: Floats) -> float:
    """Standard deviation of the noise of smooth values (N,) or (N, K); 0 if there are too few to tell.

    Robust: from the median distance of each value from the line between its neighbours.
    """
    if len(times_s) < 3:
        return 0.0
    values = values.reshape(len(times_s), -1)
    share = ((times_s[1:-1] - times_s[:-2]) / np.maximum(times_s[2:] - times_s[:-2], 1e-9))[:, None]
    off = values[1:-1] - (1 - share) * values[:-2] - share * values[2:]
    return float(1.4826 * np.median(np.abs(off) / np.sqrt(1 + share**2 + (1 - share) ** 2)))


def prior_weights(prior: Prior) -> tuple[float, float]:
    """Weights of a kind's proportion and typical width against one measured extent.

    Each is as uncertain as a quarter of the kind's range, the length for a given width by 1.5 m at most.
    """
    length, width, _ = (most - least for least, most in zip(prior.least_m, prior.most_m, strict=True))
    return (SIGMA_M / min(length / 4, _MOST_SIGMA_M)) ** 2, (4 * SIGMA_M / width) ** 2


def size_of(
    extents: tuple[Floats, Floats], turned: tuple[Floats, Floats], prior: Prior, sigma_m: float
) -> Size:
    """Length, width and height of a rigid object, a rectangle seen from above, over all its sightings.

    A rectangle L by W, turned by a, looks L |sin a| + W |cos a| wide. Of the
    sightings with a known heading these are solved for L and W by least squares, with the kind's typical
    width and proportion as two more measurements. An angle within its own error counts as none: taken at
    its value, it would say that the object's length adds nothing to what is seen, thus that it has none.
    Without any heading, it is the kind's typical size, made longer or narrower as far as what was seen
    demands. Nothing leaves the kind's range.

    Args:
        extents: (N,) across the direction that it is seen along, and (N,) upwards.
        turned: (N,) its heading against that direction, NaN where it is not known, and (N,) the standard
            deviation of this.
        prior: of its kind.
        sigma_m: standard deviation of an extent, ``SIGMA_M`` at least.
    """
    lateral, height = extents
    angle, sigma_rad = turned
    known = np.isfinite(angle)
    if not len(lateral):
        found = prior.typical_m
    elif known.any():
        found = (
            *_solved(lateral[known], angle[known], sigma_rad[known], prior, sigma_m),
            float(height.mean()),
        )
    else:
        found = (*_assumed(lateral, prior), float(height.mean()))
    sizes = zip(found, prior.least_m, prior.most_m, strict=True)
    length, width, tall = (min(max(size, least), most) for size, least, most in sizes)
    return length, width, tall


def lies_across(lateral: Floats, prior: Prior) -> bool:
    """Whether an object of unknown heading is seen from the side: nearer its kind's length than width."""
    length, width, _ = prior.typical_m
    if length <= width or not len(lateral):
        return False
    return bool(np.median(lateral) > (length + width) / 2)


def _assumed(lateral: Floats, prior: Prior) -> tuple[float, float]:
    length, width, _ = prior.typical_m
    if len(lateral) == 1:
        return max(length, float(lateral[0])), min(width, float(lateral[0]))
    narrowest, widest = np.percentile(lateral, (100.0 - _TYPICAL_SHARE, _TYPICAL_SHARE)).tolist()
    return max(length, widest), min(width, narrowest)


def _beyond(part: Floats, sigma_rad: Floats) -> Floats:
    """|sin| or |cos| of an angle, as far as the angle's error does not explain it."""
    kept: Floats = np.sqrt(np.maximum(part**2 - (_SURE * np.sin(np.minimum(sigma_rad, math.pi / 4))) ** 2, 0))
    return kept


def _solved(
    lateral: Floats, angle: Floats, sigma_rad: Floats, prior: Prior, sigma_m: float
) -> tuple[float, float]:
    along, across = _beyond(np.sin(angle), sigma_rad), _beyond(np.cos(angle), sigma_rad)
    # Of two sightings, the one whose angle is less certain tells less.
    weight = SIGMA_M**2 / (sigma_m**2 + (prior.typical_m[0] * sigma_rad * np.cos(angle)) ** 2)
    ss, sc, cc, sl, cl = (
        float((weight * one * other).sum())
        for one, other in (
            (along, along),
            (along, across),
            (across, across),
            (along, lateral),
            (across, lateral),
        )
    )
    proportion, typical = prior.typical_m[0] / prior.typical_m[1], prior.typical_m[1]
    shared = max(len(lateral) / _INDEPENDENT, 1.0)
    length_w, width_w = (shared * each for each in prior_weights(prior))
    ll, lw, ww = ss + length_w, sc - proportion * length_w, cc + proportion**2 * length_w + width_w
    right = cl + typical * width_w
    width = (ll * right - lw * sl) / (ll * ww - lw * lw)
    width = min(max(width, prior.least_m[1]), prior.most_m[1])
    length = (sl - lw * width) / ll
    bounded = min(max(length, prior.least_m[0]), prior.most_m[0])
    return bounded, width if bounded == length else (right - lw * bounded) / ww


_SIDE_RAD = math.radians(2.0)
"""Views from directions closer than this are averaged: they add no information about the heading."""
_STEP_RAD = math.radians(1.0)
_CLEAR = ((5.0, 4.0), (20.0, 9.0))
"""By how many squared standard deviations any orientation must fit worse that is more degrees off: a heading
is told to 5 degrees, and is no other one."""
_LEAST_PROPORTION = 1.4


@dataclass(frozen=True, slots=True)
class Still:
    """How an object lies that does not move.

    Attributes:
        heading_rad: that which explains all views best; NaN if another does about as well.
        sigma_rad: its standard deviation.
        length_m, width_m: the mean over all headings, each as likely as it explains the views.
    """

    heading_rad: float
    sigma_rad: float
    length_m: float
    width_m: float


def still(bearings_rad: Floats, lateral_m: Floats, prior: Prior, sigma_m: float = SIGMA_M) -> Still | None:
    """How an object lies by how wide it looked from several sides; None if it was seen from one only.

    For every orientation, length and width are solved as ``size_of`` does, and what remains is compared.
    Which end is the front cannot be seen: of the two it is that which points rather away from where it was
    seen first.

    Args:
        bearings_rad: (N,) direction along which it was seen.
        lateral_m: (N,) how wide it looked across that.
        prior: of its kind; nothing is told of kinds that are about as wide as long.
        sigma_m: standard deviation of a width.
    """
    if prior.typical_m[0] < _LEAST_PROPORTION * prior.typical_m[1] or len(bearings_rad) < 2:
        return None
    turns = np.unwrap(bearings_rad)
    _, side, count = np.unique(
        np.round((turns - turns[0]) / _SIDE_RAD), return_inverse=True, return_counts=True
    )
    if len(count) < 2:
        return None
    bearing, seen = (np.bincount(side.ravel(), values) / count for values in (turns, lateral_m))
    weight = SIGMA_M**2 / (_ALIKE_M**2 + sigma_m**2 / count)
    headings = np.arange(0.0, math.pi - _STEP_RAD / 2, _STEP_RAD)
    turned = headings[:, None] - bearing
    sine, cosine = np.abs(np.sin(turned)), np.abs(np.cos(turned))
    length_w, width_w = prior_weights(prior)
    proportion, width0 = prior.typical_m[0] / prior.typical_m[1], prior.typical_m[1]
    ll = (weight * sine**2).sum(axis=1) + length_w
    lw = (weight * sine * cosine).sum(axis=1) - proportion * length_w
    ww = (weight * cosine**2).sum(axis=1) + proportion**2 * length_w + width_w
    left, right = (weight * sine * seen).sum(axis=1), (weight * cosine * seen).sum(axis=1) + width0 * width_w
    width = ((ll * right - lw * left) / (ll * ww - lw * lw)).clip(prior.least_m[1], prior.most_m[1])
    length = ((left - lw * width) / ll).clip(prior.least_m[0], prior.most_m[0])
    off = seen - sine * length[:, None] - cosine * width[:, None]
    cost = (weight * off**2).sum(axis=1) + length_w * (length - proportion * width) ** 2
    cost = (cost + width_w * (width - width0) ** 2) / SIGMA_M**2
    best = int(np.argmin(cost))
    apart = np.abs((headings - headings[best] + math.pi / 2) % math.pi - math.pi / 2)
    likely = np.exp((cost[best] - cost) / 2)
    likely /= likely.sum()
    heading, sigma = float(headings[best]), max(float(apart[cost - cost[best] <= 1.0].max()), _STEP_RAD)
    if any(cost[np.degrees(apart) > off + 1e-6].min() - cost[best] < worse for off, worse in _CLEAR):
        heading = math.nan
    elif math.cos(heading - bearings_rad[0]) < 0:
        heading -= math.pi
    return Still(heading, sigma, float(likely @ length), float(likely @ width))
