"""When a topic paused, and how its latencies are folded."""

from __future__ import annotations

from collections import Counter

import pytest

from edgefirst_ros.timing.gaps import KEPT, MOST_BINS, StreamStats, folded, quantile

MS = 1_000_000


def fed(times_ms: list[int], latency_ms: int = 20) -> StreamStats:
    stats = StreamStats("t")
    for time_ms in times_ms:
        stats.add(time_ms * MS, (time_ms + latency_ms) * MS, counts_gaps=True)
    return stats


def test_a_steady_topic_has_no_pause() -> None:
    assert fed(list(range(0, 60_000, 100))).pauses.count == 0


def test_a_pause_has_its_begin_and_end() -> None:
    stats = fed([t for t in range(0, 20_000, 100) if not 5_000 < t < 9_000])
    assert stats.pauses.longest == [(5_000 * MS, 9_000 * MS)]
    assert stats.pauses.total_ns == 4_000 * MS


def test_two_messages_an_epoch_are_no_pause_but_missing_epochs_are() -> None:
    """The device sends two fixes an epoch, so that the topic has no usual interval."""
    epochs = [t for t in range(0, 60_000, 400) if not 20_000 < t < 30_000]
    stats = fed([time for t in epochs for time in (t, t + 40)])
    assert stats.pauses.longest == [(20_040 * MS, 30_000 * MS)]


def test_a_slower_rate_is_learnt() -> None:
    stats = fed([*range(0, 10_000, 100), *range(10_000, 60_000, 1_000)])
    assert stats.pauses.count < 25
    assert stats.pauses.limit_ns > 1_000 * MS


@pytest.mark.parametrize("after_s", [0.5, 5, 20])
def test_a_pause_before_the_usual_interval_is_known_is_one(after_s: float) -> None:
    """The sensor is restarted after five sweeps."""
    resumed = [40_400 + t for t in range(0, round(after_s * 1000), 100)]
    stats = fed([*range(0, 500, 100), *resumed])
    assert stats.pauses.longest == [(400 * MS, 40_400 * MS)]
    assert stats.rate_hz == pytest.approx(10.0)


def test_pauses_before_the_usual_interval_is_known_are_all_found() -> None:
    times = [*range(0, 500, 100), *range(40_000, 41_000, 100), *range(43_000, 44_000, 100)]
    stats = fed([*times, *range(50_000, 80_000, 100)])
    assert [b - a for a, b in stats.pauses.longest] == [39_600 * MS, 2_100 * MS, 6_100 * MS]


def test_a_slow_topic_has_no_pauses() -> None:
    assert fed([0, 40, 10_000, 10_040, 20_000, 20_040]).pauses.count == 0
    assert fed([0, 10_000, 20_000]).pauses.count == 0
    assert fed([0, 1, 1_000]).pauses.count == 0


def test_the_rate_is_that_while_it_sends() -> None:
    assert fed([*range(0, 30_000, 100), *range(60_000, 90_000, 100)]).rate_hz == pytest.approx(10.0)
    switched = [*range(0, 30_000, 200), *range(30_000, 60_000, 50)]
    assert fed(switched).rate_hz == pytest.approx(12.5, rel=0.01)
    uneven = [t + 60 * (t // 200 % 2) for t in (*range(0, 3_000, 200), *range(9_000, 12_000, 200))]
    assert fed(uneven).rate_hz == pytest.approx(5.0, rel=0.1)


def test_of_many_pauses_the_longest_are_kept() -> None:
    times, now = [], 0
    for number in range(100):
        times += range(now, now + 3_000, 100)
        now += 3_000 + 500 + 10 * number
    pauses = fed(times).pauses
    assert pauses.count == 99
    assert len(pauses.longest) == KEPT
    assert min(end - begin for begin, end in pauses.longest) >= (500 + 10 * 66) * MS


def test_latencies_are_bounded_and_counted() -> None:
    stats = fed(list(range(0, 2_000, 100)), latency_ms=35)
    assert stats.latencies == {35: 20}
    stats.add(3_000 * MS, 10**18, counts_gaps=True)
    assert max(stats.latencies) == 10_000


@pytest.mark.parametrize("spread", [1, 7, 60, 61, 1_000, 10_000_000])
def test_a_histogram_has_few_bins_and_all_counts(spread: int) -> None:
    counts = Counter({-spread: 2, 0: 3, spread: 5, spread // 2: 1})
    found = folded(counts, 0.1)
    assert found is not None
    assert len(found["counts"]) <= MOST_BINS
    assert sum(found["counts"]) == counts.total()
    assert found["from_ms"] <= -spread * 0.1 < found["from_ms"] + found["bin_ms"] + 1e-9


def test_quantiles_are_of_the_counts() -> None:
    counts = {10: 50, 20: 45, 90: 5}
    assert (quantile(counts, 0.5), quantile(counts, 0.95), quantile({}, 0.5)) == (10, 20, None)
