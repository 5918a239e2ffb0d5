"""How well another clock's offset is known, against clocks made whose latencies are not the usual ones."""

from __future__ import annotations

import random

import numpy as np
import pytest
from streams import MONOTONIC, MS, WALL, Made, Sent, monotonic, run, stream, wall

from edgefirst_ros.timing.clock import ClockFinder
from edgefirst_ros.timing.finding import Arrivals, Rule, TopicClock, estimate, percentile

TRUE_NS = WALL - MONOTONIC
USUAL_MS = {"imu": 3.0, "radar": 15.0, "lidar": 60.0, "camera": 25.0, "gps": 120.0}
HZ = {"imu": 140, "radar": 18, "lidar": 10, "camera": 30, "gps": 5}
FOREIGN = ("imu", "radar", "lidar")


def made(topic: str, latency_ms: float, jitter_ms: float) -> Made:
    stamp = monotonic if topic in FOREIGN else wall
    return stream(topic, HZ[topic], 5, stamp=stamp, latency_ms=latency_ms, jitter_ms=jitter_ms)


def found(latencies_ms: dict[str, float], usual_ms: dict[str, float] | None = None) -> dict[str, TopicClock]:
    finder: ClockFinder[Sent] = ClockFinder()
    for topic, ms in (USUAL_MS if usual_ms is None else usual_ms).items():
        finder.rule(topic, Rule(latency_ns=round(ms * MS)))
    streams = [made(topic, ms, ms / 2) for topic, ms in latencies_ms.items()]
    _, findings = run(*streams, finder=finder)
    return {f.topic: f for f in findings}


def off_ms(finding: TopicClock) -> float:
    return (finding.offset_ns - TRUE_NS) / MS


def test_usual_latencies_give_the_offset_itself() -> None:
    findings = found(USUAL_MS)
    offsets = {findings[t].offset_ns for t in FOREIGN}
    assert len(offsets) == 1, "the topics of one clock share one offset"
    assert abs(off_ms(findings["lidar"])) < 0.5
    assert findings["lidar"].uncertainty_ns == pytest.approx(2 * MS, rel=1e-3)
    assert "± 2.0 ms" in findings["lidar"].text
    assert abs((findings["lidar"].latency_ns or 0) / MS - 60) < 3, "the latencies themselves are told"
    assert (findings["camera"].offset_ns, findings["camera"].uncertainty_ns) == (0, 0)


@pytest.mark.parametrize("alive", [FOREIGN, ("radar", "lidar"), ("lidar",)])
@pytest.mark.parametrize("seed", range(12))
def test_the_truth_lies_within_the_uncertainty_on_a_device_of_other_latencies(
    alive: tuple[str, ...], seed: int
) -> None:
    """Every latency differs by up to its spread; nothing may be received before it was acquired."""
    rng = random.Random(seed)
    spread_ms = {t: max(2.0, USUAL_MS[t] / 2) for t in alive}
    actual = {t: USUAL_MS[t] + rng.uniform(-spread_ms[t], spread_ms[t]) for t in alive}
    findings = found({**actual, "camera": 25.0})
    for topic in alive:
        finding = findings[topic]
        assert finding.uncertainty_ns is not None
        assert abs(off_ms(finding)) <= finding.uncertainty_ns / MS + 0.5
        assert finding.latency_ns is not None
        assert finding.latency_ns >= 0


def test_the_offset_is_never_later_than_the_promptest_message_allows() -> None:
    """The imu is jittery and says late; the radar, usually 15 ms late, comes at once."""
    findings = found({"imu": 30.0, "radar": 1.0})
    assert off_ms(findings["imu"]) <= 1.1
    assert (findings["radar"].latency_ns or 0) >= 0


def test_a_latency_dates_messages_without_a_stamp_and_the_users_offset_comes_on_top() -> None:
    finder: ClockFinder[Sent] = ClockFinder()
    finder.rule("mask", Rule(offset_ns=-5 * MS, latency_ns=70 * MS))
    made = stream("mask", 15, 5, stamp=lambda _: 0, latency_ms=70, jitter_ms=0)
    events, findings = run(made, finder=finder)
    assert {e.time_ns - WALL - e.true_ns for e in events if hasattr(e, "time_ns")} == {-5 * MS}
    assert findings[0].text == "receive time less the usual latency of 70 ms: it has no stamp"
    finder = ClockFinder()
    finder.rule("mask", Rule("receive", 0, 70 * MS))
    events, _ = run(made, finder=finder)
    assert {e.time_ns - WALL - e.true_ns for e in events if hasattr(e, "time_ns")} == {70 * MS}


def test_seconds_since_1970_lose_no_precision() -> None:
    exact = estimate([Arrivals(np.full(50, TRUE_NS + 3 * MS + 7, np.int64), 3 * MS)])
    assert exact.offset_ns - TRUE_NS == 7


@pytest.mark.parametrize("percent", [10, 90, 95])
@pytest.mark.parametrize("origin_ns", [0, -40_000_000, 1_773_483_492_747_000_000])
def test_percentiles_are_numpys_to_the_bit(percent: int, origin_ns: int) -> None:
    generator = np.random.default_rng(percent)
    for count in (*range(1, 40), 200, 1024):
        values = origin_ns + generator.integers(0, 60_000_000, count)
        assert percentile(values, percent) == np.percentile(values, percent)
