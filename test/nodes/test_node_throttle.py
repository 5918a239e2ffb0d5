"""The log hears of what lasts, once, and of its end; and now and then that all goes on."""

from __future__ import annotations

from edgefirst_ros.nodes.diagnostics import Entry, Level
from edgefirst_ros.nodes.throttle import EVERY, PATIENCE, Herald


def session(level: Level = Level.OK) -> Entry:
    return Entry(level, "session", "monday: 5 samples")


def said(herald: Herald, level: Level, times: int, *, working: bool = False) -> list[tuple[Level, str]]:
    camera = Entry(level, "/camera", "slow" if level else "30.0 Hz")
    return [line for _ in range(times) for line in herald.hear([session(), camera], working=working)]


def test_what_is_well_is_not_told() -> None:
    assert said(Herald(), Level.OK, 200) == []


def test_what_lasts_is_told_once_and_so_is_its_end() -> None:
    herald = Herald()
    assert said(herald, Level.WARN, PATIENCE - 1) == []
    assert said(herald, Level.WARN, 50) == [(Level.WARN, "/camera: slow")]
    assert said(herald, Level.OK, PATIENCE - 1) == []
    assert said(herald, Level.OK, 50) == [(Level.OK, "/camera: well again: 30.0 Hz")]


def test_what_passes_is_not_told() -> None:
    herald = Herald()
    for _ in range(20):
        assert said(herald, Level.WARN, PATIENCE - 1) == []
        assert said(herald, Level.OK, 1) == []


def test_what_gets_worse_is_told_again() -> None:
    herald = Herald()
    assert len(said(herald, Level.WARN, PATIENCE)) == 1
    assert said(herald, Level.ERROR, PATIENCE) == [(Level.ERROR, "/camera: slow")]


def test_now_and_then_it_is_said_that_all_goes_on() -> None:
    herald = Herald()
    assert said(herald, Level.OK, EVERY * 2, working=True) == [(Level.OK, "monday: 5 samples")] * 2
    assert said(herald, Level.OK, EVERY * 2, working=False) == []
