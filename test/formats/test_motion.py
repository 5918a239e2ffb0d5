from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from edgefirst_ros.formats.motion import impossible_moves, impossible_turns

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


def grid(count: int, rate_hz: float) -> Times:
    return 1_777_626_000_000_000_000 + (np.arange(count) * 1e9 / rate_hz).astype(np.int64)


def circle(times_ns: Times, speed_m_s: float, radius_m: float) -> Floats:
    angle = (times_ns - times_ns[0]) / 1e9 * speed_m_s / radius_m
    return np.stack([radius_m * np.cos(angle), radius_m * np.sin(angle), 0 * angle], axis=1)


def said(times_ns: Times, positions_m: Floats, noise_m: float = 0.5) -> list[tuple[int, str]]:
    return [(fault.index, fault.kind) for fault in impossible_moves(times_ns, positions_m, noise_m)]


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


def test_one_flipped_fix_is_found() -> None:
    times = grid(200, 20.0)
    place = circle(times, 8.0, 60.0)
    place[77, 0] += 240.0
    assert said(times, place) == [(77, "impossible speed")]


@pytest.mark.parametrize("rate", [5.0, 10.0, 30.0])
def test_a_step_that_stays_is_found(rate: float) -> None:
    times = grid(200, rate)
    place = circle(times, 8.0, 60.0)
    place[100:, 1] += 15.0
    (index, kind), *_ = said(times, place)
    assert (index, kind) in {(100, "jump of the position"), (100, "impossible speed")}


def test_a_speed_that_changes_too_fast_is_found() -> None:
    times = grid(400, 20.0)
    since_s = (times - times[0]) / 1e9
    braking_s = np.clip(since_s - 10, 0, 1)  # from 40 m/s to nothing within a second
    along = 40 * np.minimum(since_s, 10) + 40 * (braking_s - braking_s**2 / 2)
    place = np.stack([along, 0 * along], axis=1)
    assert {kind for _, kind in said(times, place)} == {"impossible acceleration"}


def test_what_is_not_finite_or_not_in_order_is_passed_over() -> None:
    times = grid(50, 10.0)
    place = circle(times, 8.0, 60.0)
    place[7], place[11, 1] = np.nan, np.inf
    times[20] = times[19]
    assert said(times, place) == []
    assert said(times[:1], place[:1]) == []
    assert said(times[:0], place[:0]) == []


def test_turns() -> None:
    times = grid(100, 20.0)
    rotations = Rotation.from_rotvec(np.outer(np.arange(100) * 0.05, [0.0, 0.0, 1.0])).as_matrix()
    assert list(impossible_turns(times, rotations)) == []
    rotations[40:] = rotations[40:] @ Rotation.from_euler("z", 95, degrees=True).as_matrix()
    (fault,) = impossible_turns(times, rotations)
    assert (fault.index, fault.kind) == (40, "impossible turn")
    assert fault.detail == "98° in 0.050 s"
