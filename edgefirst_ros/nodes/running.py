"""Runs a node from its arguments to its exit code, and reports errors in lifecycle transitions."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Protocol, TypeVar

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor, TimeoutException
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

from edgefirst_ros.errors import ConfigError, EdgeFirstError
from edgefirst_ros.live.signals import finishing
from edgefirst_ros.naming import visible
from edgefirst_ros.nodes.options import Usage
from edgefirst_ros.nodes.parameters import check_parameter_files
from edgefirst_ros.nodes.receivebuffer import allowed_bytes, start_failure_help
from edgefirst_ros.pipeline.allocation import keep_freed_memory

USAGE = 2
"""Exit code: arguments or configuration are invalid, so starting the node again would not help."""
WAKE_S = 0.2
"""Longest wait of an idle executor: Python handles signals only when it wakes up."""
RECEIVE_EVERY_S = 0.002
"""How often a node receives while messages arrive. Some middlewares give the time of this as receive time."""
CALLBACKS_EVERY_S = 0.02
"""How often the executor runs timers and services meanwhile; each time it prepares to wait for everything."""


class Runnable(Protocol):
    """A node that knows when it is done, and with which exit code."""

    done: bool
    exit_code: int

    def receive(self) -> bool:
        """Take messages that have arrived; return whether more may come soon, else the executor waits."""

    def finish(self) -> None:
        """Complete the work in progress."""

    def get_logger(self) -> Any:  # noqa: ANN401 - rclpy's logger, untyped
        """As in rclpy."""

    def destroy_node(self) -> None:
        """As in rclpy."""


def run(make: Callable[[], Runnable], usage: Usage, arguments: Sequence[str] | None) -> int:
    """Create a node, spin it until it is done or a signal asks it to finish, and return its exit code.

    Work in progress is completed even when a callback fails.
    """
    keep_freed_memory()  # before the middleware has threads
    given = sys.argv if arguments is None else arguments
    try:
        # First, because rcl's own message about a broken file names a line of its source code.
        check_parameter_files(given, usage.executable)
        usage.check(remove_ros_args(given)[1:])
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except ConfigError as error:
        sys.stderr.write("".join(f"{usage.executable}: {visible(fault)}\n" for fault in error.faults))
        return USAGE
    except RuntimeError as error:
        # What follows the first comma are lines of the source code of rcl.
        usage.refuse(str(error).partition(", at ")[0].strip())
    stop = threading.Event()
    try:
        with finishing(stop, lambda text: print(text, file=sys.stderr)):  # noqa: T201 - nothing else is safe
            try:
                node = make()
            except RuntimeError as error:
                if "error creating node" not in str(error):
                    raise
                middleware = rclpy.get_rmw_implementation_identifier()
                why = start_failure_help(middleware, allowed_bytes(), os.environ)
                what = str(error).partition(", at ")[0]
                sys.stderr.write(f"{usage.executable}: {visible(what)}; {why}\n")
                return USAGE
            executor = SingleThreadedExecutor()
            executor.add_node(node)
            _spin(node, executor, stop)
            node.finish()
            executor.shutdown()
            node.destroy_node()
        return node.exit_code
    finally:
        rclpy.try_shutdown()


def _spin(node: Runnable, executor: Any, stop: threading.Event) -> None:  # noqa: ANN401 - rclpy's, untyped
    callbacks_due_s = 0.0
    while not stop.is_set() and not node.done:
        try:
            start_s = time.monotonic()
            if not node.receive():
                executor.spin_once(timeout_sec=WAKE_S)
                continue
            if start_s >= callbacks_due_s:
                callbacks_due_s = start_s + CALLBACKS_EVERY_S
                _run_callbacks(node, executor, stop)
            time.sleep(max(0.0, start_s + RECEIVE_EVERY_S - time.monotonic()))
        except ExternalShutdownException:
            return
        except Exception:  # noqa: BLE001 - one failing callback must not lose the session
            node.get_logger().fatal(f"a callback failed:\n{traceback.format_exc()}")
            node.exit_code = 1
            return


def _run_callbacks(node: Runnable, executor: Any, stop: threading.Event) -> None:  # noqa: ANN401 - rclpy's, untyped
    """Run the callbacks that are ready, without waiting for others."""
    with suppress(TimeoutException):
        while not stop.is_set() and not node.done:
            task, _, _ = executor.wait_for_ready_callbacks(timeout_sec=0.0)
            task()
            task.result()  # raises what the callback raised


class Reporting(Protocol):
    """A node that reports its problems."""

    def report_problem(self, text: str) -> None:
        """Log a problem and show it in the diagnostics."""

    def get_logger(self) -> Any:  # noqa: ANN401 - rclpy's logger, untyped
        """As in rclpy."""


Node = TypeVar("Node", bound=Reporting)
Transition = Callable[[Node, LifecycleState], Any]


def reporting_errors(transition: Transition[Node]) -> Transition[Node]:
    """Decorate a lifecycle transition to report its exceptions, which rclpy turns into errors silently."""

    @wraps(transition)
    def wrapped(node: Node, state: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        try:
            return transition(node, state)
        except EdgeFirstError as error:
            node.report_problem(str(error))
            return TransitionCallbackReturn.ERROR
        except Exception:
            node.get_logger().fatal(f"{transition.__name__} failed:\n{traceback.format_exc()}")
            raise

    return wrapped
