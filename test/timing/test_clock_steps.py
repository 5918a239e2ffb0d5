"""Clocks that are stepped by less than a second, and what looks like it and is none."""

from __future__ import annotations

import random

import pytest
from devices import AT_NS, END_S, FOREIGN, OWN, Judged, Late, drive, prompt
from streams import MONOTONIC, MS, SECOND, WALL

from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes, Rule


def in_bundles(_topic: str, time_ns: int, _pick: random.Random) -> float:
    return 140.0 - time_ns / MS % 140.0


@pytest.mark.parametrize("jitter", [0.0, 1.0])
@pytest.mark.parametrize("by_ms", [-900, -300, -50, 50, 300, 900])
@pytest.mark.parametrize("stepped", [OWN, FOREIGN, OWN + FOREIGN], ids=["own", "foreign", "all"])
def test_a_step_is_found_within_two_seconds_and_nothing_gets_a_wrong_time(
    stepped: tuple[str, ...], by_ms: float, jitter: float
) -> None:
    judged = Judged(drive(stepped=stepped, by_ms=by_ms, jitter=jitter))
    (reason,) = judged.reasons
    assert f"was stepped by {by_ms:+d}."[:-1] in reason
    assert judged.found_ns[0] - AT_NS < 2 * SECOND
    assert judged.wrong() == []
    sides = {(sequence, true >= AT_NS) for sequence, topic, true, _ in judged.timed if topic in stepped}
    assert sides == {(0, False), (1, True)}, "each message is on the side that it was measured on"


@pytest.mark.parametrize("by_ms", [-700, -50, 50, 700])
def test_the_wall_clock_of_stamps_and_receiver_is_stepped(by_ms: float) -> None:
    """As NTP does it on the device: the other clock seems to move, and the axis of time follows the wall."""
    judged = Judged(drive(stepped=OWN, by_ms=by_ms, receiver_ms=by_ms))
    assert judged.reasons == [f"the wall clock was stepped by {by_ms:+.1f} ms"]
    assert judged.wrong(by_ms) == []


@pytest.mark.parametrize("by_ms", [-700, -100])
def test_the_wall_clock_is_set_back_and_no_other_clock_shows_it(by_ms: float) -> None:
    judged = Judged(drive(OWN, stepped=OWN, by_ms=by_ms, receiver_ms=by_ms))
    assert len(judged.reasons) == 1
    assert "the wall clock was stepped by -" in judged.reasons[0]
    assert judged.wrong(by_ms) == []


@pytest.mark.parametrize("topic", ["camera", "lidar", "imu"])
@pytest.mark.parametrize("by_ms", [-700, 700])
def test_stamps_of_one_topic_that_jump_are_told_and_cut_nothing(topic: str, by_ms: float) -> None:
    judged = Judged(drive(stepped=(topic,), by_ms=by_ms))
    assert judged.reasons == []
    (told,) = judged.told
    assert told.startswith(f"the stamps of {topic} jumped by {by_ms:+.1f} ms")
    assert judged.wrong() == []


@pytest.mark.parametrize("by_ms", [-700, -50, 50, 700])
def test_a_receiver_whose_clock_alone_is_stepped_moves_no_time(by_ms: float) -> None:
    judged = Judged(drive(receiver_ms=by_ms))
    assert judged.reasons == []
    assert judged.wrong() == []
    assert by_ms > 0 or [t for t in judged.told if t.startswith("the receiver's clock was stepped by -")]


def stall(start_s: float, end_s: float, drains: float = 0.0) -> Late:
    """Nothing comes for a while; then all of it at once, or faster than it was measured."""

    def late_ms(_: str, time_ns: int, pick: random.Random) -> float:
        at_s = time_ns / SECOND
        if start_s <= at_s < end_s:
            return 1000 * (end_s - at_s + drains * (at_s - start_s))
        return max(0.0, 1000 * (drains * (end_s - start_s) - 0.5 * (at_s - end_s))) if at_s >= end_s else 0.0

    return late_ms


def slow(start_s: float, by_ms: float, end_s: float = END_S, *, even: bool = True) -> Late:
    """Everything comes later, by the same or by as much as it happens."""
    return lambda _, time_ns, pick: (
        by_ms * (1.0 if even else pick.random()) if start_s <= time_ns / SECOND < end_s else 0.0
    )


FALSE: dict[str, Late] = {
    "nothing": prompt,
    "a stall of 0.3 s": stall(7, 7.3),
    "a stall of 0.8 s": stall(7, 7.8),
    "a stall of 3 s": stall(7, 10),
    "a stall that drains slowly": stall(7, 7.7, 0.7),
    "load for a second": slow(7, 50, 8),
    "much load for longer": slow(7, 300, 8.5),
    "load from then on": slow(7, 50),
    "much load from then on": slow(7, 700),
    "uneven load": slow(7, 300, 9, even=False),
    "bundles": in_bundles,
}


@pytest.mark.parametrize(
    "noise", [{}, {"jitter": 4.0}, {"stamp_jitter": 0.8}], ids=["usual", "late by chance", "stamps jitter"]
)
@pytest.mark.parametrize("late", FALSE)
def test_no_step_is_seen_where_there_is_none(late: str, noise: dict[str, float]) -> None:
    judged = Judged(drive(late_ms=FALSE[late], **noise))
    assert judged.reasons == []
    assert not [told for told in judged.told if "jumped" in told or "stepped" in told]
    assert judged.wrong() == []


def test_stamps_taken_as_configured_are_neither_cut_nor_moved() -> None:
    """Steps, drift and a receiver that runs at its own pace: `clock: stamp` means the stamp."""
    rules = {topic: Rule("stamp") for topic in OWN + FOREIGN}
    slowed = [
        (heard, true, MessageTimes(t.topic, t.stamp_ns, t.receive_ns, WALL + heard * 5 // 3))
        for heard, true, t in drive(stepped=OWN, by_ms=-700)
    ]
    judged = Judged(slowed, rules)
    assert (judged.reasons, judged.told) == ([], [])
    for _, topic, true, off in judged.timed:
        base = 0 if topic in OWN else MONOTONIC - WALL
        assert off == base - (700 * MS if topic in OWN and true >= AT_NS else 0)


@pytest.mark.parametrize("seed", range(12))
def test_topics_that_come_and_go_around_a_step_are_all_accounted_for(seed: int) -> None:
    """Whatever comes, late, in bits, stepped or set back: every message comes out once, and in order."""
    pick = random.Random(seed)
    stepped = pick.choice([OWN, FOREIGN, OWN + FOREIGN, ("imu",), ()])
    by_ms, receiver_ms = pick.choice([-900, -60, 80, 700]), pick.choice([0, 0, -20_000, -400, 300])
    spans = {t: sorted(pick.uniform(0, END_S) for _ in range(2)) for t in pick.sample(OWN + FOREIGN, 4)}
    spans["radar"] = [6.5, END_S]  # hardly known when the clock is stepped
    made = [
        arrival
        for arrival in drive(stepped=stepped, by_ms=by_ms, receiver_ms=receiver_ms, seed=seed)
        if arrival[2].topic not in spans
        or spans[arrival[2].topic][0] <= arrival[1] / SECOND < spans[arrival[2].topic][1]
    ]
    judged = Judged(made)
    for topic in OWN + FOREIGN:
        assert [true for _, name, true, _ in judged.timed if name == topic] == [
            true for _, true, times in made if times.topic == topic
        ]


@pytest.mark.parametrize("topics", [1, 3])
@pytest.mark.parametrize("late_s", [2.0, 10.0])
def test_what_stays_late_by_one_amount_is_no_step(late_s: float, topics: int) -> None:
    """As behind a network that was away: the receiver works off what waits as fast as it is measured."""
    told: list[str] = []
    finder: ClockFinder[MessageTimes] = ClockFinder(tell=told.append)
    pick, sent = random.Random(1), []
    for topic, hz in (("camera", 10), ("imu", 50), ("gps", 1))[:topics]:
        for number in range(60 * hz):
            at_s = number / hz
            sent.append((at_s + 0.02 + abs(pick.gauss(0, 0.001)) + late_s * (at_s >= 20), at_s, topic))
    events = []
    for came, at, topic in sorted(sent):
        came_ns, at_ns = WALL + round(came * SECOND), WALL + round(at * SECOND)
        events += finder.feed(MessageTimes(topic, at_ns, came_ns, came_ns))
    events += finder.flush()
    assert [event for event in events if isinstance(event, Boundary)] == []
    assert all(event.time_ns == event.stamp_ns for event in events if isinstance(event, MessageTimes))
    assert any("later than before" in each for each in told)


@pytest.mark.parametrize("drained_s", [1.0, 20.0])
def test_what_a_pause_held_up_and_a_burst_brings_is_no_step(drained_s: float) -> None:
    """30 s of silence, then what came meanwhile, faster than it was measured."""
    finder: ClockFinder[MessageTimes] = ClockFinder()
    pick, sent = random.Random(1), []
    for topic, hz in (("camera", 10), ("imu", 50), ("lidar", 5)):
        for number in range(70 * hz):
            at_s = number / hz
            came_s = at_s + 0.02 + abs(pick.gauss(0, 0.001))
            if 20 < came_s < 50 + drained_s:
                came_s = 50 + (came_s - 20) * drained_s / (30 + drained_s)
            sent.append((came_s, at_s, topic))
    times = (
        (WALL + round(came * SECOND), WALL + round(at * SECOND), topic) for came, at, topic in sorted(sent)
    )
    events = [e for came, at, topic in times for e in finder.feed(MessageTimes(topic, at, came, came))]
    assert [event for event in events if isinstance(event, Boundary)] == []
