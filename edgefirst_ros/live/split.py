"""When a live session is split, and at which message, so that no picture is lost.

The session before a split: it takes late messages for a while, and is then completed in the background.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.formats.pace import Pace
from edgefirst_ros.live.queue import VIDEO, starts_gop
from edgefirst_ros.live.recorder import PendingRecording
from edgefirst_ros.model.sample import RawMessage
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.sources.session import Seam

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
    without what is still being encoded.
    """
    if limits := config.split_limits:
        progress = pipeline.progress
        for limit, most, is_size in limits:
            if most <= (progress.bytes_written if is_size else progress.recorded_s):
                return f"{SPLIT} after {limit} (split_every)"
    return ""


@dataclass(frozen=True, slots=True)
class SplitSession:
    """A session that a split ended and that still takes messages acquired before the seam.

    It needs no message received at ``until_ns`` or later; ``until_s`` is the limit on the monotonic clock,
    for the case that no more messages arrive.
    """

    job: Job
    why: str
    following: Job
    recorded: PendingRecording
    until_ns: int
    until_s: float


class Tail:
    """Ends the session before a seam once it needs no message any more, and completes it; one at a time.

    It is completed in a thread of its own.

    It is work that waits: the session after it goes first.

    Only ``cut`` and ``wait`` may be called from other threads than the capture's.

    Args:
        complete: completes a session, in that thread.
        failed: called there with the error if that fails.
    """

    def __init__(self, complete: Callable[[SplitSession], None], failed: Callable[[Exception], None]) -> None:
        self._complete = complete
        self._failed = failed
        self._session: SplitSession | None = None
        self._thread: threading.Thread | None = None
        self._pace = Pace()
        self._completing: SplitSession | None = None

    @property
    def jobs(self) -> list[Job]:
        """The jobs of sessions that are not complete; any thread."""
        return [each.job for each in (self._session, self._completing) if each is not None]

    @property
    def taking(self) -> list[Job]:
        """The job of the session that still takes messages from before its seam, if there is one."""
        return [] if self._session is None else [self._session.job]

    def begin(self, job: Job, why: str, seam: Seam, following: Job, recorded: PendingRecording) -> None:
        """Have ``job``, which ends at the seam, take messages beside ``following`` for a while."""
        until_s = time.monotonic() + 2 * tail_ns(job.pipeline.config) / 1e9
        self._session = SplitSession(job, why, following, recorded, seam.until_ns, until_s)

    def end_if_over(self, message: RawMessage | None) -> None:
        """Complete the session if it needs no more, given the newest message, or None if there is none."""
        session = self._session
        if session is None:
            return
        if message is None:
            is_over = time.monotonic() >= session.until_s
        else:
            is_over = message.receive_ns >= session.until_ns
        if is_over:
            self.end()

    def end(self) -> None:
        """Complete the session, if there is one, in the background."""
        session = self._session
        if session is not None:
            session.following.pipeline.pass_seam(session.why)
            self.wait()
            self._completing, self._session, self._pace = session, None, Pace()
            self._thread = threading.Thread(target=self._run, args=[session], name="finish", daemon=True)
            self._thread.start()

    def cut(self, reason: str) -> None:
        """Have the session drop what is not written yet."""
        session = self._session
        if session is not None:
            session.job.pipeline.cut(reason)

    def abort(self) -> None:
        """Abort the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.job.abort()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait, no longer than this, until the session before is complete; it does not rest any more."""
        self._pace.hurry()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout_s)

    def _run(self, session: SplitSession) -> None:
        try:
            with self._pace.kept():
                self._complete(session)
        except Exception as error:  # noqa: BLE001 - the capture thread gives up, stop() raises it
            session.job.abort()
            self._failed(error)
        finally:
            self._completing = None
