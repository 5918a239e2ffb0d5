"""What a live session hands to the one that follows it at a split: its seam."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgefirst_ros.config.model import Config
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.messages.measurement import Measurement
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.sample import Calibration, Role
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES
from edgefirst_ros.video.bitstream import can_start

if TYPE_CHECKING:
    from edgefirst_ros.ego.trajectory import Trajectory

SLACK_NS = 100_000_000
STALE_NS = 2_000_000_000
"""A camera that lags everything else by more than this no longer decides which messages are kept."""
LABELS_NS = 1_000_000_000
"""How long a model's outputs are kept: they give masks without a stamp their time."""
STARTS = 3
"""Groups of pictures kept of a video; a stream without key frames becomes exact within one."""
LIMIT_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class SeamStart:
    """What the first sequence after a seam takes over from the one before.

    ``calibration`` and ``trajectory`` are as that one knows them; the trajectory contains everything up to
    and including ``taken`` (time, topic, arrival), in order of time. ``last_ns`` holds the time of the newest
    message by configured topic.
    """

    time_ns: int
    calibration: Calibration
    trajectory: Trajectory
    taken: tuple[int, str, int]
    last_ns: Mapping[str, int]

    def is_taken(self, measurement: Measurement) -> bool:
        """Whether the trajectory contains this measurement already."""
        return (measurement.time_ns, measurement.topic, measurement.arrival) <= self.taken


@dataclass(slots=True)
class _TopicMessages:
    """One topic's messages."""

    role: Role
    reach_ns: int
    messages: deque[Envelope] = field(default_factory=deque)
    starts: deque[int] = field(default_factory=deque)
    """Running numbers of messages at which decoding can start; empty if it is not video."""
    is_video: bool = False


class RecentMessages:
    """The newest messages of every topic, as many as a following session may need.

    These are companions within their tolerance, navigation and calibration not yet in order of time, and the
    packets of a video from which decoding can start. Bounded by time and by ``LIMIT_BYTES``.
    """

    def __init__(self, config: Config) -> None:
        self._ordered_ns = 2 * round(config.lookahead_s * 1e9)
        self._topics: dict[str, _TopicMessages] = {}
        self._newest_ns = 0
        self._camera_ns: int | None = None
        self._bytes = 0
        self.last_ns: dict[str, int] = {}
        """Time of the newest message by configured topic."""

    @property
    def newest_ns(self) -> int:
        """Latest acquisition time of any message."""
        return self._newest_ns

    def add(self, envelope: Envelope) -> None:
        """Keep a message, in order of arrival, and forget those that are not needed any more."""
        time_ns, route = envelope.time_ns, envelope.route
        self._newest_ns = max(self._newest_ns, time_ns)
        self.last_ns[route.name] = max(self.last_ns.get(route.name, time_ns), time_ns)
        rule = route.rule
        if rule.role is Role.CAMERA:
            self._camera_ns = max(self._camera_ns or time_ns, time_ns)
        kept = self._topics.get(envelope.topic)
        if kept is None:
            kept = self._topics[envelope.topic] = _TopicMessages(rule.role, rule.tolerance_ns + SLACK_NS)
        if isinstance(envelope.decoded.datum, VideoPacket):
            kept.is_video = True
            if can_start(envelope.decoded.datum):
                kept.starts.append(envelope.arrival)
        kept.messages.append(envelope.fresh(envelope.ticket))
        self._bytes += envelope.ticket.size
        self._prune(kept)
        while self._bytes > LIMIT_BYTES:
            self._pop(max(self._topics.values(), key=_size))

    def messages(self) -> list[Envelope]:
        """All that are kept, in order of arrival."""
        found = [envelope for kept in self._topics.values() for envelope in kept.messages]
        return sorted(found, key=lambda envelope: envelope.arrival)

    def clear(self) -> None:
        """Forget everything, because the time base broke."""
        self._topics.clear()
        self.last_ns.clear()
        self._newest_ns, self._camera_ns, self._bytes = 0, None, 0

    def _prune(self, kept: _TopicMessages) -> None:
        if kept.is_video:
            while len(kept.starts) > STARTS:
                kept.starts.popleft()
            while kept.messages and (not kept.starts or kept.messages[0].arrival < kept.starts[0]):
                self._pop(kept)
            return
        if kept.role in EGO_ROLES | CONTEXT_ROLES:
            from_ns = self._newest_ns - self._ordered_ns - STALE_NS
        else:
            seam_ns = self._newest_ns if self._camera_ns is None else self._camera_ns
            reach_ns = LABELS_NS if kept.role in {Role.MODEL, Role.MASK} else kept.reach_ns
            from_ns = max(seam_ns, self._newest_ns - STALE_NS) - reach_ns
        while kept.messages and kept.messages[0].time_ns < from_ns:
            self._pop(kept)

    def _pop(self, kept: _TopicMessages) -> None:
        self._bytes -= kept.messages.popleft().ticket.size


def _size(kept: _TopicMessages) -> int:
    return sum(envelope.ticket.size for envelope in kept.messages)
