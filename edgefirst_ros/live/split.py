"""When a live session is split, and where among the messages, so that no picture is lost."""

from __future__ import annotations

from edgefirst_ros.config.model import Config
from edgefirst_ros.live.queue import VIDEO, starts_gop
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.topics import full_type

SPLIT = "split"
"""Why a session ended that somebody asked to split; what a limit of the configuration asks is said after."""

TAIL_NS = 500_000_000
"""For latencies on top of what is waited for anyway."""
WAIT_S = 3.0
"""A camera sends a key frame about once a second; one that sends none is not waited for longer."""


class SplitPoint:
    """Right before a key frame where there is video, because what comes before it could not be decoded later.

    ``see`` every message before it is used; ``ask`` when a split is wanted. Times are of a clock that only
    goes forward.
    """

    def __init__(self) -> None:
        self._video = ""
        self._due_s: float | None = None
        self.why = ""
        """As the first to ask said."""

    def ask(self, now_s: float, why: str = SPLIT) -> None:
        """From now on the next good place is wanted."""
        if self._due_s is None:
            self._due_s, self.why = now_s + WAIT_S, why

    def see(self, message: RawMessage | None, now_s: float) -> bool:
        """Whether the session is to be split here, before this message; None is a pause."""
        if message is not None and not self._video and full_type(message.schema) == VIDEO:
            self._video = message.topic
        if self._due_s is None:
            return False
        if not self._video or now_s >= self._due_s:
            return True
        return message is not None and message.topic == self._video and starts_gop(message)


def tail_ns(config: Config) -> int:
    """How long after a seam messages still matter to the session before it: for late ones, and last poses.

    Both are waited for at the same time.
    """
    return round(max(config.lookahead_s, config.ego.wait_s) * 1e9) + TAIL_NS


def limit_reached(config: Config, pipeline: Pipeline) -> str:
    """Why a session is to be split now as the configuration has it, empty if it is not.

    Time is of receipt, from the session's first message; size what all writers together have written so far,
    which is behind what has come by what is still being encoded; distance that of the rig's poses, which are
    known ``ego.wait_s`` later.
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
