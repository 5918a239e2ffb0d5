"""The capture's subscriptions: raw, never blocking, and kept up to date with the graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSPolicyKind, qos_check_compatible
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription

from edgefirst_ros.config.hints import ExistingTopic
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.names import is_pattern
from edgefirst_ros.config.topics import CONTEXT_ROLES, TF
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.nodes import discovery
from edgefirst_ros.nodes.diagnostics import Level, log
from edgefirst_ros.nodes.discovery import NO_PLAN, SubscriptionPlan, WantedSubscription
from edgefirst_ros.nodes.graph import RosGraph, definition_of, receiving_qos
from edgefirst_ros.nodes.receiving import Arrivals, Inlet, ReceiveClock, Taken
from edgefirst_ros.sources.session import is_usable

CLOCK_UPDATES = 3
"""A missing ``/clock`` is reported after this many updates."""
IDLE_S = 0.1
"""When nothing has been received for so long, the executor waits for messages."""
_POLICIES = [QoSPolicyKind[name] for name in ("RELIABILITY", "DURABILITY", "HISTORY", "DEPTH")]


class _Group(ReentrantCallbackGroup):  # type: ignore[misc] # rclpy has no types
    """Subscriptions that the executor waits for only while ``is_awaited``; it always waits for QoS events."""

    def __init__(self) -> None:
        super().__init__()
        self.is_awaited = True

    def can_execute(self, entity: Any) -> bool:  # noqa: ANN401 - rclpy's, untyped
        """As in rclpy; the executor does not wait for what cannot be executed."""
        return self.is_awaited or not isinstance(entity, Subscription)


@dataclass(eq=False)
class Subscriptions:
    """Subscribes to the configured topics as they appear; ``update`` follows changes of the graph.

    While messages arrive, ``receive`` takes them, because rclpy's executor takes one message of a topic at a
    time and prepares to wait for everything anew after each.

    Attributes:
        node: the subscribing node; its namespace and remappings apply.
        config: the capture's configuration.
        put: receives every message; must not block.
        simulated_ns: returns the time on ``/clock``, 0 before the first, None if time is not simulated.
        depth: QoS history depth; 0: as each topic needs.
        unlisted: subscribe to the device's topics before they are announced.
        record: receives messages of other topics of usable types; None: do not record them.
        replaced: called with a sentence when an entry takes another topic in place of one that is gone.
        plan: the result of the newest update.
        offered: QoS of the publishers by the topic's name in recordings, as the recording stores it.
        other_topics: topics at the newest update that nothing is received from, with the reason if known.
        several: the nodes that publish a topic, by its name in recordings, if that are more than one.
    """

    node: Node
    config: Config
    put: Callable[[RawMessage], None]
    simulated_ns: Callable[[], int | None]
    depth: int
    unlisted: bool
    record: Callable[[RawMessage], None] | None = None
    replaced: Callable[[str], None] = lambda _: None
    plan: SubscriptionPlan = NO_PLAN
    offered: dict[str, str] = field(default_factory=dict)
    other_topics: list[ExistingTopic] = field(default_factory=list)
    several: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._graph = RosGraph(self.node)
        self._clock = ReceiveClock(self.simulated_ns)
        self._updates_without_clock = 0
        self._chosen: dict[str, str] = {}
        """By entry that several topics fit, the one that it takes."""
        self._group = _Group()
        self._newest_s = -IDLE_S
        self._used: dict[WantedSubscription, Any] = {}
        self._unused: dict[WantedSubscription, Any] = {}
        self._inlets: dict[Subscription, Inlet] = {}
        self._arrivals = Arrivals()
        self._lately: dict[tuple[str, str], dict[object, None]] = {}
        """What came last of a topic and type, as one may have two subscriptions for a while."""
        self._logged: set[tuple[str, str]] = set()
        self._several_since: dict[str, tuple[list[str], float]] = {}

    def receive(self) -> bool:
        """Deliver what has arrived; return whether to call this again soon, else the executor does it.

        The executor waits for messages while none come; and in simulated time, because the time on
        ``/clock`` when a message is taken is its receive time then.
        """
        if self.simulated_ns() is not None:
            self._group.is_awaited = True
            return False
        self._arrivals.deliver(self._inlets.values())
        self._group.is_awaited = time.monotonic() - self._newest_s > IDLE_S
        return not self._group.is_awaited

    def update(self) -> SubscriptionPlan:
        """Subscribe and unsubscribe according to the graph; each problem is logged once."""
        node, graph, rules = self.node, self._graph, self.config.topics.values()
        resolve, space = node.resolve_topic_name, node.get_namespace()
        plain = {name for rule in rules for name in rule.plain_names}
        plain |= discovery.bare_names(self.config, space, resolve)
        has_patterns = any(is_pattern(name) for rule in rules for name in rule.names)
        published = graph.published(plain, patterns=has_patterns)
        prefix, unclear = discovery.choose_prefix(self.config, published, space, resolve)
        plan = discovery.plan_subscriptions(
            self.config,
            prefix,
            space,
            offers=graph.offers,
            installed=graph.is_installed,
            resolve=resolve,
            held=self._used.keys(),
            unlisted=self.unlisted,
            published=published,
            before={each.entry: each.fitting for each in self.plan.matches},
        )
        self._follow(self._used, plan.subscriptions, self.put)
        matches = tuple(replace(m, problem=m.problem or self._incompatible(m.topic)) for m in plan.matches)
        self.plan = replace(plan, matches=matches, problem=unclear)
        root = "/".join(filter(None, (space.rstrip("/"), prefix)))
        self.other_topics = self._find_other_topics(root)
        self.several = self._find_several()
        self._warn("", unclear)
        self._check_clock()
        for each in matches:
            self._warn(each.topic, each.problem)
            self._warn("", each.note, Level.OK)
            if each.fitting and any(held.topic == each.topic for held in self._used):
                before, self._chosen[each.entry] = self._chosen.get(each.entry), each.topic
                if before not in {None, each.topic}:
                    self.replaced(f"topics.{each.entry} takes {each.topic} now, as {before} is gone")
        if self.record is not None:
            self._update_unused(self.record, root)
        return self.plan

    def resubscribe_latched(self) -> None:
        """Subscribe to latched topics again, so that their publishers send their last messages once more."""
        for wanted in [each for each in self._used if each.latched]:
            self._unsubscribe(self._used[wanted])
            self._lately.pop((wanted.topic, wanted.type), None)
            self._used[wanted] = self._subscribe(wanted, self.put)

    def close(self) -> None:
        """End every subscription."""
        for subscription in (*self._used.values(), *self._unused.values()):
            self._unsubscribe(subscription)
        self._used.clear()
        self._unused.clear()
        self._clock.close()

    def _follow(
        self,
        held: dict[WantedSubscription, Any],
        wanted: Iterable[WantedSubscription],
        put: Callable[[RawMessage], None],
    ) -> None:
        """Have the subscriptions that are wanted, and no others."""
        added = sorted({*wanted} - held.keys(), key=lambda w: (w.topic, w.type))
        # What another one replaces stays until that one has found the publishers: till the next update.
        replaced = {(new.topic, new.type) for new in added}
        for gone in held.keys() - wanted:
            if (gone.topic, gone.type) not in replaced:
                self._unsubscribe(held.pop(gone))
        for new in added:
            try:
                held[new] = self._subscribe(new, put)
            except Exception as error:  # noqa: BLE001 - some middlewares refuse two types on one topic
                self._warn(new.topic, f"cannot be subscribed to as {new.type}: {error}")

    def _find_several(self) -> dict[str, list[str]]:
        """Topics with several publishers, none of which is one that has ended but is still announced."""
        now_s, before = time.monotonic(), self._several_since
        self._several_since = {}
        several: dict[str, list[str]] = {}
        roles = {name: rule.role for name, rule in self.config.topics.items()}
        for each in (m for m in self.plan.matches if m.announced and roles[m.entry] not in CONTEXT_ROLES):
            nodes, kinds = self._graph.senders(each.topic)
            if len(nodes) < 2 or TF in kinds:  # which many nodes send by design
                continue
            known, since_s = before.get(each.topic, ([], now_s))
            since_s = since_s if known == nodes else now_s
            self._several_since[each.topic] = nodes, since_s
            # A publisher that was killed is announced for so long at most; its successor has the same
            # node's name.
            if now_s - since_s > 30.0 or (known == nodes and len(set(nodes)) > 1):
                several[each.canonical] = nodes
        return several

    def _find_other_topics(self, root: str) -> list[ExistingTopic]:
        """Topics of this robot: those of others are none that one of its entries means."""
        wrong = [each for each in self.plan.matches if each.announced and each.problem]
        seen = [
            ExistingTopic(each.canonical, kind, each.problem)
            for each in wrong
            for kind in sorted(self._graph.senders(each.topic)[1])
        ]
        taken = {topic for each in self.plan.matches for topic in (each.topic, *each.fitting)}
        return seen + [
            ExistingTopic(topic, kind)
            for topic, kinds in self._graph.topics()
            if topic.startswith(f"{root}/") and topic not in taken and not self._graph.is_own(topic)
            if self.node.count_publishers(topic)
            for kind in kinds
        ]

    def _incompatible(self, topic: str) -> str:
        """Which publisher's messages the QoS of our subscriptions keeps away; empty if none's."""
        held = {**self._used, **self._unused}
        asked = [subscription.qos_profile for wanted, subscription in held.items() if wanted.topic == topic]
        for info in self._graph.publishers(topic) if asked else ():
            reasons = [qos_check_compatible(info.qos_profile, qos) for qos in asked]
            if all(compatibility == QoSCompatibility.ERROR for compatibility, _ in reasons):
                why = reasons[0][1].removeprefix("ERROR: ").strip().rstrip(";")
                return (
                    f"nothing is received from {info.node_name}, which offers less than "
                    f"qos_overrides.{topic}.subscription asks for ({why}): ask for less there"
                )
        return ""

    def _update_unused(self, record: Callable[[RawMessage], None], root: str) -> None:
        """Subscribe to topics that only the recording takes, and look up the QoS of all recorded topics."""
        graph, used = self._graph, {each.topic for each in self.plan.subscriptions}
        free = [(t, kinds) for t, kinds in graph.topics() if t not in used and not graph.is_own(t)]
        wanted = discovery.unused_subscriptions(
            free, root, lambda name, kind: is_usable(name, kind) and graph.is_installed(kind), graph.offers
        )
        # A topic whose publisher is gone stays subscribed, since it may return; one that is used now, or
        # of which something else is offered now, does not.
        offered = {(each.topic, each.type) for each in wanted}
        gone = {e for e in self._unused if e.topic not in used and (e.topic, e.type) not in offered}
        self._follow(self._unused, wanted | gone, record)
        for each in self._unused:
            self._warn(each.topic, self._incompatible(each.topic))
        for each in (*self.plan.subscriptions, *self._unused):
            if each.canonical not in self.offered and (qos := graph.offered_qos(each.topic)):
                self.offered[each.canonical] = qos

    def _check_clock(self) -> None:
        """Warn if ``/clock`` does not begin; once it has, deliver what waited for it."""
        simulated_ns = self.simulated_ns()
        self._updates_without_clock += simulated_ns == 0
        if simulated_ns == 0 and self._updates_without_clock >= CLOCK_UPDATES:
            self._warn("/clock", "use_sim_time is true but no time has been received: messages wait for it")
        elif simulated_ns:
            self._clock.deliver_waiting(simulated_ns)

    def _subscribe(self, wanted: WantedSubscription, put: Callable[[RawMessage], None]) -> Any:  # noqa: ANN401
        node, topic, kind = self.node, wanted.canonical, wanted.type
        qos = receiving_qos(self.depth or wanted.depth, latched=wanted.latched, reliable=wanted.reliable)
        # Only policies that are overridden: declaring the others would fix today's defaults as parameters.
        override = f"qos_overrides.{wanted.topic}.subscription"
        overridden = [each for each in _POLICIES if node.has_parameter(f"{override}.{each.name.lower()}")]
        definition = "" if put == self.put else definition_of(kind)

        def on_message(data: bytes, info: Mapping[str, int]) -> None:
            self._newest_s = time.monotonic()
            if not self._came_before(wanted, data, info["source_timestamp"]):
                times = info["received_timestamp"], info["source_timestamp"]
                message = RawMessage(topic, kind, data, *times, 0, definition, checksummed=True)
                self._clock.deliver(message, put)

        message_class = self._graph.message_class(kind)
        subscription = node.create_subscription(
            message_class,
            wanted.topic,
            on_message,
            qos,
            callback_group=self._group,
            raw=True,
            qos_overriding_options=QoSOverridingOptions(overridden),
            # Its own warning says that nothing is received, though the other subscription may receive it.
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=False),
        )

        def take() -> Taken | None:
            with subscription.handle:  # so that it is not destroyed meanwhile
                taken: Taken | None = subscription.handle.take_message(message_class, True)
                return taken

        self._inlets[subscription] = Inlet(take, on_message)
        return subscription

    def _came_before(self, wanted: WantedSubscription, data: bytes, sent_ns: int) -> bool:
        """Whether another subscription to the topic has received this message."""
        lately, what = self._lately.setdefault((wanted.topic, wanted.type), {}), (sent_ns, data[-64:])
        if what in lately or not sent_ns:
            return bool(sent_ns)
        lately[what] = None
        if len(lately) > discovery.DEPTH_SMALL:
            del lately[next(iter(lately))]
        return False

    def _unsubscribe(self, subscription: Subscription) -> None:
        self._arrivals.end(self._inlets.pop(subscription))
        self.node.destroy_subscription(subscription)

    def _warn(self, topic: str, problem: str, level: Level = Level.WARN) -> None:
        if problem and (topic, problem) not in self._logged:
            self._logged.add((topic, problem))
            log(self.node.get_logger(), level, f"{topic}: {problem}" if topic else problem)
