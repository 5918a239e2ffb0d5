"""Load shedding of a live capture that falls behind: whole samples, evenly, of the costliest format first."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

KEEP = 1 / 10
"""Least share of samples that every format writes; if that is still too much, the queue drops messages."""
LEAST_S = 0.4
"""Least lateness that is allowed, even if waits use up all of ``latency_s``."""
BEGIN = 0.25
"""Shedding begins at this share of the allowed lateness, unless the capture is catching up."""
IDLE = 0.1
"""Below this share of the allowed lateness there is time to spare."""
PERIOD_S, CALM_S = 0.25, 0.5
"""Control periods: before shedding begins, and while samples are shed."""
LEAST_STEP, SOON_STEP, MOST_STEP = 0.1, 1.08, 1.15
"""Change of the work in one period: least and largest factor, and the largest with time to spare."""
RECOVERY = 0.2
"""Seconds per second by which the backlog from the start of a sequence is to shrink."""
REPLAY = 0.9
"""Messages that come faster than they were received, or measured, are due at this share of their intervals: a
replay, and what a link that was down sends when it is back."""
BURST_S = 10.0
"""By so much at most: what waits longer is too much for the memory."""
MEMORY = 0.99
"""Factor that weights down older costs at every sample."""
OUTRUN_S = BURST_S
"""A capture that is later than this with the least of the work, and becomes later, is never in time again:
what waits would come minutes late, and fill the memory."""
SILENCE_NS = 250_000_000
"""Longer gaps between messages of any topic are a pause of the input: a device sends hundreds a second. So
many are remembered, more than lie within the longest hold."""


class Even:
    """Selects a share of items evenly: every second, every third, two of three."""

    def __init__(self) -> None:
        self._due = 0.0

    def takes(self, share: float, *, possible: bool = True, better: bool = True) -> bool:
        """Whether the next item is taken.

        An item that is not ``possible`` is never taken; the next possible one takes its place. An item that
        is not ``better`` than others is passed over for one turn.
        """
        if share >= 1 and possible:
            self._due = 0.0
            return True
        self._due = min(self._due + share, 2.0)
        if not possible or self._due < 1 - 1e-9 or not (better or self._due >= 2 - 1e-9):
            return False
        self._due -= 1
        return True


@dataclass(slots=True)
class Tally:
    """Counts and costs of a format's samples so far."""

    of: int = 0
    shed: int = 0
    seconds: float = 0.0
    """Time that preparing and writing took; older samples count less."""
    samples: float = 0.0
    """Number of samples that ``seconds`` are of, weighted alike."""

    @property
    def cost_s(self) -> float:
        """Mean cost of one sample, seconds."""
        return self.seconds / self.samples if self.samples > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Look:
    """Latency of a sample when it is handed to the formats, and how much of it was a necessary wait."""

    now_s: float
    latency_s: float
    wait_s: float

    def late_s(self, credit_s: float) -> float:
        """Lateness: the latency beyond the wait, or beyond a credit that is larger."""
        return self.latency_s - max(self.wait_s, credit_s)


class Overload:
    """Decides for each sample and format whether there is time for it, from the lateness of the capture.

    Lateness is the time that a sample waits in the queue and in the executor, and is held longer than pairing
    and poses need while messages come. When it grows, fewer samples are written: first of the format that is
    first in ``order``, down to one in ten, then of the next. When it shrinks, the shares rise again. The
    backlog from the start of a sequence, where messages wait until clocks are known, is given time to shrink.
    If one in ten of every format is still too much, ``keyframes_only`` requests that only key frames are
    decoded until there is time to spare. If even reading the messages is too much, ``is_outrun`` requests
    that pictures, clouds and cubes which have waited longer than ``latency_s`` are dropped unread.

    One thread reports messages and asks for decisions; costs and results may be used from any thread.

    Args:
        formats: names of the formats that are written.
        latency_s: longest time from a sample's stamp to the disk.
        wait_s: longest part of it that pairing and poses wait for later messages.
        hold_s: part of it that a format holds a sample to see the next ones.
        clock_s: a monotonic clock.
    """

    def __init__(
        self,
        formats: Sequence[str],
        *,
        latency_s: float,
        wait_s: float,
        hold_s: float = 0.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.latency_s = latency_s
        self.wait_s = wait_s
        self.hold_s = hold_s
        self._formats = tuple(formats)
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._tallies = {name: Tally() for name in formats}
        self._shares = dict.fromkeys(formats, 1.0)
        self._even: dict[tuple[str, str], Even] = {}
        self._work = 1.0
        """Share of the work for all formats that is accepted."""
        self._thinned_s = self._through_s = 0.0
        self._fed: tuple[float, int] | None = None
        """When the last message was due by the pace of those before, and its time of receipt."""
        self._paced: tuple[float, int] | None = None
        """The same of the last sample, and its time."""
        self._silences: deque[tuple[int, int]] = deque(maxlen=256)
        """End and length of the latest gaps between messages of any topic."""
        self._looked: _Look | None = None
        self._credit_s = 0.0
        """What remains allowed of the latency that the sequence began with."""
        self._pause_s = 0.0
        self.keyframes_only = False
        """Whether only key frames are to be decoded; read from any thread."""
        self.had_keyframes_only = False
        """Whether ``keyframes_only`` was ever set."""
        self.is_outrun = self.was_outrun = False
        """Whether what has waited too long is to be dropped now, and whether that was ever so."""
        self._sampled_s = -math.inf
        self._held = False
        self._cpu_s = self._passed_s = 0.0

    # ------------------------------------------------------------------ observations
    def feeding(self, came_s: float, receive_ns: int) -> None:
        """Note that a message leaves the queue: when it entered, by the clock, and its time of receipt."""
        if self._fed is not None and receive_ns - self._fed[1] > SILENCE_NS:
            self._silences.append((receive_ns, receive_ns - self._fed[1]))
        self._fed = max(came_s, _due_s(self._fed, receive_ns)), receive_ns

    def go_on(self, before: Overload) -> None:
        """Take over shares and costs from the session before, which this one follows without a break."""
        self._work, self._shares = before._work, dict(before._shares)
        self.keyframes_only = before.keyframes_only
        for name, tally in self._tallies.items():
            tally.seconds, tally.samples = before._tallies[name].seconds, before._tallies[name].samples
        self._cpu_s, self._passed_s = before._cpu_s, before._passed_s

    def begin(self) -> None:
        """A sequence begins: all messages that were held back come at once."""
        self._looked = None

    def prepared(self, name: str, cpu_s: float, passed_s: float) -> None:
        """Note the CPU time and elapsed time of a format's preparation, which needs only the CPU."""
        with self._lock:
            self._tallies[name].seconds += cpu_s
            self._cpu_s, self._passed_s = self._cpu_s * MEMORY + cpu_s, self._passed_s * MEMORY + passed_s

    def wrote(self, name: str, cpu_s: float, passed_s: float) -> None:
        """Note a format's write; elapsed time beyond the usual wait for the CPU is the disk's."""
        with self._lock:
            waits = max(1.0, self._passed_s / self._cpu_s) if self._cpu_s > 0 else 1.0
            self._tallies[name].seconds += max(cpu_s, passed_s / waits)

    def dropped(self) -> None:
        """What had waited too long is dropped."""
        self.is_outrun = False

    def hold(self) -> None:
        """The capture ends: keep the shares as they are, and read what there is time for."""
        self._held, self.is_outrun = True, False

    # ------------------------------------------------------------------ decisions
    def look(self, receive_ns: int, backlog_s: float, time_ns: int, *, sample: bool = True) -> None:
        """Update the shares; called before a sample or measurement goes to the formats.

        Measurements wait less than samples, so they count only if no samples come.

        Args:
            receive_ns: when it was received.
            backlog_s: how long it will wait in the executor.
            time_ns: when it was measured.
            sample: False for a measurement.
        """
        if self._held:
            return
        now_s = self._clock_s()
        if not sample and now_s - self._sampled_s < 2.0:
            return
        due_s, newest_ns = self._fed or (now_s, 0)
        if sample:
            self._sampled_s = now_s
            due_s = max(due_s, min(_due_s(self._paced, time_ns), due_s + BURST_S))
            self._paced = due_s, time_ns
        # What waits for messages that do not come does not wait for us.
        silent_ns = sum(gap_ns for end_ns, gap_ns in self._silences if end_ns > receive_ns)
        held_s = min(max((newest_ns - receive_ns - silent_ns) / 1e9, 0.0), 30.0)
        waits_s = max(0.0, now_s + backlog_s - due_s)
        before, work = self._looked, self._work
        wait_s = min(held_s, self.wait_s)
        if before is not None:  # what the end of a sequence releases at once has as much time as the rest
            wait_s = max(wait_s, before.wait_s - RECOVERY * (now_s - before.now_s))
        now = _Look(now_s, waits_s + held_s, wait_s)
        if before is None:
            self._looked, self._credit_s = now, now.latency_s if now.latency_s > self.wait_s else 0.0
            return
        passed_s = now_s - before.now_s
        if passed_s < max(PERIOD_S if self._work >= 1 else CALM_S, self._pause_s):
            return
        self._looked, self._credit_s = now, self._credit_s - RECOVERY * passed_s
        if self._work < 1:
            self._thinned_s += passed_s
            self._through_s += passed_s * self._work
        self._steer(before, now, passed_s)
        # What was handed over before has yet to be written, and does not show the change.
        self._pause_s = min(backlog_s, 1.0) if self._work < work else 0.0

    def takes(self, name: str, *, stream: str = "", possible: bool = True, better: bool = True) -> bool:
        """Whether a format has time for the next sample, or measurement of a stream; see ``Even``."""
        share = self._shares[name]
        taken = self._even.setdefault((name, stream), Even()).takes(share, possible=possible, better=better)
        with self._lock:
            self._tallies[name].of += 1
            self._tallies[name].shed += not taken
        return taken

    def wants_picture(self, names: Sequence[str], *, possible: bool = True, better: bool) -> bool:
        """Whether to decode the picture of the next sample, asked before these formats decide on it."""
        share = max((self._shares[name] for name in names), default=0.0)
        return self._even.setdefault(("", ""), Even()).takes(share, possible=possible, better=better)

    def counted(self) -> None:
        """All formats have decided on a sample."""
        with self._lock:
            for name, tally in self._tallies.items():
                tally.seconds *= MEMORY
                tally.samples = tally.samples * MEMORY + self._shares[name]

    # ------------------------------------------------------------------ results
    @property
    def shares(self) -> Mapping[str, float]:
        """Share of samples that is written now, by format."""
        return dict(self._shares)

    @property
    def through(self) -> float:
        """Share of the work for all formats that was done while some of it was shed; 1 if none was."""
        return self._through_s / self._thinned_s if self._thinned_s else 1.0

    @property
    def order(self) -> tuple[str, ...]:
        """Formats in the order in which they are shed."""
        costs = self.costs_s
        # A format being shed stays before others that cost hardly more.
        dear = {name: costs[name] * (1.5 if self._shares[name] < 1 else 1) for name in self._formats}
        return tuple(sorted(self._formats, key=lambda name: -dear[name]))

    @property
    def costs_s(self) -> dict[str, float]:
        """Mean cost of a sample in seconds, by format."""
        with self._lock:
            return {name: tally.cost_s for name, tally in self._tallies.items()}

    @property
    def shed(self) -> dict[str, tuple[int, int]]:
        """Samples shed and samples in total, by format that shed any."""
        with self._lock:
            return {name: (t.shed, t.of) for name, t in self._tallies.items() if t.shed}

    def report(self) -> dict[str, dict[str, int]]:
        """Shed samples by format."""
        return {name: {"shed": shed, "of": of} for name, (shed, of) in self.shed.items()}

    # ------------------------------------------------------------------ control
    def _steer(self, before: _Look, now: _Look, passed_s: float) -> None:
        # 0.15 s are for the time from acquisition to receipt, and from the writer to the disk.
        allowed_s = max(LEAST_S, self.latency_s - 0.15 - self.hold_s - now.wait_s)
        recovering = self._credit_s > now.wait_s
        late_s, was_late_s = now.late_s(self._credit_s), before.late_s(self._credit_s)
        slip_s = now.latency_s - before.latency_s if recovering else late_s - was_late_s
        pace = max(0.0, 1 - slip_s / passed_s)
        # Lateness is brought to three tenths of what is allowed within two seconds.
        wanted = max(0.5, 1 + (late_s - 0.3 * allowed_s) / 2.0)
        step = pace / wanted
        self.is_outrun = self.keyframes_only and late_s > OUTRUN_S and pace < 1
        self.was_outrun |= self.is_outrun
        if self.keyframes_only:
            self.keyframes_only = not late_s < IDLE * allowed_s
        # Half of the allowed lateness is much where every format is at ``KEEP``, unless it is catching up.
        elif self._work <= KEEP and pace < 1.1 and min(late_s, was_late_s) > 0.5 * allowed_s:
            self.keyframes_only = self.had_keyframes_only = True
        if self.keyframes_only:
            return
        if self._work < 1:
            step = MOST_STEP if late_s < IDLE * allowed_s else min(step**0.5, SOON_STEP)
        elif min(late_s, was_late_s) < BEGIN * allowed_s or step >= 1:
            return
        self._work = min(1.0, max(KEEP, self._work * min(max(step, LEAST_STEP), MOST_STEP)))
        self._share_out()

    def _share_out(self) -> None:
        """Reduce the share of the first format until the work fits, then that of the next."""
        costs = {name: max(cost_s, 1e-6) for name, cost_s in self.costs_s.items()}
        left = (1 - self._work) * sum(costs.values())
        shares = dict.fromkeys(self._formats, 1.0)
        for name in self.order:
            spared = min(left, (1 - KEEP) * costs[name])
            shares[name] = 1 - spared / costs[name]
            left -= spared
        self._shares = shares


def _due_s(before: tuple[float, int] | None, time_ns: int) -> float:
    """When something is due by the pace of what came before it, which had its due and its own time."""
    if before is None:
        return -math.inf
    return before[0] + REPLAY * min(max((time_ns - before[1]) / 1e9, 0.0), 1.0)
