"""Capture live from a ROS graph: a lifecycle node around LiveCapture."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_srvs.srv import Trigger

from edgefirst_ros.config.model import Config
from edgefirst_ros.errors import ConfigError, EdgeFirstError
from edgefirst_ros.live.status import LiveStatus
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.nodes.bond import MISSING, Bond, status_class
from edgefirst_ros.nodes.declare import NodeParameters
from edgefirst_ros.nodes.diagnostics import Level, View, diagnose
from edgefirst_ros.nodes.discovery import Plan
from edgefirst_ros.nodes.log import log
from edgefirst_ros.nodes.options import CaptureOptions
from edgefirst_ros.nodes.preview import Preview
from edgefirst_ros.nodes.publishing import SplitPublisher, StatusPublisher
from edgefirst_ros.nodes.receivebuffer import allowed_bytes, granted_bytes, receive_buffer
from edgefirst_ros.nodes.running import USAGE, run
from edgefirst_ros.nodes.sessions import Sessions, Told, check_output, tell
from edgefirst_ros.nodes.subscriptions import Subscriptions
from edgefirst_ros.nodes.throttle import Herald
from edgefirst_ros.nodes.transitions import told
from edgefirst_ros.nodes.usage import CAPTURE
from edgefirst_ros.sample import Sample
from edgefirst_ros.video.integrity import compile_ahead, may_be_h265, wait_compiled

DIAGNOSE_EVERY_S = 1.0
NOTHING = LiveStatus("", 0, 0, 0, 0, 0.0, 0, {}, (), "")


class CaptureNode(LifecycleNode):  # type: ignore[misc] # rclpy has no types
    """Parameters, lifecycle, services and diagnostics of a capture; the rest is LiveCapture's.

    Configuring validates everything, activating begins a session, deactivating finishes it.
    """

    def __init__(self) -> None:
        super().__init__("capture", automatically_declare_parameters_from_overrides=True)
        self.done = False
        self.exit_code = 0
        self._phase = "unconfigured"
        self._trouble = ""
        self._settings = NodeParameters(self, CaptureOptions, self._locked)
        self._explicit = frozenset(
            name.split(".")[1] for name in self._settings.given if name.startswith("topics.")
        )
        self._rated = frozenset(
            name.split(".")[1]
            for name in self._settings.given
            if name.startswith("topics.") and name.endswith(".expected_hz")
        )
        self._hinted: set[str] = set()
        self._configuration = Config()
        self._sessions: Sessions | None = None
        self._intake: Subscriptions | None = None
        self._preview: Preview | None = None
        self._bond: Bond | None = None
        self._previous = NOTHING
        self._told_latched = ""
        """The session that latched messages were heard in."""
        self._herald = Herald()
        self._room = receive_buffer(
            rclpy.get_rmw_implementation_identifier(), granted_bytes(), allowed_bytes(), os.environ
        )
        """What the diagnostics say of the sockets' receive buffer."""
        self._board = StatusPublisher(self, socket.gethostname())
        self._events = SplitPublisher(self, socket.gethostname())
        actions: dict[str, Callable[[Sessions], str]] = {
            "start": self._start,
            "stop": self._stop,
            "split": Sessions.split,
            "pause": Sessions.pause,
            "resume": Sessions.resume,
            "toggle_paused": Sessions.toggle,
        }
        for name, action in actions.items():
            self.create_service(Trigger, f"~/{name}", self._service(action))
        # Not the node's clock: with simulated time it may stand still.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(DIAGNOSE_EVERY_S, self._tick, clock=steady)
        self.create_timer(float(self.get_parameter("look_every_s").value), self._look, clock=steady)
        self.add_post_set_parameters_callback(lambda _: self._follow())
        if self.get_parameter("autostart").value is True:
            self._at_once = self.create_timer(0.0, self._begin, clock=steady)
        else:
            self.get_logger().info("waiting to be configured and activated, see --help")

    # ------------------------------------------------------------------ lifecycle
    @told
    def on_configure(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Validate everything; every fault is listed."""
        try:
            options, self._configuration = self._settings.build()
            faults = check_output(options.output)
        except ConfigError as error:
            faults = error.faults
        if faults:
            self.complain("the configuration cannot be used", faults)
            return TransitionCallbackReturn.FAILURE
        compile_ahead(self.get_logger().info)
        self._phase, self._trouble = "inactive", ""
        return TransitionCallbackReturn.SUCCESS

    @told
    def on_activate(self, state: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Subscribe and begin a session."""
        options, self._configuration = self._settings.build()
        subscriptions = Subscriptions(
            self,
            self._configuration,
            self._put,
            simulated_ns=self._simulated_ns,
            depth=options.depth,
            unlisted=options.unlisted,
            previewed=lambda: "" if self._preview is None else self._preview.tf_topic,
            record=self._record if self._configuration.record else None,
        )
        plan = subscriptions.look()
        if any(may_be_h265(f.topic, f.type) and self.count_publishers(f.topic) for f in plan.feeds):
            wait_compiled()  # else the first picture would wait, and everything behind it in the queue
        self._sessions = Sessions(
            self._configuration,
            options,
            self._host(plan.prefix),
            self._show,
            before=self._sessions,
            around=subscriptions.around,
            offered=subscriptions.offered,
            clock_ns=self._clock_ns,
        )
        try:
            self.get_logger().info(self._sessions.begin())
        except EdgeFirstError as error:
            subscriptions.close()
            self.complain(f"no session: {error}")
            return TransitionCallbackReturn.FAILURE
        self._intake = subscriptions
        self._bind(options.bond_heartbeat_period)
        self._phase, self._trouble, self._previous = "active", "", NOTHING
        self._told_latched = self._sessions.status().session
        self._follow()
        return super().on_activate(state)

    @told
    def on_deactivate(self, state: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Finish the session."""
        self._phase = "inactive"
        self._end()
        return super().on_deactivate(state)

    @told
    def on_cleanup(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Forget the configuration."""
        self._phase, self._sessions, self._trouble = "unconfigured", None, ""
        return TransitionCallbackReturn.SUCCESS

    @told
    def on_shutdown(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Finish the session, if any, and end the process."""
        self.done = True
        self._phase = "finalized"
        self._end()
        return TransitionCallbackReturn.SUCCESS

    @told
    def on_error(self, _: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        """Let go of everything; the node can be configured anew."""
        self.exit_code = 1
        self._phase = "unconfigured"
        self._release()
        if self._sessions is not None:
            self._sessions.abort()
        return TransitionCallbackReturn.SUCCESS

    def finish(self) -> None:
        """Complete what is under way; called once, when the process is to end."""
        if not self.done:
            self.trigger_shutdown()

    def complain(self, text: str, faults: Sequence[str] = ()) -> None:
        """Log a problem and keep it for the diagnostics."""
        self._trouble = ": ".join([text, "; ".join(faults)] if faults else [text])
        self.get_logger().error("\n  ".join([text, *faults]))

    def _end(self) -> None:
        """Finish the session under way, if any; raises what made writing fail."""
        self._release()
        if self._sessions is not None:
            self._finish(self._sessions)

    def _tell_splits(self, sessions: Sessions) -> None:
        for split in sessions.splits():
            self._events.publish(split)
            self._log(tell(split.closed))
            self.get_logger().info(f"session {split.opened} follows: {split.closed.report['ended']}")

    def _finish(self, sessions: Sessions) -> str:
        self._tell_splits(sessions)
        lines = sessions.finish(float(self.get_parameter("stop_within_s").value))
        self._log(lines)
        return "; ".join(line.text for line in lines)

    def _log(self, lines: Sequence[Told]) -> None:
        for line in lines:
            log(self.get_logger(), Level.WARN if line.poor else Level.OK, line.text)

    def _bind(self, period_s: float) -> None:
        """Form the bond that a lifecycle manager waits for, where its message is installed."""
        status = status_class() if period_s else None
        if status is not None:
            self._bond = Bond(self, status, period_s)
        elif period_s and "bond_heartbeat_period" in self._settings.given:
            self.get_logger().warning(MISSING)

    def _release(self) -> None:
        if self._bond is not None:
            self._bond.close()
            self._bond = None
        if self._intake is not None:
            self._intake.close()
            self._intake = None
        self._follow()

    def _host(self, prefix: str) -> str:
        """The device's host name as far as names in the graph tell, else this computer's."""
        device = "" if prefix == "rt" else prefix.rpartition("/")[2]
        return device or self.get_namespace().rpartition("/")[2] or socket.gethostname()

    # ------------------------------------------------------------------ services
    def _service(self, action: Callable[[Sessions], str]) -> Callable[[Any, Any], Any]:
        def answer(_: Any, response: Any) -> Any:  # noqa: ANN401 - generated messages, untyped
            try:
                response.message = action(self._active())
                response.success = True
            except EdgeFirstError as error:
                response.message = str(error)
            return response

        return answer

    def _active(self) -> Sessions:
        if self._phase != "active" or self._sessions is None:
            raise EdgeFirstError(f"the node is {self._phase}; activate it first")
        return self._sessions

    def _start(self, sessions: Sessions) -> str:
        self._previous = NOTHING
        return sessions.begin()

    def _stop(self, sessions: Sessions) -> str:
        if not sessions.running:
            raise EdgeFirstError("no session is under way")
        return self._finish(sessions)

    # ------------------------------------------------------------------ what happens by itself
    def _begin(self) -> None:
        """Configure and activate, as soon as the node runs; one that cannot has nothing to wait for."""
        self._at_once.cancel()
        for what, change in (("configured", self.trigger_configure), ("activated", self.trigger_activate)):
            if change() != TransitionCallbackReturn.SUCCESS:
                self.get_logger().fatal(f"{self.get_name()} could not be {what}")
                self.done, self.exit_code = True, USAGE
                return
        self.get_logger().info(f"{self.get_name()} is active")

    def _simulated_ns(self) -> int | None:
        """The time on ``/clock``, 0 while none has come; None while time is not simulated."""
        clock = self.get_clock()
        return int(clock.now().nanoseconds) if clock.ros_time_is_active else None

    def _clock_ns(self) -> int:
        """The clock that messages are received by."""
        simulated_ns = self._simulated_ns()
        return time.time_ns() if simulated_ns is None else simulated_ns

    def _put(self, message: RawMessage) -> None:
        if self._sessions is not None:
            self._sessions.put(message)

    def _record(self, message: RawMessage) -> None:
        if self._sessions is not None:
            self._sessions.record(message)

    def _show(self, sample: Sample) -> None:
        preview = self._preview
        if preview is not None:
            preview.show(sample)

    def _look(self) -> None:
        if self._preview is not None:
            # First: what somebody else publishes must be alone when the capture subscribes to it.
            self._preview.look()
        if self._intake is not None:
            self._intake.look()

    def _follow(self) -> None:
        """The preview is there while it is wanted and there is something to show."""
        wanted = self._intake is not None and bool(self.get_parameter("preview").value)
        if wanted and self._preview is None:
            self._preview = Preview(self, str(self.get_parameter("tf_topic").value))
        elif not wanted and self._preview is not None:
            self._preview.close()
            self._preview = None

    def _locked(self) -> str:
        if self._phase == "active":
            return "cannot change while the node is active; deactivate it first"
        return ""

    def _tick(self) -> None:
        sessions = self._sessions
        status = NOTHING if sessions is None else sessions.status()
        plan = Plan("", frozenset(), ()) if self._intake is None else self._intake.plan
        view = View(
            self._phase,
            status,
            self._previous,
            plan,
            self._configuration,
            explicit=self._explicit,
            rated=self._rated,
            trouble=self._trouble,
        )
        entries = [*diagnose(view), *self._room]
        self._board.publish(entries)
        for level, line in self._herald.hear(entries, working=bool(status.session)):
            log(self.get_logger(), level, line)
        for hint in status.hints:
            if hint.text not in self._hinted:
                self._hinted.add(hint.text)
                log(self.get_logger(), Level.OK, f"hint: {hint.text}")
        self._previous = status
        if sessions is not None:
            self._tell_splits(sessions)
        if self._intake is not None and status.session not in ("", self._told_latched):
            # What a robot latches (tf_static) came to an earlier session; this one needs it as well.
            self._told_latched = status.session
            self._intake.hear_again()
        if self._phase == "active" and sessions is not None and sessions.broken:
            self.complain(f"session ended: {sessions.broken}")
            self.trigger_deactivate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the executable."""
    return run(CaptureNode, CAPTURE, arguments)


if __name__ == "__main__":
    sys.exit(main())
