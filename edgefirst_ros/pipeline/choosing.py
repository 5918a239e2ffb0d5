"""Frames that are chosen by how far the rig has moved since the last one that was taken."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import GeoPoint
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.timing.align import MOST_WAITING_BYTES

STOPS_M_S, STARTS_M_S = 0.2, 0.6
"""Slower than the first the rig stands, until it is faster than the second. Estimates of a rig that stands
are within 0.1 m/s; a queue that creeps is faster than both."""


class Moving:
    """Chooses moments of one sequence, in order of time.

    Of a stop the first moment is taken, and no other. Where no motion is known, every moment is taken.

    Args:
        every_m: distance in a straight line between two that are taken; 0 for any.
        skip_standstill: take one of each stop; so it is with a distance, whatever positions drift.

    Attributes:
        was_unknown: whether the last moment was taken because nothing is known of it.
    """

    def __init__(self, every_m: float = 0.0, *, skip_standstill: bool = False) -> None:
        self._every_m = every_m
        self._skips = skip_standstill or every_m > 0
        self._stands = False
        self._last_m: tuple[float, ...] | None = None
        self.was_unknown = False

    @property
    def chooses(self) -> bool:
        """Whether any moment can be left out."""
        return self._skips

    def refusal(
        self, position_m: Sequence[float] | None, speed_m_s: float | None, *, can_be: bool = True
    ) -> Reason | None:
        """Why a moment is not taken, None if it is, or would be.

        Args:
            position_m: east and north, or x and y, in a frame that stays; None if it is not known.
            speed_m_s: of the rig; None if it is not known.
            can_be: whether it is taken if nothing speaks against it; of a stop the next one is taken then.
        """
        if not self._skips:
            return None
        place = None if position_m is None else tuple(position_m[:2])
        stood, stands = self._stands, self._stands_now(speed_m_s)
        self._stands = stands and (can_be or stood)
        self.was_unknown = place is None and speed_m_s is None
        if self.was_unknown:
            return None
        if stood and stands:
            return Reason.STANDING
        # A rig that has just stopped is where it was a moment before.
        is_apart = place is None or self._last_m is None or math.dist(place, self._last_m) >= self._every_m
        if self._every_m and not is_apart:
            return Reason.TOO_NEAR
        if can_be:
            self._last_m = place or self._last_m
        return None

    def restart(self) -> None:
        """Positions are in another frame from here on."""
        self._last_m = None

    def anew(self) -> Moving:
        """Another one, for the next sequence."""
        return Moving(self._every_m, skip_standstill=self._skips)

    def _stands_now(self, speed_m_s: float | None) -> bool:
        if speed_m_s is None:
            return False
        return speed_m_s < (STARTS_M_S if self._stands else STOPS_M_S)


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
