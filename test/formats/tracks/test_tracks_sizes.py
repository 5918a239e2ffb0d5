"""Sizes from extents and headings, and how an object lies that does not move."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgefirst_ros.formats.tracks.sizes import (
    KINDS,
    PRIORS,
    SIGMA_M,
    Floats,
    Kind,
    Prior,
    Size,
    class_key,
    lies_across,
    scatter,
    size_of,
    still,
)

BUS, CAR, UNKNOWN = PRIORS[Kind.BUS], PRIORS[Kind.CAR], PRIORS[Kind.UNKNOWN]
NAN = math.nan


def looks(size_m: tuple[float, float], turned_rad: Floats | float) -> Floats:
    return size_m[0] * np.abs(np.sin(turned_rad)) + size_m[1] * np.abs(np.cos(turned_rad))


def size(
    lateral: object,
    turned: object = NAN,
    *,
    prior: Prior,
    height: float = 3.0,
    sigma_rad: float = 0.0,
) -> Size:
    seen = np.atleast_1d(np.array(lateral, np.float64))
    angle = np.broadcast_to(np.array(turned, np.float64), seen.shape)
    return size_of((seen, np.full(len(seen), height)), (angle, np.full(len(seen), sigma_rad)), prior, SIGMA_M)


def test_every_kind_is_typical_of_its_range() -> None:
    assert set(KINDS.values()) < set(PRIORS)
    for prior in PRIORS.values():
        for typical, least, most in zip(prior.typical_m, prior.least_m, prior.most_m, strict=True):
            assert 0 < least < typical < most
    assert KINDS[class_key("Police-Car")] is Kind.EMERGENCY_VEHICLE


@pytest.mark.parametrize("size_m", [(10.5, 2.5), (18.0, 2.6), (7.0, 2.2)])
def test_a_bus_seen_from_several_sides_is_solved(size_m: tuple[float, float]) -> None:
    turns = np.radians([0, 20, 45, 70, 90, 130, 200] * 5)
    assert size(looks(size_m, turns), turns, prior=BUS) == pytest.approx((*size_m, 3.0), rel=0.02)


def test_seen_from_one_side_the_other_is_what_goes_with_it() -> None:
    behind = size([2.4] * 9, 0.0, prior=BUS)
    assert behind == pytest.approx((2.4 * 11.0 / 2.5, 2.4, 3.0), rel=0.02)
    beside = size([9.9] * 9, math.pi / 2, prior=BUS)
    assert beside == pytest.approx((9.9, 2.4, 3.0), rel=0.05)


def test_many_alike_do_not_outweigh_what_is_known_of_the_kind() -> None:
    """A thousand sightings a hair's breadth off the side say nothing of the width."""
    turns = math.pi / 2 + np.linspace(-0.02, 0.02, 1000)
    seen = looks((10.5, 2.5), turns) + 0.02 * (-1) ** np.arange(1000)
    assert size(seen, turns, prior=BUS) == pytest.approx((10.5, 2.5, 3.0), rel=0.06)


@pytest.mark.parametrize("sigma_deg", [2.0, 5.0])
def test_what_goes_ahead_is_not_shortened_by_the_noise_of_its_heading(sigma_deg: float) -> None:
    """Taken at its value, each angle says that the length adds nothing to the width that is seen."""
    turns = np.radians(np.random.default_rng(1).normal(scale=sigma_deg, size=600))
    found = size(np.full(600, 2.4), turns, prior=BUS, sigma_rad=math.radians(sigma_deg))
    assert found == pytest.approx((2.4 * 11.0 / 2.5, 2.4, 3.0), rel=0.05)
    assert size(np.full(600, 2.4), turns, prior=BUS)[0] < 0.8 * found[0]


@pytest.mark.parametrize(
    ("seen_m", "expected", "across"),
    [
        ((2.5,) * 9, (11.0, 2.5), False),
        ((12.5,) * 9, (12.5, 2.5), True),
        ((50.0,), (25.0, 2.5), True),
        ((0.2,), (11.0, 1.9), False),
        ((), (11.0, 2.5), False),
    ],
)
def test_without_a_heading_the_kind_tells(
    seen_m: tuple[float, ...], expected: tuple[float, float], across: bool
) -> None:
    assert size(seen_m, prior=BUS, height=3.2) == (*expected, 3.2)
    assert lies_across(np.array(seen_m), BUS) is across


def test_one_wide_box_of_many_makes_nothing_longer() -> None:
    seen = np.full(100, 2.5)
    seen[7] = 13.0
    assert size(seen, prior=BUS)[:2] == (11.0, 2.5)
    assert not lies_across(seen, BUS)


def test_scatter_is_the_noise_and_not_the_motion() -> None:
    random, times_s = np.random.default_rng(0), np.sort(np.random.default_rng(2).uniform(0, 20, 400))
    path = np.stack([8.0 * times_s, 5.0 * np.sin(times_s / 4)], axis=-1)
    noise = random.normal(scale=0.2, size=path.shape)
    noise[::50] += 3.0
    assert scatter(path + noise, times_s) == pytest.approx(0.2, rel=0.15)
    assert scatter(path, times_s) < 0.01


def views(
    heading: float, bearings_deg: tuple[float, ...], size_m: tuple[float, float]
) -> tuple[Floats, Floats]:
    bearings = np.radians(bearings_deg)
    return bearings, looks(size_m, heading - bearings)


@pytest.mark.parametrize("heading_deg", range(-170, 190, 20))
def test_who_stands_lies_as_all_views_agree(heading_deg: int) -> None:
    heading = math.radians(heading_deg)
    found = still(*views(heading, tuple(range(0, 101, 4)), (4.4, 1.8)), CAR)
    assert found is not None
    off = (found.heading_rad - heading + math.pi / 2) % math.pi - math.pi / 2
    assert abs(math.degrees(off)) < 3.0
    assert math.cos(found.heading_rad) >= -0.01, "of both ends the one farther away is taken for the front"


def test_from_one_side_or_of_what_is_as_wide_as_long_nothing_is_told() -> None:
    found = still(*views(0.7, (10, 13), (4.4, 1.8)), CAR)
    assert found is not None
    assert math.isnan(found.heading_rad)
    assert still(*views(0.7, (10, 10.5), (4.4, 1.8)), CAR) is None
    assert still(*views(0.7, (10,), (4.4, 1.8)), CAR) is None
    assert still(*views(0.7, (0, 30, 60, 90), (0.5, 0.6)), PRIORS[Kind.PEDESTRIAN]) is None
