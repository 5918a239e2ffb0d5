"""What a device publishes over Zenoh besides the configured topics: for a recording, and for hints."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from edgefirst_ros.config.model import MAIVIN_TOPICS, Config
from edgefirst_ros.hints import FIRST_S, ExistingTopic, explicit_entries
from edgefirst_ros.naming import displayed
from edgefirst_ros.sources.zenohlink import CDR, key_includes, subscribe
from edgefirst_ros.topics import full_type, reference_role

if TYPE_CHECKING:
    import zenoh

BARE = frozenset({"", "rt"})
"""Prefixes of name generations A and B, which one device may mix."""
WATCH_S = 2.0
"""Duration of the search for other topics."""
MOST_TOPICS = 256
"""Limit of the topics that it keeps."""
_TAILS = frozenset(name for rule in MAIVIN_TOPICS.values() for name in rule.plain_names)


def wide_keys(namespace: str) -> tuple[str, ...]:
    """Key expressions of everything that a device may publish under its namespace."""
    return ("**",) if namespace in BARE else (f"{namespace}/**",)


class UnusedTopics:
    """Finds the keys of topics that are recorded but not used, and their names.

    Args:
        used: the configured topics, without regular expressions.
        namespace: prefix of the device's names; empty: any.
        wanted: whether to record a topic, given its name and type.
        is_ours: whether a prefix is the device's.
        matches: whether a regular expression of the configuration takes a key of a type.
    """

    def __init__(
        self,
        used: Iterable[str],
        namespace: str,
        wanted: Callable[[str, str], bool],
        is_ours: Callable[[str], bool],
        matches: Callable[[str, str], bool] = lambda *_: False,
    ) -> None:
        self._absolute = {topic.strip("/") for topic in used if topic.startswith("/")}
        self._relative = {topic.strip("/") for topic in used if not topic.startswith("/")}
        self._namespace = namespace
        self._wanted = wanted
        self._is_ours = is_ours
        self._matches = matches

    def topic(self, key: str, encoding: str, device: str | None) -> tuple[str, str] | None:
        """Topic and type of a message to record; None if it is used, not wanted, or not this device's."""
        kind, _, schema = encoding.partition(";")
        if kind != CDR or not schema or self._is_used(key) or self._matches(key, full_type(schema)):
            return None
        name = self._name(key, device)
        if name is None or not self._wanted(f"/{name}", schema):
            return None
        return displayed(f"/{name}"), full_type(displayed(schema))

    def _is_used(self, key: str) -> bool:
        if not self._namespace:
            return key in self._absolute or any(tail in self._relative for tail in _tails(key))
        inside = key.removeprefix(f"{self._namespace}/")
        is_bare = inside == key and self._namespace != "rt"
        return key in self._absolute or (inside in self._relative and not is_bare)

    def _name(self, key: str, device: str | None) -> str | None:
        """The name without the device's prefix; None if the prefix is another device's."""
        if self._namespace not in BARE:
            return key.removeprefix(f"{self._namespace}/")
        known = next((tail for tail in _tails(key) if tail in _TAILS), None)
        if known is None:
            return key.removeprefix(f"{device or 'rt'}/")
        prefix = key.removesuffix(known).strip("/")
        ours = prefix in BARE if self._namespace else self._is_ours(prefix)
        return known if ours else None


def _tails(key: str) -> list[str]:
    """The key, and all of its ends that begin after a slash."""
    parts = key.split("/")
    return ["/".join(parts[at:]) for at in range(len(parts))]


class OtherTopics:
    """Searches once for other topics, if the reference or an explicitly configured role is not received.

    For ``WATCH_S`` it subscribes to everything, and keeps names and types.

    Args:
        session: see ``zenohlink.open_session``.
        config: the capture's configuration.
        keys: key expressions that are subscribed to already.
    """

    def __init__(self, session: zenoh.Session, config: Config, keys: Sequence[str]) -> None:
        self._session = session
        self._keys = keys
        roles = {config.topics[entry].role for entry in explicit_entries(config)}
        self._wanted = {role.value for role in (*roles, reference_role(config))}
        self._found: dict[str, str] = {}
        self._watch: zenoh.Subscriber[None] | None = None
        self._until_s: float | None = None

    def found(self) -> list[ExistingTopic]:
        """The topics found so far. Thread-safe."""
        return [ExistingTopic(topic, kind) for topic, kind in self._found.copy().items()]

    def watch(self, silent: Collection[str], elapsed_s: float) -> None:
        """Begin or end the search when it is time; called periodically.

        Args:
            silent: roles of which nothing has been received.
            elapsed_s: duration of the session so far.
        """
        now_s = time.monotonic()
        if self._until_s is None and elapsed_s >= FIRST_S and self._wanted & set(silent):
            self._until_s = now_s + WATCH_S
            self._watch = subscribe(self._session, "**", self._on_sample)
        elif self._watch is not None and self._until_s is not None and now_s > self._until_s:
            self._watch.undeclare()  # type: ignore[no-untyped-call]  # zenoh annotates no return
            self._watch = None

    def _on_sample(self, sample: zenoh.Sample) -> None:
        key = str(sample.key_expr)
        if len(self._found) < MOST_TOPICS and not any(key_includes(each, key) for each in self._keys):
            kind = str(sample.encoding).partition(";")[2]
            self._found[displayed(f"/{key}")] = full_type(displayed(kind))
