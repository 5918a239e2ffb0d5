"""What recording costs: CPU, throughput and size, for messages of the device's sizes.

    python benchmarks/recording.py [--seconds 6] [--folder FOLDER]

Simulates a drive, loads its messages, and gives them to the recorder alone: at the pace of the drive for the
share of a core that it takes, then as fast as it writes them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from edgefirst_ros.config.model import Config
from edgefirst_ros.live.recorder import Recorder, RecordingResult
from edgefirst_ros.live.recordingfile import Latched
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.simulation import DriveOptions, simulate
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.session import RecordedSession

LIMIT_BYTES = 8 << 30


def drive(folder: Path, seconds: float) -> list[RawMessage]:
    """1080p30, 18 cubes and 20 clouds a second, an IMU at 200 Hz."""
    options = DriveOptions(
        seconds=seconds,
        fps=30,
        width=1920,
        height=1080,
        lidar_points=60_000,
        lidar_hz=20.0,
        cube_shape=(2, 200, 4, 256),
        cube_hz=18.0,
        imu_hz=200.0,
        compression="none",
    )
    return list(McapRecording(simulate(folder, options).mcap).messages())


def record(
    folder: Path, name: str, what: Sequence[RawMessage], *, paced: bool
) -> tuple[RecordingResult, float, float]:
    """The recording, the seconds and the seconds of CPU that it took."""
    recorder = Recorder(folder, LIMIT_BYTES, Latched(Config()))
    recorder.begin(RecordedSession(name, name, "host", {}))
    start_s, cpu_s, first_ns = time.monotonic(), time.process_time(), what[0].receive_ns
    for number, message in enumerate(what):
        if paced:
            time.sleep(max(0.0, (message.receive_ns - first_ns) / 1e9 - (time.monotonic() - start_s)))
        recorder.put(message, number)
        recorder.passed(number)
    done = recorder.end("done", last=True).result()
    return done, time.monotonic() - start_s, time.process_time() - cpu_s


def main() -> None:
    """Print a line for each pace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        folder = Path(made)
        what = drive(folder / "drive", given.seconds)
        size = sum(len(message.data) for message in what)
        print(
            f"{len(what):,} messages, {size / 1e6:,.0f} MB, {size / 1e6 / given.seconds:,.1f} MB/s of drive"
        )
        for name, paced in (("paced", True), ("at once", False)):
            done, took_s, cpu_s = record(folder / name, "s", what, paced=paced)
            print(
                f"{name:8}: {size / 1e6 / took_s:6.1f} MB/s, {cpu_s / took_s:5.1%} of a core, "
                f"{cpu_s / (size / 1e9):.1f} s of CPU a GB, "
                f"{done.bytes / size:.0%} of the size, {sum(done.not_recorded.values())} not recorded"
            )


if __name__ == "__main__":
    main()
