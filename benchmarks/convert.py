"""Cost of `convert` against what its codecs cost, and its gain from a second worker.

    python benchmarks/convert.py [--seconds 60] [--runs 3] [--only TEXT] [--recording FILE --codec h264|h265]

README.md beside this file says how to read the figures. Without a recording, a 1080p30 drive is simulated for
each codec, once: it is kept in the folder for temporary files. What is compared runs in turn, each in a
process of its own, and the best of each counts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter

from faults import FaultyOptions, simulate

from edgefirst_ros.model.camera import Codec

FLOOR = Path(__file__).with_name("convert_floor.py")
CACHE = Path(tempfile.gettempdir()) / "edgefirst-ros-benchmarks"
SAMPLED_S = 0.2
ALL_FORMATS = "edgefirst,ncore,l5kit"
SELECTIONS: dict[str, list[str]] = {
    "all frames": [],
    "--rate 1": ["--rate", "1"],
    "--keyframes": ["--keyframes"],
}
WORKERS = (1, 2)


@dataclass(frozen=True, slots=True)
class Run:
    """What one process and its children took."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    """Memory that is not of files, of all its processes together."""
    printed: str


@dataclass(slots=True)
class Best:
    """The least of each over the runs."""

    wall_s: float = float("inf")
    cpu_s: float = float("inf")
    peak_mb: float = 0.0

    def take(self, run: Run) -> None:
        """Compare one more run."""
        self.wall_s, self.cpu_s = min(self.wall_s, run.wall_s), min(self.cpu_s, run.cpu_s)
        self.peak_mb = max(self.peak_mb, run.peak_mb)


@dataclass(slots=True)
class Case:
    """One recording, selection and set of formats."""

    codec: Codec
    selection: str
    formats: str
    parts_s: dict[str, float] = field(default_factory=dict)
    """Least CPU of each codec."""
    runs: dict[str, Best] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For the user."""
        return f"{self.codec}, {self.selection}, {self.formats}"

    @property
    def floor_s(self) -> float:
        """CPU of all codecs."""
        return sum(self.parts_s.values())


def drive(codec: Codec, seconds: float) -> Path:
    """The recording that figures are compared on: 1080p30 of 12 Mbit/s, 18 cubes and 10 clouds a second."""
    options = FaultyOptions(
        seconds=seconds,
        width=1920,
        height=1080,
        codec=codec,
        mbit_s=12.0,
        grain=4.0,
        lidar_points=60_000,
        cube_hz=18.0,
        cube_shape=(2, 200, 4, 256),
        model_hz=30.0,
    )
    digest = hashlib.sha256(json.dumps(asdict(options), sort_keys=True).encode()).hexdigest()[:12]
    folder = CACHE / digest
    if not (folder / "done").exists():
        print(f"simulating {seconds:g} s of {codec} into {folder} ...", file=sys.stderr)
        simulate(folder, options, overwrite=True)
        (folder / "done").touch()
    return next(folder.glob("*.mcap"))


def measured(command: Sequence[str | Path], *, one_core: bool = False) -> Run:
    """Run a command to its end, on one core or on all."""
    cores = sorted(os.sched_getaffinity(0))[:1] if one_core else os.sched_getaffinity(0)
    start_s = perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=out,
            stderr=err,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),  # noqa: PLW1509 - no thread runs here yet
        )
        peak, ended = [0.0], threading.Event()

        def watch() -> None:
            while not ended.wait(SAMPLED_S):
                peak[0] = max(peak[0], _tree_mb(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = perf_counter() - start_s
        process.returncode = os.waitstatus_to_exitcode(status)
        ended.set()
        watcher.join()
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} exits with {process.returncode}:\n{err.read()}")
        return Run(wall_s, usage.ru_utime + usage.ru_stime, peak[0], out.read())


def _tree_mb(pid: int) -> float:
    """Memory of a process and its descendants but for mapped files, each page counted once."""
    kb, waiting = 0, [pid]
    while waiting:
        place = Path(f"/proc/{waiting.pop()}")
        with suppress(OSError):
            text = (place / "smaps_rollup").read_text()
            kb += sum(int(size) for size in re.findall(r"^Pss_(?:Anon|Shmem): *(\d+) kB", text, re.MULTILINE))
        for children in place.glob("task/*/children"):
            with suppress(OSError):
                waiting += map(int, children.read_text().split())
    return kb / 1000


def measure(case: Case, recording: Path, plan: Path, folder: Path) -> None:
    """One run of everything that is compared."""
    if case.formats == "edgefirst":
        found = json.loads(measured([FLOOR, "floor", recording, plan, folder / "floor"]).printed)
        for name, taken_s in found.items():
            case.parts_s[name] = min(taken_s, case.parts_s.get(name, taken_s))
        # Of fewer pictures ffmpeg would decode as many as of all.
        for peer in ("loop", "jpegs") if not SELECTIONS[case.selection] else ("loop",):
            case.runs.setdefault(peer, Best()).take(measured([FLOOR, peer, recording, plan, folder / peer]))
    for workers in WORKERS:
        options = ["--workers", workers, "--format", case.formats, *SELECTIONS[case.selection], "--quiet"]
        command: list[str | Path] = [
            "-m",
            "edgefirst_ros",
            "convert",
            recording,
            "-o",
            folder / "out",
            *map(str, options),
        ]
        case.runs.setdefault(f"{workers}", Best()).take(measured(command))
        shutil.rmtree(folder / "out")
        if workers == 1:
            case.runs.setdefault("core", Best()).take(measured(command, one_core=True))
            shutil.rmtree(folder / "out")


def report(case: Case, alone: Case | None, recorded_s: float, messages: int) -> None:
    """Print the figures of a case; ``alone`` is the one with EdgeFirst only."""
    one, two = (case.runs[f"{workers}"] for workers in WORKERS)
    print(f"\n{case.name}")
    if case.parts_s:
        loop = case.runs["loop"]
        parts = ", ".join(f"{name} {taken_s:.2f}" for name, taken_s in sorted(case.parts_s.items()))
        _line("floor", case.floor_s, f"s of CPU: {parts}")
        _line("plain loop", loop.cpu_s, f"s of CPU, {loop.wall_s:.2f} s")
        if (jpegs := case.runs.get("jpegs")) is not None:
            _line("JPEGs by libavcodec", jpegs.cpu_s, f"s of CPU, {jpegs.wall_s:.2f} s, and nothing else")
    for workers, run in zip(WORKERS, (one, two), strict=True):
        speed = f"{recorded_s / run.wall_s:.1f} × real time"
        _line(
            f"convert, --workers {workers}",
            run.cpu_s,
            f"s of CPU, {run.wall_s:.2f} s, {speed}, {run.peak_mb:.0f} MB",
        )
    if case.parts_s:
        _line("CPU ÷ floor", one.cpu_s / case.floor_s, f"{two.cpu_s / case.floor_s:.2f} with 2 workers (1.2)")
        _line("CPU ÷ plain loop", one.cpu_s / case.runs["loop"].cpu_s, "which does far less (1.15)")
        beside_us = (one.cpu_s - case.floor_s) / messages * 1e6
        _line("CPU beside codecs", beside_us, "µs a message, the program's start included")
        _line("2 workers ÷ floor/2", two.wall_s / (case.floor_s / 2), "wall (1.25)")
    core = case.runs["core"]
    _line("1 ÷ 2 workers", one.wall_s / two.wall_s, "wall (1.8); a worker also uses the second core")
    _line("1 core ÷ 2 cores", core.wall_s / two.wall_s, f"wall; on one core {core.wall_s:.2f} s")
    if alone is not None:
        _line("÷ EdgeFirst alone", one.cpu_s / alone.runs["1"].cpu_s, "CPU, 1 worker (1.25)")
        _line("", two.wall_s / alone.runs["2"].wall_s, "wall, 2 workers (1.25)")


def _line(name: str, value: float, rest: str) -> None:
    """A figure, what it is of, and in brackets what it is to reach."""
    print(f"  {name:20} {value:8.2f} {rest}")


def main() -> None:
    """Measure every case in turn, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the drive (60)")
    parser.add_argument("--runs", type=int, default=3, help="of each; the best counts (3)")
    parser.add_argument("--only", default="", help="cases whose name has this, such as 'h264, all frames'")
    parser.add_argument("--recording", type=Path, help="another recording than the simulated one")
    parser.add_argument("--codec", choices=("h264", "h265"), help="of that recording; else only this one")
    given = parser.parse_args()
    if given.recording and not given.codec:
        parser.error("--recording needs --codec")
    codecs: list[Codec] = [given.codec] if given.codec else ["h264", "h265"]
    cases = [
        case
        for codec in codecs
        for selection in SELECTIONS
        for formats in ("edgefirst", ALL_FORMATS)
        if given.only in (case := Case(codec, selection, formats)).name
    ]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, best of {given.runs}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for case in cases:
            recording = given.recording or drive(case.codec, given.seconds)
            plan = folder / f"plan {case.codec} {case.selection}.json"
            if not plan.exists():
                measured([FLOOR, "plan", recording, plan, *SELECTIONS[case.selection]])
            for _ in range(given.runs):
                measure(case, recording, plan, folder)
            recorded_s, messages = json.loads(plan.read_text())["recorded"]
            alone = next((c for c in cases if c.formats == "edgefirst" and _same(c, case)), None)
            report(case, None if alone is case else alone, recorded_s, messages)


def _same(case: Case, other: Case) -> bool:
    return (case.codec, case.selection) == (other.codec, other.selection)


if __name__ == "__main__":
    main()
