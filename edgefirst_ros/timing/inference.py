"""Finds the picture that a mask without a stamp was computed on, from the order and latency of arrivals."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import inf
from typing import Generic, Literal, TypeVar

import numpy as np

KEEP_NS = 2_000_000_000
SAME_NS = 1_000_000
"""A picture and the model's output for it have the same stamp, except for rounding."""
EARLY_NS, LATE_NS = 25_000_000, 350_000_000
"""Candidates are pictures whose latency would be at most this far below or above the least latency."""
SURE, SURE_BY_HABIT = 3.0, 4.0
"""Log-likelihood lead that the best picture needs: 20 to 1, more where no output shows the latency."""
AHEAD = 24
MOST = 1024
LOST_MASK, LOST_OUTPUT, LOST_PICTURE, OFF_BEAT = 3.0, 6.0, 10.0, 6.0
"""-log p of a missing message, and of a model that is one picture off its usual beat."""
RECENT = 256
"""Receipts of masks and outputs that are compared."""
EDGE_NS = 10_000_000
"""The model's output and its mask are received within this."""
MEASURED = 20
"""Number of outputs from which the variation of the latency is estimated."""
ALIVE_NS = 1_000_000_000
BEAT = 32
LONGEST_HOLE = 10
RHYTHM = 4
UNLIKELY = 15.0
WHOLE = 0.25
"""A beat this close to a whole number of pictures is rounded to it."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Latency:
    """Distribution of the time from picture to receipt: the least, and the scales above and below it."""

    least_ns: int
    later_ns: float
    earlier_ns: float

    def cost(self, latency_ns: int) -> float:
        over_ns = latency_ns - self.least_ns
        return over_ns / self.later_ns if over_ns >= 0 else -over_ns / self.earlier_ns


class MaskTimes(Generic[Item]):
    """Finds the picture of each mask of one topic.

    The model sends each mask together with its boxes, which carry the picture's stamp. Successive masks
    belong to successive, different pictures. A mask arrives about one latency after its picture: the latency
    measured on the model's outputs or, without outputs, the usual one, with masks at a regular beat. A mask
    is held for ``hold_ns``, because the masks after it narrow down the choice; the most likely joint
    assignment of all held masks decides. If another picture is almost as likely, the mask gets none.

    Args:
        hold_ns: longest time that a mask is held.
        usual_ns: usual least latency of masks.
        beyond_model_ns: by how much it usually exceeds the latency of the model's outputs.
    """

    def __init__(self, hold_ns: int, usual_ns: int, beyond_model_ns: int = 0) -> None:
        self._hold_ns = hold_ns
        self._usual_ns = usual_ns
        self._beyond_ns = beyond_model_ns
        self._held: deque[tuple[Item, int, bool]] = deque()
        """Each mask with its receipt, and whether it may be the one before again."""
        self._masks: deque[int] = deque(maxlen=RECENT)
        self._answers: deque[int] = deque(maxlen=RECENT)
        """Receipts of masks and of outputs."""
        self._pictures: list[int] = []
        """Times of pictures, including those known only from an output."""
        self._outputs: list[int] = []
        self._latencies: deque[int] = deque(maxlen=10 * MEASURED)
        self._arrivals: deque[int] = deque(maxlen=BEAT)
        self._before: dict[int | None, float] = {None: 0.0}
        """-log p of each possible picture of the previous mask, relative to the most likely one."""
        self._last_ns = 0

    @property
    def has_outputs(self) -> bool:
        """Whether the latency is known from outputs of the model."""
        return bool(self._latencies)

    @property
    def held(self) -> Iterator[Item]:
        """Masks whose picture is not known yet."""
        return (item for item, _, _ in self._held)

    def picture(self, time_ns: int) -> None:
        """A picture was taken."""
        _add(self._pictures, time_ns)

    def output(self, time_ns: int, receive_ns: int) -> None:
        """The model's output for the picture of that time was received."""
        _add(self._pictures, time_ns)
        _add(self._outputs, time_ns)
        self._latencies.append(receive_ns - time_ns)
        self._answers.append(receive_ns)

    def mask(self, item: Item, receive_ns: int, *, is_alike: bool = False) -> None:
        """A mask came; ``is_alike`` if it may be the one before, sent twice."""
        self._held.append((item, receive_ns, is_alike))
        self._masks.append(receive_ns)
        if not is_alike:
            self._arrivals.append(receive_ns)

    def due(self, now_ns: int | None) -> Iterator[tuple[Item, int | Literal["uncertain", "repeated"]]]:
        """Masks held long enough, or all if no time is given, with its picture's time, or why it has none."""
        while self._held and (now_ns is None or now_ns - self._held[0][1] >= self._hold_ns):
            item, receive_ns, is_alike = self._held[0]
            self._forget(receive_ns - KEEP_NS)
            if is_alike and self._surplus(receive_ns):
                self._masks.remove(receive_ns)
                self._held.popleft()
                yield item, "repeated"
                continue
            time_ns = self._choose() if self._pictures else receive_ns - self._usual_ns
            if time_ns is not None:
                self._last_ns = time_ns
            self._held.popleft()
            yield item, "uncertain" if time_ns is None else time_ns

    def _surplus(self, receive_ns: int) -> int:
        """How many masks came around then beyond the model's outputs, each of which has one mask.

        Outputs are counted a little beyond the masks, as either may come first. Without any, all are surplus.
        """
        edge_ns = receive_ns - ALIVE_NS
        masks = sum(ns >= edge_ns for ns in self._masks)
        last_ns = self._masks[-1] if self._masks else receive_ns
        return masks - sum(edge_ns - EDGE_NS <= ns <= last_ns + EDGE_NS for ns in self._answers)

    def _forget(self, before_ns: int) -> None:
        for times in (self._pictures, self._outputs):
            del times[: bisect_left(times, before_ns)]

    def _latency(self) -> _Latency:
        count = len(self._latencies)
        if not count:
            return _Latency(self._usual_ns, max(self._usual_ns / 6, 5e6), 8e6)
        least_ns = min(self._latencies)
        jitter_ns = float(np.mean(self._latencies)) - least_ns if count >= MEASURED else least_ns / 6
        return _Latency(least_ns + self._beyond_ns, max(jitter_ns, 5e6), 2e6)

    def _choose(self) -> int | None:
        """The picture of the first mask held, None if no picture is clearly the most likely."""
        latency = self._latency()
        surplus = self._surplus(self._held[0][1])
        arrivals = []
        for _, receive_ns, is_alike in islice(self._held, AHEAD):
            if is_alike and surplus > 0:
                surplus -= 1
            else:
                arrivals.append(receive_ns)
        first_ns = arrivals[0] - latency.least_ns - LATE_NS
        slots = _without_holes([t for t in self._pictures if t >= first_ns], _period_ns(self._pictures))
        if not slots:
            return None
        (best_ns, cost), *others = self._weigh(slots, arrivals, latency)
        least = SURE if self._latencies else SURE_BY_HABIT
        sure = not others or others[0][1] - cost >= least
        return best_ns if sure and best_ns is not None and best_ns > self._last_ns else None

    def _weigh(
        self, slots: Sequence[int], arrivals: Sequence[int], latency: _Latency
    ) -> list[tuple[int | None, float]]:
        """-log p of each possible picture of the first mask (None: not among these), most likely first.

        Each includes the best assignment of the masks before and after it.
        """
        lacking = {t: LOST_OUTPUT * (self._is_alive(t) and not self._is_output(t)) for t in slots}
        costs = [
            {
                t: latency.cost(receive_ns - t) + lacking[t]
                for t in slots
                if -EARLY_NS <= receive_ns - t - latency.least_ns <= LATE_NS
            }
            for receive_ns in arrivals
        ]
        step = self._steps(slots)

        @cache
        def rest(mask: int, last: int | None) -> float:
            """-log p of the best assignment of the masks from this one on."""
            if mask == len(costs):
                return 0.0
            best = LOST_PICTURE + rest(mask + 1, last)
            for t, cost in costs[mask].items():
                if cost < best and _is_before(last, t):
                    best = min(best, cost + step(last, t) + rest(mask + 1, t))
            return best

        none = {last: cost + LOST_PICTURE for last, cost in self._before.items()}
        own = {
            t: cost + min(ways)
            for t, cost in costs[0].items()
            if (ways := [c + step(last, t) for last, c in self._before.items() if _is_before(last, t)])
        }
        likely: dict[int | None, float] = {t: cost + rest(1, t) for t, cost in own.items()}
        likely[None] = min(cost + rest(1, last) for last, cost in none.items())
        found = {t: min(own.get(t, inf) if t is not None else inf, none.get(t, inf)) for t in {*own, *none}}
        least = min(found.values())
        self._before = {t: cost - least for t, cost in found.items() if cost - least < UNLIKELY}
        return sorted(likely.items(), key=lambda each: each[1])

    def _is_output(self, time_ns: int) -> bool:
        at = bisect_left(self._outputs, time_ns - SAME_NS)
        return at < len(self._outputs) and self._outputs[at] <= time_ns + SAME_NS

    def _is_alive(self, time_ns: int) -> bool:
        """Whether outputs arrive around this time."""
        at = bisect_left(self._outputs, time_ns - ALIVE_NS)
        return at < len(self._outputs) and self._outputs[at] <= time_ns + ALIVE_NS

    def _steps(self, slots: Sequence[int]) -> Callable[[int | None, int], float]:
        """The -log p of one mask's picture being followed by the next mask's."""
        alive, beat, period_ns = self._is_alive(slots[0]), self._beat(), _period_ns(self._pictures)
        rank = cache(lambda time_ns: bisect_left(self._outputs, time_ns - SAME_NS))
        seen = cache(self._is_output)

        def step(last_ns: int | None, time_ns: int) -> float:
            if last_ns is None:
                return 0.0
            lost = _lost(rank(time_ns) - rank(last_ns) - 1)
            if not beat or (seen(last_ns) and seen(time_ns)):
                return lost
            pictures = (time_ns - last_ns) / period_ns
            beats = max(1, round(pictures / beat))
            off = (OFF_BEAT if beat.is_integer() else 1.0) * abs(pictures - beats * beat)
            return off + (lost if alive else _lost(beats - 1))

        return step

    def _beat(self) -> float:
        """Number of pictures per mask, 0 while it is unknown."""
        if len(self._arrivals) <= RHYTHM or len(self._pictures) <= RHYTHM:
            return 0.0
        gaps_ns = np.diff(np.array(self._arrivals))
        middle_ns = float(np.median(gaps_ns))
        # A gap that is only jitter counts as no beat, the gap of a lost mask as two.
        beats = float(np.rint(gaps_ns / middle_ns).sum()) if middle_ns > 0 else 0.0
        usual_ns = float(gaps_ns.sum()) / max(1.0, beats)
        beat = usual_ns / _period_ns(self._pictures)
        return max(1.0, float(round(beat))) if beat < 1 or abs(beat - round(beat)) < WHOLE else beat


def _lost(masks: int) -> float:
    """-log p of missing masks; more than two in a row are a silence whose length means nothing."""
    return LOST_MASK * min(max(0, masks), 2)


def _is_before(last_ns: int | None, time_ns: int) -> bool:
    return last_ns is None or last_ns < time_ns - SAME_NS


def _add(times: list[int], time_ns: int) -> None:
    at = bisect_left(times, time_ns - SAME_NS)
    if at == len(times) or times[at] > time_ns + SAME_NS:
        insort(times, time_ns)
        del times[:-MOST]


def _without_holes(times: Sequence[int], period_ns: float) -> list[int]:
    """The times, with those of lost pictures filled in, as a mask may belong to a lost picture."""
    filled: list[int] = []
    for time_ns in times:
        if filled:
            missing = round((time_ns - filled[-1]) / period_ns) - 1
            if 0 < missing <= LONGEST_HOLE:
                step_ns = (time_ns - filled[-1]) / (missing + 1)
                filled += [filled[-1] + round(step_ns * (n + 1)) for n in range(missing)]
        filled.append(time_ns)
    return filled


def _period_ns(times: Sequence[int]) -> float:
    return max(1.0, float(np.median(np.diff(np.array(times))))) if len(times) > 1 else 1e9
