"""Counts what became of reference frames, and closes the accounts of what did not become a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock

from edgefirst_ros.config.model import TopicRule
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.ledger import Ledger, Stage
from edgefirst_ros.pipeline.settlement import Outcome
from edgefirst_ros.timing.align import Aligned


def envelopes_of(aligned: Aligned[Envelope]) -> Iterator[Envelope]:
    """The reference and its companions, tiles one by one."""
    yield from aligned.reference.all_parts
    for companion in aligned.companions.values():
        yield from companion.all_parts


KINDS = ("sample", "incomplete", "skipped", "unusable", "dropped")
"""What a reference frame can become; each is counted once, when that is known."""


class FrameCounts:
    """A sequence's reference frames by what became of them; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kinds: Counter[str] = Counter()
        self._reasons: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}

    def count(self, outcome: Outcome) -> None:
        """One more frame is judged."""
        with self._lock:
            self._kinds[outcome.kind] += 1
            if outcome.reason:
                self._reasons[outcome.kind][outcome.reason] += 1

    def __getitem__(self, kind: str) -> int:
        """Frames of a kind."""
        with self._lock:
            return self._kinds[kind]

    @property
    def total(self) -> int:
        """All frames judged."""
        with self._lock:
            return self._kinds.total()

    def chief(self, kind: str) -> tuple[str, int]:
        """The commonest reason of a kind and how often it was, ("", 0) if there is none."""
        with self._lock:
            reasons = self._reasons[kind].items()
            return max(reasons, key=lambda item: (item[1], item[0]), default=("", 0))


class Rejections:
    """Tells the ledger why frames and companions were not used.

    Args:
        ledger: of the whole run.
        rules: by configured topic.
    """

    def __init__(self, ledger: Ledger, rules: Mapping[str, TopicRule]) -> None:
        self._ledger = ledger
        self._rules = rules

    def expired(self, companions: Iterable[tuple[str, Envelope]]) -> None:
        """Companions that no frame can take any more, by configured topic."""
        for name, envelope in companions:
            reason = f"no reference frame within {self._rules[name].tolerance_ms:g} ms took it"
            for part in envelope.all_parts:
                if part.unusable is not None:
                    self._ledger.release(part.ticket, Stage.DROPPED, part.unusable)
                elif part.ticket.holds == 1 and part.ticket.stage is None:
                    self._ledger.release(part.ticket, Stage.UNPAIRED, reason)
                else:
                    self._ledger.release(part.ticket)

    def rejected(self, aligned: Aligned[Envelope]) -> None:
        """A reference frame that is no sample; its companions are told why."""
        if aligned.kind == "skipped":
            own = (Stage.SKIPPED, "not selected")
            theirs = (Stage.SKIPPED, "its reference frame was not selected")
        elif aligned.kind == "unusable":
            own = (Stage.DROPPED, aligned.reason)
            theirs = (Stage.UNPAIRED, f"its reference frame was not usable: {aligned.reason}")
        else:
            lacked = ", ".join(self._rules[name].topic for name in aligned.reason.split())
            own = (Stage.UNPAIRED, f"no {lacked} close enough")
            theirs = (Stage.UNPAIRED, f"its reference frame lacked {lacked}")
        for companion in aligned.companions.values():
            for part in companion.all_parts:
                self._ledger.note(part.ticket, *theirs)
        for part in aligned.reference.all_parts:
            self._ledger.release(part.ticket, *own)
