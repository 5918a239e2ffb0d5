"""Two gyroscopes of one rig: by how much the one is behind, and how well that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial.transform import Rotation

from edgefirst_ros.timing.common import common_lag
from edgefirst_ros.timing.finding import (
    RECORDINGS_OWN,
    Clock,
    Evidence,
    MessageTimes,
    Rule,
    TopicClock,
    find_clocks,
)

Floats = npt.NDArray[np.float64]


def turning(times_s: Floats, random: np.random.Generator, most_rad_s: float) -> Any:  # noqa: ANN401
    """Of a rig that is rocked at up to 2.5 Hz, about its own axes."""
    waves = [
        [(most_rad_s * random.random() / (1 + f / 6), f, 6 * random.random()) for f in 15 * random.random(6)]
        for _ in range(3)
    ]
    return lambda at_s: np.stack(
        [sum(a * np.sin(f * at_s + p) for a, f, p in axis) for axis in waves], axis=1
    )


def pair(
    seed: int, lag_s: float, *, most_rad_s: float, sigma_rad_s: float
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Of two rates, noises, biases and mountings, over 3 s."""
    random = np.random.default_rng(seed)
    first_s = np.sort(0.002 * random.random(420) + np.arange(420) / 140)
    second_s = 0.007 + np.arange(300) / 100
    signal, turn = turning(first_s, random, most_rad_s), Rotation.random(random_state=seed).as_matrix()
    first = signal(first_s) + random.normal(0, sigma_rad_s, (420, 3))
    second = 1.02 * signal(second_s) @ turn.T + 0.003 + random.normal(0, sigma_rad_s, (300, 3))
    return (first_s, first), (second_s + lag_s, second)


@pytest.mark.parametrize("lag_s", [-0.31, -0.004, 0.0, 0.0123, 0.4])
def test_the_lag_is_found_and_its_sigma_is_true(lag_s: float) -> None:
    """Whatever the axes: rotations of another library's making."""
    errors = []
    for seed in range(12):
        found = common_lag(*pair(seed, lag_s, most_rad_s=0.03, sigma_rad_s=0.001), 0.5)
        assert found is not None
        assert abs(found.lag_s - lag_s) < 0.003
        errors.append((found.lag_s - lag_s) / found.sigma_s)
    assert 0.3 < np.sqrt(np.mean(np.square(errors))) < 2.0


def test_at_rest_noise_says_nothing() -> None:
    assert all(
        common_lag(*pair(seed, 0.0, most_rad_s=0.0, sigma_rad_s=0.002), 0.5) is None for seed in range(20)
    )


def test_another_rigs_turning_is_not_taken_for_the_same() -> None:
    for seed in range(20):
        first, _ = pair(seed, 0.0, most_rad_s=0.05, sigma_rad_s=0.001)
        _, second = pair(seed + 100, 0.0, most_rad_s=0.05, sigma_rad_s=0.001)
        assert common_lag(first, second, 0.5) is None


def test_a_regular_rocking_has_several_lags_and_so_none() -> None:
    at_s = np.arange(420) / 140
    rocking = np.stack([0.05 * np.sin(2 * np.pi * 4 * at_s)] * 3, axis=1)
    assert common_lag((at_s, rocking), (at_s, rocking), 0.5) is None


def test_beyond_the_search_there_is_none() -> None:
    assert common_lag(*pair(1, 0.7, most_rad_s=0.05, sigma_rad_s=0.001), 0.5) is None


def test_of_a_short_piece_there_is_none() -> None:
    (first_s, first), second = pair(1, 0.0, most_rad_s=0.05, sigma_rad_s=0.001)
    assert common_lag((first_s[:140], first[:140]), second, 0.5) is None
    assert common_lag((first_s[:1], first[:1]), second, 0.5) is None


UPTIME_NS = 1_777_000_000_000_000_000
"""By how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC."""


def comes_later(name: str, behind_ns: int, clocks: list[Clock], late_ns: int) -> TopicClock:
    """What is found of a topic of the right device, of 10 Hz and of no known latency."""
    stamps_ns = [2 * UPTIME_NS - behind_ns + n * 100_000_000 for n in range(10)]
    times = [
        MessageTimes(name, ns, ns + behind_ns + 25_000_000, ns + behind_ns + 25_000_000) for ns in stamps_ns
    ]
    (found,) = find_clocks([Evidence(name, Rule(device="right"), times)], clocks, {"right": late_ns})
    return found


@pytest.mark.parametrize(("offset_ns", "group"), [(UPTIME_NS, 0), (300_000_000, 1)])
def test_only_a_devices_clock_near_the_recordings_own_is_what_a_later_topic_is_of(
    offset_ns: int, group: int
) -> None:
    """A device has two clocks; that the one is another than the recording's says nothing of the other."""
    clocks = [RECORDINGS_OWN, Clock(offset_ns, 0, "right")]
    assert comes_later("camera", 0, clocks, 0).group == group
    assert len(clocks) == 2


def test_a_devices_clock_that_shows_later_is_corrected_by_its_lateness_as_well() -> None:
    found = [comes_later("lidar", UPTIME_NS, [RECORDINGS_OWN], late_ns) for late_ns in (0, 40_000_000)]
    assert found[0].offset_ns - found[1].offset_ns == 40_000_000
