"""Losses counted from gaps, and topics that give no such count."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.timing.gaps import LEAST, GapCounter

MS = 1_000_000


def lost(times_ns: list[int]) -> int:
    counter = GapCounter()
    found = sum(counter.add(t) for t in times_ns)
    assert found == counter.lost
    return found


def _crowded(missing: set[int]) -> bool:
    """Whether so much is missing somewhere that the rest is no steady topic any more."""
    return any(len(missing & set(range(n, n + 32))) > 10 for n in range(300))


@given(
    period_ms=st.integers(5, 1000),
    missing=st.sets(st.integers(LEAST + 2, 298), max_size=90).filter(lambda lost: not _crowded(lost)),
    jitter=st.lists(st.floats(-0.1, 0.1), min_size=300, max_size=300),
)
def test_every_missing_message_of_a_steady_topic_is_counted(
    period_ms: int, missing: set[int], jitter: list[float]
) -> None:
    times = [round((n + jitter[n]) * period_ms * MS) for n in range(300) if n not in missing]
    assert lost(times) == len(missing)


def test_a_sensor_that_comes_as_it_pleases_gives_no_count() -> None:
    steps = [(37 * n * n) % 900 + 5 for n in range(200)]
    assert lost([t * MS for t in accumulate(steps)]) == 0


def test_a_lower_rate_stops_counting_as_loss() -> None:
    times = [n * 33 * MS for n in range(60)]
    times += [times[-1] + (n + 1) * 66 * MS for n in range(200)]
    assert lost(times) == 0
    counter = GapCounter()
    for time_ns in times:
        counter.add(time_ns)
    assert counter.usual_ns == 66 * MS


def stamps(seed: int, jitter: float, count: int = 12_000, loss: float = 0.0) -> tuple[list[int], int]:
    """Times of a 200 Hz topic, each anywhere within a share of the period; and how many are lost."""
    random = np.random.default_rng(seed)
    places = np.arange(count) + random.uniform(-jitter, jitter, count)
    kept = random.random(count) >= loss
    times = np.sort(places[kept] * 5 * MS) + 1_777_626_000_000_000_000
    return times.astype(np.int64).tolist(), int(count - kept.sum())


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.3, 0.5, 0.8])
def test_jitter_is_no_loss(jitter: float) -> None:
    """A hole that the bunch behind it makes up for, 12,000 times and more."""
    assert [lost(stamps(seed, jitter)[0]) for seed in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("jitter", [0.0, 0.3, 0.8])
def test_one_in_a_hundred_lost_is_found_under_any_jitter(jitter: float) -> None:
    for seed in range(3):
        times, missing = stamps(seed, jitter, loss=0.01)
        assert lost(times) == pytest.approx(missing, rel=0.1)
