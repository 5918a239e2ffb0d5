"""Convert recordings as a ROS node: what ``edgefirst-ros convert`` does, with status and preview topics."""

from __future__ import annotations

import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import ConfigError, EdgeFirstError
from edgefirst_ros.nodes.declare import NodeParameters
from edgefirst_ros.nodes.diagnostics import Entry
from edgefirst_ros.nodes.log import log
from edgefirst_ros.nodes.options import ReplayOptions
from edgefirst_ros.nodes.preview import Preview
from edgefirst_ros.nodes.progress import Outcome, finished_entry, progress_entry
from edgefirst_ros.nodes.publishing import StatusPublisher
from edgefirst_ros.nodes.running import run
from edgefirst_ros.nodes.usage import REPLAY
from edgefirst_ros.offline.convert import Conversion, Position, convert
from edgefirst_ros.sources.pacing import Pacer

STATUS_EVERY_S = 0.5


class ReplayNode(Node):  # type: ignore[misc] # rclpy has no types
    """Runs one conversion in a thread of its own and says how far it is; done when that is."""

    def __init__(self) -> None:
        super().__init__("replay", automatically_declare_parameters_from_overrides=True)
        self.done = False
        self.exit_code = 0
        self._stopping = threading.Event()
        self._position: Position | None = None
        self._outcome: Outcome | None = None
        self._preview: Preview | None = None
        self._worker: threading.Thread | None = None
        settings = NodeParameters(self, ReplayOptions, lambda: "cannot change: the replay is running")
        self._board = StatusPublisher(self, socket.gethostname())
        try:
            options, config = settings.build()
        except ConfigError as error:
            self._end(Outcome(2, "\n  ".join(["the configuration cannot be used", *error.faults])))
            return
        if options.preview:
            self._preview = Preview(self, options.tf_topic)
        self.create_timer(STATUS_EVERY_S, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._worker = threading.Thread(target=self._work, args=(options, config), name="replay", daemon=True)
        self._worker.start()

    def finish(self) -> None:
        """Finish what has been read; called once, when the process is to end."""
        self._stopping.set()
        if self._worker is not None:
            self._worker.join()
        self._tick()
        if self._preview is not None:
            self._preview.close()

    def _work(self, options: ReplayOptions, config: Config) -> None:
        try:
            self._outcome = Outcome.of(self._convert(options, config))
        except EdgeFirstError as error:
            self._outcome = Outcome(2, str(error))
        except Exception as error:  # noqa: BLE001 - told, and the exit code says so
            self.get_logger().fatal(f"the replay failed:\n{traceback.format_exc()}")
            self._outcome = Outcome(3, f"{type(error).__name__}: {error}")

    def _convert(self, options: ReplayOptions, config: Config) -> Conversion:
        pace: Callable[..., None] | None = Pacer(options.rate, self._stopping) if options.rate else None
        return convert(
            [Path(path).expanduser() for path in options.bag],
            Path(options.output).expanduser(),
            config,
            dataset=options.name,
            overwrite=options.overwrite,
            stop=self._stopping,
            on_progress=self._remember,
            pace=pace,
            committed=None if self._preview is None else self._preview.show,
        )

    def _remember(self, position: Position) -> None:
        self._position = position

    def _tick(self) -> None:
        if self._preview is not None:
            self._preview.look()
        if self._outcome is None:
            self._board.publish([progress_entry(self._position)])
        elif not self.done:
            self._end(self._outcome)

    def _end(self, outcome: Outcome) -> None:
        self.done, self.exit_code = True, outcome.code
        entry: Entry = finished_entry(outcome, self._position)
        self._board.publish([entry])
        for line in (outcome.message, *outcome.lines):
            log(self.get_logger(), entry.level, line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the executable."""
    return run(ReplayNode, REPLAY, arguments)


if __name__ == "__main__":
    sys.exit(main())
