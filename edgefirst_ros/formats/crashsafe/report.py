"""What recovery found of a dataset and did, of any format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Recovery:
    """What ``recover`` found and did.

    Attributes:
        path: the dataset: its folder.
        was_finished: there was nothing to do.
        kept: what is in the dataset now, by the name to show, as ``{"samples": 12, "rows": 40}``; empty where
            that was not counted.
        lost: what had been committed and is not whole, by the name to show.
        dropped: how much was not committed, or follows what is not whole.
        dropped_unit: what ``dropped`` counts.
        paths: what a user should look at; empty if nothing had been committed.
        beside: the complete dataset that this one was to replace or to extend, which stays as it is.
        warnings: what a user must know of the dataset, a sentence each.
    """

    path: Path
    was_finished: bool = False
    kept: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    dropped_unit: str = "bytes"
    paths: tuple[Path, ...] = ()
    beside: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """A line for a person, and one for every warning."""
        return "\n".join([self._summary, *(f"warning: {warning}" for warning in self.warnings)])

    @property
    def _summary(self) -> str:
        if self.was_finished:
            counts = f", {_listed(self.kept)}" if self.kept else ""
            return f"{self.path.name}: was finished already{counts}; nothing to do"
        kept = f"{_listed(self.kept)} are kept" if self.kept else "all that had been committed is kept"
        parts = [kept if self.paths else "nothing had been committed; the leftovers are removed"]
        if +self.lost:
            parts.append(f"{_listed(self.lost)} were damaged and are lost")
        if self.dropped:
            parts.append(f"{self.dropped:,} {self.dropped_unit} of incomplete data dropped")
        if self.beside:
            parts.append(f"the complete {self.beside.name}, which it was to replace, stays")
        return f"{self.path.name}: {'; '.join(parts)}"


def _listed(counts: Counter[str]) -> str:
    """Counts by name, as ``3 samples, 12 files and 9 rows``."""
    words = [f"{count:,} {name}" for name, count in counts.items()]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
