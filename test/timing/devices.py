"""A device's messages with clocks that jump, and what a ClockFinder makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from streams import MONOTONIC, MS, SECOND, WALL, Sent

from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes, Rule

LATENCY_MS = {"camera": 25, "info": 26, "gps": 120, "model": 70, "imu": 3, "radar": 15, "lidar": 60}
HZ = {"camera": 30, "info": 1, "gps": 10, "model": 15, "imu": 140, "radar": 18, "lidar": 10}
OWN, CAMERA, FOREIGN = (
    ("camera", "info", "gps", "model"),
    ("camera", "info", "model"),
    ("imu", "radar", "lidar"),
)
AT_NS = round(7.013 * SECOND)
END_S = 12.0

Arrival = tuple[int, int, MessageTimes]
"""True time of receipt and of acquisition, and what is seen of them."""
Late = Callable[[str, int, random.Random], float]
"""Milliseconds that a topic's message of some time is late by."""


def prompt(_topic: str, _time_ns: int, _pick: random.Random) -> float:
    return 0.0


def drive(
    topics: Sequence[str] = OWN + FOREIGN,
    *,
    stepped: Sequence[str] = (),
    by_ms: float = 0,
    receiver_ms: float = 0,
    jitter: float = 1.0,
    stamp_jitter: float = 0.0,
    late_ms: Late = prompt,
    seed: int = 0,
    hz: dict[str, float] | None = None,
) -> list[Arrival]:
    """A device's messages by receipt; ``stepped`` stamps and the receiver's clock jump at ``AT_NS``."""
    made: list[Arrival] = []
    rates = hz or HZ
    for topic in topics:
        pick = random.Random(f"{seed} {topic}")
        base, heard = WALL if topic in OWN else MONOTONIC, 0
        for number in range(round(END_S * rates[topic])):
            off = pick.uniform(-stamp_jitter, stamp_jitter) if topic != "info" else 0
            true = round((number + 0.2 + off) * SECOND / rates[topic])
            latency = LATENCY_MS[topic] * (1 + jitter * max(0.0, pick.gauss(0.15, 0.2)))
            latency += late_ms(topic, true, pick)
            heard = max(heard + 1000, true + round(latency * MS))
            stamp = base + true + (round(by_ms * MS) if topic in stepped and true >= AT_NS else 0)
            receive = WALL + heard + (round(receiver_ms * MS) if heard >= AT_NS else 0)
            made.append((heard, true, MessageTimes(topic, stamp, receive, receive)))
    return sorted(made, key=lambda m: (m[0], m[2].topic))


class Judged:
    """What a ClockFinder made of a drive."""

    def __init__(self, arrivals: Sequence[Arrival], rules: dict[str, Rule] | None = None) -> None:
        self.told: list[str] = []
        self.reasons: list[str] = []
        self.found_ns: list[int] = []
        self.timed: list[tuple[int, str, int, int]] = []
        """Sequence, topic, true time, time found less true time."""
        self.refused: list[Sent] = []
        self.held_ns: list[int] = []
        """For how long messages waited for their time, once the clocks were known."""
        finder: ClockFinder[Sent] = ClockFinder(tell=self.told.append)
        for topic, rule in (rules or {}).items():
            finder.rule(topic, rule)
        for heard, true, times in arrivals:
            self._take(finder.feed(Sent.of(true, times)), heard)
        self._take(finder.flush(), 0)
        assert len(self.timed) == len(arrivals), "every message comes out once"

    def _take(self, events: Any, heard_ns: int) -> None:  # noqa: ANN401 - an iterator of events
        for event in events:
            if isinstance(event, Boundary):
                self.reasons.append(event.reason)
                self.found_ns.append(heard_ns)
            else:
                assert isinstance(event, Sent)
                off = event.time_ns - WALL - event.true_ns
                if event.refusal:
                    self.refused.append(event)
                if heard_ns and event.true_ns > 4 * SECOND:
                    self.held_ns.append(heard_ns - event.true_ns)
                self.timed.append((len(self.reasons), event.topic, event.true_ns, off))

    def wrong(self, wall_ms: float = 0, but: Sequence[str] = ()) -> list[tuple[int, str, int, int]]:
        """Messages more than 5 ms from where their topic's first one says; the axis may move."""
        first: dict[str, int] = {}
        found = []
        for sequence, topic, true, raw in self.timed:
            off = raw - round(wall_ms * MS) * (sequence > 0)
            if abs(off - first.setdefault(topic, off)) > 5 * MS and topic not in but:
                found.append((sequence, topic, true, off))
        return found
