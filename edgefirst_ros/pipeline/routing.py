"""Which topic of a source is used for what, and which is the reference, as far as that is known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import ConfigError
from edgefirst_ros.hints import ExistingTopic, Hint, hints_of, missing_topics
from edgefirst_ros.sample import Role
from edgefirst_ros.timing.finding import Finding
from edgefirst_ros.topics import (
    COMPANION_ROLES,
    Route,
    TopicMap,
    choose_reference,
    find_prefix,
    first_of_role,
    full_type,
    reference_role,
)


class Routing:
    """The routes of one source's topics.

    Args:
        config: whole.
        notes: choices among several topics are appended to it, a sentence each.

    Attributes:
        reference: role of the reference and its topics, none while they are not known.
        routes: type as ``pkg/msg/Type`` and route, by topic and type of the messages that have come.
        choices: configured topics, by name, for which several topics of the source may fit.
        chosen: the route of the topic that samples take, by role; the same for the whole dataset.
        may_have_masks: whether a mask may come from the source.
    """

    def __init__(self, config: Config, notes: list[str]) -> None:
        self._config = config
        self._notes = notes
        self._map = TopicMap(config, config.prefix or "")
        self.routes: dict[tuple[str, str], tuple[str, Route | None]] = {}
        self.choices = {name for name, rule in config.topics.items() if rule.is_choice}
        self._is_missed = False
        self.may_have_masks = True
        self.reference: tuple[Role, frozenset[str]] = Role.CAMERA, frozenset()
        self.chosen: dict[Role, Route] = {}

    def begin(self, topics: Iterable[tuple[str, str]] | None) -> None:
        """A source starts, with its (topic, type) pairs if they are known.

        Else topics are learnt as they come, under the configured prefix, and the first fitting one is the
        reference.

        Raises:
            ConfigError: the prefix or the reference is ambiguous, or no topic could ever be the reference.
        """
        self.routes = {}
        self.may_have_masks = True
        if topics is None:
            self._map = TopicMap(self._config, self._config.prefix or "")
            self.reference = reference_role(self._config), frozenset()
            self._is_missed = False
            return
        pairs = list(topics)
        known = [topic for topic, _ in pairs]
        self._map = TopicMap(self._config, find_prefix(known, self._config), pairs)
        found = map(self._map.route, known)
        self.may_have_masks = any(route is not None and route.rule.role is Role.MASK for route in found)
        self.reference = choose_reference(self._config, known, self._map)
        self.chosen = {role: route for role, route in self.chosen.items() if route.topic in known}
        self._tell_choices()

    def tell(self, notes: list[str]) -> None:
        """Another session goes on: its notes take the choices made so far, and later ones."""
        self._notes = notes
        self._tell_choices()

    def route(self, topic: str, schema: str = "") -> tuple[str, Route | None]:
        """A message's type as ``pkg/msg/Type`` and its topic's route, None if nothing uses it."""
        if not schema:
            return "", self._map.route(topic)
        key = topic, schema
        if key not in self.routes:
            name = full_type(schema)
            self.routes[key] = name, self._map.route(topic, name)
        return self.routes[key]

    def choose(self, route: Route, heard: Iterable[str], findings: Iterable[Finding]) -> str:
        """Choose among topics that fit, and the reference; the topic used instead of this one, or "".

        Args:
            route: of the topic.
            heard: topics of which a message has come.
            findings: clocks found so far; only a topic whose clock is known can become the reference.
        """
        if route.name in self.choices:
            if not self._map.has_chosen(route.name):
                self._map.choose((topic, "") for topic in heard)
                self.routes.clear()
                self._tell_choices()
            now = self._map.route(route.topic)
            if now is not None and now.replaced_by:
                return now.replaced_by
        if not self.reference[1]:
            self._look_for_reference(findings)
        return ""

    def used(self, topics: Iterable[str], heard: Iterable[str]) -> tuple[list[str], list[str]]:
        """The configured topics, by name, that are among these and in use.

        First those that samples take, where they may, then those in whose place they take another one.
        """
        found = [route for topic in topics if (route := self._map.route(topic)) is not None]
        names: tuple[list[str], list[str]] = [], []
        for route in found:
            if not route.replaced_by:
                names[bool(self.instead(route, heard))].append(route.name)
        return names

    def instead(self, route: Route, heard: Iterable[str]) -> str:
        """The topic that samples take for the role of this one, or "" if it is this one.

        Once it is known, it is the same for all samples: that of the reference's device, else the one whose
        entry comes first, of those that have sent when it is first needed.

        Args:
            route: of a topic.
            heard: topics of which a message has come.
        """
        role, (reference_role, references) = route.rule.role, self.reference
        if role not in COMPANION_ROLES or route.topic in references:
            return ""
        if role is reference_role:
            return min(references, default="")
        if role not in self.chosen:
            routes = (each for topic in sorted(heard) if (each := self._map.route(topic)) is not None)
            rivals = [each for each in routes if each.rule.role is role and not each.replaced_by]
            self.chosen[role] = first_of_role(self._config, [route, *rivals], min(references, default=""))
        chosen = self.chosen[role]
        is_tile = bool(route.rule.tile and chosen.rule.tile)  # of the same picture
        return "" if is_tile or route.name == chosen.name else chosen.topic

    def hints(self, topics: Mapping[str, Mapping[str, Any]], around: Collection[ExistingTopic]) -> list[Hint]:
        """What configured topics that did not come may mean, by the ledger's counts of those that did."""
        return hints_of(self._config, self._map, topics, around)

    def missing(self, topics: Mapping[str, Mapping[str, Any]], *, known: bool) -> list[str]:
        """What the configuration names and did not come; see ``missing_topics``."""
        return missing_topics(self._config, self._map, topics, known=known)

    def _tell_choices(self) -> None:
        self._notes += [note for note in self._map.notes if note not in self._notes]

    def _look_for_reference(self, findings: Iterable[Finding]) -> None:
        """A live reference may come later than the others; a sequence under way takes it up then."""
        try:
            self.reference = choose_reference(self._config, [f.topic for f in findings], self._map)
        except ConfigError as error:
            if not self._is_missed:
                self._is_missed = True
                self._notes.append(f"{error} (so far)")
