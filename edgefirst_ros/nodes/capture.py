"""The capture node: a lifecycle node that feeds a LiveCapture from a ROS graph."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from edgefirst_ros.config.model import Config
from edgefirst_ros.live.capture import LiveCapture
from edgefirst_ros.live.session import Finished
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.model.errors import ConfigError, EdgeFirstError
from edgefirst_ros.model.reasons import Severity
from edgefirst_ros.model.sample import Sample
from edgefirst_ros.nodes import running
from edgefirst_ros.nodes.diagnostics import (
    UNKNOWN,
    CaptureView,
    Diagnostic,
    LogThrottle,
    diagnose,
    log,
)
from edgefirst_ros.nodes.discovery import NO_PLAN
from edgefirst_ros.nodes.graph import message_class
from edgefirst_ros.nodes.options import CaptureOptions, output_faults
from edgefirst_ros.nodes.preview import Preview
from edgefirst_ros.nodes.publishing import BOND_TYPE, Bond, StatusPublisher, latched
from edgefirst_ros.nodes.receiving import granted_bytes, receive_buffer
from edgefirst_ros.nodes.subscriptions import Subscriptions

EVERY_S = 1.0
ANOTHER = 15
"""So many looks find a node that was killed; another of its name is there for longer."""
NO_STATUS = LiveStatus("", 0, 0, 0, 0, 0.0, UNKNOWN, {}, (), "")


DONE = {
    "split": "the next session begins, with video at the next key frame; then this one is completed",
    "pause": "paused: messages are counted but not written",
    "resume": "resumed: the session continues with a new sequence, with video at the next key frame",
}


class CaptureNode(running.WithoutEmptyLists, LifecycleNode):  # type: ignore[misc] # rclpy has no types
    """Parameters, lifecycle, services and diagnostics of a LiveCapture.

    Configuring validates the parameters, activating begins a session, deactivating completes it.
    """

    def __init__(self) -> None:
        super().__init__("capture", automatically_declare_parameters_from_overrides=True)
        self.done, self.exit_code = False, 0
        self._phase, self._problem = "unconfigured", ""
        self._settings = running.NodeParameters(self, CaptureOptions, self._locked)
        self._logged_hints: set[str] = set()
        self._options = CaptureOptions.model_construct()
        self._config = Config()
        self._capture: LiveCapture | None = None
        self._topics: Subscriptions | None = None
        self._preview: Preview | None = None
        self._bond: Bond | None = None
        self._previous = NO_STATUS
        self._published_splits = 0
        self._throttle = LogThrottle()
        self._receive_buffer = receive_buffer(rclpy.get_rmw_implementation_identifier(), granted_bytes())
        self._status = StatusPublisher(self)
        # No rosbag2_interfaces/WriteSplitEvent, which holds one path and is not installed everywhere.
        self._splits = latched(self, DiagnosticStatus, "~/events/split", 10)
        self._paused = latched(self, Bool, "~/is_paused")
        self._looks = 0
        """In a row at which another node of this name was there."""
        for name in ("start", "stop", "split", "pause", "resume", "toggle_paused"):
            self.create_service(Trigger, f"~/{name}", partial(self._serve, name))
        running.answer_impossible_transitions(self)
        # Not the node's clock, which may stand still in simulated time.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(EVERY_S, self._tick, clock=steady)
        self.add_post_set_parameters_callback(lambda _: self._update_preview())
        if self.get_parameter("autostart").value is True:
            self._autostart = self.create_timer(0.0, self._configure_and_activate, clock=steady)
        else:
            self.get_logger().info("waiting to be configured and activated; see --help")

    # ------------------------------------------------------------------ lifecycle
    @running.reporting_errors
    def on_configure(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Validate the parameters and list every fault."""
        try:
            options, self._config = self._settings.build()
            faults = output_faults(options.output)
        except ConfigError as error:
            faults = error.faults
        if faults:
            self.report_problem("the configuration is invalid", faults)
            return TransitionCallbackReturn.FAILURE
        self._phase, self._problem = "inactive", ""
        return TransitionCallbackReturn.SUCCESS

    @running.reporting_errors
    def on_activate(self, state: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Subscribe and begin a session."""
        self._options, self._config = self._settings.build()
        subscriptions = Subscriptions(
            self,
            self._config,
            partial(self._pass, "put"),
            simulated_ns=self._simulated_ns,
            unlisted=self._options.unlisted,
            record=partial(self._pass, "record") if self._config.record else None,
            replaced=partial(self._pass, "change_over"),
        )
        plan = subscriptions.update()
        self._capture = LiveCapture(
            # Topics arrive without prefix, so that the output does not depend on names in the graph.
            self._config.model_copy(update={"prefix": ""}),
            Path(self._options.output).expanduser(),
            self._host(plan.prefix),
            clock_ns=self._clock_ns,
            steady_s=lambda: self._clock_ns(time.monotonic_ns) / 1e9,
            committed=self._show,
            before=self._capture,
            offered=subscriptions.offered,
        )
        self._capture.other_topics = lambda: subscriptions.other_topics
        self._capture.publishers = lambda: subscriptions.several
        try:
            log(self, Severity.NOTE, self._start(self._capture))
        except EdgeFirstError as error:
            subscriptions.close()
            self.report_problem(f"no session: {error}")
            return TransitionCallbackReturn.FAILURE
        self._topics = subscriptions
        period_s = self._options.bond_heartbeat_period
        if period_s and (status := message_class(BOND_TYPE)) is not None:
            self._bond = Bond(self, status, period_s)
        self._phase, self._problem = "active", ""
        self._update_preview()
        return super().on_activate(state)

    @running.reporting_errors
    def on_deactivate(self, state: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Complete the session."""
        self._phase = "inactive"
        self._end()
        return super().on_deactivate(state)

    @running.reporting_errors
    def on_cleanup(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Discard the configuration."""
        self._phase, self._capture, self._problem = "unconfigured", None, ""
        return TransitionCallbackReturn.SUCCESS

    @running.reporting_errors
    def on_shutdown(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Complete the session, if any, and end the process."""
        self.done = True
        self._phase = "finalized"
        self._end()
        return TransitionCallbackReturn.SUCCESS

    @running.reporting_errors
    def on_error(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Release everything; the node can be configured again."""
        self.exit_code = 1
        self._phase = "unconfigured"
        self._release()
        if self._capture is not None:
            self._capture.abort()
        return TransitionCallbackReturn.SUCCESS

    def receive(self) -> bool:
        """Deliver messages that have arrived; return whether more may come soon, else the executor waits."""
        return self._topics is not None and self._topics.receive()

    def finish(self) -> None:
        """Complete the session; called once, before the process ends."""
        if not self.done:
            self.trigger_shutdown()

    def report_problem(self, text: str, faults: Sequence[str] = ()) -> None:
        """Log a problem and show it in the diagnostics."""
        self._problem = ": ".join([text, "; ".join(faults)] if faults else [text])
        self.get_logger().error("\n  ".join([text, *faults]))

    def _end(self) -> None:
        """Complete the session, if any.

        Raises:
            EdgeFirstError: writing failed.
        """
        self.receive()
        self._release()
        if self._capture is not None:
            self._finish(self._capture)

    def _publish_splits(self, capture: LiveCapture) -> None:
        for split in capture.splits[self._published_splits :]:
            self._published_splits += 1
            said = f"{split.closed.summary}; {split.opened} follows"
            self._splits.publish(self._status.message(Diagnostic(Severity.NOTE, "split", said, split.values)))
            self._log_finished(split.closed)
            log(self, Severity.NOTE, f"session {split.opened} follows: {split.closed.report['ended']}")
            self._ask_for_latched()

    def _finish(self, capture: LiveCapture) -> str:
        """Complete the session and log it; return a line on each since ``start``."""
        self._publish_splits(capture)
        finished = capture.stop(float(self.get_parameter("stop_within_s").value))
        for session in finished[self._published_splits :]:
            self._log_finished(session)
        return "; ".join(session.summary for session in finished)

    def _log_finished(self, session: Finished) -> None:
        log(self, Severity.NOTE if session.report["samples"] else Severity.WARNING, session.summary)
        for warning in session.report["warnings"]:
            log(self, Severity.WARNING, warning)

    def _ask_for_latched(self) -> None:
        """An earlier session received what a robot latches (tf_static); this one needs it as well."""
        if self._topics is not None:
            self._topics.resubscribe_latched()

    def _release(self) -> None:
        if self._bond is not None:
            self._bond.close()
        if self._topics is not None:
            self._topics.close()
        self._bond = self._topics = None
        self._update_preview()

    def _host(self, prefix: str) -> str:
        """The device's host name, from the prefix or namespace of its topics; else this computer's."""
        device = "" if prefix == "rt" else prefix.rpartition("/")[2]
        return device or self.get_namespace().rpartition("/")[2] or socket.gethostname()

    # ------------------------------------------------------------------ services
    def _serve(self, name: str, _: Any, response: Any) -> Any:  # noqa: ANN401 - generated messages, untyped
        capture = self._capture
        try:
            if self._phase != "active" or capture is None:
                raise EdgeFirstError(f"the node is {self._phase}; activate it first")  # noqa: TRY301
            if name == "toggle_paused":
                name = "resume" if capture.paused else "pause"
            if name == "start":
                response.message = self._start(capture)
                self._ask_for_latched()
            elif name == "stop":
                if not capture.running:
                    raise EdgeFirstError("no session is in progress")  # noqa: TRY301
                response.message = self._finish(capture)
            else:
                getattr(capture, name)()
                response.message = DONE[name]
            response.success = True
        except EdgeFirstError as error:
            response.message = str(error)
        return response

    def _start(self, capture: LiveCapture) -> str:
        options = self._options
        name = capture.start(options.name, sequence=options.session, paused=options.start_paused)
        self._published_splits, self._previous = 0, NO_STATUS
        output = Path(options.output).expanduser()
        return f"session {name} begins in {output}" + (", paused" if options.start_paused else "")

    # ------------------------------------------------------------------ timers and callbacks
    def _configure_and_activate(self) -> None:
        """Configure and activate as soon as the node spins; if that fails, end the process."""
        self._autostart.cancel()
        for what, change in (("configured", self.trigger_configure), ("activated", self.trigger_activate)):
            if change() != TransitionCallbackReturn.SUCCESS:
                self.get_logger().fatal(f"{self.get_name()} could not be {what}")
                self.done, self.exit_code = True, running.USAGE
                return
        self.get_logger().info(f"{self.get_name()} is active")

    def _simulated_ns(self) -> int | None:
        """The time on ``/clock``, 0 before the first, None if time is not simulated."""
        clock = self.get_clock()
        return int(clock.now().nanoseconds) if clock.ros_time_is_active else None

    def _clock_ns(self, wall_ns: Callable[[], int] = time.time_ns) -> int:
        """The clock of receive times, or another one that simulated time replaces."""
        simulated_ns = self._simulated_ns()
        return wall_ns() if simulated_ns is None else simulated_ns

    def _pass(self, name: str, what: Any) -> None:  # noqa: ANN401 - of what the capture's method takes
        if self._capture is not None:
            getattr(self._capture, name)(what)

    def _show(self, sample: Sample) -> None:
        preview = self._preview
        if preview is not None:
            preview.show(sample)

    def _look(self) -> None:
        """At the graph."""
        if self._topics is not None:
            self._topics.update()
        own = (self.get_name(), self.get_namespace())
        self._looks = self._looks + 1 if self.get_node_names_and_namespaces().count(own) > 1 else 0
        if self._looks == ANOTHER:
            said = f"another node is called {self.get_fully_qualified_name()}: name one with -r __node:=NAME"
            self.get_logger().warning(f"{said}, as services and parameters reach either")

    def _update_preview(self) -> None:
        """Create or close the preview: it exists while it is asked for and the node is active."""
        wanted = self._topics is not None and bool(self.get_parameter("preview").value)
        if wanted and self._preview is None:
            self._preview = Preview(self)
        elif not wanted and self._preview is not None:
            self._preview.close()
            self._preview = None

    def _locked(self) -> str:
        is_active = self._phase == "active"
        return "cannot change while the node is active; deactivate it first" if is_active else ""

    def _tick(self) -> None:
        self._look()
        capture, subscriptions = self._capture, self._topics
        status = NO_STATUS if capture is None else capture.status()
        plan = NO_PLAN if subscriptions is None else subscriptions.plan
        of = self._phase, status, self._previous, plan, self._config
        view = CaptureView(*of, self._settings.given, self._problem)
        diagnostics = [*diagnose(view), *self._receive_buffer]
        self._status.publish(diagnostics)
        hints = [(Severity.NOTE, f"hint: {each.text}") for each in status.hints]
        new = [each for each in hints if each[1] not in self._logged_hints]
        self._logged_hints.update(text for _, text in new)
        for level, line in [*self._throttle.lines(diagnostics, working=bool(status.session)), *new]:
            log(self, level, line)
        if status.paused != self._previous.paused or self._previous is NO_STATUS:
            self._paused.publish(Bool(data=status.paused))
        self._previous = status
        if capture is not None:
            self._publish_splits(capture)
        if self._phase == "active" and capture is not None and capture.broken:
            self.report_problem(f"session ended: {capture.broken}")
            self.trigger_deactivate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the executable."""
    return running.run(CaptureNode, "capture", CaptureOptions, arguments)


if __name__ == "__main__":
    sys.exit(main())
