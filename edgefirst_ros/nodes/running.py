"""How a node runs from the first argument to its exit code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from edgefirst_ros.nodes.signals import finishing

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


def run(make: Callable[[], Runnable], arguments: Sequence[str] | None) -> int:
    """Make a node and spin it until it is done or asked to finish; its exit code."""
    stop = threading.Event()
    rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = make()
        with finishing(stop, lambda text: node.get_logger().error(text)):
            executor = SingleThreadedExecutor()
            executor.add_node(node)
            while not stop.is_set() and not node.done:
                executor.spin_once(timeout_sec=WAKE_S)
            node.finish()
            executor.shutdown()
        node.destroy_node()
        return node.exit_code
    finally:
        rclpy.try_shutdown()
