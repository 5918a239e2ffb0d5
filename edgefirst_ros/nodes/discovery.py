"""Which topics of the ROS graph a capture subscribes to; does not import rclpy.

Which topics of the graph fit an entry of the configuration, and which of them is preferred.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.config.names import fits, is_full, is_pattern
from edgefirst_ros.config.topics import CONTEXT_ROLES, EGO_ROLES, TYPES, choice_note
from edgefirst_ros.model.sample import Role


@dataclass(frozen=True, slots=True)
class Offer:
    """What one publisher offers on a topic."""

    type: str
    latched: bool = False
    """Whether late subscribers receive its last messages (reliable and transient local)."""
    reliable: bool = False


def wire_names(topic: str, prefix: str, namespace: str) -> list[str]:
    """The names that a configured topic may have in the graph, the likeliest first."""
    if topic.startswith("/"):
        return [topic]
    bare = f"{namespace.rstrip('/')}/{topic}"
    if not prefix:
        return [bare]
    prefixed = f"{namespace.rstrip('/')}/{prefix}/{topic}"
    return [prefixed, bare] if prefix == "rt" else [prefixed]


@dataclass(frozen=True, slots=True)
class TopicCandidate:
    """A topic that fits an entry: its name in the graph, and ``canonical``, its name in the pipeline.

    The lowest ``rank`` is preferred: whether it is not the reference, the position among the entry's names,
    the position among the names on the wire, and the topic.
    """

    topic: str
    canonical: str
    rank: tuple[bool, int, int, str]


@dataclass(slots=True)
class CandidateFinder:
    """Finds the topics of the graph that fit entries.

    Attributes:
        config: the capture's configuration.
        prefix: prefix of the device's topics within the namespace.
        namespace: the node's namespace.
        offers: returns the publishers of a topic.
        resolve: applies remappings.
        published: names that regular expressions are matched against, in order.
    """

    config: Config
    prefix: str
    namespace: str
    offers: Callable[[str], Sequence[Offer]]
    resolve: Callable[[str], str]
    published: Sequence[str]
    claimed: frozenset[str] = frozenset()
    """Topics that are configured by name; no regular expression takes them."""
    full: frozenset[str] = frozenset()
    """Those whose name is given in full; no name that is found under a prefix takes them."""

    def __post_init__(self) -> None:
        plain = [name for rule in self.config.topics.values() for name in rule.plain_names]
        wires = (wire for name in plain for wire in wire_names(name, self.prefix, self.namespace))
        self.claimed = frozenset(map(self.resolve, wires))
        self.full = frozenset(self.resolve(name) for name in plain if name.startswith("/"))

    def candidates(self, rule: TopicRule) -> list[TopicCandidate]:
        """Topics that fit an entry, each once."""
        found: dict[str, TopicCandidate] = {}
        for number, name in enumerate(rule.names):
            for order, (topic, canonical) in enumerate(
                (self._matching if is_pattern(name) else self._wires)(name)
            ):
                is_other = canonical.strip("/") != self.config.reference.strip("/")
                found.setdefault(topic, TopicCandidate(topic, canonical, (is_other, number, order, topic)))
        return list(found.values())

    def ranked(self, rule: TopicRule, candidates: Iterable[TopicCandidate]) -> list[TopicCandidate]:
        """Those that are published, the preferred one first; if any has a usable type, only such."""
        there = [candidate for candidate in candidates if self.offers(candidate.topic)]
        kinds = TYPES[rule.role]
        usable = [c for c in there if any(offer.type in kinds for offer in self.offers(c.topic))]
        fits_by_name = [c for c in there if c.topic in self.claimed]
        return sorted(usable or fits_by_name, key=lambda candidate: candidate.rank)

    def _wires(self, name: str) -> list[tuple[str, str]]:
        canonical = name if name.startswith("/") else f"/{name}"
        wires = map(self.resolve, wire_names(name, self.prefix, self.namespace))
        return [(w, canonical) for w in wires if name.startswith("/") or w not in self.full]

    def _matching(self, pattern: str) -> list[tuple[str, str]]:
        inside = self.namespace.rstrip("/") + "/"
        # Only what begins with rt may be without its prefix.
        roots = [f"{inside}{self.prefix}/"] if self.prefix else []
        roots = [""] if is_full(pattern) else [*roots, *[inside] * (self.prefix in {"", "rt"})]
        found: list[tuple[str, str]] = []
        for topic in (each for each in self.published if each not in self.claimed):
            root = next((each for each in roots if topic.startswith(each)), None)
            canonical = topic if not root else f"/{topic.removeprefix(root)}"
            if root is not None and fits(pattern, canonical):
                found.append((topic, canonical))
        return found


def explain_choice(entry: str, taken: TopicCandidate, there: Sequence[TopicCandidate]) -> str:
    """Which of several topics is used, and why; empty if there is only one."""
    others = [candidate for candidate in there if candidate is not taken]
    if not others:
        return ""
    reason = "the first by name"
    if taken is not there[0]:
        reason = "which was there before"
    elif taken.rank[:2] != others[0].rank[:2]:
        is_reference = taken.rank[0] != others[0].rank[0]
        reason = "which is the reference" if is_reference else "which is named first"
    return choice_note(entry, [candidate.topic for candidate in (taken, *others)], reason)


STALL_S = 2.0
"""Stall of the node during which the QoS history loses no message."""
DEPTH, DEPTH_STREAM, DEPTH_SMALL, DEPTH_MOST = 60, 120, 1000, 10_000
"""Smallest QoS history depths: of pictures and clouds, at megabytes each (30 Hz); of compressed pictures
(60 Hz); of messages below a kilobyte (500 Hz, or a bridge's bursts). And the largest depth of any topic."""


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
    """If the entry allows a choice: the topics that fit, in order of preference."""
    note: str = ""
    """Which of several topics is used, and why."""


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """The subscriptions to have, given the graph as it is now."""

    prefix: str
    subscriptions: frozenset[WantedSubscription]
    matches: tuple[TopicMatch, ...]
    problem: str = ""


NO_PLAN = SubscriptionPlan("", frozenset(), ())
_PICTURES = frozenset({Role.CAMERA, Role.DEPTH, Role.LIDAR_DEPTH})


def expected_type(rule: TopicRule) -> str:
    """The type that the device sends on a topic, for topics that are not announced yet."""
    name = rule.plain_names[0] if rule.plain_names else ""
    if rule.role in _PICTURES and name.endswith(("jpeg", "compressed", "compressedDepth")):
        return "sensor_msgs/msg/CompressedImage"
    if rule.role is Role.CAMERA and name.endswith("ffmpeg"):
        return "ffmpeg_image_transport_msgs/msg/FFMPEGPacket"
    if rule.role is Role.MODEL and name.endswith("boxes2d"):
        return "edgefirst_msgs/msg/Detect"
    return TYPES[rule.role][0]


def history_depth(rule: TopicRule, kind: str) -> int:
    """QoS history depth that lasts ``STALL_S`` at the expected rate, and at any rate usual for the type."""
    is_stream = rule.role is Role.CAMERA and kind != "sensor_msgs/msg/Image"
    least = DEPTH_STREAM if is_stream else DEPTH
    least = DEPTH_SMALL if rule.role in EGO_ROLES | CONTEXT_ROLES else least
    return min(DEPTH_MOST, max(least, math.ceil(min(STALL_S * rule.expected_hz, DEPTH_MOST))))


def bare_names(config: Config, namespace: str, resolve: Callable[[str], str]) -> set[str]:
    """Names in the graph of the configured topics without prefix, as they are remapped."""
    names = (name for rule in config.topics.values() for name in rule.plain_names)
    return {resolve(wire_names(name, "", namespace)[0]) for name in names if not name.startswith("/")}


def choose_prefix(
    config: Config, published: Iterable[str], namespace: str, resolve: Callable[[str], str] = str
) -> tuple[str, str]:
    """The device's prefix within the node's namespace, and a problem if it is ambiguous.

    Names without prefix win over any prefix: the same graph may hold another device's topics.
    """
    if config.prefix is not None:
        return config.prefix.strip("/"), ""
    bare, known, inside = bare_names(config, namespace, resolve), [*published], namespace.rstrip("/") + "/"
    plain = {n for rule in config.topics.values() for n in rule.plain_names if not n.startswith("/")}
    names = ["/" + t.removeprefix(inside) for t in known if t not in bare and t.startswith(inside)]
    votes = Counter(n.removesuffix(f"/{p}").strip("/") for n in names for p in plain if n.endswith(f"/{p}"))
    if not votes or not bare.isdisjoint(known) or votes[""] or votes["rt"]:
        return "rt" if votes["rt"] else "", ""
    most = max(votes.values())
    first, *others = sorted(prefix for prefix, count in votes.items() if count == most)
    if not others:
        return first, ""
    shown = ", ".join((first, *others))
    return "", f"topics of more than one device: {shown}; choose one with the parameter prefix"


def plan_subscriptions(
    config: Config,
    prefix: str,
    namespace: str,
    *,
    offers: Callable[[str], Sequence[Offer]],
    installed: Callable[[str], bool],
    resolve: Callable[[str], str] = lambda topic: topic,
    held: Collection[WantedSubscription] = (),
    unlisted: bool = True,
    published: Iterable[str] = (),
    before: Mapping[str, tuple[str, ...]] | None = None,
) -> SubscriptionPlan:
    """SubscriptionPlan the subscriptions for every entry of the configuration's topics.

    Args:
        config: the capture's configuration.
        prefix: the device's prefix within the namespace.
        namespace: the node's namespace.
        offers: returns the publishers of a topic.
        installed: whether a message type is available on this machine.
        resolve: applies remappings.
        held: existing subscriptions; they stay without a publisher, which may die and return.
        unlisted: subscribe to the device's topics before they are announced, because a bridge creates a route
            only when there is a subscriber.
        published: names that regular expressions are matched against.
        before: the previous plan's ``fitting`` by entry. What matches a regular expression is subscribed to
            only once two plans agree: discovery is gradual, and the first by name is wanted, not the first
            seen.
    """
    wanted: set[WantedSubscription] = set()
    found: list[TopicMatch] = []
    kept: dict[str, set[WantedSubscription]] = {}
    for each in held:
        kept.setdefault(each.topic, set()).add(each)
    finder = CandidateFinder(config, prefix, namespace, cache(offers), resolve, sorted(published))
    for entry, rule in config.topics.items():
        if not rule.names:
            continue
        candidates = finder.candidates(rule)
        there = finder.ranked(rule, candidates)
        taken = next(
            (c for c in there or candidates if c.topic in kept), next(iter(there or candidates), None)
        )
        if taken is None or not there:
            first = candidates[0] if candidates else TopicCandidate(rule.topic, rule.topic, (True, 0, 0, ""))
            found.append(TopicMatch(entry, first.topic, announced=False, canonical=first.canonical))
            is_devices = rule.plain_names and not rule.plain_names[0].startswith("/")
            if taken is not None and taken.topic in kept:
                wanted |= kept[taken.topic]
            elif unlisted and candidates and is_devices and installed(kind := expected_type(rule)):
                depth = history_depth(rule, kind)
                wanted.add(WantedSubscription(first.topic, kind, first.canonical, depth=depth))
            continue
        fitting = tuple(candidate.topic for candidate in there) if rule.is_choice else ()
        offered = finder.offers(taken.topic)
        usable, problem = _match(rule, taken, offered, installed)
        if not rule.is_choice or taken.topic in kept or (before or {}).get(entry) == fitting:
            wanted |= usable
        note = explain_choice(entry, taken, there) if rule.is_choice else ""
        latched = all(offer.latched for offer in offered)
        found.append(TopicMatch(entry, taken.topic, True, problem, taken.canonical, latched, fitting, note))
    return SubscriptionPlan(prefix, frozenset(wanted), tuple(found))


def _match(
    rule: TopicRule, candidate: TopicCandidate, offers: Sequence[Offer], installed: Callable[[str], bool]
) -> tuple[set[WantedSubscription], str]:
    """Subscriptions to what is offered on a topic, and why some or all of it cannot be used."""
    subscriptions: set[WantedSubscription] = set()
    problems: list[str] = []
    for kind in sorted({offer.type for offer in offers}):
        same = [offer for offer in offers if offer.type == kind]
        if kind not in TYPES[rule.role]:
            problems.append(f"is {kind}, expected {' or '.join(TYPES[rule.role])}")
        elif not installed(kind):
            package = kind.partition("/")[0]
            problems.append(f"{kind} is not installed here; build {package} in the workspace")
        else:
            # Latched messages are requested where they stay valid: an old scan is of no use. Where some
            # publishers latch and others do not, a single subscription cannot receive both.
            reliable, depth = all(o.reliable for o in same), history_depth(rule, kind)
            subscriptions |= {
                WantedSubscription(candidate.topic, kind, candidate.canonical, each, each or reliable, depth)
                for each in {o.latched and rule.role in CONTEXT_ROLES for o in same}
            }
    return subscriptions, "; ".join(problems)


def unused_subscriptions(
    announced: Iterable[tuple[str, Sequence[str]]],
    root: str,
    wanted: Callable[[str, str], bool],
    offers: Callable[[str], Sequence[Offer]],
) -> set[WantedSubscription]:
    """Subscriptions for the recording alone: to published topics that the configuration does not use.

    Args:
        announced: names and types of topics that are not used.
        root: namespace and prefix of the device's topics, which recorded names lack.
        wanted: whether to record a topic, given its recorded name and its type.
        offers: returns the publishers of a topic.
    """
    inside = f"{root}/"
    subscriptions: set[WantedSubscription] = set()
    for topic, kind in ((topic, kind) for topic, kinds in announced for kind in kinds):
        canonical = f"/{topic.removeprefix(inside)}"
        if topic.startswith(inside) and wanted(canonical, kind):
            same = [offer for offer in offers(topic) if offer.type == kind]
            # Who requests latched or reliable messages receives nothing from publishers without.
            asked = all(offer.latched for offer in same), all(offer.reliable for offer in same)
            subscriptions |= {WantedSubscription(topic, kind, canonical, *asked)} if same else set()
    return subscriptions
