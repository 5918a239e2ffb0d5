"""How far another clock is off: from the promptest messages of its topics and the latency usual for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SPREAD = 0.5
LEAST_SPREAD_NS = 2_000_000
"""A usual latency is taken to be right within half of itself, but not closer than this."""
TAIL = 3
"""The least of a sample is as sure as the messages that follow it are near: so many are looked at."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock that stamps: add ``offset_ns`` to its stamps for the recording's time.

    ``uncertainty_ns`` is how far off that may be; None where nothing tells, because no latency of its topics
    is known: the offset is then late by the least of them.
    """

    offset_ns: int
    uncertainty_ns: int | None


RECORDINGS_OWN = Clock(0, 0)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Receive − stamp of one topic's messages, and its usual least time from acquisition to receipt."""

    receive_minus_stamp_ns: npt.NDArray[np.int64]
    latency_ns: int | None

    @property
    def least_ns(self) -> int:
        """Of the promptest message."""
        return int(self.receive_minus_stamp_ns.min())

    @property
    def spread_ns(self) -> int:
        """How far the usual latency may be off on this device."""
        return max(LEAST_SPREAD_NS, round(SPREAD * (self.latency_ns or 0)))

    def offset(self) -> tuple[int, float] | None:
        """The offset that this topic alone tells and its uncertainty, both in ns; None without a latency.

        The least of a sample is later than the least there can be, by about its distance to the next
        (Robson and Whitlock's estimator of an end point).
        """
        if self.latency_ns is None:
            return None
        lowest = np.sort(self.receive_minus_stamp_ns)[: TAIL + 1]
        count = len(self.receive_minus_stamp_ns)
        step = float(lowest[1] - lowest[0]) * (count - 1) / count if count > 1 else 0.0
        offset_ns = int(lowest[0]) - round(min(step, self.spread_ns)) - self.latency_ns
        return offset_ns, float(np.hypot(self.spread_ns, lowest[-1] - lowest[0]))


def estimate(topics: Sequence[Arrivals], own: Sequence[Arrivals] = ()) -> Clock:
    """The clock that stamps these topics.

    Each topic with a usual latency tells an offset; they are weighed by their certainty, so the promptest
    sensor decides. They are of one device, so many are no surer than the surest. The offset is never later
    than the promptest message allows: nothing is received before it was acquired.

    Args:
        topics: of this clock, at least one.
        own: topics of the recording's own clock, whose latencies are seen. Where all of them are later than
            they can usually be, these may be as well.
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
    seen = [each.least_ns - (each.latency_ns + each.spread_ns) for each in own if each.latency_ns is not None]
    late_ns = max(0, min(seen)) if len(seen) > 1 else 0
    return Clock(
        min(latest_ns, told[0][0] + round(mean)),
        round(max(float(sigmas.min()), scatter)) + late_ns,
    )
