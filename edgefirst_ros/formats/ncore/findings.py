"""What a check found, bounded however much is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["error", "warning", "note"]

_MOST_OF_A_KIND = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: an error breaks readers, a warning is poor data, a note is neither."""

    level: Level
    where: str
    what: str


@dataclass(slots=True)
class Findings:
    """Collects findings; of one kind in one place only the first few are kept, the rest counted.

    Attributes:
        kept: findings in the order in which they were made.
        counts: how many of each level there were.
    """

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[Level] = field(default_factory=Counter)
    _kinds: Counter[tuple[str, str]] = field(default_factory=Counter)

    def error(self, where: str, kind: str, detail: str = "") -> None:
        """Something that readers stumble over."""
        self._add("error", where, kind, detail)

    def warning(self, where: str, kind: str, detail: str = "") -> None:
        """Something that can be read but should not be so."""
        self._add("warning", where, kind, detail)

    def note(self, where: str, kind: str, detail: str = "") -> None:
        """Something worth knowing."""
        self._add("note", where, kind, detail)

    def _add(self, level: Level, where: str, kind: str, detail: str) -> None:
        self.counts[level] += 1
        self._kinds[where.partition("@")[0], kind] += 1
        if self._kinds[where.partition("@")[0], kind] <= _MOST_OF_A_KIND:
            self.kept.append(Finding(level, where, f"{kind}: {detail}" if detail else kind))
