"""What became of one item at every writer, and what follows from it for its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from edgefirst_ros.errors import EdgeFirstError
from edgefirst_ros.formats.base import NoPlace, Written
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.ledger import Ledger, Stage, rank
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES

NO_FILE = "the format has no file for it"
Result = Written | BaseException
"""What a writer wrote, or what kept it from writing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sample; ``kind`` and ``reason`` as the report counts reference frames."""

    kind: str
    reason: str = ""


SAMPLE = Outcome("sample")


class Settlement:
    """Collects what each writer says of one item, and closes its messages' accounts after the last one.

    A message is written if any writer has bytes of it. Otherwise the end that says most counts: that it could
    not be written, that its sample has no place, that it cannot be expressed, that there is no file for it.

    Args:
        ledger: of the whole run.
        envelopes: what the item is made of, its reference first; each is held once.
        writers: how many will call ``settle``.
        damaged: asked at the end: why the item's picture cannot be had, empty if it can or there is none.
        done: called at the end in the last writer's thread, before the accounts are closed.
    """

    def __init__(
        self,
        ledger: Ledger,
        envelopes: Sequence[Envelope],
        writers: int,
        *,
        damaged: Callable[[], str],
        done: Callable[[Settlement], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._envelopes = envelopes
        self._left = writers
        self._damaged = damaged
        self._done = done
        self._lock = Lock()
        self.results: dict[str, Result] = {}
        """By writer."""

    def settle(self, writer: str, result: Result) -> None:
        """A writer is done with the item; in its thread."""
        with self._lock:
            self.results[writer] = result
            self._left -= 1
            if self._left:
                return
        if self._done is not None:
            self._done(self)
        for envelope in self._envelopes:
            self._close(envelope)

    @property
    def outcome(self) -> Outcome:
        """Of a sample: whether any output has it, else why none does."""
        written = [result for result in self.results.values() if isinstance(result, Written)]
        if any(result.left_out is None for result in written):
            return SAMPLE
        damage = self._damaged()
        if damage:
            return Outcome("unusable", damage)
        left_out = [result.left_out for result in written if result.left_out is not None]
        # That a format takes fewer says less about the sample than what it lacks.
        for each in sorted(left_out, key=lambda left: left.kind == "skipped"):
            return Outcome(each.kind, each.reason)
        return Outcome("dropped", next(map(reason_of, self._errors()), ""))

    def _errors(self) -> Iterator[BaseException]:
        return (result for result in self.results.values() if isinstance(result, BaseException))

    def _close(self, envelope: Envelope) -> None:
        topic, damage = envelope.route.topic, self._damaged()
        ends = [self._end(envelope, result, damage) for result in self.results.values()]
        stage, reason = max(ends, key=lambda end: (rank(*end), end[1] != NO_FILE))
        formats = [name for name, result in self.results.items() if topic in _topics(result)]
        if stage is not Stage.REFUSED:
            for part in self._refused_parts(topic):
                self._ledger.refuse_part(topic, part)
        for part_envelope in envelope.all_parts:
            self._ledger.release(part_envelope.ticket, stage, reason, formats=formats)

    def _refused_parts(self, topic: str) -> Iterator[str]:
        for result in self.results.values():
            if isinstance(result, Written) and result.left_out is None:
                yield from (why for of, why in result.refused if of == topic and not isinstance(why, NoPlace))

    def _end(self, envelope: Envelope, result: Result, damage: str) -> tuple[Stage, str]:
        """How far an envelope's messages came at one writer."""
        if isinstance(result, Written):
            return _end_of(envelope, result)
        if damage and envelope is not self._envelopes[0]:
            return Stage.UNPAIRED, f"its reference frame was not usable: {damage}"
        return Stage.DROPPED, damage or reason_of(result)


def _end_of(envelope: Envelope, written: Written) -> tuple[Stage, str]:
    topic = envelope.route.topic
    if topic in written.topics:
        return Stage.WRITTEN, ""
    if written.left_out is not None:
        return _STAGES[written.left_out.kind], written.left_out.reason
    told = [reason for of, reason in written.refused if of == topic]
    faults = [reason for reason in told if not isinstance(reason, NoPlace)]
    if faults:
        return Stage.REFUSED, faults[0]
    if envelope.route.rule.role in CONTEXT_ROLES | EGO_ROLES:
        return Stage.DECODED, ""
    return Stage.DECODED, told[0] if told else NO_FILE


_STAGES = {"skipped": Stage.SKIPPED, "unusable": Stage.UNPAIRED, "dropped": Stage.DROPPED}


def reason_of(error: BaseException) -> str:
    """Why something could not be written, for the account."""
    if isinstance(error, EdgeFirstError):
        return str(error)
    return f"could not be written: {type(error).__name__}"


def _topics(result: Result) -> Sequence[str]:
    return result.topics if isinstance(result, Written) else ()
