"""Where among the messages a live session can be split, so that no picture is lost."""

from __future__ import annotations

from edgefirst_ros.livequeue import VIDEO, starts_gop
from edgefirst_ros.messages.measurement import RawMessage
from edgefirst_ros.topics import full_type

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

    def ask(self, now_s: float) -> None:
        """From now on the next good place is wanted."""
        if self._due_s is None:
            self._due_s = now_s + WAIT_S

    def see(self, message: RawMessage | None, now_s: float) -> bool:
        """Whether the session is to be split here, before this message; None is a pause."""
        if message is not None and not self._video and full_type(message.schema) == VIDEO:
            self._video = message.topic
        if self._due_s is None:
            return False
        if not self._video or now_s >= self._due_s:
            return True
        return message is not None and message.topic == self._video and starts_gop(message)
