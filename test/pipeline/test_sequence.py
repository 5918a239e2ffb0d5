"""A sequence's samples against a search over everything, however its messages are shuffled on the way."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from envelopes import MS, START_NS, Keeper, Post
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.navigation import Odometry
from edgefirst_ros.model.sample import Datum, Role, Sample, SequenceInfo
from edgefirst_ros.model.transform import Transforms
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.images import Images
from edgefirst_ros.pipeline.ledger import Ledger
from edgefirst_ros.pipeline.sequence import SequenceRun, reorder_window_ns
from edgefirst_ros.pipeline.session import Session

Sent = tuple[str, float] | tuple[str, float, Datum]
"""Configured topic, milliseconds after the start, and what is not a cloud."""


class Played:
    """A sequence whose reference is the lidar, fed with messages in order of arrival.

    Sessions end at ``ends_ms``, which is said once the first messages are in; the last one does not.
    """

    def __init__(
        self,
        sent: Sequence[Sent],
        ends_ms: Sequence[float] = (),
        expected: Sequence[str] = (),
        **values: Any,  # noqa: ANN401
    ) -> None:
        config = build_config({"formats": ["edgefirst"], "reference": "lidar_points", **values})
        post, pool = Post(config), ThreadPoolExecutor(2)
        self.writers = [Keeper() for _ in (*ends_ms, None)]
        self.ledgers = [post.ledger, *(Ledger() for _ in ends_ms)]
        fanouts = [FanOut([w], pool, 2, one) for w, one in zip(self.writers, self.ledgers, strict=True)]
        made = [Session(one, fanout) for one, fanout in zip(self.ledgers, fanouts, strict=True)]
        sessions = made[:1]
        images = Images(pool, 2, "jpeg", 90, lookahead_ns=reorder_window_ns(config))
        run = SequenceRun(
            sessions,
            begin,
            config,
            images,
            time_ns=START_NS,
            reference=(Role.LIDAR_POINTS, frozenset({"/lidar/points"})),
            expected=expected,
        )
        for name, sent_ms, *datum in sent:
            run.feed(deque([post.envelope(name, sent_ms, *datum)]))
            if len(sessions) == 1:
                for session, end_ms, following in zip(made[:-1], ends_ms, made[1:], strict=True):
                    session.end_ns = START_NS + round(end_ms * MS)
                    sessions.append(following)
        run.drain()
        run.finish()
        emissions = list(run.emissions.values())
        for emission in emissions:
            emission.finish((), "end")
        images.close()
        for fanout in fanouts:
            fanout.join()
        pool.shutdown()
        self.results = [session.done[0].result for session in made if session.done]
        self.result = self.results[0]
        for ledger in self.ledgers:
            totals = dict(ledger.totals)
            assert totals.pop("received") == sum(totals.values())
            assert ledger.open == 0

    @property
    def pairs(self) -> list[tuple[int, float | None, float | None]]:
        """Frame number, reference and radar in milliseconds."""
        return [
            (sample.frame, at_ms(sample, Role.LIDAR_POINTS), at_ms(sample, Role.RADAR_TARGETS))
            for sample in self.samples
        ]

    @property
    def samples(self) -> list[Sample]:
        return [sample for writer in self.writers for sample in writer.samples]


def begin(session: Session, time_ns: int) -> SequenceInfo:
    info = SequenceInfo("host_2026", "host", time_ns)
    session.fanout.begin(info)
    return info


def at_ms(sample: Sample, role: Role) -> float | None:
    found = sample.companions.get(role)
    return None if found is None else (found.time_ns - START_NS) / MS


def nearest(at_ms: float, others: Sequence[float], tolerance_ms: float) -> float | None:
    near = [other for other in sorted(others) if abs(other - at_ms) <= tolerance_ms]
    return min(near, key=lambda other: abs(other - at_ms), default=None)


KEEP = {"topics": {"radar_targets": {"required": "never", "tolerance_ms": 50}}}
TIMES = st.lists(st.integers(0, 3000), min_size=1, max_size=25, unique=True)


@settings(max_examples=25, deadline=None)
@given(lidar=TIMES, radar=TIMES, seed=st.integers(0, 1000))
def test_samples_are_those_of_a_search_over_everything_in_any_order_of_arrival(
    lidar: list[int], radar: list[int], seed: int
) -> None:
    sent = [("lidar_points", float(ms)) for ms in lidar] + [("radar_targets", float(ms)) for ms in radar]
    within_ms = reorder_window_ns(build_config({**KEEP})) / MS
    pick = random.Random(seed)
    arrivals = sorted(sent, key=lambda one: one[1] + pick.uniform(0, 0.9 * within_ms))
    played = Played(arrivals, **KEEP)
    expected = [
        (number, float(ms), nearest(ms, [float(r) for r in radar], 50))
        for number, ms in enumerate(sorted(lidar))
    ]
    assert played.pairs == expected
    assert played.result.own.frames["sample"] == played.result.own.frames.total == len(lidar)


def test_a_frame_without_a_required_companion_is_counted_and_keeps_its_number() -> None:
    sent = [("lidar_points", ms) for ms in (0.0, 100.0, 200.0)]
    sent += [("radar_targets", ms) for ms in (5.0, 195.0)]
    required = {"topics": {"radar_targets": {"required": "always", "tolerance_ms": 20}}}
    played = Played(sorted(sent, key=lambda one: one[1]), **required)
    assert played.pairs == [(0, 0.0, 5.0), (2, 200.0, 195.0)]
    assert played.result.own.lacking == {"radar_targets": 1}
    assert played.ledgers[0].snapshot()["/lidar/points"]["unpaired"] == 1


@pytest.mark.parametrize(("every", "numbers"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 2, 4]), (3, [0, 3])])
def test_selection_leaves_gaps_in_the_numbers(every: int, numbers: list[int]) -> None:
    played = Played([("lidar_points", 100.0 * n) for n in range(6)], select={"every": every}, **KEEP)
    assert [sample.frame for sample in played.samples] == numbers
    assert played.result.own.frames["skipped"] == 6 - len(numbers)


@settings(max_examples=25, deadline=None)
@given(lidar=TIMES, radar=TIMES, ends=st.lists(st.integers(0, 3000), min_size=1, max_size=2, unique=True))
@pytest.mark.parametrize("every", [1, 2])
def test_sessions_have_together_what_one_has_and_each_what_is_of_its_times(
    lidar: list[int], radar: list[int], ends: list[int], every: int
) -> None:
    """Samples pair across the seam, and each message is counted by the session of its time."""
    sent: list[Sent] = [("lidar_points", float(ms)) for ms in lidar]
    sent = sorted([*sent, *(("radar_targets", float(ms)) for ms in radar)], key=lambda one: one[1])
    whole, ends = Played(sent, select={"every": every}, **KEEP), sorted(ends)
    split = Played(sent, ends, select={"every": every}, **KEEP)
    assert [pair[1:] for pair in split.pairs] == [pair[1:] for pair in whole.pairs]
    limits = [0, *ends, 10_000]
    for ledger, writer, (after, before) in zip(split.ledgers, split.writers, pairwise(limits), strict=True):
        frames = [ms for ms in sorted(lidar) if after <= ms < before]
        of_it = len(frames) + sum(after <= ms < before for ms in radar)
        assert ledger.totals["received"] == of_it
        found = [(sample.frame, round((sample.time_ns - START_NS) / MS)) for sample in writer.samples]
        assert all(frames[number] == ms for number, ms in found)


def test_once_cut_samples_are_dropped_for_the_reason_given() -> None:
    config = build_config({"formats": ["edgefirst"], "reference": "lidar_points", **KEEP})
    post, writer, pool = Post(config), Keeper(), ThreadPoolExecutor(1)
    session = Session(post.ledger, FanOut([writer], pool, 1, post.ledger))
    images = Images(pool, 1, "jpeg", 90, lookahead_ns=reorder_window_ns(config))
    reference = Role.LIDAR_POINTS, frozenset({"/lidar/points"})
    run = SequenceRun([session], begin, config, images, time_ns=START_NS, reference=reference)
    for number in range(100):
        if number == 50:
            session.cut = "no time left"
            written = len(writer.samples)
        run.feed(deque([post.envelope("lidar_points", 100 * number)]))
    run.drain()
    run.finish()
    session.fanout.join()
    pool.shutdown()
    account = post.ledger.snapshot()["/lidar/points"]
    assert account["reasons"]["dropped"] == {"no time left": account["dropped"]}
    assert run.emissions[session].samples.frames["dropped"] == account["dropped"] >= 50
    assert account["written"] == 100 - account["dropped"] >= written


def test_a_latched_transform_from_before_the_first_measurement_needs_no_pose() -> None:
    topics = {"odometry": {"topic": "odom", "role": "odometry"}}
    still = (0.0, 0.0, 0.0)
    rig = Odometry("base_link", still, (0.0, 0.0, 0.0, 1.0), still, still)
    moving = [
        (name, 3000.0 + 100 * n, *datum)
        for n in range(10)
        for name, *datum in (("odometry", rig), ("lidar_points",))
    ]
    played = Played([("tf", 0.0, Transforms((), ())), *moving], expected=["odometry"], topics=topics)
    summary = played.result.poses.summary()
    assert summary is not None
    assert summary["position"]["measured"] > 0.7
    assert summary["position"]["assumed"] == summary["rotation"]["assumed"] == 0.0
