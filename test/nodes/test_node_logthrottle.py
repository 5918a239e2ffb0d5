"""The log hears of what lasts, once, and of its end; and now and then that all goes on."""

from __future__ import annotations

from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.nodes.diagnostics import PERSISTENT, Diagnostic, LogThrottle


def session(level: Severity = Severity.NOTE) -> Diagnostic:
    return Diagnostic(level, "session", "monday: 5 samples")


def said(
    throttle: LogThrottle, level: Severity, times: int, *, working: bool = False
) -> list[tuple[Severity, str]]:
    camera = Diagnostic(level, "/camera", "slow" if level else "30.0 Hz")
    return [line for _ in range(times) for line in throttle.lines([session(), camera], working=working)]


def test_what_is_well_is_not_told() -> None:
    assert said(LogThrottle(), Severity.NOTE, 200) == []


def test_what_lasts_is_told_once_and_so_is_its_end() -> None:
    throttle = LogThrottle()
    assert said(throttle, Severity.WARNING, PERSISTENT - 1) == []
    assert said(throttle, Severity.WARNING, 50) == [(Severity.WARNING, "/camera: slow")]
    assert said(throttle, Severity.NOTE, PERSISTENT - 1) == []
    assert said(throttle, Severity.NOTE, 50) == [(Severity.NOTE, "/camera: recovered: 30.0 Hz")]


def test_what_gets_worse_is_told_again() -> None:
    throttle = LogThrottle()
    assert len(said(throttle, Severity.WARNING, PERSISTENT)) == 1
    assert said(throttle, Severity.ERROR, PERSISTENT) == [(Severity.ERROR, "/camera: slow")]
