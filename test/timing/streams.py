"""Messages of made-up clocks, and what a ClockFinder makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from edgefirst_ros.timing.clock import Boundary, ClockFinder, Timed
from edgefirst_ros.timing.finding import Finding, Times

MS = 1_000_000
SECOND = 1000 * MS
WALL = 1_773_483_630 * SECOND
MONOTONIC = 137 * SECOND

Event = Timed[int] | Boundary
Made = list[tuple[int, Times]]
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
) -> list[tuple[int, Times]]:
    """(true time, times) of one topic; ``stamp`` and ``step`` are functions of the true time from 0."""
    rng = random.Random(topic)
    made = []
    for n in range(int(seconds * hz)):
        true_ns = start_ns + round(n * 1e9 / hz)
        late = round((latency_ms + rng.uniform(0, jitter_ms)) * MS)
        receive = WALL + true_ns + late + step(true_ns + late)
        made.append((true_ns, Times(topic, stamp(true_ns), receive, receive)))
    return made


def wall(true_ns: int) -> int:
    return WALL + true_ns


def monotonic(true_ns: int) -> int:
    return MONOTONIC + true_ns


def run(
    *streams: list[tuple[int, Times]], finder: ClockFinder[int] | None = None
) -> tuple[list[Event], list[Finding]]:
    finder = finder or ClockFinder()
    arrivals = sorted((m for s in streams for m in s), key=lambda m: m[0])
    events: list[Event] = []
    for true_ns, times in arrivals:
        events += finder.feed(true_ns, times)
    events += finder.flush()
    return events, finder.findings


def errors(events: Iterable[Event], topic: str, base: int = WALL) -> list[int]:
    return [
        e.time_ns - (base + e.item)
        for e in events
        if isinstance(e, Timed) and e.times.topic == topic and e.refusal is None
    ]
