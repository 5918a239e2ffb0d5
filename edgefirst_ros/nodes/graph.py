"""The ROS graph as a node sees it: publishers and what they offer, installed types and their definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
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
_BUILT_IN = re.compile(r"(bool|byte|char|float32|float64|u?int(8|16|32|64)|w?string)\b")


class RosGraph:
    """Queries the graph for a node.

    Args:
        node: whose view of the graph this is.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._classes: dict[str, Any] = {}

    def topics(self) -> list[tuple[str, list[str]]]:
        """Names and types of all topics."""
        found: list[tuple[str, list[str]]] = self._node.get_topic_names_and_types()
        return found

    def publishers(self, topic: str) -> list[Any]:
        """Rclpy's TopicEndpointInfo of every publisher."""
        found: list[Any] = self._node.get_publishers_info_by_topic(topic)
        return found

    def offers(self, topic: str) -> list[Offer]:
        """What the publishers of a topic offer."""
        return [_offer(info) for info in self.publishers(topic)]

    def senders(self, topic: str) -> tuple[list[str], set[str]]:
        """Full names of the nodes that publish a topic, in order, each as often as it does; and the types."""
        infos = self.publishers(topic)
        names = (f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in infos)
        return sorted(names), {info.topic_type for info in infos}

    def is_own(self, topic: str) -> bool:
        """Whether a topic is private to this node, as its previews are."""
        return topic.startswith(f"{self._node.get_fully_qualified_name()}/")

    def published(self, names: Iterable[str], *, patterns: bool) -> list[str]:
        """Published topics whose name ends in one of ``names``, with ``patterns`` all; none is a preview."""
        tails = tuple(f"/{name.strip('/')}" for name in names)
        found = (t for t, _ in self.topics() if patterns or t.endswith(tails))
        return [t for t in found if "/preview/" not in t and not self.is_own(t) and self.offers(t)]

    def offered_qos(self, topic: str) -> str:
        """The QoS of a topic's publishers as a recording stores it; empty if there is no publisher."""
        return "\n".join(dict.fromkeys(_stored_qos(info.qos_profile) for info in self.publishers(topic)))

    def message_class(self, kind: str) -> Any:  # noqa: ANN401 - a generated message class, or None
        """The class of ``pkg/msg/Type``, None if its package is not installed."""
        if kind not in self._classes:
            try:
                self._classes[kind] = get_message(kind)
            except (ImportError, AttributeError, ValueError):
                self._classes[kind] = None
        return self._classes[kind]

    def is_installed(self, kind: str) -> bool:
        """Whether a message type is available on this machine."""
        return self.message_class(kind) is not None


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
    while waiting:
        name = waiting.pop(0)
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
        fields = (line.partition("#")[0].split() for line in text.splitlines())
        used = [
            each[0].partition("[")[0] for each in fields if len(each) > 1 and not _BUILT_IN.match(each[0])
        ]
        full = (each if "/" in each else f"{name.partition('/')[0]}/{each}" for each in used)
        waiting += [f"{each.partition('/')[0]}/msg/{each.rpartition('/')[2]}" for each in full]
    return "".join(found.values())
