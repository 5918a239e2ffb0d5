"""Samples from measurements in order of time: each reference frame with its nearest companions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from edgefirst_ros.timing.select import Selection

Policy = Literal["nearest", "before", "exact"]
Required = Literal["auto", "always", "never"]


class Timed(Protocol):
    """What can be aligned."""

    @property
    def time_ns(self) -> int:
        """Acquisition time."""

    @property
    def unusable(self) -> str | None:
        """Why it cannot be part of a sample, None if it can."""

    @property
    def keyframe(self) -> bool:
        """Whether it is a video key frame (or a picture by itself)."""


Entry = TypeVar("Entry", bound=Timed)


@dataclass(frozen=True, slots=True)
class PairingRule:
    """How one stream pairs with the reference."""

    tolerance_ns: int
    policy: Policy = "nearest"
    required: Required = "auto"


@dataclass(frozen=True, slots=True)
class Aligned(Generic[Entry]):
    """The verdict over one reference frame.

    ``companions`` are by stream name. ``kind`` is "sample", or why there is none: "unusable" (``reason``
    says more), "skipped" by the selection, or "incomplete" (``reason`` names what it lacks).
    """

    frame: int
    reference: Entry
    companions: Mapping[str, Entry]
    kind: Literal["sample", "unusable", "skipped", "incomplete"]
    reason: str = ""


@dataclass(slots=True)
class _Stream(Generic[Entry]):
    rule: PairingRule
    entries: deque[Entry]
    seen_ns: int | None = None
    """Time of the newest entry, or of the first frame where the stream is known to exist."""


class Aligner(Generic[Entry]):
    """Pairs streams with a reference; entries must come in order of time.

    A frame is settled as soon as an entry beyond its farthest tolerance comes by. A stream with
    ``required="auto"`` is required while it is alive: it sent something during the last ``alive_ns``.
    Entries that no frame can take any more come out of ``expired``.
    """

    def __init__(self, rules: Mapping[str, PairingRule], selection: Selection, alive_ns: int) -> None:
        self._streams: dict[str, _Stream[Entry]] = {n: _Stream(r, deque()) for n, r in rules.items()}
        self._selection = selection
        self._alive_ns = alive_ns
        self._reach_ns = max((r.tolerance_ns for r in rules.values()), default=0)
        self._pending: deque[Entry] = deque()
        self._expired: list[tuple[str, Entry]] = []
        self._expected: set[str] = set()
        self.frames = 0
        """Reference frames settled so far."""
        self.lacking: Counter[str] = Counter()
        """Selected, usable frames without a companion of this stream, though it was required."""

    def expect(self, streams: Iterable[str]) -> None:
        """These streams are known to exist though they may not have sent anything yet."""
        self._expected.update(streams)

    def heard(self, last_ns: Mapping[str, int]) -> None:
        """When streams were heard last, before the first frame."""
        for name in last_ns.keys() & self._streams.keys():
            self._streams[name].seen_ns = last_ns[name]

    def reference(self, entry: Entry) -> Iterator[Aligned[Entry]]:
        """A reference frame, next in time."""
        yield from self.advance(entry.time_ns)
        if self._expected:
            for name in self._expected & self._streams.keys():
                if self._streams[name].seen_ns is None:
                    self._streams[name].seen_ns = entry.time_ns
            self._expected.clear()
        self._pending.append(entry)

    def companion(self, stream: str, entry: Entry) -> Iterator[Aligned[Entry]]:
        """Another stream's entry, next in time."""
        yield from self.advance(entry.time_ns)
        kept = self._streams[stream]
        kept.seen_ns = entry.time_ns
        kept.entries.append(entry)

    def advance(self, time_ns: int) -> Iterator[Aligned[Entry]]:
        """Time has come this far: settle what can be settled, let go what cannot be used."""
        while self._pending and self._pending[0].time_ns + self._reach_ns < time_ns:
            yield self._settle(self._pending.popleft())
        oldest_ns = self._pending[0].time_ns if self._pending else time_ns
        for name, stream in self._streams.items():
            limit_ns = oldest_ns - stream.rule.tolerance_ns
            while stream.entries and stream.entries[0].time_ns < limit_ns:
                self._expired.append((name, stream.entries.popleft()))

    @property
    def oldest_ns(self) -> int | None:
        """Time of the oldest reference frame not settled yet."""
        return self._pending[0].time_ns if self._pending else None

    def flush(self) -> Iterator[Aligned[Entry]]:
        """No more entries: settle every frame and let everything go."""
        while self._pending:
            yield self._settle(self._pending.popleft())
        for name, stream in self._streams.items():
            self._expired.extend((name, entry) for entry in stream.entries)
            stream.entries.clear()

    def expired(self) -> list[tuple[str, Entry]]:
        """Entries that left the window since the last call, by stream."""
        gone, self._expired = self._expired, []
        return gone

    def _settle(self, entry: Entry) -> Aligned[Entry]:
        frame, self.frames = self.frames, self.frames + 1
        companions = {
            name: found
            for name, stream in self._streams.items()
            if (found := _pick(stream, entry.time_ns)) is not None
        }
        if not self._selection.wants(frame, entry.time_ns, keyframe=entry.keyframe):
            return Aligned(frame, entry, companions, "skipped", "not selected")
        if entry.unusable is not None:
            return Aligned(frame, entry, companions, "unusable", entry.unusable)
        lacking = [
            name
            for name, stream in self._streams.items()
            if name not in companions and self._is_required(stream, entry.time_ns)
        ]
        if lacking:
            self.lacking.update(lacking)
            return Aligned(frame, entry, companions, "incomplete", " ".join(lacking))
        self._selection.took(entry.time_ns)
        return Aligned(frame, entry, companions, "sample")

    def _is_required(self, stream: _Stream[Entry], time_ns: int) -> bool:
        if stream.rule.required != "auto":
            return stream.rule.required == "always"
        return stream.seen_ns is not None and stream.seen_ns >= time_ns - self._alive_ns


def _pick(stream: _Stream[Entry], time_ns: int) -> Entry | None:
    """The usable entry that the policy prefers; of two equally near the earlier."""
    best: Entry | None = None
    for entry in stream.entries:
        if entry.unusable is not None or abs(entry.time_ns - time_ns) > stream.rule.tolerance_ns:
            continue
        if stream.rule.policy == "before":
            best = entry if entry.time_ns <= time_ns else best
        elif best is None or abs(entry.time_ns - time_ns) < abs(best.time_ns - time_ns):
            best = entry
    return best
