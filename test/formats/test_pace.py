"""Work that waits rests between its parts, until somebody waits for it."""

from __future__ import annotations

import threading
import time

import pytest

from edgefirst_ros.formats.pace import SHARE, Pace, rest


class Clocks:
    """Computing takes what a test says; every rest is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.computed_s = 0.0
        self.rests: list[float] = []
        monkeypatch.setattr("edgefirst_ros.formats.pace.time.thread_time", lambda: self.computed_s)

    def watch(self, pace: Pace) -> Pace:
        pace._hurried.wait = self._rested  # type: ignore[method-assign]
        return pace

    def _rested(self, timeout: float | None = None) -> bool:
        self.rests.append(timeout or 0.0)
        return False


def test_it_rests_in_proportion_to_what_it_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    with clocks.watch(Pace()).kept():
        for _ in range(1000):
            clocks.computed_s += 0.0001
            rest()
    assert sum(clocks.rests) == pytest.approx(0.1 * (1 / SHARE - 1), rel=0.05)
    assert max(clocks.rests) < 0.01


def test_nothing_rests_that_need_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(monkeypatch)
    pace = clocks.watch(Pace())

    def elsewhere() -> None:
        clocks.computed_s += 1.0
        rest()

    with pace.kept():
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
        assert not clocks.rests
    elsewhere()
    assert not clocks.rests


def test_once_it_is_waited_for_it_rests_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for one who does not rest, nor for one who is hurried later."""
    clocks = Clocks(monkeypatch)
    session, sequence = Pace(), clocks.watch(Pace())
    sequence.awaited_at(session)
    with sequence.kept():
        for hurried, rests in ((False, 1), (True, 1)):
            if hurried:
                session.hurry()
            clocks.computed_s += 1.0
            rest()
            assert len(clocks.rests) == rests
    other = Pace()
    other.awaited_at(None)
    assert other.is_hurried


def test_a_rest_ends_when_somebody_waits() -> None:
    pace, resting = Pace(), threading.Event()

    def work() -> None:
        with pace.kept():
            pace._rested_s -= 1e6
            resting.set()
            rest()

    thread = threading.Thread(target=work)
    thread.start()
    resting.wait()
    time.sleep(0.01)
    pace.hurry()
    thread.join(60)
    assert not thread.is_alive()
