"""Messages from a device's native Zenoh: CDR under any of its three generations of names.

What a device publishes over Zenoh besides the configured topics: for a recording, and for hints.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Self

from edgefirst_ros.config.hints import ExistingTopic
from edgefirst_ros.config.model import MAIVIN_TOPICS, Config
from edgefirst_ros.config.names import fits, is_full, is_pattern, key_expression
from edgefirst_ros.config.topics import (
    CONTEXT_ROLES,
    MAX_UNUSED,
    OTHER_TOPICS,
    SHOWN_TOPICS,
    TYPES,
    TopicMap,
    full_type,
    reference_role,
)
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import RawMessage, Role
from edgefirst_ros.model.sensors import ALIVE_S
from edgefirst_ros.model.untrusted import displayed
from edgefirst_ros.sources.session import is_usable
from edgefirst_ros.sources.simtime import CLOCK, SimulatedTime, clock_of
from edgefirst_ros.sources.suggest import Look
from edgefirst_ros.sources.zenohlink import CDR, close_session, connections, key_includes, subscribe

if TYPE_CHECKING:
    import zenoh.ext


BARE = frozenset({"", "rt"})
"""Prefixes of name generations A and B, which one device may mix."""
WATCH_S = 2.0
"""Duration of the search for other topics."""
FIRST_S = 10.0
"""A connection takes two seconds when it is tried again, and a device may send nothing for a while."""
MOST_TOPICS = 256
"""Limit of the topics that it keeps."""
_TAILS = frozenset(name for rule in MAIVIN_TOPICS.values() for name in rule.plain_names)


def wide_key(namespace: str) -> str:
    """The key expression of everything that a device may publish under its namespace."""
    return "**" if namespace in BARE else f"{namespace}/**"


class UnusedTopics:
    """Finds the keys of topics that are recorded but not used, and their names.

    Args:
        used: the configured topics, without regular expressions.
        namespace: prefix of the device's names; empty: any.
        wanted: whether to record a topic, given its name and type.
        is_ours: whether a prefix is the device's.
        matches: whether a regular expression of the configuration takes a key of a type.
    """

    def __init__(
        self,
        used: Iterable[str],
        namespace: str,
        wanted: Callable[[str, str], bool],
        is_ours: Callable[[str], bool],
        matches: Callable[[str, str], bool] = lambda *_: False,
    ) -> None:
        self._relative = {topic.strip("/") for topic in used if not topic.startswith("/")}
        self._absolute = {k for t in used if t.startswith("/") for k in key_expressions(t, namespace)}
        self._namespace = namespace
        self._wanted = wanted
        self._is_ours = is_ours
        self._matches = matches

    def topic(self, key: str, encoding: str, device: str | None) -> tuple[str, str] | None:
        """Topic and type of a message to record; None if it is used, not wanted, or not this device's."""
        kind, _, schema = encoding.partition(";")
        if kind != CDR or not schema or self._is_used(key) or self._matches(key, full_type(schema)):
            return None
        name = self._name(key, device)
        if name is None or not self._wanted(f"/{name}", schema):
            return None
        return displayed(f"/{name}"), full_type(displayed(schema))

    def _is_used(self, key: str) -> bool:
        if not self._namespace:
            return key in self._absolute or any(tail in self._relative for tail in _tails(key))
        inside = key.removeprefix(f"{self._namespace}/")
        is_bare = inside == key and self._namespace != "rt"
        return key in self._absolute or (inside in self._relative and not is_bare)

    def _name(self, key: str, device: str | None) -> str | None:
        """The name without the device's prefix; None if the prefix is another device's."""
        if self._namespace not in BARE:
            return key.removeprefix(f"{self._namespace}/")
        known = next((tail for tail in _tails(key) if tail in _TAILS), None)
        if known is None:
            return key.removeprefix(f"{device or 'rt'}/")
        prefix = key.removesuffix(known).strip("/")
        ours = prefix in BARE if self._namespace else self._is_ours(prefix)
        return known if ours else None


def _tails(key: str) -> list[str]:
    """The key, and all of its ends that begin after a slash."""
    return ["/".join(key.split("/")[at:]) for at in range(key.count("/") + 1)]


class OtherTopics:
    """Searches once for other topics, if the reference or a role whose topic the user named is not received.

    For ``WATCH_S`` it subscribes to everything of the device, and keeps names and types.

    Args:
        session: see ``zenohlink.open_session``.
        config: the capture's configuration.
        keys: key expressions that are subscribed to already.
        namespace: of the device; that of another one is of no use.
    """

    def __init__(self, session: zenoh.Session, config: Config, keys: Sequence[str], namespace: str) -> None:
        self._session, self._keys, self._everything = session, keys, wide_key(namespace)
        roles = {config.topics[entry].role for entry in config.named}
        self._wanted = {role.value for role in (*roles, reference_role(config))}
        self._found: dict[str, str] = {}
        self._watch: zenoh.Subscriber[None] | zenoh.ext.AdvancedSubscriber[None] | None = None
        self._until_s: float | None = None

    def found(self) -> list[ExistingTopic]:
        """The topics found so far. Thread-safe."""
        return [ExistingTopic(topic, kind) for topic, kind in self._found.copy().items()]

    def watch(self, silent: Collection[str], elapsed_s: float) -> None:
        """Begin or end the search when it is time; called periodically.

        Args:
            silent: roles of which nothing has been received.
            elapsed_s: duration of the session so far.
        """
        now_s = time.monotonic()
        if self._until_s is None and elapsed_s >= ALIVE_S and self._wanted & set(silent):
            self._until_s = now_s + WATCH_S
            self._watch = subscribe(self._session, self._everything, self._on_sample)
        elif self._watch is not None and self._until_s is not None and now_s > self._until_s:
            self._watch.undeclare()  # type: ignore[no-untyped-call]  # zenoh annotates no return
            self._watch = None

    def _on_sample(self, sample: zenoh.Sample) -> None:
        key = str(sample.key_expr)
        if len(self._found) < MOST_TOPICS and not any(key_includes(each, key) for each in self._keys):
            kind = str(sample.encoding).partition(";")[2]
            self._found[displayed(f"/{key}")] = full_type(displayed(kind))


def overhear(session: zenoh.Session, seconds: float) -> Look:
    """Everything that comes within a time from the first message on, which may be long in coming."""
    look, lock, begun = Look(), threading.Lock(), threading.Event()

    def take(sample: zenoh.Sample) -> None:
        receive_ns = time.time_ns()
        kind, _, schema = str(sample.encoding).partition(";")
        if kind != CDR or not schema:
            return
        name, data = displayed(f"/{sample.key_expr}"), sample.payload.to_bytes()
        with lock:
            if name in look.topics or len(look.topics) < MOST_TOPICS:
                look.feed(RawMessage(name, full_type(displayed(schema)), data, receive_ns, receive_ns, 0))
        begun.set()

    watch = subscribe(session, "**", take, latched=True)
    if begun.wait(max(seconds, FIRST_S)):
        time.sleep(seconds)
    watch.undeclare()  # type: ignore[no-untyped-call]  # zenoh annotates no return
    with lock:
        return look


_OF_DRIVERS = ("radar_msgs/", "sensor_msgs/msg/LaserScan")
UNTYPED = frozenset({"", "zenoh/bytes"})
"""Encodings of a put that does not declare its payload."""


def key_expressions(topic: str, namespace: str) -> tuple[str, ...]:
    """The key expressions to subscribe to for a configured topic.

    Without a namespace any prefix matches, so all generations of names are received (``rt/…``, bare,
    ``<hostname>/…``); "rt" also matches bare names, because generation B mixes them; any other namespace
    matches only itself. A topic that begins with / is taken literally, but for ``rt/`` where no
    namespace excludes that. The key expression of a regular expression may match more keys than it does.
    """
    if is_pattern(topic):
        if is_full(topic):
            return (key_expression(topic),)
        # One subscription: two that overlap would receive a message twice.
        loose = namespace in BARE
        return (key_expression(topic, anywhere=True) if loose else f"{namespace}/{key_expression(topic)}",)
    bare = topic.strip("/")
    if topic.startswith("/"):
        return (f"rt/{bare}", bare) if namespace in BARE else (bare,)
    if not namespace:
        return (f"**/{bare}",)
    return (f"rt/{bare}", bare) if namespace == "rt" else (f"{namespace}/{bare}",)


@lru_cache(maxsize=256)
def message_type(encoding: str, role: Role) -> tuple[str, str]:
    """Message type and fault of a payload, from its encoding ``application/cdr;<pkg>/msg/<Type>``.

    An encoding without a type means the role's type, if the role has only one of a device: others come from
    ROS drivers, over bridges that name them. The fault is empty if the type is known.
    """
    kind, _, schema = encoding.partition(";")
    if kind == CDR and schema:
        return full_type(displayed(schema)), ""
    if kind != CDR and kind not in UNTYPED:
        return full_type(displayed(schema)), f"encoding {displayed(kind)}, expected {CDR}"
    sent = [each for each in TYPES[role] if not each.startswith(_OF_DRIVERS)]
    if len(sent) == 1:
        return sent[0], ""
    return "", f"the encoding names no type, and {role} has {len(sent)} possible ones"


class ZenohSource:
    """Passes every message of the configured topics to ``put``, in order of arrival.

    A message's topic is the configured name after a slash (``/radar/cube``), whatever its prefix on the wire;
    the device's recorder names its channels so, and live and recorded messages must have the same topics.
    ``receive_ns`` is the wall clock in the callback, and so is ``publish_ns``, since a plain put has no time.
    Where a simulator sends ``/clock``, both are its time, as the simulator may run slower.

    Without a namespace the first device that is received is used. Messages of other devices keep their whole
    key as topic, which no configuration uses, and ``notes`` name these devices.

    Args:
        session: see ``zenohlink.open_session``; closed with the source.
        config: the configured topics.
        put: called from Zenoh's threads; must not block.
        namespace: prefix of the names, usually the host name; empty: any.
        record: called with messages of other topics of usable types; None: do not record them.
        now_ns: returns the wall clock.

    Raises:
        ConfigError: lists all names that are not Zenoh key expressions.
    """

    def __init__(
        self,
        session: zenoh.Session,
        config: Config,
        put: Callable[[RawMessage], None],
        *,
        namespace: str = "",
        record: Callable[[RawMessage], None] | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.notes: list[str] = []
        self._session = session
        self._put = put
        self._wall_ns = now_ns
        self._simulated: SimulatedTime | None = None
        self._any = not namespace
        self._device: str | None = None
        self._others: set[str] = set()
        self._foreign_names: set[str] = set()
        faults, keys = list[str](), list[str]()
        self._namespace = namespace.strip("/")
        self._routes = TopicMap(config, "")
        wanted = {name: rule.role for rule in config.topics.values() for name in rule.names}
        self._patterns = [name for name in wanted if is_pattern(name)]
        full = (name for name in wanted if name.startswith("/") and not is_pattern(name))
        self._full = {key for name in full for key in key_expressions(name, self._namespace)}
        """Keys of topics that entries name in full; to those they belong, whatever else matches them."""
        for name, role in wanted.items():
            on_sample = partial(self._on_match if is_pattern(name) else self._on_sample, name, role)
            for key in key_expressions(name, self._namespace):
                try:
                    subscribe(session, key, on_sample, latched=role in CONTEXT_ROLES)
                    keys.append(key)
                except ConfigError as error:
                    faults += error.faults
                    break
        if record is not None and not faults:
            named = [name for name in wanted if not is_pattern(name)]
            unused = UnusedTopics(named, self._namespace, is_usable, self._is_ours, self._matches)
            subscribe(session, wide_key(self._namespace), partial(self._on_unused, unused, record))
        if faults:
            self.close()
            raise ConfigError(faults)
        for key in key_expressions(CLOCK, self._namespace):
            subscribe(session, key, self._on_clock)
        self.other_topics = OtherTopics(session, config, keys, self._namespace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """Number of routers and peers that are connected now."""
        return connections(self._session)

    def close(self) -> None:
        """Close the session; no more messages are received."""
        close_session(self._session)

    def _now_ns(self) -> int:
        """The wall clock, or a simulator's from its first message on."""
        now_ns = self._wall_ns()
        return now_ns if self._simulated is None else self._simulated.time_ns(now_ns)

    def _on_clock(self, sample: zenoh.Sample) -> None:
        now_ns, data = self._wall_ns(), sample.payload.to_bytes()
        self._simulated = self._simulated or SimulatedTime(now_ns, clock_of(data))
        self._simulated.tick(now_ns, clock_of(data))

    def _on_sample(self, topic: str, role: Role, sample: zenoh.Sample) -> None:
        receive_ns = self._now_ns()
        schema, fault = message_type(str(sample.encoding), role)
        name = "/" + topic.strip("/")
        if self._any and not topic.startswith("/"):
            key = str(sample.key_expr)
            if key in self._full:
                return
            if not self._is_ours(key.removesuffix(name[1:]).strip("/")):
                name = self._foreign("/" + key)
        self._pass_on(name, schema, fault, sample, receive_ns)

    def _pass_on(self, name: str, schema: str, fault: str, sample: zenoh.Sample, receive_ns: int) -> None:
        data, times = sample.payload.to_bytes(), (receive_ns, receive_ns, 0)
        self._put(RawMessage(displayed(name), schema, data, *times, fault=fault, checksummed=True))

    def _on_match(self, pattern: str, role: Role, sample: zenoh.Sample) -> None:
        """Handle a key that several regular expressions may match; only the first that does passes it on."""
        receive_ns = self._now_ns()
        key = str(sample.key_expr)
        matches = ((each, self._name(each, key)) for each in self._patterns)
        first, name = next((match for match in matches if match[1] is not None), ("", None))
        if name is None or first != pattern or key in self._full:
            return
        schema, fault = message_type(str(sample.encoding), role)
        if self._routes.route(name, schema) is not None:
            self._pass_on(name, schema, fault, sample, receive_ns)

    def _name(self, pattern: str, key: str) -> str | None:
        """The topic of a key that a regular expression matches; None if it does not, or for other devices."""
        if is_full(pattern):
            return f"/{key}" if fits(pattern, key) else None
        first, _, rest = key.partition("/")
        under = self._namespace
        bare = rest if (under and first == under) or (self._any and first == "rt") else key
        if under not in {"", "rt"} and first != under:
            return None
        if fits(pattern, bare):
            return f"/{bare}"
        if self._any and rest and fits(pattern, rest) and self._is_ours(first):
            return f"/{rest}"
        return None

    def _matches(self, key: str, schema: str) -> bool:
        """Whether a regular expression matches a key, and its role has this type."""
        names = [self._name(each, key) for each in self._patterns]
        return any(name is not None and self._routes.route(name, schema) is not None for name in names)

    def _on_unused(
        self, unused: UnusedTopics, record: Callable[[RawMessage], None], sample: zenoh.Sample
    ) -> None:
        receive_ns = self._now_ns()
        found = unused.topic(str(sample.key_expr), str(sample.encoding), self._device)
        if found is not None:
            record(RawMessage(*found, sample.payload.to_bytes(), receive_ns, receive_ns, 0))

    def _foreign(self, name: str) -> str:
        """The topic of another device's key; one for all beyond many."""
        if name not in self._foreign_names:
            if len(self._foreign_names) >= MAX_UNUSED:
                return OTHER_TOPICS
            self._foreign_names.add(name)
        return name

    def _is_ours(self, prefix: str) -> bool:
        device = "" if prefix in BARE else prefix
        if self._device is None:
            self._device = device
        if device != self._device and device not in self._others and len(self._others) < SHOWN_TOPICS:
            self._others.add(device)
            self.notes.append(
                f"more than one device: {self._device or 'the one without a prefix'} is captured, "
                f"{device or 'the one without a prefix'} is not; choose with --namespace"
            )
        return device == self._device
