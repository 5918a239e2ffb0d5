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


def test_nothing_is_counted_before_the_rate_is_known() -> None:
    assert lost([n * 100 * MS for n in (0, 1, 2, 3, 20, 21)]) == 0


def test_bursts_are_no_losses() -> None:
    """Three mounts each second, and fixes sent twice an epoch."""
    assert lost([s * 1000 * MS + k * 9 * MS for s in range(40) for k in range(3)]) == 0
    assert lost([e * 400 * MS + k * 40 * MS for e in range(60) for k in range(2)]) == 0


def test_what_waits_and_comes_at_once_is_no_rate() -> None:
    """1 kHz without stamps, taken every 2 ms, with stalls whose messages are taken within microseconds."""
    times, stalls = [], {300: 40, 700: 12, 1500: 90, 2400: 30}
    until = 0
    for n in range(4000):
        until = max(until, n + stalls.get(n, 2 - n % 2))
        times.append(until * MS + len(times) * 3_000)
    assert lost(times) == 0
    bunch = [n * 3_000 for n in range(200)]
    assert lost([0, *(3_000 * MS + t for t in bunch), *(3_001 * MS + n * MS for n in range(2000))]) == 0


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


def test_a_long_silence_counts_whole_under_jitter() -> None:
    times, _ = stamps(1, 0.5)
    assert lost(times[:3000] + times[3400:]) == 400


def test_a_stamp_that_is_late_alone_is_no_loss() -> None:
    times = [n * 33 * MS + (30 * MS if n in {40, 90, 91} else 0) for n in range(200)]
    counter = GapCounter()
    for time_ns in sorted(times):
        counter.add(time_ns)
    assert counter.lost == 0


def test_a_higher_rate_is_no_loss_and_counts_none_back() -> None:
    times = [n * 66 * MS for n in range(60) if n not in {30, 41}]
    times += [times[-1] + (n + 1) * 33 * MS for n in range(200)]
    counter = GapCounter()
    for time_ns in times:
        counter.add(time_ns)
    assert counter.lost == 2
    assert counter.usual_ns == 33 * MS


@pytest.mark.parametrize("drains", [0.0, 0.25, 0.6], ids=["at once", "fast", "slowly"])
@pytest.mark.parametrize("stall", [3, 40, 300])
def test_what_comes_in_a_bunch_after_a_stall_is_not_lost(stall: int, drains: float) -> None:
    """As of an IMU that is stamped when it is read: what waited comes faster than it was made."""
    period, times, ready = 7 * MS, [], 0
    for n in range(3 * stall + 1500):
        blocked = next((b + stall for b in (150, 2 * stall + 900) if b <= n < b + stall), n)
        ready = max(blocked * period, ready + round(drains * period) + 1000)
        times.append(ready)
    assert lost(times) == 0


def test_losses_beside_a_stall_are_counted() -> None:
    """Of 60 that wait, 20 are pushed out of the queue."""
    period = 7 * MS
    times = [n * period for n in range(200)]
    times += [260 * period + n * 100_000 for n in range(40)]
    times += [n * period for n in range(261, 600)]
    assert lost(times) == pytest.approx(20, abs=1)
