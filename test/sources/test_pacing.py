"""A recording's pace, kept without trusting its clock."""

from __future__ import annotations

import pytest

from edgefirst_ros.sources.player import LONGEST_PAUSE_NS, PlaybackClock


def times(rate: float, seconds: list[float]) -> list[float]:
    now = [100.0]
    clock = PlaybackClock(rate, LONGEST_PAUSE_NS, lambda: now[0])
    passed = []
    for each in seconds:
        now[0] += max(0.0, clock.wait_s(round(each * 1e9)))
        passed.append(now[0] - 100.0)
    return passed


def test_messages_wait_until_they_are_due() -> None:
    assert times(1.0, [7.0, 7.5, 9.0]) == pytest.approx([0.0, 0.5, 2.0])
    assert times(4.0, [7.0, 7.5, 9.0]) == pytest.approx([0.0, 0.125, 0.5])


def test_steps_of_the_clock_and_long_pauses_are_not_waited_for() -> None:
    year = 3600.0 * 24 * 365
    assert times(1.0, [0.0, 1.0, year, year + 1.0]) == pytest.approx([0.0, 1.0, 1.0, 2.0])
    assert times(1.0, [year, 0.0, 0.5]) == pytest.approx([0.0, 0.0, 0.5])
    longest_s = LONGEST_PAUSE_NS / 1e9
    assert times(1.0, [0.0, longest_s])[1] == pytest.approx(longest_s)
