"""Takes what has arrived on several subscriptions and delivers it in order of receipt; without rclpy."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple

MOST, MOST_BYTES = 100, 64_000_000
"""A batch ends at so many messages of one topic, or bytes of all: a fast topic keeps nothing else waiting."""

Taken = tuple[bytes, Mapping[str, int]]
"""A message's bytes, and what the middleware says about it (rclpy's message info)."""


class Inlet(NamedTuple):
    """Where the messages of one subscription come from and where they go."""

    take: Callable[[], Taken | None]
    """Returns the next message that has arrived, None if there is none."""
    deliver: Callable[[bytes, Mapping[str, int]], None]


def deliver_arrived(inlets: Iterable[Inlet]) -> None:
    """Deliver what has arrived, in the order of the middleware's receive times and of each topic as taken.

    Messages are taken in turns, one of each subscription, because receive times may not tell their order:
    Cyclone DDS gives the time when a message is taken, and others may give 0.
    """
    waiting: list[tuple[Inlet, list[tuple[int, int, Inlet, Taken]]]] = [(inlet, []) for inlet in inlets]
    batch = [messages for _, messages in waiting]
    size = 0
    for turn in range(MOST):
        left = []
        for inlet, messages in waiting:
            taken = inlet.take()
            if taken is not None:
                data, info = taken
                size += len(data)
                messages.append((info["received_timestamp"], turn, inlet, taken))
                left.append((inlet, messages))
        if not left or size > MOST_BYTES:
            break
        waiting = left
    for _, _, inlet, taken in heapq.merge(*filter(None, batch), key=itemgetter(0, 1)):
        inlet.deliver(*taken)
