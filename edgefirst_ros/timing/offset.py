"""Estimates another clock's offset from the promptest messages of its topics and their usual latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SPREAD = 0.5
LEAST_SPREAD_NS = 2_000_000
"""A usual latency is trusted to within half of itself, but never to better than this."""
TAIL = 3
"""The minimum of a sample is as certain as the next this many values are close to it."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that stamps: add ``offset_ns`` to its stamps for the recording's time.

    ``uncertainty_ns`` is the offset's uncertainty. It is None if no latency of the clock's topics is known;
    then the offset is too large by the least latency.
    """

    offset_ns: int
    uncertainty_ns: int | None


RECORDINGS_OWN = Clock(0, 0)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Receive − stamp of a topic's messages, and the topic's usual least latency, None if not known."""

    receive_minus_stamp_ns: npt.NDArray[np.int64]
    latency_ns: int | None

    @property
    def least_ns(self) -> int:
        """Receive − stamp of the promptest message."""
        return int(self.receive_minus_stamp_ns.min())

    @property
    def spread_ns(self) -> int:
        """Uncertainty of the usual latency on this device."""
        return max(LEAST_SPREAD_NS, round(SPREAD * (self.latency_ns or 0)))

    def offset(self) -> tuple[int, float] | None:
        """Offset and uncertainty in ns as estimated from this topic alone; None without a usual latency.

        A sample's minimum exceeds the true minimum by about its distance to the second smallest value
        (Robson and Whitlock's estimator of an end point).
        """
        if self.latency_ns is None:
            return None
        lowest = np.sort(self.receive_minus_stamp_ns)[: TAIL + 1]
        count = len(self.receive_minus_stamp_ns)
        step = float(lowest[1] - lowest[0]) * (count - 1) / count if count > 1 else 0.0
        offset_ns = int(lowest[0]) - round(min(step, self.spread_ns)) - self.latency_ns
        return offset_ns, float(np.hypot(max(self.spread_ns, self.unsteady_ns), lowest[-1] - lowest[0]))

    @property
    def unsteady_ns(self) -> int:
        """By how much even the promptest message may be later than usual, as most are later by twice that.

        The least latency of a bad wireless link is not that of a cable, which the usual one is of.
        """
        return int(np.median(self.receive_minus_stamp_ns) - self.receive_minus_stamp_ns.min()) // 2

    def apart_ns(self, clock: Clock) -> int:
        """How much farther than the usual latency is certain the messages come from that by a clock."""
        told = self.offset()
        return 0 if told is None else max(0, abs(told[0] - clock.offset_ns) - round(told[1]))


def estimate(topics: Sequence[Arrivals], own: Sequence[Arrivals] = ()) -> Clock:
    """Estimate the clock that stamps these topics.

    Each topic with a usual latency gives an offset. These are averaged with inverse-variance weights, so the
    promptest sensor dominates. As all are of one device, the average is not taken to be more certain than
    the best of them. The offset never exceeds what the promptest message allows, since nothing is received
    before it was acquired.

    Args:
        topics: of this clock, at least one.
        own: topics of the recording's own clock, whose latencies can be measured. If all of them differ from
            their usual latency, the receiver may be late or its clock be another, and the uncertainty grows.
    """
    latest_ns = min(each.least_ns for each in topics)
    told = [offset for each in topics if (offset := each.offset()) is not None]
    if not told:
        return Clock(latest_ns, None)
    # Relative to the first: nanoseconds since 1970 have no place in a float.
    about = np.array([float(offset_ns - told[0][0]) for offset_ns, _ in told])
    sigmas = np.array([sigma_ns for _, sigma_ns in told])
    weights = sigmas**-2.0
    mean = float(np.average(about, weights=weights))
    scatter = float(np.sqrt(np.average((about - mean) ** 2, weights=weights)))
    seen = [each.least_ns - each.latency_ns for each in own if each.latency_ns is not None]
    apart_ns = min(seen, key=abs) if seen else 0
    return Clock(
        min(latest_ns, told[0][0] + round(mean)),
        round(float(np.hypot(max(float(sigmas.min()), scatter), apart_ns))),
    )
