"""Hints for configured topics and roles that received nothing: which other topics could be used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from edgefirst_ros.config.model import MAIVIN_TOPICS, Config, TopicRule
from edgefirst_ros.config.topics import CONTEXT_ROLES, EGO_ROLES, TF, TYPES, TopicMap, full_type, refers_to
from edgefirst_ros.model.sample import Role

SIMILAR = 0.6
"""Names at least this similar (0 to 1) give a hint for a role that the user has not configured."""
SHOWN = 3
"""A hint names at most this many topics."""
MOST_COMPARED = 256
"""Topics whose names are compared with those of a role; there are more on no robot."""
RAW_PACKETS = {
    "velodyne_msgs/msg/VelodyneScan": "velodyne_pointcloud",
    "ouster_sensor_msgs/msg/PacketMsg": "ouster_ros",
    "ouster_ros/msg/PacketMsg": "ouster_ros",
    "pandar_msgs/msg/PandarScan": "hesai_ros_driver",
    "hesai_ros_driver/msg/UdpFrame": "hesai_ros_driver",
    "rslidar_msg/msg/RslidarPacket": "rslidar_sdk",
}
"""Types of a lidar's network packets, and the ROS driver that makes clouds of them."""
FIRST_S = 5.0
"""How long a live session waits for its topics before it gives hints."""


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic that exists, with its type; ``trouble`` is why it cannot be used, empty if nothing is known."""

    topic: str
    type: str
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """A sentence about a role that received nothing; if ``is_reference``, there are no samples without it."""

    role: Role
    text: str
    is_reference: bool


def find_hints(
    config: Config, seen: Iterable[ExistingTopic], *, used: Mapping[str, str], heard: Collection[Role]
) -> list[Hint]:
    """Hints for configured topics without messages, the reference first.

    Args:
        config: the configuration.
        seen: all topics that are known to exist, used or not.
        used: for each topic that is used, the name of its entry in ``config.topics``.
        heard: roles with usable messages.
    """
    wanted = config.reference.strip("/")
    named = {name: rule for name, rule in config.topics.items() if rule.names and rule.role not in heard}
    references = [name for name, rule in named.items() if refers_to(wanted, name, rule)]
    order = sorted(named, key=lambda name: (name not in references, MAIVIN_TOPICS.get(name) == named[name]))
    free = {each.topic: each for each in seen}
    found: list[Hint] = []
    for role in dict.fromkeys(named[name].role for name in order):
        entries = {name: named[name] for name in order if named[name].role is role}
        is_reference = bool(references) and named[references[0]].role is role
        unusable = _unusable(entries, free, used)
        if not unusable and role in EGO_ROLES and EGO_ROLES & set(heard):
            continue
        text = unusable or _alternatives(
            config, entries, [s for s in free.values() if s.topic not in used], is_reference
        )
        if text:
            found.append(Hint(role, text, is_reference))
    return found


def explicit_entries(config: Config) -> frozenset[str]:
    """Entries of ``config.topics`` that differ from the defaults, which are the device's topics."""
    return frozenset(name for name, rule in config.topics.items() if MAIVIN_TOPICS.get(name) != rule)


def missing_topics(
    config: Config, routes: TopicMap, topics: Mapping[str, Mapping[str, Any]], *, known: bool
) -> list[str]:
    """A sentence for each topic that the configuration names and of which nothing came, with similar names.

    None for a default topic in whose place another one of its role came, or for one of the sources of poses
    if there is another.

    Args:
        config: the configuration.
        routes: where topics go.
        topics: those that came, with their accounts (see ``report.accounts``).
        known: whether calibration was known from before, which may have been sent once only.
    """
    came = {topic for topic, account in topics.items() if account["received"]}
    found = {topic: route for topic in came if (route := routes.route(topic)) is not None}
    heard = {route.name for route in found.values()}
    roles = {route.rule.role for route in found.values()}
    texts: list[str] = []
    for name in (entry for entry in config.topics if entry in config.named and entry not in heard):
        rule, default = config.topics[name], MAIVIN_TOPICS.get(name)
        is_default = default is not None and default.topic == rule.topic
        others = {Role.GPS} if rule.role is Role.ODOMETRY else {Role.ODOMETRY}
        is_replaced = (is_default and rule.role in roles) or (
            rule.role in EGO_ROLES and not others.isdisjoint(roles)
        )
        if is_replaced or (known and rule.role in CONTEXT_ROLES):
            continue
        ranked = sorted((-max(_similarity(topic, each) for each in rule.names), topic) for topic in came)
        near = [topic for similarity, topic in ranked if -similarity >= SIMILAR][:SHOWN]
        texts.append(
            f"topics.{name}: nothing came on {rule.topic}"
            + (f"; similar names: {', '.join(near)}" if near else ", nor on a topic of a similar name")
        )
    return texts


def _unusable(
    entries: Mapping[str, TopicRule], seen: Mapping[str, ExistingTopic], used: Mapping[str, str]
) -> str:
    """Says why a topic of the right name cannot be used; empty if there is none."""
    for topic, entry in used.items():
        each, rule = seen.get(topic), entries.get(entry)
        if each is None or rule is None:
            continue
        kinds = TYPES[rule.role]
        if each.type and full_type(each.type) not in kinds:
            return f"{topic} is there but of type {each.type}; supported: {', '.join(kinds)}"
        if each.trouble:
            return f"{topic} is there but {each.trouble}"
    return ""


def _alternatives(
    config: Config, entries: Mapping[str, TopicRule], seen: Iterable[ExistingTopic], is_reference: bool
) -> str:
    """Names topics of other names that the role could use; empty if there are none."""
    seen = list(seen)
    packets = next((each for each in seen if full_type(each.type) in RAW_PACKETS), None)
    if packets is not None and any(rule.role is Role.LIDAR_POINTS for rule in entries.values()):
        kind = full_type(packets.type)
        return (
            f"{packets.topic} has a lidar's raw packets ({kind}), which only its driver reads: run "
            f"{RAW_PACKETS[kind]} on them and record its sensor_msgs/msg/PointCloud2"
        )
    entry, rule = next(iter(entries.items()))
    is_wanted = is_reference or not explicit_entries(config).isdisjoint(entries)
    ranked: list[tuple[float, ExistingTopic]] = []
    fitting = (each for each in seen if full_type(each.type) in TYPES[rule.role])
    for each in islice(fitting, MOST_COMPARED):
        similarity = max(_similarity(each.topic, name) for r in entries.values() for name in r.names)
        likely = _likely_role(each)
        exclusive = sum(full_type(each.type) in kinds for kinds in TYPES.values()) == 1
        fits = likely is rule.role and (exclusive or similarity >= SIMILAR)
        if fits or (is_wanted and likely in {rule.role, None}) or (is_reference and similarity >= SIMILAR):
            ranked.append((-similarity, each))
    ranked.sort(key=lambda pair: (pair[0], pair[1].topic))
    if not ranked:
        return ""
    shown = [each for _, each in ranked[:SHOWN]]
    there = ", ".join(f"{each.topic} ({full_type(each.type)})" for each in shown)
    there += ", …" * (len(ranked) > SHOWN) + (" is there" if len(shown) == 1 else " are there")
    return f"{there}; topics.{entry}.topic is {rule.topic}{_other_prefix(config, rule, shown[0].topic)}"


def _other_prefix(config: Config, rule: TopicRule, topic: str) -> str:
    """Says that a topic's name differs in the prefix only; empty if it does not."""
    for name in rule.plain_names:
        tail = "/" + name.strip("/")
        if topic.endswith(tail) and topic.strip("/") != name.strip("/"):
            place = topic.removesuffix(tail)
            if not name.startswith("/") and config.prefix is not None:
                return f", and prefix is {config.prefix!r}, not {place.strip('/')!r}"
            return f": the same name in the namespace {place}"
    return ""


def _similarity(topic: str, name: str) -> float:
    """Similarity of two names, 0 to 1; it is 1 if one is the other with a prefix."""
    one, other = topic.strip("/"), name.strip("/")
    if one.endswith("/" + other) or other.endswith("/" + one):
        return 1.0
    return SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio()


def _likely_role(seen: ExistingTopic) -> Role | None:
    """The most likely role of a topic, by its type and the words in its name; None if there is none."""
    name, kind = seen.topic.lower(), full_type(seen.type)
    if kind == TF:
        return Role.TF if name.endswith("tf_static") else None
    if kind in TYPES[Role.LIDAR_POINTS]:
        is_clustered, is_fused = "cluster" in name, "fusion" in name
        if "radar" in name:
            plain = Role.RADAR_CLUSTERS if is_clustered else Role.RADAR_TARGETS
            return Role.FUSION_RADAR if is_fused else plain
        plain = Role.LIDAR_CLUSTERS if is_clustered else Role.LIDAR_POINTS
        return Role.FUSION_LIDAR if is_fused else plain
    if kind in TYPES[Role.CAMERA]:
        if "depth" in name:
            return Role.LIDAR_DEPTH if "lidar" in name else Role.DEPTH
        return Role.LIDAR_REFLECT if "lidar" in name else Role.CAMERA
    return next((role for role, kinds in TYPES.items() if kind in kinds), None)


def hints_of(
    config: Config,
    routes: TopicMap,
    topics: Mapping[str, Mapping[str, Any]],
    around: Iterable[ExistingTopic] = (),
) -> list[Hint]:
    """Hints from the ledger's counts by topic (see ``report.accounts``) and from other topics that exist."""
    seen = {each.topic: each for each in around}
    used: dict[str, str] = {each.topic: r.name for each in seen.values() if (r := routes.route(each.topic))}
    heard: set[Role] = set()
    for topic, account in topics.items():
        seen.setdefault(topic, ExistingTopic(topic, account["type"]))
        route = routes.route(topic)
        if route is None:
            continue
        used[topic] = route.name
        if account["received"] > account["refused"] and not route.replaced_by:
            heard.add(route.rule.role)
    return find_hints(config, seen.values(), used=used, heard=heard)
