"""What comes before sequences: each message is decoded, dated and judged, and put in its place.

Which topic of a source is used for what, and which is the reference, as far as that is known.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from edgefirst_ros.config.hints import ExistingTopic, absences
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import (
    COMPANION_ROLES,
    EGO_ROLES,
    OF_PICTURES,
    TF,
    Route,
    TopicMap,
    camera_of,
    choose_reference,
    find_prefix,
    first_of_role,
    full_type,
    is_of_camera,
    motion_entries,
    placed,
    reference_role,
)
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.errors import ConfigError, DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, far_points
from edgefirst_ros.model.reasons import Finding, Reason
from edgefirst_ros.model.registry import decode
from edgefirst_ros.model.sample import Calibration, RawMessage, Role
from edgefirst_ros.model.transform import Transforms, frame_in_base
from edgefirst_ros.pipeline.duplicates import Duplicates
from edgefirst_ros.pipeline.envelope import Envelope, decoded_for, envelope_of, unwanted
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.pipeline.masks import Masks
from edgefirst_ros.pipeline.processes import Workers
from edgefirst_ros.pipeline.sequencer import Known, Sequencer
from edgefirst_ros.pipeline.session import Session, session_at
from edgefirst_ros.pipeline.transforms import TransformBuffer
from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes, TopicClock
from edgefirst_ros.video.headers import Content


class Routing:
    """The routes of one source's topics.

    Args:
        config: whole.
        notes: choices among several topics are appended to it, a sentence each.

    Attributes:
        reference: role of the reference and its topics, none while they are not known.
        routes: type as ``pkg/msg/Type`` and route, by topic and type of the messages that have come.
        choices: configured topics, by name, for which several topics of the source may fit.
        chosen: the route of the topic that samples take, by role; the same for the whole dataset.
        camera: the sensor whose pictures samples take.
        cameras: the other ones, whose pictures are samples of their own, by sensor.
        may_have_masks: whether a mask may come from the source.
        unusable: why nothing can be made of a topic, by topic, as far as that is known.
    """

    def __init__(self, config: Config, notes: list[str]) -> None:
        self._config = config
        self._notes = notes
        self._map = TopicMap(config, config.prefix or "")
        self.routes: dict[tuple[str, str], tuple[str, Route | None]] = {}
        self.choices = {name for name, rule in config.topics.items() if rule.is_choice}
        self._is_missed = False
        self._knows_topics = False
        self.may_have_masks = True
        self.unusable: Mapping[str, str] = {}
        self.chosen: dict[Role, Route] = {}
        self.cameras: dict[str, Route] = {}
        self._companions: dict[tuple[str, Role], Route] = {}
        """What samples of another camera take of a role, by sensor."""
        self._looked_at: set[str] = set()
        self._refer((Role.CAMERA, frozenset()))

    def begin(self, topics: Iterable[tuple[str, str]] | None) -> None:
        """A source starts, with its (topic, type) pairs if they are known.

        Else topics are learnt as they come, under the configured prefix, and the first fitting one is the
        reference.

        Raises:
            ConfigError: the prefix or the reference is ambiguous, or no topic could ever be the reference.
        """
        self.routes = {}
        self.may_have_masks = True
        self._knows_topics = topics is not None
        if topics is None:
            self._map = TopicMap(self._config, self._config.prefix or "")
            self._refer((reference_role(self._config), frozenset()))
            self._is_missed = False
            return
        pairs = list(topics)
        known = [topic for topic, _ in pairs]
        self._map = TopicMap(self._config, find_prefix(known, self._config), pairs)
        found = map(self._map.route, known)
        self.may_have_masks = any(route is not None and route.rule.role is Role.MASK for route in found)
        self._refer(choose_reference(self._config, known, self._map))
        self.chosen = {role: route for role, route in self.chosen.items() if route.topic in known}
        self.cameras = {name: route for name, route in self.cameras.items() if route.topic in known}
        self._companions = {k: route for k, route in self._companions.items() if route.topic in known}
        self._looked_at.clear()
        self._tell_choices()

    @property
    def is_settled(self) -> bool:
        """Whether no message changes any more which topic is used for what."""
        return bool(self.reference[1]) and (self._knows_topics or not self.choices)

    def tell(self, notes: list[str]) -> None:
        """Another session goes on: its notes take the choices made so far, and later ones."""
        self._notes = notes
        self._tell_choices()

    def route(self, topic: str, schema: str = "") -> tuple[str, Route | None]:
        """A message's type as ``pkg/msg/Type`` and its topic's route, None if nothing uses it."""
        if not schema:
            return "", self._map.route(topic)
        key = topic, schema
        if key not in self.routes:
            name = full_type(schema)
            self.routes[key] = name, self._map.route(topic, name)
        return self.routes[key]

    def choose(self, route: Route, heard: Collection[str], findings: Iterable[TopicClock]) -> str:
        """Choose among topics that fit, and the reference; the topic used instead of this one, or "".

        Args:
            route: of the topic.
            heard: topics of which a message has come.
            findings: clocks found so far; only a topic whose clock is known can become the reference.
        """
        if route.name in self.choices:
            if not self._map.has_chosen(route.name):
                self._map.choose((topic, "") for topic in heard)
                self.routes.clear()
                self._tell_choices()
            now = self._map.route(route.topic)
            if now is not None and now.replaced_by:
                return now.replaced_by
        if not self.reference[1]:
            self._look_for_reference(findings)
        return ""

    def used(self, topics: Iterable[str], heard: Collection[str]) -> tuple[list[str], list[str]]:
        """The configured topics, by name, that are among these and in use.

        First those that samples take, where they may, then those in whose place they take another one.
        """
        found = [route for topic in topics if (route := self._map.route(topic)) is not None]
        names: tuple[list[str], list[str]] = [], []
        for route in found:
            if not route.replaced_by:
                names[bool(self.instead(route, heard))].append(route.name)
        return names

    def instead(self, route: Route, heard: Collection[str]) -> str:
        """The topic that samples take for the role of this one, or "" if it is this one.

        Once it is known, it is the same for all samples: that of the reference's device, else the one whose
        entry comes first, of those that have sent when it is first needed.

        Args:
            route: of a topic.
            heard: topics of which a message has come.
        """
        role, (reference_role, references) = route.rule.role, self.reference
        if role not in COMPANION_ROLES or route.topic in references:
            return ""
        first = min(references, default="")
        if role is reference_role:
            return first
        if owner := self._owner(route, heard):
            return owner
        if role not in self.chosen:
            rivals = [each for each in self._heard(role, heard) if not self._owner(each, heard)]
            reference = self._map.route(first) if first else None
            rule = None if reference is None else reference.rule
            self.chosen[role] = first_of_role(self._config, [route, *rivals], first, rule)
        chosen = self.chosen[role]
        is_tile = bool(route.rule.tile and chosen.rule.tile)  # of the same picture
        return "" if is_tile or route.name == chosen.name else chosen.topic

    def cameras_of(
        self, route: Route, heard: Collection[str], apart_m: Callable[[Route, Route], float]
    ) -> frozenset[str]:
        """The other cameras whose samples take messages of a topic, by sensor; none for most topics.

        Args:
            route: of the topic.
            heard: topics of which a message has come.
            apart_m: the distance between two topics' sensors.
        """
        role = route.rule.role
        if role not in COMPANION_ROLES or route.topic in self.reference[1]:
            return frozenset()
        self._look_for_cameras(heard)
        if not self.cameras:
            return frozenset()
        if role is Role.CAMERA:
            own = self.cameras.get(route.sensor)
            return frozenset(() if own is None or self._is_other_picture(route, own) else (route.sensor,))
        return frozenset(
            sensor
            for sensor, camera in self.cameras.items()
            if self._companion(sensor, camera, route, heard, apart_m) == route.name
        )

    def is_second(self, route: Route) -> bool:
        """Whether a topic has pictures of a camera beside the reference of which another topic has them."""
        own = self.cameras.get(route.sensor)
        return own is not None and self._is_other_picture(route, own)

    def _is_other_picture(self, route: Route, own: Route) -> bool:
        return route.topic != own.topic and not (route.rule.tile and own.rule.tile)

    def _companion(
        self,
        sensor: str,
        camera: Route,
        route: Route,
        heard: Collection[str],
        apart_m: Callable[[Route, Route], float],
    ) -> str:
        """The entry of a topic's role that a camera's samples take; empty if there is none."""
        role = route.rule.role
        if role in OF_PICTURES and self._owner(route, heard) != camera.topic:
            return ""
        if (sensor, role) not in self._companions:
            rivals = [
                each for each in self._heard(role, heard) if self._owner(each, heard) in ("", camera.topic)
            ]
            found = [route, *rivals]
            if role in OF_PICTURES:
                found = [each for each in found if self._owner(each, heard)]
            apart = partial(apart_m, camera)
            chosen = first_of_role(self._config, found, camera.topic, camera.rule, apart)
            self._companions[sensor, role] = chosen
        return self._companions[sensor, role].name

    def _owner(self, route: Route, heard: Collection[str]) -> str:
        """The camera beside the reference whose pictures a topic is of, by its topic; "" if it is of none."""
        if route.rule.role not in OF_PICTURES:
            return ""
        self._look_for_cameras(heard)
        if not self.cameras:
            return ""
        references = filter(None, map(self._map.route, sorted(self.reference[1])[:1]))
        all_cameras = [*references, *self.cameras.values()]
        for camera in self.cameras.values():
            others = [each for each in all_cameras if each is not camera]
            if is_of_camera(route, camera, others):
                return camera.topic
        return ""

    def _heard(self, role: Role, heard: Collection[str]) -> list[Route]:
        """Routes of a role that have sent, in order of their topics."""
        routes = (each for topic in sorted(heard) if (each := self._map.route(topic)) is not None)
        return [each for each in routes if each.rule.role is role and not each.replaced_by]

    def _look_for_cameras(self, heard: Collection[str]) -> None:
        """Know of cameras beside the reference as soon as they have sent, each by its first topic."""
        role, references = self.reference
        if role is not Role.CAMERA or not references or len(self._looked_at) == len(heard):
            return
        self._looked_at = set(heard)
        order = list(self._config.topics)
        for route in sorted(self._heard(role, heard), key=lambda each: order.index(each.name)):
            if route.sensor != self.camera and route.topic not in references:
                self.cameras.setdefault(route.sensor, route)

    def absences(
        self, topics: Mapping[str, Mapping[str, Any]], around: Collection[ExistingTopic], *, known: bool
    ) -> list[Finding]:
        """What is configured and did not come; see ``hints.absences``."""
        return absences(self._config, self._map, topics, around, known=known)

    def _refer(self, reference: tuple[Role, frozenset[str]]) -> None:
        """Samples begin with this role and these topics, and take the camera that goes with them."""
        self.reference = reference
        self._looked_at = set()
        self.camera = camera_of(self._config, reference[1], self._map)
        self.cameras.pop(self.camera, None)

    def _tell_choices(self) -> None:
        self._notes += [note for note in self._map.notes if note not in self._notes]

    def _look_for_reference(self, findings: Iterable[TopicClock]) -> None:
        """A live reference may come later than the others; a sequence under way takes it up then."""
        try:
            self._refer(choose_reference(self._config, [f.topic for f in findings], self._map))
        except ConfigError as error:
            if not self._is_missed:
                self._is_missed = True
                self._notes.append(f"{error} (so far)")


TOGETHER, TOGETHER_BYTES = 64, 4 << 20
"""Messages that are fed together: with more nothing is gained. Many large ones would take much memory."""
STALE_NS = 2_000_000_000
"""No session begins where times leap by more than this."""


def is_batch(raws: Sequence[RawMessage]) -> bool:
    """Whether these messages are enough to be fed together."""
    return len(raws) >= TOGETHER or (
        len(raws[-1].data) > TOGETHER_BYTES // TOGETHER and sum(len(r.data) for r in raws) > TOGETHER_BYTES
    )


class Intake:
    """Messages of one source after another, for one session, and from a time on for another one.

    A message that is never dated is counted by the newest session, any other by that to whose times it
    belongs.

    Args:
        config: whole.
        session: the first.
        workers: decode and encode.

    Attributes:
        sessions: those that take messages, in order of time.
        routing: of the source.
        heard: its topics of which a message has come.
        sequencer: takes them at their times.
    """

    def __init__(self, config: Config, session: Session, workers: Workers) -> None:
        self._config = config
        self._moving = motion_entries(config)
        self._workers = workers
        self.sessions = [session]
        self.routing = Routing(config, session.notes)
        self.sequencer = Sequencer(config, workers, self.sessions, self._known, self._tell)
        self._duplicates = Duplicates()
        self._masks = Masks(config, self._tell)
        self._restart(())

    def begin(
        self,
        topics: Iterable[tuple[str, str]] | None,
        motions: Iterable[Motion],
        known: Calibration | None,
    ) -> None:
        """A source begins; see ``Routing.begin``, also for what it raises, and ``Pipeline.begin_source``."""
        self.routing.begin(topics)
        self._restart(motions)
        self.sequencer.known = known
        if known is not None:
            self._transforms.begin(known.transforms)

    def _restart(self, motions: Iterable[Motion]) -> None:
        self._clock: ClockFinder[Envelope] = ClockFinder(tell=self._tell)
        self._motions = deque(motions)
        self.heard: set[str] = set()
        self._frames: dict[str, str] = {}
        """By topic."""
        self._transforms = TransformBuffer(self._config.rig_frame, placed(self._config))
        self._beside: dict[str, Route] = {}
        self._has_odometer = False
        self._newest_ns = 0
        self._waiting: list[Envelope] = []

    def join(self, session: Session, time_ns: int) -> None:
        """What is acquired from a time on is of another session; those before stay until they ``leave``."""
        self.sessions[-1].end_ns = time_ns
        self.sessions.append(session)
        for ticket in self._masks.waiting:
            session.ledger.take(ticket)
        self.routing.tell(session.notes)

    def leave(self, reason: str) -> None:
        """The sessions before the newest need no message any more."""
        for session in self.sessions[:-1]:
            self.sequencer.leave(session, reason)

    def end(self, reason: str) -> None:
        """The source ends: everything held leaves."""
        self._timed(self._clock.flush())
        self._feed(self._masks.flush())
        self._pass_on()
        self.sequencer.end(reason)
        self._forget()

    def abort(self, session: Session) -> None:
        """A session ends at once; with the last one the decoders do."""
        if self.sessions == [session]:
            self.sequencer.abort()
        elif session in self.sessions:
            self.sessions.remove(session)

    def _tell(self, text: str) -> None:
        for session in self.sessions:
            session.notes.append(text)

    def _known(self) -> Known:
        findings, routing = tuple(self._clock.findings), self.routing
        expected, left_out = routing.used((finding.topic for finding in findings), self.heard)
        motion = self._motions[0] if self._motions else None
        chosen = routing.reference, routing.camera
        return Known(*chosen, expected, left_out, findings, self._transforms, motion)

    def seam_ns(self, message: RawMessage | None) -> int | None:
        """Acquisition time at which another session can follow without loss, before this message.

        None if none can, because clocks are not known yet or may just have been stepped. Before a video
        packet it is the packet's own time, else later than everything received.
        """
        run = self.sequencer.current
        if run is None or not self._clock.is_settled:
            return None
        newest_ns = max(self._newest_ns + 1, run.next_ns)
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
        return None if time_ns is None or abs(time_ns - newest_ns) > STALE_NS else max(time_ns, run.next_ns)

    def feed(self, raws: Sequence[RawMessage]) -> None:
        """Take messages in order of arrival; what becomes of them is the same one by one.

        But that takes longer, because code is fast that has just run: a step is done for all of them before
        the next one.

        Raises:
            WriteError: or whatever made a writer fail.
        """
        if len(raws) > 1 and not self.routing.is_settled:
            for raw in raws:
                self.feed((raw,))
            return
        opened = [self._opened(raw) for raw in raws]
        for envelope in opened:
            if envelope is not None:
                self._take(envelope)
        self._pass_on()
        for session in self.sessions:
            session.fanout.raise_failure()
        self._workers.raise_failure()

    def _opened(self, raw: RawMessage) -> Envelope | None:
        """A message, received and decoded; None if that is all that becomes of it."""
        session, routing = self.sessions[-1], self.routing
        ledger = session.ledger
        known = routing.routes.get((raw.topic, raw.schema))
        schema, route = known or routing.route(raw.topic, raw.schema)
        is_counted = route is not None or raw.topic in routing.unusable
        topic = raw.topic if is_counted else ledger.unused(raw.topic)
        ticket = ledger.receive(topic, schema, len(raw.data), raw.receive_ns)
        session.received(raw.receive_ns)
        refusal = unwanted(raw, schema, route, routing.unusable)
        if refusal is not None or route is None:
            ledger.release(ticket, *(refusal or (Stage.SKIPPED, Reason.UNUSED)), unplaced=True)
            return None
        rule = route.rule
        try:
            decoded = decoded_for(rule, raw, self._config.class_names)
        except DecodeError as error:
            ledger.release(ticket, Stage.REFUSED, str(error), unplaced=True)
            return None
        if isinstance(decoded.datum, Transforms):
            route = self._of_transforms(route)
        return envelope_of(raw, decoded, ticket, route)

    def _of_transforms(self, route: Route) -> Route:
        """The route of a topic's transforms, of which others may be odometry: those of sensors are not."""
        if route.rule.role is not Role.ODOMETRY:
            return route
        rule = route.rule.model_copy(update={"role": Role.TF})
        return self._beside.setdefault(route.topic, replace(route, rule=rule))

    def _take(self, envelope: Envelope) -> None:
        """Judge and date a message.

        Before anything changes that what was dated depends on, that is passed on.
        """
        route, ticket = envelope.route, envelope.ticket
        self._hear(envelope)
        repeat = self._duplicates.received(route, envelope.receive_ns, envelope.digest)
        if repeat is not None:
            ticket.ledger.release(ticket, Stage.REFUSED, repeat.reason)
            return
        datum = envelope.decoded.datum
        if isinstance(datum, PointCloud) and (fault := far_points(datum)):
            ticket.ledger.refuse_part(envelope.topic, fault)
        self._timed(self._clock.feed(envelope))

    def _hear(self, envelope: Envelope) -> None:
        """Note what topics there are, and where their sensors are, as they come."""
        route, (_, frame, datum) = envelope.route, envelope.decoded
        role = route.rule.role
        if role is Role.ODOMETRY and envelope.ticket.schema != TF:
            self._has_odometer = True
        transforms = datum.transforms if isinstance(datum, Transforms) else getattr(datum, "beside", ())
        if unheard := self._transforms.unheard(transforms):
            self._pass_on()
            self._transforms.hear(unheard)
        if route.topic not in self.heard:
            self._pass_on()
            self.heard.add(route.topic)
            self._frames[route.topic] = route.frame or frame
            self._clock.rule(route.topic, route.rule.times)

    def _forget(self) -> None:
        """A sequence has ended: what follows may be on other clocks, at the same times."""
        self._clock.findings = []
        self._duplicates.forget()

    def _timed(self, events: Iterable[Envelope | Boundary]) -> None:
        # Where more follows from a message than its own time, it may follow between two events.
        is_plain = isinstance(events, tuple)
        if not is_plain:
            self._pass_on()
        for event in events:
            if isinstance(event, Boundary):
                self._broke(event.reason)
                continue
            ticket = event.ticket
            if event.refusal is not None:
                ticket.ledger.release(ticket, Stage.REFUSED, event.refusal, unplaced=True)
            else:
                self._dated(event)
            if not is_plain:
                self._pass_on()

    def _broke(self, reason: str) -> None:
        """The time base broke: what follows is another sequence, and of the newest session."""
        self._feed(self._masks.flush())
        self._pass_on()
        self._tell(f"new sequence: {reason}")
        self.sequencer.end(reason)
        if self._motions:
            self._motions.popleft()
        self._forget()
        self._newest_ns = 0

    def _dated(self, envelope: Envelope) -> None:
        """Place a message at its time, where it belongs to one session."""
        end = self._end(envelope)
        session = session_at(self.sessions, envelope.time_ns)
        if end is not None or session.cut:
            session.ledger.take(envelope.ticket)
            stage, reason = end or (Stage.DROPPED, session.cut)
            session.ledger.release(envelope.ticket, stage, reason, unplaced=end is None)
            return
        self._newest_ns = max(self._newest_ns, envelope.time_ns)
        self._feed(self._masks.feed(envelope) if self.routing.may_have_masks else (envelope,))

    def _feed(self, envelopes: Iterable[Envelope]) -> None:
        self._waiting += envelopes
        if self.sequencer.current is None or len(self.sessions) > 1:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give the sequencer what has been dated."""
        dated, self._waiting = self._waiting, []
        if dated:
            self.sequencer.feed(dated)

    def _end(self, envelope: Envelope) -> tuple[Stage, str] | None:
        """Place a message at its time; how it ends if it goes no further: unused, or a repetition."""
        time_ns = envelope.time_ns
        envelope.place(time_ns)
        unused = self._unused(envelope)
        if unused:
            return Stage.SKIPPED, unused
        self._frames[envelope.topic] = envelope.measurement.frame_id
        envelope.instead = self.routing.instead(envelope.route, self.heard)
        envelope.cameras = self.routing.cameras_of(envelope.route, self.heard, self._apart_m)
        stamped = True
        for finding in reversed(self._clock.findings):
            if finding.topic == envelope.topic:
                stamped = finding.group is not None
                break
        repeat = self._duplicates.timed(envelope, stamped=stamped)
        if repeat is not None:
            datum = envelope.decoded.datum
            if repeat.number and isinstance(datum, PointCloud):
                envelope.content = Content.PART
                return None
            if not (repeat.number and isinstance(datum, VideoPacket)):
                return Stage.REFUSED, repeat.reason
            # Pictures after it are built on it all the same, so the decoder gets it, at a time of its own.
            envelope.unshown = Stage.REFUSED, repeat.reason
            envelope.place(time_ns + repeat.number)
        return None

    def _apart_m(self, one: Route, other: Route) -> float:
        """The distance between two topics' sensors; infinite while it is not known."""
        self._pass_on()
        transforms = self._transforms.newest
        frames = (self._frames.get(each.topic) for each in (one, other))
        poses = [None if f is None else frame_in_base(transforms, f, self._config.rig_frame) for f in frames]
        a, b = (None if pose is None else pose[:3, 3] for pose in poses)
        return math.inf if a is None or b is None else float(np.linalg.norm(a - b))

    def _unused(self, envelope: Envelope) -> str:
        """Why a topic is not used, now that others are known; empty if it is."""
        route, routing = envelope.route, self.routing
        if route.name in routing.choices or not routing.reference[1]:
            self._pass_on()
            before = routing.reference
            instead = routing.choose(route, self.heard, self._clock.findings)
            if routing.reference is not before and self.sequencer.current is not None:
                self.sequencer.current.refer_to(routing.reference[1], routing.camera)
            if instead:
                return f"topics.{route.name} takes {instead}"
        role, topics = routing.reference
        if role is Role.CAMERA is route.rule.role and topics and route.topic not in topics:
            is_same = route.sensor == routing.camera
            takes_others = self._config.samples_all_cameras or any(s.fanout.observes for s in self.sessions)
            if is_same or not takes_others:
                return "another camera topic is the reference"
            if routing.is_second(route):
                return "another topic has the pictures of this camera"
        if route.rule.role in EGO_ROLES and route.name not in self._moving:
            return "the motion is that of another device"
        if self._has_odometer and route.rule.role is Role.ODOMETRY and envelope.ticket.schema == TF:
            return "another topic sends odometry messages"
        return ""
