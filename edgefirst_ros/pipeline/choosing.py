"""Frames that are chosen by how far the rig has moved since the last one that was taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.moving import Moving
from edgefirst_ros.model.sample import GeoPoint
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.timing.align import MOST_WAITING_BYTES


class Choosing:
    """What comes waits in line until frames that it settles have final poses, and is aligned only then.

    So companions that go to one frame only go to one that is taken, and no other picture is requested.

    Args:
        config: whole.
        context: of the sequence.

    Attributes:
        chooses: whether any frame can be left out; otherwise nothing waits here.
        unmoved_ns: times of frames that were taken because no motion is known.
    """

    def __init__(self, config: Config, context: SampleContext) -> None:
        self._moving = Moving(config.every_m, skip_standstill=config.skip_standstill)
        self.chooses = self._moving.chooses
        self.unmoved_ns: set[int] = set()
        self._context = context
        self._line: deque[tuple[Envelope, str, int]] = deque()
        """With the bytes that each holds."""
        self._held_bytes = 0
        self._origin: GeoPoint | None = None

    @property
    def oldest_ns(self) -> int | None:
        """Time of what is first in line, None if nothing waits."""
        return self._line[0][0].time_ns if self._line else None

    def add(self, envelope: Envelope, name: str) -> None:
        """Put a message in line: a companion of that configured topic, or without one a frame."""
        size = sum(part.held_bytes for part in envelope.all_parts)
        self._line.append((envelope, name, size))
        self._held_bytes += size

    def ready(self, until_ns: float) -> Iterator[tuple[Envelope, str]]:
        """What need not wait any more, in order; where too much waits, what is first does not."""
        while self._line:
            envelope, name, size = self._line[0]
            if envelope.time_ns > until_ns and self._held_bytes <= MOST_WAITING_BYTES:
                return
            self._line.popleft()
            self._held_bytes -= size
            yield envelope, name

    def refusal(self, time_ns: int, can_be: bool) -> str:
        """Why the frame of a time is not taken, empty if it is or, where it cannot be, would be; in order."""
        if not self.chooses:
            return ""
        pose = self._context.trajectory.pose(time_ns, located=False)
        if pose.origin != self._origin:
            self._origin = pose.origin
            self._moving.restart()
        found = self._moving.refusal(pose.position_m, pose.speed_m_s, can_be=can_be)
        if can_be and self._moving.was_unknown:
            self.unmoved_ns.add(time_ns)
        return found or ""
