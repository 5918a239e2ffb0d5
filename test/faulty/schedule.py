"""Times of messages that come late, twice or not at all, of wrong stamps and frozen sensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from edgefirst_ros.simulation.schedule import Channel, Schedule, Times
from faulty.options import FaultyOptions, of_topic

REPEATED_NS = 1_000_000
"""Delay of the second copy of a message that is recorded twice."""
FIX = "sensor_msgs/msg/NavSatFix"


class FaultySchedule(Schedule):
    """A schedule with the faults of its options; ``now_s`` is when the message is taken that is made now."""

    _options: FaultyOptions

    def __init__(self, options: FaultyOptions) -> None:
        super().__init__(options)
        self.now_s = 0.0
        self._videos: set[str] = set()
        self._hz = {"imu": options.imu_hz, "gps": options.gps_hz, "lidar/points": options.lidar_hz}
        self._hz |= {each.topic: each.hz for each in options.more if each.kind in {"imu", "gps", "lidar"}}

    def held_ns(self, name: str, sensor: str, count: int) -> Times:
        options = self._options
        latency_ns = of_topic(options.latency_ms, name, getattr(options.latency, sensor)) * 1e6
        jitter = self.random(name + " latency").normal(0.15, 0.2, count).clip(min=0)
        jitter *= of_topic(options.jitter, name, 1.0)
        held_ns = np.rint(latency_ns * (1 + jitter)).astype(np.int64)
        share, stall_ms = of_topic(options.stalls, name, (0.0, 0.0))
        held_ns[self.random(name + " stalls").random(count) < share] += round(stall_ms * 1e6)
        if options.wifi_ms is not None:
            least_ms, low_ms, high_ms = options.wifi_ms
            middle, sigma = math.sqrt(low_ms * high_ms), math.log(high_ms / low_ms) / (2 * 1.96)
            added_ms = least_ms + self.random(name + " wifi").lognormal(math.log(middle), sigma, count)
            held_ns += np.rint(added_ms * 1e6).astype(np.int64)
        return held_ns

    def stamped(
        self, name: str, true_ns: Times, sensor: str, *, monotonic: bool = False, frozen: bool = False
    ) -> Times:
        options, uptime_s = self._options, self._options.uptimes_s.get(name.partition("/")[0])
        stamp = super().stamped(name, true_ns, sensor, monotonic=monotonic, frozen=frozen)
        if frozen:
            return stamp
        since_ns = true_ns - options.start_ns
        if uptime_s is not None and sensor in {"lidar", "radar"}:
            stamp -= options.start_ns - round(uptime_s * 1e9)
        if monotonic and self._monotonic:
            stamp -= np.rint(since_ns * options.drift_ppm / 1e6).astype(np.int64)
        off_s = [options.stamped_off_s(name, float(time_s)) for time_s in since_ns / 1e9]
        stamp += np.rint(np.array(off_s) * 1e9).astype(np.int64)
        if name in self._videos and self.is_own(name):
            early = self.random(name + " stamps").random(len(true_ns)) < options.same_stamp
            stamp = stamp[np.maximum(np.arange(len(true_ns)) - early, 0)]
        return stamp

    def is_own(self, name: str) -> bool:
        """Whether a topic is the device's own: with no other camera anything is wrong."""
        return name not in {each.topic for each in self._options.more}

    def units(self, name: str, times_ns: Times) -> Times:
        self._videos.add(name)
        share = self._options.drop_video if self.is_own(name) else 0.0
        lost = self.random(name + " loss").random(len(times_ns)) < share
        since_s = (times_ns - self._options.start_ns) / 1e9
        lost |= [self._options.is_silent(name, float(time_s)) for time_s in since_s]
        return np.flatnonzero(~lost)

    def sent(self, name: str, true_ns: Times) -> Times:
        """Messages sent twice occur twice; of a video ``units`` has left out what is lost."""
        options = self._options
        since_s = (true_ns - options.start_ns) / 1e9
        is_sent = [name in self._videos or not options.is_silent(name, float(time_s)) for time_s in since_s]
        share = of_topic(options.duplicate, name, 0.0)
        twice = self.random(name + " duplicates").random(len(true_ns)) < share
        return np.repeat(np.arange(len(true_ns)), np.array(is_sent, np.int64) * (1 + twice))

    def channel(
        self,
        name: str,
        schema: str,
        true_ns: Times,
        encode: Callable[[int, int, float], bytes],
        **more: Any,  # noqa: ANN401 - the rest
    ) -> Channel:
        def shown(i: int, stamp_ns: int, time_s: float) -> bytes:
            self.now_s = time_s
            if name not in self._hz:
                return encode(i, stamp_ns, time_s)
            shown_s, of_each = self._options.shown_s(name, time_s), 1 + (schema == FIX)
            number = max(0, i // of_each - round((time_s - shown_s) * self._hz[name]))
            return encode(number * of_each + i % of_each, stamp_ns, shown_s)

        channel = super().channel(name, schema, true_ns, shown, **more)
        again = np.diff(channel.made, prepend=-1) == 0
        channel.log_ns = np.maximum.accumulate(channel.log_ns + REPEATED_NS * again)
        once, last = channel.encode, b""

        def message(index: int) -> bytes:
            nonlocal last
            if not again[index]:
                last = once(index)
            return last

        channel.encode = message
        return channel
