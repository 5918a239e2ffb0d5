"""The capture's subscriptions: raw, never blocking, and kept up to date with the graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSPolicyKind
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription

from edgefirst_ros.config.hints import ExistingTopic
from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import CONTEXT_ROLES, TF
from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.nodes.diagnostics import log
from edgefirst_ros.nodes.discovery import (
    DEPTH_SMALL,
    NO_PLAN,
    Discovery,
    SubscriptionPlan,
    WantedSubscription,
)
from edgefirst_ros.nodes.graph import RosGraph, definition_of, message_class, receiving_qos
from edgefirst_ros.nodes.receiving import Inlet, ReceiveClock, Taken, deliver_arrived
from edgefirst_ros.sources.session import is_usable

CLOCK_UPDATES = 3
"""A missing ``/clock`` is reported after this many updates."""
ENDED = 30
"""For so many updates a publisher that was killed is announced at most."""
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
        self._held: dict[WantedSubscription, Subscription] = {}
        self._inlets: dict[Subscription, Inlet] = {}
        self._lately: dict[tuple[str, str], dict[object, None]] = {}
        """What came last of a topic and type, as one may have two subscriptions for a while."""
        self._logged: set[tuple[str, str]] = set()
        self._senders: dict[str, tuple[list[str], int]] = {}
        """The nodes that publish a topic, if several, and at how many updates in a row they did."""

    def receive(self) -> bool:
        """Deliver what has arrived; return whether to call this again soon, else the executor does it.

        The executor waits for messages while none come; and in simulated time, because the time on
        ``/clock`` when a message is taken is its receive time then.
        """
        if self.simulated_ns() is not None:
            self._group.is_awaited = True
            return False
        deliver_arrived(self._inlets.values())
        self._group.is_awaited = time.monotonic() - self._newest_s > IDLE_S
        return not self._group.is_awaited

    def update(self) -> SubscriptionPlan:
        """Subscribe and unsubscribe according to the graph; each problem is logged once."""
        node, graph = self.node, self._graph
        published = graph.published()
        plan = Discovery(
            self.config,
            published,
            node.get_namespace(),
            graph.offers,
            lambda kind: message_class(kind) is not None,
            node.resolve_topic_name,
            self.unlisted,
            self._is_recorded,
            self._held.keys(),
            self.plan,
        ).plan()
        self._follow(plan.subscriptions)
        self.plan = plan
        self.other_topics = self._find_other_topics(published)
        self.several = self._find_several()
        self._warn("", plan.problem)
        self._check_clock()
        for each in plan.matches:
            self._warn(each.topic, each.problem)
            self._warn("", each.note, Severity.NOTE)
            if each.fitting and any(held.topic == each.topic for held in self._held):
                before, self._chosen[each.entry] = self._chosen.get(each.entry), each.topic
                if before not in {None, each.topic}:
                    why = f"topics.{each.entry} takes {each.topic} now, as {before} is gone"
                    self._warn("", why)
                    self.replaced(why)
        for wanted in self._held if self.record is not None else ():
            if wanted.canonical not in self.offered and (qos := graph.offered_qos(wanted.topic)):
                self.offered[wanted.canonical] = qos
        return self.plan

    def resubscribe_latched(self) -> None:
        """Subscribe to latched topics again, so that their publishers send their last messages once more."""
        for wanted in [each for each in self._held if each.latched and each.is_used]:
            self._unsubscribe(wanted)
            self._lately.pop((wanted.topic, wanted.type), None)
            self._held[wanted] = self._subscribe(wanted)

    def close(self) -> None:
        """End every subscription."""
        for wanted in [*self._held]:
            self._unsubscribe(wanted)
        self._clock.release(0)

    def _is_recorded(self, name: str, kind: str) -> bool:
        return self.record is not None and is_usable(name, kind) and message_class(kind) is not None

    def _follow(self, wanted: frozenset[WantedSubscription]) -> None:
        """Have the subscriptions that are wanted, and no others."""
        added = sorted(wanted - self._held.keys(), key=lambda w: (w.topic, w.type))
        # What another one replaces stays until that one has found the publishers: till the next update.
        replaced = {(new.topic, new.type, new.is_used) for new in added}
        for gone in self._held.keys() - wanted:
            if (gone.topic, gone.type, gone.is_used) not in replaced:
                self._unsubscribe(gone)
        for new in added:
            try:
                self._held[new] = self._subscribe(new)
            except Exception as error:  # noqa: BLE001 - some middlewares refuse two types on one topic
                self._warn(new.topic, f"cannot be subscribed to as {new.type}: {error}")

    def _find_several(self) -> dict[str, list[str]]:
        """Topics with several publishers, none of which is one that has ended but is still announced."""
        roles = {name: rule.role for name, rule in self.config.topics.items()}
        before, self._senders = self._senders, {}
        for each in (m for m in self.plan.matches if m.announced and roles[m.entry] not in CONTEXT_ROLES):
            nodes, kinds = self._graph.senders(each.topic)
            if len(nodes) > 1 and TF not in kinds:  # which many nodes send by design
                known, looks = before.get(each.canonical, ([], 0))
                self._senders[each.canonical] = nodes, looks + 1 if known == nodes else 1
        # The successor of a publisher that was killed has the same node's name.
        return {
            name: nodes
            for name, (nodes, looks) in self._senders.items()
            if looks > ENDED or (looks > 1 and len({*nodes}) > 1)
        }

    def _find_other_topics(self, published: Mapping[str, Sequence[str]]) -> list[ExistingTopic]:
        """Topics of this robot: those of others are none that one of its entries means."""
        matches = self.plan.matches
        wrong = [(each.topic, each.canonical, each.problem) for each in matches if each.problem]
        taken = {topic for each in matches for topic in (each.topic, *each.fitting)}
        others = [(t, t, "") for t in published if t.startswith(self.plan.root) and t not in taken]
        return [
            ExistingTopic(canonical, kind, problem)
            for topic, canonical, problem in wrong + others
            for kind in published.get(topic, ())
        ]

    def _check_clock(self) -> None:
        """Warn if ``/clock`` does not begin; once it has, deliver what waited for it."""
        simulated_ns = self.simulated_ns()
        self._updates_without_clock += simulated_ns == 0
        if simulated_ns == 0 and self._updates_without_clock >= CLOCK_UPDATES:
            self._warn("/clock", "use_sim_time is true but no time has been received: messages wait for it")
        elif simulated_ns:
            self._clock.release(simulated_ns)

    def _subscribe(self, wanted: WantedSubscription) -> Subscription:
        node, topic, kind = self.node, wanted.canonical, wanted.type
        qos = receiving_qos(wanted.depth, latched=wanted.latched, reliable=wanted.reliable)
        # Only policies that are overridden: declaring the others would fix today's defaults as parameters.
        override = f"qos_overrides.{wanted.topic}.subscription"
        overridden = [each for each in _POLICIES if node.has_parameter(f"{override}.{each.name.lower()}")]
        put = self.put if wanted.is_used or self.record is None else self.record
        definition = "" if wanted.is_used else definition_of(kind)

        def on_message(data: bytes, info: Mapping[str, int]) -> None:
            self._newest_s = time.monotonic()
            if not self._came_before(wanted, data, info["source_timestamp"]):
                times = info["received_timestamp"], info["source_timestamp"]
                message = RawMessage(topic, kind, data, *times, 0, definition, checksummed=True)
                self._clock.deliver(message, put)

        made_of = message_class(kind)
        subscription = node.create_subscription(
            made_of,
            wanted.topic,
            on_message,
            qos,
            callback_group=self._group,
            raw=True,
            qos_overriding_options=QoSOverridingOptions(overridden),
            # It warns of a publisher that offers less, from which another subscription may receive.
            event_callbacks=SubscriptionEventCallbacks(use_default_callbacks=not wanted.latched),
        )

        def take() -> Taken | None:
            with subscription.handle:  # so that it is not destroyed meanwhile
                taken: Taken | None = subscription.handle.take_message(made_of, True)
                return taken

        self._inlets[subscription] = Inlet(take, on_message)
        return subscription

    def _came_before(self, wanted: WantedSubscription, data: bytes, sent_ns: int) -> bool:
        """Whether another subscription to the topic has received this message."""
        lately, what = self._lately.setdefault((wanted.topic, wanted.type), {}), (sent_ns, data[-64:])
        if what in lately or not sent_ns:
            return bool(sent_ns)
        lately[what] = None
        if len(lately) > DEPTH_SMALL:
            del lately[next(iter(lately))]
        return False

    def _unsubscribe(self, wanted: WantedSubscription) -> None:
        subscription = self._held.pop(wanted)
        del self._inlets[subscription]
        self.node.destroy_subscription(subscription)

    def _warn(self, topic: str, problem: str, level: Severity = Severity.WARNING) -> None:
        if problem and (topic, problem) not in self._logged:
            self._logged.add((topic, problem))
            log(self.node, level, f"{topic}: {problem}" if topic else problem)
