"""The capture's subscriptions: raw, never blocking, kept in step with what the graph offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSCompatibility,
    QoSPolicyKind,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from rclpy.qos_overriding_options import QoSOverridingOptions
from rosidl_runtime_py.utilities import get_message

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.names import is_pattern
from edgefirst_ros.hints import Seen
from edgefirst_ros.live.recordingfile import qos_text
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.nodes.candidates import Offer
from edgefirst_ros.nodes.definitions import definition_of
from edgefirst_ros.nodes.discovery import Feed, Found, Plan, choose_prefix, plan
from edgefirst_ros.nodes.receipt import Receipt
from edgefirst_ros.nodes.statictransforms import SUFFIX, UNKNOWN
from edgefirst_ros.nodes.unused import unused_feeds
from edgefirst_ros.sources.choice import choice
from edgefirst_ros.topics import TF

PATIENT = 3
"""After so many looks without ``/clock`` that is told."""
_POLICIES = (
    QoSPolicyKind.RELIABILITY,
    QoSPolicyKind.DURABILITY,
    QoSPolicyKind.HISTORY,
    QoSPolicyKind.DEPTH,
)


class Subscriptions:
    """Subscribes to what the configuration wants as soon as it is there; ``look`` keeps up with the graph.

    Args:
        node: whose subscriptions these are; its namespace and remappings hold.
        config: which topics.
        put: takes each message, at once.
        simulated_ns: the time on ``/clock``, 0 while none has come; None while time is not simulated.
        depth: messages of a topic that the middleware keeps while we are busy; 0 for what each is due.
        unlisted: subscribe to the device's topics before anybody announces them.
        previewed: tells the topic that this node publishes transforms on for its previews, empty if none.
        record: takes messages of topics that are of no use, and that ``record_topics`` means; None for none.

    Attributes:
        offered: with what quality of service topics are published, by their names in recordings.
    """

    def __init__(
        self,
        node: Node,
        config: Config,
        put: Callable[[RawMessage], None],
        *,
        simulated_ns: Callable[[], int | None],
        depth: int,
        unlisted: bool,
        previewed: Callable[[], str] = str,
        record: Callable[[RawMessage], None] | None = None,
    ) -> None:
        self._node = node
        self._config = config
        self._put = put
        self._receipt = Receipt(simulated_ns)
        self._simulated_ns = simulated_ns
        self._looks = 0
        self._depth = depth
        self._unlisted = unlisted
        self._previewed = previewed
        self._record = record
        self._wanted = choice(config.record_topics)
        self._unused: dict[Feed, Any] = {}
        self.offered: dict[str, str] = {}
        self._subscriptions: dict[Feed, Any] = {}
        self._classes: dict[str, Any] = {}
        self._told: set[tuple[str, str]] = set()
        self._around: list[Seen] = []
        self.plan = Plan("", frozenset(), ())

    def look(self) -> Plan:
        """Look at the graph and subscribe, or no longer, accordingly; says once what stands in the way."""
        node = self._node
        published = self._published()
        prefix, unclear = choose_prefix(self._config, published, node.get_namespace())
        found = plan(
            self._config,
            prefix,
            node.get_namespace(),
            offers=self._offers,
            installed=lambda kind: self._message_class(kind) is not None,
            resolve=node.resolve_topic_name,
            held=self._subscriptions.keys(),
            unlisted=self._unlisted,
            published=published,
            before={each.entry: each.fitting for each in self.plan.found},
        )
        self.plan = Plan(found.prefix, found.feeds, found.found, unclear)
        for feed in self._subscriptions.keys() - found.feeds:
            node.destroy_subscription(self._subscriptions.pop(feed))
        for feed in sorted(
            found.feeds - self._subscriptions.keys(), key=lambda each: (each.topic, each.type)
        ):
            try:
                self._subscriptions[feed] = self._subscribe(feed)
            except Exception as error:  # noqa: BLE001 - some middlewares refuse two types on one topic
                self._tell(feed.topic, f"cannot be subscribed to as {feed.type}: {error}")
        self._around = self._look_around(found.found)
        self._tell("", unclear)
        self._look_at_clock()
        for each in found.found:
            self._tell(each.topic, each.problem)
            if each.note and ("", each.note) not in self._told:
                self._told.add(("", each.note))
                node.get_logger().info(each.note)
        if self._record is not None:
            self._look_for_unused(self._record, prefix)
        return self.plan

    def around(self) -> list[Seen]:
        """Topics of the graph, at the last look, of which nothing comes, and why if that is known."""
        return self._around

    def _look_around(self, found: Iterable[Found]) -> list[Seen]:
        taken: set[str] = set()
        seen: list[Seen] = []
        for each in found:
            taken.update((each.topic, *each.fitting))
            for info in self._node.get_publishers_info_by_topic(each.topic) if each.announced else ():
                trouble = self._incompatible(each.topic, info)
                if trouble or each.problem:
                    seen.append(Seen(each.canonical, info.topic_type, trouble or each.problem))
        everything = self._node.get_topic_names_and_types()
        seen += [
            Seen(topic, kind)
            for topic, kinds in everything
            if topic not in taken and not self._is_own(topic) and self._node.count_publishers(topic)
            for kind in kinds
        ]
        return seen

    def _incompatible(self, topic: str, offer: Any) -> str:  # noqa: ANN401 - rclpy's endpoint, untyped
        """Why our subscription gets nothing of a publisher, else empty."""
        asked = [s.qos_profile for feed, s in self._subscriptions.items() if feed.topic == topic]
        reasons = [qos_check_compatible(offer.qos_profile, qos) for qos in asked]
        if not reasons or any(verdict != QoSCompatibility.ERROR for verdict, _ in reasons):
            return ""
        return f"its publisher offers less than qos_overrides ask for: {reasons[0][1].strip().rstrip(';')}"

    def _look_for_unused(self, record: Callable[[RawMessage], None], prefix: str) -> None:
        """Subscribe to what only a recording takes, and find out how everything is offered."""
        node = self._node
        found = unused_feeds(
            node.get_topic_names_and_types(),
            used={feed.topic for feed in self.plan.feeds},
            own=node.get_fully_qualified_name(),
            root="/".join(part for part in (node.get_namespace().rstrip("/"), prefix) if part),
            anywhere=bool(self._config.record_topics),
            wanted=self._wanted,
            offers=self._foreign_offers,
            installed=lambda kind: self._message_class(kind) is not None,
        )
        # One whose publisher is gone stays, it may return; not one that is used from now on.
        used = {feed.topic for feed in self.plan.feeds}
        for feed in [each for each in self._unused if each.topic in used]:
            node.destroy_subscription(self._unused.pop(feed))
        held = {(feed.topic, feed.type) for feed in self._unused}
        for feed in sorted(found, key=lambda each: (each.topic, each.type)):
            if (feed.topic, feed.type) not in held:
                try:
                    self._unused[feed] = self._subscribe(feed, record, definition_of(feed.type))
                except Exception as error:  # noqa: BLE001 - some middlewares refuse two types on one topic
                    self._tell(feed.topic, f"cannot be recorded as {feed.type}: {error}")
        for feed in (*self.plan.feeds, *self._unused):
            if feed.canonical not in self.offered:
                infos = node.get_publishers_info_by_topic(feed.topic)
                texts = dict.fromkeys(_qos(info.qos_profile) for info in infos)
                if texts:
                    self.offered[feed.canonical] = "\n".join(texts)

    def hear_again(self) -> None:
        """Have publishers send their latched messages once more, as to somebody who comes late."""
        for feed, subscription in list(self._subscriptions.items()):
            if feed.latched:
                self._node.destroy_subscription(subscription)
                self._subscriptions[feed] = self._subscribe(feed)

    def close(self) -> None:
        """End every subscription."""
        for subscription in (*self._subscriptions.values(), *self._unused.values()):
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()
        self._unused.clear()
        self._receipt.close()

    def _look_at_clock(self) -> None:
        """Say that a simulation does not begin; what waited goes on with it, though nothing else comes."""
        simulated_ns = self._simulated_ns()
        if simulated_ns == 0:
            self._looks += 1
            if self._looks >= PATIENT:
                self._tell("/clock", "use_sim_time is true and no time has come: messages wait for it")
        elif simulated_ns is not None:
            self._receipt.release(simulated_ns)

    def _published(self) -> list[str]:
        """Topics that could be ours and that somebody else publishes."""
        rules = self._config.topics.values()
        tails = tuple(f"/{name.strip('/')}" for rule in rules for name in rule.plain_names)
        has_patterns = any(is_pattern(name) for rule in rules for name in rule.names)
        names = (
            name
            for name, _ in self._node.get_topic_names_and_types()
            if name.endswith(tails) or (has_patterns and not self._is_own(name))
        )
        return [name for name in names if self._offers(name)]

    def _is_own(self, topic: str) -> bool:
        """Whether it is one of this node's, as previews are."""
        return topic.startswith(f"{self._node.get_fully_qualified_name()}/")

    def _offers(self, topic: str) -> list[Offer]:
        infos = self._node.get_publishers_info_by_topic(topic)
        return [_offer(info) for info in infos if not self._is_preview(topic, info)]

    def _foreign_offers(self, topic: str) -> list[Offer]:
        """Of other nodes than this one."""
        own = self._node.get_name(), self._node.get_namespace()
        infos = self._node.get_publishers_info_by_topic(topic)
        foreign = (info for info in infos if (info.node_name, info.node_namespace) != own)
        return [_offer(info) for info in foreign if not self._is_preview(topic, info)]

    def _is_preview(self, topic: str, info: Any) -> bool:  # noqa: ANN401 - rclpy's endpoint, untyped
        """Whether a publisher repeats for viewers what was captured: that is not to be captured once more."""
        # What is new in the graph has no name at first.
        fresh = info.node_name == UNKNOWN and (info.topic_type, topic) == (TF, self._previewed())
        return fresh or str(info.node_name).endswith(SUFFIX)

    def _message_class(self, kind: str) -> Any:  # noqa: ANN401 - a generated message class, or None
        if kind not in self._classes:
            try:
                self._classes[kind] = get_message(kind)
            except (ImportError, AttributeError, ValueError):
                self._classes[kind] = None
        return self._classes[kind]

    def _subscribe(
        self, feed: Feed, put: Callable[[RawMessage], None] | None = None, definition: str = ""
    ) -> Any:  # noqa: ANN401 - rclpy's Subscription, untyped
        # What is compatible with every publisher; latched values need the publisher's own offer.
        qos = QoSProfile(
            history=HistoryPolicy.KEEP_LAST,
            depth=self._depth or feed.depth,
            reliability=ReliabilityPolicy.RELIABLE if feed.latched else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if feed.latched else DurabilityPolicy.VOLATILE,
        )
        # Only policies that somebody overrides: declaring one would fix our own choice for good.
        given = [
            kind
            for kind in _POLICIES
            if self._node.has_parameter(f"qos_overrides.{feed.topic}.subscription.{kind.name.lower()}")
        ]
        receipt, topic, kind = self._receipt, feed.canonical, feed.type
        take_in = put or self._put

        def take(data: bytes, info: Mapping[str, int]) -> None:
            times = info["received_timestamp"], info["source_timestamp"]
            receipt.take(RawMessage(topic, kind, data, *times, 0, definition), take_in)

        return self._node.create_subscription(
            self._message_class(kind),
            feed.topic,
            take,
            qos,
            raw=True,
            qos_overriding_options=QoSOverridingOptions(given),
        )

    def _tell(self, topic: str, problem: str) -> None:
        if problem and (topic, problem) not in self._told:
            self._told.add((topic, problem))
            self._node.get_logger().warning(f"{topic}: {problem}" if topic else problem)


def _offer(info: Any) -> Offer:  # noqa: ANN401 - rclpy's TopicEndpointInfo, untyped
    latched = info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return Offer(info.topic_type, latched and info.qos_profile.reliability == ReliabilityPolicy.RELIABLE)


def _qos(offered: QoSProfile) -> str:
    """A publisher's offer as a recording has it."""
    return qos_text(
        depth=offered.depth or 10,  # not every middleware tells
        reliable=offered.reliability != ReliabilityPolicy.BEST_EFFORT,
        latched=offered.durability == DurabilityPolicy.TRANSIENT_LOCAL,
        keep_all=offered.history == HistoryPolicy.KEEP_ALL,
    )
