"""What a device sends over Zenoh besides the topics that are used, for a recording of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from edgefirst_ros.config.model import MAIVIN_TOPICS
from edgefirst_ros.sources.zenohlink import CDR
from edgefirst_ros.topics import full_type

BARE = frozenset({"", "rt"})
"""Prefixes of generations A and B, which one device may mix."""
_TAILS = frozenset(name for rule in MAIVIN_TOPICS.values() for name in rule.plain_names)


def wide_keys(namespace: str) -> tuple[str, ...]:
    """Key expressions of everything that a device may send under its namespace, see ``key_expressions``."""
    return ("**",) if namespace in BARE else (f"{namespace}/**",)


class Unused:
    """Tells which keys are topics that nothing uses, and what to call them.

    Args:
        used: the configured topics that are names.
        namespace: prefix of the device's names; empty if whatever is heard is taken.
        wanted: whether a topic of a type is to be recorded.
        is_ours: whether a prefix is the device's.
        matches: whether a regular expression of the configuration takes a key and a type.
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
        """Topic and type of a message; None if it is used, not wanted, of another device or no message."""
        kind, _, schema = encoding.partition(";")
        if kind != CDR or not schema or self._is_used(key) or self._matches(key, full_type(schema)):
            return None
        name = self._name(key, device)
        if name is None or not self._wanted(f"/{name}", schema):
            return None
        return f"/{name}", full_type(schema)

    def _is_used(self, key: str) -> bool:
        if not self._namespace:
            return key in self._absolute or any(tail in self._relative for tail in _tails(key))
        inside = key.removeprefix(f"{self._namespace}/")
        is_bare = inside == key and self._namespace != "rt"
        return key in self._absolute or (inside in self._relative and not is_bare)

    def _name(self, key: str, device: str | None) -> str | None:
        """The name without the device's prefix; None if it is another device's."""
        if self._namespace not in BARE:
            return key.removeprefix(f"{self._namespace}/")
        known = next((tail for tail in _tails(key) if tail in _TAILS), None)
        if known is None:
            return key.removeprefix(f"{device or 'rt'}/")
        prefix = key.removesuffix(known).strip("/")
        ours = prefix in BARE if self._namespace else self._is_ours(prefix)
        return known if ours else None


def _tails(key: str) -> list[str]:
    """The key, and what is left of it without its first parts."""
    parts = key.split("/")
    return ["/".join(parts[at:]) for at in range(len(parts))]
