"""Which topics of the graph fit an entry of the configuration, and which of them is preferred."""

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
    """Whether late subscribers receive its last messages (reliable and transient local)."""


def wire_names(topic: str, prefix: str, namespace: str) -> list[str]:
    """The names that a configured topic may have in the graph, the likeliest first."""
    if topic.startswith("/"):
        return [topic]
    bare = f"{namespace.rstrip('/')}/{topic}"
    if not prefix:
        return [bare]
    prefixed = f"{namespace.rstrip('/')}/{prefix}/{topic}"
    return [prefixed, bare] if prefix == "rt" else [prefixed]


@dataclass(frozen=True, slots=True)
class TopicCandidate:
    """A topic that fits an entry: its name in the graph, and ``canonical``, its name in the pipeline.

    The lowest ``rank`` is preferred: whether it is not the reference, the position among the entry's names,
    the position among the names on the wire, and the topic.
    """

    topic: str
    canonical: str
    rank: tuple[bool, int, int, str]


class CandidateFinder:
    """Finds the topics of the graph that fit entries; queries the publishers of each topic once.

    Args:
        config: the capture's configuration.
        prefix: prefix of the device's topics within the namespace.
        namespace: the node's namespace.
        offers: returns the publishers of a topic.
        resolve: applies remappings.
        published: names that regular expressions are matched against, in order.
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
        self._queried: dict[str, Sequence[Offer]] = {}
        plain = (name for rule in config.topics.values() for name in rule.plain_names)
        self._claimed = {resolve(wire) for name in plain for wire in wire_names(name, prefix, namespace)}
        """Topics that are configured by name; no regular expression takes them."""

    def offered(self, topic: str) -> Sequence[Offer]:
        """The publishers of a topic."""
        if topic not in self._queried:
            self._queried[topic] = self._offers(topic)
        return self._queried[topic]

    def candidates(self, rule: TopicRule) -> list[TopicCandidate]:
        """Topics that fit an entry, each once."""
        found: dict[str, TopicCandidate] = {}
        for number, name in enumerate(rule.names):
            wires = self._matching(name) if is_pattern(name) else self._wires(name)
            for order, (topic, canonical) in enumerate(wires):
                is_other = canonical.strip("/") != self._reference
                found.setdefault(topic, TopicCandidate(topic, canonical, (is_other, number, order, topic)))
        return list(found.values())

    def ranked(self, rule: TopicRule, candidates: Iterable[TopicCandidate]) -> list[TopicCandidate]:
        """Those that are published, the preferred one first; if any has a usable type, only such."""
        there = [candidate for candidate in candidates if self.offered(candidate.topic)]
        kinds = TYPES[rule.role]
        usable = [c for c in there if any(offer.type in kinds for offer in self.offered(c.topic))]
        fits_by_name = [c for c in there if c.topic in self._claimed]
        return sorted(usable or fits_by_name, key=lambda candidate: candidate.rank)

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


def explain_choice(entry: str, taken: TopicCandidate, there: Sequence[TopicCandidate]) -> str:
    """Which of several topics is used, and why; empty if there is only one."""
    others = [candidate for candidate in there if candidate is not taken]
    if not others:
        return ""
    if taken is not there[0]:
        reason = "which was there before"
    elif taken.rank[0] != others[0].rank[0]:
        reason = "which is the reference"
    else:
        reason = "which is named first" if taken.rank[1] != others[0].rank[1] else "the first by name"
    return choice_note(entry, [candidate.topic for candidate in (taken, *others)], reason)
