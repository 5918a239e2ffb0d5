"""Which topics of the ROS graph a capture subscribes to; does not import rclpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.config.names import fits, is_full
from edgefirst_ros.config.topics import (
    CONTEXT_ROLES,
    EGO_ROLES,
    TYPES,
    TopicMap,
    choice_note,
    find_prefix,
)
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import Role

STALL_S = 2.0
"""Stall of the node during which the QoS history loses no message."""
DEPTH, DEPTH_STREAM, DEPTH_SMALL, DEPTH_MOST = 60, 120, 1000, 10_000
"""Smallest QoS history depths: of pictures and clouds, at megabytes each (30 Hz); of compressed pictures
(60 Hz); of messages below a kilobyte (500 Hz, or a bridge's bursts). And the largest depth of any topic."""
_PICTURES = frozenset({Role.CAMERA, Role.DEPTH, Role.LIDAR_DEPTH})


@dataclass(frozen=True, slots=True)
class Offer:
    """What one publisher offers on a topic."""

    type: str
    latched: bool = False
    """Whether late subscribers receive its last messages (reliable and transient local)."""
    reliable: bool = False


@dataclass(frozen=True, slots=True)
class WantedSubscription:
    """A subscription that should exist.

    ``topic`` is the full name in the graph, ``canonical`` the name in the pipeline and in recordings, without
    the device's prefix.
    """

    topic: str
    type: str
    canonical: str
    latched: bool = False
    reliable: bool = False
    """Whether what the network loses is sent again: where every publisher offers that."""
    depth: int = field(default=DEPTH, compare=False)
    """QoS history depth."""
    is_used: bool = True
    """Whether the configuration uses it; else it is for the recording alone."""


@dataclass(frozen=True, slots=True)
class TopicMatch:
    """The topic found in the graph for one entry of the configuration's topics."""

    entry: str
    topic: str
    announced: bool
    """Whether the topic has a publisher."""
    problem: str = ""
    """Why some or all of it is not received although it is published; else empty."""
    canonical: str = ""
    """The topic's name in the pipeline."""
    latched: bool = False
    """Whether every publisher latches its last message, so that there may be only one."""
    fitting: tuple[str, ...] = ()
    """If the entry allows a choice: the topics that fit."""
    note: str = ""
    """Which of several topics is used, and why."""


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """The subscriptions to have, given the graph as it is now."""

    prefix: str
    subscriptions: frozenset[WantedSubscription]
    matches: tuple[TopicMatch, ...]
    problem: str = ""
    root: str = "/"
    """What the names of the device's topics begin with."""


NO_PLAN = SubscriptionPlan("", frozenset(), ())


def expected_type(rule: TopicRule) -> str:
    """The type that the device sends on a topic, for topics that are not announced yet."""
    name = rule.plain_names[0] if rule.plain_names else ""
    if rule.role in _PICTURES and name.endswith(("jpeg", "compressed", "compressedDepth")):
        return "sensor_msgs/msg/CompressedImage"
    if rule.role is Role.MODEL and name.endswith("boxes2d"):
        return "edgefirst_msgs/msg/Detect"
    return TYPES[rule.role][0]


def history_depth(rule: TopicRule, kind: str) -> int:
    """QoS history depth that lasts ``STALL_S`` at the expected rate, and at any rate usual for the type."""
    is_stream = rule.role is Role.CAMERA and kind != "sensor_msgs/msg/Image"
    least = DEPTH_STREAM if is_stream else DEPTH
    least = DEPTH_SMALL if rule.role in EGO_ROLES | CONTEXT_ROLES else least
    return min(DEPTH_MOST, max(least, math.ceil(min(STALL_S * rule.expected_hz, DEPTH_MOST))))


class GraphNames:
    """The graph's topics by the names that the configuration has for them.

    Args:
        config: the capture's configuration.
        prefix: the device's prefix within the namespace.
        namespace: the node's namespace.
        resolve: applies remappings.
    """

    def __init__(self, config: Config, prefix: str, namespace: str, resolve: Callable[[str], str]) -> None:
        inside = f"{namespace.rstrip('/')}/"
        self.roots = [f"{inside}{prefix}/", inside] if prefix == "rt" else [f"{inside}{prefix}/"]
        self.roots = self.roots if prefix else [inside]
        """What the device's names may begin with, the likeliest first."""
        plain = [name for rule in config.topics.values() for name in rule.plain_names]
        self._topics = {name: resolve(name) for each in plain for name in self.expand(each)}
        self._names = {topic: name for name, topic in self._topics.items()}

    def expand(self, configured: str) -> list[str]:
        """The full names that a configured one stands for, before remapping."""
        return [configured] if configured.startswith("/") else [root + configured for root in self.roots]

    def name_of(self, topic: str) -> str:
        """The name, before remapping, that a topic of the graph is meant by; empty if by none."""
        return self._names.get(topic, "" if topic in self._topics else topic)

    def topic_of(self, name: str) -> str:
        """The topic of the graph that is meant by a name."""
        return self._topics.get(name, name)

    def canonical(self, name: str, rule: TopicRule) -> str:
        """The name in the pipeline: without the device's prefix, but where the entry has the full one."""
        root = next((each for each in self.roots if name.startswith(each)), "")
        is_named = any(is_full(each) and fits(each, name) for each in rule.names)
        return name if is_named or not root else f"/{name.removeprefix(root)}"


def choose_prefix(
    config: Config, published: Iterable[str], namespace: str, resolve: Callable[[str], str] = str
) -> tuple[str, str]:
    """The device's prefix within the node's namespace, and a problem if it is ambiguous.

    Names without prefix win over any prefix: the same graph may hold another device's topics.
    """
    bare = GraphNames(config, "", namespace, resolve)
    (root,) = bare.roots
    names = {n.removeprefix(root) for t in published if (n := bare.name_of(t)).startswith(root)}
    plain = {n for rule in config.topics.values() for n in rule.plain_names if not n.startswith("/")}
    for prefix in ("rt", "") if config.prefix is None else ():
        if not names.isdisjoint(f"{prefix}/{name}".lstrip("/") for name in plain):
            return prefix, ""
    try:
        return find_prefix(names, config), ""
    except ConfigError as error:
        return "", str(error).replace("--prefix", "the parameter prefix")


@dataclass(eq=False)
class Discovery:
    """Plans the subscriptions for every entry of the configuration's topics, given the graph as it is now.

    Attributes:
        config: the capture's configuration.
        published: types of all published topics.
        namespace: the node's namespace.
        offers: returns the publishers of a topic.
        installed: whether a message type is available on this machine.
        resolve: applies remappings.
        unlisted: subscribe to the device's topics before they are announced, because a bridge creates a route
            only when there is a subscriber.
        recorded: whether to record a topic that is not used, given its recorded name and its type.
        held: existing subscriptions; they stay without a publisher, which may die and return.
        before: the previous plan. What matches a regular expression is subscribed to only once two plans
            agree: discovery is gradual, and the first by name is wanted, not the first seen.
    """

    config: Config
    published: Mapping[str, Sequence[str]]
    namespace: str
    offers: Callable[[str], Sequence[Offer]]
    installed: Callable[[str], bool]
    resolve: Callable[[str], str] = str
    unlisted: bool = True
    recorded: Callable[[str, str], bool] = lambda _, __: False
    held: Collection[WantedSubscription] = ()
    before: SubscriptionPlan = NO_PLAN

    def __post_init__(self) -> None:
        self.offers = cache(self.offers)
        self._prefix, self._problem = choose_prefix(self.config, self.published, self.namespace, self.resolve)
        self._names = GraphNames(self.config, self._prefix, self.namespace, self.resolve)
        self._routes = TopicMap(self.config, self._names.roots[0].strip("/"))
        self._held: set[str] = set()
        self._kept: dict[str, set[WantedSubscription]] = {}
        for each in (each for each in self.held if each.is_used):
            self._held.add(name := self._names.name_of(each.topic))
            self._kept.setdefault(self._entry(name, each.type), set()).add(each)
        self._there: dict[str, list[str]] = {}
        """Names of published topics by the entries that they fit, the likeliest ones first."""
        names = {self._names.name_of(topic): kinds for topic, kinds in self.published.items()}
        found = {name: kind for name, kinds in names.items() for kind in kinds if self._entry(name, kind)}
        self._routes.choose(found.items())
        for name in sorted(found, key=lambda each: (not each.startswith(self._names.roots[0]), each)):
            self._there.setdefault(self._entry(name), []).append(name)

    def plan(self) -> SubscriptionPlan:
        """The subscriptions to have."""
        wanted: set[WantedSubscription] = set()
        matches: list[TopicMatch] = []
        for entry, rule in self.config.topics.items():
            if rule.names:
                find = self._find if entry in self._there else self._expect
                subscriptions, match = find(entry, rule)
                wanted |= subscriptions
                matches.append(match)
        wanted |= {*self._unused({each.topic for each in wanted})}
        return SubscriptionPlan(
            self._prefix, frozenset(wanted), tuple(matches), self._problem, self._names.roots[0]
        )

    def _entry(self, name: str, kind: str = "") -> str:
        """The entry that uses a topic of this name; empty if none does."""
        route = self._routes.route(name, kind) if name else None
        return "" if route is None else route.name

    def _expect(self, entry: str, rule: TopicRule) -> tuple[set[WantedSubscription], TopicMatch]:
        """Of an entry that nothing published is for, unless it is for another entry."""
        plain = rule.plain_names[:1]
        name = self._names.expand(plain[0])[0] if plain else rule.topic
        topic, canonical = self._names.topic_of(name), self._names.canonical(name, rule)
        kind = expected_type(rule)
        wanted = self._kept.get(entry, set())
        is_expected = self.unlisted and plain and not plain[0].startswith("/") and self.installed(kind)
        if not wanted and is_expected and self._entry(name, kind) == entry:
            wanted = {WantedSubscription(topic, kind, canonical, depth=history_depth(rule, kind))}
        return wanted, TopicMatch(entry, topic, topic in self.published, canonical=canonical)

    def _find(self, entry: str, rule: TopicRule) -> tuple[set[WantedSubscription], TopicMatch]:
        """Of an entry that something published is for."""
        there = self._there[entry]
        routes = ((name, self._routes.route(name)) for name in there)
        chosen = next(name for name, route in routes if route is not None and not route.replaced_by)
        taken = next((name for name in there if name in self._held), chosen)
        topic, canonical = self._names.topic_of(taken), self._names.canonical(taken, rule)
        offers = self.offers(topic)
        usable, problem = self._usable(rule, topic, canonical)
        fitting = tuple(map(self._names.topic_of, there)) if rule.is_choice else ()
        note = ""
        if rule.is_choice:
            before = next((each.fitting for each in self.before.matches if each.entry == entry), ())
            usable = usable if taken in self._held or before == fitting else set()
            note = next((n for n in self._routes.notes if n.startswith(f"topics.{entry} takes {taken},")), "")
            others = [name for name in there if name != taken]
            note = note or (choice_note(entry, [taken, *others], "which was there before") if others else "")
        is_latched = all(offer.latched for offer in offers)
        return usable, TopicMatch(entry, topic, True, problem, canonical, is_latched, fitting, note)

    def _usable(self, rule: TopicRule, topic: str, canonical: str) -> tuple[set[WantedSubscription], str]:
        """Subscriptions to what is offered on a topic, and why some or all of it cannot be used."""
        subscriptions: set[WantedSubscription] = set()
        problems: list[str] = []
        for kind in sorted({offer.type for offer in self.offers(topic)}):
            if kind not in TYPES[rule.role]:
                problems.append(f"is {kind}, expected {' or '.join(TYPES[rule.role])}")
            elif not self.installed(kind):
                package = kind.partition("/")[0]
                problems.append(f"{kind} is not installed here; build {package} in the workspace")
            else:
                # Latched messages are requested where they stay valid: an old scan is of no use. Where some
                # publishers latch and others do not, a single subscription cannot receive both.
                same = [offer for offer in self.offers(topic) if offer.type == kind]
                reliable, depth = all(o.reliable for o in same), history_depth(rule, kind)
                subscriptions |= {
                    WantedSubscription(topic, kind, canonical, each, each or reliable, depth)
                    for each in {o.latched and rule.role in CONTEXT_ROLES for o in same}
                }
        return subscriptions, "; ".join(problems)

    def _unused(self, used: Collection[str]) -> Iterator[WantedSubscription]:
        """Subscriptions for the recording alone: to the device's other topics."""
        root = self._names.roots[0]
        for topic in (each for each in self.published if each.startswith(root) and each not in used):
            canonical = f"/{topic.removeprefix(root)}"
            for kind in (each for each in self.published[topic] if self.recorded(canonical, each)):
                same = [offer for offer in self.offers(topic) if offer.type == kind]
                # Who requests latched or reliable messages receives nothing from publishers without.
                asked = all(offer.latched for offer in same), all(offer.reliable for offer in same)
                yield WantedSubscription(topic, kind, canonical, *asked, is_used=False)
