"""What commands share: where they print, their exit codes, configuration, and what ends them early."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from edgefirst_ros.cli.lastresort import leave, print_faults_as_json
from edgefirst_ros.cli.terminal import Progress, make_console, print_line, say
from edgefirst_ros.live.signals import asked_to_finish
from edgefirst_ros.model import errors

if TYPE_CHECKING:
    from edgefirst_ros.config.model import Config

EXIT_POOR, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


class Out:
    """Where a command prints: results on standard output, as JSON where asked for; words on standard error.

    Args:
        quiet: no notes and no progress.
        as_json: nor words of results.
        output: folder where a failure or an interruption may leave ``.part`` files for ``recover``.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False, output: Path | None = None) -> None:
        self.err, self.as_json, self.quiet = make_console(stderr=True), as_json, quiet or as_json
        self._output = output

    def tell(self, label: str, text: str) -> None:
        """Print ``label: text``, or the text alone."""
        with suppress(OSError):  # the terminal may be gone, and what is written is complete all the same
            print_line(self.err, text, label)

    def note(self, *texts: str, label: str = "note") -> None:
        """Print what need not be known."""
        for text in () if self.quiet else texts:
            self.tell(label, text)

    def result(self, value: Any, *lines: str) -> None:  # noqa: ANN401 - whatever a command has to say
        """Print a result, as a line of JSON or in lines."""
        if self.as_json:
            sys.stdout.write(json.dumps(value) + "\n")
            sys.stdout.flush()
        for line in () if self.as_json else lines:
            say(line)

    def progress(self, doing: str) -> Progress:
        """How far the command is."""
        return Progress(self.err, doing, quiet=self.quiet)

    def page_beside(self, paths: Sequence[Path]) -> list[Path]:
        """Make the page of the report among these paths; where it is.

        That it cannot be made is a warning: the datasets are complete without it.
        """
        from edgefirst_ros.report import make_pages

        pages, fault = make_pages(paths)
        if fault:
            self.tell("warning", fault)
        return pages

    def complain(self, fault: str) -> None:
        """Print what is wrong, and a line for each thing to do, which semicolons part."""
        what, *actions = fault.split("; ")
        self.tell("error", what)
        for action in actions:
            self.tell("hint", action)

    def fail(self, faults: Sequence[str]) -> None:
        """Print why the command ends, as an object, too, if results are JSON."""
        for fault in faults:
            self.complain(fault)
        if self.as_json:
            print_faults_as_json(faults)

    def interrupted(self, text: str = "") -> None:
        """Print what an interruption left."""
        self.tell("", text or "interrupted at once")
        if self.as_json:
            print_faults_as_json([text or "interrupted at once"])

    def _hint_at_recovery(self, condition: str = "") -> None:
        if self._output is not None:
            self.tell("hint", f"{errors.recovery(self._output)} finishes what was written{condition}")

    @contextmanager
    def guarded(self, instead: str = "") -> Iterator[None]:
        """Turn expected errors into a message and an exit code; ``instead``: advice if the output exists."""
        try:
            yield
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except (errors.EdgeFirstError, OSError) as error:
            self.fail(error.faults if isinstance(error, errors.ConfigError) else [_text(error)])
            if isinstance(error, errors.OutputExists) and instead:
                self.tell("hint", instead)
            # Nothing is to be recovered while another process writes it.
            elif isinstance(error, errors.WriteError) and not isinstance(error, errors.OutputBusy):
                self._hint_at_parts(str(error))
            raise typer.Exit(EXIT_USAGE) from error
        except KeyboardInterrupt as error:
            self.interrupted()
            self._hint_at_parts()
            raise typer.Exit(EXIT_INTERRUPTED) from error

    def _hint_at_parts(self, said: str = "") -> None:
        folder = None if "edgefirst-ros recover" in said else self._output
        if folder is not None and folder.is_dir() and any(folder.rglob("*.part")):
            self._hint_at_recovery()

    @contextmanager
    def interruptible(
        self, stop: threading.Event, finishing: str = "stopping, what was read is written"
    ) -> Iterator[None]:
        """Set ``stop`` at the first SIGINT, SIGTERM or SIGHUP; end the process at once at the second."""

        def ask() -> None:
            stop.set()
            self.tell("", f"{finishing}, Ctrl-C again stops at once")

        def insist(_: int) -> None:
            # Skips the interpreter's finalization: it aborts if a thread is inside a native library.
            try:
                self.err = make_console(stderr=True)  # the first signal's words may be half printed
                self.interrupted()
                # Does not look whether there is anything to recover: the disk may be what hangs.
                self._hint_at_recovery(", if anything was")
            finally:
                leave(EXIT_INTERRUPTED)

        with asked_to_finish(ask, insist):
            yield


def _text(error: errors.EdgeFirstError | OSError) -> str:
    if isinstance(error, errors.EdgeFirstError):
        return str(error)
    reason = error.strerror or str(error)
    if error.filename is None:
        return f"{reason} (no file is named, it may be standard output)"
    return f"{error.filename}: {reason}"


def exit_code(report: Mapping[str, Any], *, strict: bool) -> int:
    """1 if the result is empty or, with ``strict``, has refusals, damage or warnings; else 0."""
    from edgefirst_ros.report.models import parsed
    from edgefirst_ros.report.shortfalls import losses

    if not report["samples"]:
        return EXIT_POOR
    is_damaged = any(each["faults"] for each in report["recordings"])
    is_poor = is_damaged or report["warnings"] or "refused" in losses(parsed(report))
    return EXIT_POOR if strict and is_poor else 0


def make_config(
    file: Path | None,
    chosen: Mapping[str, Any],
    *,
    recorded: Mapping[str, Any] | None = None,
    notes: list[str] | None = None,
) -> Config:
    """Combine the values of a configuration file with those of the command line, which win.

    Args:
        file: configuration file; None takes ``recorded`` instead.
        chosen: values given on the command line, also in the blocks of formats; None means not given.
        recorded: settings that were stored in the recording.
        notes: gets a sentence for everything in the file that is not used, although it may look so.

    Raises:
        ConfigError: with one sentence for every fault; faults of the file begin with its name, others with
            the option.
    """
    from edgefirst_ros.config.files import load_values
    from edgefirst_ros.config.model import chosen_config

    values = dict(recorded or {}) if file is None else load_values(file, notes)
    try:
        return chosen_config(values, dict(chosen))
    except errors.ConfigError as error:
        blocks = [value for value in chosen.values() if isinstance(value, Mapping)]
        given = [name for each in (chosen, *blocks) for name, value in each.items() if value is not None]
        raise errors.ConfigError([_by_option(fault, given) for fault in error.faults]) from error


def _by_option(fault: str, given: Sequence[str]) -> str:
    """A fault with the options of the command line in place of settings, which it names before a colon."""
    from edgefirst_ros.cli.options import FLAGS

    head, colon, rest = fault.partition(":")
    for name in given:
        option = FLAGS.get(name, f"--{name.replace('_', '-')}")
        head = re.sub(rf"(?<![\w.])(\w+\.)?{name}(\.\d+)?(?![\w.])", option, head)
    return f"{head}{colon}{rest}"
