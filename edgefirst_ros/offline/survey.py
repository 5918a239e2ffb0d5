"""Reads a recording for the rig's motion before it is converted, since smoothing needs all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgefirst_ros.config.model import Config
from edgefirst_ros.ego.navigationlog import NavigationLog
from edgefirst_ros.ego.whole import Solution, solve
from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.imu import Imu
from edgefirst_ros.messages.measurement import Datum, RawMessage
from edgefirst_ros.messages.navsat import NavSatFix
from edgefirst_ros.pipeline.context import vehicle
from edgefirst_ros.pipeline.duplicates import Duplicates
from edgefirst_ros.pipeline.envelope import decoded_for, digest_of, unwanted
from edgefirst_ros.sample import Role
from edgefirst_ros.timing.clock import Boundary, ClockFinder
from edgefirst_ros.timing.finding import MessageTimes
from edgefirst_ros.topics import TopicMap, find_prefix, full_type

SENSES = frozenset({Role.GPS, Role.IMU})


@dataclass(slots=True, eq=False)
class _MotionMessage(MessageTimes):
    """A message's times, its number, and its IMU or GPS datum, None if it has none."""

    arrival: int
    datum: Datum | None


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

    Clocks are determined exactly as in the conversion, from the same messages.

    Args:
        config: the conversion's configuration.
        topics: the recording's topics and types.
        proceed: called now and then; if it returns False, the result is incomplete.
    """

    def __init__(
        self,
        config: Config,
        topics: Iterable[tuple[str, str]],
        proceed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._config = config
        self._proceed = proceed
        known = list(topics)
        self._routes = TopicMap(config, find_prefix([topic for topic, _ in known], config), known)
        self._clock: ClockFinder[_MotionMessage] = ClockFinder(round(config.clock_window_s * 1e9))
        self._ruled: set[str] = set()
        self._duplicates = Duplicates()
        self._log = NavigationLog()
        self._found: list[Solution] = []

    def feed(self, raw: RawMessage) -> None:
        """Add one message; call in order of receipt."""
        schema = full_type(raw.schema)
        route = self._routes.route(raw.topic, schema)
        if route is None or unwanted(raw, schema, route) is not None:
            return
        try:
            decoded = decoded_for(route.rule, raw)
        except DecodeError:
            return
        if decoded is None:
            return
        if raw.topic not in self._ruled:
            self._ruled.add(raw.topic)
            self._clock.rule(raw.topic, route.rule.times)
        if self._duplicates.received(route, raw.receive_ns, digest_of(raw)) is not None:
            return
        datum = decoded.datum if route.rule.role in SENSES else None
        times = raw.topic, decoded.stamp_ns, raw.publish_ns, raw.receive_ns
        self._timed(self._clock.feed(_MotionMessage(*times, raw.arrival, datum)))

    def finish(self) -> list[Solution]:
        """The motion between clock breaks, in order."""
        self._timed(self._clock.flush())
        self._solve()
        return self._found

    def _timed(self, events: Iterable[_MotionMessage | Boundary]) -> None:
        for event in events:
            if isinstance(event, Boundary):
                self._solve()
                self._duplicates.forget()
            elif event.refusal is None and isinstance(event.datum, Imu):
                self._log.add_imu(event.time_ns, event.datum)
            elif event.refusal is None and isinstance(event.datum, NavSatFix):
                self._log.add_fix(event.time_ns, event.arrival, event.datum)

    def _solve(self) -> None:
        ego = self._config.ego
        self._found.append(solve(self._log, vehicle(ego), ego.rig_from_imu_xyzw, self._proceed))
        self._log = NavigationLog()
