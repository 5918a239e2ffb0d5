"""Runs fuzz targets for some time, or one kept input again; see ``make fuzz``."""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "fuzz")]

from fuzz_targets import TARGETS  # noqa: E402
from fuzzing import Target, case, limit_process, outcome  # noqa: E402

_ENDLESS = "without an end"


class Process:
    """A process of its own that runs the cases of one target, so that a crash or a hang is a finding."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self._seed = seed
        self._stacks = Path(tempfile.mkstemp(prefix="fuzz-stacks-")[1])
        self._start()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        words = (theirs, self.target.name, self._seed, self._stacks)
        self._process = spawn.Process(target=_serve, args=words, daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def run(self, number: int) -> tuple[str, str]:
        """Outcome and traceback of a case; the traceback is empty unless it is a finding.

        A case that does not end gets three times as long once more, as the machine may be busy.
        """
        said, found = self._try(number, self.target.limit_s)
        return self._try(number, 3 * self.target.limit_s) if said == _ENDLESS else (said, found)

    def _try(self, number: int, limit_s: float) -> tuple[str, str]:
        self._pipe.send((number, 0.9 * limit_s))
        try:
            if self._pipe.poll(limit_s):
                ended: tuple[str, str] = self._pipe.recv()
                return ended
            said, found = _ENDLESS, f"{self._stacks.read_text()}\nno end after {limit_s:g} s"
        except (EOFError, ConnectionError):
            self._process.join()
            said, found = "died", f"the process died, exit code {self._process.exitcode}"
        self._end()
        self._start()
        return said, found

    def close(self) -> None:
        self._end()
        self._stacks.unlink(missing_ok=True)

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: Connection, name: str, seed: int, where: Path) -> None:
    target = TARGETS[name]
    corpus = target.corpus()
    limit_process()
    stacks = open(where, "w")  # noqa: PTH123, SIM115 - faulthandler writes to it when this process hangs
    pipe.send("ready")
    while True:
        number, limit_s = pipe.recv()
        faulthandler.dump_traceback_later(limit_s, file=stacks)
        try:
            pipe.send((outcome(target, case(target, corpus, seed, number)), ""))
        except Exception:  # noqa: BLE001 - that is what is looked for
            pipe.send(("finding", traceback.format_exc()))


def run(targets: Sequence[Target], seconds: float, seed: int, kept: Path) -> int:
    """Run all targets in turn; the number of findings that differ, each kept with its input."""
    processes = {target.name: Process(target, seed) for target in targets}
    spent_s = dict.fromkeys(processes, 0.0)
    done: dict[str, Counter[str]] = {name: Counter() for name in processes}
    kinds: set[str] = set()
    end_s = time.monotonic() + seconds
    while (start_s := time.monotonic()) < end_s:
        name = min(spent_s, key=lambda name: spent_s[name] / processes[name].target.share)
        process, number = processes[name], done[name].total()
        said, found = process.run(number)
        done[name][said] += 1
        spent_s[name] += time.monotonic() - start_s
        if found and (kind := _kind(name, found)) not in kinds:
            kinds.add(kind)
            _keep(process.target, seed, number, found, kept)
    for name, process in processes.items():
        process.close()
        counts = ", ".join(f"{count} {said}" for said, count in sorted(done[name].items()))
        print(f"{name}: {done[name].total()} cases in {spent_s[name]:.0f} s: {counts}")  # noqa: T201
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
    words.add_argument("--seconds", type=float, default=60.0)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", nargs="*", choices=sorted(TARGETS), default=sorted(TARGETS))
    words.add_argument("--kept", type=Path, default=Path("fuzz-found"), help="folder for inputs of findings")
    words.add_argument("--again", type=Path, help="run this kept input once more")
    chosen = words.parse_args()
    if chosen.again is not None:
        limit_process()
        print(outcome(TARGETS[chosen.again.name.rpartition("-")[0]], chosen.again.read_bytes()))  # noqa: T201
        return 0
    return int(run([TARGETS[name] for name in chosen.only], chosen.seconds, chosen.seed, chosen.kept) > 0)


if __name__ == "__main__":
    sys.exit(main())
