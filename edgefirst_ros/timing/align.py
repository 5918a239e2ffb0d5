"""Selects reference frames, and gives each its nearest companions; measurements may come out of order."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar


class Selection:
    """Selects which reference frames become samples: all, one in N, key frames, or a rate; in order of time.

    ``rate_hz`` follows a grid that starts at the first frame: at each grid point the first frame that is
    usable and complete is taken, so ``wants`` stays true until ``took`` is called.

    Args:
        rate_hz: samples a second; 0 for all.
        every: one in so many.
        keyframes: key frames only.
        refusal: why a selected frame is no sample all the same, by its time and whether it can be one;
            empty if nothing else is against it.
    """

    def __init__(
        self,
        *,
        rate_hz: float = 0.0,
        every: int = 1,
        keyframes: bool = False,
        refusal: Callable[[int, bool], str] = lambda *_: "",
    ) -> None:
        self.refusal = refusal
        self._period_ns = round(1e9 / rate_hz) if rate_hz > 0 else 0
        self._every = every
        self._keyframes = keyframes
        self._start_ns: int | None = None
        self._previous_ns = 0
        self._due_ns = 0

    def wants(self, frame: int, time_ns: int, *, keyframe: bool) -> bool:
        """Whether this frame should become a sample if it can."""
        if self._keyframes:
            return keyframe
        if not self._period_ns:
            return frame % self._every == 0
        if self._start_ns is None:
            self._start_ns = self._due_ns = self._previous_ns = time_ns
        # Half a frame early counts as on time, else jitter around the grid would halve the rate.
        slack_ns = min((time_ns - self._previous_ns) // 2, self._period_ns // 2)
        self._previous_ns = time_ns
        return time_ns + slack_ns >= self._due_ns

    def may_want(self, frame: int, *, keyframe: bool) -> bool:
        """Whether this frame could be wanted, whatever became of those before it."""
        return keyframe if self._keyframes else bool(self._period_ns) or frame % self._every == 0

    def took(self, time_ns: int) -> None:
        """The frame became a sample: the next one is due at the next grid point."""
        if self._period_ns and self._start_ns is not None:
            steps = (time_ns - self._start_ns + self._period_ns // 2) // self._period_ns
            self._due_ns = self._start_ns + (steps + 1) * self._period_ns


Policy = Literal["nearest", "before", "exact", "once"]
Required = Literal["auto", "always", "never"]


class Alignable(Protocol):
    """What can be aligned."""

    @property
    def time_ns(self) -> int:
        """Acquisition time."""

    @property
    def unusable(self) -> str | None:
        """Why it cannot be part of a sample, None if it can."""

    @property
    def keyframe(self) -> bool:
        """Whether it is a video key frame, or not video at all."""


Candidate = TypeVar("Candidate", bound=Alignable)


@dataclass(frozen=True, slots=True)
class PairingRule:
    """How one stream pairs with the reference; ``wanted`` says whether a complete sample has it."""

    tolerance_ns: int
    policy: Policy = "nearest"
    required: Required = "auto"
    wanted: bool = True


class Aligned(NamedTuple, Generic[Candidate]):
    """One reference frame and what became of it.

    ``number`` counts reference frames from 0; ``companions`` are by stream name. ``kind`` is "sample", or why
    it is none: "unusable" (``reason`` says why), "skipped" by the selection, or "incomplete" (``reason`` has
    the streams that it lacks, separated by spaces). ``lacks`` are the wanted streams that are alive and of
    which a sample has no message.
    """

    number: int
    reference: Candidate
    companions: Mapping[str, Candidate]
    kind: Literal["sample", "unusable", "skipped", "incomplete"]
    reason: str = ""
    lacks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Stream(Generic[Candidate]):
    rule: PairingRule
    candidates: deque[Candidate]
    seen_ns: float = -math.inf
    """Time of the newest message, or of the first frame where the stream is known to exist."""


@dataclass(slots=True)
class _Frame(Generic[Candidate]):
    """A frame whose companions are known, except for those that go to one frame only."""

    number: int
    reference: Candidate
    companions: dict[str, Candidate]
    lacking: set[str]
    """Streams that are required and of which it has no message."""
    may_be_sample: bool = False
    """So that messages that go to one frame only may go to it."""
    is_selected: bool | None = None
    """None if that is not decided yet."""
    refusal: str = ""
    """Why it is no sample although it is selected."""


class Aligner(Generic[Candidate]):
    """Pairs streams with a reference; everything must come in order of time.

    A frame is settled once something beyond its largest tolerance has come. With the policy "once" a message
    goes to the sample that is nearest to it and to no other; frames wait for that while the stream is alive,
    until a later sample is nearer to whatever may come. A stream with ``required="auto"`` is required while
    it is alive: it sent something during the last ``alive_ns``. What no frame can take any more is returned
    by ``expired``.

    Args:
        rules: by stream name.
        selection: which frames become samples.
        alive_ns: see above.
        reach_ns: frames wait so long for companions at least, and are selected then.
    """

    def __init__(
        self, rules: Mapping[str, PairingRule], selection: Selection, alive_ns: int, reach_ns: int = 0
    ) -> None:
        self._streams: dict[str, _Stream[Candidate]] = {n: _Stream(r, deque()) for n, r in rules.items()}
        self._shared = {n: s for n, s in self._streams.items() if s.rule.policy != "once"}
        self._single = {n: s for n, s in self._streams.items() if s.rule.policy == "once"}
        # Where a sample must have such a message, the selection has to wait for what the frame gets.
        self._selects_last = any(s.rule.required != "never" for s in self._single.values())
        self._selection = selection
        self._alive_ns = alive_ns
        self._reach_ns = max([reach_ns, *(s.rule.tolerance_ns for s in self._shared.values())])
        self._pending: deque[Candidate] = deque()
        self._held: deque[_Frame[Candidate]] = deque()
        self._expired: list[tuple[str, Candidate]] = []
        self._told_ns = -math.inf
        """Companions before this time have been told to expire."""
        self._expected: set[str] = set()
        self.frames = 0
        """Reference frames settled so far."""

    def expect(self, streams: Iterable[str]) -> None:
        """Declare streams that exist, though they may not have sent anything yet."""
        self._expected.update(streams)

    def leave_out(self, streams: Iterable[str]) -> None:
        """Declare streams of which no sample takes a message, whatever their rules say."""
        for name in self._streams.keys() & set(streams):
            stream = self._streams[name]
            stream.rule = replace(stream.rule, required="never", wanted=False)

    def reference(self, candidate: Candidate) -> Iterator[Aligned[Candidate]]:
        """Take a reference frame; the frames that are settled by it."""
        yield from self.advance(candidate.time_ns)
        if self._expected:
            for name in self._expected & self._streams.keys():
                if self._streams[name].seen_ns == -math.inf:
                    self._streams[name].seen_ns = candidate.time_ns
            self._expected.clear()
        self._pending.append(candidate)

    def companion(self, stream: str, candidate: Candidate) -> Iterator[Aligned[Candidate]]:
        """Take another stream's message; the frames that are settled by it."""
        yield from self.advance(candidate.time_ns)
        kept = self._streams.get(stream)
        if kept is None:  # such as tiles of a picture whose first one is missing
            self._expire(stream, candidate)
            return
        kept.seen_ns = candidate.time_ns
        kept.candidates.append(candidate)

    def advance(self, time_ns: int) -> Iterator[Aligned[Candidate]]:
        """Settle frames and expire companions, as nothing before this time can come any more."""
        while self._pending and self._pending[0].time_ns + self._reach_ns < time_ns:
            self._settle(self._pending.popleft())
        known_ns = self._pending[0].time_ns if self._pending else time_ns
        for name, stream in self._single.items():
            self._give(name, stream, known_ns)
        while self._held and not self._may_get_more(self._held[0], time_ns):
            yield from self._left(self._held.popleft())
        oldest_ns = self._held[0].reference.time_ns if self._held else known_ns
        for name, stream in self._shared.items():
            limit_ns = oldest_ns - stream.rule.tolerance_ns
            while stream.candidates and stream.candidates[0].time_ns < limit_ns:
                self._expire(name, stream.candidates.popleft())

    def leave(self, before_ns: int) -> Iterator[Aligned[Candidate]]:
        """Frames before a time leave with what they have, and companions before it expire, once.

        Later frames may take these all the same.
        """
        while self._pending and self._pending[0].time_ns < before_ns:
            self._settle(self._pending.popleft())
        while self._held and self._held[0].reference.time_ns < before_ns:
            yield from self._left(self._held.popleft())
        kept = [(name, each) for name, stream in self._streams.items() for each in stream.candidates]
        given = (item for frame in self._held for item in frame.companions.items())
        for name, candidate in [*kept, *((name, each) for name, each in given if name in self._single)]:
            if candidate.time_ns < before_ns:
                self._expire(name, candidate)
        self._told_ns = before_ns

    @property
    def oldest_ns(self) -> int | None:
        """Time of the oldest reference frame that has not left yet."""
        if self._held:
            return self._held[0].reference.time_ns
        return self._pending[0].time_ns if self._pending else None

    def flush(self) -> Iterator[Aligned[Candidate]]:
        """Settle all frames and expire all companions, as nothing more comes."""
        while self._pending:
            self._settle(self._pending.popleft())
        for name, stream in self._single.items():
            self._give(name, stream, None)
        while self._held:
            yield from self._left(self._held.popleft())
        for name, stream in self._shared.items():
            while stream.candidates:
                self._expire(name, stream.candidates.popleft())

    def expired(self) -> list[tuple[str, Candidate]]:
        """Stream name and message of what no frame can take any more, since the last call."""
        gone, self._expired = self._expired, []
        return gone

    def _expire(self, name: str, candidate: Candidate) -> None:
        if candidate.time_ns >= self._told_ns:
            self._expired.append((name, candidate))

    def _settle(self, candidate: Candidate) -> None:
        number = self.frames
        self.frames += 1
        companions = {
            name: found
            for name, stream in self._shared.items()
            if stream.candidates and (found := _pick(stream, candidate.time_ns)) is not None
        }
        lacking = self._lacking(self._shared, candidate.time_ns, companions)
        frame = _Frame(number, candidate, companions, lacking)
        if self._selects_last:
            may_be_wanted = self._selection.may_want(number, keyframe=candidate.keyframe)
            frame.may_be_sample = may_be_wanted and candidate.unusable is None and not lacking
        else:
            frame.may_be_sample = self._select(frame)
        self._held.append(frame)

    def _select(self, frame: _Frame[Candidate]) -> bool:
        """Whether the frame becomes a sample; if so, the next one is due later."""
        reference = frame.reference
        frame.is_selected = self._selection.wants(
            frame.number, reference.time_ns, keyframe=reference.keyframe
        )
        is_sample = frame.is_selected and reference.unusable is None and not frame.lacking
        if is_sample:
            self._selection.took(reference.time_ns)
        if frame.is_selected:
            frame.refusal = self._selection.refusal(reference.time_ns, is_sample)
        return is_sample and not frame.refusal

    def _give(self, name: str, stream: _Stream[Candidate], known_ns: int | None) -> None:
        """Give messages to the nearest samples, as far as frames are known; None if there are no more."""
        tolerance_ns = stream.rule.tolerance_ns
        while stream.candidates:
            candidate = stream.candidates[0]
            best, best_ns = None, tolerance_ns + 1
            if candidate.unusable is None:
                for frame in self._held:
                    far_ns = abs(frame.reference.time_ns - candidate.time_ns)
                    if frame.may_be_sample and far_ns < best_ns:
                        best, best_ns = frame, far_ns
            if known_ns is not None and known_ns < candidate.time_ns + best_ns:
                return
            stream.candidates.popleft()
            other = None if best is None else best.companions.get(name)
            if best is None or (other is not None and _is_nearer(other, candidate, best.reference)):
                self._expire(name, candidate)
                continue
            best.companions[name] = candidate
            if other is not None:
                self._expire(name, other)

    def _may_get_more(self, frame: _Frame[Candidate], time_ns: int) -> bool:
        """Whether a message that goes to one frame only may still go to this one."""
        if not frame.may_be_sample:
            return False
        at_ns = frame.reference.time_ns
        has_later = any(f.may_be_sample and f.reference.time_ns > at_ns for f in self._held)
        for stream in self._single.values():
            reach_ns = at_ns + stream.rule.tolerance_ns
            if stream.candidates and stream.candidates[0].time_ns <= reach_ns:
                return True
            if not has_later and time_ns <= reach_ns and self._is_alive(stream, at_ns):
                return True
        return False

    def _left(self, frame: _Frame[Candidate]) -> Iterator[Aligned[Candidate]]:
        """What became of a frame that has all that it gets."""
        for name in self._single:
            if name in frame.companions:
                self._expire(name, frame.companions[name])
        yield self._outcome(frame)

    def _outcome(self, frame: _Frame[Candidate]) -> Aligned[Candidate]:
        candidate, companions = frame.reference, frame.companions
        if frame.is_selected is None:
            frame.lacking |= self._lacking(self._single, candidate.time_ns, companions)
            self._select(frame)
        if not frame.is_selected:
            return Aligned(frame.number, candidate, companions, "skipped", "not selected")
        if candidate.unusable is not None:
            return Aligned(frame.number, candidate, companions, "unusable", candidate.unusable)
        if frame.refusal:
            return Aligned(frame.number, candidate, companions, "skipped", frame.refusal)
        if frame.lacking:
            reason = " ".join(name for name in self._streams if name in frame.lacking)
            return Aligned(frame.number, candidate, companions, "incomplete", reason)
        alive_ns = candidate.time_ns - self._alive_ns
        lacks = tuple(
            name
            for name, stream in self._streams.items()
            if stream.rule.wanted and name not in companions and stream.seen_ns >= alive_ns
        )
        return Aligned(frame.number, candidate, companions, "sample", lacks=lacks)

    def _lacking(
        self, streams: Mapping[str, _Stream[Candidate]], time_ns: int, companions: Mapping[str, Candidate]
    ) -> set[str]:
        """Those of the streams that are required at that time and not among the companions."""
        alive_ns = time_ns - self._alive_ns
        return {
            name
            for name, stream in streams.items()
            if name not in companions
            and stream.rule.required != "never"
            and (stream.rule.required == "always" or stream.seen_ns >= alive_ns)
        }

    def _is_alive(self, stream: _Stream[Candidate], time_ns: int) -> bool:
        return stream.seen_ns >= time_ns - self._alive_ns


def _is_nearer(one: Alignable, other: Alignable, reference: Alignable) -> bool:
    """Whether the one is at least as near to a reference as the other."""
    return abs(one.time_ns - reference.time_ns) <= abs(other.time_ns - reference.time_ns)


def _pick(stream: _Stream[Candidate], time_ns: int) -> Candidate | None:
    """The usable message that the policy prefers; of two equally near ones the earlier."""
    best: Candidate | None = None
    tolerance_ns, nearest_ns, is_before = stream.rule.tolerance_ns, 0, stream.rule.policy == "before"
    for candidate in stream.candidates:
        off_ns = candidate.time_ns - time_ns
        far_ns = abs(off_ns)
        if far_ns > tolerance_ns or candidate.unusable is not None:
            continue
        if is_before:
            best = candidate if off_ns <= 0 else best
        elif best is None or far_ns < nearest_ns:
            best, nearest_ns = candidate, far_ns
    return best


MOST_WAITING_BYTES = 256 << 20
Item = TypeVar("Item")


class Reorder(Generic[Item]):
    """Sorts items by (time, topic, arrival), holding each until nothing earlier can come.

    An item may come up to ``window_ns`` later than the newest time seen, so any order of arrival within that
    window gives the same order of output. Of items of more than ``most_bytes`` the first leave earlier.
    """

    def __init__(self, window_ns: int, most_bytes: int = MOST_WAITING_BYTES) -> None:
        self._window_ns = window_ns
        self._most_bytes = most_bytes
        self._bytes = 0
        self._heap: list[tuple[int, str, int, int, Item]] = []
        self._newest_ns: int | None = None
        self.left_ns: int | None = None
        """Nothing before this time is taken any more."""

    def is_next(self, time_ns: int) -> bool:
        """Whether an item of that time lies behind all that can leave, and less than half a window."""
        newest_ns = self._newest_ns
        in_time = newest_ns is None or time_ns >= newest_ns - self._window_ns // 2
        return in_time and self._bytes <= self._most_bytes

    def push(self, time_ns: int, topic: str, arrival: int, item: Item, size: int = 0) -> bool:
        """Take an item of ``size`` bytes; False if it comes too late for its place, and is not kept."""
        if self.left_ns is not None and time_ns < self.left_ns:
            return False
        heapq.heappush(self._heap, (time_ns, topic, arrival, size, item))
        self._bytes += size
        if self._newest_ns is None or time_ns > self._newest_ns:
            self._newest_ns = time_ns
        return True

    def pop(self, until_ns: int | None = None) -> Iterator[Item]:
        """Items before which nothing can come any more, in order; before ``until_ns`` nothing is awaited."""
        if self._newest_ns is None:
            return
        limit_ns = self._newest_ns - self._window_ns
        if until_ns is not None and until_ns > limit_ns:
            limit_ns = until_ns
        while self._heap and (self._heap[0][0] < limit_ns or self._bytes > self._most_bytes):
            yield self._take()
        if until_ns is not None:
            self.left_ns = max(until_ns, self.left_ns or until_ns)

    def flush(self) -> Iterator[Item]:
        """All remaining items, in order."""
        while self._heap:
            yield self._take()

    def _take(self) -> Item:
        self.left_ns, _, _, size, item = heapq.heappop(self._heap)
        self._bytes -= size
        return item
