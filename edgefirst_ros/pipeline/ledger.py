"""Every message counted once, under the furthest stage it reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from threading import Lock
from typing import Any


class Stage(IntEnum):
    """Where a message ended; a message with several ends counts under the highest."""

    REFUSED = 0
    """It does not decode, is of the wrong type, or makes no sense (a fix at 0,0)."""
    DECODED = 1
    """Read for what it says about the others (calibration, poses, settings); no file of its own."""
    SKIPPED = 2
    """Left out by the selection, or a topic the configuration has no use for."""
    UNPAIRED = 3
    """Sound, but no reference frame took it, or its reference frame lacked something."""
    DROPPED = 4
    """Could not be used: late, damaged by a lost frame, pushed out of a full queue, write failed."""
    WRITTEN = 5
    """Bytes of it are in the output."""


def rank(stage: Stage, reason: str) -> int:
    """How far along an end is: further than all before it, but that nobody has a place for it says least."""
    return -1 if stage is Stage.DECODED and reason else stage


COLUMNS = ("decoded", "refused", "skipped", "unpaired", "dropped", "written")
"""Column names of the report; ``received`` is their sum."""

LATE = "arrived later than the look-ahead"
QUEUE_FULL = "pushed out of a full queue"
CUT_OFF = "not written before the end"

_BIN_NS = 100_000


@dataclass(slots=True)
class PairingError:
    """Distribution of |companion − reference|, kept as a histogram so that memory does not grow."""

    bins: Counter[int] = field(default_factory=Counter)
    largest_ns: int = 0

    def add(self, error_ns: int) -> None:
        """Count one pair."""
        size = abs(error_ns)
        self.bins[round(size / _BIN_NS)] += 1
        self.largest_ns = max(self.largest_ns, size)

    def summary(self) -> dict[str, float] | None:
        """p50, p95 and max in milliseconds, None without pairs."""
        total = self.bins.total()
        if not total:
            return None
        result: dict[str, float] = {}
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            seen = 0
            for value in sorted(self.bins):
                seen += self.bins[value]
                if seen >= share * total:
                    result[name] = round(value * _BIN_NS / 1e6, 1)
                    break
        return {**result, "max": round(self.largest_ns / 1e6, 3)}


@dataclass(slots=True)
class TopicAccount:
    """Counts of one topic."""

    schema: str
    received: int = 0
    bytes: int = 0
    stages: Counter[Stage] = field(default_factory=Counter)
    reasons: dict[Stage, Counter[str]] = field(default_factory=dict)
    parts: Counter[str] = field(default_factory=Counter)
    """Parts of messages that a format could not express (a box out of the picture), by reason."""
    formats: Counter[str] = field(default_factory=Counter)
    """Messages written, by the format that holds them."""
    unplaced: int = 0
    """Messages that were never put in order of time, though they were of a time of their own."""
    pairing: PairingError = field(default_factory=PairingError)

    def as_dict(self) -> dict[str, Any]:
        """The account as plain values for the report."""
        counts = {name: self.stages[Stage[name.upper()]] for name in COLUMNS}
        reasons = {o.name.lower(): dict(sorted(c.items())) for o, c in sorted(self.reasons.items()) if c}
        return {
            "type": self.schema,
            "received": self.received,
            **counts,
            "written_to": dict(sorted(self.formats.items())),
            "bytes": self.bytes,
            "pairing_error_ms": self.pairing.summary(),
            "reasons": reasons,
            "refused_parts": dict(sorted(self.parts.items())),
        }


class Ticket:
    """One message's place in the account; settled when nobody holds it any more."""

    __slots__ = ("formats", "holds", "own", "reason", "schema", "size", "stage", "topic")

    def __init__(self, topic: str, schema: str = "", size: int = 0, *, own: bool = True) -> None:
        self.topic = topic
        self.schema = schema
        self.size = size
        self.own = own
        """Whether it is counted here; at a seam another session's account has it."""
        self.holds = 1
        self.stage: Stage | None = None
        self.reason = ""
        self.formats: frozenset[str] = frozenset()
        """Those that hold bytes of it."""


class Ledger:
    """The account of all topics; safe to use from any thread.

    ``received == decoded + refused + skipped + unpaired + dropped + written`` for every topic as soon as
    every ticket is released.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._topics: dict[str, TopicAccount] = {}
        self._open = 0

    def receive(self, topic: str, schema: str, size: int, *, own: bool = True) -> Ticket:
        """A message arrived; its ticket must be released once. One that is not own is not counted."""
        ticket = Ticket(topic, schema, size, own=own)
        if own:
            with self._lock:
                self._count(ticket, 1)
        return ticket

    def assign(self, ticket: Ticket, *, own: bool) -> None:
        """Now it is known whether an open message is counted here, or in the account across a seam."""
        with self._lock:
            if ticket.own != own:
                ticket.own = own
                self._count(ticket, 1 if own else -1)

    def _count(self, ticket: Ticket, by: int) -> None:
        account = self._topics.setdefault(ticket.topic, TopicAccount(ticket.schema))
        account.received += by
        account.bytes += by * ticket.size
        self._open += by
        if not account.received:
            del self._topics[ticket.topic]

    def hold(self, ticket: Ticket) -> None:
        """One more party depends on the message and will release its ticket."""
        with self._lock:
            ticket.holds += 1

    def note(self, ticket: Ticket, stage: Stage, reason: str = "") -> None:
        """Say how far the message came; the furthest counts."""
        with self._lock:
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
        """One party is done with the message; the last one settles its account.

        ``formats`` are those whose output now holds it; ``unplaced`` says that it leaves a gap in the order
        of time.
        """
        with self._lock:
            if ticket.own:
                self._topics[ticket.topic].unplaced += unplaced
            ticket.formats = ticket.formats.union(formats)
            if stage is not None:
                self._note(ticket, stage, reason)
            ticket.holds -= 1
            if ticket.holds or not ticket.own:
                return
            final = Stage.UNPAIRED if ticket.stage is None else ticket.stage
            account = self._topics[ticket.topic]
            account.stages[final] += 1
            if ticket.reason:
                account.reasons.setdefault(final, Counter())[ticket.reason] += 1
            account.formats.update(ticket.formats)
            self._open -= 1

    def lose(self, topic: str, schema: str, messages: int, size: int, reason: str) -> None:
        """Messages arrived that had to be dropped before anything looked at them."""
        with self._lock:
            account = self._topics.setdefault(topic, TopicAccount(schema))
            account.received += messages
            account.bytes += size
            account.unplaced += messages
            account.stages[Stage.DROPPED] += messages
            account.reasons.setdefault(Stage.DROPPED, Counter())[reason] += messages

    def paired(self, topic: str, error_ns: int) -> None:
        """Count one pair's error."""
        with self._lock:
            if topic in self._topics:
                self._topics[topic].pairing.add(error_ns)

    def refuse_part(self, topic: str, reason: str) -> None:
        """A format could not express a part of a message; the message itself may be written all the same."""
        with self._lock:
            if topic in self._topics:
                self._topics[topic].parts[reason] += 1

    @property
    def open(self) -> int:
        """Messages whose account is not settled yet."""
        with self._lock:
            return self._open

    @property
    def topics(self) -> list[str]:
        """Topics of which something was received."""
        with self._lock:
            return sorted(self._topics)

    @property
    def unplaced(self) -> dict[str, int]:
        """By topic, messages that were received and leave a gap in the order of time all the same."""
        with self._lock:
            return {topic: account.unplaced for topic, account in self._topics.items()}

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """All accounts by topic, as plain values."""
        with self._lock:
            return {topic: account.as_dict() for topic, account in sorted(self._topics.items())}

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
