"""Clocks that run away, and topics that only become late, die or return."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import log

import pytest
from streams import MS, SECOND, Event, Made, Sent, errors, monotonic, run, stream, wall

from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import Rule

Late = Callable[[int], int]
"""What is added to a latency, by true time."""
LATENCY_MS = {"camera": 25, "gps": 120, "model": 70, "imu": 3, "radar": 15, "lidar": 60}
HZ = {"camera": 30, "gps": 10, "model": 15, "imu": 140, "radar": 18, "lidar": 10}
OWN, FOREIGN = ("camera", "gps", "model"), ("imu", "radar", "lidar")
JITTER_MS = {"gps": 60.0, "lidar": 20.0, "model": 40.0}


def nothing(_: int) -> int:
    return 0


def from_s(start_s: float, by_ms: float, end_s: float = 1e9) -> Late:
    return lambda t: round(by_ms * MS) if start_s * SECOND <= t < end_s * SECOND else 0


def made(
    topic: str,
    seconds: float = 70,
    *,
    until_s: float = 1e9,
    start_s: float = 0,
    late: Late = nothing,
    runs: Late = nothing,
    hz: float | None = None,
) -> Made:
    """One of the device's topics; ``runs`` is by how much its clock is slow."""
    base = wall if topic in OWN else monotonic
    return stream(
        topic,
        hz or HZ[topic],
        min(seconds, until_s) - start_s,
        stamp=lambda t: base(t) - runs(t),
        latency_ms=LATENCY_MS[topic],
        jitter_ms=JITTER_MS.get(topic, 3.0),
        start_ns=round(start_s * SECOND),
        step=late,
    )


def judged(*streams: Made) -> tuple[list[Event], list[str], list[str]]:
    """Events, reasons of boundaries, and what was told."""
    told: list[str] = []
    events, _ = run(*streams, finder=ClockFinder(tell=told.append))
    return events, [e.reason for e in events if isinstance(e, Boundary)], told


def test_lidar_keeps_its_times_when_the_prompt_topics_of_its_clock_die() -> None:
    events, reasons, told = judged(
        *(made(t) for t in OWN), made("imu", until_s=25), made("radar", until_s=20), made("lidar")
    )
    assert reasons == []
    assert told == []
    off = errors(events, "lidar")
    assert len(off) == 700
    assert max(off) == min(off)


@pytest.mark.parametrize("topics", [OWN + FOREIGN, FOREIGN, OWN, ("imu",), ("lidar",)])
@pytest.mark.parametrize("end_s", [1e9, 60])
def test_a_busy_receiver_is_no_drift(topics: tuple[str, ...], end_s: float) -> None:
    """Everything comes later from 30 s on, of every clock there is, by an amount of its own."""
    streams = [made(t, 100, late=from_s(30, 40 + 10 * number, end_s)) for number, t in enumerate(topics)]
    events, reasons, told = judged(*streams)
    assert reasons == []
    assert topics == OWN or any("busy" in each or "comes" in each for each in told)
    for topic in topics:
        assert len(set(errors(events, topic))) == 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("alive", [FOREIGN, ("imu",), ("lidar",), ("radar", "lidar")])
def test_a_clock_that_runs_away_is_followed(alive: tuple[str, ...], sign: int) -> None:
    """500 ppm: 45 ms at the end, if nothing were done."""
    streams = [made(t, 90, runs=lambda t: sign * t // 2000) for t in alive]
    events, reasons, told = judged(*(made(t, 90) for t in OWN), *streams)
    assert reasons == []
    assert told == []
    for topic in alive:
        off = [e for e in events if isinstance(e, Sent) and e.topic == topic]
        assert max(errors(off, topic)) - min(errors(off, topic)) < 20 * MS
        late = errors((e for e in off if e.true_ns > 45 * SECOND), topic)
        assert max(late) - min(late) < (3 if "imu" in alive else 6) * MS
        times = [e.time_ns for e in off]
        assert times == sorted(times), "a correction turns nothing round"


@pytest.mark.parametrize(
    ("ppm", "is_corrected"), [(3, False), (-3, False), (30, True), (-30, True), (100, True)]
)
def test_the_rate_of_a_clock_is_found_and_what_is_stated_holds(ppm: int, is_corrected: bool) -> None:
    """Two minutes; below a millisecond nothing is touched."""
    finder: ClockFinder[Sent] = ClockFinder()
    for topic, ms in LATENCY_MS.items():
        finder.rule(topic, Rule(latency_ns=ms * MS))
    streams = [made(t, 120, runs=lambda t: t * ppm // 1_000_000) for t in ("imu", "lidar")]
    events, findings = run(*(made(t, 120) for t in OWN), *streams, finder=finder)
    (imu,) = (f for f in findings if f.topic == "imu")
    assert (imu.drift_ppm is not None) == is_corrected
    assert ("ppm" in imu.text) == is_corrected
    assert imu.drift_ppm is None or imu.drift_ppm == pytest.approx(ppm, abs=4)
    assert imu.uncertainty_ns is not None
    assert 2 * MS <= imu.uncertainty_ns < 3.2 * MS
    off = errors(events, "imu")
    assert max(map(abs, off)) <= imu.uncertainty_ns


@pytest.mark.parametrize("ppm", [-50, 0, 50])
def test_drift_shows_through_a_bad_wireless_link(ppm: int) -> None:
    """Its latencies hide 50 ppm for minutes: too little in two, and seen in eight."""
    rng = random.Random(ppm)

    def wireless(_: int) -> int:
        """At least 5 ms more; 5 and 200 ms are exceeded by 97.5 and 2.5 % of what is added to that."""
        return round((5 + rng.lognormvariate(log(1000) / 2, log(40) / 3.92)) * MS)

    def runs(t: int) -> int:
        return t * ppm // 1_000_000

    sent = [m for topic in ("camera", "gps") for m in made(topic, 600, hz=10, late=wireless)]
    sent += made("imu", 600, hz=40, late=wireless, runs=runs)
    sent += made("lidar", 600, hz=5, late=wireless, runs=runs)
    finder: ClockFinder[Sent] = ClockFinder()
    events: list[Event] = []
    for true_ns, times in sorted(sent, key=lambda m: m[1].receive_ns):
        events += finder.feed(Sent.of(true_ns, times))
    events += finder.flush()
    assert not [e for e in events if isinstance(e, Boundary)]
    off = errors(events, "imu")
    # That the floor of latencies is not known moves all times alike.
    late = [round(sum(off[n : n + 40]) / 40 - off[0]) for n in range(0, len(off) - 40, 400)]
    assert max(map(abs, late[-24:])) < (1 if not ppm else 10) * MS


def test_stamps_taken_as_configured_are_not_watched() -> None:
    finder: ClockFinder[Sent] = ClockFinder()
    finder.rule("imu", Rule("stamp"))
    events, _ = run(made("camera", 90), made("imu", 90, runs=lambda t: t // 1000), finder=finder)
    assert not [e for e in events if isinstance(e, Boundary)]
