"""The ROS graph as a node sees it: publishers and what they offer, installed types and their definitions."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosidl_runtime_py import get_interface_path
from rosidl_runtime_py.utilities import get_message

from edgefirst_ros.live.recordingfile import qos_text
from edgefirst_ros.model.definitions import definition, short_name
from edgefirst_ros.nodes.discovery import Offer

_SEPARATOR = "=" * 80
_NESTED = re.compile(r"(\w+)/(\w+)")
"""A message's type among the types of fields, which may be ``sequence<pkg/Type, 5>``."""


@dataclass(frozen=True, slots=True)
class RosGraph:
    """Queries the graph for a node."""

    node: Node

    def published(self) -> dict[str, list[str]]:
        """Types of all topics that have a publisher, but for previews."""
        own = f"{self.node.get_fully_qualified_name()}/"
        found = ((t, kinds) for t, kinds in self.node.get_topic_names_and_types() if not t.startswith(own))
        return {t: k for t, k in found if "/preview/" not in t and self.node.count_publishers(t)}

    def publishers(self, topic: str) -> list[Any]:
        """Rclpy's TopicEndpointInfo of every publisher."""
        found: list[Any] = self.node.get_publishers_info_by_topic(topic)
        return found

    def offers(self, topic: str) -> list[Offer]:
        """What the publishers of a topic offer."""
        return [_offer(info) for info in self.publishers(topic)]

    def senders(self, topic: str) -> tuple[list[str], set[str]]:
        """Full names of the nodes that publish a topic, in order, each as often as it does; and the types."""
        infos = self.publishers(topic)
        names = (f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos)
        return sorted(names), {info.topic_type for info in infos}

    def offered_qos(self, topic: str) -> str:
        """The QoS of a topic's publishers as a recording stores it; empty if there is no publisher."""
        return "\n".join(dict.fromkeys(_stored_qos(info.qos_profile) for info in self.publishers(topic)))


@cache
def message_class(kind: str) -> Any:  # noqa: ANN401 - a generated message class, or None
    """The class of ``pkg/msg/Type``, None if its package is not installed."""
    with suppress(ImportError, AttributeError, ValueError):
        return get_message(kind)
    return None


def receiving_qos(depth: int, *, latched: bool, reliable: bool) -> QoSProfile:
    """What is asked for; publishers that do not offer it are not received."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def _offer(info: Any) -> Offer:  # noqa: ANN401 - rclpy's TopicEndpointInfo, untyped
    reliable = info.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    latched = info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return Offer(info.topic_type, latched and reliable, reliable)


def _stored_qos(offered: QoSProfile) -> str:
    return qos_text(
        depth=offered.depth or 10,  # not every middleware reports it
        reliable=offered.reliability != ReliabilityPolicy.BEST_EFFORT,
        latched=offered.durability == DurabilityPolicy.TRANSIENT_LOCAL,
        keep_all=offered.history == HistoryPolicy.KEEP_ALL,
    )


@cache
def definition_of(kind: str) -> str:
    """The definition of ``pkg/msg/Type`` with all types it uses, as in MCAP; empty if one is missing."""
    with suppress(KeyError):
        return definition(kind)
    found: dict[str, str] = {}
    waiting = [kind]
    for name in waiting:
        if name in found:
            continue
        try:
            path = Path(get_interface_path(name))
            text = path.read_text(encoding="utf-8").rstrip() if path.suffix == ".msg" else ""
        except (LookupError, ValueError, OSError):
            text = ""
        if not text:
            return ""
        found[name] = f"{_SEPARATOR}\nMSG: {short_name(name)}\n" * bool(found) + f"{text}\n"
        used = _NESTED.findall(" ".join(message_class(name).get_fields_and_field_types().values()))
        waiting += [f"{package}/msg/{each}" for package, each in used]
    return "".join(found.values())
