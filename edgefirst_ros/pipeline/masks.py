"""Gives masks, which have no stamp, the time of the picture that they were computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.detection import Mask
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Measurement, Role
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.ledger import Stage, Ticket
from edgefirst_ros.pipeline.sequence import reorder_window_ns
from edgefirst_ros.timing.inference import MaskTimes

HOLD_NS = 300_000_000
REPEATED_NS = 10_000_000


class Masks:
    """Holds masks until later ones show which picture each belongs to; everything else passes.

    A mask that has a stamp, or whose ``clock`` is configured, keeps its time. One whose picture stays
    uncertain is unpaired, because labels of a neighbouring frame are wrong labels.

    Args:
        config: whole.
        tell: called once for each topic, with a sentence on what its times are based on.
    """

    def __init__(self, config: Config, tell: Callable[[str], None]) -> None:
        self._config = config
        self._tell = tell
        # Held longer they would miss their place in the order of time.
        self._hold_ns = min(HOLD_NS, reorder_window_ns(config) // 2)
        self._told: set[str] = set()
        self._newest: dict[str, Measurement] = {}
        self._times = self._none_seen()

    def feed(self, envelope: Envelope) -> Iterator[Envelope]:
        """Take an envelope in order of arrival; it, and masks that have waited long enough."""
        rule, measurement = envelope.route.rule, envelope.measurement
        for times in self._times.values():
            yield from self._dated(times, measurement.receive_ns)
        if rule.role is Role.MASK and not measurement.stamp_ns and rule.clock == "auto":
            times = self._times[envelope.route.name]
            times.mask(envelope, measurement.receive_ns, is_alike=self._is_like_the_last(envelope))
            return
        for times in self._times.values():
            if rule.role is Role.CAMERA and not envelope.instead:
                times.picture(envelope.time_ns)
            elif rule.role is Role.MODEL:
                times.output(envelope.time_ns, measurement.receive_ns)
        yield envelope

    def flush(self) -> Iterator[Envelope]:
        """The sequence ends: all masks that wait. Later ones are judged independently."""
        for times in self._times.values():
            yield from self._dated(times, None)
        self._times = self._none_seen()

    @property
    def waiting(self) -> Iterator[Ticket]:
        """Of the masks that are held."""
        return (envelope.ticket for times in self._times.values() for envelope in times.held)

    def _is_like_the_last(self, envelope: Envelope) -> bool:
        """Whether it may be the same mask again: no model is so fast, but what waited comes at once."""
        before, this = self._newest.get(envelope.route.topic), envelope.measurement
        self._newest[envelope.route.topic] = this
        if before is None or this.receive_ns - before.receive_ns > REPEATED_NS:
            return False
        one, other = before.datum, this.datum
        return (
            isinstance(one, Mask) and isinstance(other, Mask) and bool(np.array_equal(one.mask, other.mask))
        )

    def _none_seen(self) -> dict[str, MaskTimes[Envelope]]:
        """By configured topic."""
        rules = [(n, r) for n, r in self._config.topics.items() if r.topic]
        model_ns = next((r.times.latency_ns for _, r in rules if r.role is Role.MODEL), None)
        found: dict[str, MaskTimes[Envelope]] = {}
        for name, rule in rules:
            if rule.role is Role.MASK:
                usual_ns = rule.times.latency_ns or 0
                found[name] = MaskTimes(
                    self._hold_ns, usual_ns, 0 if model_ns is None else usual_ns - model_ns
                )
        return found

    def _dated(self, times: MaskTimes[Envelope], now_ns: int | None) -> Iterator[Envelope]:
        for envelope, time_ns in times.due(now_ns):
            self._explain(envelope, times)
            ticket = envelope.ticket
            if time_ns == "repeated":
                ticket.ledger.release(ticket, Stage.REFUSED, Reason.SAME_MASK)
            elif time_ns == "uncertain":
                ticket.ledger.release(ticket, Stage.UNPAIRED, Reason.UNSURE_MASK, unplaced=True)
            if isinstance(time_ns, str):
                continue
            envelope.place(time_ns + envelope.route.rule.times.offset_ns)
            yield envelope

    def _explain(self, envelope: Envelope, times: MaskTimes[Envelope]) -> None:
        if envelope.route.topic in self._told:
            return
        self._told.add(envelope.route.topic)
        if times.has_outputs:
            why = "masks have no stamp, so each takes that of the model output it came with"
        else:
            name, usual_ms = envelope.route.name, envelope.route.rule.latency_ms or 0.0
            why = (
                f"masks have no stamp, and no model output shows their latency: {usual_ms:g} ms is "
                f"assumed; if the model takes longer or shorter, set topics.{name}.latency_ms"
            )
        self._tell(f"{envelope.route.topic}: {why}")
