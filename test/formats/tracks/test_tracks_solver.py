"""Headings and sizes of whole tracks with noise: what moved has its way's heading, what did not has none."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from edgefirst_ros.formats.tracks.sizes import PRIORS, Floats, Kind
from edgefirst_ros.formats.tracks.solver import Heading, Sightings, Solved, solved

HZ = 15
NOISE_M, NOISE_SHARE = 0.1, 0.05


def track(
    place: Callable[[Floats], Floats],
    heading: Callable[[Floats], Floats],
    size_m: tuple[float, float, float],
    kind: Kind,
    *,
    seconds: float = 8.0,
    bearing: Callable[[Floats], Floats] = np.zeros_like,
    seed: int = 0,
) -> tuple[Solved, Floats]:
    """A track with noise, solved, and its true headings."""
    random = np.random.default_rng(seed)
    times_s = np.arange(round(seconds * HZ)) / HZ
    true, seen_along = heading(times_s), bearing(times_s)
    turned = true - seen_along
    wide = size_m[0] * np.abs(np.sin(turned)) + size_m[1] * np.abs(np.cos(turned))
    sizes = 1 + random.normal(scale=NOISE_SHARE, size=(2, len(times_s)))
    places = place(times_s) + random.normal(scale=NOISE_M, size=(len(times_s), 2))
    sightings = Sightings(
        (times_s * 1e9).astype(np.int64), places, seen_along, wide * sizes[0], size_m[2] * sizes[1]
    )
    return solved(sightings, PRIORS[kind]), true


def off_deg(found: Floats, true: Floats) -> Floats:
    off: Floats = np.degrees(np.abs((found - true + np.pi) % (2 * np.pi) - np.pi))
    return off


def along(speed_m_s: float, heading_rad: float) -> Callable[[Floats], Floats]:
    step = speed_m_s * np.array([math.cos(heading_rad), math.sin(heading_rad)])
    return lambda times_s: times_s[:, None] * step


@pytest.mark.parametrize("seed", range(20))
def test_noise_moves_nothing_that_is_parked(seed: int) -> None:
    found, _ = track(
        along(0.0, 0.0), lambda t: np.full_like(t, 0.4), (4.6, 1.9, 1.9), Kind.CAR, seed=seed, seconds=60
    )
    assert set(found.basis) == {Heading.ASSUMED}
    assert np.isnan(found.headings_rad).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("size_m", "kind"), [((4.6, 1.9, 1.9), Kind.CAR), ((6.5, 2.4, 2.8), Kind.TRUCK)])
def test_parked_and_passed_it_lies_within_5_degrees_or_that_is_assumed(
    seed: int, size_m: tuple[float, float, float], kind: Kind
) -> None:
    """The rig drives a bend past it."""
    found, true = track(
        along(0.0, 0.0), lambda t: np.full_like(t, 1.2), size_m, kind, bearing=lambda t: 0.12 * t, seed=seed
    )
    assert set(found.basis) <= {Heading.VIEWS, Heading.ASSUMED}
    told = found.basis == Heading.VIEWS
    off = off_deg(found.headings_rad, true)[told]
    assert (np.minimum(off, 180 - off) < 5.0).all()
    assert found.size_m[0] == pytest.approx(size_m[0], rel=0.15)


@pytest.mark.parametrize(
    ("speed_m_s", "size_m", "kind"),
    [
        (4.5, (7.5, 2.4, 3.0), Kind.TRUCK),
        (-7.5, (4.2, 1.8, 1.6), Kind.CAR),
        (8.0, (10.5, 2.5, 3.2), Kind.BUS),
    ],
)
def test_what_goes_ahead_or_comes_is_as_long_as_it_is(
    speed_m_s: float, size_m: tuple[float, float, float], kind: Kind
) -> None:
    heading = 0.0 if speed_m_s > 0 else math.pi
    for seed in range(4):
        place = along(speed_m_s, 0.0)
        found, true = track(place, lambda t: np.full_like(t, heading), size_m, kind, seed=seed)
        assert set(found.basis) == {Heading.MOTION}
        assert np.percentile(off_deg(found.headings_rad, true), 95) < 5.0
        assert found.size_m == pytest.approx(size_m, rel=0.15)


def test_who_stands_and_then_walks_has_that_heading_from_the_start() -> None:
    def place(times_s: Floats) -> Floats:
        return np.maximum(times_s - 4.0, 0)[:, None] * np.array([0.0, 1.3])

    found, true = track(place, lambda t: np.full_like(t, math.pi / 2), (0.5, 0.6, 1.75), Kind.PEDESTRIAN)
    assert set(found.basis) == {Heading.HELD, Heading.MOTION}
    assert (found.basis[: 3 * HZ] == Heading.HELD).all()
    assert off_deg(found.headings_rad, true).max() < 12.0


def test_a_leap_of_a_box_is_no_motion() -> None:
    def place(times_s: Floats) -> Floats:
        return np.where(times_s > 4.0, 0.8, 0.0)[:, None] * np.array([1.0, 0.0])

    for seed in range(10):
        found, _ = track(place, np.zeros_like, (4.6, 1.9, 1.9), Kind.CAR, seed=seed)
        assert set(found.basis) == {Heading.ASSUMED}


def test_a_bend_is_followed_to_its_ends() -> None:
    """A walker on a circle of 2.2 m: what is fitted before the end has the direction of before."""
    rate = 0.6

    def place(times_s: Floats) -> Floats:
        return 2.2 * np.stack([np.cos(rate * times_s), np.sin(rate * times_s)], axis=-1)

    offs = []
    for seed in range(5):
        found, true = track(
            place, lambda t: rate * t + np.pi / 2, (0.5, 0.6, 1.75), Kind.PEDESTRIAN, seed=seed
        )
        assert set(found.basis) <= {Heading.MOTION, Heading.HELD}
        offs.append(off_deg(found.headings_rad, true))
    assert np.median(offs) < 6.0
    assert np.percentile(offs, 95) < 20.0
