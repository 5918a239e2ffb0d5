"""Messages that have arrived on several topics are delivered in one order, and none is left behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import pytest

from edgefirst_ros.nodes import receiving as receivebatch
from edgefirst_ros.nodes.receiving import BATCH_MESSAGES, Arrivals, Inlet, Taken


class Topics:
    """What waits on each topic, as receive times, and what has been delivered."""

    def __init__(self, waiting: Mapping[str, Sequence[int]], size: int = 1) -> None:
        self._waiting = {name: deque(times) for name, times in waiting.items()}
        self._size = size
        self.delivered: list[tuple[str, int]] = []
        self.arrivals = Arrivals()
        self.inlets = {name: self._inlet(name) for name in self._waiting}

    def deliver_arrived(self) -> list[tuple[str, int]]:
        self.delivered = []
        self.arrivals.deliver(self.inlets.values())
        return self.delivered

    def _inlet(self, name: str) -> Inlet:
        def take() -> Taken | None:
            times = self._waiting[name]
            return (b"x" * self._size, {"received_timestamp": times.popleft()}) if times else None

        return Inlet(take, lambda _, info: self.delivered.append((name, info["received_timestamp"])))


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        ({"a": [3, 5], "b": [1, 2, 4], "c": []}, [("b", 1), ("b", 2), ("a", 3), ("b", 4), ("a", 5)]),
        ({"a": [0, 0], "b": [0, 0, 0]}, [("a", 0), ("b", 0), ("a", 0), ("b", 0), ("b", 0)]),
        ({"a": [7, 2], "b": [1, 8]}, [("b", 1), ("a", 7), ("a", 2), ("b", 8)]),
    ],
    ids=["by receive time", "in turns without one", "a topic's own order if the clock is set back"],
)
def test_what_has_arrived_is_delivered_in_order_of_receipt(
    waiting: Mapping[str, Sequence[int]], expected: list[tuple[str, int]]
) -> None:
    assert Topics(waiting).deliver_arrived() == expected


def test_a_topic_that_is_faster_than_taking_it_does_not_keep_others_waiting() -> None:
    topics = Topics({"fast": range(0, 4 * BATCH_MESSAGES, 2), "slow": [1]})
    first = topics.deliver_arrived()
    assert (len(first), first[1]) == (BATCH_MESSAGES, ("slow", 1))
    second = topics.deliver_arrived()
    assert second == [("fast", 2 * n) for n in range(BATCH_MESSAGES - 1, 2 * BATCH_MESSAGES - 1)]
    assert topics.deliver_arrived() == [("fast", 4 * BATCH_MESSAGES - 2)]
    assert topics.deliver_arrived() == []


def test_a_batch_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivebatch, "BATCH_BYTES", 35)
    topics = Topics({"a": [1, 2, 3], "b": [1, 2, 3]}, size=10)
    assert topics.deliver_arrived() == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert topics.deliver_arrived() == [("a", 3), ("b", 3)]


def test_what_has_been_taken_of_a_subscription_that_ends_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receivebatch, "BATCH_BYTES", 0)
    topics = Topics({"a": [1], "b": [2]})
    assert topics.deliver_arrived() == [("a", 1)]
    topics.arrivals.end(topics.inlets.pop("b"))
    assert topics.delivered == [("a", 1), ("b", 2)]
    assert topics.deliver_arrived() == []
