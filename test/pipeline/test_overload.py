"""What is left out when a capture falls behind: measured on a queue and writers in virtual time."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.session import overload_of
from edgefirst_ros.live.status import shed_warnings
from edgefirst_ros.pipeline.overload import KEEP, OUTRUN_S, Even, Overload

S = 1_000_000_000
FORMATS = ("edgefirst", "ncore", "l5kit")


@dataclass
class Machine:
    """Announces samples as they become due and works on them one after another, in virtual time.

    ``costs_s`` are of a sample by format. A sample is complete ``wait_s`` after its time, those before
    ``window_s`` only then. ``work_s`` says how many seconds of work are done in one at a time: less than 1 on
    a machine that is busy with other things. At ``flush_s`` a sequence ends, and nothing waits any more. What
    is measured in the ``burst`` is received at its end. Reading takes ``read_s`` even if all is shed.
    """

    costs_s: Mapping[str, float]
    fps: float = 30.0
    seconds: float = 40.0
    wait_s: float = 2.0
    window_s: float = 0.0
    work_s: Callable[[float], float] = lambda _: 1.0
    stall: tuple[float, float] = (0.0, 0.0)
    pauses: tuple[tuple[float, float], ...] = ()
    burst: tuple[float, float] = (0.0, 0.0)
    flush_s: float = math.inf
    at_a_time: int = 16
    hold_s: float = 0.0
    decode_s: float = 0.0
    keys_apart: int = 30
    read_s: float = 0.0
    now_s: float = 0.0
    latency_s: list[float] = field(default_factory=list)
    taken: dict[str, list[bool]] = field(default_factory=dict)
    unread: list[float] = field(default_factory=list)
    """Times of those that waited too long."""
    begun_s: float = 0.0
    """What came before it has waited too long."""

    def run(self) -> Overload:
        overload = Overload(
            tuple(self.costs_s),
            latency_s=3.0,
            wait_s=2.0,
            hold_s=self.hold_s,
            clock_s=lambda: self.now_s,
        )
        overload.begin()
        under_way: deque[tuple[float, float]] = deque()
        free_s = 0.0
        self.taken = {name: [] for name in self.costs_s}
        for number in range(round(self.seconds * self.fps)):
            time_s = number / self.fps
            if any(begin_s <= time_s < begin_s + length_s for begin_s, length_s in self.pauses):
                continue
            received_s, came_s = self.times_s(time_s)
            self.now_s = max(self.now_s, came_s)
            if self.stall[0] <= self.now_s < sum(self.stall):
                self.now_s = sum(self.stall)
            while under_way and (under_way[0][1] <= self.now_s or len(under_way) >= self.at_a_time):
                self.now_s = max(self.now_s, under_way.popleft()[1])
            if overload.is_outrun:
                self.begun_s = self.now_s - overload.latency_s
                overload.dropped()
            if came_s < self.begun_s:
                self.unread.append(time_s)
                continue
            self.now_s += self.read_s / self.work_s(self.now_s)
            overload.feeding(came_s, round(came_s * S))
            overload.look(round(received_s * S), max(0.0, free_s - self.now_s), round(time_s * S))
            is_key = number % self.keys_apart == 0
            possible = is_key or not overload.keyframes_only
            # Every picture is built on the one before it.
            work_s = self.decode_s if possible else 0.0
            for name, cost_s in self.costs_s.items():
                takes = overload.takes(name, possible=possible)
                self.taken[name].append(takes)
                if takes:
                    overload.prepared(name, cost_s, cost_s)
                    work_s += cost_s
            overload.counted()
            free_s = max(free_s, self.now_s) + work_s / self.work_s(self.now_s)
            under_way.append((self.now_s, free_s))
            self.latency_s.append(free_s - time_s)
        return overload

    def times_s(self, time_s: float) -> tuple[float, float]:
        """When a sample of this time is received, and when it is complete."""
        received_s = sum(self.burst) if self.burst[0] <= time_s < sum(self.burst) else time_s
        came_s = max(received_s + self.wait_s, self.window_s)
        for begin_s, length_s in self.pauses:
            came_s = begin_s + length_s if begin_s < came_s < begin_s + length_s else came_s
        return received_s, self.flush_s if time_s < self.flush_s < came_s else came_s

    def kept(self, name: str, start_s: float = 0.0) -> float:
        """Share of a format's samples that were written."""
        taken = self.taken[name][round(start_s * self.fps) :]
        return sum(taken) / len(taken)


def costs(load: float, fps: float = 30.0) -> dict[str, float]:
    """Of three formats that together take ``load`` times the time there is; NCore half of it."""
    return {name: share * load / fps for name, share in zip(FORMATS, (0.375, 0.5, 0.125), strict=True)}


@pytest.mark.parametrize("length_s", [1.0, 5.0, 20.0, 120.0])
@pytest.mark.parametrize("load", [0.4, 0.6])
def test_a_pause_of_the_input_sheds_nothing(length_s: float, load: float) -> None:
    """A link that was down, a publisher that was started again: what waited then did not wait for us."""
    machine = Machine(costs(load), seconds=40.0 + length_s, pauses=((10.0, length_s), (25.0 + length_s, 3.0)))
    overload = machine.run()
    assert overload.shed == {}
    assert not overload.had_keyframes_only


@pytest.mark.parametrize("length_s", [1.0, 5.0, 9.0])
@pytest.mark.parametrize("load", [0.4, 0.8])
@pytest.mark.parametrize("wait_s", [0.1, 2.0])
def test_what_comes_in_a_burst_is_worked_off(length_s: float, load: float, wait_s: float) -> None:
    """A link that was down sends what it has kept: there is time for all of it, though not at once."""
    machine = Machine(costs(load), seconds=80.0, burst=(20.0, length_s), wait_s=wait_s)
    assert machine.run().shed == {}
    assert max(machine.latency_s[-300:]) < 3.0, "and nothing is late afterwards"


@pytest.mark.parametrize("load", [1.5, 2.5, 5.0])
def test_so_much_less_as_it_says_would_have_gone_through(load: float) -> None:
    overload = Machine(costs(load)).run()
    assert overload.through == pytest.approx(1 / load, rel=0.2)
    (said,) = shed_warnings(overload, build_config({"formats": FORMATS, "rate_hz": 30}))
    every, rate_hz = re.search(r"select.every: (\d+), or rate_hz: ([\d.]+)", said).groups()
    for fps in (30.0 / int(every), float(rate_hz) * 0.95):
        assert Machine(dict(costs(load)), fps=fps).run().shed == {}


@given(st.floats(0.01, 0.999), st.integers(20, 400))
def test_a_share_is_taken_evenly(share: float, count: int) -> None:
    even = Even()
    taken = [number for number in range(count) if even.takes(share)]
    assert abs(len(taken) - share * count) <= 1
    gaps = {after - before for before, after in pairwise(taken)}
    assert gaps <= {math.floor(1 / share), math.ceil(1 / share), round(1 / share)}


@given(st.lists(st.tuples(st.floats(0.05, 1.0), st.booleans(), st.booleans()), max_size=300))
def test_what_is_passed_over_is_made_up_for(steps: list[tuple[float, bool, bool]]) -> None:
    even, owed = Even(), 0.0
    for share, possible, better in steps:
        takes = even.takes(share, possible=possible, better=better)
        assert possible or not takes
        if share >= 1 and possible:
            assert takes
            owed = 0.0
            continue
        owed = min(owed + share, 2.0)
        assert not takes or owed > 1 - 1e-6
        assert takes or owed < 2 - 1e-6 or not possible
        owed -= takes


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("wait_s", [1.0, 2.0])
def test_while_there_is_time_nothing_is_shed(load: float, wait_s: float) -> None:
    machine = Machine(costs(load), wait_s=wait_s)
    overload = machine.run()
    assert overload.shed == {}
    assert overload.report() == {}


@pytest.mark.parametrize("fps", [10.0, 30.0])
@pytest.mark.parametrize("load", [1.1, 1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("wait_s", [1.0, 2.0])
def test_what_is_written_is_on_disk_in_time(fps: float, load: float, wait_s: float) -> None:
    machine = Machine(costs(load, fps), fps=fps, wait_s=wait_s)
    overload = machine.run()
    # Three times too much from the first sample on is late by the time that it is seen.
    assert max(machine.latency_s[0 if load < 3 else round(5 * fps) :]) < 3.0
    # As much is written as there is time for: the machine is used.
    work = sum(machine.kept(name, 20.0) * cost_s * fps for name, cost_s in machine.costs_s.items())
    assert work > 0.6
    assert machine.kept("ncore") <= machine.kept("edgefirst") <= machine.kept("l5kit")
    if load <= 1.4:
        assert {*overload.shed} == {"ncore"}


def test_what_is_shed_ends_when_the_machine_is_free_again() -> None:
    machine = Machine(costs(0.6), seconds=90.0, work_s=lambda now_s: 0.3 if 20 < now_s < 40 else 1.0)
    overload = machine.run()
    assert max(machine.latency_s) < 3.0
    for name in overload.shed:
        assert machine.kept(name, 75.0) == 1.0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.002, 0.2), min_size=1, max_size=3),
    st.lists(st.floats(0.2, 1.5), min_size=4, max_size=4),
    st.sampled_from([5.0, 15.0, 30.0]),
)
def test_whatever_comes_counts_add_up_and_samples_are_shed_evenly(
    costs_s: list[float], work_s: list[float], fps: float
) -> None:
    machine = Machine(
        dict(zip(FORMATS, costs_s, strict=False)),
        fps=fps,
        seconds=20.0,
        work_s=lambda now_s: work_s[min(int(now_s // 6), 3)],
    )
    overload = machine.run()
    for name, taken in machine.taken.items():
        shed = taken.count(False)
        assert overload.shed.get(name, (0, len(taken))) == (shed, len(taken))
        assert overload.report().get(name, {"shed": 0})["shed"] == shed
        # Never a burst: between two that are written lie no more than the least share leaves out.
        longest, run = 0, 0
        for takes in taken:
            run = 0 if takes else run + 1
            longest = max(longest, run)
        assert longest <= 1 / KEEP + (machine.keys_apart if overload.had_keyframes_only else 0)


@pytest.mark.parametrize("keys_apart", [15, 30, 60])
def test_where_even_the_least_is_too_much_key_frames_alone_are_decoded(keys_apart: int) -> None:
    """Decoding takes 1.2 times the time there is, until the machine is free again after 40 s."""
    machine = Machine(
        costs(1.0),
        seconds=90.0,
        decode_s=0.012,
        keys_apart=keys_apart,
        work_s=lambda now_s: 0.3 if now_s < 40 else 1.0,
    )
    overload = machine.run()
    assert overload.had_keyframes_only
    assert max(machine.latency_s[15 * 30 :]) < 3.0
    # All the same key frames are written, and what lies between them is counted.
    first, last = 15 * 30, 38 * 30
    for name, taken in machine.taken.items():
        keys = [takes for number, takes in enumerate(taken[first:last], first) if number % keys_apart == 0]
        assert sum(keys) > 0.4 * len(keys)
        assert overload.shed[name] == (taken.count(False), len(taken))
    assert not overload.keyframes_only
    assert machine.kept("l5kit", 70.0) > 0.5


@pytest.mark.parametrize("behind", [0.05, 0.3, 1.0])
def test_where_even_reading_is_too_much_what_waits_is_dropped_in_time(behind: float) -> None:
    """Reading takes longer than there is time for, by this share, until the machine is free after 300 s."""
    machine = Machine(
        costs(0.2),
        seconds=340.0,
        read_s=(1 + behind) / 30 / 4,
        work_s=lambda now_s: 0.25 if now_s < 300 else 1.0,
    )
    overload = machine.run()
    assert overload.was_outrun
    assert not overload.is_outrun
    # Without it, 14 to 150 s late.
    assert max(machine.latency_s) < 2.0 + OUTRUN_S + 3.0
    # Some seconds at a time: what is left has no holes in it.
    holes = sum(after - before > 1.5 / 30 for before, after in pairwise(machine.unread)) + 1
    assert len(machine.unread) / holes > 100
    assert max(machine.unread) < 310
    assert machine.latency_s[-1] < 3.0


def test_a_session_that_follows_goes_on_shedding() -> None:
    before = Machine(costs(2.0))
    shares = before.run().shares
    following = Overload(FORMATS, latency_s=3.0, wait_s=2.0)
    following.go_on(before.run())
    assert following.shed == {}
    assert min(shares.values()) < 1
    assert min(following.shares.values()) < 1


def test_writing_counts_by_what_passed_less_the_wait_for_the_processor() -> None:
    overload = Overload(FORMATS, latency_s=3.0, wait_s=2.0)
    for _ in range(50):
        # Four others share the processor; l5kit's disk is slow besides.
        overload.prepared("ncore", 0.02, 0.08)
        overload.wrote("ncore", 0.001, 0.004)
        overload.prepared("l5kit", 0.005, 0.02)
        overload.wrote("l5kit", 0.001, 0.4)
        overload.prepared("edgefirst", 0.01, 0.04)
        overload.counted()
    assert overload.order == ("l5kit", "ncore", "edgefirst")


def test_the_configuration_decides() -> None:
    assert overload_of(build_config({"overload": {"latency_s": 0}})) is None
    chosen = build_config({"formats": "edgefirst,l5kit"})
    overload = overload_of(chosen)
    assert overload is not None
    assert overload.latency_s == 3.0
    assert overload.hold_s == pytest.approx(0.6)
    without = overload_of(build_config({"formats": "edgefirst"}))
    assert without is not None
    assert without.hold_s == 0.0
