"""Which topics of a graph an entry of the configuration may take, and which of several; nothing of rclpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.config.names import fits, is_full, is_pattern
from edgefirst_ros.topics import TYPES, choice_note


@dataclass(frozen=True, slots=True)
class Offer:
    """What one publisher offers on a topic."""

    type: str
    latched: bool = False
    """It keeps its last messages for those who come later (reliable and transient local)."""


def wire_names(topic: str, prefix: str, namespace: str) -> list[str]:
    """The names that an entry's topic may have in the graph, the likeliest first."""
    if topic.startswith("/"):
        return [topic]
    bare = f"{namespace.rstrip('/')}/{topic}"
    if not prefix:
        return [bare]
    prefixed = f"{namespace.rstrip('/')}/{prefix}/{topic}"
    return [prefixed, bare] if prefix == "rt" else [prefixed]


@dataclass(frozen=True, slots=True)
class Place:
    """A topic that an entry may take, in the graph and as the pipeline gets it; the least rank is preferred.

    ``rank``: not the reference, the place of its name among the entry's, the place among the names on the
    wire, and the topic.
    """

    topic: str
    canonical: str
    rank: tuple[bool, int, int, str]


class Candidates:
    """Topics of a graph that entries of the configuration may take, at one look; asks once who publishes one.

    Args:
        config: whose topics.
        prefix: of the device's topics within the namespace.
        namespace: the node's.
        offers: who publishes a topic.
        resolve: applies remappings.
        published: names that regular expressions are held against, in order.
    """

    def __init__(
        self,
        config: Config,
        prefix: str,
        namespace: str,
        *,
        offers: Callable[[str], Sequence[Offer]],
        resolve: Callable[[str], str],
        published: Sequence[str],
    ) -> None:
        self._reference = config.reference.strip("/")
        self._prefix = prefix
        self._namespace = namespace
        self._offers = offers
        self._resolve = resolve
        self._published = published
        self._asked: dict[str, Sequence[Offer]] = {}
        plain = (name for rule in config.topics.values() for name in rule.plain_names)
        self._claimed = {resolve(wire) for name in plain for wire in wire_names(name, prefix, namespace)}
        """Topics that are named plainly; no regular expression takes them."""

    def offered(self, topic: str) -> Sequence[Offer]:
        """Who publishes it."""
        if topic not in self._asked:
            self._asked[topic] = self._offers(topic)
        return self._asked[topic]

    def places(self, rule: TopicRule) -> list[Place]:
        """Topics that an entry may take; each once."""
        found: dict[str, Place] = {}
        for number, name in enumerate(rule.names):
            wires = self._matching(name) if is_pattern(name) else self._wires(name)
            for order, (topic, canonical) in enumerate(wires):
                is_other = canonical.strip("/") != self._reference
                found.setdefault(topic, Place(topic, canonical, (is_other, number, order, topic)))
        return list(found.values())

    def ranked(self, rule: TopicRule, places: Iterable[Place]) -> list[Place]:
        """Those that somebody publishes, the preferred one first; only those of a usable type, if any is."""
        there = [place for place in places if self.offered(place.topic)]
        kinds = TYPES[rule.role]
        usable = [p for p in there if any(offer.type in kinds for offer in self.offered(p.topic))]
        fits_by_name = [p for p in there if p.topic in self._claimed]
        return sorted(usable or fits_by_name, key=lambda place: place.rank)

    def _wires(self, name: str) -> list[tuple[str, str]]:
        canonical = name if name.startswith("/") else f"/{name}"
        return [(self._resolve(wire), canonical) for wire in wire_names(name, self._prefix, self._namespace)]

    def _matching(self, pattern: str) -> list[tuple[str, str]]:
        inside = self._namespace.rstrip("/") + "/"
        under = f"{inside}{self._prefix}/" if self._prefix else inside
        found: list[tuple[str, str]] = []
        for topic in self._published:
            if topic in self._claimed:
                continue
            canonical = topic
            if not is_full(pattern):
                start = next((each for each in (under, inside) if topic.startswith(each)), None)
                if start is None or (start == inside and self._prefix not in {"", "rt"}):
                    continue
                canonical = "/" + topic.removeprefix(start)
            if fits(pattern, canonical):
                found.append((topic, canonical))
        return found


def choice_of(entry: str, taken: Place, there: Sequence[Place]) -> str:
    """Which of several topics is taken, and why; empty where there is one."""
    others = [place for place in there if place is not taken]
    if not others:
        return ""
    if taken is not there[0]:
        reason = "which was there before"
    elif taken.rank[0] != others[0].rank[0]:
        reason = "which is the reference"
    else:
        reason = "which is named first" if taken.rank[1] != others[0].rank[1] else "the first by name"
    return choice_note(entry, [place.topic for place in (taken, *others)], reason)
