"""Counts every message once, under the furthest stage it reached, and reference frames by outcome.

How many messages of each topic, and reference frames, there were when, in a bounded number of bins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from threading import Lock
from typing import Any

from edgefirst_ros.config.topics import MAX_UNUSED, OTHER_TOPICS
from edgefirst_ros.model.reasons import Kind, Reason
from edgefirst_ros.timing.gaps import quantile

MOST_BINS = 600
FINEST_NS = 100_000_000
MOST_KINDS = 8


class Timeline:
    """Counts by lane, kind and time.

    Bins are multiples of a width that doubles whenever more than ``MOST_BINS`` of them hold something, so the
    result does not depend on the order of the calls, and hours between two drives take no room.

    Attributes:
        bin_ns: the width of a bin.
    """

    def __init__(self) -> None:
        self.bin_ns = FINEST_NS
        self._occupied: set[int] = set()
        self._lanes: dict[str, dict[int, int]] = {}

    def add(self, lane: str, time_ns: int, kind: int, count: int = 1) -> None:
        """Count something of a kind, which is less than ``MOST_KINDS``; times up to 0 are unknown ones."""
        if time_ns <= 0:
            return
        number = time_ns // self.bin_ns
        counts = self._lanes.get(lane)
        if counts is None:
            counts = self._lanes[lane] = {}
        key = number * MOST_KINDS + kind
        counts[key] = counts.get(key, 0) + count
        if number not in self._occupied:
            self._occupied.add(number)
            while len(self._occupied) > MOST_BINS:
                self._coarsen()

    def _coarsen(self) -> None:
        self.bin_ns *= 2
        self._occupied = {number // 2 for number in self._occupied}
        for lane, counts in self._lanes.items():
            merged: dict[int, int] = {}
            for key, count in counts.items():
                number, kind = divmod(key, MOST_KINDS)
                at = number // 2 * MOST_KINDS + kind
                merged[at] = merged.get(at, 0) + count
            self._lanes[lane] = merged

    def summary(self, kinds: Sequence[str]) -> dict[str, Any]:
        """The occupied bins, and for each lane the counts in them of every kind that it has."""
        numbers = sorted(self._occupied)
        first = numbers[0] if numbers else 0
        lanes: dict[str, dict[str, list[int]]] = {}
        for lane, counts in sorted(self._lanes.items()):
            present = sorted({key % MOST_KINDS for key in counts})
            lanes[lane] = {
                kinds[kind]: [counts.get(number * MOST_KINDS + kind, 0) for number in numbers]
                for kind in present
            }
        return {
            "start_ns": first * self.bin_ns,
            "bin_ns": self.bin_ns,
            "bins": [number - first for number in numbers],
            "counts": lanes,
        }


class Stage(IntEnum):
    """How far a message came; of several formats' answers the furthest counts."""

    REFUSED = 0
    """It cannot be decoded, has the wrong type, or makes no sense."""
    DECODED = 1
    """Used for what it says about other messages (calibration, poses, settings); stored nowhere itself."""
    SKIPPED = 2
    """Left out by the selection, of a topic that the configuration does not use, or normal for its device: a
    message that came before, and what a receiver sends before its first fix."""
    UNPAIRED = 3
    """Sound, but no reference frame took it, or its frame became no sample."""
    DROPPED = 4
    """Lost: too late, damaged by a lost frame, pushed out of a full queue, or not written."""
    WRITTEN = 5
    """Bytes of it are in the output."""


def rank(stage: Stage, reason: str) -> int:
    """Order of stages; lowest is a message that was decoded and for which a format has no place."""
    return -1 if stage is Stage.DECODED and reason else stage


COLUMNS = ("decoded", "refused", "skipped", "unpaired", "dropped", "written")
"""Column names of the report; ``received`` is their sum."""


OUTCOMES = ("sample", "incomplete", "skipped", "unusable", "dropped")
"""What a reference frame can become; each is counted once, when that is known."""

MAX_REASONS = 32
"""Reasons of one kind that a report tells apart: the most frequent ones."""
REFERENCE_FRAMES = ""
"""Their lane of the timeline, after those of topics, which all have a name."""
_BIN_NS = 100_000


def count_reason(reasons: Counter[str], reason: str) -> None:
    """Count a reason; beyond very many they are counted together."""
    # Reasons of one kind that are counted apart; more than that only hostile messages have.
    reasons[reason if reason in reasons or len(reasons) < 1000 else Reason.OTHERS] += 1


def frequent(reasons: Mapping[str, int]) -> dict[str, int]:
    """The most frequent reasons by name, the rest together."""
    ranked = sorted(reasons.items(), key=lambda item: (item[0] == Reason.OTHERS, -item[1], item[0]))
    kept, rest = dict(sorted(ranked[:MAX_REASONS])), ranked[MAX_REASONS:]
    if rest:
        kept[Reason.OTHERS] = kept.get(Reason.OTHERS, 0) + sum(count for _, count in rest)
    return kept


@dataclass(slots=True)
class PairingError:
    """Distribution of companion − reference, as a histogram of bounded size."""

    bins: Counter[int] = field(default_factory=Counter)
    largest_ns: int = 0
    worst: tuple[int, tuple[str, int, int]] | None = None
    """The error of the sample whose companion is farthest off, with its sequence, frame and time."""

    def add(self, error_ns: int, sample: tuple[str, int, int] | None = None) -> None:
        """Count one pair; ``sample`` is its sequence, frame and time if it is in the output."""
        size = abs(error_ns)
        self.bins[round(error_ns / _BIN_NS)] += 1
        self.largest_ns = max(self.largest_ns, size)
        if sample is not None and (self.worst is None or size > abs(self.worst[0])):
            self.worst = error_ns, sample

    def summary(self) -> dict[str, float] | None:
        """p50, p95 and max of the amount in milliseconds, None without pairs."""
        sizes: Counter[int] = Counter()
        for number, count in self.bins.items():
            sizes[abs(number)] += count
        p50, p95 = quantile(sizes, 0.5), quantile(sizes, 0.95)
        if p50 is None or p95 is None:
            return None
        return {
            "p50": round(p50 * _BIN_NS / 1e6, 1),
            "p95": round(p95 * _BIN_NS / 1e6, 1),
            "max": round(self.largest_ns / 1e6, 3),
        }


@dataclass(slots=True)
class TopicAccount:
    """Counts of one topic."""

    schema: str
    received: int = 0
    bytes: int = 0
    stages: Counter[Stage] = field(default_factory=Counter)
    reasons: dict[Stage, Counter[str]] = field(default_factory=dict)
    parts: Counter[str] = field(default_factory=Counter)
    """Parts of messages that a format cannot store (a box outside the picture), by reason."""
    formats: Counter[str] = field(default_factory=Counter)
    """Messages written, by the format that holds them."""
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    """Messages that a format leaves out whatever others do with them, by format and reason."""
    unplaced: int = 0
    """Messages that had an acquisition time and were never put in order of time."""
    pairing: PairingError = field(default_factory=PairingError)
    unchecked: int = 0
    """Pictures of video that no checksum covers."""
    used_in: int | None = None
    """The newest drive of which a message was decoded."""

    def as_dict(self) -> dict[str, Any]:
        """The counts as plain values for the report."""
        counts = {name: self.stages[Stage[name.upper()]] for name in COLUMNS}
        reasons = {o.name.lower(): frequent(c) for o, c in sorted(self.reasons.items()) if c}
        return {
            "type": self.schema,
            "received": self.received,
            **counts,
            "written_to": dict(sorted(self.formats.items())),
            "bytes": self.bytes,
            "pairing_error_ms": self.pairing.summary(),
            "reasons": reasons,
            "refused_parts": frequent(self.parts),
            "left_out": {name: frequent(reasons) for name, reasons in sorted(self.left_out.items())},
            **({"unchecked": self.unchecked} if self.unchecked else {}),
        }


@dataclass(slots=True, eq=False)
class Ticket:
    """One message's place in a ledger; counted when its last holder releases it."""

    ledger: Ledger
    """That counts it; what another one is told of it has no effect."""
    topic: str
    schema: str
    size: int
    receive_ns: int
    """When it was received, 0 if that is unknown."""
    drive: int = 0
    holds: int = 1
    stage: Stage | None = None
    reason: str = ""
    formats: frozenset[str] = frozenset()
    """Names of formats that hold bytes of it."""
    account: TopicAccount = field(init=False)
    """Where its ledger counts it."""


class Ledger:
    """Counts of all topics; thread-safe.

    ``received == decoded + refused + skipped + unpaired + dropped + written`` for every topic once all
    tickets are released.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._topics: dict[str, TopicAccount] = {}
        self._unused: set[str] = set()
        self._open = 0
        self._timeline = Timeline()
        self._companions: Counter[str] = Counter()
        self.drives = 0
        """Those that have ended."""
        self._labelled = 0

    def unused(self, topic: str) -> str:
        """The name under which a topic without a use is counted: its own, or one for all beyond many."""
        if topic not in self._unused:
            if len(self._unused) >= MAX_UNUSED:
                return OTHER_TOPICS
            self._unused.add(topic)
        return topic

    @property
    def has_clock(self) -> bool:
        """Whether a message of simulated time came."""
        return any(account.schema.endswith("/Clock") for account in [*self._topics.values()])

    def receive(self, topic: str, schema: str, size: int, receive_ns: int = 0) -> Ticket:
        """Open a message's ticket, which must be released once."""
        ticket = Ticket(self, topic, schema, size, receive_ns, self.drives)
        with self._lock:
            self._count(ticket, 1)
        return ticket

    def take(self, ticket: Ticket) -> None:
        """Count an open message, which another ledger may have counted so far."""
        before: Ledger = ticket.ledger
        if before is not self:
            with before._lock:
                before._count(ticket, -1)
            ticket.ledger = self
            with self._lock:
                self._count(ticket, 1)

    def _count(self, ticket: Ticket, by: int) -> None:
        account = self._topics.get(ticket.topic)
        if account is None:
            account = self._topics[ticket.topic] = TopicAccount(ticket.schema)
        ticket.account = account
        account.received += by
        account.bytes += by * ticket.size
        self._open += by
        if not account.received:
            del self._topics[ticket.topic]

    def hold(self, ticket: Ticket) -> None:
        """Add a holder, who will release the ticket as well."""
        with self._lock:
            ticket.holds += ticket.ledger is self

    def note(self, ticket: Ticket, stage: Stage, reason: str = "") -> None:
        """Say how far a message came; the furthest stage counts."""
        with self._lock:
            if ticket.ledger is self:
                self._note(ticket, stage, reason)

    def release(
        self,
        ticket: Ticket,
        stage: Stage | None = None,
        reason: str = "",
        *,
        formats: Collection[str] = (),
        unplaced: bool = False,
    ) -> None:
        """End one hold on a message; it is counted when the last hold ends.

        Args:
            ticket: of the message.
            stage: how far it came, None if this holder has nothing to say about it.
            reason: why it came no further.
            formats: whose output now holds it.
            unplaced: it was never put in order of time, so its topic seems to have a gap there.
        """
        if ticket.ledger is not self:
            return
        with self._lock:
            account = ticket.account
            account.unplaced += unplaced
            if formats:
                ticket.formats = ticket.formats.union(formats)
            if stage is not None:
                self._note(ticket, stage, reason)
            ticket.holds -= 1
            if ticket.holds:
                return
            final = Stage.UNPAIRED if ticket.stage is None else ticket.stage
            if final is Stage.REFUSED and isinstance(ticket.reason, Reason):
                is_early = ticket.reason.kind is Kind.NO_POSITION and account.used_in != ticket.drive
                final = Stage.SKIPPED if is_early or ticket.reason.kind is Kind.REPEATED else final
            account.stages[final] += 1
            if final is Stage.DECODED:
                account.used_in = ticket.drive
            if ticket.reason:
                if final not in account.reasons:
                    account.reasons[final] = Counter()
                count_reason(account.reasons[final], ticket.reason)
            if ticket.formats:
                account.formats.update(ticket.formats)
            self._open -= 1
            self._timeline.add(ticket.topic, ticket.receive_ns, final)

    def lose(
        self, topic: str, schema: str, messages: int, size: int, reason: str, *, receive_ns: int = 0
    ) -> None:
        """Count messages that were dropped unread, received about ``receive_ns``, 0 if that is unknown."""
        with self._lock:
            account = self._topics.setdefault(topic, TopicAccount(schema))
            account.received += messages
            account.bytes += size
            account.unplaced += messages
            account.stages[Stage.DROPPED] += messages
            account.reasons.setdefault(Stage.DROPPED, Counter())[reason] += messages
            self._timeline.add(topic, receive_ns, Stage.DROPPED, messages)

    def skip(self, topic: str, schema: str, messages: int, reason: str) -> None:
        """Count messages that nobody wanted read; their bytes are not counted."""
        with self._lock:
            account = self._topics.setdefault(topic, TopicAccount(schema))
            account.received += messages
            account.stages[Stage.SKIPPED] += messages
            account.reasons.setdefault(Stage.SKIPPED, Counter())[reason] += messages

    def paired(self, topic: str, error_ns: int, sample: tuple[str, int, int] | None = None) -> None:
        """Count how far a companion was from its reference, in nanoseconds; see ``PairingError.add``."""
        with self._lock:
            if topic in self._topics:
                self._topics[topic].pairing.add(error_ns, sample)

    def combined(self, topics: Collection[str], *, labelled: bool) -> None:
        """Count a sample in the output by the topics of its companions, and whether it has labels."""
        with self._lock:
            self._labelled += labelled
            self._companions.update(topics)

    def frame(self, kind: str, time_ns: int) -> None:
        """Count a reference frame, acquired then, by its outcome: one of ``OUTCOMES``."""
        with self._lock:
            self._timeline.add(REFERENCE_FRAMES, time_ns, OUTCOMES.index(kind))

    def refuse_part(self, topic: str, reason: str) -> None:
        """Count a part of a message that a format cannot store; the rest may be written."""
        with self._lock:
            if topic in self._topics:
                count_reason(self._topics[topic].parts, reason)

    def leave_out(self, ticket: Ticket, formats: Iterable[str], reason: str) -> None:
        """Count an open message under each format that leaves it out; others may have it."""
        with self._lock:
            if ticket.ledger is self:
                for name in formats:
                    count_reason(self._topics[ticket.topic].left_out.setdefault(name, Counter()), reason)

    @property
    def open(self) -> int:
        """Messages that are not counted under a stage yet."""
        with self._lock:
            return self._open

    @property
    def topics(self) -> list[str]:
        """Topics of which something was received."""
        with self._lock:
            return sorted(self._topics)

    @property
    def unplaced(self) -> dict[str, int]:
        """By topic, messages that were received and never put in order of time."""
        with self._lock:
            return {topic: account.unplaced for topic, account in self._topics.items()}

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """The counts of every topic as plain values."""
        with self._lock:
            return {topic: account.as_dict() for topic, account in sorted(self._topics.items())}

    def pairings(self) -> dict[str, dict[str, Any]]:
        """By topic, the sample whose companion is farthest off."""
        with self._lock:
            found = {topic: account.pairing.worst for topic, account in sorted(self._topics.items())}
        names = ("sequence", "frame", "time_ns")
        return {
            topic: {
                "worst": {"error_ms": round(worst[0] / 1e6, 3), **dict(zip(names, worst[1], strict=True))}
            }
            for topic, worst in found.items()
            if worst is not None
        }

    def companions(self) -> dict[str, int]:
        """Samples in the output that have a companion of each topic."""
        with self._lock:
            return dict(sorted(self._companions.items()))

    @property
    def labelled(self) -> int:
        """Samples in the output whose picture a model looked at, whether it found something or nothing."""
        with self._lock:
            return self._labelled

    def timeline(self) -> dict[str, Any]:
        """When messages were received, by topic and stage, and reference frames acquired, by outcome."""
        with self._lock:
            found = self._timeline.summary([stage.name.lower() for stage in Stage])
            frames = found["counts"].pop(REFERENCE_FRAMES, {})
        names = dict(zip((stage.name.lower() for stage in Stage), OUTCOMES, strict=False))
        return {
            "start_ns": found["start_ns"],
            "bin_ns": found["bin_ns"],
            "bins": found["bins"],
            "topics": found["counts"],
            "reference_frames": {names[kind]: counts for kind, counts in frames.items()},
        }

    @property
    def totals(self) -> Mapping[str, int]:
        """Messages received and in each column, over all topics."""
        with self._lock:
            sums: Counter[str] = Counter(received=sum(a.received for a in self._topics.values()))
            for name in COLUMNS:
                sums[name] = sum(a.stages[Stage[name.upper()]] for a in self._topics.values())
            return sums

    @staticmethod
    def _note(ticket: Ticket, stage: Stage, reason: str) -> None:
        if ticket.stage is None or rank(stage, reason) > rank(ticket.stage, ticket.reason):
            ticket.stage, ticket.reason = stage, reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a reference frame: one of ``OUTCOMES``, and why it is no sample."""

    kind: str
    reason: str = ""


SAMPLE = Outcome("sample")


class FrameCounts:
    """A sequence's reference frames by outcome; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kinds: Counter[str] = Counter()
        self._complete = 0
        self._reasons: dict[str, Counter[str]] = {kind: Counter() for kind in OUTCOMES}

    def count(self, outcome: Outcome, *, is_complete: bool = False) -> None:
        """Count one more frame; a sample is complete if it has a message of every sensor that was alive."""
        with self._lock:
            self._kinds[outcome.kind] += 1
            self._complete += is_complete and outcome.kind == "sample"
            if outcome.reason:
                count_reason(self._reasons[outcome.kind], outcome.reason)

    def __getitem__(self, kind: str) -> int:
        """How many frames had an outcome."""
        with self._lock:
            return self._kinds[kind]

    @property
    def complete(self) -> int:
        """How many samples are complete."""
        with self._lock:
            return self._complete

    @property
    def total(self) -> int:
        """All frames counted."""
        with self._lock:
            return self._kinds.total()

    def chief(self, kind: str) -> tuple[str, int]:
        """The most frequent reason of an outcome and its count, ("", 0) if there is none."""
        with self._lock:
            reasons = self._reasons[kind].items()
            return max(reasons, key=lambda item: (item[1], item[0]), default=("", 0))
