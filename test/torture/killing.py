"""Part a: killed at every system call that changes something, of conversions and of recoveries."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

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
ZEROS = 12
"""Files of which what was not synced is zeros, or gone."""
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
        then: what else is done: "recover" is killed, too, at each call, or unsynced bytes become "zeros".
    """

    prepared: Prepared
    number: int
    share: float
    options: Options
    then: Literal["", "recover", "zeros"] = ""

    @property
    def wanted(self) -> bool:
        """Whether it, or a trial that begins with it, is to be tried."""
        return (self.options.wants_of if self.then else self.options.wants)(self.name)

    @property
    def name(self) -> str:
        """Of the trial."""
        name = f"{PART}/{self.prepared.scenario.name}/{self.number}{'-torn' if self.share else ''}"
        return f"{name}/{self.then}" if self.then else name


def lacking(options: Options) -> str:
    """What this machine lacks for it."""
    why = unavailable()
    return (f"kills and errors: {why}\n" if why else "") + (straced.lacking() if options.strace else "")


def run_part(options: Options, table: Table) -> None:
    """Every scenario of the formats."""
    for prepared in wanted(PART, options):
        calls = undisturbed(prepared, options.work / "counted").calls
        points = [point for point in _points(prepared, calls, options) if point.wanted]
        say(f"{PART}/{prepared.scenario.name}: {len(calls)} calls that change something, {len(points)} tasks")
        tasks: list[tuple[Callable[..., list[Result]], object]] = [
            (_ACTS[point.then], point) for point in points
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
    for number in writes[::TORN_EVERY]:
        share = random.Random(f"{options.seed} {prepared.scenario.name} {number}").uniform(0.1, 0.9)
        yield Point(prepared, number, share, options)
    for number in (len(calls) // 2, len(calls) * 3 // 4, len(calls) - 8):  # the last is among the renames
        yield Point(prepared, number, 0.0, options, "recover")
    for number in (len(calls) // 2, len(calls) * 3 // 4):
        yield Point(prepared, number, 0.0, options, "zeros")


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
    copy(left, output)
    counted = run(command("recover", output), root=output, decide=lambda _: GO)
    results = []
    for number in thinned(len(counted.calls), point.options.most, RECOVERY_SHARE):
        name = f"{point.name}/{number}"
        if not point.options.wants(name):
            continue
        copy(left, output)
        killed = run(command("recover", output), root=output, decide=partial(_at, number, 0.0))
        verdict = _judged(point.prepared, output, done.acknowledged)
        results.append(_result(name, verdict, f"{done.killed}; recover: {killed.killed}"))
    shutil.rmtree(output.parent, ignore_errors=True)
    return results


def _zeros(point: Point) -> list[Result]:
    """What was not synced of a file is zeros, or gone: whatever that costs, recovery copes with it."""
    output, left = _place(point), _place(point, "left")
    synced: dict[int, int] = {}
    point.prepared.begin(left)
    there = {path.lstat().st_ino for path in left.rglob("*")}
    done = convert(point.prepared, left, partial(_noting_syncs, left, synced, point.number))
    files_left = [path for path in left.rglob("*") if path.is_file() and path.lstat().st_ino not in there]
    growing = [
        (path, size) for path in files_left if (size := synced.get(path.lstat().st_ino, 0)) < _size(path)
    ]
    results = []
    for number in thinned(ZEROS if growing else 0, point.options.most):
        name = f"{point.name}/{number}"
        if not point.options.wants(name):
            continue
        copy(left, output)
        chosen = random.Random(f"{point.options.seed} {name}")
        path, synced_size = chosen.choice(sorted(growing))
        file, size = output / path.relative_to(left), _size(path)
        start = chosen.randrange(synced_size, size)
        os.truncate(file, start)
        if number % 2:
            os.truncate(file, size)
        verdict = _judged(point.prepared, output, ())
        what = (
            f"{done.killed}; {file.name} of {size} bytes {'is zero' if number % 2 else 'ends'} from {start}"
        )
        results.append(_result(name, verdict, what))
    shutil.rmtree(output.parent, ignore_errors=True)
    return results


def _noting_syncs(root: Path, synced: dict[int, int], last: int, call: Call) -> Answer:
    """Until the last call note how many bytes of each file, by its inode, are synced."""
    if call.number == last:
        return Kill()
    if call.name in {"fsync", "fdatasync"}:
        path = root / call.path
        if path.is_file():
            synced[path.lstat().st_ino] = _size(path)
    elif call.name == "syncfs":
        synced |= {path.lstat().st_ino: _size(path) for path in root.rglob("*") if path.is_file()}
    return GO


def _size(path: Path) -> int:
    return path.lstat().st_size


_ACTS = {"": _kill, "recover": _recovery, "zeros": _zeros}


def copy(left: Path, output: Path) -> None:
    """Copy what a kill left; files that are one stay one."""
    shutil.rmtree(output, ignore_errors=True)
    subprocess.run(["cp", "-a", left, output], check=True)


def kill_at(prepared: Prepared, output: Path, number: int, share: float = 0.0) -> Ended:
    """The scenario's conversion, killed before a call, or with a share of its bytes written."""
    prepared.begin(output)
    return convert(prepared, output, partial(_at, number, share))


def convert(prepared: Prepared, output: Path, decide: Callable[[Call], Answer] = lambda _: GO) -> Ended:
    """The scenario's conversion, what it acknowledges noted."""
    hook = survives_a_kill
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
