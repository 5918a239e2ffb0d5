"""How well another clock's offset is known, against clocks made whose latencies are not the usual ones."""

from __future__ import annotations

import random

import numpy as np
import pytest
from streams import MONOTONIC, MS, WALL, Made, Sent, monotonic, run, stream, wall

from edgefirst_ros.config.model import MAIVIN_TOPICS
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


def test_the_surest_topic_decides() -> None:
    """A lidar 40 ms slower than usual says little beside an imu."""
    findings = found({"imu": 3.0, "radar": 15.0, "lidar": 100.0})
    assert abs(off_ms(findings["lidar"])) < 0.6


def test_the_offset_is_never_later_than_the_promptest_message_allows() -> None:
    """The imu is jittery and says late; the radar, usually 15 ms late, comes at once."""
    findings = found({"imu": 30.0, "radar": 1.0})
    assert off_ms(findings["imu"]) <= 1.1
    assert (findings["radar"].latency_ns or 0) >= 0


def test_topics_that_disagree_make_the_clock_less_sure() -> None:
    sure = Arrivals(np.full(90, 3 * MS), 3 * MS)
    contrary = Arrivals(np.full(90, 23 * MS), 3 * MS)
    assert estimate([sure]).uncertainty_ns == 2 * MS
    both = estimate([sure, contrary])
    assert both.uncertainty_ns == 10 * MS
    assert both.offset_ns == 3 * MS, "later than the first allows is impossible"


def test_a_few_jittery_messages_are_less_sure_than_many() -> None:
    rng = np.random.default_rng(1)
    few = rng.exponential(20 * MS, 4).astype(np.int64) + 3 * MS
    many = rng.exponential(20 * MS, 4000).astype(np.int64) + 3 * MS
    a, b = estimate([Arrivals(few, 3 * MS)]), estimate([Arrivals(many, 3 * MS)])
    assert a.uncertainty_ns is not None
    assert b.uncertainty_ns is not None
    assert abs(a.offset_ns) <= a.uncertainty_ns
    assert abs(b.offset_ns) < MS // 10
    assert a.uncertainty_ns > 2 * b.uncertainty_ns


def test_a_recorder_that_gets_its_own_clocks_topics_late_is_less_sure_of_the_others() -> None:
    usual = found(USUAL_MS)["imu"].uncertainty_ns
    far = found({**USUAL_MS, "camera": 25.0 + 60, "gps": 120.0 + 90})["imu"].uncertainty_ns
    one = found({**USUAL_MS, "camera": 25.0 + 60})["imu"].uncertainty_ns
    assert usual == pytest.approx(2 * MS, rel=5e-3)
    assert one == pytest.approx(2 * MS, rel=5e-3)
    assert far is not None
    assert far > 25 * MS


def test_without_any_known_latency_the_promptest_message_is_the_bound() -> None:
    findings = found({"imu": 3.0, "lidar": 60.0}, {})
    assert 3 <= off_ms(findings["lidar"]) < 3.1
    assert findings["lidar"].uncertainty_ns is None
    assert "latency_ms" in findings["lidar"].text


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


def test_the_shipped_configuration_knows_the_latencies_of_what_stamps_another_clock() -> None:
    for name in (
        "imu",
        "radar_targets",
        "radar_cube",
        "lidar_points",
        "camera",
        "gps",
        "model",
        "model_mask",
    ):
        assert MAIVIN_TOPICS[name].latency_ms is not None


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
