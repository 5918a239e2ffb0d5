"""Pairs against a brute-force search over everything."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.timing.align import Aligned, Aligner, PairingRule, Policy, Required, Selection

MS = 1_000_000
SECOND = 1000 * MS


@dataclass(frozen=True)
class Item:
    time_ns: int
    unusable: str | None = None
    keyframe: bool = True


def run(
    frames: list[Item],
    companions: list[Item],
    *,
    tolerance_ns: int = 50 * MS,
    policy: Policy = "nearest",
    required: Required = "never",
    expect: bool = False,
    alive_ns: int = 5 * SECOND,
) -> tuple[list[Aligned[Item]], list[Item], Aligner[Item]]:
    rule = PairingRule(0 if policy == "exact" else tolerance_ns, policy, required)
    aligner: Aligner[Item] = Aligner({"lidar": rule}, Selection(), alive_ns)
    if expect:
        aligner.expect(["lidar"])
    merged = sorted(
        [(f.time_ns, 0, f) for f in frames] + [(c.time_ns, 1, c) for c in companions], key=lambda e: e[:2]
    )
    verdicts: list[Aligned[Item]] = []
    for _, kind, item in merged:
        verdicts += aligner.reference(item) if kind == 0 else aligner.companion("lidar", item)
    verdicts += aligner.flush()
    return verdicts, [e for _, e in aligner.expired()], aligner


times = st.lists(st.integers(0, 2000), max_size=40, unique=True).map(
    lambda v: [Item(t * MS) for t in sorted(v)]
)


@pytest.mark.parametrize("policy", ["nearest", "before", "exact"])
@given(frames=times, companions=times)
def test_pairs_are_those_of_a_search_over_everything(
    policy: Policy, frames: list[Item], companions: list[Item]
) -> None:
    verdicts, expired, _ = run(frames, companions, policy=policy)
    assert [v.reference for v in verdicts] == frames
    assert [v.number for v in verdicts] == list(range(len(frames)))
    for verdict in verdicts:
        t = verdict.reference.time_ns
        near = [c for c in companions if abs(c.time_ns - t) <= (0 if policy == "exact" else 50 * MS)]
        if policy == "before":
            near = [c for c in near if c.time_ns <= t]
        best = min(near, key=lambda c: (abs(c.time_ns - t), c.time_ns), default=None)
        assert verdict.companions.get("lidar") == best
    assert sorted(expired, key=lambda e: e.time_ns) == companions


def test_a_required_stream_makes_frames_without_it_incomplete_and_says_so() -> None:
    frames = [Item(n * 100 * MS) for n in range(10)]
    verdicts, _, aligner = run(frames, [Item(10 * MS)], required="always")
    assert [v.kind for v in verdicts] == ["sample"] + ["incomplete"] * 9
    assert verdicts[1].reason == "lidar"
    assert aligner.lacking == {"lidar": 9}


def test_auto_requires_a_stream_while_it_is_alive_and_not_after_it_died() -> None:
    frames = [Item(n * SECOND) for n in range(12)]
    companions = [Item(n * SECOND + MS) for n in range(3)]
    verdicts, _, _ = run(frames, companions, required="auto", alive_ns=5 * SECOND)
    kinds = [v.kind for v in verdicts]
    assert kinds[:3] == ["sample"] * 3
    assert kinds[3:8] == ["incomplete"] * 5
    assert kinds[8:] == ["sample"] * 4
    assert not verdicts[8].companions


def test_auto_does_not_require_what_never_came_unless_it_is_expected() -> None:
    frames = [Item(n * SECOND) for n in range(3)]
    late = [Item(2 * SECOND)]
    assert [v.kind for v in run(frames, late, required="auto")[0]] == ["sample"] * 3
    expected = run(frames, late, required="auto", expect=True)[0]
    assert [v.kind for v in expected] == ["incomplete", "incomplete", "sample"]


def test_unusable_entries_are_never_paired_and_unusable_frames_keep_their_number() -> None:
    frames = [Item(0), Item(33 * MS, unusable="after a lost frame"), Item(66 * MS)]
    companions = [Item(1 * MS, unusable="damaged"), Item(20 * MS)]
    verdicts, _, _ = run(frames, companions)
    assert verdicts[0].companions["lidar"].time_ns == 20 * MS
    assert [(v.number, v.kind) for v in verdicts] == [(0, "sample"), (1, "unusable"), (2, "sample")]


def test_a_frame_is_settled_as_soon_as_time_passes_its_tolerance() -> None:
    aligner: Aligner[Item] = Aligner({"lidar": PairingRule(50 * MS)}, Selection(), SECOND)
    list(aligner.reference(Item(0)))
    assert list(aligner.companion("lidar", Item(50 * MS))) == []
    settled = list(aligner.companion("lidar", Item(51 * MS)))
    assert settled[0].companions["lidar"].time_ns == 50 * MS
