"""Trials: their names, their results, running them in parallel, and the table at the end."""

from __future__ import annotations

import fnmatch
import multiprocessing
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRESS_S = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """What to try.

    Attributes:
        work: folder for everything, empty.
        formats: names of formats.
        scenarios: names of scenarios; empty for all.
        only: pattern of trial names; empty for all.
        jobs: processes.
        seed: of everything that is random.
        most: crash points of a command; more are thinned out in its middle. 0: all of them.
        cuts: power cuts of a live capture on each file system.
        filesystems: for power cuts.
        strace: whether to look for calls that no trial stops at.
    """

    work: Path
    formats: Sequence[str]
    scenarios: Sequence[str] = ()
    only: str = ""
    jobs: int = 2
    seed: int = 0
    most: int = 300
    cuts: int = 20
    filesystems: Sequence[str] = ("ext4", "xfs", "ext4-nojournal")
    strace: bool = True

    def wants(self, name: str) -> bool:
        """Whether a trial of this name is to be tried."""
        return self.wants_of(name) and self.only.count("/") <= name.count("/")

    def wants_of(self, name: str) -> bool:
        """Whether a trial is to be tried whose name is this, or begins with it."""
        parts = zip(name.split("/"), self.only.split("/"), strict=False)
        return not self.only or all(fnmatch.fnmatchcase(part, pattern) for part, pattern in parts)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a trial.

    Attributes:
        name: for ``--only``.
        acknowledged: units that were said to be in the output, or durable.
        found: how many of them recovery found.
        fault: the first thing that is wrong; empty if nothing is.
        what: what was done, such as the call that it was killed at.
    """

    name: str
    acknowledged: int = 0
    found: int = 0
    fault: str = ""
    what: str = ""

    @property
    def row(self) -> str:
        """Row of the table that it counts in."""
        return "/".join(self.name.split("/")[:2])


def thinned(count: int, most: int, share: int = 1) -> list[int]:
    """Which of ``count`` points to try: all, or the first, the last and evenly some between.

    ``share``: so many times fewer than ``most``, but one at least.
    """
    most = max(1, most // share) if most else 0
    if not most or count <= most:
        return list(range(count))
    first, last = most // 10, most // 2
    between = count - first - last
    wanted = most - first - last
    middle = (first + number * between // wanted for number in range(wanted))
    return sorted({*range(first), *middle, *range(count - last, count)})


def in_parallel(jobs: int, tasks: Iterable[tuple[Callable[..., list[Result]], Any]]) -> Iterator[Result]:
    """Results of tasks, a function and its argument each, in forks of this process.

    A trial that could not be made counts as a failure.
    """
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=fork) as pool:
        waiting = [pool.submit(act, argument) for act, argument in tasks]
        try:
            for done in as_completed(waiting):
                try:
                    yield from done.result()
                except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                    yield Result(
                        "harness",
                        fault=f"{type(error).__name__}: {error}",
                        what="a trial that could not be made",
                    )
        finally:
            for each in waiting:
                each.cancel()


@dataclass(slots=True)
class Table:
    """Counts by row while trials come in, and their faults."""

    results: dict[str, list[Result]] = field(default_factory=lambda: defaultdict(list))
    _shown_s: float = field(default_factory=time.monotonic)

    def take(self, results: Iterable[Result], of: int = 0) -> None:
        """Count results; say how far it is now and then, and each row's first fault at once."""
        bad = 0
        for count, result in enumerate(results, 1):
            row = self.results[result.row]
            row.append(result)
            if result.fault:
                bad += 1
                if sum(bool(each.fault) for each in row) <= 2:
                    say(f"FAILED {result.name} [{result.what}]: {result.fault}")
            if time.monotonic() - self._shown_s > PROGRESS_S:
                self._shown_s = time.monotonic()
                say(f"{result.row}: {count}{f' of {of}' if of else ''} trials, {bad} failed")

    @property
    def failed(self) -> int:
        """How many trials failed."""
        return sum(bool(each.fault) for row in self.results.values() for each in row)

    def text(self, command: str) -> str:
        """The table, then the reasons of each row with the command that shows one again."""
        lines = [f"{'trials of':44} {'tried':>6} {'failed':>6} {'acknowledged':>12} {'found':>7}"]
        for name, row in self.results.items():
            lines.append(_line(name, row))
        lines.append(_line("all", [each for row in self.results.values() for each in row]))
        for name, row in self.results.items():
            reasons: dict[str, list[Result]] = defaultdict(list)
            for each in row:
                if each.fault:
                    reasons[_kind(each.fault)].append(each)
            for alike in sorted(reasons.values(), key=len, reverse=True):
                first = alike[0]
                lines += ["", f"{name}: {len(alike)} × {first.fault}", f"    at {first.what}"]
                lines.append(f"    {command} ONLY='{first.name}'")
        return "\n".join(lines)


def _line(name: str, row: Sequence[Result]) -> str:
    failed = sum(bool(each.fault) for each in row)
    acknowledged, found = sum(each.acknowledged for each in row), sum(each.found for each in row)
    return f"{name:44} {len(row):6,} {failed:6,} {acknowledged:12,} {found:7,}"


def _kind(fault: str) -> str:
    """A fault without what differs from trial to trial."""
    words = ("".join(c for c in word if not c.isdigit()) for word in fault.split() if "/" not in word)
    return " ".join(words)[:60]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
