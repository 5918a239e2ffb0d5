"""Messages that have arrived on several topics are delivered in one order, and none is left behind."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import pytest

from edgefirst_ros.nodes import receiving
from edgefirst_ros.nodes.receiving import Inlet, Taken, deliver_arrived


class Topics:
    """What waits on each topic, as receive times, and what has been delivered."""

    def __init__(self, waiting: Mapping[str, Sequence[int]]) -> None:
        self._waiting = {name: deque(times) for name, times in waiting.items()}
        self.delivered: list[tuple[str, int]] = []
        self.inlets = {name: self._inlet(name) for name in self._waiting}

    def deliver_arrived(self) -> list[tuple[str, int]]:
        self.delivered = []
        deliver_arrived(self.inlets.values())
        return self.delivered

    def _inlet(self, name: str) -> Inlet:
        def take() -> Taken | None:
            times = self._waiting[name]
            return (b"x", {"received_timestamp": times.popleft()}) if times else None

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


def test_nothing_is_taken_before_its_turn() -> None:
    """A topic that is far ahead keeps its messages in the middleware, which bounds them."""
    topics = Topics({"slow": [1, 9], "fast": range(2, 9)})
    taken: list[str] = []
    for name, inlet in topics.inlets.items():

        def take(name: str = name, take: Callable[[], Taken | None] = inlet.take) -> Taken | None:
            taken.append(name)
            return take()

        topics.inlets[name] = inlet._replace(take=take)
    assert [time for _, time in topics.deliver_arrived()] == [*range(1, 10)]
    assert taken[:4] == ["slow", "fast", "slow", "fast"]
    assert topics.deliver_arrived() == []


def test_a_topic_that_is_faster_than_taking_it_does_not_keep_timers_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiving, "MOST", 100)
    topics = Topics({"fast": range(0, 400, 2), "slow": [1]})
    assert topics.deliver_arrived()[:2] == [("fast", 0), ("slow", 1)]
    assert topics.deliver_arrived() == [("fast", 2 * n) for n in range(100, 200)]
    assert topics.deliver_arrived() == []


def test_where_receipt_is_when_a_message_is_taken_the_order_is_of_publishing() -> None:
    """Cyclone DDS; such a time of receipt is none."""
    now_ns, found = time.time_ns() + 1_000_000_000, list[tuple[int, int]]()
    waiting = {0: deque([5, 8]), 1: deque([6, 7])}

    def inlet(number: int) -> Inlet:
        def take() -> Taken | None:
            times = waiting[number]
            return (b"", _times(now_ns, times.popleft())) if times else None

        return Inlet(
            take, lambda _, info: found.append((info["source_timestamp"], info["received_timestamp"]))
        )

    deliver_arrived([inlet(0), inlet(1)])
    assert found == [(5, 0), (6, 0), (7, 0), (8, 0)]


def _times(received_ns: int, published_ns: int) -> Mapping[str, int]:
    return {"received_timestamp": received_ns, "source_timestamp": published_ns}
