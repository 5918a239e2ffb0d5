"""What comes before sessions: each message is decoded, dated and judged once, and given to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.messages.pointcloud import TOO_FAR, PointCloud, has_far_points
from edgefirst_ros.messages.reasons import Reason
from edgefirst_ros.messages.registry import decode
from edgefirst_ros.pipeline.duplicates import Duplicates
from edgefirst_ros.pipeline.envelope import Envelope, decoded_for, envelope_of, unwanted
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.pipeline.publishers import Publishers
from edgefirst_ros.pipeline.routing import Routing
from edgefirst_ros.pipeline.seam import STALE_NS, RecentMessages
from edgefirst_ros.sample import Role
from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import Finding, MessageTimes
from edgefirst_ros.topics import TF

if TYPE_CHECKING:
    from edgefirst_ros.pipeline.assembly import Pipeline


class Intake:
    """Messages of one source after another, for one session, or for two while the one before a seam ends.

    A message that is never dated is counted by the newest session, any other by that to whose times it
    belongs.

    Args:
        config: whole.
        session: the first that takes messages.

    Attributes:
        sessions: those that take messages, the newest last.
        routing: of the source.
        heard: its topics of which a message has come.
        recent: what a following session may need; None where topics are known beforehand, as none follows.
        publishers: of every topic, whether it has several.
    """

    def __init__(self, config: Config, session: Pipeline) -> None:
        self._config = config
        self.sessions = [session]
        self.routing = Routing(config, session.notes)
        self.publishers = Publishers()
        self._duplicates = Duplicates()
        self._restart(None)

    def begin(self, topics: Iterable[tuple[str, str]] | None) -> None:
        """A source begins; see ``Routing.begin``, also for what it raises."""
        self.routing.begin(topics)
        self._restart(RecentMessages(self._config) if topics is None else None)

    def _restart(self, recent: RecentMessages | None) -> None:
        window_ns = round(self._config.clock_window_s * 1e9)
        self._clock: ClockFinder[Envelope] = ClockFinder(window_ns, tell=self._tell)
        self.heard: set[str] = set()
        self._has_odometer = False
        self.recent = recent

    def pass_seam(self) -> None:
        """No message of a session before the newest can come any more."""
        for session in self.sessions[:-1]:
            session.leave()

    def _tell(self, text: str) -> None:
        for session in self.sessions:
            session.notes.append(text)

    def join(self, session: Pipeline) -> None:
        """Another session goes on after a seam; those before take messages until they ``leave``."""
        self.sessions.append(session)
        self.routing.tell(session.notes)
        self.publishers.begin()

    def leave(self, session: Pipeline) -> None:
        """A session needs no message any more."""
        if session in self.sessions and len(self.sessions) > 1:
            self.sessions.remove(session)

    @property
    def findings(self) -> list[Finding]:
        """The clocks that are known."""
        return self._clock.findings

    def seam_ns(self, message: RawMessage | None) -> int | None:
        """Acquisition time at which another session can follow without loss, before this message.

        None if none can, because clocks are not known yet or may just have been stepped. Before a video
        packet it is the packet's own time, else later than everything received.
        """
        if self.recent is None or not self._clock.is_settled:
            return None
        newest_ns = self.recent.newest_ns + 1
        route = None if message is None else self.routing.route(message.topic)[1]
        if message is None or route is None or route.rule.role is not Role.CAMERA:
            return newest_ns
        try:
            decoded = decode(message)
        except DecodeError:
            return newest_ns
        if not isinstance(decoded.datum, VideoPacket):
            return newest_ns
        times = MessageTimes(message.topic, decoded.stamp_ns, message.publish_ns, message.receive_ns)
        time_ns = self._clock.time_ns(times)
        # Out of line with what came before it is the first that tells of a step.
        return None if time_ns is None or abs(time_ns - newest_ns) > STALE_NS else time_ns

    def feed(self, raw: RawMessage) -> None:
        """Take one message in order of arrival.

        Raises:
            WriteError: or whatever made a writer fail.
        """
        session, routing = self.sessions[-1], self.routing
        ledger = session.ledger
        known = routing.routes.get((raw.topic, raw.schema))
        schema, route = known or routing.route(raw.topic, raw.schema)
        topic = raw.topic if route is not None else ledger.unused(raw.topic)
        ticket = ledger.receive(topic, schema, len(raw.data), raw.receive_ns)
        session.received(raw.receive_ns)
        refusal = unwanted(raw, schema, route)
        if refusal is not None or route is None:
            ledger.release(ticket, *(refusal or (Stage.SKIPPED, Reason.UNUSED)), unplaced=True)
            return
        rule = route.rule
        try:
            decoded = decoded_for(rule, raw)
        except DecodeError as error:
            ledger.release(ticket, Stage.REFUSED, str(error), unplaced=True)
            return
        if decoded is None:
            frames = f"from {rule.parent_frame} to {rule.child_frame}"
            reason = f"no transform {frames} (parent_frame, child_frame)"
            ledger.release(ticket, Stage.SKIPPED, reason, unplaced=True)
            return
        if rule.role is Role.ODOMETRY and schema != TF:
            self._has_odometer = True
        if raw.topic not in self.heard:
            self.heard.add(raw.topic)
            self._clock.rule(raw.topic, rule.times)
        envelope = envelope_of(raw, decoded, ticket, route)
        repeat = self._duplicates.received(route, raw.receive_ns, envelope.digest)
        if repeat is not None:
            ledger.release(ticket, Stage.REFUSED, repeat.reason)
            return
        self.publishers.see(envelope)
        if envelope.is_of_other:
            ledger.release(ticket, Stage.REFUSED, Reason.OTHER_PUBLISHER)
            return
        if isinstance(decoded.datum, PointCloud) and has_far_points(decoded.datum):
            ledger.refuse_part(raw.topic, TOO_FAR)
        self._timed(self._clock.feed(envelope))
        for session in self.sessions:
            session.raise_failure()

    def flush(self) -> None:
        """The source ends: what waits for a clock leaves."""
        self._timed(self._clock.flush())

    def forget(self) -> None:
        """A sequence has ended: what follows may be on other clocks, at the same times."""
        self._clock.findings = []
        self._duplicates.forget()

    def _timed(self, events: Iterable[Envelope | Boundary]) -> None:
        for event in events:
            if isinstance(event, Boundary):
                for session in self.sessions:
                    session.broke(event.reason)
                self.forget()
                if self.recent is not None:
                    self.recent.clear()
            elif event.is_of_other:
                self.sessions[-1].ledger.release(event.ticket, Stage.REFUSED, Reason.OTHER_PUBLISHER)
            elif event.refusal is not None:
                ledger = self.sessions[-1].ledger
                ledger.release(event.ticket, Stage.REFUSED, event.refusal, unplaced=True)
            else:
                self._dated(event)

    def _dated(self, envelope: Envelope) -> None:
        """Place a message at its time, and give it to every session."""
        end = self._end(envelope)
        if self.recent is not None and end is None:
            self.recent.add(envelope)
        for session in self.sessions[:-1]:
            old = envelope.ticket
            ticket = session.ledger.receive(old.topic, old.schema, old.size, old.receive_ns, own=False)
            session.take(envelope.fresh(ticket), end)
        self.sessions[-1].take(envelope, end)

    def _end(self, envelope: Envelope) -> tuple[Stage, str] | None:
        """Place a message at its time; how it ends if it goes no further: unused, or a repetition."""
        time_ns = envelope.time_ns
        envelope.place(time_ns)
        unused = self._unused(envelope)
        if unused:
            return Stage.SKIPPED, unused
        envelope.instead = self.routing.instead(envelope.route, self.heard)
        stamped = True
        for finding in reversed(self._clock.findings):
            if finding.topic == envelope.topic:
                stamped = finding.group is not None
                break
        repeat = self._duplicates.timed(envelope, stamped=stamped)
        if repeat is not None:
            if not (repeat.number and isinstance(envelope.decoded.datum, VideoPacket)):
                return Stage.REFUSED, repeat.reason
            # Pictures after it are built on it all the same, so the decoder gets it, at a time of its own.
            envelope.unshown = Stage.REFUSED, repeat.reason
            envelope.place(time_ns + repeat.number)
        return None

    def _unused(self, envelope: Envelope) -> str:
        """Why a topic is not used, now that others are known; empty if it is."""
        route, routing = envelope.route, self.routing
        if route.name in routing.choices or not routing.reference[1]:
            before = routing.reference
            instead = routing.choose(route, self.heard, self._clock.findings)
            if routing.reference is not before:
                for session in self.sessions:
                    session.refer(routing.reference[1])
            if instead:
                return f"topics.{route.name} takes {instead}"
        role, topics = routing.reference
        if role is Role.CAMERA is route.rule.role and topics and route.topic not in topics:
            return "another camera topic is the reference"
        if self._has_odometer and route.rule.role is Role.ODOMETRY and envelope.ticket.schema == TF:
            return "another topic sends odometry messages"
        return ""
