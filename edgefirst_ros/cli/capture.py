"""edgefirst-ros capture: capture live from a device's Zenoh, without ROS.

Tells of the sessions of a capture as they end, with their pages, without keeping the capture waiting.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli import options
from edgefirst_ros.cli.lastresort import leave
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    EXIT_USAGE,
    exit_code,
    guarded,
    interruptible,
    make_config,
    print_error,
    print_interruption,
)
from edgefirst_ros.cli.terminal import (
    make_console,
    print_line,
    print_places,
    print_report,
    print_row,
    roles_text,
)
from edgefirst_ros.formats.pace import Pace
from edgefirst_ros.live.signals import pausing
from edgefirst_ros.model.errors import TransportError

if TYPE_CHECKING:
    from edgefirst_ros.cli.liveview import LiveView
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.live.capture import LiveCapture
    from edgefirst_ros.live.session import Finished
    from edgefirst_ros.live.status import LiveStatus
    from edgefirst_ros.sources.suggest import Suggestion
    from edgefirst_ros.sources.zenoh import ZenohSource

    Ended = tuple[LiveCapture, "SessionReports", list[Finished]]


Made = tuple[Sequence[Path], str]
"""Pages, and what to say about them."""
LEFT = "the report page is left to `edgefirst-ros report`: there was no time for it"


class SessionReports:
    """Makes the page of each session, then tells of it: in a thread of its own, one after the other.

    A page reads a dataset, which takes as long as it is large; while sessions go on it is work that waits.

    Args:
        make: makes the pages of a session's files.
        tell: called with a session and its pages, one call at a time, by this thread or the one that closes.
    """

    def __init__(
        self, make: Callable[[Sequence[Path]], Made], tell: Callable[[Finished, Made], None]
    ) -> None:
        self._make = make
        self._tell = tell
        self._pace = Pace()
        self._sessions: SimpleQueue[Finished | None] = SimpleQueue()
        self._untold: list[Finished] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pages", daemon=True)
        self._thread.start()

    def add(self, finished: Finished) -> None:
        """A session has ended."""
        with self._lock:
            self._untold.append(finished)
        self._sessions.put(finished)

    @property
    def is_busy(self) -> bool:
        """Whether a page is being made that nobody waits for any more."""
        return self._thread.is_alive()

    def close(self, within_s: float | None) -> None:
        """Tell of what is left; pages that are not made within the time are left to ``report``."""
        self._pace.hurry()
        self._sessions.put(None)
        self._thread.join(within_s)
        with self._lock:
            left, self._untold = self._untold, []
        for finished in left:
            self._tell(finished, ((), LEFT))

    def _run(self) -> None:
        with self._pace.kept():
            while (finished := self._sessions.get()) is not None:
                made = self._make(finished.paths)
                with self._lock:
                    if finished not in self._untold:
                        return  # told of without its page, as the time was over
                    self._untold.remove(finished)
                    self._tell(finished, made)


class _OtherNames(Exception):
    """What comes has the names of no device; ``before`` has heard of it what it could."""

    def __init__(self, suggestion: Suggestion, before: LiveCapture) -> None:
        super().__init__()
        self.suggestion, self.before = suggestion, before


VIEW_EVERY_S = 0.25
SUGGEST_AFTER_S, LISTEN_S = 3.0, 3.0
"""A device sends everything at least once in this time; others are then listened to for as long."""
STOP_S, END_S = 2.5, 2.7
"""From a signal: to the complete datasets, as for the node; and to the end of what makes pages."""
PAGE_BYTES = 4 << 20
"""What a report's page takes at most, see docs/report.md."""
_ADDRESS = re.compile(r"[a-z0-9_-]+/\[?(?P<host>[^\]/?#]+?)\]?(:\d+)?([?#].*)?")


@options.taking(
    "output connect listen zenoh_config formats name rate_hz split duration config_file record start_paused "
    "quiet verbose as_json every distance_m moving keyframes require reference "
    "session schema_version container pictures namespace host split_every workers no_report strict"
)
def capture(**given: Any) -> None:  # noqa: ANN401 - the options
    """Capture live from a device's Zenoh into the datasets that convert makes.

    SIGUSR1 pauses, SIGUSR2 resumes with a new sequence. Ctrl-C writes what was received and ends within 3 s.
    A second one ends at once, and [bold]recover[/] finishes the output. A full disk ends the capture, too.

    Exit codes: 0 done, 1 empty or disk full, 2 wrong usage, no connection or writing failed, 130 interrupted.

    [bold]Examples[/]

      edgefirst-ros capture --zenoh tcp/192.168.1.5:7447

      edgefirst-ros capture --zenoh tcp/maivin:7447 -o out --split-every 600s
    """
    of, output = SimpleNamespace(**given), Path(given["output"])
    quiet, as_json = of.quiet, of.as_json
    err = make_console(stderr=True)
    with guarded(err, instead="use another --name", output=output, as_json=as_json):
        from edgefirst_ros.cli.liveview import LiveView
        from edgefirst_ros.live.capture import LiveCapture
        from edgefirst_ros.offline.inputs import suggestion_of
        from edgefirst_ros.sources.zenoh import ZenohSource, overhear
        from edgefirst_ros.sources.zenohlink import linked

        chosen, notes = options.chosen(given), list[str]()
        config = make_config(of.config_file, chosen, notes=notes)
        for note in () if quiet or as_json else notes:
            _note(err, note)
        # Topics have no prefix here, so a configured one only names the device.
        namespace, config = of.namespace or config.prefix or "", config.model_copy(update={"prefix": ""})
        host = namespace if namespace.strip("/") not in {"", "rt"} else _host_of([*(of.connect or ())])
        stop, view = threading.Event(), LiveView(err, quiet=quiet or as_json)
        begun_s, there = time.monotonic(), _folders(output, config)
        page_bytes = PAGE_BYTES * (not of.no_report)

        def once(config: Config, before: LiveCapture | None = None) -> Ended:
            taking = LiveCapture(config, output, host, beside_bytes=page_bytes, before=before)
            suggests = before is None and of.config_file is None and not namespace
            with linked(of.connect or [], of.listen or [], of.zenoh_config) as link:
                source = partial(
                    ZenohSource,
                    link,
                    config,
                    taking.put,
                    namespace=namespace,
                    record=taking.record if config.record else None,
                )
                reports = SessionReports(
                    _no_pages if of.no_report else _pages,
                    partial(_report_session, err, quiet=quiet, verbose=of.verbose, as_json=as_json),
                )
                try:
                    finished = _run(
                        taking,
                        (of.name, of.session),
                        source,
                        stop,
                        view,
                        reports=reports,
                        end_s=None if of.duration is None else begun_s + of.duration,
                        paused=of.start_paused,
                        discard=partial(_discard, output, there),
                        complain=partial(print_error, err),
                        suggest=(lambda: suggestion_of(overhear(link, LISTEN_S), config))
                        if suggests
                        else None,
                    )
                except BaseException:
                    taking.abort()
                    raise
            return taking, reports, finished

        with interruptible(stop, err, "stopping, what was received is written", output):
            try:
                taking, reports, finished = once(config)
            except _OtherNames as other:
                found = other.suggestion
                if not (quiet or as_json):
                    _note(err, found.note)
                config = make_config(None, {**chosen, "prefix": ""}, recorded=found.values)
                taking, reports, finished = once(config, other.before)
                if finished:
                    found.keep(output, finished[0].name)
        if not finished:
            _never_connected(err, output, (*(of.connect or ()), *(of.listen or ())), stop, as_json=as_json)
        _say_end(err, finished, interrupted=stop.is_set(), quiet=quiet, as_json=as_json)
        code = _code(taking, finished, strict=of.strict)
    code = EXIT_INTERRUPTED if stop.is_set() and code != EXIT_USAGE else code
    if reports.is_busy:  # a page that nobody waits for; it gets its name only when it is whole
        leave(code)
    raise typer.Exit(code)


def _never_connected(
    err: Console, output: Path, endpoints: Sequence[str], stop: threading.Event, *, as_json: bool
) -> NoReturn:
    if stop.is_set():
        print_interruption(err, f"interrupted: nothing was connected or written to {output}", as_json=as_json)
        raise typer.Exit(EXIT_INTERRUPTED)
    places = ", ".join(each.partition("#")[0] for each in endpoints)
    raise TransportError(
        f"never connected{places and f' ({places})'}, nothing was written to {output}: is the device on, and "
        "--zenoh its address?"
    )


def _say_end(
    err: Console, finished: Sequence[Finished], *, interrupted: bool, quiet: bool, as_json: bool
) -> None:
    """Say how it ended, and what came of each of several sessions."""
    if as_json:
        return
    with suppress(OSError):
        if interrupted:
            err.print("note: stopped by you, what was received is written", highlight=False)
        for done in finished if len(finished) > 1 and not quiet else ():
            print_line(err, done.summary)


def _code(taking: LiveCapture, finished: Sequence[Finished], *, strict: bool) -> int:
    """The exit code, of the capture as a whole: a split right before its end may leave an empty session."""
    from edgefirst_ros.live.capture import STOPPED

    if taking.lost or any(done.report.get("recording", {}).get("failure") for done in finished):
        return EXIT_USAGE  # said when it was noticed
    if finished[-1].report["ended"] != STOPPED:
        return EXIT_POOR
    judged = [done.report for done in finished if done.report["samples"]] or [finished[-1].report]
    return max(exit_code(report, strict=strict) for report in judged)


def _run(
    taking: LiveCapture,
    names: tuple[str, str],
    connect: Callable[[], ZenohSource],
    stop: threading.Event,
    view: LiveView,
    *,
    reports: SessionReports,
    end_s: float | None,
    paused: bool,
    discard: Callable[[Finished], None],
    complain: Callable[[str], None],
    suggest: Callable[[], Suggestion | None] | None,
) -> list[Finished]:
    """Capture from connection to finished output, and report each session that ends.

    ``complain`` is called with what is wrong with outputs, once each; ``suggest`` where no sample could begin
    with anything that came.

    A session is handed to ``discard`` instead if there was no connection all the time; then none is returned.

    Raises:
        _OtherNames: what comes has other names, and another configuration would take it.
    """
    from edgefirst_ros.live.capture import STOPPED

    said: set[str] = set()

    def say(status: LiveStatus) -> None:
        for problem in status.problems:
            if problem not in said:
                said.add(problem)
                complain(problem)

    dataset, sequence = names
    taking.start(dataset, sequence=sequence, paused=paused)
    reported, connected = 0, False
    with pausing(taking.pause, taking.resume), connect() as source, view:
        taking.other_topics = source.other_topics.found
        while taking.running and not stop.wait(VIEW_EVERY_S):
            status = taking.status()
            source.other_topics.watch(status.silent, status.elapsed_s)
            connected = connected or source.connections > 0
            say(status)
            if suggest is not None and connected and status.elapsed_s > SUGGEST_AFTER_S:
                _look_for_others(taking, suggest, discard)
                suggest = None
            view.update(status, source.connections, source.notes)
            while reported < len(taking.splits):
                reports.add(taking.splits[reported].closed)
                reported += 1
            if end_s is not None and time.monotonic() >= end_s:
                break
        asked_s = time.monotonic()
        connected = connected or source.connections > 0
    finished = taking.stop(STOP_S)
    say(taking.status())
    totals = finished[0].report["totals"] if len(finished) == 1 else {}
    if not connected and totals.get("received") == 0 and finished[0].report["ended"] == STOPPED:
        discard(finished[0])
        return []
    for session in finished[reported:]:
        reports.add(session)
    left_s = max(0.0, asked_s + END_S - time.monotonic()) if stop.is_set() else None
    reports.close(left_s)
    return finished


def _look_for_others(
    taking: LiveCapture, suggest: Callable[[], Suggestion | None], discard: Callable[[Finished], None]
) -> None:
    """End the session for another configuration, where ``convert`` of what is heard would make one, too.

    Raises:
        _OtherNames: there is one.
    """
    if "camera" in taking.status().silent and (suggestion := suggest()) is not None:
        discard(taking.stop(STOP_S)[0])
        raise _OtherNames(suggestion, taking)


def _folders(output: Path, config: Config) -> list[Path]:
    """The folders that a capture makes and that are not there yet, the innermost first."""
    from edgefirst_ros.formats.datasets import RECORDINGS

    inner = [output / name for name in (RECORDINGS, *config.formats)]
    return [folder for folder in (*inner, output, *output.parents) if not folder.exists()]


def _discard(output: Path, folders: Sequence[Path], empty: Finished) -> None:
    """Remove what a session without any sample left, and the folders that were made for it."""
    own = {path.parent for path in empty.paths if path.parent.parent.parent == output}
    for path in (*own, *empty.paths):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder in folders:
        with suppress(OSError):  # it holds something else
            folder.rmdir()


def _note(err: Console, text: str) -> None:
    with suppress(OSError):
        print_line(err, f"note: {escape(text)}")


def _no_pages(_: Sequence[Path]) -> Made:
    return (), ""


def _pages(paths: Sequence[Path]) -> Made:
    from edgefirst_ros.report import make_pages

    return make_pages(paths)


def _report_session(
    err: Console, finished: Finished, made: Made, *, quiet: bool, verbose: bool, as_json: bool
) -> None:
    pages, fault = made
    with suppress(OSError):  # the terminal may be gone; the dataset is complete all the same
        if fault == LEFT and not (quiet or as_json):
            _note(err, fault)
        elif fault and fault != LEFT:
            print_line(err, f"[bold yellow]warning[/]: {escape(fault)}")
        _print_session(
            err, finished, [*finished.paths, *pages], quiet=quiet, verbose=verbose, as_json=as_json
        )


def _print_session(
    err: Console, finished: Finished, paths: Sequence[Path], *, quiet: bool, verbose: bool, as_json: bool
) -> None:
    from edgefirst_ros.live.capture import STOPPED
    from edgefirst_ros.live.split import SPLIT

    report = finished.report
    if as_json:
        sys.stdout.write(json.dumps({**report, "paths": [str(p) for p in paths]}) + "\n")
        sys.stdout.flush()
        return
    print_report(err, report, details=not quiet, verbose=verbose)
    ended = str(report["ended"])
    if ended.startswith(SPLIT):
        print_row(err, "note", f"ended by a {ended}, a new session followed")
    elif ended != STOPPED:
        print_row(err, "warning", f"ended because {report['ended']}")
    if not report["topics"]:
        print_row(err, "warning", "nothing was received, is the device on, and --zenoh its address?")
    if not quiet:
        if report["silent"]:
            print_row(err, "note", f"nothing was received for {roles_text(report['silent'])}")
        print_places(paths)


def _host_of(endpoints: Sequence[str]) -> str:
    """The host name in an endpoint's address; "edgefirst" without one."""
    found = _ADDRESS.fullmatch(endpoints[0]) if endpoints else None
    return found["host"].removesuffix(".local") if found else "edgefirst"
