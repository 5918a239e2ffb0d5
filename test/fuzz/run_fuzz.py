"""Runs fuzz targets for some time or for some cases, or one kept input again; see ``make fuzz``."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from ctypes import c_longlong
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "fuzz")]

from fuzz_targets import TARGETS  # noqa: E402
from fuzzing import Target, case, judging, limit_process, outcome  # noqa: E402

TURN_S = 0.5
"""A target's turn, in as many cases as fit."""
SAY_S = 300.0
"""How often a long run says how far it is."""
_ENDLESS = "without an end"
_WAITING = 10
"""A case ends within its limit of CPU time, and within so many times that of time, which it may spend waiting
for what never comes, or for a CPU that others have."""


@dataclass(slots=True)
class Tally:
    """What became of cases, in the order of their numbers.

    Attributes:
        counts: of each outcome.
        found: number and traceback of each finding.
        longest: seconds and number of the slowest case.
        most_bytes: memory that a case took at most, of those that took a while.
    """

    counts: Counter[str] = field(default_factory=Counter)
    found: list[tuple[int, str]] = field(default_factory=list)
    longest: tuple[float, int] = (0.0, 0)
    most_bytes: int = 0

    def add(self, other: Tally) -> None:
        """Add what became of others."""
        self.counts += other.counts
        self.found += other.found
        self.longest = max(self.longest, other.longest)
        self.most_bytes = max(self.most_bytes, other.most_bytes)

    @property
    def text(self) -> str:
        """One line of figures."""
        said = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        longest_s, number = self.longest
        return (
            f"{self.counts.total():,} cases: {said}; longest {longest_s:.2f} s (case {number}), "
            f"most memory {self.most_bytes >> 20} MB"
        )


class Process:
    """A process that runs cases, of one target or of several, so that a crash or a hang is a finding."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._stacks = Path(tempfile.mkstemp(prefix="fuzz-stacks-")[1])
        self._start()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._at = spawn.RawValue(c_longlong, 0)
        self._ready: set[str] = set()
        words = (theirs, self._at, self._seed, self._stacks)
        self._process = spawn.Process(target=_serve, args=words, daemon=True)
        self._process.start()
        theirs.close()

    def run(self, target: Target, first: int, count: int, seconds: float = math.inf) -> Tally:
        """Run cases from a number on, as many as fit into that time, but one at least.

        A case that does not end gets three times as long once more, as a process's first loads libraries.
        """
        said = self._ask(target, first, count, seconds)
        if isinstance(said, Tally):
            return said
        stuck, what, text = said
        tally = self.run(target, first, stuck - first) if stuck > first else Tally()
        if what == _ENDLESS:
            again = self._ask(target, stuck, 1, math.inf, patience=3)
            if isinstance(again, Tally):
                tally.add(again)
                return tally
            _, what, text = again
        tally.add(Tally(Counter({what: 1}), [(stuck, text)], (target.limit_s, stuck)))
        return tally

    def _ask(
        self, target: Target, first: int, count: int, seconds: float, patience: int = 1
    ) -> Tally | tuple[int, str, str]:
        """What became of the cases; or the number of one that did not end, what it did, and where it was."""
        if target.name not in self._ready:  # making the corpus may take long
            self._pipe.send((target.name, 0, 0, 0))
            self._pipe.recv()
            self._ready.add(target.name)
        limit_s = patience * target.limit_s
        self._at.value = first
        self._pipe.send((target.name, first, count, seconds))
        seen, since_s = first, self._clocks()
        try:
            while not self._pipe.poll(min(limit_s, 1.0)):
                now_s = self._clocks()
                if self._at.value != seen:
                    seen, since_s = self._at.value, now_s
                elif now_s[0] - since_s[0] > limit_s or now_s[1] - since_s[1] > _WAITING * limit_s:
                    break
            else:
                ended: Tally = self._pipe.recv()
                return ended
            # A signal also reaches a process that is in a library's loop, and has it write where.
            if self._process.pid is not None:
                os.kill(self._process.pid, signal.SIGUSR1)
                time.sleep(0.5)
            stuck = seen, _ENDLESS, f"{self._stacks.read_text()}\nno end after {limit_s:g} s"
        except (EOFError, ConnectionError):
            self._process.join()
            text = f"{self._stacks.read_text()}\nthe process died, exit code {self._process.exitcode}"
            stuck = int(self._at.value), "died", text
        self._restart()
        return stuck

    def _clocks(self) -> tuple[float, float]:
        """The process's CPU time, and the time."""
        numbers = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, numbers[11:13])) / os.sysconf("SC_CLK_TCK"), time.monotonic()

    def _restart(self) -> None:
        self._end()
        self._start()

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join(5)
        self._end()
        self._stacks.unlink(missing_ok=True)

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: Connection, at: Any, seed: int, where: Path) -> None:  # noqa: ANN401 - ctypes
    corpora: dict[str, Sequence[bytes]] = {}
    stacks = where.open("w")
    faulthandler.register(signal.SIGUSR1, stacks)
    while (asked := pipe.recv()) is not None:
        name, first, count, seconds = asked
        target = TARGETS[name]
        if name not in corpora:
            limit_process(endless=True)
            corpora[name] = target.corpus()
            limit_process()
            faulthandler.enable(stacks)
            gc.freeze()  # else looking for garbage takes ten times as long as a hundred payloads
        corpus = corpora[name]
        tally = Tally()
        begun_s = ended_s = time.perf_counter()
        with judging(target) as judge:
            for number in range(first, first + count):
                if number % 100 == 0:
                    # A command has Python look for garbage so rarely that thousands of them fill the memory.
                    gc.collect()
                at.value = number
                started_s = ended_s
                try:
                    said = judge(case(target, corpus, seed, number))
                except Exception:  # noqa: BLE001 - that is what is looked for
                    said = "finding"
                    tally.found.append((number, traceback.format_exc()))
                tally.counts[said] += 1
                ended_s = time.perf_counter()
                if ended_s - started_s > tally.longest[0]:
                    tally.longest = ended_s - started_s, number
                if ended_s - begun_s > seconds:
                    break
            tally.most_bytes = judge.most_bytes
        pipe.send(tally)


def run(
    targets: Sequence[Target],
    seed: int,
    kept: Path,
    *,
    seconds: float = math.inf,
    cases: int = 0,
    first: int = 0,
) -> int:
    """Run all targets in turn; the number of findings that differ, each kept with its input.

    Args:
        targets: which.
        seed: of all cases.
        kept: folder for inputs of findings.
        seconds: how long, of all targets together.
        cases: how many of each target, if not 0.
        first: number of the first case.
    """
    chosen = {target.name: target for target in targets}
    processes = {name: Process(seed) for name in chosen}
    spent_s = dict.fromkeys(processes, 0.0)
    done = {name: Tally() for name in processes}
    kinds: set[str] = set()
    most = cases or 1 << 62
    end_s, said_s = time.monotonic() + seconds, time.monotonic()
    while (start_s := time.monotonic()) < end_s:
        left = [name for name in processes if done[name].counts.total() < most]
        if not left:
            break
        name = min(left, key=lambda name: spent_s[name] / chosen[name].share)
        number = done[name].counts.total()
        tally = processes[name].run(chosen[name], first + number, most - number, TURN_S)
        spent_s[name] += time.monotonic() - start_s
        for at, found in tally.found:
            if (kind := _kind(name, found)) not in kinds:
                kinds.add(kind)
                _keep(chosen[name], seed, at, found, kept)
        tally.found.clear()
        done[name].add(tally)
        if time.monotonic() - said_s > SAY_S:
            said_s = time.monotonic()
            print(f"... {name}: {spent_s[name]:.0f} s, {done[name].text}", flush=True)  # noqa: T201
    for name, process in processes.items():
        process.close()
        print(f"{name}: {spent_s[name]:.0f} s, {done[name].text}")  # noqa: T201
    print(f"{len(kinds)} different findings")  # noqa: T201
    return len(kinds)


def _kind(name: str, found: str) -> str:
    """What makes a finding another one: where it was raised, and of which type."""
    lines = found.strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File")]
    return "\n".join([name, *places[-2:], lines[-1].split(":")[0]])


def _keep(target: Target, seed: int, number: int, found: str, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    data = case(target, target.corpus(), seed, number)
    path = kept / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(f"seed {seed}, case {number}\n{found}\n")
    print(f"{target.name}, seed {seed}, case {number}, kept as {path}:\n{found}\n", flush=True)  # noqa: T201


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=float, default=60.0, help="of all targets together")
    words.add_argument("--cases", type=int, default=0, help="so many of each target instead, however long")
    words.add_argument("--first", type=int, default=0, help="number of the first case")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", nargs="*", choices=sorted(TARGETS), default=sorted(TARGETS))
    words.add_argument("--kept", type=Path, default=Path("fuzz-found"), help="folder for inputs of findings")
    words.add_argument("--again", type=Path, help="run this kept input once more")
    chosen = words.parse_args()
    if chosen.again is not None:
        limit_process()
        print(outcome(TARGETS[chosen.again.name.rpartition("-")[0]], chosen.again.read_bytes()))  # noqa: T201
        return 0
    seconds = math.inf if chosen.cases else chosen.seconds
    targets = [TARGETS[name] for name in chosen.only]
    found = run(targets, chosen.seed, chosen.kept, seconds=seconds, cases=chosen.cases, first=chosen.first)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
