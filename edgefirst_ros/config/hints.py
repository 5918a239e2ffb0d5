"""Configured topics of which nothing came: why, and which other topics may be meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from edgefirst_ros.config.model import MAIVIN_TOPICS, Config, TopicRule
from edgefirst_ros.config.topics import (
    CONTEXT_ROLES,
    OFTEN_OTHER,
    TYPES,
    Route,
    TopicMap,
    full_type,
    refers_to,
)
from edgefirst_ros.model.reasons import Code, Finding, Severity
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
    "ouster_msgs/msg/PacketMsg": "ros2_ouster",
    "ouster_ros/msg/PacketMsg": "ouster_ros",
    "pandar_msgs/msg/PandarScan": "nebula_ros",
    "nebula_msgs/msg/NebulaPackets": "nebula_ros",
    "hesai_ros_driver/msg/UdpFrame": "hesai_ros_driver",
    "rslidar_msg/msg/RslidarPacket": "rslidar_sdk",
}
"""Types of a lidar's network packets, and the ROS driver that makes clouds of them."""
OWN_CLOUDS = {
    "livox_ros_driver2/msg/CustomMsg": "livox_ros_driver2 (xfer_format: 0)",
    "livox_ros_driver/msg/CustomMsg": "livox_ros_driver (xfer_format: 0)",
    "livox_interfaces/msg/CustomMsg": "livox_ros2_driver (xfer_format: 0)",
}
"""Types of a maker's own for clouds, and the ROS driver that sends usual ones instead."""
_STAND_IN: Mapping[Role, Role] = {
    Role.ODOMETRY: Role.GPS, Role.GPS: Role.ODOMETRY, Role.IMU: Role.ODOMETRY,
}  # fmt: skip
"""Sources of poses that are not missed where another one came."""


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic that exists, with its type; ``trouble`` is why it cannot be used, empty if nothing is known."""

    topic: str
    type: str
    trouble: str = ""


def absences(
    config: Config,
    routes: TopicMap,
    topics: Mapping[str, Mapping[str, Any]],
    around: Iterable[ExistingTopic] = (),
    *,
    known: bool = False,
) -> list[Finding]:
    """What is to be said of configured topics of which nothing usable came, the reference first.

    A finding's topics are the configured one, and after it those that may be meant. It is an error if there
    are no samples without it, a warning if the user named the topic, else a note.

    Args:
        config: the configuration.
        routes: where topics go.
        topics: those that came, with their accounts (see ``report.accounts``).
        around: others that exist.
        known: whether calibration was known from before, which may have been sent once only.
    """
    there = {topic: ExistingTopic(topic, account["type"]) for topic, account in topics.items()}
    there |= {each.topic: each for each in around}
    used = {topic: route for topic in there if (route := routes.route(topic)) is not None}
    counts = [(used[topic], account) for topic, account in topics.items() if topic in used]
    came = {route.name for route, account in counts if account["received"]}
    sent = [topic for topic, account in topics.items() if account["received"]]
    came |= {name for name, rule in config.topics.items() if any(routes.is_named(t, rule) for t in sent)}
    usable = (route for route, account in counts if account["received"] > account["refused"])
    heard = {route.name for route in usable if not route.replaced_by}
    free = [each for each in there.values() if each.topic not in used]
    wanted = config.reference.strip("/")
    references = {
        name for name, rule in config.topics.items() if rule.names and refers_to(wanted, name, rule)
    }
    roles = {config.topics[name].role for name in heard}
    is_lost = references.isdisjoint(heard)
    none_yet = Finding(Code.NO_REFERENCE, f"no {config.reference} yet", (wanted,))
    found = [none_yet] if is_lost else []
    for entries in _unheard(config, references, came, roles):
        (name, rule), *_ = entries.items()
        if known and rule.role in CONTEXT_ROLES:
            continue
        is_reference = is_lost and not references.isdisjoint(entries)
        asked = [each for each in entries if each in config.named and each not in came]
        severity = Severity.ERROR if is_reference else Severity.WARNING if asked else Severity.NOTE
        said = _unusable(entries, there, used)
        if said is None and _STAND_IN.get(rule.role) in roles:
            continue
        said = said or _alternative(config, entries, free, is_reference=is_reference)
        if said is not None:
            found.append(replace(said, severity=severity))
        missing = (each for each in asked if said is None or each != name)
        found += [_missing(each, entries[each], there.values(), severity) for each in missing]
    return sorted(found, key=lambda each: -each.severity)


def _unheard(
    config: Config, references: set[str], came: set[str], roles: Collection[Role]
) -> Iterator[dict[str, TopicRule]]:
    """Entries of which nothing came: those of a role together; of a role that came, each that is named."""
    order = sorted(
        config.topics.items(),
        key=lambda item: (item[0] not in references, MAIVIN_TOPICS.get(item[0]) == item[1]),
    )
    by_role: dict[Role, dict[str, TopicRule]] = {}
    for name, rule in order:
        default = MAIVIN_TOPICS.get(name)
        if rule.names and rule.role not in roles:
            by_role.setdefault(rule.role, {})[name] = rule
        elif (
            name in config.named - came
            and rule.role is not Role.ODOMETRY  # of which one is enough
            and (default is None or default.topic != rule.topic)
        ):
            yield {name: rule}
    yield from by_role.values()


def _missing(entry: str, rule: TopicRule, there: Iterable[ExistingTopic], severity: Severity) -> Finding:
    """Nothing came, and nothing else fits: which names are similar."""
    near = sorted((-_similarity(each.topic, name), each.topic) for each in there for name in rule.names)
    names = tuple(dict.fromkeys(topic for similarity, topic in near if -similarity >= SIMILAR))[:SHOWN]
    similar = f"; similar names: {', '.join(names)}" if names else ", nor on a topic of a similar name"
    text = f"topics.{entry}: nothing came on {rule.topic}{similar}"
    return Finding(Code.MISSING, text, (rule.topic, *names), severity=severity)


def _unusable(
    entries: Mapping[str, TopicRule], there: Mapping[str, ExistingTopic], used: Mapping[str, Route]
) -> Finding | None:
    """Why a topic of the right name cannot be used; None if there is none."""
    for topic, route in used.items():
        each, kinds = there[topic], TYPES[route.rule.role]
        if route.name not in entries:
            continue
        text = f"{topic} is there but {each.trouble}" if each.trouble else ""
        if each.type and full_type(each.type) not in kinds:
            text = f"{topic} is there but of type {each.type}; supported: {', '.join(kinds)}"
        if text:
            return Finding(Code.UNUSABLE, text, (route.rule.topic, topic))
    return None


def _alternative(
    config: Config, entries: Mapping[str, TopicRule], free: Iterable[ExistingTopic], *, is_reference: bool
) -> Finding | None:
    """Topics of other names that the role could use; None if there are none."""
    free = list(free)
    (entry, rule), *_ = entries.items()
    packets = next((each for each in free if packet_advice(each.type)), None)
    if packets is not None and rule.role is Role.LIDAR_POINTS:
        text = f"{packets.topic} has {packet_advice(packets.type)} ({full_type(packets.type)})"
        return Finding(Code.RAW_PACKETS, text, (rule.topic, packets.topic))
    is_wanted = is_reference or not config.named.isdisjoint(entries)
    ranked: list[tuple[float, str, str]] = []
    fitting = (each for each in free if full_type(each.type) in TYPES[rule.role])
    for each in islice(fitting, MOST_COMPARED):
        similarity = max(_similarity(each.topic, name) for r in entries.values() for name in r.names)
        likely = likely_role(each)
        exclusive = sum(full_type(each.type) in kinds for kinds in TYPES.values()) == 1
        fits = likely is rule.role and (exclusive or similarity >= SIMILAR)
        if fits or (is_wanted and likely in {rule.role, None}) or (is_reference and similarity >= SIMILAR):
            ranked.append((-similarity, each.topic, full_type(each.type)))
    shown = sorted(ranked)[:SHOWN]
    if not shown:
        return None
    text = ", ".join(f"{topic} ({kind})" for _, topic, kind in shown)
    text += ", …" * (len(ranked) > SHOWN) + (" is there" if len(shown) == 1 else " are there")
    text += f"; topics.{entry}.topic is {rule.topic}{_other_prefix(config, rule, shown[0][1])}"
    return Finding(Code.OTHER_NAME, text, (rule.topic, *(topic for _, topic, _ in shown)))


def packet_advice(schema: str) -> str:
    """What a topic of a lidar's own messages holds, and what to do; empty of any other type."""
    kind, record = full_type(schema), "record its sensor_msgs/msg/PointCloud2"
    if kind in RAW_PACKETS:
        driver = RAW_PACKETS[kind]
        return f"a lidar's raw packets, which only its driver reads: run {driver} on them and {record}"
    if kind in OWN_CLOUDS:
        return f"points in a message of the lidar's maker: run {OWN_CLOUDS[kind]} and {record}"
    return ""


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


def likely_role(seen: ExistingTopic) -> Role | None:
    """The most likely role of a topic, by its type and the words in its name; None if there is none."""
    name, kind = seen.topic.lower(), full_type(seen.type)
    if kind in OFTEN_OTHER:
        role, ending = OFTEN_OTHER[kind]
        return role if name.endswith(ending) else None
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


OF_CAMERAS = re.compile(r"camera|realsense|zed|oak")
"""Names of what has an IMU that is for its pictures, not for the rig."""


def devices_of(topics: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The devices on a vehicle, by what their topics begin with, where there are several.

    Each has a camera, lidar or radar and an IMU of its own, as a Raivin has, and nothing else tells of
    motion. What is called a camera is none: its IMU is for its pictures.
    """
    sensing, moving = set[str](), set[str]()
    for topic, kind in topics:
        role = likely_role(ExistingTopic(topic, full_type(kind)))
        if role in {Role.CAMERA, Role.LIDAR_POINTS, Role.RADAR_TARGETS}:
            sensing.add(first_part(topic))
        elif role in {Role.IMU, Role.ODOMETRY}:
            moving.add(first_part(topic))
    is_rig = len(moving) > 1 and moving <= sensing and not any(OF_CAMERAS.search(each) for each in moving)
    return frozenset(moving) if is_rig else frozenset()


def first_part(topic: str) -> str:
    """The first part of a topic's namespace, "" if it has none."""
    return topic.strip("/").partition("/")[0] if "/" in topic.strip("/") else ""
