"""A part of a recording by time: ``--start`` and ``--end``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from edgefirst_ros.errors import ConfigError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_S = 1e9
_EXPECTED = "expected seconds from the recording's start, or a time in UTC like 2026-03-14T10:20:30"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The log times ``begin_ns <= time < end_ns``, in nanoseconds since 1970."""

    begin_ns: int
    end_ns: int

    def has(self, time_ns: int) -> bool:
        """Whether a time is in it."""
        return self.begin_ns <= time_ns < self.end_ns

    def overlaps(self, first_ns: int, last_ns: int) -> bool:
        """Whether any of the times from the first to the last one may be in it."""
        return first_ns < self.end_ns and last_ns >= self.begin_ns


@dataclass(frozen=True, slots=True)
class _Limit:
    """Nanoseconds from the recording's start, or since 1970."""

    time_ns: int
    is_relative: bool


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of every recording that is wanted; None is no limit."""

    start: _Limit | None = None
    end: _Limit | None = None

    def window(self, spans: Iterable[tuple[int, int]]) -> TimeWindow:
        """The times wanted of a recording whose sections have these log times; it starts at the earliest."""
        first_ns = min((first for first, _ in spans), default=0)

        def absolute(limit: _Limit | None, default_ns: int) -> int:
            if limit is None:
                return default_ns
            return limit.time_ns + (first_ns if limit.is_relative else 0)

        return TimeWindow(absolute(self.start, 0), absolute(self.end, 1 << 64))


def excerpt_of(start: str | None, end: str | None) -> Excerpt | None:
    """The part between two times as a user gives them; None if both are None.

    Raises:
        ConfigError: not a time, or the end is not after the start.
    """
    if start is None and end is None:
        return None
    faults: list[str] = []
    first, last = _limit("--start", start, faults), _limit("--end", end, faults)
    if first and last and first.is_relative == last.is_relative and last.time_ns <= first.time_ns:
        faults.append(f"--end {end}: is not after --start {start}")
    if faults:
        raise ConfigError(faults)
    return Excerpt(first, last)


def _limit(option: str, text: str | None, faults: list[str]) -> _Limit | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return _time(option, text, faults)
    if not 0 <= seconds <= _LATEST_S:  # which is also false for what is no number
        faults.append(f"{option} {text}: {_EXPECTED}")
        return None
    return _Limit(round(seconds * 1e9), is_relative=True)


def _time(option: str, text: str, faults: list[str]) -> _Limit | None:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        faults.append(f"{option} {text}: {_EXPECTED}")
        return None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH
    return _Limit(since // timedelta(microseconds=1) * 1000, is_relative=False)
