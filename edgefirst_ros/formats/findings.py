"""What a check found; of many findings alike only the first few are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from edgefirst_ros.errors import EdgeFirstError
from edgefirst_ros.model.untrusted import LOGGER, is_fault, reason_of
from edgefirst_ros.naming import visible

Level = Literal["error", "warning", "note"]

_MOST_OF_A_KIND = 5
_MOST_KINDS = 1000
"""Of each level; names in a damaged dataset may make any number of kinds and places."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: an error breaks readers, a warning is poor data, a note is neither."""

    level: Level
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Look:
    """How thoroughly a check looks, and whom it tells how far it is.

    Attributes:
        quick: at headers and checksums only; pictures, clouds and masks are not decoded.
        passed: gets how many bytes were looked at since it was called last.
    """

    quick: bool = False
    passed: Callable[[int], None] = lambda _: None


EVERYTHING = Look()


@dataclass(slots=True)
class Findings:
    """Collects findings; of one kind in one place only the first few are kept, the rest counted.

    Attributes:
        kept: findings in the order in which they were made.
        counts: how many of each level there were.
        look: what was asked for.
    """

    look: Look = field(default_factory=Look)
    kept: list[Finding] = field(default_factory=list)
    counts: Counter[Level] = field(default_factory=Counter)
    _kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def error(self, where: str, kind: str, detail: str = "") -> None:
        """Add an error: readers fail on it or get wrong values."""
        self._add("error", where, kind, detail)

    def warning(self, where: str, kind: str, detail: str = "") -> None:
        """Add a warning: readable, but poor data."""
        self._add("warning", where, kind, detail)

    def note(self, where: str, kind: str, detail: str = "") -> None:
        """Add a note."""
        self._add("note", where, kind, detail)

    def at(self, where: str) -> Callable[[float, str, str], None]:
        """Adds errors by their time in seconds: ``where@time``, kind, detail."""
        return lambda at_s, kind, detail: self.error(f"{where}@{at_s:.3f} s", kind, detail)

    def _add(self, level: Level, where: str, kind: str, detail: str) -> None:
        self.counts[level] += 1
        key = level, where.partition("@")[0], kind
        if key not in self._kinds:
            if self._kinds[level, "", ""] == _MOST_KINDS:
                return
            self._kinds[level, "", ""] += 1
        self._kinds[key] += 1
        if self._kinds[key] <= _MOST_OF_A_KIND:
            text = f"{kind}: {detail}" if detail else kind
            self.kept.append(Finding(level, visible(where), visible(text)))


@contextmanager
def reading(findings: Findings, where: str, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged content into a finding, and errors of this package likewise.

    As ``refusing`` does for those who need the content.
    """
    try:
        yield
    except BaseException as error:
        if not is_fault(error):
            raise
        LOGGER.debug("%s: %s cannot be read", where, what, exc_info=error)
        said = str(error) if isinstance(error, EdgeFirstError) else reason_of(error)
        findings.error(where, f"{what} cannot be read", said)


@dataclass(frozen=True, slots=True)
class Check:
    """The result for one dataset or sequence.

    Attributes:
        format: edgefirst, ncore or l5kit.
        name: of the dataset or sequence.
        findings: what is wrong, of each kind the first few.
        errors: how many errors there were.
        warnings: how many warnings there were.
        counts: what it holds, by kind.
        busy: what to say of a dataset that a process is writing, and that was not looked at; else empty.
    """

    format: str
    name: str
    findings: tuple[Finding, ...]
    errors: int
    warnings: int
    counts: Mapping[str, int]
    busy: str = ""

    @property
    def ok(self) -> bool:
        """Complete, without errors."""
        return not (self.errors or self.busy)

    @property
    def text(self) -> str:
        """Findings, one a line, and a summary."""
        if self.busy:
            return visible(f"BUSY: {self.format}/{self.name} is {self.busy}")
        lines = [f"{finding.level.upper():7} {finding.where}: {finding.what}" for finding in self.findings]
        held = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        verdict = "OK" if self.ok else "FAIL"
        found = f"{self.errors} errors, {self.warnings} warnings"
        lines.append(visible(f"{verdict}: {self.format}/{self.name}, {found}; {held or 'nothing'}"))
        return "\n".join(lines)


def concluded(format_name: str, name: str, findings: Findings, counts: Mapping[str, int]) -> Check:
    """The result made from the findings."""
    return Check(
        format_name, name, tuple(findings.kept), findings.counts["error"], findings.counts["warning"], counts
    )
