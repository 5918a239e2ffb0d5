"""Memory of a process that captures one session after another: it must not grow with their number.

    python benchmarks/capture_memory.py [--sessions 60] [--seconds 3]

Each session writes all formats of one simulated drive. Prints the resident memory, and the threads, after
every ten of them; ends with 1 if there is more than 5 % more after the last than after the first twenty.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from edgefirst_ros.config.model import build_config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.simulation import DriveOptions, simulate
from edgefirst_ros.sources.mcap import McapRecording

FORMATS = ("edgefirst", "ncore", "l5kit")
EVERY, SETTLED, MOST = 10, 20, 1.05


def resident_mb() -> float:
    """Of this process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the drive")
    chosen = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="edgefirst-memory-"))
    try:
        recording = simulate(folder, DriveOptions(seconds=chosen.seconds, fps=15)).mcap
        messages = list(McapRecording(recording).messages())
        capture = LiveCapture(
            build_config({"formats": FORMATS, "overload": {"latency_s": 0}}), folder, "host"
        )
        settled_mb = now_mb = 0.0
        for number in range(1, chosen.sessions + 1):
            capture.start(f"session{number}")
            for message in messages:
                capture.put(message)
            capture.stop(60)
            for name in FORMATS:
                shutil.rmtree(folder / name, ignore_errors=True)
            if number % EVERY == 0:
                now_mb = resident_mb()
                settled_mb = now_mb if number <= SETTLED else settled_mb
                print(
                    f"{number:5} sessions: {now_mb:7.0f} MB, {threading.active_count()} threads", flush=True
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{now_mb / max(settled_mb, 1):.3f} times the memory after {SETTLED}")
    return int(now_mb > MOST * settled_mb)


if __name__ == "__main__":
    sys.exit(main())
