"""How far a rig drove, of poses that jitter, jump and are not always known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from edgefirst_ros.model.sample import EgoPose, GeoPoint, PoseBasis
from edgefirst_ros.pipeline.context import PoseAccount

EVERY_S = 0.05
ORIGIN = GeoPoint(46.0, 11.0, 200.0)
Place = tuple[float, float]


def driven_m(
    places: Iterable[Place | None],
    *,
    sigma_m: float | None = None,
    origins: Iterator[GeoPoint | None] | None = None,
) -> float:
    account = PoseAccount()
    for number, place in enumerate(places):
        known = place is not None
        account.add(
            EgoPose(
                round(number * EVERY_S * 1e9),
                origin=ORIGIN if origins is None else next(origins),
                position_m=(*place, 0.0) if place is not None else None,
                position_basis=PoseBasis.MEASURED if known else PoseBasis.ASSUMED,
                position_sigma_m=None if sigma_m is None else (sigma_m, sigma_m, 2 * sigma_m),
            )
        )
    return account.driven_m


def circle(radius_m: float, metres: float, m_s: float = 10.0) -> list[Place]:
    angles = np.arange(0, metres, m_s * EVERY_S) / radius_m
    return [(radius_m * math.cos(a), radius_m * math.sin(a)) for a in angles]


@pytest.mark.parametrize("radius_m", [20.0, 1e5])
def test_a_way_is_as_long_as_it_is(radius_m: float) -> None:
    assert driven_m(circle(radius_m, 500.0)) == pytest.approx(500, rel=0.02)
    assert driven_m(circle(radius_m, 500.0), sigma_m=2.0) == pytest.approx(500, rel=0.03)


@pytest.mark.parametrize("sigma_m", [0.02, 1.0, 3.0])
def test_noise_at_a_standstill_is_no_way(sigma_m: float) -> None:
    """Ten minutes; what GPS is off by wanders, so that it looks like a motion."""
    rng = np.random.default_rng(1)
    off, places = np.zeros(2), []
    for _ in range(12_000):
        off = off * 0.995 + rng.normal(0, sigma_m * math.sqrt(1 - 0.995**2), 2)
        places.append((float(off[0]), float(off[1])))
    assert driven_m(places, sigma_m=sigma_m) == 0


def test_unknown_positions_are_passed_over() -> None:
    way = circle(1e5, 100.0)
    holes = [None if 50 < n < 150 else place for n, place in enumerate(way)]
    assert driven_m(holes) == pytest.approx(100, abs=6)
    assert driven_m([None] * 5) == 0
