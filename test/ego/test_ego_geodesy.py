from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.geometry import ecef_m, enu_axes, from_enu
from edgefirst_ros.model.sample import GeoPoint

POINTS = st.builds(
    GeoPoint,
    latitude_deg=st.floats(-89.9, 89.9),
    longitude_deg=st.floats(-179.9, 179.9),
    altitude_m=st.floats(-400, 9000),
)
OFFSETS = st.tuples(st.floats(-20e3, 20e3), st.floats(-20e3, 20e3), st.floats(-500, 500))


def enu_m(point: GeoPoint, origin: GeoPoint) -> list[float]:
    found: list[float] = (enu_axes(origin) @ np.subtract(ecef_m(point), ecef_m(origin))).tolist()
    return found


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        (GeoPoint(0, 0, 0), (6_378_137.0, 0, 0)),
        (GeoPoint(0, 90, 100), (0, 6_378_237.0, 0)),
        (GeoPoint(90, 0, 0), (0, 0, 6_356_752.314_245)),
        (GeoPoint(-90, 0, -10), (0, 0, -6_356_742.314_245)),
    ],
)
def test_ecef_of_known_points(point: GeoPoint, expected: tuple[float, float, float]) -> None:
    assert ecef_m(point) == pytest.approx(expected, abs=1e-5)


def test_enu_follows_the_radii_of_the_ellipsoid() -> None:
    origin = GeoPoint(48.0, 11.0, 0)
    sine = math.sin(math.radians(48))
    a, e2 = 6_378_137.0, 0.006_694_379_990_14
    prime = a / math.sqrt(1 - e2 * sine**2)
    meridian = a * (1 - e2) / (1 - e2 * sine**2) ** 1.5
    step = math.radians(1e-4)
    east, north, up = enu_m(GeoPoint(48.0, 11.0001, 0), origin)
    assert (east, north, up) == pytest.approx((prime * math.cos(math.radians(48)) * step, 0, 0), abs=1e-4)
    east, north, up = enu_m(GeoPoint(48.0001, 11.0, 7), origin)
    assert (east, north, up) == pytest.approx((0, meridian * step, 7), abs=1e-4)


@given(POINTS, OFFSETS)
def test_enu_and_back(origin: GeoPoint, offset: tuple[float, float, float]) -> None:
    point = from_enu(offset, origin)
    assert enu_m(point, origin) == pytest.approx(offset, abs=1e-6)
    assert math.dist(ecef_m(point), ecef_m(origin)) == pytest.approx(math.hypot(*offset), abs=1e-6)


def test_enu_crosses_the_date_line() -> None:
    east, north, _ = enu_m(GeoPoint(10, -179.9999, 0), GeoPoint(10, 179.9999, 0))
    assert (east, north) == pytest.approx((21.93, 0), abs=0.01)
