"""The cores and the memory that this process may use, and each job's share of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.errors import ConfigError

JOB_BYTES = 1_500_000_000
"""Memory that one conversion takes at most, unless a user knows better; docs/fleet.md has measurements."""
_GROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Share:
    """How many jobs run on this machine, with how many encoder threads each, and why not more."""

    jobs: int
    workers: int
    note: str = ""


def share(jobs: int, memory: int, workers: int | None = None) -> Share:
    """Divide this machine among jobs.

    Args:
        jobs: wanted.
        memory: bytes for each job.
        workers: threads for each job; None divides the cores.

    Raises:
        ConfigError: there is not enough memory for a single job.
    """
    free = available_memory()
    fitting = jobs if free is None else int(free // memory)
    if free is not None and not fitting:
        need = (
            f"--jobs {jobs}: a job needs {memory / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are available"
        )
        raise ConfigError([f"{need}; end other programs, or lower --memory"])
    used = min(jobs, fitting)
    note = ""
    if used < jobs and free is not None:
        note = (
            f"{used} {'job' if used == 1 else 'jobs'} instead of {jobs}: each may need {memory / 1e9:.1f} GB"
        )
        note += f", and {free / 1e9:.1f} GB are available; --memory sets another value"
    return Share(used, workers or max(1, cores() // used), note)


def cores() -> int:
    """Cores that this process may use, by its affinity and its control group."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for words in map(str.split, _read("cpu.max")):
        if words and words[0] != "max":
            count = min(count, max(1, int(words[0]) // int(words[1])))
    return count


def available_memory() -> int | None:
    """Bytes of memory that can be taken without swapping; None where that cannot be known."""
    found = []
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        found.append(next(int(line.split()[1]) << 10 for line in text.splitlines() if "MemAvailable" in line))
    except (OSError, StopIteration, ValueError):
        pass
    for most, now in zip(_read("memory.max"), _read("memory.current"), strict=False):
        if most.strip() != "max":
            found.append(int(most) - int(now))
    return min(found, default=None)


def _read(name: str) -> Iterator[str]:
    """What a file of the control group says; nothing where there is none."""
    try:
        yield (_GROUP / name).read_text(encoding="ascii")
    except OSError:
        return
