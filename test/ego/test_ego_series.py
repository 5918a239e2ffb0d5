"""Rows by time: what is read equals what was added, wherever it lies, and lies on lines in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ego_drives import from_yaw
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.ego.geometry import Series

NUMBERS = np.random.default_rng(0).normal(size=(3089, 3))
GAP_NS = 50


def filled(most_bytes: int, part: int = 100) -> Series:
    rows = Series(3, most_bytes=most_bytes)
    for start in range(0, len(NUMBERS), part):
        some = NUMBERS[start : start + part]
        rows.extend(range(start, start + len(some)), some.ravel().tolist())
    return rows


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@given(st.integers(0, len(NUMBERS)), st.integers(0, len(NUMBERS) + 5), st.sampled_from([0, 24_000, 1 << 20]))
def test_any_part_is_what_was_added(start: int, stop: int, most_bytes: int) -> None:
    np.testing.assert_array_equal(filled(most_bytes).part(start, stop), NUMBERS[start : max(start, stop)])


@pytest.mark.parametrize("most_bytes", [0, 24_000, 1 << 20])
def test_rows_are_what_was_added(most_bytes: int) -> None:
    rows = filled(most_bytes)
    assert len(rows) == len(NUMBERS)
    for index in (0, len(NUMBERS) - 1, 1024, 1023, 5):
        np.testing.assert_array_equal(rows.part(index, index + 1)[0], NUMBERS[index])


def test_what_memory_may_not_hold_is_in_a_file_that_vanishes() -> None:
    before = open_files()
    rows = filled(24_000_000)
    assert open_files() == before
    rows = filled(24_000)
    assert open_files() == before + 1
    del rows
    assert open_files() == before


@pytest.mark.parametrize("most_bytes", [0, 1 << 20])
def test_what_is_cut_and_forgotten_is_gone(most_bytes: int) -> None:
    rows = filled(most_bytes)
    rows.cut(2500)
    rows.extend(range(2500, 2600), -NUMBERS[:100])
    rows.forget(2000)
    assert rows.times_ns.tolist() == list(range(2000, 2600))
    np.testing.assert_array_equal(rows.part(0, 600), np.concatenate([NUMBERS[2000:2500], -NUMBERS[:100]]))


def track(*times: int) -> Series:
    """Ten a nanosecond, turning by a thousandth of a radian in each."""
    made = Series(5)
    for time_ns in times:
        made.add(time_ns, (*from_yaw(time_ns / 1000), time_ns * 10.0))
    return made


def value(series: Series, time_ns: int) -> list[float] | None:
    found = series.at(time_ns, GAP_NS)
    return None if found is None else found.tolist()


@pytest.mark.parametrize("time_ns", [99, 100, 125, 150, 151, 200, 201, 202])
def test_ends_are_not_held_and_gaps_are_not_bridged(time_ns: int) -> None:
    known = time_ns in {100, 125, 150, 201}
    expected = [*from_yaw(time_ns / 1000), time_ns * 10.0]
    assert value(track(100, 150, 201), time_ns) == (pytest.approx(expected, abs=1e-12) if known else None)


def test_the_past_cannot_be_rewritten() -> None:
    made = track(0, 10)
    assert not made.add(10, [-1.0] * 5)
    assert not made.add(5, [-1.0] * 5)
    assert len(made) == 2


TIMES = st.lists(st.integers(0, 300), unique=True, max_size=12).map(sorted)


@given(TIMES, st.integers(0, 12), st.integers(-20, 330))
def test_what_is_settled_does_not_change(times: list[int], known: int, time_ns: int) -> None:
    made = track(*times[:known])
    coming = times[known] if known < len(times) else 10_000
    settled, before = time_ns <= made.final_ns(coming, GAP_NS), value(made, time_ns)
    for later in times[known:]:
        made.add(later, (*from_yaw(later / 1000), later * 10.0))
    if settled:
        assert value(made, time_ns) == before
