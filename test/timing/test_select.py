"""Which frames are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.timing.align import Selection


def kept(selection: Selection, times: list[int], usable: set[int] | None = None) -> list[int]:
    chosen = []
    for frame, time_ns in enumerate(times):
        if selection.wants(frame, time_ns, keyframe=frame % 30 == 0) and (usable is None or frame in usable):
            selection.took(time_ns)
            chosen.append(frame)
    return chosen


@pytest.mark.parametrize(("rate_hz", "step"), [(1.0, 30), (10.0, 3), (15.0, 2), (30.0, 1), (60.0, 1)])
@given(jitter=st.lists(st.integers(-4_000_000, 4_000_000), min_size=90, max_size=90))
def test_a_rate_that_divides_keeps_its_grid_in_spite_of_jitter(
    rate_hz: float, step: int, jitter: list[int]
) -> None:
    times = [round(n * 1e9 / 30) + off for n, off in enumerate(jitter)]
    assert kept(Selection(rate_hz=rate_hz), times) == list(range(0, 90, step))


def test_when_the_due_frame_cannot_be_used_the_next_that_can_is_taken_and_the_grid_stays() -> None:
    times = [round(n * 1e9 / 30) for n in range(90)]
    usable = set(range(90)) - {30, 31, 32}
    assert kept(Selection(rate_hz=1.0), times, usable) == [0, 33, 60]


def test_every_nth_and_keyframes() -> None:
    times = list(range(0, 900, 10))
    assert kept(Selection(every=7), times) == list(range(0, 90, 7))
    assert kept(Selection(keyframes=True), times) == [0, 30, 60]
    assert kept(Selection(), times) == list(range(90))
