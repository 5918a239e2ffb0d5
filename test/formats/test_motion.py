from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.formats.motion import Motion, location_motion

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


def grid(count: int, rate_hz: float) -> Times:
    return 1_777_626_000_000_000_000 + (np.arange(count) * 1e9 / rate_hz).astype(np.int64)


def circle(times_ns: Times, speed_m_s: float, radius_m: float) -> Floats:
    angle = (times_ns - times_ns[0]) / 1e9 * speed_m_s / radius_m
    return np.stack([radius_m * np.cos(angle), radius_m * np.sin(angle), 0 * angle], axis=1)


def said(times_ns: Times, positions_m: Floats, noise_m: float = 0.5, portion: int = 7) -> list[float]:
    """Seconds at which an impossible speed is said, with the positions given some at a time."""
    found: list[float] = []
    motion = Motion(noise_m, lambda at_s, _kind, _detail: found.append(at_s))
    for start in range(0, len(times_ns), portion):
        motion.move(times_ns[start : start + portion], positions_m[start : start + portion])
    assert bool(motion.warning("seq")) == bool(found)
    return found


@settings(max_examples=60)
@given(
    rate=st.floats(0.2, 100.0),
    speed=st.floats(0.0, 60.0),
    sideways=st.floats(0.5, 9.0),
    seed=st.integers(0, 100),
)
def test_what_drives_is_possible(rate: float, speed: float, sideways: float, seed: int) -> None:
    """Any speed and bend that tyres hold, with noise, at any rate."""
    times = grid(200, rate)
    place = circle(times, speed, max(5.0, speed**2 / sideways))
    place += np.random.default_rng(seed).uniform(-0.25, 0.25, place.shape)
    assert said(times, place) == []


@pytest.mark.parametrize("portion", [1, 7, 78, 1000])
def test_one_flipped_fix_is_found_once_wherever_portions_end(portion: int) -> None:
    times = grid(200, 20.0)
    place = circle(times, 8.0, 60.0)
    place[[77, 150], 0] += 240.0
    assert said(times, place, portion=portion) == pytest.approx([77 / 20, 150 / 20])


def test_what_is_not_finite_or_not_in_order_is_passed_over() -> None:
    times = grid(50, 10.0)
    place = circle(times, 8.0, 60.0)
    place[7], place[11, 1] = np.nan, np.inf
    times[20] = times[19]
    assert said(times, place) == []
    assert said(times[:1], place[:1]) == []
    assert said(times[:0], place[:0]) == []


def test_the_warning_counts_and_says_the_first() -> None:
    times = grid(200, 20.0)
    place = circle(times, 8.0, 60.0)
    place[77, 0] += 240.0
    motion = Motion(0.5)
    motion.move(times, place)
    once = motion.warning("seq")
    assert once.startswith("seq: the rig moves as no vehicle can (impossible speed once, after 3.850 s: 239")
    motion.move(times + 20 * 10**9, place)
    assert "impossible speed 2 times, the first after 3.850 s: 239" in motion.warning("seq")


def test_what_is_possible_gives_no_warning() -> None:
    motion = Motion(0.5)
    times = grid(300, 20.0)
    motion.move(times, circle(times, 8.0, 60.0))
    assert motion.warning("seq") == ""


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_values_that_nothing_has_raise_nothing(value: float) -> None:
    motion = Motion(0.5)
    times = grid(9, 20.0)
    place = circle(times, 8.0, 60.0)
    place[4] = value
    motion.move(times, place)


def test_locations_are_judged_in_degrees() -> None:
    times = grid(60, 10.0)
    degrees = np.stack((np.full(60, 48.1), 11.5 + np.arange(60) * 1e-5), axis=1)
    for jumps, expected in ((0.0, ""), (160.0, "impossible speed")):
        degrees[30, 1] = 11.5003 + jumps
        motion = location_motion(single=False)
        motion.move(times, degrees)
        assert expected in motion.warning("seq")
        assert bool(motion.warning("seq")) == bool(expected)
