"""What of the diagnostics is worth a line in the log: changes that last, and now and then how it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgefirst_ros.nodes.diagnostics import Entry, Level

PATIENCE = 3
"""So many times in a row something must be said before it is told: most troubles pass in a second."""
EVERY = 60
"""How often it is told that all goes on."""


class Herald:
    """Takes the diagnostics each time they are published; the first entry is the summary."""

    def __init__(self) -> None:
        self._told: dict[str, Level] = {}
        self._new: dict[str, tuple[Level, int]] = {}
        self._quiet = 0

    def hear(self, entries: Sequence[Entry], *, working: bool) -> Iterator[tuple[Level, str]]:
        """Lines for the log with how bad they are; while ``working`` also that all goes on."""
        told = False
        for entry in entries:
            before = self._told.get(entry.name, Level.OK)
            level, times = self._new.get(entry.name, (before, 0))
            times = times + 1 if entry.level == level else 1
            self._new[entry.name] = (entry.level, times)
            if entry.level != before and times >= PATIENCE:
                self._told[entry.name] = entry.level
                told = True
                again = "well again: " if entry.level == Level.OK else ""
                yield entry.level, f"{entry.name}: {again}{entry.message}"
        self._quiet = 0 if told or not working else self._quiet + 1
        if self._quiet >= EVERY:
            self._quiet = 0
            yield entries[0].level, entries[0].message
