"""When a live session is split, and at which message, so that no picture is lost."""

from __future__ import annotations

from edgefirst_ros.config.model import Config
from edgefirst_ros.live.queue import VIDEO, starts_gop
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.topics import full_type

SPLIT = "split"
"""Why a session ended that was split on request; for automatic splits the limit follows."""

TAIL_NS = 500_000_000
"""Allowance for latencies in addition to the other waits."""
WAIT_S = 3.0
"""Longest wait for a key frame; cameras send one about once a second."""


class SplitPoint:
    """Finds where to split: with video right before a key frame, where decoding can start.

    Call ``is_here`` with every message before it is used, and ``request`` when a split is wanted. Times are
    of a monotonic clock.
    """

    def __init__(self) -> None:
        self._video = ""
        self._due_s: float | None = None
        self.why = ""
        """Why the split was requested first."""

    def request(self, now_s: float, why: str = SPLIT) -> None:
        """Split at the next suitable message."""
        if self._due_s is None:
            self._due_s, self.why = now_s + WAIT_S, why

    def is_here(self, message: RawMessage | None, now_s: float) -> bool:
        """Whether to split before this message, or now if there is None."""
        if message is not None and not self._video and full_type(message.schema) == VIDEO:
            self._video = message.topic
        if self._due_s is None:
            return False
        if not self._video or now_s >= self._due_s:
            return True
        return message is not None and message.topic == self._video and starts_gop(message)


def tail_ns(config: Config) -> int:
    """How long after a seam the session before it still needs messages: late ones, and for its last poses."""
    return round(max(config.lookahead_s, config.ego.wait_s) * 1e9) + TAIL_NS


def limit_reached(config: Config, pipeline: Pipeline) -> str:
    """Which limit of the configuration the session has reached, empty if none.

    The time is of receipt, from the session's first message. The size is what all writers have written,
    without what is still being encoded. The distance is that of the rig's poses, which are known
    ``ego.wait_s`` later.
    """
    if not (config.split_every_s or config.split_every_mb or config.split_every_m):
        return ""
    progress = pipeline.progress
    if 0 < config.split_every_s <= progress.recorded_s:
        return f"{SPLIT} after {config.split_every_s:g} s (split_every_s)"
    if 0 < config.split_every_mb * 1e6 <= progress.bytes_written:
        return f"{SPLIT} after {config.split_every_mb:g} MB (split_every_mb)"
    if 0 < config.split_every_m <= progress.driven_m:
        return f"{SPLIT} after {config.split_every_m:g} m (split_every_m)"
    return ""
