"""The replay node: ``edgefirst-ros convert`` as a ROS node, with status and preview topics."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.errors import ConfigError, EdgeFirstError
from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.nodes.diagnostics import ReplayResult, log, progress_diagnostic, result_diagnostic
from edgefirst_ros.nodes.options import ReplayOptions
from edgefirst_ros.nodes.preview import Preview
from edgefirst_ros.nodes.publishing import StatusPublisher
from edgefirst_ros.nodes.running import NodeParameters, WithoutEmptyLists, run
from edgefirst_ros.offline.convert import Conversion, Position, convert
from edgefirst_ros.offline.inputs import suggested
from edgefirst_ros.sources.player import Pacer

STATUS_EVERY_S = 0.5


class ReplayNode(WithoutEmptyLists, Node):  # type: ignore[misc] # rclpy has no types
    """Runs one conversion in a thread of its own and publishes its progress; done when that ends."""

    def __init__(self) -> None:
        super().__init__("replay", automatically_declare_parameters_from_overrides=True)
        self.done, self.exit_code = False, 0
        self._stopping = threading.Event()
        self._position: Position | None = None
        self._result: ReplayResult | None = None
        self._preview: Preview | None = None
        self._worker: threading.Thread | None = None
        self._settings = NodeParameters(self, ReplayOptions, lambda: "cannot change while it is running")
        self._status = StatusPublisher(self)
        try:
            options, config = self._settings.build()
        except ConfigError as error:
            self._end(ReplayResult(2, "\n  ".join(["the configuration is invalid", *error.faults])))
            return
        self._preview = Preview(self) if options.preview else None
        self.create_timer(STATUS_EVERY_S, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._worker = threading.Thread(target=self._work, args=(options, config), name="replay", daemon=True)
        self._worker.start()

    def receive(self) -> bool:
        """Nothing: a replay has no subscriptions."""
        return False

    def finish(self) -> None:
        """Complete what has been read; called once, before the process ends."""
        self._stopping.set()
        if self._worker is not None:
            self._worker.join()
        self._tick()
        if self._preview is not None:
            self._preview.close()

    def _work(self, options: ReplayOptions, config: Config) -> None:
        try:
            self._result = ReplayResult.of(self._convert(options, config))
        except EdgeFirstError as error:
            self._result = ReplayResult(2, str(error))
        except Exception as error:  # noqa: BLE001 - logged, and the exit code shows it
            self.get_logger().fatal(f"the replay failed:\n{traceback.format_exc()}")
            self._result = ReplayResult(3, f"{type(error).__name__}: {error}")

    def _convert(self, options: ReplayOptions, config: Config) -> Conversion:
        bags = [path if "://" in path else Path(path).expanduser() for path in options.bag]
        output = Path(options.output).expanduser()
        is_given = any(name.startswith(("topics.", "reference", "prefix")) for name in self._settings.given)
        if suggestion := None if is_given else suggested(bags, config):
            log(self, Severity.NOTE, suggestion.note)
            _, config = self._settings.build(suggestion.values)
        done = convert(
            bags,
            output,
            config,
            dataset=options.name,
            overwrite=options.overwrite,
            stop=self._stopping,
            on_progress=partial(setattr, self, "_position"),
            pace=Pacer(options.rate, self._stopping) if options.rate else None,
            committed=None if self._preview is None else self._preview.show,
            unusable=suggestion.unusable if suggestion else {},
        )
        if suggestion:
            suggestion.keep(output, str(done.report["dataset"]))
        return done

    def _tick(self) -> None:
        if self._result is None:
            self._status.publish([progress_diagnostic(self._position)])
        elif not self.done:
            self._end(self._result)

    def _end(self, result: ReplayResult) -> None:
        self.done, self.exit_code = True, result.code
        diagnostic = result_diagnostic(result, self._position)
        self._status.publish([diagnostic])
        for line in (result.message, *result.lines):
            log(self, diagnostic.level, line)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the executable."""
    return run(ReplayNode, "replay", ReplayOptions, arguments)


if __name__ == "__main__":
    sys.exit(main())
