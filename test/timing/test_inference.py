"""Masks without a stamp against the pictures they were made of, by every way their arrivals can be spoilt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from edgefirst_ros.timing.inference import MaskTimes

MS = 1_000_000
START_NS = 1_777_626_000_000_000_000
HOLD_NS = 300 * MS


@dataclass(frozen=True)
class Case:
    """How a model runs, and what of it arrives; latencies in ms, losses as shares."""

    fps: int = 30
    every: float = 2
    latency_ms: float = 70
    jitter: float = 1.0
    outputs: bool = True
    lost_masks: float = 0.0
    lost_outputs: float = 0.0
    lost_pictures: float = 0.0


def late(rng: np.random.Generator, count: int, least_ms: float, jitter: float) -> npt.NDArray[np.int64]:
    """A quarter comes at once, the others up to 70 % later: up to 118 ms of 70."""
    excess = rng.normal(0.15, 0.2, count).clip(min=0) * jitter
    return np.rint(least_ms * (1 + excess) * MS).astype(np.int64)


def told(case: Case, seconds: float = 20, seed: int = 0) -> list[tuple[int, int | None]]:
    """For each mask that arrived: its picture's time, and the one found."""
    rng = np.random.default_rng(seed)
    pictures = START_NS + (np.arange(int(seconds * case.fps)) * 1e9 / case.fps).astype(np.int64)
    chosen = np.flatnonzero(np.diff(np.floor(np.arange(len(pictures)) / case.every), prepend=-1) > 0)
    seen = pictures[chosen]
    arrivals: list[tuple[int, int, int]] = []
    for kind, times, least_ms, lost in (
        (0, pictures, 25.0, case.lost_pictures),
        (1, seen, case.latency_ms, case.lost_outputs if case.outputs else 1.0),
        (2, seen, case.latency_ms, case.lost_masks),
    ):
        received = np.maximum.accumulate(times + late(rng, len(times), least_ms, case.jitter))
        kept = rng.random(len(times)) >= lost
        arrivals += [(int(r), kind, int(t)) for r, t, k in zip(received, times, kept, strict=True) if k]
    found: list[tuple[int, int | None]] = []
    matcher: MaskTimes[int] = MaskTimes(HOLD_NS, 70 * MS)
    for receive_ns, kind, time_ns in sorted(arrivals):
        if kind == 0:
            matcher.picture(time_ns)
        elif kind == 1:
            matcher.output(time_ns, receive_ns)
        else:
            matcher.mask(time_ns, receive_ns)
        found += certain(matcher.due(receive_ns))
    return found + certain(matcher.due(None))


def certain(found: Iterable[tuple[int, int | str]]) -> list[tuple[int, int | None]]:
    return [(item, None if isinstance(time_ns, str) else time_ns) for item, time_ns in found]


def counts(case: Case, drives: int = 2) -> tuple[float, float]:
    """Shares told right and told wrong."""
    found = [each for seed in range(drives) for each in told(case, seed=seed)]
    right = sum(time_ns is not None and abs(time_ns - true_ns) < MS for true_ns, time_ns in found)
    unsure = sum(time_ns is None for _, time_ns in found)
    return right / len(found), (len(found) - right - unsure) / len(found)


@pytest.mark.long(cases=4)
@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(every=1),
        Case(every=1.5),
        Case(every=3),
        Case(fps=15, every=1),
        Case(every=1, jitter=0.0),
        Case(latency_ms=45),
        Case(latency_ms=130),
        Case(lost_pictures=0.1),
    ],
    ids=str,
)
def test_with_outputs_every_mask_is_told_apart(case: Case) -> None:
    right, wrong = counts(case)
    assert right > 0.998
    assert wrong == 0.0


@pytest.mark.long(cases=3)
@pytest.mark.parametrize(
    ("case", "least"),
    [
        (Case(lost_masks=0.1), 0.99),
        (Case(fps=15, every=1, lost_masks=0.1), 0.99),
        (Case(jitter=2.0), 0.99),
        (Case(lost_outputs=0.1), 0.9),
        (Case(outputs=False), 0.97),
        (Case(outputs=False, lost_pictures=0.1), 0.97),
        (Case(outputs=False, fps=15, every=1), 0.97),
    ],
    ids=str,
)
def test_what_is_lost_leaves_masks_out_but_makes_none_wrong(case: Case, least: float) -> None:
    right, wrong = counts(case)
    assert right >= least
    assert wrong == 0.0


def test_a_model_without_outputs_that_loses_masks_is_hardly_ever_wrong() -> None:
    right, wrong = counts(Case(outputs=False, lost_masks=0.1), 4)
    assert right > 0.97
    assert wrong < 0.003


def test_none_waits_longer_than_it_may() -> None:
    matcher: MaskTimes[int] = MaskTimes(HOLD_NS, 70 * MS)
    for n in range(30):
        matcher.picture(START_NS + n * 33 * MS)
    matcher.mask(7, START_NS + 200 * MS)
    assert list(matcher.due(START_NS + 200 * MS + HOLD_NS - 1)) == []
    assert [item for item, _ in matcher.due(START_NS + 200 * MS + HOLD_NS)] == [7]


def test_without_pictures_and_outputs_the_usual_latency_dates() -> None:
    matcher: MaskTimes[int] = MaskTimes(HOLD_NS, 70 * MS)
    matcher.mask(1, START_NS)
    assert list(matcher.due(None)) == [(1, START_NS - 70 * MS)]


def test_memory_does_not_grow() -> None:
    matcher: MaskTimes[int] = MaskTimes(HOLD_NS, 70 * MS)
    for n in range(5000):
        matcher.output(START_NS + n * 33 * MS, START_NS + n * 33 * MS + 70 * MS)
    kept = [len(value) for value in vars(matcher).values() if hasattr(value, "__len__")]
    assert max(kept) <= 1024


def arrivals(stalled: range, copied: frozenset[int]) -> dict[int, list[int | str]]:
    """Times found for the masks of 90 pictures at 30 Hz, with outputs; some wait, or come twice."""
    times: MaskTimes[int] = MaskTimes(300 * MS, 70 * MS)
    period, released = 33 * MS, (stalled.stop + 2) * 33 * MS
    events: list[tuple[int, int, int]] = []
    for n in range(90):
        taken = n * period
        ready = max(taken + 70 * MS, released + n * 200_000) if n in stalled else taken + 70 * MS
        events += [(taken + 25 * MS, 0, n), (ready, 1, n), (ready + 100_000, 2, n)]
        events += [(ready + MS, 2, n)] * (n in copied)
    heard: list[int] = []
    found: dict[int, list[int | str]] = {}

    def take(now_ns: int | None) -> None:
        for number, time_ns in times.due(now_ns):
            found.setdefault(number, []).append(time_ns)

    for at, kind, n in sorted(events):
        take(at)
        if kind == 0:
            times.picture(n * period)
        elif kind == 1:
            times.output(n * period, at)
        else:
            times.mask(n, at, is_alike=len(heard) > 0 and at - heard[-1] <= 10 * MS)
            heard.append(at)
    take(None)
    return found
