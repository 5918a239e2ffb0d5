"""Times of receipt: the middleware's, the wall clock's, or a simulation's."""

from __future__ import annotations

import pytest

from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.nodes.receiving import TOO_EARLY, WAITING_MESSAGES, ReceiveClock

WALL_NS = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


class Bench:
    """A receipt, and the clock that it looks at."""

    def __init__(self, simulated_ns: int | None) -> None:
        self.simulated_ns = simulated_ns
        self.put: list[RawMessage] = []
        self.clock = ReceiveClock(lambda: self.simulated_ns, lambda: WALL_NS)

    def take(self, topic: str, received_ns: int = WALL_NS - 5, published_ns: int = WALL_NS - 9) -> None:
        message = RawMessage(topic, "a/msg/B", b"1234", received_ns, published_ns, 0)
        self.clock.deliver(message, self.put.append)

    @property
    def times(self) -> list[tuple[str, int, int]]:
        return [(m.topic, m.receive_ns, m.publish_ns) for m in self.put]


@pytest.mark.parametrize(
    ("received_ns", "published_ns", "expected"),
    [
        (WALL_NS - 5, WALL_NS - 9, (WALL_NS - 5, WALL_NS - 9)),
        (WALL_NS - 5, 0, (WALL_NS - 5, WALL_NS - 5)),
        (7, WALL_NS - 9, (WALL_NS, WALL_NS - 9)),
        (WALL_NS + 1, 0, (WALL_NS, WALL_NS)),
    ],
    ids=["as the middleware says", "no publish time", "another clock", "the future"],
)
def test_without_simulation_times_are_the_middlewares(
    received_ns: int, published_ns: int, expected: tuple[int, int]
) -> None:
    bench = Bench(None)
    bench.take("a", received_ns, published_ns)
    assert bench.times == [("a", *expected)]


def test_with_simulation_both_times_are_of_its_clock() -> None:
    bench = Bench(3 * SECOND)
    bench.take("a")
    bench.simulated_ns = 2 * SECOND  # reset
    bench.take("b")
    assert bench.times == [("a", 3 * SECOND, 3 * SECOND), ("b", 2 * SECOND, 2 * SECOND)]


def test_what_comes_before_the_clock_waits_for_it_and_stays_in_order() -> None:
    bench = Bench(0)
    bench.take("tf_static")
    bench.take("info")
    assert bench.times == []
    bench.simulated_ns = 50
    bench.take("camera")
    assert bench.times == [("tf_static", 50, 50), ("info", 50, 50), ("camera", 50, 50)]
    assert all(not m.fault and m.data for m in bench.put)


def test_what_waited_in_vain_or_had_no_room_is_refused_and_not_lost() -> None:
    bench = Bench(0)
    for number in range(WAITING_MESSAGES + 3):
        bench.take(f"t{number}")
    assert [m.topic for m in bench.put] == ["t0", "t1", "t2"]
    bench.clock.release(0)
    assert len(bench.put) == WAITING_MESSAGES + 3
    assert {m.fault for m in bench.put} == {TOO_EARLY}
