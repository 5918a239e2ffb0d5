"""Messages of made-up clocks, and what a ClockFinder makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes, TopicClock

MS = 1_000_000
SECOND = 1000 * MS
WALL = 1_773_483_630 * SECOND
MONOTONIC = 137 * SECOND


@dataclass(slots=True, eq=False)
class Sent(MessageTimes):
    """A message that knows its true time."""

    true_ns: int

    @classmethod
    def of(cls, true_ns: int, times: MessageTimes) -> Sent:
        return cls(times.topic, times.stamp_ns, times.publish_ns, times.receive_ns, true_ns)


Event = Sent | Boundary
Made = list[tuple[int, MessageTimes]]
"""(true time, times) of one topic."""


def stream(
    topic: str,
    hz: float,
    seconds: float,
    *,
    stamp: Callable[[int], int],
    latency_ms: float,
    jitter_ms: float = 5.0,
    start_ns: int = 0,
    step: Callable[[int], int] = lambda _: 0,
) -> list[tuple[int, MessageTimes]]:
    """(true time, times) of one topic; ``stamp`` and ``step`` are functions of the true time from 0."""
    rng = random.Random(topic)
    made = []
    for n in range(int(seconds * hz)):
        true_ns = start_ns + round(n * 1e9 / hz)
        late = round((latency_ms + rng.uniform(0, jitter_ms)) * MS)
        receive = WALL + true_ns + late + step(true_ns + late)
        made.append((true_ns, MessageTimes(topic, stamp(true_ns), receive, receive)))
    return made


def wall(true_ns: int) -> int:
    return WALL + true_ns


def monotonic(true_ns: int) -> int:
    return MONOTONIC + true_ns


def run(
    *streams: list[tuple[int, MessageTimes]], finder: ClockFinder[Sent] | None = None
) -> tuple[list[Event], list[TopicClock]]:
    finder = finder or ClockFinder()
    arrivals = sorted((m for s in streams for m in s), key=lambda m: m[0])
    events: list[Event] = []
    for true_ns, times in arrivals:
        events += finder.feed(Sent.of(true_ns, times))
    events += finder.flush()
    return events, finder.findings


def errors(events: Iterable[Event], topic: str, base: int = WALL) -> list[int]:
    return [
        e.time_ns - (base + e.true_ns)
        for e in events
        if isinstance(e, Sent) and e.topic == topic and e.refusal is None
    ]
