from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.track import Track


def line(start: float, end: float, fraction: float) -> float:
    return start + (end - start) * fraction


def track(*times: int, max_gap_ns: int = 50, hold_ns: int = 20) -> Track[float]:
    made: Track[float] = Track(line, max_gap_ns=max_gap_ns, hold_ns=hold_ns)
    for time_ns in times:
        made.add(time_ns, time_ns * 10.0)
    return made


def test_nothing_is_known_of_nothing() -> None:
    assert track().at(0) is None
    assert not track().covers(0)
    assert track().nearest_ns(0) is None
    track().forget(100)


@pytest.mark.parametrize(
    ("time_ns", "value"),
    [
        (79, None),
        (80, 1000),
        (99, 1000),
        (100, 1000),
        (125, 1250),
        (150, 1500),
        (170, 1500),
        (171, None),
        (180, 2010),
        (181, 2010),
        (201, 2010),
        (221, 2010),
        (222, None),
    ],
)
def test_ends_are_held_and_gaps_are_not_bridged(time_ns: int, value: float | None) -> None:
    made = track(100, 150, 201)
    if time_ns == 180:
        value = None
    assert made.at(time_ns) == value
    assert made.covers(time_ns) == (value is not None)


def test_in_a_gap_the_nearer_end_is_held() -> None:
    made = track(0, 30, max_gap_ns=10, hold_ns=20)
    assert [made.at(time_ns) for time_ns in (14, 15, 16)] == [0, 0, 300]
    assert [made.nearest_ns(time_ns) for time_ns in (-5, 14, 15, 16, 99)] == [0, 0, 0, 30, 30]


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
    assert made.covers(time_ns) == (value is not None)
    for later in times[known:]:
        made.add(later, later * 10.0)
    if settled:
        assert made.at(time_ns) == value


@given(TIMES.filter(bool), st.integers(-20, 330))
def test_settled_is_not_late(times: list[int], time_ns: int) -> None:
    made = track(*times)
    last = times[-1]
    assert made.settled(time_ns, last) == (last >= time_ns)
    assert made.settled(time_ns, max(time_ns + 21, last + 51))


@given(TIMES, st.integers(0, 330), st.integers(0, 330))
def test_forgetting_changes_nothing_that_is_asked_later(times: list[int], before: int, after: int) -> None:
    whole, cut = track(*times), track(*times)
    cut.forget(before)
    time_ns = before + after
    assert cut.at(time_ns) == whole.at(time_ns)
    assert cut.nearest_ns(time_ns) == whole.nearest_ns(time_ns)
    assert cut.settled(time_ns, 400) == whole.settled(time_ns, 400)
    assert len(cut) <= sum(time >= before for time in times) + 1
