"""Sessions of a capture are told of as they end, with their pages where there is time for them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from zenoh_loopback import await_condition

from edgefirst_ros.cli.capture import Made, SessionReports
from edgefirst_ros.formats.pace import pace_here
from edgefirst_ros.live.session import Finished

Told = list[tuple[str, Made]]


def session(name: str) -> Finished:
    return Finished(name, (Path(name),), {})


def test_sessions_are_told_of_in_order_and_no_capture_waits_for_their_pages() -> None:
    go_on, told, waited = threading.Event(), Told(), list[bool]()

    def make(paths: Sequence[Path]) -> Made:
        pace = pace_here()
        waited.append(pace is not None and not pace.is_hurried)
        go_on.wait()
        return [path / "page" for path in paths], ""

    reports = SessionReports(make, lambda finished, made: told.append((finished.name, made)))
    reports.add(session("first"))
    await_condition("the first page", lambda: bool(waited))
    reports.add(session("second"))
    assert not told
    go_on.set()
    reports.close(None)
    assert told == [(name, ([Path(name) / "page"], "")) for name in ("first", "second")]
    assert waited[0]
    assert not reports.is_busy
