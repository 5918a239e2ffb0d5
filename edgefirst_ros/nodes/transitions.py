"""Lifecycle transitions that say what went wrong: rclpy turns exceptions into errors without a word."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

from edgefirst_ros.errors import EdgeFirstError


class Complaining(Protocol):
    """A node that tells of its troubles."""

    def complain(self, text: str) -> None:
        """Log a problem and keep it for the diagnostics."""

    def get_logger(self) -> Any:  # noqa: ANN401 - rclpy's logger, untyped
        """As rclpy has it."""


Node = TypeVar("Node", bound=Complaining)
Transition = Callable[[Node, LifecycleState], Any]


def told(transition: Transition[Node]) -> Transition[Node]:
    """A transition whose errors are told before rclpy hears of them."""

    @wraps(transition)
    def wrapped(node: Node, state: LifecycleState) -> Any:  # noqa: ANN401 - rclpy's enum, untyped
        try:
            return transition(node, state)
        except EdgeFirstError as error:
            node.complain(str(error))
            return TransitionCallbackReturn.ERROR
        except Exception:
            node.get_logger().fatal(f"{transition.__name__} failed:\n{traceback.format_exc()}")
            raise

    return wrapped
