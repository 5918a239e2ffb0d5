"""Times of each message: acquisition, header stamp, and receipt by the recorder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.simulation.options import DriveOptions

Times = npt.NDArray[np.int64]

UPTIME_NS = 137_251_000_000
SERVICE_AGE_NS = 41_000_000_000
CAMERA_FIRST_NS = 20_000_000
EPOCH_GAP_NS = 40_000_000
LATENCY_MS: Mapping[str, float] = {
    "camera": 25.0, "lidar": 60.0, "radar": 15.0, "gps": 120.0, "imu": 3.0, "tf_static": 2.0, "model": 70.0,
}  # fmt: skip
"""Least time from acquisition to receipt, by sensor; jitter adds 15 % on average."""


@dataclass(slots=True)
class Channel:
    """One topic of the recording: times of its messages in ns, and the function that makes them.

    ``encode`` is called once for each message, in order, and may correct its true time and stamp, because
    only the encoder's output shows which picture an access unit holds. ``made`` has the measurement of each
    message: those not sent are missing, those sent twice occur twice.
    """

    name: str
    schema: str
    true_ns: Times
    stamp_ns: Times
    log_ns: Times
    made: Times
    encode: Callable[[int], bytes]


class Schedule:
    """Computes the times of channels, each with random numbers independent of the other channels."""

    def __init__(self, options: DriveOptions) -> None:
        self._options = options
        self.realtime_minus_monotonic_ns = options.start_ns - UPTIME_NS
        self._monotonic = self.realtime_minus_monotonic_ns if options.clock == "mixed" else 0

    def random(self, name: str) -> np.random.Generator:
        """The random generator of a name."""
        return np.random.default_rng([self._options.seed, *name.encode()])

    def camera(self) -> Times:
        """Acquisition times of the pictures, exactly periodic."""
        count = max(1, int(self._options.seconds * self._options.fps + 1e-6))
        return (
            self._options.start_ns + CAMERA_FIRST_NS + np.arange(count) * 1_000_000_000 // self._options.fps
        )

    def periodic(self, name: str, rate_hz: float, first_ms: float) -> Times:
        """Acquisition times at a rate, each delayed by up to 1 % of the period."""
        period_ns = 1e9 / rate_hz if rate_hz else math.inf
        offset_ns = np.arange(first_ms * 1e6, self._options.seconds * 1e9 if rate_hz else 0, period_ns)
        offset_ns += self.random(name).uniform(0, 0.01, len(offset_ns)) * period_ns
        return self._options.start_ns + offset_ns.astype(np.int64)

    def held_ns(self, name: str, sensor: str, count: int) -> Times:
        """Time from acquisition to receipt of a topic's messages."""
        jitter = self.random(name + " latency").normal(0.15, 0.2, count).clip(min=0)
        held_ns = LATENCY_MS[sensor] * 1e6 * (1 + jitter)
        return np.rint(held_ns).astype(np.int64)

    def stamped(
        self,
        name: str,  # noqa: ARG002 - others date some topics and sensors otherwise
        true_ns: Times,
        sensor: str,  # noqa: ARG002
        *,
        monotonic: bool = False,
        frozen: bool = False,
    ) -> Times:
        """Stamps of a topic's measurements.

        ``monotonic``: of CLOCK_MONOTONIC on a mixed drive; ``frozen``: all are the start of the service, 41 s
        before the drive.
        """
        stamp = np.full_like(true_ns, self._options.start_ns - SERVICE_AGE_NS) if frozen else true_ns.copy()
        return stamp - self._monotonic if monotonic else stamp

    def sent(self, name: str, true_ns: Times) -> Times:  # noqa: ARG002 - others send less of some topics
        """Indices of the measurements that are sent, in order."""
        return np.arange(len(true_ns))

    def units(self, name: str, times_ns: Times) -> Times:  # noqa: ARG002
        """Numbers, in decode order, of the pictures that are sent of those taken at these times."""
        return np.arange(len(times_ns))

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
    ) -> Channel:
        """A topic whose i-th message is ``encode(i, stamp_ns, time_s)``; the rest is as in ``stamped``."""
        stamp = self.stamped(name, true_ns, sensor, monotonic=monotonic, frozen=frozen)
        since_s = (true_ns - self._options.start_ns) / 1e9
        made = self.sent(name, true_ns)
        # Those of a topic stay in order.
        log_ns = np.maximum.accumulate(true_ns + self.held_ns(name, sensor, len(true_ns)))[made]

        def message(index: int) -> bytes:
            i = int(made[index])
            return encode(i, int(stamp[i]), float(since_s[i]))

        return Channel(name, schema, true_ns[made], stamp[made], log_ns, made, message)


def thinned(times: Times, from_hz: float, to_hz: float) -> Times:
    """Indices of the messages that remain at a lower rate; the first one always remains."""
    if not (from_hz and to_hz):
        return np.empty(0, np.int64)
    turn = np.floor(np.arange(len(times)) * to_hz / from_hz + 1e-9)
    return np.flatnonzero(np.diff(turn, prepend=-1) > 0)
