from __future__ import annotations

import math

import pytest

from edgefirst_ros.ego.course import Course
from edgefirst_ros.ego.geodesy import Vector
from edgefirst_ros.ego.orientation import rpy_deg

S = 1_000_000_000


def course(positions: list[tuple[float, Vector]]) -> Course:
    made = Course(max_gap_ns=5 * S, hold_ns=2 * S)
    for seconds, position in positions:
        made.add(round(seconds * S), position)
    return made


def yaw(made: Course, seconds: float) -> float | None:
    rotation = made.track.at(round(seconds * S))
    return None if rotation is None else rpy_deg(rotation)[2]


@pytest.mark.parametrize("degrees", [0, 30, 90, 179, -90, -150])
@pytest.mark.parametrize("period_s", [0.1, 0.4, 1.0, 3.0])
def test_heading_of_a_straight_drive(degrees: float, period_s: float) -> None:
    direction = math.radians(degrees)
    times = [index * period_s for index in range(40)]
    made = course([(t, (8 * t * math.cos(direction), 8 * t * math.sin(direction), t)) for t in times])
    for seconds in (0.5, 1.0, 1.75, 2.5):
        assert yaw(made, seconds) == pytest.approx(degrees, abs=1e-6)


def test_a_vehicle_that_never_moved_has_no_heading() -> None:
    jitter = [(index * 0.1, (0.1 * (-1) ** index, 0.05 * (index % 3), 0)) for index in range(100)]
    assert len(course(jitter).track) == 0


def test_heading_is_held_while_standing() -> None:
    drive: list[tuple[float, Vector]] = [(t / 10, (0.0, t / 10 * 5, 0.0)) for t in range(31)]
    stand: list[tuple[float, Vector]] = [(3 + t / 10, (0.02 * (t % 2), 15.0, 0.0)) for t in range(1, 300)]
    made = course(drive + stand)
    for seconds in (2.5, 10.0, 20.0, 32.0):
        assert yaw(made, seconds) == pytest.approx(90, abs=3)
    assert yaw(made, 10.0) == yaw(made, 30.0)


def test_a_gap_gives_no_course() -> None:
    made = course([(0, (0, 0, 0)), (1, (5, 0, 0)), (8, (5, 35, 0)), (9, (5, 40, 0))])
    assert yaw(made, 1.0) == pytest.approx(0)
    assert yaw(made, 4.0) is None
    assert yaw(made, 8.0) == pytest.approx(90)


def test_few_positions_are_kept() -> None:
    made = course([(t / 10, (t * 1.0, 0.0, 0.0)) for t in range(5000)])
    assert len(made._recent) < 15


@pytest.mark.parametrize("period_s", [0.1, 0.4, 1.0, 1.3, 4.0])
def test_coming_headings_are_no_earlier_than_foretold(period_s: float) -> None:
    made = Course(max_gap_ns=5 * S, hold_ns=2 * S)
    assert made.coming_ns(7) == 7
    for index in range(60):
        before, now = len(made.track), round(index * period_s * S)
        foretold = made.coming_ns(now)
        made.add(now, (10.0 * index, 0.0, 0.0))
        if len(made.track) > before:
            assert made.track._times[-1] >= foretold
    assert len(made.track) > 10
