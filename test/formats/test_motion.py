from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from edgefirst_ros.formats.motion import BLOCK, Motion, impossible_moves, impossible_turns, location_motion

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


class TestMotion:
    """What checks and writers share."""

    def faults(self, portion: int) -> tuple[list[tuple[float, str]], str]:
        times = grid(2 * BLOCK + 300, 20.0)
        place = circle(times, 8.0, 60.0)
        place[[77, BLOCK - 1, BLOCK + 3, 2 * BLOCK + 200], 0] += 240.0
        rotations = np.tile(np.eye(3), (len(times), 1, 1))
        rotations[BLOCK:] = Rotation.from_euler("z", 95, degrees=True).as_matrix()
        found: list[tuple[float, str]] = []
        motion = Motion(0.5, lambda at_s, kind, _: found.append((at_s, kind)))
        for start in range(0, len(times), portion):
            part = slice(start, start + portion)
            motion.move(times[part], place[part])
            motion.turn(times[part].tolist(), rotations[part])
        motion.finish()
        return sorted(found), motion.warning("seq")

    def test_faults_are_found_once_wherever_blocks_and_portions_end(self) -> None:
        found, warning = self.faults(BLOCK * 3)
        speeds = [at_s for at_s, kind in found if kind == "impossible speed"]
        assert speeds == pytest.approx([77 / 20, (BLOCK - 1) / 20, (BLOCK + 3) / 20, (2 * BLOCK + 200) / 20])
        assert [at_s for at_s, kind in found if kind == "impossible turn"] == [BLOCK / 20]
        for portion in (1, 999, BLOCK):
            assert self.faults(portion) == (found, warning)
        assert warning.startswith(
            "seq: the rig moves as no vehicle can (impossible speed 4 times, the first after 3.850 s: 239"
        )
        assert "; impossible turn once, after 500.000 s: 95° in 0.050 s), which check reports" in warning

    def test_what_is_possible_gives_no_warning(self) -> None:
        motion = Motion(0.5)
        times = grid(300, 20.0)
        motion.move(times, circle(times, 8.0, 60.0))
        motion.turn(times[:0], np.zeros((0, 3, 3)))
        motion.finish()
        assert motion.warning("seq") == ""

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
    def test_values_that_nothing_has_raise_nothing(self, value: float) -> None:
        motion = Motion(0.5)
        times = grid(9, 20.0)
        place, turns = circle(times, 8.0, 60.0), np.tile(np.eye(3), (9, 1, 1))
        place[4], turns[4] = value, value
        motion.move(times, place)
        motion.turn(times, turns)
        motion.finish()

    def test_locations_are_judged_in_degrees(self) -> None:
        times = grid(60, 10.0)
        degrees = np.stack((np.full(60, 48.1), 11.5 + np.arange(60) * 1e-5), axis=1)
        for jumps, expected in ((0.0, ""), (160.0, "impossible speed")):
            degrees[30, 1] = 11.5003 + jumps
            motion = location_motion(single=False)
            motion.move(times, degrees)
            motion.finish()
            assert expected in motion.warning("seq")
            assert bool(motion.warning("seq")) == bool(expected)
