"""A live capture over Zenoh on loopback: one process plays a drive, another one captures it."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from acknowledged import Sampled, durable, survives_a_power_cut
from drives import simulated
from forked import LIMIT_S, Fork, command
from scenarios import NO_PAGE

from edgefirst_ros.config.model import MAIVIN_TOPICS
from edgefirst_ros.simulation import DriveOptions

LIVE_S = 12.0
"""How long the drive is."""
STEP_NS = 100_000_000
"""Time between its pictures."""


class LiveRun:
    """A capture in one format; a context manager that leaves no process behind.

    Args:
        kind: the format.
        output: of the capture.
        config: file to write its configuration to.
        min_free_mb: as in the configuration.

    Attributes:
        capture: the process.
    """

    def __init__(self, kind: str, output: Path, config: Path, min_free_mb: float = 0.0) -> None:
        prompt = {"lookahead_s": 0.2, "ego": {"wait_s": 0.1, "smoothing": "lag"}}
        stamps = {name: {"clock": "stamp"} for name in MAIVIN_TOPICS}
        values = {"formats": [kind], "min_free_mb": min_free_mb, "topics": stamps, **prompt}
        values["l5kit"] = {}
        config.write_text(yaml.safe_dump(values))
        endpoint = _free_endpoint()
        where: list[str | Path] = [
            "-o",
            output,
            "--name",
            "d",
            "--config",
            config,
            "--session",
            "s",
            *NO_PAGE,
        ]
        self.capture = Fork(command("capture", "--zenoh", endpoint, *where, "-q"), hook=survives_a_power_cut)
        self._play = Fork(command("play", recording(), "--zenoh-listen", endpoint, "--wait", "60"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (self.capture, self._play):
            process.end(signal.SIGKILL)

    def await_first(self) -> None:
        """Wait until a sample is durable, or so long that none will be."""
        end_s = time.monotonic() + LIMIT_S / 2
        while not durable(self.capture.acknowledged) and time.monotonic() < end_s and self.capture.runs:
            time.sleep(0.05)


def missing(units: dict[str, str], kind: str, samples: Sequence[Sampled]) -> list[Sampled]:
    """Which samples are not among the units of a format, see ``contents``."""
    match kind:
        case "edgefirst":
            return [sample for sample in samples if f"{sample.sequence}/{sample.frame}" not in units]
        case "ncore":
            return [sample for sample in samples if f"cameras/{sample.time_ns // 1000}" not in units]
        case _:  # frames are at times of their own, the last one no more than a step before its sample
            until_ns = max((int(key.split()[1]) for key in units if key.startswith("until ")), default=0)
            return [sample for sample in samples if sample.time_ns > until_ns + STEP_NS]


def recording() -> Path:
    """A drive that lasts longer than a capture of it, small enough for two processes to keep up."""
    options = DriveOptions(
        seconds=LIVE_S,
        fps=10,
        width=320,
        height=180,
        lidar_points=640,
        cube_shape=(1, 16, 1, 8),
        cube_hz=5.0,
        model_hz=10.0,
        imu_hz=50.0,
        clock="realtime",
        host="sim",
    )
    return simulated(options).mcap


def _free_endpoint() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{found.getsockname()[1]}"
