"""When messages came, in a bounded number of bins, whatever their order and their times."""

from __future__ import annotations

import random

from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.pipeline.ledger import FINEST_NS, MOST_BINS, Ledger, Stage, Timeline

KINDS = ("good", "bad")
NOON_NS = 1_777_626_000_000_000_000


def test_counts_lie_in_their_bins() -> None:
    timeline = Timeline()
    for lane, since_s, kind in (("a", 0.01, 0), ("a", 0.02, 0), ("a", 0.31, 1), ("b", 0.32, 0)):
        timeline.add(lane, NOON_NS + round(since_s * 1e9), kind)
    found = timeline.summary(KINDS)
    assert found["bin_ns"] == FINEST_NS
    assert found["start_ns"] == NOON_NS
    assert found["bins"] == [0, 3]
    assert found["counts"] == {"a": {"good": [2, 0], "bad": [0, 1]}, "b": {"good": [0, 1]}}


def test_there_are_never_more_bins_and_nothing_gets_lost() -> None:
    timeline = Timeline()
    for number in range(20_000):
        timeline.add("a", NOON_NS + number * 70_000_000, number % 2)
    found = timeline.summary(KINDS)
    assert MOST_BINS / 2 < len(found["bins"]) <= MOST_BINS
    assert sum(found["counts"]["a"]["good"]) == sum(found["counts"]["a"]["bad"]) == 10_000
    first = found["counts"]["a"]["good"][0] + found["counts"]["a"]["bad"][0]
    assert abs(first - found["bin_ns"] / 70_000_000) <= 1


def test_the_order_of_arrival_changes_nothing() -> None:
    times = [NOON_NS + number * 31_000_000 for number in range(5_000)] + [NOON_NS + 10**15, 1]
    results = []
    for seed in range(3):
        random.Random(seed).shuffle(times)
        timeline = Timeline()
        for time_ns in times:
            timeline.add("a", time_ns, 0)
        results.append(timeline.summary(KINDS))
    assert results[0] == results[1] == results[2]


def test_a_message_counts_when_its_fate_is_known_at_the_time_it_was_received() -> None:
    ledger = Ledger()
    kept = ledger.receive("/a", "T", 1, NOON_NS)
    refused = ledger.receive("/a", "T", 1, NOON_NS + 10**9)
    of_other = Ledger().receive("/a", "T", 1, NOON_NS + 2 * 10**9)
    ledger.release(of_other, Stage.WRITTEN)
    ledger.release(kept, Stage.WRITTEN)
    ledger.release(refused, Stage.REFUSED, "why")
    ledger.lose("/b", "T", 3, 100, "full", receive_ns=NOON_NS + 10**9)
    ledger.frame("incomplete", NOON_NS)
    found = ledger.timeline()
    assert found["bins"] == [0, 10]
    assert found["topics"] == {"/a": {"refused": [0, 1], "written": [1, 0]}, "/b": {"dropped": [0, 3]}}
    assert found["reference_frames"] == {"incomplete": [1, 0]}


def test_the_worst_pair_is_of_samples() -> None:
    ledger = Ledger()
    ledger.receive("/lidar", "T", 1)
    for frame, error_ms in enumerate((3.0, -41.0, 20.0, 60.0)):
        place = None if error_ms == 60.0 else ("s", frame, NOON_NS + frame)
        ledger.paired("/lidar", round(error_ms * 1e6), place)
    found = ledger.pairings()["/lidar"]
    assert found["worst"] == {"error_ms": -41.0, "sequence": "s", "frame": 1, "time_ns": NOON_NS + 1}
    assert ledger.snapshot()["/lidar"]["pairing_error_ms"] == {"p50": 20.0, "p95": 60.0, "max": 60.0}


def test_what_is_normal_for_a_receiver_is_skipped_and_what_it_loses_later_refused() -> None:
    ledger = Ledger()
    for stage, reason in (
        (Stage.REFUSED, Reason.ZERO_FIX),
        (Stage.DECODED, ""),
        (Stage.REFUSED, Reason.SAME_EPOCH),
        (Stage.REFUSED, Reason.ZERO_FIX),
    ):
        ledger.release(ledger.receive("/gps", "T", 1, NOON_NS), stage, reason)
    reasons = ledger.snapshot()["/gps"]["reasons"]
    assert reasons == {
        "refused": {Reason.ZERO_FIX: 1},
        "skipped": {Reason.SAME_EPOCH: 1, Reason.ZERO_FIX: 1},
    }
