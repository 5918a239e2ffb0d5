"""Publishers that die and return with stamps of another clock, or only later."""

from __future__ import annotations

from functools import cache

import pytest
from devices import FOREIGN, LATENCY_MS, OWN, Arrival, Judged, drive
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


@pytest.mark.parametrize("gap_s", [0.2, 1.0])
def test_a_lidar_whose_stamps_come_after_their_receipt_has_another_clock(gap_s: float) -> None:
    """60 ms is a latency for all that intervals say; but no lidar's messages come as they are measured."""
    judged = Judged(restarted(("lidar",), 0.060, gap_s), USUAL)
    (told,) = judged.told
    assert told.startswith("the stamps of lidar jumped by +6")
    check(judged, ("lidar",))


def test_a_stray_stamp_is_no_new_clock() -> None:
    made = list(usual_drive())
    number = next(n for n, (_, true, t) in enumerate(made) if t.topic == "lidar" and true > 6 * SECOND)
    heard, true, t = made[number]
    made[number] = heard, true, MessageTimes("lidar", t.stamp_ns - 50 * SECOND, t.publish_ns, t.receive_ns)
    judged = Judged(made, USUAL)
    assert (judged.reasons, judged.told) == ([], [])
