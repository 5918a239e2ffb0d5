"""Which topic of a recording is what: generations of names, prefixes, types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgefirst_ros.config import Config, TopicRule
from edgefirst_ros.errors import ConfigError
from edgefirst_ros.sample import Role

_CLOUD = ("sensor_msgs/msg/PointCloud2",)
_IMAGE = ("sensor_msgs/msg/Image",)
TF = "tf2_msgs/msg/TFMessage"
_DEPTH = (*_IMAGE, "sensor_msgs/msg/CompressedImage")

TYPES: Mapping[Role, tuple[str, ...]] = {
    Role.CAMERA: (
        "foxglove_msgs/msg/CompressedVideo",
        "ffmpeg_image_transport_msgs/msg/FFMPEGPacket",
        "sensor_msgs/msg/CompressedImage",
        "foxglove_msgs/msg/CompressedImage",
        *_IMAGE,
    ),
    Role.CAMERA_INFO: ("sensor_msgs/msg/CameraInfo",),
    Role.RADAR_TARGETS: _CLOUD,
    Role.RADAR_CLUSTERS: _CLOUD,
    Role.RADAR_CUBE: ("edgefirst_msgs/msg/RadarCube",),
    Role.RADAR_INFO: ("edgefirst_msgs/msg/RadarInfo",),
    Role.LIDAR_POINTS: _CLOUD,
    Role.LIDAR_CLUSTERS: _CLOUD,
    Role.LIDAR_DEPTH: _DEPTH,
    Role.LIDAR_REFLECT: _IMAGE,
    Role.DEPTH: _DEPTH,
    Role.IMU: ("sensor_msgs/msg/Imu",),
    Role.GPS: ("sensor_msgs/msg/NavSatFix",),
    Role.ODOMETRY: ("nav_msgs/msg/Odometry", TF),
    Role.TF: ("geometry_msgs/msg/TransformStamped", TF),
    Role.MODEL: ("edgefirst_msgs/msg/Model", "edgefirst_msgs/msg/Detect"),
    Role.MODEL_INFO: ("edgefirst_msgs/msg/ModelInfo",),
    Role.MASK: ("edgefirst_msgs/msg/Mask",),
    Role.BOXES_3D: ("edgefirst_msgs/msg/Detect",),
    Role.FUSION_RADAR: _CLOUD,
    Role.FUSION_LIDAR: _CLOUD,
}
"""Message types a role may have; any other type on its topic is refused."""

CONTEXT_ROLES = frozenset({Role.CAMERA_INFO, Role.RADAR_INFO, Role.TF, Role.MODEL_INFO})
"""Read for what they say about the others; their time matters little."""
EGO_ROLES = frozenset({Role.IMU, Role.GPS, Role.ODOMETRY})
COMPANION_ROLES = frozenset(Role) - CONTEXT_ROLES - EGO_ROLES
SHOWN_TOPICS = 12
"""So many are named in a message, so that it stays readable."""


def full_type(schema: str) -> str:
    """``pkg/Type`` as ``pkg/msg/Type``; recorders write either."""
    package, _, name = schema.partition("/")
    return schema if "/" in name or not name else f"{package}/msg/{name}"


@dataclass(frozen=True, slots=True)
class Route:
    """What a topic on the wire is used for."""

    topic: str
    name: str
    rule: TopicRule


def _prefix_of(topic: str, relative: str) -> str | None:
    bare, relative = topic.strip("/"), relative.strip("/")
    if bare == relative:
        return ""
    return bare.removesuffix("/" + relative) if bare.endswith("/" + relative) else None


def find_prefix(topics: Iterable[str], config: Config) -> str:
    """The device's topic prefix, if the names leave no doubt.

    Bare names and ``rt/`` may mix: one generation of the device does so.

    Raises:
        ConfigError: if two devices are as likely; the message names their prefixes.
    """
    if config.prefix is not None:
        return config.prefix.strip("/")
    known = list(topics)
    votes: Counter[str] = Counter()
    for rule in config.topics.values():
        if not rule.topic or rule.topic.startswith("/"):
            continue
        votes.update({p for t in known if (p := _prefix_of(t, rule.topic)) is not None})
    if votes["rt"] and votes[""]:
        votes["rt"] += votes.pop("")
    ranked = votes.most_common()
    if not ranked:
        return ""
    tied = sorted(prefix for prefix, count in ranked if count == ranked[0][1])
    if len(tied) > 1:
        shown = ", ".join(repr(p) for p in tied)
        raise ConfigError([f"topics of more than one device: prefixes {shown}; choose one with --prefix"])
    return tied[0]


class TopicMap:
    """Routes from names on the wire to the configuration's rules, under one prefix."""

    def __init__(self, config: Config, prefix: str) -> None:
        self.prefix = prefix
        self._routes: dict[str, tuple[str, TopicRule]] = {}
        for name, rule in config.topics.items():
            if not rule.topic:
                continue
            bare = rule.topic.strip("/")
            if rule.topic.startswith("/"):
                self._routes[bare] = (name, rule)
                continue
            self._routes[f"{prefix}/{bare}" if prefix else bare] = (name, rule)
            if prefix == "rt":
                self._routes.setdefault(bare, (name, rule))

    def route(self, topic: str) -> Route | None:
        """The route of a topic, None if the configuration has no use for it."""
        found = self._routes.get(topic.strip("/"))
        return None if found is None else Route(topic, *found)


def choose_reference(config: Config, topics: Iterable[str], routes: TopicMap) -> tuple[Role, frozenset[str]]:
    """The reference's role and its topics: one, or the four tiles of one picture.

    ``config.reference`` is a topic, an entry of ``topics`` or a role. Of several topics with that role the
    first in the configuration's order that is present wins.

    Raises:
        ConfigError: if nothing in the recording fits; the message lists what there is.
    """
    wanted = config.reference.strip("/")
    known = list(topics)
    present = [r for t in known if (r := routes.route(t)) is not None]
    order = list(config.topics)
    matches = sorted(
        (
            r
            for r in present
            if r.rule.role in COMPANION_ROLES
            and wanted in (r.topic.strip("/"), r.rule.topic.strip("/"), r.name, r.rule.role)
        ),
        key=lambda r: order.index(r.name),
    )
    if not matches:
        usable = ", ".join(sorted(r.topic for r in present if r.rule.role in COMPANION_ROLES))
        head = f"no topic for the reference {config.reference!r}"
        if usable:
            raise ConfigError([f"{head}; name one with --reference: {usable}"])
        under = f" with the prefix {routes.prefix!r}" if routes.prefix else ""
        there = ", ".join(sorted(known)[:SHOWN_TOPICS]) + ", …" * (len(known) > SHOWN_TOPICS)
        raise ConfigError([f"{head}, nor any other that could be one{under}; there are: {there or 'none'}"])
    first = matches[0]
    if not first.rule.tile:
        return first.rule.role, frozenset({first.topic})
    tiles = frozenset(r.topic for r in present if r.rule.tile and r.rule.role is first.rule.role)
    return first.rule.role, tiles
