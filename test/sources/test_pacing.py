"""A recording's pace, kept without trusting its clock."""

from __future__ import annotations

import threading

import pytest

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.player import PREVIEW_PAUSE_NS, Pacer


class Clock(threading.Event):
    """A stop event whose waiting only moves a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return False


def at(seconds: float) -> RawMessage:
    return RawMessage("/t", "x/Y", b"", round(seconds * 1e9), 0, 0)


def times(rate: float, seconds: list[float], work_s: float = 0.0) -> list[float]:
    clock = Clock()
    pacer = Pacer(rate, clock, lambda: clock.now_s)
    passed = []
    for each in seconds:
        pacer(at(each))
        passed.append(clock.now_s - 100.0)
        clock.now_s += work_s
    return passed


def test_messages_wait_until_they_are_due() -> None:
    assert times(1.0, [7.0, 7.5, 9.0]) == pytest.approx([0.0, 0.5, 2.0])
    assert times(4.0, [7.0, 7.5, 9.0]) == pytest.approx([0.0, 0.125, 0.5])


def test_steps_of_the_clock_and_long_pauses_are_not_waited_for() -> None:
    year = 3600.0 * 24 * 365
    assert times(1.0, [0.0, 1.0, year, year + 1.0]) == pytest.approx([0.0, 1.0, 1.0, 2.0])
    assert times(1.0, [year, 0.0, 0.5]) == pytest.approx([0.0, 0.0, 0.5])
    longest_s = PREVIEW_PAUSE_NS / 1e9
    assert times(1.0, [0.0, longest_s])[1] == pytest.approx(longest_s)


def test_stopping_ends_the_waiting() -> None:
    stop = threading.Event()
    pacer = Pacer(1.0, stop)
    stop.set()
    pacer(at(0.0))
    pacer(at(4.0))  # returns at once, else the suite's timeout strikes
