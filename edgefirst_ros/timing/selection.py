"""Which reference frames become samples."""

from __future__ import annotations


class Selection:
    """Selects which reference frames become samples: all, one in N, key frames, or a rate; in order of time.

    ``rate_hz`` follows a grid that starts at the first frame: at each grid point the first frame that is
    usable and complete is taken, so ``wants`` stays true until ``took`` is called.
    """

    def __init__(self, *, rate_hz: float = 0.0, every_n: int = 1, keyframes: bool = False) -> None:
        self._period_ns = round(1e9 / rate_hz) if rate_hz > 0 else 0
        self._every_n = every_n
        self._keyframes = keyframes
        self._start_ns: int | None = None
        self._previous_ns = 0
        self._due_ns = 0

    def wants(self, frame: int, time_ns: int, *, keyframe: bool) -> bool:
        """Whether this frame should become a sample if it can."""
        if self._keyframes:
            return keyframe
        if not self._period_ns:
            return frame % self._every_n == 0
        if self._start_ns is None:
            self._start_ns = self._due_ns = self._previous_ns = time_ns
        # Half a frame early counts as on time, else jitter around the grid would halve the rate.
        slack_ns = min((time_ns - self._previous_ns) // 2, self._period_ns // 2)
        self._previous_ns = time_ns
        return time_ns + slack_ns >= self._due_ns

    @property
    def takes_all(self) -> bool:
        """Whether every frame is wanted."""
        return not self._keyframes and not self._period_ns and self._every_n == 1

    def may_want(self, frame: int, *, keyframe: bool) -> bool:
        """Whether this frame could be wanted, whatever became of those before it."""
        return keyframe if self._keyframes else bool(self._period_ns) or frame % self._every_n == 0

    def took(self, time_ns: int) -> None:
        """The frame became a sample: the next one is due at the next grid point."""
        if self._period_ns and self._start_ns is not None:
            steps = (time_ns - self._start_ns + self._period_ns // 2) // self._period_ns
            self._due_ns = self._start_ns + (steps + 1) * self._period_ns
