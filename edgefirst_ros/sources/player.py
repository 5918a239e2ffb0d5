"""Publishes a recording over Zenoh as the device does: same keys, encodings and timing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import find_prefix, full_type
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.sources.recording import TopicInfo
from edgefirst_ros.sources.zenohlink import Outlet

if TYPE_CHECKING:
    import zenoh

PREVIEW_PAUSE_NS = 5_000_000_000
"""Longest pause in a preview."""


class PlaybackClock:
    """Computes when each message is due; the first one is due at once.

    Args:
        rate: 1 is real time, 2 twice as fast.
        longest_ns: longer gaps, as at a step of the recorder's clock, are skipped.
        now_s: returns a monotonic clock.
    """

    def __init__(self, rate: float, longest_ns: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._longest_ns = longest_ns
        self._now_s = now_s
        self._start_s = 0.0
        self._last_ns: int | None = None
        self._passed_ns = 0

    def wait_s(self, log_ns: int) -> float:
        """Time until a message is due, negative if it is late."""
        if self._last_ns is None:
            self._start_s, self._last_ns = self._now_s(), log_ns
        if abs(log_ns - self._last_ns) > self._longest_ns:
            self._last_ns = log_ns
        self._passed_ns += max(0, log_ns - self._last_ns)
        self._last_ns = max(self._last_ns, log_ns)
        return self._start_s + self._passed_ns / 1e9 / self._rate - self._now_s()


class Pacer:
    """Waits before each message until it is due, or ``stop`` is set.

    Args:
        rate: see ``PlaybackClock``.
        stop: ends all waiting.
        now_s: see ``PlaybackClock``.
    """

    def __init__(
        self, rate: float, stop: threading.Event, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = PlaybackClock(rate, PREVIEW_PAUSE_NS, now_s)
        self._stop = stop

    def __call__(self, message: RawMessage) -> None:
        """Wait until the message is due."""
        wait_s = self._clock.wait_s(message.receive_ns)
        if wait_s > 0:
            self._stop.wait(wait_s)


LONGEST_PAUSE_NS = 60_000_000_000
"""A longer gap in log_time is taken for a step of the recorder's clock."""
SETTLED_S, POLL_S = 0.5, 0.02


class Names(StrEnum):
    """Generation of the device's names."""

    RT = "rt"
    """``rt/camera/h264``: until early 2026; in camera 2.7 ``camera/frame`` is bare."""
    BARE = "bare"
    """``camera/h264``."""
    HOST = "host"
    """``<hostname>/camera/h264``: since 2026.08."""


BARE_IN_RT = frozenset({"camera/frame"})


@dataclass(slots=True)
class Played:
    """How much of a recording was published.

    Attributes:
        messages: all that were published.
        skipped: those of damaged chunks, which were not.
        heard: whether any had a subscriber.
        complete: whether the end was reached.
    """

    messages: int = 0
    skipped: int = 0
    heard: bool = False
    complete: bool = False


def key_of(relative: str, names: Names, host: str) -> str:
    """The Zenoh key of a topic that is given without prefix (``camera/h264``)."""
    if names is Names.HOST:
        return f"{host}/{relative}"
    return relative if names is Names.BARE or relative in BARE_IN_RT else f"rt/{relative}"


def keys_of(
    topics: Iterable[TopicInfo], names: Names, host: str, prefix: str | None = None
) -> dict[str, str]:
    """Zenoh keys of the recording's topics, whatever their prefix.

    Raises:
        ConfigError: topics of several devices, and no ``prefix`` that chooses one.
    """
    known = [info.topic for info in topics]
    found = find_prefix(known, Config(prefix=prefix))
    keys: dict[str, str] = {}
    for topic in known:
        bare = topic.strip("/")
        relative = bare.removeprefix(f"{found}/") if found else bare
        keys[topic] = key_of(relative, names, host)
    return keys


class Player:
    """Publishes one recording in order of receipt.

    Args:
        session: see ``zenohlink.open_session``.
        keys: Zenoh keys by topic; other topics are not published.
    """

    def __init__(self, session: zenoh.Session, keys: Mapping[str, str]) -> None:
        self._outlets = {topic: Outlet(session, key) for topic, key in keys.items()}

    def wait_for_subscriber(self, timeout_s: float, stop: threading.Event) -> bool:
        """Wait until the set of subscribed topics is stable; returns whether there is a subscriber."""
        limit_s = time.monotonic() + timeout_s
        wanted: set[str] = set()
        since_s = time.monotonic()
        while not stop.is_set():
            now_s = time.monotonic()
            found = {topic for topic, outlet in self._outlets.items() if outlet.wanted}
            if found != wanted:
                wanted, since_s = found, now_s
            if wanted and now_s - since_s >= SETTLED_S:
                return True
            if now_s > limit_s:
                return bool(wanted)
            stop.wait(POLL_S)
        return False

    def play(self, messages: Iterable[RawMessage], speed: float, stop: threading.Event) -> Played:
        """Publish messages, paced by log_time at ``speed`` times real time, until ``stop`` is set."""
        done, clock = Played(), PlaybackClock(speed, LONGEST_PAUSE_NS, time.monotonic)
        for message in messages:
            wait_s = clock.wait_s(message.receive_ns)
            if (wait_s > 0 and stop.wait(wait_s)) or stop.is_set():
                return done
            outlet = self._outlets.get(message.topic)
            done.skipped += bool(message.fault)
            if outlet is not None and not message.fault:
                outlet.put(full_type(message.schema), message.data)
                done.heard = done.heard or outlet.wanted
                done.messages += 1
        done.complete = True
        return done
