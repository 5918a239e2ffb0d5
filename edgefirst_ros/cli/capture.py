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
from dataclasses import dataclass, field
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
from edgefirst_ros.cli.terminal import make_console, print_line, print_report, print_row, roles_text
from edgefirst_ros.formats.pace import Pace
from edgefirst_ros.live.signals import pausing
from edgefirst_ros.model.errors import TransportError

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config
    from edgefirst_ros.live.capture import LiveCapture
    from edgefirst_ros.live.session import Finished
    from edgefirst_ros.live.status import LiveStatus
    from edgefirst_ros.sources.suggest import Suggestion
    from edgefirst_ros.sources.zenoh import ZenohSource


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
    of, err = options.asked(given), make_console(stderr=True)
    output = Path(of.output)
    with guarded(err, instead="use another --name", output=output, as_json=of.as_json):
        chosen, notes = options.chosen(given), list[str]()
        config = make_config(of.config_file, chosen, notes=notes)
        # Topics have no prefix here, so a configured one only names the device.
        of.namespace, config = of.namespace or config.prefix or "", config.model_copy(update={"prefix": ""})
        run = _Capture(of, err, output, _folders(output, config))
        for note in notes:
            run.say("note", note)
        with interruptible(run.stop, err, "stopping, what was received is written", output):
            try:
                taking, reports, finished = run.once(config)
            except _OtherNames as other:
                found = other.suggestion
                run.say("note", found.note)
                config = make_config(None, {**chosen, "prefix": ""}, recorded=found.values)
                taking, reports, finished = run.once(config, other.before)
                if finished:
                    found.keep(output, finished[0].name)
        if not finished:
            run.refuse_unconnected()
        if run.stop.is_set():
            run.say("note", "stopped by you, what was received is written")
        for done in finished if len(finished) > 1 else ():
            run.say("session", done.summary)
        code = _code(taking, finished, strict=of.strict)
    code = EXIT_INTERRUPTED if run.stop.is_set() and code != EXIT_USAGE else code
    if reports.is_busy:  # a page that nobody waits for; it gets its name only when it is whole
        leave(code)
    raise typer.Exit(code)


def _code(taking: LiveCapture, finished: Sequence[Finished], *, strict: bool) -> int:
    """The exit code, of the capture as a whole: a split right before its end may leave an empty session."""
    from edgefirst_ros.live.capture import STOPPED

    if taking.lost or any(done.report.get("recording", {}).get("failure") for done in finished):
        return EXIT_USAGE  # said when it was noticed
    if finished[-1].report["ended"] != STOPPED:
        return EXIT_POOR
    judged = [done.report for done in finished if done.report["samples"]] or [finished[-1].report]
    return max(exit_code(report, strict=strict) for report in judged)


def _folders(output: Path, config: Config) -> list[Path]:
    """The folders that a capture makes and that are not there yet, the innermost first."""
    from edgefirst_ros.formats.datasets import RECORDINGS

    inner = [output / name for name in (RECORDINGS, *config.formats)]
    return [folder for folder in (*inner, output, *output.parents) if not folder.exists()]


@dataclass(slots=True)
class _Capture:
    """One run of the command, over all its sessions; ``folders`` are those that are made for it."""

    of: SimpleNamespace
    err: Console
    output: Path
    folders: Sequence[Path]
    stop: threading.Event = field(default_factory=threading.Event)
    begun_s: float = field(default_factory=time.monotonic)
    said: set[str] = field(default_factory=set)

    def say(self, label: str, text: str) -> None:
        """Print a line; the terminal may be gone, and the dataset is complete all the same."""
        with suppress(OSError):
            if not (self.of.quiet or self.of.as_json):
                print_line(self.err, f"{label}: {escape(text)}")

    def refuse_unconnected(self) -> NoReturn:
        """End a run that never had a connection."""
        nothing = f"nothing was written to {self.output}"
        if self.stop.is_set():
            print_interruption(self.err, f"never connected, {nothing}", as_json=self.of.as_json)
            raise typer.Exit(EXIT_INTERRUPTED)
        endpoints = *(self.of.connect or ()), *(self.of.listen or ())
        places = ", ".join(each.partition("#")[0] for each in endpoints)
        where = f"never connected{places and f' ({places})'}"
        raise TransportError(f"{where}, {nothing}: is the device on, and --zenoh its address?")

    def once(
        self, config: Config, before: LiveCapture | None = None
    ) -> tuple[LiveCapture, SessionReports, list[Finished]]:
        """Capture with one configuration.

        Raises:
            _OtherNames: what comes has other names, and another configuration would take it.
        """
        from edgefirst_ros.live.capture import LiveCapture
        from edgefirst_ros.offline.inputs import suggestion_of
        from edgefirst_ros.sources.zenoh import ZenohSource, overhear
        from edgefirst_ros.sources.zenohlink import linked

        of = self.of
        host = of.namespace if of.namespace.strip("/") not in {"", "rt"} else _host_of(of.connect or ())
        page_bytes = PAGE_BYTES * (not of.no_report)
        taking = LiveCapture(config, self.output, host, beside_bytes=page_bytes, before=before)
        reports = SessionReports(_no_pages if of.no_report else _pages, self._tell)
        with linked(of.connect or [], of.listen or [], of.zenoh_config) as link:
            record = taking.record if config.record else None
            source = partial(ZenohSource, link, config, taking.put, namespace=of.namespace, record=record)
            suggest: Callable[[], Suggestion | None] | None = None
            if before is None and of.config_file is None and not of.namespace:

                def suggest() -> Suggestion | None:
                    return suggestion_of(overhear(link, LISTEN_S), config)

            try:
                return taking, reports, self._run(taking, reports, source, suggest)
            except BaseException:
                taking.abort()
                raise

    def _run(
        self,
        taking: LiveCapture,
        reports: SessionReports,
        connect: Callable[[], ZenohSource],
        suggest: Callable[[], Suggestion | None] | None,
    ) -> list[Finished]:
        """Capture from connection to finished output; no session if there was no connection all the time."""
        from edgefirst_ros.cli.liveview import LiveView
        from edgefirst_ros.live.capture import STOPPED

        of, connected = self.of, False
        taking.start(of.name, sequence=of.session, paused=of.start_paused)
        view, reported = LiveView(self.err, quiet=of.quiet or of.as_json), 0
        with pausing(taking.pause, taking.resume), connect() as source, view:
            taking.other_topics = source.other_topics.found
            while taking.running and not self.stop.wait(VIEW_EVERY_S):
                status = taking.status()
                source.other_topics.watch(status.silent, status.elapsed_s)
                connected = connected or source.connections > 0
                self._complain(status)
                if suggest is not None and connected and status.elapsed_s > SUGGEST_AFTER_S:
                    if "camera" in taking.status().silent and (suggestion := suggest()) is not None:
                        self._discard(taking.stop(STOP_S)[0])
                        raise _OtherNames(suggestion, taking)
                    suggest = None
                view.update(status, source.connections, source.notes)
                for split in taking.splits[reported:]:
                    reports.add(split.closed)
                    reported += 1
                if of.duration is not None and time.monotonic() >= self.begun_s + of.duration:
                    break
            asked_s = time.monotonic()
            connected = connected or source.connections > 0
        finished = taking.stop(STOP_S)
        self._complain(taking.status())
        totals = finished[0].report["totals"] if len(finished) == 1 else {}
        if not connected and totals.get("received") == 0 and finished[0].report["ended"] == STOPPED:
            self._discard(finished[0])
            return []
        for session in finished[reported:]:
            reports.add(session)
        reports.close(max(0.0, asked_s + END_S - time.monotonic()) if self.stop.is_set() else None)
        return finished

    def _complain(self, status: LiveStatus) -> None:
        for problem in status.problems:
            if problem not in self.said:
                self.said.add(problem)
                print_error(self.err, problem)

    def _discard(self, empty: Finished) -> None:
        """Remove what a session without any sample left, and the folders that were made for it."""
        own = {path.parent for path in empty.paths if path.parent.parent.parent == self.output}
        for path in (*own, *empty.paths):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for folder in self.folders:
            with suppress(OSError):  # it holds something else
                folder.rmdir()

    def _tell(self, finished: Finished, made: Made) -> None:
        """Print what came of a session."""
        from edgefirst_ros.live.capture import STOPPED
        from edgefirst_ros.live.split import SPLIT

        (pages, fault), report, quiet = made, finished.report, self.of.quiet
        paths, ended = [*finished.paths, *pages], str(report["ended"])
        with suppress(OSError):
            if fault == LEFT:
                self.say("note", fault)
            elif fault:
                print_line(self.err, f"warning: {escape(fault)}")
            if self.of.as_json:
                sys.stdout.write(json.dumps({**report, "paths": [str(p) for p in paths]}) + "\n")
                sys.stdout.flush()
                return
            print_report(self.err, report, detail=self.of.detail, paths=paths)
            if ended.startswith(SPLIT):
                print_row(self.err, "note", f"ended by a {ended}, a new session followed")
            elif ended != STOPPED:
                print_row(self.err, "warning", f"ended because {ended}")
            if not report["topics"]:
                text = "nothing was received, is the device on, and --zenoh its address?"
                print_row(self.err, "warning", text)
            if report["silent"] and not quiet:
                print_row(self.err, "note", f"nothing was received for {roles_text(report['silent'])}")


def _no_pages(_: Sequence[Path]) -> Made:
    return (), ""


def _pages(paths: Sequence[Path]) -> Made:
    from edgefirst_ros.report import make_pages

    return make_pages(paths)


def _host_of(endpoints: Sequence[str]) -> str:
    """The host name in an endpoint's address; "edgefirst" without one."""
    found = _ADDRESS.fullmatch(endpoints[0]) if endpoints else None
    return found["host"].removesuffix(".local") if found else "edgefirst"
