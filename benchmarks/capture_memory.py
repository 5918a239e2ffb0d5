"""Memory of a capture: it must grow neither with the number of sessions nor with their length.

    python benchmarks/capture_memory.py [--sessions 500] [--seconds 3]
    python benchmarks/capture_memory.py --minutes 60

First, one session after another in one process, each of which writes all formats of one simulated drive.
Prints the resident memory of every ten of them, and the threads; ends with 1 if there is more than 5 %
more after the last than after the first ten. With ``--minutes``, one capture of all formats over Zenoh, of
laps on the simulation's circuit; ends with 1 if there is more than 5 % more at its end than after five
minutes.

What is compared is memory of the process's own. Pages of files are libraries, which every process shares that
has loaded them and the system takes back when it needs them; their size is told beside it. A capture gives
freed memory back once a minute: a minute, and ten sessions, count by their median.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import zenoh

from edgefirst_ros.config.model import build_config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.simulation import DriveOptions, simulate
from edgefirst_ros.simulation.world import CIRCUIT_RADIUS_M, CRUISE_M_S
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.player import Names, keys_of
from edgefirst_ros.sources.zenohlink import Outlet, open_session

FORMATS = ("edgefirst", "ncore", "l5kit")
EVERY, SETTLED, MOST = 10, 10, 1.05
SETTLED_MINUTES, READ_EVERY_S, CONNECT_S = 5.0, 5.0, 60.0
LAP_NS = round(2 * math.pi * CIRCUIT_RADIUS_M / CRUISE_M_S * 1e9)
"""After it the rig is where it was: one lap after another is one long drive."""
STILL = ("/camera/info", "/radar/info", "/tf_static")
"""Their stamps stand still."""
STAMP = struct.Struct("<iI")
STAMP_AT = 4
"""Behind the encapsulation header: every other type begins with its time."""


class Resident(NamedTuple):
    """Resident memory of a process: of its own, and pages of files."""

    own_mb: float
    files_mb: float

    @classmethod
    def of(cls, process: str = "self") -> Resident:
        """Now."""
        status = Path(f"/proc/{process}/status").read_text()
        mb = {name: int(size) / 1024 for name, size in re.findall(r"Rss(\w+):\s+(\d+) kB", status)}
        return cls(mb["Anon"] + mb["Shmem"], mb["File"])

    @classmethod
    def median(cls, read: Sequence[Resident]) -> Resident:
        """Of several readings."""
        return cls(*map(statistics.median, zip(*read, strict=True)))

    def __str__(self) -> str:
        return f"{self.own_mb:7.0f} MB, and {self.files_mb:4.0f} MB of files"


def lap(folder: Path, options: DriveOptions) -> tuple[McapRecording, list[RawMessage]]:
    """A drive of a lap and a second, and the messages of the lap."""
    recording = McapRecording(simulate(folder, options).mcap)
    end_ns = next(recording.messages()).receive_ns + LAP_NS
    return recording, [message for message in recording.messages() if message.receive_ns < end_ns]


def free_endpoint() -> str:
    """A Zenoh endpoint of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{found.getsockname()[1]}"


def laps(messages: Sequence[RawMessage], seconds: float) -> Iterator[tuple[float, RawMessage]]:
    """The messages of a lap again and again, as if recorded now, each with the seconds since the start."""
    first_ns, now_ns = messages[0].receive_ns, time.time_ns()
    lap_ns = 0
    while True:
        for message in messages:
            since_ns = message.receive_ns - first_ns + lap_ns
            if since_ns > seconds * 1e9:
                return
            data = message.data
            if message.topic not in STILL:
                stamp_s, stamp_ns = STAMP.unpack_from(data, STAMP_AT)
                moved_ns = stamp_s * 1_000_000_000 + stamp_ns + now_ns - first_ns + lap_ns
                moved = STAMP.pack(moved_ns // 1_000_000_000, moved_ns % 1_000_000_000)
                data = data[:STAMP_AT] + moved + data[STAMP_AT + STAMP.size :]
            yield since_ns / 1e9, message._replace(data=data)
        lap_ns += LAP_NS


def connected(session: zenoh.Session, keys: Mapping[str, str]) -> dict[str, Outlet]:
    """Outlets by topic, as soon as something listens to all of them.

    Raises:
        TimeoutError: nothing does.
    """
    outlets = {topic: Outlet(session, key) for topic, key in keys.items()}
    deadline_s = time.monotonic() + CONNECT_S
    while not all(outlet.wanted for outlet in outlets.values()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no capture took all topics within {CONNECT_S:g} s")
        time.sleep(0.1)
    return outlets


def paced(messages: Sequence[RawMessage], seconds: float) -> Iterator[tuple[float, RawMessage]]:
    """As ``laps``, each message when it is due."""
    start_s = time.monotonic()
    for due_s, message in laps(messages, seconds):
        time.sleep(max(0.0, start_s + due_s - time.monotonic()))
        yield due_s, message


def steady(folder: Path, minutes: float) -> int:
    """Capture for so long over Zenoh; the exit code."""
    options = DriveOptions(
        seconds=LAP_NS / 1e9 + 1, fps=10, width=320, height=192, lidar_points=2000, cube_hz=0.5
    )
    recording, messages = lap(folder, options)
    endpoint = free_endpoint()
    chosen = [argument for name in FORMATS for argument in ("--format", name)]
    command = [sys.executable, "-m", "edgefirst_ros", "capture", "--zenoh", endpoint]
    command += ["-o", str(folder / "out"), "--quiet"]
    settled_mb = now_mb = 0.0
    with (
        open_session([], [endpoint]) as session,
        subprocess.Popen([*command, *chosen], start_new_session=True) as capture,
    ):
        outlets = connected(session, keys_of(recording.topics(), Names.RT, "host"))
        shown, read = 0, list[Resident]()
        for due_s, message in paced(messages, 60 * minutes):
            outlets[message.topic].put(full_type(message.schema), message.data)
            if due_s >= 60 * shown + READ_EVERY_S * (len(read) + 1):
                read.append(Resident.of(str(capture.pid)))
            if due_s >= 60 * (shown + 1):
                now, shown, read = Resident.median(read), shown + 1, []
                now_mb, settled_mb = now.own_mb, now.own_mb if shown <= SETTLED_MINUTES else settled_mb
                print(f"{shown:5} min: {now}", flush=True)
        capture.terminate()
    print(f"{now_mb / max(settled_mb, 1):.3f} times the memory after {SETTLED_MINUTES:g} min")
    return int(now_mb > MOST * settled_mb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the drive")
    parser.add_argument("--minutes", type=float, default=0.0, help="one capture of this length instead")
    chosen = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="edgefirst-memory-"))
    try:
        if chosen.minutes:
            return steady(folder, chosen.minutes)
        recording = simulate(folder, DriveOptions(seconds=chosen.seconds, fps=15)).mcap
        messages = list(McapRecording(recording).messages())
        capture = LiveCapture(
            build_config({"formats": FORMATS, "overload": {"latency_s": 0}}), folder, "host"
        )
        settled_mb = now_mb = 0.0
        read: list[Resident] = []
        for number in range(1, chosen.sessions + 1):
            capture.start(f"session{number}")
            for message in messages:
                capture.put(message)
            capture.stop(60)
            for name in FORMATS:
                shutil.rmtree(folder / name, ignore_errors=True)
            read.append(Resident.of())
            if number % EVERY == 0:
                now, read = Resident.median(read), []
                now_mb, settled_mb = now.own_mb, now.own_mb if number <= SETTLED else settled_mb
                print(f"{number:5} sessions: {now}, {threading.active_count()} threads", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{now_mb / max(settled_mb, 1):.3f} times the memory after {SETTLED}")
    return int(now_mb > MOST * settled_mb)


if __name__ == "__main__":
    sys.exit(main())
