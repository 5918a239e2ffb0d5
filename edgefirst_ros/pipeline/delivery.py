"""One sample or measurement on its way to the writers: where it is, and what became of it at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from enum import Enum
from typing import Any, Generic, TypeVar

from edgefirst_ros.config.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.formats.format import NO_FILE, LeftOut, NoPlace, Written
from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import refusal_of
from edgefirst_ros.model.sample import CameraImage, EgoPose, Observation, Sample
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.executor import chain, error_of
from edgefirst_ros.pipeline.ledger import SAMPLE, Ledger, Outcome, Stage, rank

_PICTURE = "making the picture"
Item = TypeVar("Item", Sample, Observation)
Result = Written | BaseException
"""What a writer wrote, or what kept it from writing."""
_FAILED = LeftOut("dropped", "")
_STAGES = {"skipped": Stage.SKIPPED, "unusable": Stage.UNPAIRED, "dropped": Stage.DROPPED}


class State(Enum):
    """Where an item is on its way to one writer; each follows the one above, ``HELD`` only if need be."""

    PICTURE = "its picture is in the making"
    PREPARING = "the pool makes of it what the writer takes"
    READY = "the writer's thread takes it in its turn"
    HELD = "the writer keeps it until later ones have come"
    SETTLED = "it is written, left out, or something failed"


class Delivery(Generic[Item]):
    """A sample or measurement on its way to the writers, and what each of them says became of it.

    After the last one its messages are released. A message is written if any writer has bytes of it; else the
    furthest stage counts.

    Args:
        make: makes the item once its picture is there.
        envelopes: what the item is made of, its reference first; each is held once.
        image: the picture, perhaps still in the making; None if it has none or nobody needs it.
        takers: formats that have time for it, None if all.
        outcome: called once, in any thread, with what became of a sample; None for a measurement.
        ego: pose of a sample.
        place: sequence, frame and time of a sample.
        is_reference: whether a sample is one of the reference's, not of a camera beside it.

    Attributes:
        item: once its picture is there.
        held_bytes: memory that its messages take.
        writers: how many writers it goes to.
        awaited: how many of the fan-out's steps it has not passed yet.
        is_lacking: a format failed before it had all that goes with the sample.
    """

    def __init__(
        self,
        make: Callable[[CameraImage | None], Item],
        envelopes: tuple[Envelope, ...],
        *,
        image: Future[CameraImage] | None = None,
        takers: frozenset[str] | None = None,
        outcome: Callable[[Outcome], None] | None = None,
        ego: EgoPose | None = None,
        place: tuple[str, int, int] | None = None,
        is_reference: bool = True,
    ) -> None:
        self.envelopes = envelopes
        self.image = image
        self.takers = takers
        self.count = outcome
        self.ego = ego
        self.place = place
        self.is_reference = is_reference
        self.item: Future[Item] = Future()
        self.held_bytes = sum(part.held_bytes for envelope in envelopes for part in envelope.all_parts)
        self.writers = self.awaited = 0
        self.is_lacking = False
        self._results: dict[str, Result] = {}
        if image is None:
            self.item.set_result(make(None))
        else:
            image.add_done_callback(_Completion(make, self.item))

    def settle(self, writer: str, result: Result) -> bool:
        """Record its outcome at one writer; whether that was the last one."""
        self._results[writer] = result
        return len(self._results) == self.writers

    @property
    def outcome(self) -> Outcome:
        """Of a sample: whether any output has it, else why none has."""
        written = [result for result in self._results.values() if isinstance(result, Written)]
        if any(result.left_out is None for result in written):
            return SAMPLE
        if self.damage:
            return Outcome("unusable", self.damage)
        left_out = [result.left_out for result in written if result.left_out is not None]
        # That a format takes fewer says less about the sample than what it lacks.
        for each in sorted(left_out, key=lambda left: left.kind == "skipped"):
            return Outcome(each.kind, each.reason)
        errors = (result for result in self._results.values() if isinstance(result, BaseException))
        return Outcome("dropped", next(map(_reason, errors), ""))

    @property
    def is_in_all(self) -> bool:
        """Of a sample: whether every format has it; one that takes fewer on purpose does not count."""
        left_out = (r.left_out if isinstance(r, Written) else _FAILED for r in self._results.values())
        return not self.is_lacking and all(left is None or left.kind == "skipped" for left in left_out)

    @property
    def damage(self) -> str:
        """Why its picture cannot be decoded; empty if it can, has none, or that is not known yet."""
        if self.image is None or not self.image.done():
            return ""
        error = error_of(self.image)
        if error is None or isinstance(error, CancelledError):
            return "" if error is None else _reason(error)
        return _reason(refusal_of(_PICTURE, error, log=False))

    def close(self, ledger: Ledger) -> None:
        """Release its messages with the furthest stage that any writer reports."""
        for envelope in self.envelopes:
            topic, damage = envelope.topic, self.damage
            ends = [self._end(envelope, result, damage) for result in self._results.values()]
            stage, reason = max(ends, key=lambda end: (rank(*end), end[1] not in {NO_FILE, Reason.FORGOTTEN}))
            formats = [name for name, result in self._results.items() if _stores(result, topic)]
            if stage is not Stage.REFUSED:
                for part in self._refused_parts(topic):
                    ledger.refuse_part(topic, part)
            for each in envelope.all_parts:
                ledger.release(each.ticket, stage, reason, formats=formats)

    def _refused_parts(self, topic: str) -> Iterator[str]:
        for result in self._results.values():
            if isinstance(result, Written) and result.left_out is None:
                yield from (why for of, why in result.refused if of == topic and not isinstance(why, NoPlace))

    def _end(self, envelope: Envelope, result: Result, damage: str) -> tuple[Stage, str]:
        """How far a message came at one writer, and why no further."""
        if isinstance(result, Written):
            return _end_of_written(envelope, result)
        if damage and envelope is not self.envelopes[0]:
            return Stage.UNPAIRED, f"its frame was not usable: {damage}"
        return Stage.DROPPED, damage or _reason(result)


class Turn(Generic[Item]):
    """An item's way to one writer, see ``State``: in the writer's thread from ``READY`` on.

    Args:
        delivery: of the item.
        name: of the writer.
        pool: prepares what is not small.
        prepare: makes of the item what the writer takes.
        settled: called once with the delivery, the writer's name and the result.

    Attributes:
        state: where it is.
        size: of the item's messages in bytes.
        prepared: what the writer takes, or why there is nothing.
    """

    def __init__(
        self,
        delivery: Delivery[Item],
        name: str,
        pool: ThreadPoolExecutor,
        prepare: Callable[[Item], Any],
        settled: Callable[[Delivery[Item], str, Result], None],
    ) -> None:
        self.state = State.PICTURE
        self.size = delivery.held_bytes
        self._delivery: Delivery[Item] | None = delivery
        self._name = name
        self._make: Callable[[Item], Any] = prepare
        self._settled: Callable[[Delivery[Item], str, Result], None] = settled
        delivery.item.add_done_callback(self._made)
        # What is no larger, as of an IMU or a receiver, is prepared sooner than another thread takes it.
        is_small = delivery.image is None and self.size <= 512
        self.prepared = chain(None if is_small else pool, delivery.item, self._prepare)

    def _made(self, item: Future[Item]) -> None:
        self.state = State.PREPARING if error_of(item) is None else State.READY

    def _prepare(self, item: Item) -> Any:  # noqa: ANN401 - what the writer takes
        try:
            return self._make(item)
        finally:
            self.state = State.READY

    def hold(self, written: Future[Written]) -> None:
        """The writer keeps it until later ones have come."""
        self.state = State.HELD
        written.add_done_callback(self._released)

    def _released(self, written: Future[Written]) -> None:
        self.settle(error_of(written) or written.result())

    def settle(self, result: Result) -> None:
        """The writer is done with it."""
        self.state = State.SETTLED
        # The item's future keeps this turn, and the delivery that future.
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            self._settled(delivery, self._name, result)


class _Completion(Generic[Item]):
    """Makes the item of a picture that is there.

    Afterwards it holds neither: a future keeps its callbacks, and a message that of its picture, so that both
    would wait for the garbage collector, which does not know how many bytes they have.
    """

    def __init__(self, make: Callable[[CameraImage | None], Item], item: Future[Item]) -> None:
        self._waiting: tuple[Callable[[CameraImage | None], Item], Future[Item]] | None = make, item

    def __call__(self, image: Future[CameraImage]) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        make, item = waiting
        try:
            item.set_result(make(image.result()))
        except CancelledError as error:
            item.set_exception(error)
        except Exception as error:  # noqa: BLE001 - passed on to whoever asks for the item
            item.set_exception(refusal_of(_PICTURE, error))


def _end_of_written(envelope: Envelope, result: Written) -> tuple[Stage, str]:
    if _stores(result, envelope.topic):
        return Stage.WRITTEN, ""
    if result.left_out is not None:
        return _STAGES[result.left_out.kind], result.left_out.reason
    refused = [reason for topic, reason in result.refused if topic == envelope.topic]
    faults = [reason for reason in refused if not isinstance(reason, NoPlace)]
    if faults:
        return Stage.REFUSED, faults[0]
    if envelope.route.rule.role in CONTEXT_ROLES | EGO_ROLES:
        return Stage.DECODED, ""
    return Stage.DECODED, refused[0] if refused else Reason.FORGOTTEN


def _stores(result: Result, topic: str) -> bool:
    """Whether a writer has bytes of a topic's message."""
    return isinstance(result, Written) and result.stored.get(topic, 0) > 0


def _reason(error: BaseException) -> str:
    """Why something could not be written, for the ledger."""
    if isinstance(error, EdgeFirstError):
        return str(error)
    return f"could not be written: {type(error).__name__}"
