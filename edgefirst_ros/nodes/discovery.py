"""Which subscriptions a capture should have, from what the graph offers; knows nothing of rclpy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.nodes.candidates import Candidates, Offer, Place, choice_of
from edgefirst_ros.sample import Role
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES, TYPES

STALL_S = 2.0
"""So long nothing may be lost that the middleware delivers while nobody takes it."""
DEPTH, DEPTH_STREAM, DEPTH_SMALL, DEPTH_MOST = 60, 120, 1000, 10_000
"""Messages kept at least: of pictures and clouds, which have megabytes (30 Hz); of compressed pictures
(60 Hz); of what has less than a kilobyte (500 Hz, or the bunch of a bridge). And at most of any topic."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A subscription that should exist.

    ``topic`` is the full name in the graph, ``canonical`` the name that the pipeline gets: without the
    device's prefix, as recordings have it.
    """

    topic: str
    type: str
    canonical: str
    latched: bool = False
    depth: int = field(default=DEPTH, compare=False)
    """Messages that the middleware keeps while we are busy."""


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one entry of the configuration's topics."""

    entry: str
    topic: str
    announced: bool
    """Somebody publishes it."""
    problem: str = ""
    """Why it is not taken although somebody publishes it."""
    canonical: str = ""
    """The name that the pipeline gets."""
    latched: bool = False
    """Whoever publishes it keeps what was said last: it may be said once."""
    fitting: tuple[str, ...] = ()
    """Where several topics may fit: those that do, the one taken first."""
    note: str = ""
    """Which of several topics is taken, and why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a look at the graph came to."""

    prefix: str
    feeds: frozenset[Feed]
    found: tuple[Found, ...]
    problem: str = ""


def expected_type(rule: TopicRule) -> str:
    """The type that the device sends on a topic, for topics that nobody announces."""
    name = rule.plain_names[0] if rule.plain_names else ""
    if rule.role is Role.CAMERA and name.endswith(("jpeg", "compressed")):
        return "sensor_msgs/msg/CompressedImage"
    if rule.role is Role.CAMERA and name.endswith("ffmpeg"):
        return "ffmpeg_image_transport_msgs/msg/FFMPEGPacket"
    if rule.role in (Role.DEPTH, Role.LIDAR_DEPTH) and name.endswith("compressedDepth"):
        return "sensor_msgs/msg/CompressedImage"
    if rule.role is Role.MODEL and name.endswith("boxes2d"):
        return "edgefirst_msgs/msg/Detect"
    return TYPES[rule.role][0]


def history_depth(rule: TopicRule, kind: str) -> int:
    """Messages of a topic that last ``STALL_S`` at its expected rate, and at any usual for its kind."""
    if rule.role in EGO_ROLES | CONTEXT_ROLES:
        least = DEPTH_SMALL
    elif rule.role is Role.CAMERA and kind != "sensor_msgs/msg/Image":
        least = DEPTH_STREAM
    else:
        least = DEPTH
    return min(DEPTH_MOST, max(least, math.ceil(min(STALL_S * rule.expected_hz, DEPTH_MOST))))


def choose_prefix(config: Config, published: Iterable[str], namespace: str) -> tuple[str, str]:
    """The device's prefix within the node's namespace, and what is unclear about it.

    Bare names win over any prefix: another device's or robot's topics may be in the same graph.
    """
    if config.prefix is not None:
        return config.prefix.strip("/"), ""
    inside = namespace.rstrip("/") + "/"
    votes: Counter[str] = Counter()
    for topic in published:
        if not topic.startswith(inside):
            continue
        name = "/" + topic.removeprefix(inside)
        for rule in config.topics.values():
            for tail in ("/" + plain for plain in rule.plain_names if not plain.startswith("/")):
                if name.endswith(tail):
                    votes[name.removesuffix(tail).strip("/")] += 1
    if not votes or votes[""] or votes["rt"]:
        return "rt" if votes["rt"] else "", ""
    ranked = votes.most_common()
    tied = sorted(prefix for prefix, count in ranked if count == ranked[0][1])
    if len(tied) > 1:
        shown = ", ".join(tied)
        return "", f"topics of more than one device: {shown}; choose one with the parameter prefix"
    return tied[0], ""


def plan(
    config: Config,
    prefix: str,
    namespace: str,
    *,
    offers: Callable[[str], Sequence[Offer]],
    installed: Callable[[str], bool],
    resolve: Callable[[str], str] = lambda topic: topic,
    held: Collection[Feed] = (),
    unlisted: bool = True,
    published: Iterable[str] = (),
    before: Mapping[str, tuple[str, ...]] | None = None,
) -> Plan:
    """Subscriptions for every entry of the configuration's topics.

    ``offers`` tells who publishes a topic, ``installed`` whether a message type can be subscribed to here,
    ``resolve`` applies remappings. ``held`` subscriptions stay while nobody publishes, so that a publisher
    may die and return. With ``unlisted``, the device's topics are subscribed to before anybody announces
    them: a bridge makes a route only when there is a subscriber.

    Regular expressions are held against ``published`` names. What fits them is taken once it is what fitted
    at the last look (``before``, by entry), since a graph is discovered bit by bit, and the first by name is
    to be taken, not the first that was seen. What is taken stays.
    """
    feeds: set[Feed] = set()
    found: list[Found] = []
    kept: dict[str, set[Feed]] = {}
    for feed in held:
        kept.setdefault(feed.topic, set()).add(feed)
    look = Candidates(config, prefix, namespace, offers=offers, resolve=resolve, published=sorted(published))
    for entry, rule in config.topics.items():
        if not rule.names:
            continue
        places = look.places(rule)
        there = look.ranked(rule, places)
        if not there:
            first = places[0] if places else Place(rule.topic, rule.topic, (True, 0, 0, ""))
            found.append(Found(entry, first.topic, announced=False, canonical=first.canonical))
            held_before = [place.topic for place in places if place.topic in kept]
            if held_before:
                feeds |= kept[held_before[0]]
            elif unlisted and _is_device_topic(rule) and installed(expected_type(rule)):
                kind = expected_type(rule)
                feeds.add(Feed(first.topic, kind, first.canonical, depth=history_depth(rule, kind)))
            continue
        taken = next((place for place in there if place.topic in kept), there[0])
        fitting = tuple(place.topic for place in there) if rule.is_choice else ()
        wanted, problem = _match(rule, taken, look.offered(taken.topic), installed)
        if not rule.is_choice or taken.topic in kept or (before or {}).get(entry) == fitting:
            feeds |= wanted
        found.append(
            Found(
                entry,
                taken.topic,
                announced=True,
                problem=problem,
                latched=all(offer.latched for offer in look.offered(taken.topic)),
                canonical=taken.canonical,
                fitting=fitting,
                note=choice_of(entry, taken, there) if rule.is_choice else "",
            )
        )
    return Plan(prefix, frozenset(feeds), tuple(found))


def _is_device_topic(rule: TopicRule) -> bool:
    """Whether a device may publish it once somebody subscribes."""
    return bool(rule.plain_names) and not rule.plain_names[0].startswith("/")


def _match(
    rule: TopicRule, place: Place, offers: Sequence[Offer], installed: Callable[[str], bool]
) -> tuple[set[Feed], str]:
    """Feeds for what is offered on a topic, and why some or all of it cannot be taken."""
    feeds: set[Feed] = set()
    problems: list[str] = []
    by_type: Mapping[str, list[Offer]] = {
        kind: [o for o in offers if o.type == kind] for kind in sorted({o.type for o in offers})
    }
    for kind, same in by_type.items():
        if kind not in TYPES[rule.role]:
            problems.append(f"is {kind}, expected {' or '.join(TYPES[rule.role])}")
        elif not installed(kind):
            package = kind.partition("/")[0]
            problems.append(f"{kind} is not installed here; build {package} in the workspace")
        else:
            # Latched values are asked for where they say something that lasts: an old scan is of no use.
            # Where some keep them and some do not, no one subscription gets both.
            latched = {o.latched and rule.role in CONTEXT_ROLES for o in same}
            depth = history_depth(rule, kind)
            feeds |= {Feed(place.topic, kind, place.canonical, each, depth) for each in latched}
    return feeds, "; ".join(problems)
