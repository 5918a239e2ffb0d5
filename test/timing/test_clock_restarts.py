"""Publishers that die and return with stamps of another clock, or only later."""

from __future__ import annotations

from functools import cache

import pytest
from devices import FOREIGN, HZ, LATENCY_MS, OWN, Arrival, Judged, drive
from streams import MONOTONIC, MS, SECOND, WALL

from edgefirst_ros.timing.finding import MessageTimes, Rule

DIES_NS = 5 * SECOND
USUAL = {topic: Rule(latency_ns=ms * MS) for topic, ms in LATENCY_MS.items()}
TO_MONOTONIC_S = (MONOTONIC - WALL) / SECOND
TO_ZERO_S = -WALL / SECOND
usual_drive = cache(drive)


def restarted(
    topics: tuple[str, ...], by_s: float, gap_s: float, whole: list[Arrival] | None = None
) -> list[Arrival]:
    """A drive in which these topics send nothing for a while, and then stamp by another clock."""
    made = []
    for heard, true, times in whole or usual_drive():
        if times.topic not in topics or true < DIES_NS:
            made.append((heard, true, times))
        elif true >= DIES_NS + gap_s * SECOND:
            stamp = times.stamp_ns + round(by_s * SECOND)
            made.append((heard, true, MessageTimes(times.topic, stamp, times.publish_ns, times.receive_ns)))
    return made


def check(judged: Judged, topics: tuple[str, ...], within_ms: float = 8.0) -> None:
    """Every message has its time, to some ms; those of the first 2 s as well."""
    assert judged.refused == []
    off = {topic: [o for _, name, _, o in judged.timed if name == topic] for topic in (*OWN, *FOREIGN)}
    for topic in {*OWN, *FOREIGN} - {"info"}:
        assert max(off[topic]) - min(off[topic]) <= (within_ms if topic in topics else 1) * MS, topic
    assert max(judged.held_ns) < 2.3 * SECOND


@pytest.mark.parametrize(
    ("by_s", "gap_s"),
    [
        (37.0, 0.2),
        (37.0, 5.0),
        (-100.0, 1.0),
        (-2.0, 0.2),
        (-2.0, 5.0),
        (TO_MONOTONIC_S, 1.0),
        (TO_ZERO_S, 2.0),
    ],
)
@pytest.mark.parametrize("topic", ["camera", "lidar", "imu"])
def test_a_topic_that_stamps_anew_gets_a_clock_anew(topic: str, by_s: float, gap_s: float) -> None:
    if topic in FOREIGN:  # from the other clock
        by_s = {TO_MONOTONIC_S: -TO_MONOTONIC_S, TO_ZERO_S: -MONOTONIC / SECOND}.get(by_s, by_s)
    judged = Judged(restarted((topic,), by_s, gap_s), USUAL)
    assert judged.reasons == [], "others of its clock go on"
    (told,) = judged.told
    assert told.startswith(f"the stamps of {topic} jumped by ")
    check(judged, (topic,))


@pytest.mark.parametrize("by_s", [37.0, -100.0])
@pytest.mark.parametrize("gap_s", [0.2, 3.0])
def test_topics_of_one_process_share_their_new_clock(by_s: float, gap_s: float) -> None:
    """The model's outputs carry the camera's stamps, and are found by them."""
    judged = Judged(restarted(("camera", "model"), by_s, gap_s), USUAL)
    check(judged, ("camera", "model"))
    last = {name: off for _, name, _, off in judged.timed}
    assert last["camera"] == last["model"]


@pytest.mark.parametrize("by_s", [37.0, -2.0])
def test_a_slow_topic_needs_two_messages(by_s: float) -> None:
    judged = Judged(restarted(("gps",), by_s, 2.0, drive(hz={**HZ, "gps": 1})), USUAL)
    assert judged.reasons == []
    assert len(judged.told) == 1
    check(judged, ("gps",), within_ms=30)


@pytest.mark.parametrize("gap_s", [0.2, 1.0])
def test_a_lidar_whose_stamps_come_after_their_receipt_has_another_clock(gap_s: float) -> None:
    """60 ms is a latency for all that intervals say; but no lidar's messages come as they are measured."""
    judged = Judged(restarted(("lidar",), 0.060, gap_s), USUAL)
    (told,) = judged.told
    assert told.startswith("the stamps of lidar jumped by +6")
    check(judged, ("lidar",))


@pytest.mark.parametrize("by_s", [-0.06, 0.03, -0.3])
def test_what_can_be_a_latency_is_one(by_s: float) -> None:
    judged = Judged(restarted(("lidar",), by_s, 1.0), USUAL)
    assert judged.reasons == []
    assert not [told for told in judged.told if "jumped" in told]


def test_stamps_that_go_back_are_no_latency() -> None:
    """0.7 s are one, if 0.2 s passed without a message, in which it cannot have grown by more."""
    judged = Judged(restarted(("imu",), -0.7, 0.2), USUAL)
    (told,) = judged.told
    assert told.startswith("the stamps of imu jumped by -")
    check(judged, ("imu",))


def test_a_publisher_that_is_restarted_again_and_again() -> None:
    made = []
    for heard, true, times in usual_drive():
        life = true // (3 * SECOND)
        if times.topic == "radar" and true % (3 * SECOND) < 0.4 * SECOND and life:
            continue
        stamp = times.stamp_ns + (round(-11.3 * life * SECOND) if times.topic == "radar" else 0)
        made.append((heard, true, MessageTimes(times.topic, stamp, times.publish_ns, times.receive_ns)))
    judged = Judged(made, USUAL)
    assert judged.reasons == []
    assert len(judged.told) == 3
    check(judged, ("radar",))


def test_a_stray_stamp_is_no_new_clock() -> None:
    made = list(usual_drive())
    number = next(n for n, (_, true, t) in enumerate(made) if t.topic == "lidar" and true > 6 * SECOND)
    heard, true, t = made[number]
    made[number] = heard, true, MessageTimes("lidar", t.stamp_ns - 50 * SECOND, t.publish_ns, t.receive_ns)
    judged = Judged(made, USUAL)
    assert (judged.reasons, judged.told) == ([], [])
