"""Places and velocities of one object between its sightings."""

from __future__ import annotations

import pytest

from edgefirst_ros.formats.tracks.solver import TrackPath

S = 10**9


def path(*sightings: tuple[float, float, float]) -> TrackPath:
    made = TrackPath()
    for second, x, y in sightings:
        assert made.add(round(second * S), (x, y))
    return made


def test_between_two_sightings_it_is_on_the_line() -> None:
    spot = path((0, 0, 0), (1, 4, 2)).at(S // 4, gap_ns=S, reach_ns=0)
    assert spot is not None
    assert (spot.place_m, spot.before, spot.after) == ((1.0, 0.5), 0, 1)


def test_at_a_sighting_it_is_there() -> None:
    spot = path((0, 0, 0), (1, 4, 2)).at(S, gap_ns=0, reach_ns=0)
    assert spot is not None
    assert (spot.place_m, spot.before, spot.after) == ((4.0, 2.0), 1, 1)


def test_a_gap_is_not_bridged_but_its_sides_reach_a_little() -> None:
    made = path((0, 0, 0), (0.1, 1, 0), (2, 50, 0), (2.1, 50, 1))
    at = [made.at(round(s * S), gap_ns=S, reach_ns=S // 10) for s in (-0.1, 0.15, 0.3, 1.95, 2.2, 2.3)]
    assert [None if spot is None else (spot.place_m, spot.before) for spot in at] == [
        (pytest.approx((-1.0, 0.0)), 0),
        (pytest.approx((1.5, 0.0)), 1),
        None,
        (pytest.approx((50.0, -0.5)), 2),
        (pytest.approx((50.0, 2.0)), 3),
        None,
    ]


def test_velocity_is_of_the_window_about_the_time_or_of_its_neighbours() -> None:
    made = path((0, 0, 0), (0.1, 1, 0), (0.2, 4, 0), (0.9, 4, 7))
    assert made.velocity(S // 10) == pytest.approx((20.0, 0.0))  # all three: (4 - 0) / 0.2
    assert made.velocity(round(0.6 * S)) == pytest.approx((0.0, 10.0))
    assert made.velocity(5 * S) == pytest.approx((0.0, 10.0))
    assert path((0, 0, 0)).velocity(0) is None


def test_time_does_not_go_back() -> None:
    made = path((0, 0, 0), (1, 1, 1))
    assert not made.add(S, (9, 9))
    assert not made.add(S // 2, (9, 9))
    assert len(made) == 2


def test_what_is_forgotten_is_not_needed_any_more() -> None:
    made = path(*((s / 10, s, 0) for s in range(20)))
    kept = path(*((s / 10, s, 0) for s in range(20)))
    assert made.forget(S) == 9
    for tenth in range(10, 25):
        time = tenth * S // 10 + 3 * S // 100
        assert made.at(time, gap_ns=S, reach_ns=0) is None or (
            made.at(time, gap_ns=S, reach_ns=0).place_m == kept.at(time, gap_ns=S, reach_ns=0).place_m  # type: ignore[union-attr]
        )
    assert made.forget(100 * S) == 9
    assert len(made) == 2
