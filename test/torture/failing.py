"""Part c: every system call that changes something fails once, with a full disk or an I/O error."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from forked import Ended, command, run
from intercept import GO, Answer, Call, Fail
from judge import judge, whole_fault
from killing import convert, copy, kill_at, lacking, undisturbed
from scenarios import Prepared, wanted
from trials import Options, Result, Table, in_parallel, say, thinned

__all__ = ["lacking", "run_part"]
PART = "error"
FAILED = 2
"""Exit code where the output cannot be written."""
MOST_SHARE = 3
"""Fewer points than for kills, as there are two errors for each."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Which call of a conversion fails, and how.

    Attributes:
        prepared: the conversion.
        number: of the call.
        error: number.
        options: of the run.
        recovery: it is a call of the recovery after a kill.
    """

    prepared: Prepared
    number: int
    error: int
    options: Options
    recovery: bool = False

    @property
    def name(self) -> str:
        """Of the trial."""
        where = "recover-" if self.recovery else ""
        return f"{PART}/{self.prepared.scenario.name}/{where}{self.number}/{errno.errorcode[self.error]}"


def run_part(options: Options, table: Table) -> None:
    """Every scenario of the formats."""
    for prepared in wanted(PART, options):
        calls = undisturbed(prepared, options.work / "counted").calls
        left = options.work / "left" / prepared.scenario.name
        kill_at(prepared, left, len(calls) * 3 // 4)
        failures = [*_failures(prepared, calls, options), *_failures_of_recovery(prepared, left, options)]
        chosen = [failure for failure in failures if options.wants(failure.name)]
        say(f"{PART}/{prepared.scenario.name}: {len(calls)} calls, {len(chosen)} failures")
        table.take(in_parallel(options.jobs, [(_try, failure) for failure in chosen]), len(chosen))
        shutil.rmtree(left)


def _failures(prepared: Prepared, calls: tuple[Call, ...], options: Options) -> Iterator[Failure]:
    for number in thinned(len(calls), options.most, MOST_SHARE):
        yield from (Failure(prepared, number, error, options) for error in calls[number].errors)


def _failures_of_recovery(prepared: Prepared, left: Path, options: Options) -> Iterator[Failure]:
    output = left.with_name("counted")
    copy(left, output)
    calls = run(command("recover", output), root=output, decide=lambda _: GO).calls
    shutil.rmtree(output)
    for number in thinned(len(calls), options.most, 2 * MOST_SHARE):
        yield Failure(prepared, number, calls[number].errors[-1], options, recovery=True)


def _try(failure: Failure) -> list[Result]:
    prepared = failure.prepared
    output = failure.options.work / "trials" / failure.name.replace("/", "+")
    what: list[Call] = []

    def decide(call: Call) -> Answer:
        if call.number != failure.number:
            return GO
        what.append(call)
        return Fail(failure.error)

    acknowledged: tuple[str, ...] = ()
    if failure.recovery:
        copy(failure.options.work / "left" / prepared.scenario.name, output)
        done = run(command("recover", output), root=output, decide=decide)
    else:
        prepared.begin(output)
        done = convert(prepared, output, decide)
        acknowledged = done.acknowledged
    fault = command_fault(done)
    verdict = judge(
        prepared,
        output,
        acknowledged,
        partial(whole_fault, prepared) if not done.code and not failure.recovery else None,
    )
    shutil.rmtree(output, ignore_errors=True)
    told = str(what[0]) if what else f"not reached, exit code {done.code}"
    return [Result(failure.name, verdict.acknowledged, verdict.found, fault or verdict.fault, told)]


def command_fault(done: Ended, *codes: int) -> str:
    """How a command took it: done, or a sentence and the code for it, or one of ``codes``."""
    if done.traceback:
        return done.traceback
    if done.code not in {0, FAILED, *codes}:
        return f"ends with {done.code}: {done.err.strip()[-200:]}"
    if done.code == FAILED and "error: " not in done.err:
        return f"ends with {done.code} and no sentence: {done.err.strip()[-200:] or 'no word'}"
    return ""
