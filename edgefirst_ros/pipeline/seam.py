"""What lies on both sides of a live split: which times are whose, and what the next session begins with."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgefirst_ros.config.model import Config
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.pipeline.envelope import Heard
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.sample import Calibration, Role
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.video.bitstream import can_start

if TYPE_CHECKING:
    from edgefirst_ros.ego.trajectory import Trajectory

SLACK_NS = 100_000_000
STALE_NS = 2_000_000_000
"""A camera that is so far behind everything else does not hold messages back any more."""
LABELS_NS = 1_000_000_000
"""Outputs of a model are kept for so long: masks without a stamp are dated by them."""
STARTS = 3
"""Of a video so many groups are kept: a stream without key frames becomes exact within one."""
LIMIT_BYTES = 256_000_000


@dataclass(slots=True)
class Window:
    """The acquisition times that are a session's own, ``begin_ns <= time < end_ns``; None is no limit."""

    begin_ns: int | None = None
    end_ns: int | None = None
    is_near: bool = False
    """Messages come that are of the session on the other side of a limit."""

    def has(self, time_ns: int) -> bool:
        """Whether what was acquired then belongs to the session."""
        return (self.begin_ns is None or time_ns >= self.begin_ns) and (
            self.end_ns is None or time_ns < self.end_ns
        )


@dataclass(frozen=True, slots=True)
class Start:
    """What a sequence that goes on after a seam begins with.

    ``calibration`` and ``trajectory`` are as the sequence before knows them, the trajectory with everything
    up to and including ``taken`` (time, topic, arrival), in the order of time. ``last_ns`` are the times of
    the newest messages by configured topic.
    """

    time_ns: int
    calibration: Calibration
    trajectory: Trajectory
    taken: tuple[int, str, int]
    last_ns: Mapping[str, int]

    def is_taken(self, measurement: Measurement) -> bool:
        """Whether the trajectory has it already."""
        return (measurement.time_ns, measurement.topic, measurement.arrival) <= self.taken


_Message = tuple[Heard, int, tuple[Stage, str] | None]
"""A message, its time, and the end of one that only the decoder needs."""


@dataclass(slots=True)
class _Kept:
    """One topic's messages, with their times."""

    role: Role
    reach_ns: int
    messages: deque[_Message] = field(default_factory=deque)
    starts: deque[int] = field(default_factory=deque)
    """Arrivals of the messages that decoding can start at; empty for what is no video."""
    is_video: bool = False


class Recent:
    """The last messages of every topic, as many as what comes next may need of them.

    That is companions within their tolerance, navigation and calibration not in order of time yet, and of
    videos what a decoder needs to have seen. Bounded by time, and by ``LIMIT_BYTES``.
    """

    def __init__(self, config: Config) -> None:
        self._ordered_ns = 2 * round(config.lookahead_s * 1e9)
        self._topics: dict[str, _Kept] = {}
        self._newest_ns = 0
        self._camera_ns: int | None = None
        self._bytes = 0
        self.last_ns: dict[str, int] = {}
        """Times of the newest messages, by configured topic."""

    @property
    def newest_ns(self) -> int:
        """The latest time of any message."""
        return self._newest_ns

    def add(self, heard: Heard, time_ns: int, unshown: tuple[Stage, str] | None) -> None:
        """Keep a message, in order of arrival, and let go of what is not needed any more."""
        raw, route = heard.raw, heard.route
        self._newest_ns = max(self._newest_ns, time_ns)
        self.last_ns[route.name] = max(self.last_ns.get(route.name, time_ns), time_ns)
        rule = route.rule
        if rule.role is Role.CAMERA:
            self._camera_ns = max(self._camera_ns or time_ns, time_ns)
        kept = self._topics.get(raw.topic)
        if kept is None:
            kept = self._topics[raw.topic] = _Kept(rule.role, rule.tolerance_ns + SLACK_NS)
        if isinstance(heard.decoded.datum, VideoPacket):
            kept.is_video = True
            if can_start(heard.decoded.datum):
                kept.starts.append(raw.arrival)
        kept.messages.append((heard, time_ns, unshown))
        self._bytes += len(raw.data)
        self._prune(kept)
        while self._bytes > LIMIT_BYTES:
            self._pop(max(self._topics.values(), key=_size))

    def messages(self) -> list[_Message]:
        """All that are kept, in order of arrival, with their times."""
        found = [message for kept in self._topics.values() for message in kept.messages]
        return sorted(found, key=lambda message: message[0].raw.arrival)

    def clear(self) -> None:
        """The time base broke: nothing before is needed any more."""
        self._topics.clear()
        self.last_ns.clear()
        self._newest_ns, self._camera_ns, self._bytes = 0, None, 0

    def _prune(self, kept: _Kept) -> None:
        if kept.is_video:
            while len(kept.starts) > STARTS:
                kept.starts.popleft()
            while kept.messages and (not kept.starts or kept.messages[0][0].raw.arrival < kept.starts[0]):
                self._pop(kept)
            return
        if kept.role in EGO_ROLES | CONTEXT_ROLES:
            from_ns = self._newest_ns - self._ordered_ns - STALE_NS
        else:
            seam_ns = self._newest_ns if self._camera_ns is None else self._camera_ns
            reach_ns = LABELS_NS if kept.role in {Role.MODEL, Role.MASK} else kept.reach_ns
            from_ns = max(seam_ns, self._newest_ns - STALE_NS) - reach_ns
        while kept.messages and kept.messages[0][1] < from_ns:
            self._pop(kept)

    def _pop(self, kept: _Kept) -> None:
        self._bytes -= len(kept.messages.popleft()[0].raw.data)


def _size(kept: _Kept) -> int:
    return sum(len(heard.raw.data) for heard, _, _ in kept.messages)
