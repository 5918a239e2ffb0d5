"""What sequences are drawn from: instants in order, of which those that are wanted are drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from edgefirst_ros.errors import ConfigError
from edgefirst_ros.view.rerun.canvas import Canvas

Window = Callable[[int], tuple[int, int]]
"""From the time of a sequence's first instant to begin and end of those that are wanted, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Instant:
    """Something that can be drawn.

    Attributes:
        time_ns: nanoseconds since 1970; None if the dataset does not say.
        draw: called with the canvas and the running number of the sample, once it is wanted.
        is_sample: it is selected by rate; other measurements are drawn whatever the rate is.
    """

    time_ns: int | None
    draw: Callable[[Canvas, int], None]
    is_sample: bool = True


class Drawable(Protocol):
    """One sequence of a dataset: its times ascend, and it has a local frame of its own."""

    def begin(self, canvas: Canvas) -> None:
        """Draw what holds for all of it, such as where sensors are."""

    def instants(self) -> Iterator[Instant]:
        """All of it in order of time; what an instant needs is read when it is drawn, or just before.

        Raises:
            EdgeFirstError: it is damaged.
        """

    def __len__(self) -> int:
        """How many instants there are."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which instants are drawn; None is no limit."""

    window: Window | None = None
    rate_hz: float | None = None
    every_n: int | None = None


def draw_all(
    drawables: Iterable[Drawable],
    canvas: Canvas,
    wanted: Wanted,
    stop: threading.Event,
    passed: Callable[[int], None],
) -> int:
    """Draw sequences one after another; how many instants were drawn.

    Args:
        drawables: the sequences.
        canvas: where to.
        wanted: of what.
        stop: when set, what has been drawn stays.
        passed: called after every instant with how many there were so far.

    Raises:
        ConfigError: a part by time is wanted of samples without times.
        EdgeFirstError: a dataset is damaged.
    """
    seen = drawn = 0
    for drawable in drawables:
        canvas.begin()
        drawable.begin(canvas)
        selection = _Selection(wanted)
        for instant in drawable.instants():
            seen += 1
            if selection.takes(instant):
                instant.draw(canvas, drawn)
                drawn += 1
            passed(seen)
            if stop.is_set():
                return drawn
            if selection.is_over:
                break
    return drawn


class _Selection:
    """Which instants of one sequence are wanted."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._span: tuple[int, int] | None = None
        self._due_ns: int | None = None
        self._samples = 0
        self.is_over = False

    def takes(self, instant: Instant) -> bool:
        wanted, time_ns = self._wanted, instant.time_ns
        if time_ns is None:
            if wanted.window is not None or wanted.rate_hz is not None:
                advice = "take --every-n in place of --start, --end and --rate"
                raise ConfigError([f"samples of this dataset have no times: {advice}"])
        elif wanted.window is not None:
            self._span = self._span or wanted.window(time_ns)
            self.is_over = time_ns >= self._span[1]
            if not self._span[0] <= time_ns < self._span[1]:
                return False
        if not instant.is_sample:
            return True
        self._samples += 1
        if wanted.every_n is not None and (self._samples - 1) % wanted.every_n:
            return False
        if wanted.rate_hz is not None and time_ns is not None:
            period_ns = round(1e9 / wanted.rate_hz)
            due_ns = time_ns if self._due_ns is None else self._due_ns
            if time_ns < due_ns:
                return False
            # The grid is kept, so that the rate is met whatever that of the samples is.
            self._due_ns = max(due_ns + period_ns, time_ns + period_ns // 2)
        return True
