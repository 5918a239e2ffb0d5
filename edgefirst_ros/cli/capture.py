"""edgefirst-ros capture: capture live from a device's Zenoh, without ROS."""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from edgefirst_ros.cli import options
from edgefirst_ros.cli.lastresort import leave
from edgefirst_ros.cli.results import print_report
from edgefirst_ros.cli.shared import EXIT_INTERRUPTED, EXIT_POOR, EXIT_USAGE, Out, exit_code, make_config
from edgefirst_ros.cli.terminal import print_row, roles_text
from edgefirst_ros.formats.pace import Pace
from edgefirst_ros.live.signals import pausing
from edgefirst_ros.model.errors import TransportError

if TYPE_CHECKING:
    import zenoh

    from edgefirst_ros.config.model import Config
    from edgefirst_ros.live.capture import LiveCapture
    from edgefirst_ros.live.session import Finished
    from edgefirst_ros.live.status import LiveStatus
    from edgefirst_ros.sources.suggest import Suggestion

    Make = Callable[[Sequence[Path]], list[Path]]
    Tell = Callable[[Finished, list[Path] | None], None]

LEFT = "the report page is left to `edgefirst-ros report`: there was no time for it"
VIEW_EVERY_S = 0.25
SUGGEST_AFTER_S, LISTEN_S = 3.0, 3.0
"""A device sends everything at least once in this time; others are then listened to for as long."""
STOP_S, END_S = 2.5, 2.7
"""From a signal: to the complete datasets, as for the node; and to the end of what makes pages."""
PAGE_BYTES = 4 << 20
"""What a report's page takes at most, see docs/report.md."""


class Pages:
    """Makes the page of each session in a thread of its own, one after the other, then tells of it.

    A page reads a dataset, which takes as long as it is large; while sessions go on it is work that waits.

    Args:
        make: makes the pages of a session's files.
        tell: called by ``tell`` and ``close`` with a session and its pages, None if they are not made.
    """

    def __init__(self, make: Make, tell: Tell) -> None:
        self._make, self._tell, self._pace = make, tell, Pace()
        self._pool = ThreadPoolExecutor(1, "pages")
        self._waiting: deque[tuple[Finished, Future[list[Path]]]] = deque()

    def add(self, finished: Finished) -> None:
        """A session has ended."""
        self._waiting.append((finished, self._pool.submit(self._paced, finished.paths)))

    def _paced(self, paths: Sequence[Path]) -> list[Path]:
        with self._pace.kept():
            return self._make(paths)

    def tell(self) -> None:
        """Tell of the sessions whose pages are made."""
        while self._waiting and self._waiting[0][1].done():
            finished, made = self._waiting.popleft()
            self._tell(finished, made.result())

    def close(self, within_s: float | None) -> bool:
        """Tell of all others; pages that are not made within the time are left to ``report``: False."""
        self._pace.hurry()
        _, late = wait([made for _, made in self._waiting], within_s)
        for finished, made in self._waiting:
            self._tell(finished, None if made in late else made.result())
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not late


@options.taking(
    "output connect listen zenoh_config formats name rate_hz split duration config_file record start_paused "
    "quiet verbose as_json every moving keyframes require reference "
    "session schema_version container pictures namespace host split_every workers no_report strict"
)
def capture(**given: Any) -> None:  # noqa: ANN401 - the options
    """Capture live from a device's Zenoh into the datasets that convert makes.

    SIGUSR1 pauses, SIGUSR2 resumes with a new sequence. Ctrl-C writes what was received and ends within 3 s.
    A second one ends at once, and recover finishes the output. A full disk ends the capture, too.

    Exit codes: 0 done, 1 empty or disk full, 2 wrong usage, no connection or writing failed, 130 interrupted.

    For example

      edgefirst-ros capture --zenoh tcp/192.168.1.5:7447

      edgefirst-ros capture --zenoh tcp/maivin:7447 -o out --split-every 600s
    """
    of = options.asked(given)
    out = Out(quiet=of.quiet, as_json=of.as_json, output=Path(of.output))
    with out.guarded("use another --name"):
        run, notes, chosen = _Capture(of, out), list[str](), options.chosen(given)
        config = make_config(of.config_file, chosen, notes=notes)
        out.note(*notes)
        # Topics have no prefix here, so a configured one only names the device.
        of.namespace, chosen["prefix"] = of.namespace or config.prefix or "", ""
        with out.interruptible(run.stop, "stopping, what was received is written"):
            may_suggest = not (of.config_file or of.namespace)
            found = run.once(config.model_copy(update={"prefix": ""}), may_suggest=may_suggest)
            if found is not None:
                out.note(found.note)
                run.once(make_config(None, chosen, recorded=found.values), may_suggest=False)
                if run.finished:
                    found.keep(run.output, run.finished[0].name)
        code = run.end()
    code = EXIT_INTERRUPTED if run.stop.is_set() and code != EXIT_USAGE else code
    if not run.are_pages_made:  # a page that nobody waits for; it gets its name only when it is whole
        leave(code)
    raise typer.Exit(code)


class _Capture:
    """One run of the command, over all its sessions."""

    def __init__(self, of: SimpleNamespace, out: Out) -> None:
        self.of, self.out, self.output = of, out, Path(of.output)
        self.stop, self.finished = threading.Event(), list["Finished"]()
        self.taking: LiveCapture | None = None
        self.is_connected, self.are_pages_made = False, True
        self._begun_s, self._said = time.monotonic(), set[str]()
        self._pages = Pages(lambda paths: [] if of.no_report else out.page_beside(paths), self._tell)

    def once(self, config: Config, *, may_suggest: bool) -> Suggestion | None:
        """Capture with one configuration; another one if what comes has other names, which it would take."""
        from edgefirst_ros.formats.datasets import RECORDINGS
        from edgefirst_ros.live.capture import LiveCapture
        from edgefirst_ros.sources.zenohlink import host_of, linked

        of, output = self.of, self.output
        inner = [output / name for name in (RECORDINGS, *config.formats)]
        new = [folder for folder in (*inner, output, *output.parents) if not folder.exists()]
        own = of.namespace if of.namespace.strip("/") not in {"", "rt"} else ""
        host = own or host_of(of.connect or ()) or "edgefirst"
        page_bytes = PAGE_BYTES * (not of.no_report)
        self.taking = LiveCapture(config, output, host, beside_bytes=page_bytes, before=self.taking)
        with linked(of.connect or [], of.listen or [], of.zenoh_config) as link:
            try:
                found = self._run(self.taking, link, config, may_suggest=may_suggest)
            except BaseException:
                self.taking.abort()
                self._pages.close(0.0)
                raise
        if not self.finished:  # nothing came: neither files stay nor folders that were made for them
            paths = self.taking.finished[0].paths
            for path in (*(each.parent for each in paths if each.parent.parent.parent == output), *paths):
                shutil.rmtree(path, ignore_errors=True)
                path.unlink(missing_ok=True)
            for folder in new:
                with suppress(OSError):  # it holds something else
                    folder.rmdir()
        return found

    def _run(
        self, taking: LiveCapture, link: zenoh.Session, config: Config, *, may_suggest: bool
    ) -> Suggestion | None:
        """Capture from connection to finished output, which is of no use if there was no connection."""
        from edgefirst_ros.cli.liveview import LiveView
        from edgefirst_ros.live.capture import STOPPED
        from edgefirst_ros.offline.inputs import suggestion_of
        from edgefirst_ros.sources.zenoh import ZenohSource, overhear

        of, told, alone_s, record = self.of, 0, 0.0, taking.record if config.record else None
        taking.start(of.name, sequence=of.session, paused=of.start_paused)
        source = ZenohSource(link, config, taking.put, namespace=of.namespace, record=record)
        with pausing(taking.pause, taking.resume), source, LiveView(self.out.err, self.out.quiet) as view:
            taking.other_topics = source.other_topics.found
            while taking.running and not self.stop.wait(VIEW_EVERY_S):
                status = taking.status()
                source.other_topics.watch(status.silent, status.elapsed_s)
                alone_s = alone_s if self.is_connected else status.elapsed_s
                self.is_connected |= source.connections > 0
                self._complain(status)
                is_late = self.is_connected and status.elapsed_s > alone_s + SUGGEST_AFTER_S
                if may_suggest and is_late and "camera" in status.silent:
                    may_suggest = False
                    if (found := suggestion_of(overhear(link, LISTEN_S), config)) is not None:
                        taking.stop(STOP_S)
                        return found
                view.update(status, source.connections, source.notes)
                for split in taking.splits[told:]:
                    self._pages.add(split.closed)
                    told += 1
                self._pages.tell()
                if of.duration is not None and time.monotonic() >= self._begun_s + of.duration:
                    break
            asked_s = time.monotonic()
            self.is_connected |= source.connections > 0
        finished = taking.stop(STOP_S)
        self._complain(taking.status())
        first, *more = [each.report for each in finished]
        if self.is_connected or more or first["totals"]["received"] or first["ended"] != STOPPED:
            self.finished = finished
            for session in finished[told:]:
                self._pages.add(session)
        within_s = max(0.0, asked_s + END_S - time.monotonic()) if self.stop.is_set() else None
        self.are_pages_made = self._pages.close(within_s)
        return None

    def _complain(self, status: LiveStatus) -> None:
        for problem in {*status.problems} - self._said:
            self._said.add(problem)
            self.out.complain(problem)

    def end(self) -> int:
        """Say what became of all sessions; the exit code, of the capture as a whole.

        Raises:
            TransportError: there never was a connection.
        """
        from edgefirst_ros.live.capture import STOPPED
        from edgefirst_ros.sources.zenohlink import alone

        if not self.finished:
            nothing = f"nothing was written to {self.output}"
            if self.stop.is_set():
                self.out.interrupted(f"never connected, {nothing}")
                raise typer.Exit(EXIT_INTERRUPTED)
            where = alone(self.of.connect, self.of.listen)
            raise TransportError(f"{where}, {nothing}: is the device on, and its address right?")
        reports = [done.report for done in self.finished]
        is_lost = self.taking is not None and self.taking.lost
        if is_lost or any(each.get("recording", {}).get("failure") for each in reports):
            return EXIT_USAGE  # said when it was noticed
        if reports[-1]["ended"] != STOPPED:
            return EXIT_POOR
        # A split right before the end may leave an empty session.
        judged = [each for each in reports if each["samples"]] or reports[-1:]
        return max(exit_code(each, strict=self.of.strict) for each in judged)

    def _tell(self, finished: Finished, pages: list[Path] | None) -> None:
        """Print what came of a session."""
        from edgefirst_ros.live.capture import STOPPED
        from edgefirst_ros.live.split import SPLIT

        report, err = finished.report, self.out.err
        if pages is None:
            self.out.note(LEFT)
        with suppress(OSError):
            print_report(self.out, report, detail=self.of.detail, paths=[*finished.paths, *(pages or ())])
            if self.out.as_json:
                return
            if not str(ended := report["ended"]).startswith((STOPPED, SPLIT)):
                print_row(err, "warning", f"ended because {ended}")
            if not report["topics"]:
                print_row(err, "warning", "nothing was received, is the device on, and its address right?")
            if report["silent"] and not self.out.quiet:
                print_row(err, "note", f"nothing was received for {roles_text(report['silent'])}")
