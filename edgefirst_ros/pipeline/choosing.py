"""Reference frames that wait until it is known how far the rig has moved since the last that was taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.moving import Moving
from edgefirst_ros.model.sample import EgoPose, GeoPoint
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.samples import Frame, held_bytes
from edgefirst_ros.timing.align import MOST_WAITING_BYTES


@dataclass(frozen=True, slots=True)
class Expired:
    """A companion that no frame before it in line can take."""

    name: str
    envelope: Envelope


class Choosing:
    """Decides on frames in order of time, each when its pose is final; no picture is requested before.

    What expires meanwhile waits in line behind the frames that may have it.

    Args:
        config: whole.
        context: of the sequence.

    Attributes:
        chooses: whether any frame can be left out; otherwise nothing comes here.
    """

    def __init__(self, config: Config, context: SampleContext) -> None:
        self._moving = Moving(config.every_m, skip_standstill=config.skip_standstill)
        self.chooses = self._moving.chooses
        self._context = context
        self._waiting: deque[Frame | Expired] = deque()
        self._held_bytes = 0
        self._origin: GeoPoint | None = None

    @property
    def oldest_ns(self) -> int | None:
        """Time of the first frame that waits, None if none does."""
        first = next((each for each in self._waiting if not isinstance(each, Expired)), None)
        return None if first is None else first.reference.time_ns

    def add(self, items: Iterable[Frame | Expired]) -> None:
        """Put frames and companions in line."""
        for each in items:
            self._waiting.append(each)
            self._held_bytes += 0 if isinstance(each, Expired) else held_bytes(each)

    def ready(self, final_ns: float) -> Iterator[tuple[Frame | Expired, bool]]:
        """What is decided, in line; and whether a frame was taken because no motion is known.

        Where too much waits, what is first does not wait for its pose.
        """
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, Expired):
                yield self._waiting.popleft(), False
                continue
            if first.reference.time_ns > final_ns and self._held_bytes <= MOST_WAITING_BYTES:
                return
            self._waiting.popleft()
            self._held_bytes -= held_bytes(first)
            yield self._decided(first) if first.kind == "sample" else (first, False)

    def _decided(self, frame: Frame) -> tuple[Frame, bool]:
        pose: EgoPose = self._context.trajectory.pose(frame.reference.time_ns, located=False)
        if pose.origin != self._origin:
            self._origin = pose.origin
            self._moving.restart()
        refusal = self._moving.refusal(pose.position_m, pose.speed_m_s)
        if refusal is None:
            return frame, self._moving.was_unknown
        return frame._replace(kind="skipped", reason=refusal, lacks=()), False
