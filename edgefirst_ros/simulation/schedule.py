"""Times of each message: acquisition, header stamp, and receipt by the recorder."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.simulation.options import DriveOptions, of_topic
from edgefirst_ros.simulation.rig import DeviceClock

Times = npt.NDArray[np.int64]

UPTIME_NS = 137_251_000_000
SERVICE_AGE_NS = 41_000_000_000
CAMERA_FIRST_NS = 20_000_000
EPOCH_GAP_NS = 40_000_000
BY_UPTIME = {"lidar", "radar"}
"""Sensors that CLOCK_MONOTONIC stamps on a device of two clocks."""
REPEATED_NS = 1_000_000
"""Delay of the second copy of a message that is recorded twice."""


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

    def received(self, name: str, sensor: str, ready_ns: Times, device: str = "") -> Times:
        """Times of receipt, at least the latency after acquisition; those of a topic stay in order."""
        options = self._options
        latency_ns = of_topic(options.latency_ms, name, getattr(options.latency, sensor)) * 1e6
        jitter = self.random(name + " latency").normal(0.15, 0.2, len(ready_ns)).clip(min=0)
        jitter *= of_topic(options.jitter, name, 1.0)
        held_ns = np.rint(latency_ns * (1 + jitter)).astype(np.int64)
        held_ns += round(self._clock(device).late_ms * 1e6)
        share, stall_ms = of_topic(options.stalls, name, (0.0, 0.0))
        held_ns[self.random(name + " stalls").random(len(ready_ns)) < share] += round(stall_ms * 1e6)
        if options.wifi_ms is not None:
            least_ms, low_ms, high_ms = options.wifi_ms
            middle, sigma = math.sqrt(low_ms * high_ms), math.log(high_ms / low_ms) / (2 * 1.96)
            added_ms = least_ms + self.random(name + " wifi").lognormal(
                math.log(middle), sigma, len(ready_ns)
            )
            held_ns += np.rint(added_ms * 1e6).astype(np.int64)
        return np.maximum.accumulate(ready_ns + held_ns)

    def stamped(
        self,
        name: str,
        true_ns: Times,
        *,
        sensor: str = "",
        monotonic: bool = False,
        frozen: bool = False,
        device: str = "",
    ) -> Times:
        """Stamps of a topic's measurements by the clock of its device, or by that of the sensor there.

        ``monotonic``: of CLOCK_MONOTONIC on a mixed drive; ``frozen``: all are the start of the service, 41 s
        before the drive.
        """
        options, clock = self._options, self._clock(device)
        stamp = np.full_like(true_ns, options.start_ns - SERVICE_AGE_NS) if frozen else true_ns.copy()
        since_ns = true_ns - options.start_ns
        if monotonic and self._monotonic:
            stamp -= self._monotonic
            if not frozen:
                stamp -= np.rint(since_ns * options.drift_ppm / 1e6).astype(np.int64)
        if frozen:
            return stamp
        off_s = [options.stamped_off_s(name, float(time_s)) for time_s in since_ns / 1e9]
        stamp += np.rint(np.array(off_s) * 1e9).astype(np.int64)
        if clock.uptime_s is not None and sensor in BY_UPTIME:
            stamp -= options.start_ns - round(clock.uptime_s * 1e9)
        else:
            stamp += round(clock.offset_s * 1e9)
        stamp += np.rint(since_ns * clock.drift_ppm / 1e6).astype(np.int64)
        return stamp

    def _clock(self, device: str) -> DeviceClock:
        return self._options.devices.get(device, DeviceClock())

    def sent(self, name: str, true_ns: Times, *, kept: bool) -> Times:
        """Indices of the measurements that are sent, in order; those of messages sent twice occur twice.

        ``kept``: measurements at silent times have already been left out.
        """
        options = self._options
        since_s = (true_ns - options.start_ns) / 1e9
        is_sent = [kept or not options.is_silent(name, float(time_s)) for time_s in since_s]
        share = of_topic(options.duplicate, name, 0.0)
        twice = self.random(name + " duplicates").random(len(true_ns)) < share
        return np.repeat(np.arange(len(true_ns)), np.array(is_sent, np.int64) * (1 + twice))

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
        device: str = "",
    ) -> Channel:
        """A topic whose i-th message is ``encode(i, stamp_ns, time_s)``.

        ``kept``: silent times have already been left out; the others are as in ``stamped``.
        """
        stamp = self.stamped(name, true_ns, sensor=sensor, monotonic=monotonic, frozen=frozen, device=device)
        since_s = (true_ns - self._options.start_ns) / 1e9
        made = self.sent(name, true_ns, kept=kept)
        again = np.diff(made, prepend=-1) == 0
        log = np.maximum.accumulate(self.received(name, sensor, true_ns, device)[made] + REPEATED_NS * again)
        last = b""

        def message(index: int) -> bytes:
            nonlocal last
            if not again[index]:
                i = int(made[index])
                last = encode(i, int(stamp[i]), float(since_s[i]))
            return last

        return Channel(name, schema, true_ns[made], stamp[made], log, made, message)


def thinned(times: Times, from_hz: float, to_hz: float) -> Times:
    """Indices of the messages that remain at a lower rate; the first one always remains."""
    if not (from_hz and to_hz):
        return np.empty(0, np.int64)
    turn = np.floor(np.arange(len(times)) * to_hz / from_hz + 1e-9)
    return np.flatnonzero(np.diff(turn, prepend=-1) > 0)
