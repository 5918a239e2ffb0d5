"""What the capture node costs on a vehicle's load: CPU, drops, and the time from stamp to disk.

Needs a sourced ROS 2 with foxglove_msgs and edgefirst_msgs. Plays a recording (made here unless given) at its
own rate over DDS, with stamps moved to now, into the node as ``ros2 run`` starts it.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.node import Node

from edgefirst_ros.simulation import DriveOptions, simulate

STALL_EVERY_S = 4.0
PLAYER = Path(__file__).parent.parent / "test" / "launch" / "player.py"
LOAD = DriveOptions(
    fps=30,
    width=1920,
    height=1080,
    lidar_points=60_000,
    cube_shape=(2, 200, 4, 128),
    cube_hz=18.0,
    imu_hz=200.0,
    clock="realtime",
)


class Watcher(Node):
    """Collects what the node says of itself."""

    def __init__(self) -> None:
        super().__init__("watcher")
        self.statuses: list[dict[str, str]] = []
        self.topics: dict[str, dict[str, str]] = {}
        self.create_subscription(DiagnosticStatus, "/capture/status", self._status, 10)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._diagnostics, 10)

    def _status(self, message: DiagnosticStatus) -> None:
        self.statuses.append({v.key: v.value for v in message.values})

    def _diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.topics[status.name] = {v.key: v.value for v in status.values}

    def change(self, transition: int) -> bool:
        """Ask for a lifecycle transition; whether it was made."""
        client = self.create_client(ChangeState, "/capture/change_state")
        if not client.wait_for_service(20.0):
            return False
        future = client.call_async(ChangeState.Request(transition=Transition(id=transition)))
        rclpy.spin_until_future_complete(self, future, timeout_sec=20.0)
        return bool(future.result() and future.result().success)


def cpu_s(process: int, *, thread: int | None = None) -> float:
    """CPU seconds of a process and its threads, or of one thread; the main one has the process's number."""
    task = "" if thread is None else f"task/{thread}/"
    fields = Path(f"/proc/{process}/{task}stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Make or take a recording, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", nargs="?", type=Path, help="instead of a simulated drive")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME:=VALUE")
    parser.add_argument(
        "--stall",
        type=float,
        default=0.0,
        metavar="S",
        help=f"stop the node for so long every {STALL_EVERY_S:g} s",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recording = arguments.recording
        if recording is None:
            recording = simulate(Path(folder) / "drive", replace(LOAD, seconds=arguments.seconds)).mcap
        return measure(recording, Path(folder) / "out", arguments.parameter, arguments.stall)


def measure(recording: Path, output: Path, parameters: list[str], stall_s: float = 0.0) -> int:
    """Play the recording into a capture and print what that took."""
    given = [
        word for each in (f"output:={output}", "min_free_mb:=100.0", *parameters) for word in ("-p", each)
    ]
    capture = subprocess.Popen([sys.executable, "-m", "edgefirst_ros.nodes.capture", "--ros-args", *given])
    rclpy.init(args=[])
    watcher = Watcher()
    try:
        if not (
            watcher.change(Transition.TRANSITION_CONFIGURE) and watcher.change(Transition.TRANSITION_ACTIVATE)
        ):
            print("the capture did not become active")
            return 1
        idle_s, idle_cpu = time.monotonic(), cpu_s(capture.pid)
        while time.monotonic() - idle_s < 3.0:
            rclpy.spin_once(watcher, timeout_sec=0.1)
        idle = (cpu_s(capture.pid) - idle_cpu) / (time.monotonic() - idle_s)
        player = subprocess.Popen(
            [sys.executable, str(PLAYER), str(recording), "--restamp"], stdout=subprocess.PIPE, text=True
        )
        player.stdout.readline()
        start_s, start_cpu = time.monotonic(), cpu_s(capture.pid)
        start_main_cpu = cpu_s(capture.pid, thread=capture.pid)
        stalled_s = start_s
        while player.poll() is None:
            rclpy.spin_once(watcher, timeout_sec=0.1)
            if stall_s and time.monotonic() - stalled_s > STALL_EVERY_S:
                capture.send_signal(signal.SIGSTOP)
                time.sleep(stall_s)
                capture.send_signal(signal.SIGCONT)
                stalled_s = time.monotonic()
        played_s = time.monotonic() - start_s
        busy = (cpu_s(capture.pid) - start_cpu) / played_s
        main = (cpu_s(capture.pid, thread=capture.pid) - start_main_cpu) / played_s
        said, topics = player.stdout.read().strip(), dict(watcher.topics)
        for _ in range(15):
            rclpy.spin_once(watcher, timeout_sec=0.1)
        stop_s, stop_cpu = time.monotonic(), cpu_s(capture.pid)
        capture.send_signal(signal.SIGINT)
        capture.wait(30)
        stopped_s = time.monotonic() - stop_s
    finally:
        if capture.poll() is None:
            capture.kill()
        rclpy.try_shutdown()
    latencies = [
        float(s["latency to disk"].split()[0]) for s in watcher.statuses if s["latency to disk"][0].isdigit()
    ]
    last = watcher.statuses[-1]
    print(f"{said}; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"CPU idle {idle:.0%}, playing {busy:.0%} of a core ({main:.0%} in the main thread), "
        f"{stop_cpu:.1f} s in all"
    )
    print(f"SIGINT to exit: {stopped_s:.2f} s")
    if latencies:
        print(
            f"stamp to disk: median {statistics.median(latencies):.0f} ms, least {min(latencies):.0f}, "
            f"most {max(latencies):.0f}"
        )
    print(
        ", ".join(
            f"{key} {last[key]}" for key in ("samples", "received", "dropped", "lost upstream", "queue")
        )
    )
    for name, values in sorted(topics.items()):
        if "rate" in values and "latency" in values:
            columns = ("rate", "latency", "received", "written", "dropped", "lost upstream")
            print(f"  {name}: " + ", ".join(f"{key} {values[key]}" for key in columns))
    return capture.returncode


if __name__ == "__main__":
    sys.exit(main())
