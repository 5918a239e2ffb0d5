"""Whether a file whose log_time runs backwards lies as it was received: its clock was set back a little."""

from __future__ import annotations

from collections import deque

DISORDER_NS = 100_000_000
"""Recorders of several threads write messages late by less than this."""
STEP_NS = 1_000_000_000
"""By how much the clock is set back at most; more than that shows in every topic for itself."""
AGAIN_NS = 2_000_000_000
"""Clocks are not set so often; what runs backwards so often is in disorder."""
BEGINNING = 64
"""So many bytes of a message tell it from others: it begins with its stamp."""
FELL = 2
"""So many topics at least must run backwards for themselves."""

_Content = tuple[int, bytes]
"""Channel and beginning of a message."""


class Setbacks:
    """Looks at channels and log times in file order.

    A receiver's clock that is set back by less than a second takes all topics with it at one place of the
    file, and before and after it they lie in order. It says the times before it once more. A topic, or a
    chunk, that was merely written late runs backwards alone, or into times of which nothing came before. What
    another recorder of the same messages appended says not only the times once more.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        """Log time of the channel's latest message."""
        self._latest_ns: int | None = None
        """Of the time base in force."""
        self._before_ns: int | None = None
        """The latest log time of the time base before."""
        self._joined: set[int] = set()
        """Channels that are in the time base in force."""
        self._recent: deque[tuple[int, _Content]] = deque()
        """Log times of lately, and what was said then."""
        self._said: set[_Content] = set()
        """What was said before the step, at the times that it says once more."""
        self._overlap = self._repeated = 0
        self._stepped_ns = 0
        self._fell = 0
        self._count = 0
        self._broken = False

    @property
    def explain(self) -> bool:
        """Whether log_time runs backwards at such steps of the clock, and nowhere else."""
        return not self._broken and self._count > 0 and self._is_sure

    @property
    def _is_sure(self) -> bool:
        """Whether the last step was one."""
        return self._fell >= FELL and 2 * self._repeated <= self._overlap

    def feed(self, channel: int, log_ns: int, data: bytes) -> None:
        """Take the next message, of whose data the beginning will do."""
        if self._broken:
            return
        last_ns, self._last[channel] = self._last.get(channel), log_ns
        if self._latest_ns is None:
            self._latest_ns = log_ns
        fell = last_ns is not None and log_ns < last_ns
        if self._before_ns is not None and channel not in self._joined:
            if not fell and self._latest_ns + DISORDER_NS < log_ns <= self._before_ns + DISORDER_NS:
                return  # of before the step, and written after the first message that was not
            self._joined.add(channel)
            self._fell += fell
        if self._latest_ns - log_ns > DISORDER_NS:
            self._step(channel, log_ns, fell=fell)
        self._latest_ns = max(self._latest_ns, log_ns)
        content = channel, data
        if self._before_ns is not None and log_ns <= self._before_ns:
            self._overlap += 1
            self._repeated += content in self._said
        self._recent.append((log_ns, content))
        while self._recent[0][0] < self._latest_ns - STEP_NS - DISORDER_NS:
            self._recent.popleft()

    def _step(self, channel: int, log_ns: int, *, fell: bool) -> None:
        """The clock was set back here, or something is out of order."""
        before_ns = log_ns if self._latest_ns is None else self._latest_ns
        by_ns = before_ns - log_ns
        again = self._count > 0 and (not self._is_sure or before_ns - self._stepped_ns < AGAIN_NS)
        said = any(log_ns < ns < log_ns + by_ns // 4 for ns, _ in self._recent)
        if by_ns > STEP_NS + DISORDER_NS or again or not said:
            self._broken = True
            return
        self._count += 1
        self._before_ns, self._latest_ns, self._stepped_ns = before_ns, log_ns, log_ns
        self._joined, self._fell = {channel}, int(fell)
        self._said = {content for ns, content in self._recent if ns >= log_ns - DISORDER_NS}
        self._overlap = self._repeated = 0
        self._recent.clear()
