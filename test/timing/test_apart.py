"""How far two recorders' clocks are apart, found without knowing anything, from how one rig turned."""

from __future__ import annotations

import numpy as np
import pytest

from edgefirst_ros.timing.apart import LEAST_COMMON_S, Apart, Turns, apart

MOUNTED = np.linalg.qr(np.random.default_rng(5).normal(size=(3, 3)))[0]


def drive(seconds: float, seed: int = 1) -> Turns:
    """How a car turns: bends every some ten seconds, and what the road does to it, at 100 Hz."""
    random, at_s = np.random.default_rng(seed), np.arange(0.0, seconds, 0.01)
    rates = np.zeros((len(at_s), 3))
    for _ in range(int(seconds / 10)):
        begin_s, long_s, rate = random.uniform(0, seconds), random.uniform(3, 8), random.normal(0, 0.3)
        inside = (at_s > begin_s) & (at_s < begin_s + long_s)
        rates[inside, 2] += rate * np.sin(np.pi * (at_s[inside] - begin_s) / long_s) ** 2
    kernel = np.hanning(41) / np.hanning(41).sum()
    for axis in range(3):
        rates[:, axis] += np.convolve(random.normal(0, 0.05, len(at_s)), kernel, "same")
    return at_s, rates


def measured(turns: Turns, ahead_s: float = 0.0, drift: float = 0.0, seed: int = 2) -> Turns:
    """What another gyroscope of it measures, by its own clock, at times of its own."""
    random, (at_s, rates) = np.random.default_rng(seed), turns
    own_s = np.arange(at_s[0], at_s[-1], 0.0071)
    seen = np.stack([np.interp(own_s, at_s, axis) for axis in rates.T], axis=1) @ MOUNTED
    seen = seen + random.normal(0, 0.002, seen.shape) + 0.004
    return own_s + ahead_s + drift * own_s, seen


def cut(turns: Turns, from_s: float, to_s: float) -> Turns:
    inside = (turns[0] >= from_s) & (turns[0] < to_s)
    return turns[0][inside], turns[1][inside]


def only(found: list[Apart]) -> Apart:
    (one,) = found
    return one


@pytest.mark.parametrize("ahead_s", [-52.318, 904.1237, 72_586_745.5])
def test_an_offset_of_any_size_and_its_drift(ahead_s: float) -> None:
    """Everywhere in the drive to 2 ms, and to what is said; the recordings begin and end apart."""
    whole, drift = drive(420.0), 40e-6
    first, second = (
        cut(measured(whole, seed=9), 0.0, 350.0),
        measured(cut(whole, 60.0, 420.0), ahead_s, drift),
    )
    found = only(apart(first, second))
    assert found.pieces >= 5
    assert found.drift == pytest.approx(drift, abs=3e-6)
    for at_s in (50.0, 150.0, 250.0):
        error_s = found.ahead_s + found.drift * (at_s - found.at_s) - (ahead_s + drift * at_s)
        assert abs(error_s) < min(0.002, found.sure_s)
    assert found.sure_s < 0.002


def test_clocks_that_agree_are_found_to() -> None:
    whole = drive(60.0)
    found = only(apart(measured(whole, seed=9), measured(whole)))
    assert abs(found.ahead_s) < found.sure_s < 0.01
    assert found.is_same is False


def test_one_gyroscopes_signal_twice_is_told() -> None:
    turns = measured(drive(30.0))
    assert only(apart(turns, turns)).is_same


def test_two_drives_of_one_road_have_nothing_in_common() -> None:
    assert apart(measured(drive(120.0)), measured(drive(120.0, seed=4))) == []


def test_where_nothing_turns_nothing_is_said() -> None:
    at_s = np.arange(0.0, 60.0, 0.01)
    still = (at_s, np.zeros((len(at_s), 3)))
    assert apart(measured(still, seed=9), measured(still, 3.0)) == []
    assert apart(measured(drive(60.0)), (np.empty(0), np.empty((0, 3)))) == []


def test_times_that_no_drive_has_cost_nothing() -> None:
    at_s, rates = measured(drive(60.0))
    far = np.append(at_s, 3e9), np.vstack([rates, rates[:1]])
    assert apart(far, measured(drive(60.0), seed=9)) == []


def test_recordings_that_share_too_little_say_nothing() -> None:
    whole = drive(100.0)
    first, second = cut(whole, 0.0, 50.0), cut(whole, 50.0 - LEAST_COMMON_S / 2, 100.0)
    assert apart(measured(first, seed=9), measured(second, 12.0)) == []


def test_a_lap_driven_twice_is_ambiguous_unless_it_is_known_about() -> None:
    at_s, lap = drive(60.0)
    twice = np.arange(0.0, 119.99, 0.01), np.concatenate([lap, lap])[:11_999]
    first, second = cut(measured(twice, seed=9), 0.0, 120.0), measured(cut(twice, 5.0, 55.0), 7.0)
    assert sorted(round(each.ahead_s, 2) for each in apart(first, second)) == [-53.0, 7.0]
    assert only(apart(first, second, [7.2])).ahead_s == pytest.approx(7.0, abs=0.002)
    assert at_s[-1] < 60.0
