"""The log hears of what lasts, once, and of its end; and now and then that all goes on."""

from __future__ import annotations

from edgefirst_ros.nodes.diagnostics import PERSISTENT, Diagnostic, Level, LogThrottle


def session(level: Level = Level.OK) -> Diagnostic:
    return Diagnostic(level, "session", "monday: 5 samples")


def said(
    throttle: LogThrottle, level: Level, times: int, *, working: bool = False
) -> list[tuple[Level, str]]:
    camera = Diagnostic(level, "/camera", "slow" if level else "30.0 Hz")
    return [line for _ in range(times) for line in throttle.lines([session(), camera], working=working)]


def test_what_is_well_is_not_told() -> None:
    assert said(LogThrottle(), Level.OK, 200) == []


def test_what_lasts_is_told_once_and_so_is_its_end() -> None:
    throttle = LogThrottle()
    assert said(throttle, Level.WARN, PERSISTENT - 1) == []
    assert said(throttle, Level.WARN, 50) == [(Level.WARN, "/camera: slow")]
    assert said(throttle, Level.OK, PERSISTENT - 1) == []
    assert said(throttle, Level.OK, 50) == [(Level.OK, "/camera: recovered: 30.0 Hz")]


def test_what_gets_worse_is_told_again() -> None:
    throttle = LogThrottle()
    assert len(said(throttle, Level.WARN, PERSISTENT)) == 1
    assert said(throttle, Level.ERROR, PERSISTENT) == [(Level.ERROR, "/camera: slow")]
