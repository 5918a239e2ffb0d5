"""Reads a recording for the rig's motion before it is converted, since smoothing needs all of it.

Only IMU, GPS and odometry say where the rig was; but the clock of their stamps is found from all topics, and
so are its steps. Of the others therefore the times are read, for which the beginning of a message is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import (
    TF,
    Route,
    TopicMap,
    find_prefix,
    full_type,
    motion_entries,
    rig_from_imu,
)
from edgefirst_ros.ego.motion import Motion, solve
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.model.cdr import leading_stamp_ns
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.navigation import Imu, NavSatFix, Odometry
from edgefirst_ros.model.sample import Datum, RawMessage, Role
from edgefirst_ros.pipeline.context import vehicle_of
from edgefirst_ros.pipeline.duplicates import Duplicates
from edgefirst_ros.pipeline.envelope import decoded_for, digest_of, unwanted
from edgefirst_ros.sources.order import BEGINNING
from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes

SENSES = frozenset({Role.GPS, Role.IMU})


@dataclass(slots=True, eq=False)
class _MotionMessage(MessageTimes):
    """A message's times, its number, and its IMU or GPS datum, None if it has none."""

    arrival: int
    datum: Datum | None


@dataclass(slots=True, eq=False)
class _Topic:
    """Messages of one type on one topic.

    Attributes:
        route: None if they are of no use.
        is_sense: whether the motion is found from them.
        leads: whether all of them could be decoded so far, and began with their stamp.
        skimmed: whether their beginning is enough, as their clock is known.
    """

    route: Route | None
    is_sense: bool
    leads: bool = True
    skimmed: bool = False


def wants_survey(config: Config, topics: Iterable[tuple[str, str]], *, streams: bool) -> bool:
    """Whether a recording of these topics has to be read for its motion first.

    Args:
        config: the conversion's configuration.
        topics: the recording's topics and types.
        streams: the recording is read in real time, as if it were live.
    """
    chosen = config.ego.smoothing
    if chosen == "lag" or (chosen == "auto" and streams):
        return False
    known = list(topics)
    names = [topic for topic, _ in known]
    routes = TopicMap(config, find_prefix(names, config), known)
    found = [route for route in map(routes.route, names) if route is not None and not route.replaced_by]
    return any(route.rule.role in SENSES for route in found)


class MotionSurvey:
    """Finds the rig's motion between clock breaks from a recording's messages.

    Clocks are determined exactly as in the conversion, from the same messages. Of a topic whose clock is
    known, only the stamps are read, unless some of its messages cannot be decoded or do not begin with a
    stamp; but for IMU, GPS and odometry, and while the clocks are in doubt.

    Args:
        config: the conversion's configuration.
        topics: the recording's topics and types.
        proceed: called now and then; if it returns False, the result is incomplete.
    """

    def __init__(
        self, config: Config, topics: Iterable[tuple[str, str]], proceed: Callable[[], bool] = lambda: True
    ) -> None:
        self._config = config
        self._proceed = proceed
        known = list(topics)
        self._routes = TopicMap(config, find_prefix([topic for topic, _ in known], config), known)
        routed = ((self._routes.route(topic), full_type(schema)) for topic, schema in known)
        self._has_odometer = any(
            route is not None and route.rule.role is Role.ODOMETRY and schema != TF
            for route, schema in routed
        )
        self._topics: dict[tuple[str, str], _Topic] = {}
        self._clock: ClockFinder[_MotionMessage] = ClockFinder()
        self._moving = motion_entries(config)
        self._ruled: set[str] = set()
        self._duplicates = Duplicates()
        self._log = NavigationLog()
        self._found: list[Motion] = []

    def needs(self, topic: str, schema: str) -> bool:
        """Whether the next message must come in full; else its first ``BEGINNING`` bytes are enough."""
        known = self._topics.get((topic, schema))
        return known is None or not known.skimmed or not (known.route is None or self._clock.is_settled)

    def feed(self, raw: RawMessage) -> None:
        """Add one message, in full if it is needed so; call in order of receipt."""
        known = self._topics.get((raw.topic, raw.schema)) or self._new_topic(raw)
        route = known.route
        if route is None or raw.fault:
            return
        datum: Datum | None = None
        stamp_ns = None if self.needs(raw.topic, raw.schema) else leading_stamp_ns(raw.data)
        # Of one time of receipt, messages differ in their beginnings, which hold stamp and sizes.
        digest = digest_of(raw, None if stamp_ns is None else BEGINNING)
        if stamp_ns is None:
            try:
                decoded = decoded_for(route.rule, raw)
            except DecodeError:
                known.leads = known.skimmed = False
                return
            stamp_ns = decoded.stamp_ns
            if known.is_sense:
                datum = decoded.datum
            elif known.leads:
                known.leads = leading_stamp_ns(raw.data) == stamp_ns
        if raw.topic not in self._ruled:
            self._ruled.add(raw.topic)
            self._clock.rule(raw.topic, route.rule.times)
        if self._duplicates.received(route, raw.receive_ns, digest) is not None:
            return
        told = datum if route.name in self._moving else None
        times = raw.topic, stamp_ns, raw.publish_ns, raw.receive_ns
        message = _MotionMessage(*times, raw.arrival, told)
        message.held_bytes = len(raw.data)
        self._timed(self._clock.feed(message))
        if known.leads and not (known.skimmed or known.is_sense):
            known.skimmed = self._clock.time_ns(message) is not None

    def _new_topic(self, raw: RawMessage) -> _Topic:
        schema = full_type(raw.schema)
        route = self._routes.route(raw.topic, schema)
        if unwanted(raw._replace(fault=""), schema, route) is not None:
            route = None
        is_sense = route is not None and (
            route.rule.role in SENSES
            # Transforms tell of odometry where no topic sends odometry messages.
            or (route.rule.role is Role.ODOMETRY and (schema != TF or not self._has_odometer))
        )
        known = _Topic(route, is_sense, skimmed=route is None)
        self._topics[raw.topic, raw.schema] = known
        return known

    def finish(self) -> list[Motion]:
        """The motion between clock breaks, in order."""
        self._timed(self._clock.flush())
        self._solve()
        return self._found

    def _timed(self, events: Iterable[_MotionMessage | Boundary]) -> None:
        for event in events:
            if isinstance(event, Boundary):
                self._solve()
                self._duplicates.forget()
                for known in self._topics.values():
                    known.skimmed = known.route is None
                continue
            if event.refusal is None and isinstance(event.datum, Imu):
                self._log.add_imu(event.time_ns, event.datum)
            elif event.refusal is None and isinstance(event.datum, NavSatFix):
                self._log.add_fix(event.time_ns, event.arrival, event.datum)
            elif event.refusal is None and isinstance(event.datum, Odometry):
                self._log.odometer.add(event.time_ns, event.datum)

    def _solve(self) -> None:
        config = self._config
        self._found.append(solve(self._log, vehicle_of(config), rig_from_imu(config), self._proceed))
        self._log = NavigationLog()
