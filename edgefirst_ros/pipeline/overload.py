"""What a live capture leaves out when it falls behind: whole samples, evenly, the dearest format's first."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SHED = "shed: overload"
"""Why a message or a sample is not in a format that had no time for it."""

KEEP = 1 / 10
"""Of every format at least so many samples are written; what is too much even then is the queue's."""
MARGIN_S = 0.15
"""From acquisition to receipt, and from the writer to the disk."""
LEAST_S = 0.4
"""So late a capture may be at least, however much of the latency the waits take up."""
BEGIN = 0.25
"""Share of what it may be late at which shedding begins, unless it is catching up."""
AIM = 0.3
"""Share of what it may be late that it is held to while something is shed."""
IDLE = 0.1
"""Share of what it may be late below which there is time for more."""
PERIOD_S, CALM_S = 0.25, 0.5
"""How often it is looked whether shedding must begin, and how much is to be shed while something is."""
CATCH_UP_S = 2.0
"""Within this it is to be back at its aim."""
LEAST_STEP, SOON_STEP, MOST_STEP = 0.1, 1.08, 1.15
"""How much less work is taken on in one period; how much more at most, and while there is time to spare."""
RECOVERY = 0.2
"""A second of what was held back at the start of a sequence is to be worked off in five."""
REPLAY = 0.9
"""What comes faster than it was received is a replay, due at its own pace, but for a tenth."""
STAY = 1.5
"""How much dearer another format must be to be shed instead of one that is."""
MEMORY = 0.99
"""Of the costs measured, after every sample."""
KEYFRAMES = 0.5
"""Share of what it may be late beyond which, at the least of every format, only key frames are decoded."""
GAINS = 1.1
"""Seconds that a capture which is catching up gets through in one."""
NO_SAMPLES_S = 2.0
"""Without a sample for so long, measurements tell how late a capture is."""
SPANS = 1000
"""Kept in the report; later ones are joined to the last."""


class Even:
    """Takes a share of what comes, evenly: every second, every third, two of three."""

    def __init__(self) -> None:
        self._due = 0.0

    def takes(self, share: float, *, possible: bool = True, better: bool = True) -> bool:
        """Whether the next one is taken.

        One that is not possible is never taken, the next that is instead of it. One that is not ``better``
        than others is passed over for a turn.
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
class Span:
    """Samples of one format between which some were shed."""

    first_ns: int
    last_ns: int
    shed: int = 0
    of: int = 0


@dataclass(slots=True)
class Tally:
    """What became of a format's samples so far."""

    of: int = 0
    shed: int = 0
    spans: list[Span] = field(default_factory=list)
    thinned: bool = False
    """Whether the last span goes on."""
    seconds: float = 0.0
    """What preparing and writing took, older ones counting less."""
    samples: float = 0.0
    """Of so many samples."""

    @property
    def cost_s(self) -> float:
        """Of one sample."""
        return self.seconds / self.samples if self.samples > 0 else 0.0

    def count(self, time_ns: int, *, shed: bool, thinned: bool) -> None:
        """One more sample; ``thinned`` says that not every one is written now."""
        self.of += 1
        self.shed += shed
        if thinned and not self.thinned and len(self.spans) < SPANS:
            self.spans.append(Span(time_ns, time_ns))
        self.thinned = thinned
        if thinned:
            span = self.spans[-1]
            span.last_ns, span.shed, span.of = time_ns, span.shed + shed, span.of + 1


@dataclass(frozen=True, slots=True)
class _Look:
    """How far behind its time a sample is when it is handed to the formats, and what it had to wait for."""

    now_s: float
    latency_s: float
    wait_s: float

    def late_s(self, credit_s: float) -> float:
        """Later than it had to be, but for a latency that is allowed for."""
        return self.latency_s - max(self.wait_s, credit_s)


class Overload:
    """Decides for each sample and format whether there is time for it, from how late the capture is.

    Late is what a sample waited in the queue and waits in the pool, and what it is held longer than pairing
    and poses need. When that grows, the share of samples is lowered: of the format that comes first in the
    order down to one in ten, then of the next. When it shrinks, the share rises again. What is held back
    at the start of a sequence, until clocks are known, is given time to be worked off.
    Where one in ten of every format is too much, ``keyframes_only`` says that no pictures but key frames are
    to be decoded until there is time to spare.

    One thread feeds and asks; what formats spend and what is told may be used from any.

    Args:
        formats: that are written.
        latency_s: from a sample's time to the disk, at most.
        wait_s: of it, what pairing and poses wait for what comes later, at most.
        hold_s: of it, what a format holds a sample to see what follows.
        first: formats to shed first, in this order; of the others the one that takes longest.
        clock_s: a clock that only goes forward.
    """

    def __init__(
        self,
        formats: Sequence[str],
        *,
        latency_s: float,
        wait_s: float,
        hold_s: float = 0.0,
        first: Sequence[str] = (),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.latency_s = latency_s
        self.wait_s = wait_s
        self.hold_s = hold_s
        self._formats = tuple(formats)
        self._first = tuple(name for name in first if name in formats)
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._tallies = {name: Tally() for name in formats}
        self._shares = dict.fromkeys(formats, 1.0)
        self._even: dict[tuple[str, str], Even] = {}
        self._work = 1.0
        """Share of the formats' whole work that is taken on."""
        self._due_s: float | None = None
        self._receive_ns = 0
        self._looked: _Look | None = None
        self._credit_s = 0.0
        """The latency that a sequence began with, as far as it may still be."""
        self._pause_s = 0.0
        self.keyframes_only = False
        """Whether there is time for pictures that can be decoded by themselves alone; any thread."""
        self.had_keyframes_only = False
        """Whether that was ever so."""
        self._sampled_s = -math.inf
        self._held = False
        self._cpu_s = self._passed_s = 0.0

    # ------------------------------------------------------------------ what is going on
    def feeding(self, came_s: float, receive_ns: int) -> None:
        """A message is taken from the queue: when it came there, on the clock, and its time of receipt."""
        if self._due_s is not None:
            apart_s = min(max((receive_ns - self._receive_ns) / 1e9, 0.0), 1.0)
            came_s = max(came_s, self._due_s + REPLAY * apart_s)
        self._due_s, self._receive_ns = came_s, receive_ns

    def go_on(self, before: Overload) -> None:
        """A session follows another at once: the same is shed, and the same known of costs."""
        self._work, self._shares = before._work, dict(before._shares)
        self.keyframes_only = before.keyframes_only
        for name, tally in self._tallies.items():
            tally.seconds, tally.samples = before._tallies[name].seconds, before._tallies[name].samples
        self._cpu_s, self._passed_s = before._cpu_s, before._passed_s

    def begin(self) -> None:
        """A sequence begins: what was held back until then comes at once."""
        self._looked = None

    def prepared(self, name: str, cpu_s: float, passed_s: float) -> None:
        """A format has prepared something, for which it needs the CPU alone: its time, and what passed."""
        with self._lock:
            self._tallies[name].seconds += cpu_s
            self._cpu_s, self._passed_s = self._cpu_s * MEMORY + cpu_s, self._passed_s * MEMORY + passed_s

    def wrote(self, name: str, cpu_s: float, passed_s: float) -> None:
        """A format has written something; what passed beyond the wait for the CPU, a disk has taken."""
        with self._lock:
            waits = max(1.0, self._passed_s / self._cpu_s) if self._cpu_s > 0 else 1.0
            self._tallies[name].seconds += max(cpu_s, passed_s / waits)

    def hold(self) -> None:
        """The capture ends: as much is shed as now, and no more."""
        self._held = True

    # ------------------------------------------------------------------ decisions
    def look(self, receive_ns: int, backlog_s: float, *, sample: bool = True) -> None:
        """A sample, or a measurement, received at a time is about to be handed to the formats.

        Measurements wait less than samples; they count where no samples come. ``backlog_s`` is how long it
        will wait there.
        """
        if self._held:
            return
        now_s = self._clock_s()
        if not sample and now_s - self._sampled_s < NO_SAMPLES_S:
            return
        if sample:
            self._sampled_s = now_s
        held_s = min(max((self._receive_ns - receive_ns) / 1e9, 0.0), 30.0)
        queued_s = 0.0 if self._due_s is None else max(0.0, now_s - self._due_s)
        before, work = self._looked, self._work
        wait_s = min(held_s, self.wait_s)
        if before is not None:  # what a sequence's end sets free at once has as much time as the others
            wait_s = max(wait_s, before.wait_s - RECOVERY * (now_s - before.now_s))
        now = _Look(now_s, queued_s + backlog_s + held_s, wait_s)
        if before is None:
            self._looked, self._credit_s = now, now.latency_s if now.latency_s > self.wait_s else 0.0
            return
        passed_s = now_s - before.now_s
        if passed_s < max(PERIOD_S if self._work >= 1 else CALM_S, self._pause_s):
            return
        self._looked, self._credit_s = now, self._credit_s - RECOVERY * passed_s
        self._steer(before, now, passed_s)
        # What was handed over before is still to be written, and shows nothing of a change.
        self._pause_s = min(backlog_s, 1.0) if self._work < work else 0.0

    def takes(
        self, name: str, time_ns: int, *, stream: str = "", possible: bool = True, better: bool = True
    ) -> bool:
        """Whether a format has time for the next sample, or measurement of a stream; see ``Even``."""
        share = self._shares[name]
        taken = self._even.setdefault((name, stream), Even()).takes(share, possible=possible, better=better)
        with self._lock:
            self._tallies[name].count(time_ns, shed=not taken, thinned=share < 1 or not taken)
        return taken

    def wants_picture(self, names: Sequence[str], *, possible: bool = True, better: bool) -> bool:
        """Whether the picture of the next sample is to be made, before these formats decide about it."""
        share = max((self._shares[name] for name in names), default=0.0)
        return self._even.setdefault(("", ""), Even()).takes(share, possible=possible, better=better)

    def counted(self) -> None:
        """A sample has been decided upon for every format."""
        with self._lock:
            for name, tally in self._tallies.items():
                tally.seconds *= MEMORY
                tally.samples = tally.samples * MEMORY + self._shares[name]

    # ------------------------------------------------------------------ what is told
    @property
    def shares(self) -> Mapping[str, float]:
        """Of the samples of each format, how many are written now."""
        return dict(self._shares)

    @property
    def order(self) -> tuple[str, ...]:
        """In which formats are shed."""
        costs = self.costs_s
        rest = [name for name in self._formats if name not in self._first]
        # One that is shed already stays before others that take hardly longer.
        dear = {name: costs[name] * (STAY if self._shares[name] < 1 else 1) for name in rest}
        return (*self._first, *sorted(rest, key=lambda name: -dear[name]))

    @property
    def costs_s(self) -> dict[str, float]:
        """What a sample takes, by format."""
        with self._lock:
            return {name: tally.cost_s for name, tally in self._tallies.items()}

    @property
    def shed(self) -> dict[str, tuple[int, int]]:
        """By format of which anything was shed: how many, of how many."""
        with self._lock:
            return {name: (t.shed, t.of) for name, t in self._tallies.items() if t.shed}

    def report(self) -> dict[str, object]:
        """By format: what was shed and when, in times of the samples."""
        with self._lock:
            return {
                name: {
                    "shed": tally.shed,
                    "of": tally.of,
                    "spans": [
                        {"from_ns": s.first_ns, "to_ns": s.last_ns, "shed": s.shed, "of": s.of}
                        for s in tally.spans
                        if s.shed
                    ],
                }
                for name, tally in self._tallies.items()
                if tally.shed
            }

    # ------------------------------------------------------------------ control
    def _steer(self, before: _Look, now: _Look, passed_s: float) -> None:
        allowed_s = max(LEAST_S, self.latency_s - MARGIN_S - self.hold_s - now.wait_s)
        recovering = self._credit_s > now.wait_s
        late_s, was_late_s = now.late_s(self._credit_s), before.late_s(self._credit_s)
        slip_s = now.latency_s - before.latency_s if recovering else late_s - was_late_s
        pace = max(0.0, 1 - slip_s / passed_s)
        wanted = max(0.5, 1 + (late_s - AIM * allowed_s) / CATCH_UP_S)
        step = pace / wanted
        if self.keyframes_only:
            self.keyframes_only = not late_s < IDLE * allowed_s
        elif self._work <= KEEP and pace < GAINS and min(late_s, was_late_s) > KEYFRAMES * allowed_s:
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
        """Less work, less of the first format's samples, then of the next one's."""
        costs = {name: max(cost_s, 1e-6) for name, cost_s in self.costs_s.items()}
        left = (1 - self._work) * sum(costs.values())
        shares = dict.fromkeys(self._formats, 1.0)
        for name in self.order:
            spared = min(left, (1 - KEEP) * costs[name])
            shares[name] = 1 - spared / costs[name]
            left -= spared
        self._shares = shares
