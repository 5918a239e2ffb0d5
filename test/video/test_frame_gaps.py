"""Holes in the stamps."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.loss import FrameMark, GapDetector

STEP = 40


def walk(
    times: list[int], *, keys: set[int], pocs: list[int | None] | None = None, modulus: int = 64
) -> list[int]:
    """The times held back, each asked for when what is within ten intervals after it has arrived."""
    line = GapDetector(10 * STEP)
    for place, time_ns in enumerate(times):
        line.add(FrameMark(time_ns, time_ns in keys, pocs[place] if pocs else None, modulus))
    held = []
    for time_ns in times:
        held += [passed for passed, reason in line.walk(time_ns) if reason]
    return held


def test_from_a_hole_to_the_next_key_frame_frames_are_held() -> None:
    times = [STEP * n for n in range(20) if n != 7]
    assert walk(times, keys={0, 10 * STEP}) == [STEP * 8, STEP * 9]


@pytest.mark.parametrize("lost", [1, 2, 18])
def test_holes_near_the_ends_are_seen(lost: int) -> None:
    times = [STEP * n for n in range(20) if n != lost]
    assert walk(times, keys={0}) == [STEP * n for n in range(lost + 1, 20)]


def test_a_lost_key_frame_holds_its_whole_group() -> None:
    times = [STEP * n for n in range(30) if n != 10]
    assert walk(times, keys={0, STEP * 20}) == [STEP * n for n in range(11, 20)]


@pytest.mark.parametrize(("gap", "held"), [(59, False), (61, True)])
def test_one_and_a_half_intervals_are_a_hole(gap: int, held: bool) -> None:
    times = [STEP * n for n in range(10)] + [STEP * 9 + gap + STEP * n for n in range(10)]
    assert bool(walk(times, keys={0})) is held


def test_a_count_that_runs_on_proves_that_nothing_was_lost() -> None:
    times = [STEP * n for n in range(20) if n != 7]
    assert walk(times, keys={0}, pocs=[2 * n % 64 for n in range(19)]) == []
    assert walk(times, keys={0}, pocs=[2 * n % 64 for n in range(20) if n != 7]) == times[7:]
    assert walk(times, keys={0}, pocs=[None if n == 7 else 2 * n % 64 for n in range(19)]) == times[7:]


def test_a_count_that_may_have_wrapped_proves_nothing() -> None:
    times = [STEP * n for n in range(50) if not 7 <= n < 39]
    assert walk(times, keys={0}, pocs=[2 * n % 64 for n in range(50) if not 7 <= n < 39]) == times[7:]


def test_half_the_frame_rate_is_learnt() -> None:
    fast = [STEP * n for n in range(40)]
    slow = [fast[-1] + 2 * STEP * n for n in range(1, 60)]
    keys = {time_ns for place, time_ns in enumerate(fast + slow) if place % 10 == 0}
    held = walk(fast + slow, keys=keys)
    assert held
    assert held[-1] < slow[30]


@given(st.lists(st.integers(0, 15), min_size=30, max_size=60))
def test_without_a_hole_nothing_is_held(jitter: list[int]) -> None:
    # 40 ± 15 is at most 55, and the median of the spacing at least 37.
    times = [STEP * n + (shift if n % 2 else 0) for n, shift in enumerate(jitter)]
    spacing = sorted(later - time_ns for time_ns, later in pairwise(times))
    if max(spacing) * 2 <= 3 * spacing[0]:
        assert walk(times, keys={0}) == []


def test_frames_may_be_added_in_any_order_ahead_of_the_walk() -> None:
    line = GapDetector(10 * STEP)
    for number in (3, 0, 2, 5, 1):
        line.add(FrameMark(STEP * number, number == 0, None, 1))
    assert line.walked_ns is None
    assert line.walk(2 * STEP) == [(0, None), (STEP, None), (2 * STEP, None)]
    assert line.walked_ns == 2 * STEP
    assert line.walk(9 * STEP) == [(3 * STEP, None), (5 * STEP, Reason.AFTER_LOSS)]
    assert line.interval_ns() == STEP


def test_a_single_frame_has_no_interval() -> None:
    line = GapDetector(STEP)
    line.add(FrameMark(0, key=True, poc=None, poc_modulus=1))
    assert line.walk(0) == [(0, None)]
    assert line.interval_ns() is None
