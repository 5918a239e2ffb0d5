"""Sessions of a capture are told of as they end, with their pages where there is time for them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from zenoh_loopback import await_condition

from edgefirst_ros.cli.capture import Pages
from edgefirst_ros.formats.pace import pace_here
from edgefirst_ros.live.session import Finished

Told = list[tuple[str, list[Path] | None]]


def session(name: str) -> Finished:
    return Finished(name, (Path(name),), {})


def test_sessions_are_told_of_in_order_and_no_capture_waits_for_their_pages() -> None:
    go_on, told, waited = threading.Event(), Told(), list[bool]()

    def make(paths: Sequence[Path]) -> list[Path]:
        pace = pace_here()
        waited.append(pace is not None and not pace.is_hurried)
        go_on.wait()
        return [path / "page" for path in paths]

    pages = Pages(make, lambda finished, made: told.append((finished.name, made)))
    pages.add(session("first"))
    await_condition("the first page", lambda: bool(waited))
    pages.add(session("second"))
    pages.tell()
    assert not told
    assert waited == [True]
    assert pages.close(0.01) is False
    assert told == [("first", None), ("second", None)]
    go_on.set()


def test_a_page_that_is_made_is_told_of_while_the_capture_goes_on() -> None:
    told = Told()
    pages = Pages(list, lambda finished, made: told.append((finished.name, made)))
    pages.add(session("first"))
    pages.add(session("second"))
    await_condition("the pages", lambda: [pages.tell(), len(told) == 2][1])
    assert pages.close(None) is True
    assert told == [(name, [Path(name)]) for name in ("first", "second")]
