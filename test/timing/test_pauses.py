"""When a topic paused, and how its latencies are folded."""

from __future__ import annotations

from edgefirst_ros.timing.gaps import KEPT, StreamStats, quantile

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


def test_quantiles_are_of_the_counts() -> None:
    counts = {10: 50, 20: 45, 90: 5}
    assert (quantile(counts, 0.5), quantile(counts, 0.95), quantile({}, 0.5)) == (10, 20, None)
