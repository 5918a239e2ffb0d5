"""Order of arrival within the window changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.timing.align import Reorder


@given(
    times=st.lists(st.integers(0, 10_000), min_size=1, max_size=60, unique=True),
    jitter=st.lists(st.integers(0, 999), min_size=60, max_size=60),
)
def test_arrival_within_the_window_leaves_in_order_of_time(times: list[int], jitter: list[int]) -> None:
    arrivals = sorted(zip(times, jitter, strict=False), key=lambda pair: pair[0] + pair[1])
    reorder: Reorder[int] = Reorder(1000)
    left = []
    for number, (time_ns, _) in enumerate(arrivals):
        assert reorder.push(time_ns, "t", number, time_ns)
        left += reorder.pop()
    left += reorder.flush()
    assert left == sorted(times)


def test_an_item_that_is_too_late_is_refused_and_not_kept() -> None:
    reorder: Reorder[str] = Reorder(10)
    reorder.push(0, "t", 0, "a")
    reorder.push(100, "t", 1, "b")
    reorder.push(120, "t", 2, "c")
    assert list(reorder.pop()) == ["a", "b"]
    assert not reorder.push(99, "t", 3, "late")
    assert reorder.push(100, "t", 4, "just in time")
    assert list(reorder.flush()) == ["just in time", "c"]


def test_items_stay_until_nothing_earlier_can_come() -> None:
    reorder: Reorder[str] = Reorder(10)
    reorder.push(0, "t", 0, "a")
    reorder.push(10, "t", 1, "b")
    assert list(reorder.pop()) == []
    reorder.push(11, "t", 2, "c")
    assert list(reorder.pop()) == ["a"]


def test_of_too_many_bytes_the_first_leave_early() -> None:
    reorder: Reorder[str] = Reorder(1000, most_bytes=250)
    for number, name in enumerate("abcd"):
        reorder.push(number, "t", number, name, size=100)
    assert list(reorder.pop()) == ["a", "b"]
    assert not reorder.push(0, "t", 9, "late", size=100)
    assert list(reorder.flush()) == ["c", "d"]
