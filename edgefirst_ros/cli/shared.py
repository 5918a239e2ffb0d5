"""What commands have in common: choices, configuration, errors into exit codes, signals."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.config.model import Config, build_config, load_values
from edgefirst_ros.errors import ConfigError, EdgeFirstError, OutputExists, WriteError
from edgefirst_ros.live.signals import asked_to_finish

EXIT_POOR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
SELECTIONS = frozenset({"rate_hz", "every_n", "keyframes"})
AT_ONCE_S = 2.0
"""So long a second signal's exception may take to end the process."""


def exit_code(report: dict[str, Any], *, strict: bool) -> int:
    """1 for an empty result, and with ``strict`` for one with refusals, damage or warnings; else 0."""
    if not report["samples"]:
        return EXIT_POOR
    # Fixes are refused as a matter of course: the device sends two an epoch, and 0,0 without a fix.
    refused = any(t["refused"] for t in report["topics"].values() if not t["type"].endswith("/NavSatFix"))
    damaged = any(r["faults"] for r in report["recordings"])
    return EXIT_POOR if strict and (refused or damaged or report["warnings"]) else 0


def make_config(
    file: Path | None,
    chosen: dict[str, Any],
    edgefirst: dict[str, Any],
    *,
    incomplete: bool,
    recorded: Mapping[str, Any] | None = None,
) -> Config:
    """The file's values, overridden by those of the command line; ``recorded`` are taken without a file.

    Raises:
        ConfigError: with a sentence for every fault, those of the file with its name.
    """
    values = dict(recorded or {}) if file is None else load_values(file)
    try:
        build_config(values)
    except ConfigError as error:
        raise ConfigError([f"{file}: {fault}" for fault in error.faults]) from error
    given = {key: value for key, value in chosen.items() if value is not None}
    if SELECTIONS & given.keys():  # one excludes the others, so it replaces the file's
        values = {key: value for key, value in values.items() if key not in SELECTIONS}
    values |= given
    own = {key: value for key, value in edgefirst.items() if value is not None}
    values["edgefirst"] = {**(values.get("edgefirst") or {}), **own}
    config = build_config(values)
    if incomplete:
        topics = {name: rule.model_copy(update={"required": "never"}) for name, rule in config.topics.items()}
        config = config.model_copy(update={"topics": topics})
    return config


def print_error(console: Console, text: str) -> None:
    """One line that says what is wrong and what to do."""
    console.print(f"[bold red]error[/]: {escape(text)}", highlight=False, soft_wrap=True)


@contextmanager
def guarded(
    console: Console, *, instead: str = "", output: Path | None = None, as_json: bool = False
) -> Iterator[None]:
    """Turn errors that are no bug into a message and an exit code.

    Args:
        console: standard error.
        instead: what to do about an output that is there already.
        output: where a failure or an interruption may leave ``.part`` files for ``recover``.
        as_json: standard output gets the error too, as an object with ``error`` and ``faults``.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (EdgeFirstError, OSError) as error:
        faults = error.faults if isinstance(error, ConfigError) else [_text(error)]
        _fail(console, faults, as_json=as_json)
        if isinstance(error, OutputExists) and instead:
            console.print(f"  {instead}", highlight=False)
        elif isinstance(error, WriteError) and output is not None and _has_parts(output):
            text = f"  {_recovery(output)} what was committed, of every format"
            console.print(escape(text), highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_USAGE) from error
    except KeyboardInterrupt as error:
        text = _interrupted(output)
        console.print(escape(text), highlight=False, soft_wrap=True)
        if as_json:
            _print_json([text])
        raise typer.Exit(EXIT_INTERRUPTED) from error


def _leave() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(EXIT_INTERRUPTED)


def _has_parts(output: Path) -> bool:
    return output.is_dir() and any(output.rglob("*.part"))


def _recovery(output: Path) -> str:
    return f"edgefirst-ros recover {shlex.quote(str(output))} finishes"


def _interrupted(output: Path | None) -> str:
    # Whether there is anything to recover is not looked for: the disk may be what hangs.
    left = "" if output is None else f"; {_recovery(output)} what was committed"
    return f"interrupted at once{left}"


def _text(error: Exception) -> str:
    if isinstance(error, EdgeFirstError) or not isinstance(error, OSError):
        return str(error)
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"{reason} (no file is named, so it may be standard output)"
    return f"{error.filename}: {reason}"


def _fail(console: Console, faults: Sequence[str], *, as_json: bool) -> None:
    for fault in faults:
        print_error(console, fault)
    if as_json:
        _print_json(faults)


def _print_json(faults: Sequence[str]) -> None:
    with suppress(OSError):  # it may be standard output that cannot be written
        sys.stdout.write(json.dumps({"error": "; ".join(faults), "faults": list(faults)}) + "\n")
        sys.stdout.flush()


@contextmanager
def interruptible(
    stop: threading.Event,
    console: Console,
    finishing: str = "finishing what has been read",
    output: Path | None = None,
) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP asks to finish, the second ends at once.

    The second one raises KeyboardInterrupt; where that is lost in a library's callback, or what hangs does
    not let it through, the process is ended all the same.
    """

    def end() -> None:
        with suppress(OSError):
            sys.stderr.write(_interrupted(output) + "\n")
        os._exit(EXIT_INTERRUPTED)

    last = threading.Timer(AT_ONCE_S, end)
    last.daemon = True

    def ask() -> None:
        stop.set()
        with suppress(OSError):  # the terminal may be what is gone
            console.print(f"{finishing}; press Ctrl-C again to stop at once")

    def insist(_: int) -> None:
        if last.ident is None:
            last.start()
            # Not through the interpreter's end: that aborts where a thread is inside a native library.
            atexit.register(_leave)
        raise KeyboardInterrupt

    with asked_to_finish(ask, insist):
        yield
