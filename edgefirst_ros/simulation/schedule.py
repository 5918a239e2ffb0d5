"""When each message was acquired, what its stamp says and when the recorder got it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.simulation.options import DriveOptions, of_topic

Times = npt.NDArray[np.int64]

UPTIME_NS = 137_251_000_000
SERVICE_AGE_NS = 41_000_000_000
CAMERA_FIRST_NS = 20_000_000
EPOCH_GAP_NS = 40_000_000
REPEATED_NS = 1_000_000
"""How much later than the first a message recorded twice is received again."""


@dataclass(slots=True)
class Channel:
    """One topic of the recording: times by message in ns, and how to make its i-th message.

    ``encode`` is called once a message, in order, and may correct the message's true time and stamp:
    which picture an access unit holds shows only when the encoder gives it. ``made`` is the measurement that
    each message holds: those not sent are missing from it, those sent twice are in it twice.
    """

    name: str
    schema: str
    true_ns: Times
    stamp_ns: Times
    log_ns: Times
    made: Times
    encode: Callable[[int], bytes]


class Schedule:
    """Makes the times of channels, each from its own random series, so that none disturbs another."""

    def __init__(self, options: DriveOptions) -> None:
        self._options = options
        self.realtime_minus_monotonic_ns = options.start_ns - UPTIME_NS
        self._monotonic = self.realtime_minus_monotonic_ns if options.clock == "mixed" else 0

    def random(self, name: str) -> np.random.Generator:
        """The random series of that name."""
        return np.random.default_rng([self._options.seed, *name.encode()])

    def camera(self) -> Times:
        """Acquisition of every picture, on an exact grid."""
        count = max(1, int(self._options.seconds * self._options.fps + 1e-6))
        return (
            self._options.start_ns + CAMERA_FIRST_NS + np.arange(count) * 1_000_000_000 // self._options.fps
        )

    def periodic(self, name: str, rate_hz: float, first_ms: float) -> Times:
        """Acquisition at a rate, up to 1 % of the period late."""
        period_ns = 1e9 / rate_hz if rate_hz else math.inf
        offset_ns = np.arange(first_ms * 1e6, self._options.seconds * 1e9 if rate_hz else 0, period_ns)
        offset_ns += self.random(name).uniform(0, 0.01, len(offset_ns)) * period_ns
        return self._options.start_ns + offset_ns.astype(np.int64)

    def received(self, name: str, sensor: str, ready_ns: Times) -> Times:
        """Receipt: the least latency after acquisition, and often more; a topic's messages stay in order."""
        options = self._options
        latency_ns = of_topic(options.latency_ms, name, getattr(options.latency, sensor)) * 1e6
        jitter = self.random(name + " latency").normal(0.15, 0.2, len(ready_ns)).clip(min=0)
        jitter *= of_topic(options.jitter, name, 1.0)
        held_ns = np.rint(latency_ns * (1 + jitter)).astype(np.int64)
        share, stall_ms = of_topic(options.stalls, name, (0.0, 0.0))
        held_ns[self.random(name + " stalls").random(len(ready_ns)) < share] += round(stall_ms * 1e6)
        return np.maximum.accumulate(ready_ns + held_ns)

    def sent(self, name: str, true_ns: Times, *, kept: bool) -> Times:
        """Which of a topic's measurements are recorded, in order; one of them again if it is sent twice.

        ``kept`` topics have left out themselves what they do not send.
        """
        options = self._options
        since_s = (true_ns - options.start_ns) / 1e9
        heard = [kept or not options.is_silent(name, float(time_s)) for time_s in since_s]
        share = of_topic(options.duplicate, name, 0.0)
        twice = self.random(name + " duplicates").random(len(true_ns)) < share
        return np.repeat(np.arange(len(true_ns)), np.array(heard, np.int64) * (1 + twice))

    def channel(
        self,
        name: str,
        schema: str,
        true_ns: Times,
        encode: Callable[[int, int, float], bytes],
        *,
        sensor: str,
        monotonic: bool = False,
        frozen: bool = False,
        kept: bool = False,
    ) -> Channel:
        """A topic whose i-th message ``encode(i, stamp_ns, time_s)`` makes.

        ``monotonic`` services stamp CLOCK_MONOTONIC on a mixed drive; ``frozen`` stamps are those of the
        service's start, 41 s before the drive; ``kept`` topics know themselves when they are silent.
        """
        stamp = np.full_like(true_ns, self._options.start_ns - SERVICE_AGE_NS) if frozen else true_ns.copy()
        stamp -= self._monotonic if monotonic else 0
        since_s = (true_ns - self._options.start_ns) / 1e9
        made = self.sent(name, true_ns, kept=kept)
        again = np.diff(made, prepend=-1) == 0
        log = np.maximum.accumulate(self.received(name, sensor, true_ns)[made] + REPEATED_NS * again)
        last = b""

        def message(index: int) -> bytes:
            nonlocal last
            if not again[index]:
                i = int(made[index])
                last = encode(i, int(stamp[i]), float(since_s[i]))
            return last

        return Channel(name, schema, true_ns[made], stamp[made], log, made, message)


def thinned(times: Times, from_hz: float, to_hz: float) -> Times:
    """Indices of the messages that remain when a rate is thinned to a lower one, the first included."""
    if not (from_hz and to_hz):
        return np.empty(0, np.int64)
    turn = np.floor(np.arange(len(times)) * to_hz / from_hz + 1e-9)
    return np.flatnonzero(np.diff(turn, prepend=-1) > 0)
