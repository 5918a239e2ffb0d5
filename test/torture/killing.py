"""Part a: killed at every system call that changes something, of conversions and of recoveries."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import straced
from acknowledged import survives_a_kill
from contents import files
from forked import Ended, command, run
from intercept import GO, Answer, Call, Kill, unavailable
from judge import Verdict, judge
from scenarios import Prepared, wanted
from trials import Options, Result, Table, in_parallel, say, thinned

PART = "kill"
TORN_EVERY = 3
"""Each so many writes are also killed in their middle."""
RECOVERIES = 3
"""States that recovery is killed in, at each of its calls."""
RECOVERY_SHARE = 5
"""A recovery is killed at so many times fewer points."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a conversion is killed.

    Attributes:
        prepared: the conversion.
        number: of the call.
        share: of its bytes that are written, before.
        options: of the run.
        recovery: whether the recovery is killed, too, at each of its calls.
    """

    prepared: Prepared
    number: int
    share: float
    options: Options
    recovery: bool = False

    @property
    def name(self) -> str:
        """Of the trial."""
        torn = "-torn" if self.share else ""
        return (
            f"{PART}/{self.prepared.scenario.name}/{self.number}{torn}{'/recover' if self.recovery else ''}"
        )


def lacking(options: Options) -> str:
    """What this machine lacks for it."""
    why = unavailable()
    return (f"kills and errors: {why}\n" if why else "") + (straced.lacking() if options.strace else "")


def run_part(options: Options, table: Table) -> None:
    """Every scenario of the formats."""
    for prepared in wanted(PART, options):
        calls = undisturbed(prepared, options.work / "counted").calls
        points = [point for point in _points(prepared, calls, options) if options.wants(point.name)]
        say(f"{PART}/{prepared.scenario.name}: {len(calls)} calls that change something, {len(points)} tasks")
        tasks: list[tuple[Callable[..., list[Result]], object]] = [
            (_recovery if point.recovery else _kill, point) for point in points
        ]
        if options.strace and options.wants(f"{PART}/{prepared.scenario.name}/strace"):
            tasks.insert(0, (_straced, (prepared, options)))
        table.take(in_parallel(options.jobs, tasks), len(tasks))


def undisturbed(prepared: Prepared, output: Path) -> Ended:
    """A conversion of which only the calls are counted."""
    prepared.begin(output)
    done = convert(prepared, output)
    shutil.rmtree(output)
    return done


def _points(prepared: Prepared, calls: tuple[Call, ...], options: Options) -> Iterator[Point]:
    tried = thinned(len(calls), options.most)
    for number in tried:
        yield Point(prepared, number, 0.0, options)
    writes = [number for number in tried if calls[number].size > 1]
    chosen = random.Random(options.seed)
    for number in writes[::TORN_EVERY]:
        yield Point(prepared, number, chosen.uniform(0.1, 0.9), options)
    for part in range(RECOVERIES):  # one in the middle, one late, and one among the last renames
        at = (len(calls) // 2, len(calls) * 3 // 4, len(calls) - 8)[part]
        yield Point(prepared, at, 0.0, options, recovery=True)


def _straced(task: tuple[Prepared, Options]) -> list[Result]:
    prepared, options = task
    output = options.work / "trials" / f"{prepared.scenario.name}-strace"
    seen = Counter(call.name for call in undisturbed(prepared, output).calls)
    prepared.begin(output)
    fault = straced.difference(seen, prepared.arguments(output), output)
    shutil.rmtree(output)
    name = f"{PART}/{prepared.scenario.name}/strace"
    return [Result(name, fault=fault, what="comparing the calls with those that strace sees")]


def _kill(point: Point) -> list[Result]:
    output = _place(point)
    done = kill_at(point.prepared, output, point.number, point.share)
    verdict = _judged(point.prepared, output, done.acknowledged)
    shutil.rmtree(output.parent, ignore_errors=True)
    return [_result(point.name, verdict, str(done.killed or f"not reached, exit code {done.code}"))]


def _recovery(point: Point) -> list[Result]:
    """Kill a recovery at each of its calls, then let another one do it."""
    output, left = _place(point), _place(point, "left")
    done = kill_at(point.prepared, left, point.number, point.share)
    shutil.copytree(left, output)
    counted = run(command("recover", output), root=output, decide=lambda _: GO)
    results = []
    for number in thinned(len(counted.calls), point.options.most // RECOVERY_SHARE):
        name = f"{point.name}/{number}"
        if not point.options.wants(name):
            continue
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(left, output)
        killed = run(command("recover", output), root=output, decide=partial(_at, number, 0.0))
        verdict = _judged(point.prepared, output, done.acknowledged)
        results.append(_result(name, verdict, f"{done.killed}; recover: {killed.killed}"))
    shutil.rmtree(output.parent, ignore_errors=True)
    return results


def kill_at(prepared: Prepared, output: Path, number: int, share: float = 0.0) -> Ended:
    """The scenario's conversion, killed before a call, or with a share of its bytes written."""
    prepared.begin(output)
    return convert(prepared, output, partial(_at, number, share))


def convert(prepared: Prepared, output: Path, decide: Callable[[Call], Answer] = lambda _: GO) -> Ended:
    """The scenario's conversion, what it acknowledges noted."""
    hook = partial(survives_a_kill, first_frame=prepared.first_frame)
    return run(command(*prepared.arguments(output)), root=output, decide=decide, hook=hook)


def _at(number: int, share: float, call: Call) -> Answer:
    return Kill(share) if call.number == number else GO


_judgements: dict[object, Verdict] = {}
"""Many calls change nothing, such as a sync; what they leave is judged once in each process."""


def _judged(prepared: Prepared, output: Path, acknowledged: tuple[str, ...]) -> Verdict:
    key = (prepared.scenario.name, frozenset(files(output).items()), acknowledged)
    if key not in _judgements:
        _judgements[key] = judge(prepared, output, acknowledged)
    return _judgements[key]


def _place(point: Point, what: str = "out") -> Path:
    return point.options.work / "trials" / point.name.replace("/", "+") / what


def _result(name: str, verdict: Verdict, what: str) -> Result:
    return Result(name, verdict.acknowledged, verdict.found, verdict.fault, what)
