"""The budget of a vehicle's computer: the most of each set-up that a live capture writes with nothing shed.

    python benchmarks/vehicle.py [--seconds 60] [--only 'both*']

A capture over Zenoh in a cgroup (v1 or v2, as root) that has 57 % of a core and 1 GB. That stands for an
i.MX 8M Plus: four Cortex-A53, of which each is assumed to do a seventh of what a core of a present x86-64
server does. The factor was not measured on the device; ``--cores`` sets another share. Of each set-up the
selections are tried from the most samples to the fewest, until one sheds and drops nothing. The player is
outside the budget.

Also printed: the share of the budget that it took, periods in which the budget was used up, the longest time
from a picture's acquisition to the durable sample (the first ones wait for clocks, which takes 3 s), the most
memory of its own, and by thread µs of CPU for each message received.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from capture_memory import LAP_NS, Resident, connected, free_endpoint, lap, paced

from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.player import Names, keys_of
from edgefirst_ros.sources.zenoh import ZenohSource
from edgefirst_ros.sources.zenohlink import linked, open_session

CORES, MEMORY_BYTES, PERIOD_US = 0.57, 1 << 30, 100_000
SIZE: dict[str, Any] = {"fps": 30, "width": 1920, "height": 1080, "mbit_s": 12.0}
FULL: dict[str, Any] = {**SIZE, "lidar_points": 20_000, "imu_hz": 200.0, "cube_hz": 0.0}
LOADS = {"1080p30, lidar, radar": FULL, "simulated drive": {"cube_hz": 2.0, "lidar_points": 20_000}}
SELECTIONS: dict[str, dict[str, Any]] = {
    "every frame": {},
    "10 Hz": {"rate_hz": 10.0},
    "2 Hz": {"rate_hz": 2.0},
    "key frames, 1 Hz": {"select": {"keyframes": True}},
}
OUTPUTS = {
    "edgefirst": ["edgefirst"],
    "ncore": ["ncore"],
    "both": ["edgefirst", "ncore"],
    "all": ["edgefirst", "ncore", "l5kit"],
}
SETTLING_S = 6.0
"""Clocks are watched for 3 s; what has waited for them is dealt with within as long again."""
LATENCY_MS = 3000.0
"""What the documentation promises from a picture's acquisition to its sample on disk."""


class Budget:
    """A cgroup with a share of a core and a limit of memory.

    Raises:
        SystemExit: there is no cgroup to make.
    """

    def __init__(self, cores: float) -> None:
        root, name = Path("/sys/fs/cgroup"), f"edgefirst-{os.getpid()}"
        controllers = root / "cgroup.controllers"
        self.is_v2 = controllers.exists() and {"cpu", "memory"} <= set(controllers.read_text().split())
        places = [root] if self.is_v2 else [root / "cpu", root / "cpuacct", root / "memory"]
        self._folders = [place / name for place in places]
        quota_us = round(cores * PERIOD_US)
        try:
            for folder in self._folders:
                folder.mkdir(exist_ok=True)
            if self.is_v2:
                (root / "cgroup.subtree_control").write_text("+cpu +memory")
                self._set("cpu.max", f"{quota_us} {PERIOD_US}")
                self._set("memory.max", str(MEMORY_BYTES))
            else:
                self._set("cpu.cfs_period_us", str(PERIOD_US))
                self._set("cpu.cfs_quota_us", str(quota_us))
                self._set("memory.limit_in_bytes", str(MEMORY_BYTES))
        except OSError as error:
            sys.exit(f"no cgroup can be made ({error}); run it as root where cgroups can be written")

    def _set(self, name: str, value: str) -> None:
        for folder in self._folders:
            if (folder / name).exists():
                (folder / name).write_text(value)
                return
        raise OSError(f"no {name}")

    def enter(self) -> None:
        """Put this process in."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def throttled(self) -> float:
        """Share of the periods so far in which the whole budget was used."""
        text = next(path for folder in self._folders if (path := folder / "cpu.stat").exists()).read_text()
        stat = dict(line.split()[:2] for line in text.splitlines())
        return int(stat["nr_throttled"]) / max(1, int(stat["nr_periods"]))

    def close(self) -> None:
        """Remove it; its processes have ended."""
        for folder in self._folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


class Ran(NamedTuple):
    """What one capture came to."""

    samples: int
    lost: int
    """Messages and samples shed or dropped for want of time."""
    share: float
    throttled: float
    latency_ms: float
    first_ms: float
    """As ``latency_ms``, until what waited for clocks is dealt with."""
    memory_mb: float
    threads: dict[str, float]
    written_mb: float

    @property
    def holds(self) -> bool:
        """Whether all of it went through in time."""
        return not self.lost and self.latency_ms < LATENCY_MS

    def __str__(self) -> str:
        return (
            f"{self.samples:,} samples, {self.lost:,} lost, {self.share:.0%} of the budget, used up in "
            f"{self.throttled:.0%} of periods, {self.latency_ms / 1e3:.1f} s latency "
            f"({self.first_ms / 1e3:.1f} s at the start), "
            f"{self.memory_mb:.0f} MB, {self.written_mb:.0f} MB written"
        )


def threads_s() -> dict[str, float]:
    """Seconds of CPU of this process, by the names of its threads without numbers."""
    spent: dict[str, float] = {}
    ours = {str(each.native_id): each.name for each in threading.enumerate()}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            stat = (task / "stat").read_text()
            name = ours.get(task.name) or stat[stat.index("(") + 1 : stat.rindex(")")]
            name = name.rstrip("-_0123456789")
            fields = stat[stat.rindex(")") + 2 :].split()
            spent_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            spent[name] = spent.get(name, 0.0) + spent_s
    return spent


def inside(given: Mapping[str, Any]) -> None:
    """Capture until the standard input ends, and print what it came to: the process in the budget."""
    capture = LiveCapture(build_config(given["config"]), Path(given["output"]), "vehicle")
    first_ms, latency_ms, own_mb, ended = 0.0, 0.0, 0.0, threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    with linked([given["endpoint"]], []) as link:
        capture.start("vehicle")
        with ZenohSource(link, build_config(given["config"]), capture.put):
            begun_s, before_s = None, 0.0
            while not ended.wait(0.5):
                status = capture.status()
                if begun_s is None and status.received:
                    begun_s, before_s = time.monotonic(), time.process_time()
                now_ms = status.commit_latency_ms or 0.0
                if begun_s is None or time.monotonic() - begun_s < SETTLING_S:
                    first_ms = max(first_ms, now_ms)
                else:
                    latency_ms = max(latency_ms, now_ms)
                own_mb = max(own_mb, Resident.of().own_mb)
            spent_s = time.process_time() - before_s
            seconds = time.monotonic() - (begun_s or 0.0)
            threads = threads_s()
        report = capture.stop()[0].report
    shed = sum(each["shed"] for each in report["shed"].values())
    waits = {"after a lost frame", "before the first key frame"}
    dropped = sum(
        count
        for topic in report["topics"].values()
        for reason, count in topic["reasons"].get("dropped", {}).items()
        if reason not in waits
    )
    received = report["totals"]["received"]
    print(
        json.dumps(
            {
                "samples": report["samples"],
                "lost": shed + dropped,
                "share": spent_s / seconds / given["cores"],
                "latency_ms": latency_ms,
                "first_ms": first_ms,
                "memory_mb": own_mb,
                "threads": {
                    name: 1e6 * s / received for name, s in nlargest(8, threads.items(), key=itemgetter(1))
                },
            }
        )
    )


def run(
    messages: Sequence[RawMessage],
    keys: Mapping[str, str],
    config: dict[str, Any],
    seconds: float,
    cores: float,
) -> Ran:
    """One capture in the budget."""
    folder, endpoint, budget = (
        Path(tempfile.mkdtemp(prefix="edgefirst-vehicle-")),
        free_endpoint(),
        Budget(cores),
    )
    given = {"config": config, "output": str(folder), "endpoint": endpoint, "cores": cores}
    try:
        with (
            open_session([], [endpoint]) as session,
            subprocess.Popen(
                [sys.executable, __file__, "--inside", json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=budget.enter,  # noqa: PLW1509 - no threads of ours are needed in the child
            ) as child,
        ):
            outlets = connected(session, keys)
            for _, message in paced(messages, seconds):
                outlets[message.topic].put(full_type(message.schema), message.data)
            time.sleep(4.0)  # what is looked ahead for
            throttled = budget.throttled()
            told = json.loads(child.communicate("")[0].splitlines()[-1])
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return Ran(**told, throttled=throttled, written_mb=size / 1e6)
    finally:
        budget.close()
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each capture")
    parser.add_argument("--only", default="*", help="set-ups, as a pattern of LOAD, OUTPUTS")
    parser.add_argument("--most", action="store_true", help="only the most samples, whatever is lost")
    parser.add_argument("--cores", type=float, default=CORES, help="share of a core")
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.inside:
        inside(chosen.inside)
        return 0
    print(f"{chosen.cores:.0%} of a core, {MEMORY_BYTES >> 20} MiB")
    for load, options in LOADS.items():
        setups = {f"{load}, {name}": formats for name, formats in OUTPUTS.items()}
        setups = {name: of for name, of in setups.items() if fnmatch.fnmatch(name, chosen.only)}
        if not setups:
            continue
        with tempfile.TemporaryDirectory(prefix="edgefirst-vehicle-") as folder:
            # The shortest circuit that is whole: a lap of 1080p takes a while to make.
            recording, messages = lap(Path(folder), DriveOptions(seconds=LAP_NS / 1e9 + 1, **options))
            keys = keys_of(recording.topics(), Names.RT, "vehicle")
        for name, formats in setups.items():
            for selection, settings in SELECTIONS.items():
                ran = run(messages, keys, {"formats": formats, **settings}, chosen.seconds, chosen.cores)
                print(f"{name}, {selection}: {ran}", flush=True)
                print("    " + ", ".join(f"{each} {us:.0f} µs" for each, us in ran.threads.items()))
                if ran.holds or chosen.most:
                    break
    return 0


if __name__ == "__main__":
    sys.exit(main())
