"""Part d: the disk is full: conversions, and live captures with and without a limit of free space."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from acknowledged import committed
from failing import FAILED, command_fault
from forked import command, run
from judge import judge, recovered, whole_fault
from killing import convert
from liveruns import LiveRun, missing, recording
from scenarios import Prepared, wanted
from trials import Options, Result, Table, in_parallel, say

PART, LIVE = "full", "live-full"
SHARES = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
"""Sizes of the disk, of what the conversion takes."""
LIVE_MB = {"l5kit": (0.03, 0.06)}
"""Sizes of the disk of a live capture by format: those of L5Kit are small."""
ANY_LIVE_MB = (0.5, 1.0)
SPARE_MB = 1.0
"""Free space below which a capture ends by itself."""
RESERVED_MB = 1.6
"""At least what a capture keeps beside that, to complete its output with: see pipeline/disk.py."""
ENLARGED_MB = 256
LIVE_LIMIT_S = 40.0


def lacking(_: Options) -> str:
    """What this machine lacks for it."""
    return "" if os.geteuid() == 0 else "full disks: need root\n"


@dataclass(frozen=True, slots=True)
class FullDisk:
    """A conversion onto a small disk."""

    prepared: Prepared
    size_kb: int
    options: Options

    @property
    def name(self) -> str:
        """Of the trial."""
        return f"{PART}/{self.prepared.scenario.name}/{self.size_kb}k"


def run_part(options: Options, table: Table) -> None:
    """Conversions, then live captures."""
    for prepared in wanted(PART, options):
        output = options.work / "measured"
        prepared.begin(output)
        before_kb = _size_kb(output)
        convert(prepared, output)
        takes_kb = _size_kb(output)  # with --overwrite both are there for a while, which is more than that
        shutil.rmtree(output)
        sizes = sorted({before_kb + max(8, round(takes_kb * share)) for share in SHARES})
        disks = [FullDisk(prepared, size, options) for size in sizes]
        chosen = [disk for disk in disks if options.wants(disk.name)]
        say(f"{PART}/{prepared.scenario.name}: {len(chosen)} disks")
        table.take(in_parallel(options.jobs, [(_convert, disk) for disk in chosen]), len(chosen))
    live = [
        (kind, size_mb, spare_mb, options)
        for kind in options.formats
        for size_mb, spare_mb in _disks(LIVE_MB.get(kind, ANY_LIVE_MB))
        if options.wants(_live_name(kind, size_mb, spare_mb))
    ]
    recording()
    say(f"{LIVE}: {len(live)} captures")
    table.take(in_parallel(options.jobs, [(_capture, each) for each in live]), len(live))


def _convert(trial: FullDisk) -> list[Result]:
    with _disk(trial.options.work / trial.name.replace("/", "+"), trial.size_kb) as root:
        output = root / "out"
        trial.prepared.begin(output)
        done = convert(trial.prepared, output)
        fault = command_fault(done)
        if done.code == FAILED and "No space left" not in done.err:
            fault = fault or f"does not say that the disk is full: {done.err.strip()[-200:]}"
        # Nobody must wait for space to be told something sensible.
        fault = fault or command_fault(run(command("recover", output)))
        _enlarge(root)
        whole = None if done.code else partial(whole_fault, trial.prepared)
        verdict = judge(trial.prepared, output, done.acknowledged, whole)
    what = f"disk of {trial.size_kb} kB, exit code {done.code}"
    return [Result(trial.name, verdict.acknowledged, verdict.found, fault or verdict.fault, what)]


def _capture(trial: tuple[str, float, float, Options]) -> list[Result]:
    kind, size_mb, spare_mb, options = trial
    name = _live_name(kind, size_mb, spare_mb)
    place = options.work / name.replace("/", "+")
    with _disk(place, round(size_mb * 1000)) as root:
        output = root / "out"
        with LiveRun(kind, output, place.with_suffix(".yaml"), spare_mb) as live:
            done = live.capture.wait(LIVE_LIMIT_S)
        told = committed(done.acknowledged)
        meant = 1 if spare_mb else FAILED
        fault = command_fault(done, meant)
        if not fault and done.code != meant:
            fault = f"ends with {done.code} instead of {meant}"
        if spare_mb and any(root.rglob("*.part")):
            fault = fault or "ended in time, but is not finished"
        _enlarge(root)
        left = recovered(output)
    lost = missing(left.state["units"].get(kind, {}), kind, told)
    if lost:
        fault = fault or f"{len(lost)} of {len(told)} written samples are lost; {left.said[:200]}"
    what = f"disk of {size_mb:g} MB, min_free_mb {spare_mb:g}, exit code {done.code}"
    return [Result(name, len(told), len(told) - len(lost), fault or left.fault, what)]


def _disks(sizes_mb: Sequence[float]) -> list[tuple[float, float]]:
    """Size of each disk, and the free space below which the capture ends; in MB."""
    return [*((size, 0.0) for size in sizes_mb), (sizes_mb[-1] + SPARE_MB + RESERVED_MB, SPARE_MB)]


def _live_name(kind: str, size_mb: float, spare_mb: float) -> str:
    return f"{LIVE}/{kind}/{size_mb:g}{'-spare' if spare_mb else ''}"


@contextmanager
def _disk(folder: Path, size_kb: int) -> Iterator[Path]:
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)
        folder.rmdir()


def _enlarge(root: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,size={ENLARGED_MB}m", root], check=True)


def _size_kb(folder: Path) -> int:
    """What a file system with blocks of 4 kB needs for it."""
    return sum(4 * -(-path.lstat().st_size // 4096) for path in folder.rglob("*") if path.is_file())
