"""Part b: the power is cut, after a command that says it is done, while it works, and live."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from acknowledged import durable
from contents import files
from cutdisk import CutDisk, lacking
from forked import command, run
from intercept import GO, Answer, Call, Kill
from judge import judge, recovered, whole_fault
from killing import convert, kill_at, undisturbed
from liveruns import LIVE_S, LiveRun, missing, recording
from scenarios import Prepared, wanted
from trials import Options, Result, Table, in_parallel, say

__all__ = ["lacking", "run_part"]
PART, LIVE = "cut", "live"
AMONG_LAST, IN_ALL = 8, 4
"""How many times a conversion is cut while it works: among its last calls, and anywhere."""
LAST = 50
FLUSHED_EARLY = 0.3
"""Share of the files that the kernel has happened to write before the cut."""
SYNCED = "synced"
"""The trial that shows that the others look at the right things."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A power cut.

    Attributes:
        prepared: the conversion.
        filesystem: of the disk.
        when: "after" the conversion, where it was "synced", after the "recover" that follows a kill, or the
            number of a call.
        last: how many calls a conversion makes.
        options: of the run.
    """

    prepared: Prepared
    filesystem: str
    when: str
    last: int
    options: Options

    @property
    def name(self) -> str:
        """Of the trial."""
        return f"{PART}/{self.prepared.scenario.name}-{self.filesystem}/{self.when}"


def run_part(options: Options, table: Table) -> None:
    """Conversions, then live captures."""
    for prepared in wanted(PART, options, ends=tuple(options.filesystems)):
        calls = undisturbed(prepared, options.work / "counted").calls
        cuts = [cut for cut in _cuts(prepared, calls, options) if options.wants(cut.name)]
        say(f"{PART}/{prepared.scenario.name}: {len(cuts)} power cuts")
        table.take(in_parallel(options.jobs, [(_cut, cut) for cut in cuts]), len(cuts))
    live = [
        (kind, filesystem, number, options)
        for number in (SYNCED, *map(str, range(options.cuts)))
        for filesystem in options.filesystems
        for kind in options.formats
        if options.wants(f"{LIVE}/{kind}-{filesystem}/{number}")
    ]
    recording()
    say(f"{LIVE}: {len(live)} power cuts")
    table.take(in_parallel(options.jobs, [(_live, each) for each in live]), len(live))


def _cuts(prepared: Prepared, calls: tuple[Call, ...], options: Options) -> Iterator[Cut]:
    for filesystem in options.filesystems:
        chosen = random.Random(f"{options.seed} {prepared.scenario.name} {filesystem}")
        last = range(max(0, len(calls) - LAST), len(calls))
        numbers = {
            *chosen.sample(last, min(AMONG_LAST, len(last))),
            *chosen.sample(range(len(calls)), IN_ALL),
        }
        for when in (SYNCED, "after", "recover", *map(str, sorted(numbers))):
            yield Cut(prepared, filesystem, when, len(calls), options)


def _cut(cut: Cut) -> list[Result]:
    with CutDisk(cut.options.work / cut.name.replace("/", "+"), cut.filesystem) as disk:
        match cut.when:
            case "after" | "synced":
                return [_after_conversion(cut, disk)]
            case "recover":
                return [_after_recovery(cut, disk)]
            case _:
                return [_while_converting(cut, disk)]


def _after_conversion(cut: Cut, disk: CutDisk) -> Result:
    """Exit code 0 means that everything is there for good."""
    output = disk.root / "out"
    _begin(cut.prepared, output)
    done = convert(cut.prepared, output)
    if cut.when == SYNCED:
        subprocess.run(["sync", "-f", disk.root], check=True)
    disk.restart()
    there, pages = files(output), cut.prepared.new["pages"]
    lost = [name for name, digest in pages.items() if there.get(name) != digest]  # recovery makes them again
    verdict = judge(cut.prepared, output, done.acknowledged, partial(whole_fault, cut.prepared))
    if lost:
        verdict = replace(verdict, fault=f"exit code 0, but {lost[0]} is not as it should be")
    what = f"exit code 0 of convert{', and a sync' if cut.when == SYNCED else ''}"
    return Result(cut.name, verdict.acknowledged, verdict.found, verdict.fault, what)


def _after_recovery(cut: Cut, disk: CutDisk) -> Result:
    """So does that of a recovery."""
    output = disk.root / "out"
    _begin(cut.prepared, output, lambda: kill_at(cut.prepared, output, cut.last * 3 // 4))
    run(command("recover", output))
    before = files(output)
    disk.restart()
    after = files(output)
    lost = [name for name, digest in before.items() if after.get(name) != digest]
    fault = f"exit code 0, but {lost[0]} is not as it was" if lost else judge(cut.prepared, output, ()).fault
    return Result(cut.name, len(before), len(before) - len(lost), fault, "exit code 0 of recover")


def _while_converting(cut: Cut, disk: CutDisk) -> Result:
    """Nothing is acknowledged, but what was there before is, and what is left is sound after recovery."""
    output = disk.root / "out"
    chosen = random.Random(f"{cut.options.seed} {cut.name}")

    def decide(call: Call) -> Answer:
        if call.number != int(cut.when):
            return GO
        _flush_some(output, chosen)
        disk.cut()
        return Kill()

    _begin(cut.prepared, output)
    done = convert(cut.prepared, output, decide)
    disk.restart()
    verdict = judge(cut.prepared, output, ())
    return Result(cut.name, fault=verdict.fault, what=str(done.killed or "not reached"))


def _begin(prepared: Prepared, output: Path, act: Callable[[], object] | None = None) -> None:
    """What was there before is there for good."""
    prepared.begin(output) if act is None else act()
    subprocess.run(["sync", "-f", output.parent], check=True)


def _flush_some(output: Path, chosen: random.Random) -> None:
    """What the kernel may do at any time, and in any order."""
    for file in sorted(output.rglob("*")):
        if file.is_file() and chosen.random() < FLUSHED_EARLY:
            with suppress(OSError):
                descriptor = os.open(file, os.O_RDONLY)
                os.fdatasync(descriptor)
                os.close(descriptor)


def _live(trial: tuple[str, str, str, Options]) -> list[Result]:
    """A capture in one format; the power is cut at a random time, or after a sync, which saves everything."""
    kind, filesystem, number, options = trial
    name = f"{LIVE}/{kind}-{filesystem}/{number}"
    after_s = random.Random(f"{options.seed} {name}").uniform(0.5, LIVE_S - 3)
    with CutDisk(options.work / name.replace("/", "+"), filesystem) as disk:
        output = disk.root / "out"
        with LiveRun(kind, output, options.work / f"{name.replace('/', '+')}.yaml") as run_:
            run_.await_first()
            time.sleep(after_s)
            told = durable(run_.capture.acknowledged)
            if number == SYNCED:
                subprocess.run(["sync", "-f", disk.root], check=True)
            disk.cut()
            told = told if number == SYNCED else durable(run_.capture.acknowledged)
            done = run_.capture.end(signal.SIGKILL)
        disk.restart()
        left = recovered(output)
    lost = missing(left.state["units"].get(kind, {}), kind, told)
    fault = left.fault
    if not fault and lost:
        span_s = (told[-1].time_ns - lost[0].time_ns) / 1e9
        fault = (
            f"{len(lost)} of {len(told)} durable samples are lost, the last {span_s:.1f} s; {left.said[:200]}"
        )
    if not told or done.code != -signal.SIGKILL:
        fault = f"nothing was durable before the cut, exit code {done.code}: {done.err[-300:]}"
    what = f"power cut {after_s:.1f} s after the first sample"
    return [Result(name, len(told), len(told) - len(lost), fault, what)]
