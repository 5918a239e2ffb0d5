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
    selection: Selection | None = None,
) -> tuple[list[Aligned[Item]], list[Item]]:
    rule = PairingRule(0 if policy == "exact" else tolerance_ns, policy, required)
    aligner: Aligner[Item] = Aligner({"lidar": rule}, selection or Selection(), alive_ns)
    if expect:
        aligner.expect(["lidar"])
    merged = sorted(
        [(f.time_ns, 0, f) for f in frames] + [(c.time_ns, 1, c) for c in companions], key=lambda e: e[:2]
    )
    verdicts: list[Aligned[Item]] = []
    for _, kind, item in merged:
        verdicts += aligner.reference(item) if kind == 0 else aligner.companion("lidar", item)
    verdicts += aligner.flush()
    return verdicts, [e for _, e in aligner.expired()]


times = st.lists(st.integers(0, 2000), max_size=40, unique=True).map(
    lambda v: [Item(t * MS) for t in sorted(v)]
)


@pytest.mark.parametrize("policy", ["nearest", "before", "exact"])
@given(frames=times, companions=times)
def test_pairs_are_those_of_a_search_over_everything(
    policy: Policy, frames: list[Item], companions: list[Item]
) -> None:
    verdicts, expired = run(frames, companions, policy=policy)
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
    verdicts, _ = run(frames, [Item(10 * MS)], required="always")
    assert [v.kind for v in verdicts] == ["sample"] + ["incomplete"] * 9
    assert [v.reason for v in verdicts[1:]] == ["lidar"] * 9


def test_auto_requires_a_stream_while_it_is_alive_and_not_after_it_died() -> None:
    frames = [Item(n * SECOND) for n in range(12)]
    companions = [Item(n * SECOND + MS) for n in range(3)]
    verdicts, _ = run(frames, companions, required="auto", alive_ns=5 * SECOND)
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


@given(frames=times, companions=times, every=st.integers(1, 3))
def test_once_each_message_goes_to_the_nearest_sample_and_to_no_other(
    frames: list[Item], companions: list[Item], every: int
) -> None:
    tolerance_ns = 250 * MS
    verdicts, expired = run(
        frames,
        companions,
        tolerance_ns=tolerance_ns,
        policy="once",
        expect=True,
        selection=Selection(every=every),
    )
    assert [v.reference for v in verdicts] == frames
    given_to: dict[int, list[Item]] = {}
    for companion in companions:
        near = [f for f in frames[::every] if abs(f.time_ns - companion.time_ns) <= tolerance_ns]
        if near:
            best = min(near, key=lambda f: (abs(f.time_ns - companion.time_ns), f.time_ns))
            given_to.setdefault(best.time_ns, []).append(companion)
    expected = {
        at_ns: min(found, key=lambda c: (abs(c.time_ns - at_ns), c.time_ns))
        for at_ns, found in given_to.items()
    }
    paired = {v.reference.time_ns: v.companions["lidar"] for v in verdicts if v.companions}
    assert paired == expected
    assert sorted(expired, key=lambda e: e.time_ns) == companions


@given(frames=times, companions=times, rate=st.sampled_from([0.0, 1.0, 3.0]))
def test_samples_that_must_have_a_message_are_those_that_one_goes_to(
    frames: list[Item], companions: list[Item], rate: float
) -> None:
    one = {"tolerance_ns": 100 * MS, "policy": "once", "expect": True}
    free, _ = run(frames, companions, **one)  # type: ignore[arg-type]
    bound, _ = run(frames, companions, required="always", selection=Selection(rate_hz=rate), **one)  # type: ignore[arg-type]
    complete = [v.number for v in free if not v.lacks]
    chosen = [v.number for v in bound if v.kind == "sample"]
    assert all(v.companions for v in bound if v.kind == "sample")
    if rate:
        assert set(chosen) <= set(complete)
        assert bool(chosen) == bool(complete)
    else:
        assert chosen == complete


def test_a_sample_says_what_it_lacks_while_that_is_alive() -> None:
    frames = [Item(n * SECOND) for n in range(9)]
    verdicts, _ = run(frames, [Item(MS), Item(2 * SECOND)], alive_ns=3 * SECOND)
    assert {v.kind for v in verdicts} == {"sample"}
    assert [v.number for v in verdicts if v.lacks] == [1, 3, 4, 5]


@pytest.mark.parametrize("policy", ["nearest", "once"])
@given(frames=times, companions=times, end_ms=st.integers(0, 2500), late_ms=st.integers(0, 600))
def test_of_what_leaves_early_each_frame_is_told_once_and_so_is_each_companion(
    policy: Policy, frames: list[Item], companions: list[Item], end_ms: int, late_ms: int
) -> None:
    """And where everything that it pairs with has come, nothing is otherwise than without."""
    rule = PairingRule(100 * MS, policy, "never")
    whole, _ = run(frames, companions, tolerance_ns=100 * MS, policy=policy)
    aligner: Aligner[Item] = Aligner({"lidar": rule}, Selection(), 5 * SECOND)
    left: list[Aligned[Item]] = []
    has_left = False
    for item in sorted([*frames, *companions], key=lambda each: each.time_ns):
        if not has_left and item.time_ns > (end_ms + late_ms) * MS:
            left += [*aligner.advance(item.time_ns), *aligner.leave(end_ms * MS)]
            has_left = True
        is_frame = any(item is each for each in frames)
        left += aligner.reference(item) if is_frame else aligner.companion("lidar", item)
    left += aligner.flush()
    assert [v.number for v in left] == list(range(len(frames)))
    assert sorted((each for _, each in aligner.expired()), key=lambda e: e.time_ns) == companions
    if late_ms > 200:
        assert [v.companions for v in left] == [v.companions for v in whole]


class TestToTheNanosecond:
    """Limits that a search over made-up drives hardly ever meets."""

    def cubes(self, *frames_ms: int, tolerance_ms: int = 250) -> Aligner[Item]:
        rule = PairingRule(tolerance_ms * MS, "once", "never")
        aligner: Aligner[Item] = Aligner({"cube": rule}, Selection(), SECOND)
        aligner.expect(["cube"])
        for each in frames_ms:
            assert list(aligner.reference(Item(each * MS))) == []
        return aligner

    def test_what_is_as_early_as_the_tolerance_waits_for_its_frame(self) -> None:
        aligner: Aligner[Item] = Aligner({"lidar": PairingRule(50 * MS)}, Selection(), SECOND)
        assert list(aligner.companion("lidar", Item(50 * MS))) == []
        assert list(aligner.reference(Item(100 * MS))) == []
        (verdict,) = aligner.flush()
        assert verdict.companions["lidar"].time_ns == 50 * MS

    def test_of_two_frames_that_are_equally_near_the_earlier_one_gets_the_message(self) -> None:
        rules = {"cube": PairingRule(250 * MS, "once", "never"), "lidar": PairingRule(SECOND)}
        aligner: Aligner[Item] = Aligner(rules, Selection(), SECOND)
        for kind, at_ms in (("frame", 0), ("cube", 50), ("frame", 100)):
            item = Item(at_ms * MS)
            assert list(aligner.reference(item) if kind == "frame" else aligner.companion(kind, item)) == []
        left = [*aligner.advance(1_101 * MS), *aligner.flush()]
        assert [bool(verdict.companions) for verdict in left] == [True, False]

    def test_of_two_messages_that_are_equally_near_the_frame_keeps_the_earlier_one(self) -> None:
        verdicts, _ = run([Item(100 * MS)], [Item(50 * MS), Item(150 * MS)], policy="once", expect=True)
        assert verdicts[0].companions["lidar"].time_ns == 50 * MS

    def test_what_a_frame_after_the_end_holds_is_told_when_what_is_before_leaves(self) -> None:
        aligner = self.cubes()
        assert list(aligner.companion("cube", Item(90 * MS))) == []
        assert [*aligner.reference(Item(110 * MS)), *aligner.advance(200 * MS)] == []
        assert list(aligner.leave(100 * MS)) == []
        assert aligner.expired() == [("cube", Item(90 * MS))]
        assert [verdict.companions for verdict in aligner.flush()] == [{"cube": Item(90 * MS)}]
        assert aligner.expired() == []

    def test_what_goes_to_no_frame_is_given_up_as_soon_as_none_can_come(self) -> None:
        aligner = self.cubes()
        assert list(aligner.companion("cube", Item(50 * MS))) == []
        assert list(aligner.advance(300 * MS)) == []
        assert aligner.expired() == []
        assert list(aligner.advance(300 * MS + 1)) == []
        assert aligner.expired() == [("cube", Item(50 * MS))]

    def test_a_frame_waits_for_a_message_as_late_as_the_tolerance(self) -> None:
        aligner = self.cubes(0)
        assert list(aligner.advance(250 * MS)) == []
        assert list(aligner.companion("cube", Item(250 * MS))) == []
        assert list(aligner.advance(260 * MS)) == []  # a frame that is nearer to it may come until 500 ms
        (verdict,) = aligner.flush()
        assert verdict.companions["cube"].time_ns == 250 * MS

    @pytest.mark.parametrize(("later_ns", "kind"), [(0, "incomplete"), (1, "sample")])
    def test_a_stream_is_alive_for_as_long_as_is_said(self, later_ns: int, kind: str) -> None:
        verdicts, _ = run([Item(SECOND + later_ns)], [Item(0)], required="auto", alive_ns=SECOND)
        assert [verdict.kind for verdict in verdicts] == [kind]

    @pytest.mark.parametrize("policy", ["nearest", "once"])
    @pytest.mark.parametrize("off_ns", [-50 * MS, 50 * MS])
    def test_the_tolerance_is_part_of_it(self, policy: Policy, off_ns: int) -> None:
        for more_ns in (0, 1):
            far = Item(SECOND + off_ns + (more_ns if off_ns > 0 else -more_ns))
            verdicts, expired = run([Item(SECOND)], [far], policy=policy, expect=True)
            assert bool(verdicts[0].companions) == (not more_ns)
            assert expired == [far]
