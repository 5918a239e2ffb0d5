"""The nodes' log: lines of varying severity, and which changes in the diagnostics deserve one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from edgefirst_ros.naming import visible
from edgefirst_ros.nodes.diagnostics import Diagnostic, Level

PERSISTENT = 3
"""A changed level is logged when seen this many times in a row: most problems pass in a second."""
HEARTBEAT = 60
"""The summary is logged after this many calls without any other line."""


def log(logger: Any, level: Level, text: str) -> None:  # noqa: ANN401 - rclpy's logger, untyped
    """Log a line with the severity of a diagnostic level, and control characters in it escaped.

    rclpy refuses a call site that changes its severity, so each severity has a call of its own.
    """
    text = visible(text)
    if level == Level.ERROR:
        logger.error(text)
    elif level == Level.OK:
        logger.info(text)
    else:
        logger.warning(text)


class LogThrottle:
    """Turns the diagnostics of every second into a few log lines: changes of level that persist."""

    def __init__(self) -> None:
        self._logged: dict[str, Level] = {}
        self._streaks: dict[str, tuple[Level, int]] = {}
        self._quiet = 0

    def lines(self, diagnostics: Sequence[Diagnostic], *, working: bool) -> Iterator[tuple[Level, str]]:
        """Log lines, with their levels, for the diagnostics that are published now.

        Args:
            diagnostics: the summary first.
            working: also repeat the summary from time to time.
        """
        changed = False
        for each in diagnostics:
            before = self._logged.get(each.name, Level.OK)
            level, times = self._streaks.get(each.name, (before, 0))
            times = times + 1 if each.level == level else 1
            self._streaks[each.name] = (each.level, times)
            if each.level != before and times >= PERSISTENT:
                self._logged[each.name] = each.level
                changed = True
                recovered = "recovered: " if each.level == Level.OK else ""
                yield each.level, f"{each.name}: {recovered}{each.message}"
        self._quiet = 0 if changed or not working else self._quiet + 1
        if self._quiet >= HEARTBEAT:
            self._quiet = 0
            yield diagnostics[0].level, diagnostics[0].message
