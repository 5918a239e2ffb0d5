from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.timeseries import TimeSeries


def line(start: float, end: float, fraction: float) -> float:
    return start + (end - start) * fraction


def track(*times: int, max_gap_ns: int = 50) -> TimeSeries[float]:
    made: TimeSeries[float] = TimeSeries(line, max_gap_ns=max_gap_ns)
    for time_ns in times:
        made.add(time_ns, time_ns * 10.0)
    return made


def test_nothing_is_known_of_nothing() -> None:
    assert track().at(0) is None
    assert track().nearest(0) is None
    track().forget(100)


@pytest.mark.parametrize(
    ("time_ns", "value"),
    [(99, None), (100, 1000), (125, 1250), (150, 1500), (151, None), (200, None), (201, 2010), (202, None)],
)
def test_ends_are_not_held_and_gaps_are_not_bridged(time_ns: int, value: float | None) -> None:
    assert track(100, 150, 201).at(time_ns) == value


def test_the_nearest_is_the_earlier_of_two_equally_near() -> None:
    made = track(0, 30, max_gap_ns=10)
    assert [made.nearest(time_ns) for time_ns in (-5, 15, 16, 99)] == [(0, 0), (0, 0), (30, 300), (30, 300)]


def test_the_past_cannot_be_rewritten() -> None:
    made = track(0, 10)
    assert not made.add(10, -1)
    assert not made.add(5, -1)
    assert (made.at(10), made.at(5)) == (100, 50)


TIMES = st.lists(st.integers(0, 300), unique=True, max_size=12).map(sorted)


@given(TIMES, st.integers(0, 12), st.integers(-20, 330))
def test_what_is_settled_does_not_change(times: list[int], known: int, time_ns: int) -> None:
    made = track(*times[:known])
    coming = times[known] if known < len(times) else 10_000
    settled, value = made.settled(time_ns, coming), made.at(time_ns)
    for later in times[known:]:
        made.add(later, later * 10.0)
    if settled:
        assert made.at(time_ns) == value


@given(TIMES.filter(bool), st.integers(-20, 330))
def test_settled_is_not_late(times: list[int], time_ns: int) -> None:
    made = track(*times)
    last = times[-1]
    assert made.settled(time_ns, last) == (last >= time_ns)
    assert made.settled(time_ns, max(time_ns + 1, last + 51))


@given(TIMES, st.integers(0, 330), st.integers(0, 330))
def test_forgetting_changes_nothing_that_is_asked_later(times: list[int], before: int, after: int) -> None:
    whole, cut = track(*times), track(*times)
    cut.forget(before)
    time_ns = before + after
    assert cut.at(time_ns) == whole.at(time_ns)
    assert cut.nearest(time_ns) == whole.nearest(time_ns)
    assert cut.settled(time_ns, 400) == whole.settled(time_ns, 400)
    assert len(cut) <= sum(time >= before for time in times) + 1
