"""Pauses of the input over Zenoh: none of them may make a capture shed what follows.

    python benchmarks/capture_pauses.py [--pauses 1,5,20,120]

One capture of all formats, of laps on the simulation's circuit, with fifteen seconds between the pauses, as
of a link that was down. Prints each topic's account; ends with 1 if anything was dropped for want of time.
Pictures behind a pause wait for the next key frame, as what they are built on is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from capture_memory import FORMATS, LAP_NS, connected, free_endpoint, lap, paced

from edgefirst_ros.config.topics import full_type
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.player import Names, keys_of
from edgefirst_ros.sources.zenohlink import open_session

BETWEEN_S = 15.0
MISSING = {"after a lost frame", "before the first key frame"}
"""Why pictures behind a pause are dropped, whatever time there is."""


def paused(pauses_s: Sequence[float]) -> list[tuple[float, float]]:
    """When nothing is sent: begin and end, in seconds since the start."""
    spans, now_s = [], BETWEEN_S
    for pause_s in pauses_s:
        spans.append((now_s, now_s + pause_s))
        now_s += pause_s + BETWEEN_S
    return spans


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pauses", default="1,5,20,120", help="in seconds, with commas between")
    spans = paused([float(each) for each in parser.parse_args(arguments).pauses.split(",")])
    folder = Path(tempfile.mkdtemp(prefix="edgefirst-pauses-"))
    try:
        options = DriveOptions(seconds=LAP_NS / 1e9 + 1, fps=15, width=640, height=360, cube_hz=0.5)
        recording, messages = lap(folder, options)
        endpoint = free_endpoint()
        command = [sys.executable, "-m", "edgefirst_ros", "capture", "--zenoh", endpoint, "--json"]
        command += ["-o", str(folder / "out"), *(word for name in FORMATS for word in ("--format", name))]
        with (
            open_session([], [endpoint]) as session,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as capture,
        ):
            outlets = connected(session, keys_of(recording.topics(), Names.RT, "host"))
            for due_s, message in paced(messages, spans[-1][1] + BETWEEN_S):
                if not any(begin_s <= due_s < end_s for begin_s, end_s in spans):
                    outlets[message.topic].put(full_type(message.schema), message.data)
            time.sleep(4.0)  # what is looked ahead for
            capture.terminate()
            told = capture.communicate()[0].splitlines()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shed = 0
    for topic, account in json.loads(told[-1])["topics"].items():
        dropped = account["reasons"].get("dropped", {})
        shed += sum(count for reason, count in dropped.items() if reason not in MISSING)
        print(f"{topic}: {account['received']:,} received, {account['written']:,} written, dropped {dropped}")
    print(f"{shed:,} messages shed")
    return int(shed > 0)


if __name__ == "__main__":
    sys.exit(main())
