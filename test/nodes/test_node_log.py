"""A line is logged as bad as it is, from a place of its own for each severity."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.nodes.diagnostics import log


class Strict:
    """As rclpy's: a place in the code that has once logged with a severity must stay with it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._places: dict[tuple[str, int], str] = {}

    def _log(self, severity: str, text: str) -> None:
        caller = sys._getframe(2)
        place = caller.f_code.co_filename, caller.f_lasti
        if self._places.setdefault(place, severity) != severity:
            raise ValueError("Logger severity cannot be changed between calls.")
        self.lines.append((severity, text))

    def info(self, text: str) -> None:
        self._log("info", text)

    def warning(self, text: str) -> None:
        self._log("warning", text)

    def error(self, text: str) -> None:
        self._log("error", text)


@pytest.mark.parametrize(
    "order", [list(Severity), list(reversed(Severity))], ids=["better first", "worse first"]
)
def test_severities_may_come_in_any_order(order: list[Severity]) -> None:
    logger = Strict()
    node = SimpleNamespace(get_logger=lambda: logger)
    for level in order * 2:
        log(node, level, level.name)
    names = {"NOTE": "info", "WARNING": "warning", "ERROR": "error"}
    assert logger.lines == [(names[level.name], level.name) for level in order * 2]
