"""Clocks found against clocks made."""

from __future__ import annotations

import random

from streams import MONOTONIC, MS, SECOND, WALL, Sent, errors, monotonic, run, stream, wall

from edgefirst_ros.timing.clock import NO_TIME, Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes, Rule


def test_stamps_of_the_recordings_own_clock_are_taken_as_they_are() -> None:
    events, findings = run(stream("camera", 30, 8, stamp=wall, latency_ms=25))
    assert set(errors(events, "camera")) == {0}
    assert len(errors(events, "camera")) == 240
    assert [(f.source, f.group) for f in findings] == [("stamp", 0)]


def test_topics_of_another_clock_share_the_least_latency_of_their_group() -> None:
    events, findings = run(
        stream("camera", 30, 8, stamp=wall, latency_ms=25),
        stream("lidar", 10, 8, stamp=monotonic, latency_ms=60, jitter_ms=20),
        stream("radar", 18, 8, stamp=monotonic, latency_ms=15),
        stream("imu", 140, 8, stamp=monotonic, latency_ms=3, jitter_ms=1),
    )
    for topic, count in (("lidar", 80), ("radar", 144), ("imu", 1120)):
        off = errors(events, topic)
        assert len(off) == count
        assert max(off) - min(off) == 0, "the stamps' own precision must be kept"
        assert 3 * MS <= off[0] <= 3.1 * MS
    groups = {f.topic: f.group for f in findings}
    assert groups["camera"] == 0
    assert groups["lidar"] == groups["radar"] == groups["imu"] == 1


def test_three_clocks_are_told_apart() -> None:
    events, findings = run(
        stream("a", 50, 6, stamp=wall, latency_ms=5),
        stream("b", 50, 6, stamp=monotonic, latency_ms=5),
        stream("c", 50, 6, stamp=lambda t: t + 5000 * SECOND, latency_ms=5),
    )
    assert len({f.group for f in findings}) == 3
    for topic in "abc":
        assert all(0 <= e <= 6 * MS for e in errors(events, topic))


def test_a_frozen_stamp_gives_way_to_the_receive_time() -> None:
    events, findings = run(
        stream("camera", 30, 6, stamp=wall, latency_ms=25),
        stream("info", 30, 6, stamp=lambda _: WALL - 41 * SECOND, latency_ms=25),
    )
    finding = next(f for f in findings if f.topic == "info")
    assert finding.source == "receive"
    assert "never changes" in finding.text
    assert all(25 * MS <= e <= 30 * MS for e in errors(events, "info"))


def test_erratic_stamps_give_way_to_the_publish_time() -> None:
    rng = random.Random(5)
    events, findings = run(stream("odd", 30, 6, stamp=lambda _: rng.randrange(WALL), latency_ms=10))
    assert findings[0].source == "publish"
    assert "erratic" in findings[0].text
    assert len(errors(events, "odd")) == 180


def test_what_is_configured_is_not_second_guessed() -> None:
    finder: ClockFinder[Sent] = ClockFinder()
    finder.rule("lidar", Rule("stamp", WALL - MONOTONIC - 7))
    events, findings = run(stream("lidar", 10, 6, stamp=monotonic, latency_ms=60), finder=finder)
    assert set(errors(events, "lidar")) == {-7}
    assert "as configured" in findings[0].text


def test_a_step_of_the_wall_clock_is_a_boundary_and_times_fit_on_both_sides() -> None:
    def step(at_ns: int) -> int:
        return 3 * SECOND if at_ns >= 10 * SECOND else 0

    events, _ = run(
        stream("camera", 30, 20, stamp=lambda t: wall(t) + step(t), latency_ms=25, step=step),
        stream("imu", 140, 20, stamp=monotonic, latency_ms=3, jitter_ms=1, step=step),
    )
    at = [n for n, e in enumerate(events) if isinstance(e, Boundary)]
    assert len(at) == 1
    boundary = events[at[0]]
    assert isinstance(boundary, Boundary)
    assert "stepped" in boundary.reason
    before, after = errors(events[: at[0]], "imu"), errors(events[at[0] :], "imu", WALL + 3 * SECOND)
    assert all(3 * MS <= e <= 4 * MS for e in before)
    assert all(3 * MS <= e <= 4 * MS for e in after)
    assert len(before) + len(after) == 2800
    assert 9.9 * SECOND < max(e.true_ns for e in events[: at[0]] if isinstance(e, Sent)) < 10.1 * SECOND


def test_a_clock_set_back_is_a_boundary() -> None:
    def step(at_ns: int) -> int:
        return -100 * SECOND if at_ns >= 6 * SECOND else 0

    made = stream("camera", 30, 12, stamp=lambda t: wall(t) + step(t), latency_ms=1, jitter_ms=0, step=step)
    events, _ = run(made)
    boundaries = [e for e in events if isinstance(e, Boundary)]
    assert [b.reason for b in boundaries] == ["the receiver's clock was set back"]
    assert len([e for e in events if isinstance(e, Sent)]) == 360


def test_a_single_damaged_stamp_is_refused_and_breaks_nothing() -> None:
    made = stream("imu", 140, 10, stamp=monotonic, latency_ms=3)
    true_ns, good = made[900]
    made[900] = (true_ns, MessageTimes("imu", good.stamp_ns + 900 * SECOND, good.publish_ns, good.receive_ns))
    events, _ = run(made)
    assert not [e for e in events if isinstance(e, Boundary)]
    refused = [e for e in events if isinstance(e, Sent) and e.refusal is not None]
    assert [e.true_ns for e in refused] == [true_ns]
    assert len(events) == 1400


def test_nothing_is_lost_or_made_up() -> None:
    streams = [
        stream("camera", 30, 15, stamp=wall, latency_ms=25),
        stream("gps", 3, 15, stamp=wall, latency_ms=120, jitter_ms=60),
        stream("info", 1, 15, stamp=lambda _: 5, latency_ms=2),
        stream("imu", 140, 15, stamp=monotonic, latency_ms=3),
    ]
    events, _ = run(*streams)
    assert sorted((e.topic, e.true_ns) for e in events if isinstance(e, Sent)) == sorted(
        (t.topic, true_ns) for s in streams for true_ns, t in s
    )


def test_a_time_that_no_recording_has_is_refused() -> None:
    rules = {
        "a": Rule("stamp"),
        "b": Rule("stamp", offset_ns=-(1 << 61)),
        "c": Rule("stamp", offset_ns=1 << 62),
    }
    finder: ClockFinder[Sent] = ClockFinder()
    for topic, rule in rules.items():
        finder.rule(topic, rule)
    events, _ = run(*(stream(topic, 10, 1, stamp=wall, latency_ms=5) for topic in rules), finder=finder)
    refused = {e.topic for e in events if isinstance(e, Sent) and e.refusal == NO_TIME}
    assert refused == {"b", "c"}
    assert len(errors(events, "a")) == 10


def test_a_message_of_a_known_clock_has_its_time_at_once() -> None:
    finder: ClockFinder[MessageTimes] = ClockFinder()
    usual = 0
    for number in range(300):
        stamp_ns = WALL + number * SECOND // 30
        message = MessageTimes("camera", stamp_ns, stamp_ns + 25 * MS, stamp_ns + 25 * MS)
        given = finder.feed(message)
        usual += given == (message,) and message.time_ns == stamp_ns
        list(given)
    # But for the first three seconds, and where the drift is judged.
    assert usual > 200
