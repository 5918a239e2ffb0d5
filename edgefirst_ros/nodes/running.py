"""How a node runs from the first argument to its exit code."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

from edgefirst_ros.errors import ConfigError
from edgefirst_ros.nodes.parameterfile import check_parameter_files
from edgefirst_ros.nodes.receivebuffer import allowed_bytes, refused
from edgefirst_ros.nodes.signals import finishing
from edgefirst_ros.nodes.usage import Usage

USAGE = 2
"""Exit code: the node can do nothing with what it was told, and could not if it were started again."""
WAKE_S = 0.2
"""Python hears of a signal when the executor wakes up: an idle one does so at least this often."""


class Runnable(Protocol):
    """A node that knows when it is done, and what came of it."""

    done: bool
    exit_code: int

    def finish(self) -> None:
        """Complete what is under way."""

    def get_logger(self) -> Any:  # noqa: ANN401 - rclpy's logger, untyped
        """As rclpy has it."""

    def destroy_node(self) -> None:
        """As rclpy has it."""


def run(make: Callable[[], Runnable], usage: Usage, arguments: Sequence[str] | None) -> int:
    """Make a node and spin it until it is done or asked to finish; its exit code.

    Whatever goes wrong in a callback, what is under way is completed.
    """
    given = sys.argv if arguments is None else arguments
    try:
        # First, since ROS's own words for a broken file name a place in the sources of rcl.
        check_parameter_files(given, usage.executable)
        usage.check(remove_ros_args(given)[1:])
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except ConfigError as error:
        sys.stderr.write("".join(f"{usage.executable}: {fault}\n" for fault in error.faults))
        return USAGE
    except RuntimeError as error:
        # What follows the first comma are places in the sources of rcl.
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
                why = refused(middleware, allowed_bytes(), os.environ)
                what = str(error).partition(", at ")[0]
                sys.stderr.write(f"{usage.executable}: {what}; {why}\n")
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
    while not stop.is_set() and not node.done:
        try:
            executor.spin_once(timeout_sec=WAKE_S)
        except ExternalShutdownException:
            return
        except Exception:  # noqa: BLE001 - an error of one callback must not cost the session
            node.get_logger().fatal(f"a callback failed:\n{traceback.format_exc()}")
            node.exit_code = 1
            return
