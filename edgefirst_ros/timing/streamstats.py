"""How one topic went by: count, span, rate, latency and gaps."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgefirst_ros.timing.gaps import GapCounter


@dataclass(slots=True)
class StreamStats:
    """How one topic went by, for the report."""

    topic: str
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    latency_ns: int = 0
    """From acquisition to receipt, of the newest message."""
    gaps: GapCounter = field(default_factory=GapCounter)

    def add(self, time_ns: int, receive_ns: int) -> None:
        """Count one message, in order of time."""
        self.first_ns = time_ns if self.count == 0 else self.first_ns
        self.last_ns = time_ns
        self.latency_ns = receive_ns - time_ns
        self.count += 1

    @property
    def rate_hz(self) -> float:
        """Mean rate over the time between first and last."""
        span_ns = self.last_ns - self.first_ns
        return (self.count - 1) * 1e9 / span_ns if span_ns > 0 else 0.0
