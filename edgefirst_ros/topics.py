"""Which topic of a recording is what: generations of names, prefixes, types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from edgefirst_ros.config.model import Config, TopicRule
from edgefirst_ros.config.names import fits, is_full, is_pattern
from edgefirst_ros.errors import ConfigError
from edgefirst_ros.messages.sensors import SENSORS, Kind, Role, roles_of

TF = "tf2_msgs/msg/TFMessage"
TYPES: Mapping[Role, tuple[str, ...]] = {role: tuple(sensor.decoders) for role, sensor in SENSORS.items()}
"""Message types a role may have; any other type on its topic is refused."""
CONTEXT_ROLES = roles_of(Kind.CALIBRATION)
"""Read for what they say about the others; their time matters little."""
EGO_ROLES = roles_of(Kind.MOTION)
COMPANION_ROLES = roles_of(Kind.COMPANION)
SHOWN_TOPICS = 12
"""So many are named in a message, so that it stays readable."""


@cache
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
    instead: str = ""
    """The topic that its entry takes in place of this one; empty where it takes this one."""


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
        for name in rule.plain_names:
            if not name.startswith("/"):
                votes.update({p for t in known if (p := _prefix_of(t, name)) is not None})
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


@dataclass(frozen=True, slots=True)
class _Match:
    """How an entry of the configuration's topics means a topic: by which of its names."""

    entry: str
    rule: TopicRule
    place: int


class TopicMap:
    """Routes from names on the wire to the configuration's rules, under one prefix.

    An entry takes one topic. Where several names are given, or a regular expression, several may fit: those
    of a type that the role has come before others, then the reference, then the order of the names, then
    their alphabet; never the one heard first. A topic that is named plainly belongs to the entry that names
    it, whatever other entries match.

    Args:
        config: whose topics.
        prefix: of the device's names.
        known: every (topic, type) that there is, if that is known; else ``settle`` tells what has come.

    Attributes:
        notes: what was chosen among several, and why.
    """

    def __init__(self, config: Config, prefix: str, known: Iterable[tuple[str, str]] | None = None) -> None:
        self.prefix = prefix
        self.notes: list[str] = []
        self._reference = config.reference.strip("/")
        self._plain: dict[str, _Match] = {}
        self._patterns: list[tuple[str, _Match]] = []
        self._types: dict[str, str] = {}
        self._found: dict[tuple[str, str], _Match | None] = {}
        self._taken: dict[str, str] = {}
        for entry, rule in config.topics.items():
            for place, name in enumerate(rule.names):
                self._add(name, _Match(entry, rule, place))
        if known is not None:
            self.settle(known)

    def route(self, topic: str, schema: str = "") -> Route | None:
        """The route of a topic, None if the configuration has no use for it.

        The type decides where a regular expression matches; once told it need not be told again.
        """
        if schema:
            self._types[topic] = schema
        match = self._match(topic, schema or self._types.get(topic, ""))
        if match is None:
            return None
        taken = self._taken.get(match.entry, topic)
        return Route(topic, match.entry, match.rule, "" if taken.strip("/") == topic.strip("/") else taken)

    def has_chosen(self, entry: str) -> bool:
        """Whether an entry for which several topics may fit has taken one."""
        return entry in self._taken

    def settle(self, topics: Iterable[tuple[str, str]]) -> None:
        """Choose among the (topic, type) that there are, for every entry that has not chosen yet."""
        fitting: dict[str, list[tuple[tuple[bool, bool, int, str], str]]] = {}
        rules: dict[str, TopicRule] = {}
        for topic, kind in dict.fromkeys(topics):
            schema = full_type(kind) or self._types.get(topic, "")
            if schema:
                self._types[topic] = schema
            match = self._match(topic, schema)
            if match is not None and match.rule.is_choice and match.entry not in self._taken:
                bare = topic.strip("/")
                is_wrong = bool(schema) and schema not in TYPES[match.rule.role]
                rank = (is_wrong, bare != self._reference, match.place, bare)
                fitting.setdefault(match.entry, []).append((rank, topic))
                rules[match.entry] = match.rule
        for entry, ranked in fitting.items():
            ranked.sort()
            (best, self._taken[entry]), *others = ranked
            if others:
                self.notes.append(choice_note(entry, [t for _, t in ranked], _reason(best, others[0][0])))

    def _add(self, name: str, match: _Match) -> None:
        if is_pattern(name):
            self._patterns.append((name, match))
            return
        bare = name.strip("/")
        if name.startswith("/"):
            self._plain[bare] = match
            return
        self._plain[f"{self.prefix}/{bare}" if self.prefix else bare] = match
        if self.prefix == "rt":
            self._plain.setdefault(bare, match)

    def _match(self, topic: str, schema: str) -> _Match | None:
        key = (topic, schema)
        if key not in self._found:
            self._found[key] = self._plain.get(topic.strip("/")) or self._pattern(topic.strip("/"), schema)
        return self._found[key]

    def _pattern(self, bare: str, schema: str) -> _Match | None:
        under = self.prefix + "/"
        relative = {bare.removeprefix(under)} if self.prefix and bare.startswith(under) else set()
        if self.prefix in {"", "rt"}:
            relative.add(bare)
        for name, match in self._patterns:
            names = {bare} if is_full(name) else relative
            if (not schema or schema in TYPES[match.rule.role]) and any(fits(name, each) for each in names):
                return match
        return None


def _reason(best: tuple[bool, bool, int, str], other: tuple[bool, bool, int, str]) -> str:
    if best[0] != other[0]:
        return "whose type fits"
    if best[1] != other[1]:
        return "which is the reference"
    return "which is named first" if best[2] != other[2] else "the first by name"


def choice_note(entry: str, topics: Sequence[str], reason: str) -> str:
    """The sentence about an entry for which several topics fit, the one taken first."""
    others = ", ".join(topics[1 : SHOWN_TOPICS + 1]) + ", …" * (len(topics) > SHOWN_TOPICS + 1)
    return (
        f"topics.{entry} takes {topics[0]}, {reason}; it fits {others} as well: "
        "give each that you want an entry of its own, with its role"
    )


def is_meant(wanted: str, entry: str, rule: TopicRule, topic: str = "") -> bool:
    """Whether a topic, an entry or a role that somebody wants is this one."""
    plain = [name.strip("/") for name in rule.names]
    if wanted in (topic.strip("/") or None, entry, rule.role, *plain):
        return True
    return not topic and any(fits(name, wanted) for name in rule.names if is_pattern(name))


def reference_role(config: Config) -> Role:
    """The role of the reference that a live capture waits for, before anything has come.

    Raises:
        ConfigError: nothing that is configured could be the reference; the message lists what could.
    """
    wanted = config.reference.strip("/")
    possible = {n: r for n, r in config.topics.items() if r.topic and r.role in COMPANION_ROLES}
    for entry, rule in possible.items():
        if is_meant(wanted, entry, rule):
            return rule.role
    head = f"no topic for the reference {config.reference!r}"
    raise ConfigError([f"{head}; name one with --reference: {', '.join(sorted(possible))}"])


def choose_reference(config: Config, topics: Iterable[str], routes: TopicMap) -> tuple[Role, frozenset[str]]:
    """The reference's role and its topics: one, or the four tiles of one picture.

    ``config.reference`` is a topic, an entry of ``topics`` or a role. Of several topics with that role the
    first in the configuration's order that is present wins.

    Raises:
        ConfigError: if nothing in the recording fits; the message lists what there is.
    """
    wanted = config.reference.strip("/")
    known = list(topics)
    present = [r for t in known if (r := routes.route(t)) is not None and not r.instead]
    order = list(config.topics)
    matches = sorted(
        (r for r in present if r.rule.role in COMPANION_ROLES and is_meant(wanted, r.name, r.rule, r.topic)),
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
