"""edgefirst-ros capture: live without ROS, over a device's native Zenoh."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from edgefirst_ros.cli.liveview import LiveView
from edgefirst_ros.cli.options import (
    Annotations,
    AsJson,
    ConfigFile,
    Connect,
    Container,
    EveryN,
    Formats,
    Incomplete,
    Keyframes,
    Listen,
    Output,
    Quiet,
    Rate,
    Reference,
    Workers,
    edgefirst_values,
    format_names,
)
from edgefirst_ros.cli.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    exit_code,
    guarded,
    interruptible,
    make_config,
)
from edgefirst_ros.cli.terminal import make_console, print_report, say
from edgefirst_ros.live.capture import STOPPED, Finished, LiveCapture
from edgefirst_ros.live.signals import pausing
from edgefirst_ros.live.split import SPLIT
from edgefirst_ros.sources.zenoh import ZenohSource
from edgefirst_ros.sources.zenohlink import open_session
from edgefirst_ros.video.integrity import compile_ahead

VIEW_EVERY_S = 0.25
_ADDRESS = re.compile(r"[a-z0-9_-]+/\[?(?P<host>[^\]/?#]+?)\]?(:\d+)?([?#].*)?")


def capture(
    *,
    output: Output,
    connect: Connect = None,
    listen: Listen = None,
    namespace: Annotated[
        str, typer.Option(metavar="HOST", help="Prefix of the device's names; default: whatever is heard.")
    ] = "",
    host: Annotated[
        str | None, typer.Option(help="Host in the session's name; default: the namespace or the endpoint's.")
    ] = None,
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Finish by itself after so long.")
    ] = None,
    split_every_s: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Begin another session after so long.")
    ] = None,
    split_every_mb: Annotated[
        float | None, typer.Option(metavar="MB", min=0, help="Begin another one when so much is written.")
    ] = None,
    split_every_m: Annotated[
        float | None,
        typer.Option(
            metavar="METRES", min=0, help="Begin another one after so long a way, by gps or odometry."
        ),
    ] = None,
    start_paused: Annotated[
        bool, typer.Option("--start-paused", help="Write nothing before the process gets a SIGUSR2.")
    ] = False,
    config_file: ConfigFile = None,
    formats: Formats = None,
    name: Annotated[str, typer.Option("--name", help="Dataset name; default: SESSION-dataset.")] = "",
    session: Annotated[str, typer.Option("--session", help="Sequence name; default: HOST_date_time.")] = "",
    schema: Annotations = None,
    container: Container = None,
    reference: Reference = None,
    rate: Rate = None,
    every_n: EveryN = None,
    keyframes: Keyframes = False,
    incomplete: Incomplete = False,
    workers: Workers = None,
    record: Annotated[
        bool | None,
        typer.Option(
            "--record/--no-record", help="Also write every message that comes to an MCAP in recordings/."
        ),
    ] = None,
    record_topics: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Which topics besides those used; default: all of known types."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if anything was refused or poor.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Capture live from a device's native Zenoh, without ROS, into the datasets that convert would make.

    The same recording converted afterwards gives the same bytes, if nothing was dropped. Names are found in
    all the device's generations (rt/camera/h264, camera/h264, HOST/camera/h264).

    A session that --split-every-... ends is told as it ends; with --json that is one line for each session.

    SIGUSR1 pauses: messages are counted, and not written; SIGUSR2 resumes, with another sequence.

    Ctrl-C, SIGTERM and SIGHUP write what was received, finish within 3 s and exit with 130; the rest is
    counted as dropped. A second one ends at once: [bold]edgefirst-ros recover[/] can finish then. A disk with
    less than min_free_mb left ends the capture, finished, with exit 1. Exit 0: done; 1: empty, or poor with
    --strict; 2: wrong usage, no connection possible, or writing failed.

    [bold]Examples[/]

      edgefirst-ros capture --zenoh tcp/192.168.1.5:7447 -o out

      edgefirst-ros capture --zenoh tcp/maivin:7447 -o out --split-every-s 600
    """
    err = make_console(stderr=True)
    with guarded(err, instead="--name gives the new one another name", output=output, as_json=as_json):
        chosen = {
            "formats": format_names(formats),
            "reference": reference,
            "host": host,
            "rate_hz": rate,
            "every_n": every_n,
            "keyframes": keyframes or None,
            "workers": workers,
            "split_every_s": split_every_s,
            "split_every_mb": split_every_mb,
            "split_every_m": split_every_m,
            "record": record,
            "record_topics": record_topics,
        }
        config = make_config(config_file, chosen, edgefirst_values(schema, container), incomplete=incomplete)
        # Topics carry no prefix here, so a configured one only says which device is meant.
        namespace, config = namespace or config.prefix or "", config.model_copy(update={"prefix": ""})
        host = namespace if namespace.strip("/") not in {"", "rt"} else _host_of([*(connect or ())])
        stop, view = threading.Event(), LiveView(err, quiet=quiet or as_json)
        compile_ahead(lambda text: None if quiet or as_json else _note(err, text))
        with interruptible(stop, err, "finishing what was received", output):
            taking = LiveCapture(config, output, host)
            with open_session(connect or [], listen or []) as link:
                source = partial(
                    ZenohSource,
                    link,
                    config,
                    taking.put,
                    namespace=namespace,
                    record=taking.record if config.record else None,
                )
                tell = partial(_show, err, quiet=quiet, as_json=as_json)
                try:
                    finished = _run(
                        taking,
                        (name, session),
                        source,
                        stop,
                        view,
                        tell=tell,
                        duration_s=duration,
                        paused=start_paused,
                    )
                except BaseException:
                    taking.abort()
                    raise
        if not as_json and stop.is_set():
            with suppress(OSError):
                err.print("interrupted: what was received is finished and complete", highlight=False)
        if len(finished) > 1 and not (quiet or as_json):
            with suppress(OSError):
                for done in finished:
                    err.print(done.summary, highlight=False, soft_wrap=True)
        # Whether anything came of it is asked of the whole: a seam may fall right before the end.
        judged = [done.report for done in finished if done.report["samples"]] or [finished[-1].report]
        code = max(exit_code(report, strict=strict) for report in judged)
        code = code if finished[-1].report["ended"] == STOPPED else EXIT_POOR
    raise typer.Exit(EXIT_INTERRUPTED if stop.is_set() else code)


def _run(
    taking: LiveCapture,
    names: tuple[str, str],
    connect: Callable[[], ZenohSource],
    stop: threading.Event,
    view: LiveView,
    *,
    tell: Callable[[Finished], None],
    duration_s: float | None,
    paused: bool,
) -> list[Finished]:
    """From connection to finished output; each session is told as it ends."""
    dataset, sequence = names
    end_s = None if duration_s is None else time.monotonic() + duration_s
    taking.start(dataset, sequence=sequence, paused=paused)
    told = 0
    with pausing(taking.pause, taking.resume), connect() as source, view:
        taking.around = source.surroundings.around
        while taking.running and not stop.wait(VIEW_EVERY_S):
            status = taking.status()
            source.surroundings.watch(status.silent, status.elapsed_s)
            view.update(status, source.connections, source.notes)
            while told < len(taking.splits):
                tell(taking.splits[told].closed)
                told += 1
            if end_s is not None and time.monotonic() >= end_s:
                break
    finished = taking.stop()
    for session in finished[told:]:
        tell(session)
    return finished


def _note(err: Console, text: str) -> None:
    with suppress(OSError):
        err.print(f"note: {text}", highlight=False, soft_wrap=True)


def _show(err: Console, finished: Finished, *, quiet: bool, as_json: bool) -> None:
    with suppress(OSError):  # the terminal may be gone, the dataset is complete all the same
        _print(err, finished, quiet=quiet, as_json=as_json)


def _print(err: Console, finished: Finished, *, quiet: bool, as_json: bool) -> None:
    report = finished.report
    if as_json:
        sys.stdout.write(json.dumps({**report, "paths": [str(p) for p in finished.paths]}) + "\n")
        sys.stdout.flush()
        return
    print_report(err, report, details=not quiet)
    ended = str(report["ended"])
    if ended.startswith(SPLIT):
        err.print(f"note: ended because of a {ended}; another session followed", highlight=False)
    elif ended != STOPPED:
        err.print(
            f"[bold yellow]warning[/]: ended because {report['ended']}", highlight=False, soft_wrap=True
        )
    if not report["topics"]:
        err.print(
            "[bold yellow]warning[/]: nothing was received: is the endpoint right, the device on, does it "
            "publish under this --namespace?",
            highlight=False,
            soft_wrap=True,
        )
    if not quiet:
        if report["silent"]:
            err.print(f"note: nothing came of {_silent(report['silent'])}", highlight=False, soft_wrap=True)
        for path in finished.paths:
            say(f"{path}")


def _silent(roles: Mapping[str, Any]) -> str:
    return ", ".join(f"{role} ({', '.join(topics)})" for role, topics in roles.items())


def _host_of(endpoints: Sequence[str]) -> str:
    """What to call a device of which only the address is known."""
    found = _ADDRESS.fullmatch(endpoints[0]) if endpoints else None
    return found["host"].removesuffix(".local") if found else "edgefirst"
