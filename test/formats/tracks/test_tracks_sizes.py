"""Sizes from extents and headings, and how an object lies that does not move."""

from __future__ import annotations

import math

import numpy as np
import pytest

from edgefirst_ros.formats.tracks.classes import KINDS, PRIORS, Kind, Prior, class_key
from edgefirst_ros.formats.tracks.sizes import SeenExtent, SizeEstimate, still_heading

BUS, CAR, UNKNOWN = PRIORS[Kind.BUS], PRIORS[Kind.CAR], PRIORS[Kind.UNKNOWN]
NAN = math.nan


def looks(size_m: tuple[float, float], turned_rad: float) -> float:
    return size_m[0] * abs(math.sin(turned_rad)) + size_m[1] * abs(math.cos(turned_rad))


def estimate(*extents: SeenExtent, forget: float = 0.0) -> SizeEstimate:
    made = SizeEstimate(forget)
    for extent in extents:
        made.see(extent)
    return made


def test_every_kind_is_typical_of_its_range() -> None:
    assert set(KINDS.values()) < set(PRIORS)
    for prior in PRIORS.values():
        for typical, least, most in zip(prior.typical_m, prior.least_m, prior.most_m, strict=True):
            assert 0 < least < typical < most
    assert KINDS[class_key("Police-Car")] is Kind.EMERGENCY_VEHICLE


def test_another_typical_size_widens_the_range() -> None:
    prior = CAR.around((10.0, 1.8, 1.0))
    assert prior == Prior((10.0, 1.8, 1.0), (2.5, 0.7 * 1.8, 0.7), (14.0, 1.4 * 1.8, 2.3))


@pytest.mark.parametrize("size_m", [(10.5, 2.5), (18.0, 2.6), (7.0, 2.2)])
def test_a_bus_seen_from_several_sides_is_solved(size_m: tuple[float, float]) -> None:
    turns = np.radians([0, 20, 45, 70, 90, 130, 200])
    made = estimate(*(SeenExtent(looks(size_m, t), NAN, 3.0, t) for t in turns.tolist() * 5))
    assert made.size(BUS) == pytest.approx((*size_m, 3.0), rel=0.02)


def test_seen_from_one_side_the_other_is_what_goes_with_it() -> None:
    behind = estimate(*[SeenExtent(2.4, NAN, 3.0, 0.0)] * 9).size(BUS)
    assert behind == pytest.approx((2.4 * 11.0 / 2.5, 2.4, 3.0), rel=0.02)
    beside = estimate(*[SeenExtent(9.9, NAN, 3.0, math.pi / 2)] * 9).size(BUS)
    assert beside == pytest.approx((9.9, 2.4, 3.0), rel=0.05)


def test_many_alike_do_not_outweigh_what_is_known_of_the_kind() -> None:
    """A thousand sightings a hair's breadth off the side say nothing of the width."""
    turns = math.pi / 2 + np.linspace(-0.02, 0.02, 1000)
    made = estimate(
        *(SeenExtent(looks((10.5, 2.5), t) + 0.02 * (-1) ** i, NAN, 3.0, t) for i, t in enumerate(turns))
    )
    assert made.size(BUS) == pytest.approx((10.5, 2.5, 3.0), rel=0.06)


def test_depth_is_a_second_equation() -> None:
    extent = SeenExtent(looks((6.0, 2.0), 0.5), looks((6.0, 2.0), 0.5 + math.pi / 2), 1.0, 0.5)
    made = estimate(*[extent] * 20)
    assert made.size(UNKNOWN) == pytest.approx((6.0, 2.0, 1.0), rel=0.02)


def test_newer_sightings_count_more_where_older_are_to_be_forgotten() -> None:
    changing = [SeenExtent(4.0, NAN, 1.5, math.pi / 2)] * 60 + [SeenExtent(5.0, NAN, 1.6, math.pi / 2)] * 60
    assert estimate(*changing, forget=0.1).size(CAR)[0] == pytest.approx(5.0, abs=0.03)
    assert estimate(*changing).size(CAR)[0] == pytest.approx(4.5, abs=0.03)


@pytest.mark.parametrize(
    ("seen_m", "expected", "across"),
    [
        ((2.5, 2.3), (11.0, 2.3), False),
        ((2.3, 12.5), (12.5, 2.3), True),
        ((50.0,), (25.0, 2.5), True),
        ((0.2,), (11.0, 1.9), False),
        ((), (11.0, 2.5), False),
    ],
)
def test_without_a_heading_the_kind_tells(
    seen_m: tuple[float, ...], expected: tuple[float, float], across: bool
) -> None:
    made = estimate(*(SeenExtent(seen, NAN, 3.2, None) for seen in seen_m))
    assert made.size(BUS) == (*expected, 3.2)
    assert made.lies_across(BUS) is across


def test_an_object_of_no_kind_is_as_it_looks() -> None:
    made = estimate(SeenExtent(4.0, 1.0, 1.5, None))
    assert made.size(UNKNOWN) == (1.0, 4.0, 1.5)
    assert not made.lies_across(UNKNOWN)


def views(
    heading: float, bearings_deg: tuple[float, ...], size: tuple[float, float]
) -> list[tuple[float, float]]:
    bearings = [math.radians(b) for b in bearings_deg]
    return [(b, looks(size, heading - b)) for b in bearings]


@pytest.mark.parametrize("heading_deg", range(-170, 190, 20))
def test_who_stands_lies_as_all_views_agree(heading_deg: int) -> None:
    heading = math.radians(heading_deg)
    found = still_heading(views(heading, (0, 20, 40, 60, 80, 100), (4.4, 1.8)), CAR)
    assert found is not None
    off = (found - heading + math.pi / 2) % math.pi - math.pi / 2
    assert abs(math.degrees(off)) < 3.0
    assert math.cos(found) >= -0.01, "of both ends the one that is farther away is taken for the front"


def test_from_one_side_or_of_what_is_as_wide_as_long_nothing_is_told() -> None:
    assert still_heading(views(0.7, (10, 11), (4.4, 1.8)), CAR) is None
    assert still_heading(views(0.7, (10,), (4.4, 1.8)), CAR) is None
    assert still_heading(views(0.7, (0, 30, 60, 90), (0.5, 0.6)), PRIORS[Kind.PEDESTRIAN]) is None
