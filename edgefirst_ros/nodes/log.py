"""Lines for a node's log whose severity is known only as they come."""

from __future__ import annotations

from typing import Any

from edgefirst_ros.nodes.diagnostics import Level


def log(logger: Any, level: Level, text: str) -> None:  # noqa: ANN401 - rclpy's logger, untyped
    """Log a line as bad as it is; a call of rclpy's logger must have the same severity each time."""
    if level == Level.ERROR:
        logger.error(text)
    elif level == Level.OK:
        logger.info(text)
    else:
        logger.warning(text)
