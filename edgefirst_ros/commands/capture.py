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

from edgefirst_ros.commands.options import (
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
from edgefirst_ros.commands.shared import (
    EXIT_INTERRUPTED,
    EXIT_POOR,
    exit_code,
    guarded,
    interruptible,
    make_config,
)
from edgefirst_ros.live import STOPPED, Finished, LiveCapture
from edgefirst_ros.liveview import LiveView
from edgefirst_ros.sources.zenoh import ZenohSource
from edgefirst_ros.terminal import make_console, print_report, say
from edgefirst_ros.zenohlink import open_session

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
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if anything was refused or poor.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Capture live from a device's native Zenoh, without ROS, into the datasets that convert would make.

    The same recording converted afterwards gives the same bytes, if nothing was dropped. Names are found in
    all the device's generations (rt/camera/h264, camera/h264, HOST/camera/h264).

    Ctrl-C, SIGTERM and SIGHUP write what was received, finish within 3 s and exit with 130; the rest is
    counted as dropped. A second one ends at once: [bold]edgefirst-ros recover[/] can finish then. A disk with
    less than min_free_mb left ends the capture, finished, with exit 1. Exit 0: done; 1: empty, or poor with
    --strict; 2: wrong usage, no connection possible, or writing failed.

    [bold]Examples[/]

      edgefirst-ros capture --zenoh tcp/192.168.1.5:7447 -o out

      edgefirst-ros capture --zenoh tcp/maivin.local:7447 -o out --duration 600
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
        }
        config = make_config(config_file, chosen, edgefirst_values(schema, container), incomplete=incomplete)
        # Topics carry no prefix here, so a configured one only says which device is meant.
        namespace, config = namespace or config.prefix or "", config.model_copy(update={"prefix": ""})
        host = namespace if namespace.strip("/") not in {"", "rt"} else _host_of([*(connect or ())])
        stop, view = threading.Event(), LiveView(err, quiet=quiet or as_json)
        with interruptible(stop, err, "finishing what was received", output):
            taking = LiveCapture(config, output, host)
            with open_session(connect or [], listen or []) as link:
                source = partial(ZenohSource, link, config, taking.put, namespace=namespace)
                try:
                    finished = _run(taking, (name, session), source, stop, view, duration_s=duration)
                except BaseException:
                    taking.abort()
                    raise
        report = finished.report
        with suppress(OSError):  # the terminal may be gone, the dataset is complete all the same
            _show(err, finished, quiet=quiet, as_json=as_json)
            if not as_json and stop.is_set():
                err.print("interrupted: what was received is finished and complete", highlight=False)
        code = exit_code(report, strict=strict) if report["ended"] == STOPPED else EXIT_POOR
    raise typer.Exit(EXIT_INTERRUPTED if stop.is_set() else code)


def _run(
    taking: LiveCapture,
    names: tuple[str, str],
    connect: Callable[[], ZenohSource],
    stop: threading.Event,
    view: LiveView,
    *,
    duration_s: float | None,
) -> Finished:
    """One session from connection to finished output."""
    dataset, sequence = names
    end_s = None if duration_s is None else time.monotonic() + duration_s
    taking.start(dataset, sequence=sequence)
    with connect() as source, view:
        while taking.running and not stop.wait(VIEW_EVERY_S):
            view.update(taking.status(), source.connections, source.notes)
            if end_s is not None and time.monotonic() >= end_s:
                break
    (finished,) = taking.stop()
    return finished


def _show(err: Console, finished: Finished, *, quiet: bool, as_json: bool) -> None:
    report = finished.report
    if as_json:
        sys.stdout.write(json.dumps({**report, "paths": [str(p) for p in finished.paths]}) + "\n")
        return
    print_report(err, report, details=not quiet)
    if report["ended"] != STOPPED:
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
