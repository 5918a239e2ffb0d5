"""Which frames become samples: of cameras beside the reference, and by how far the rig has moved."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from edgefirst_ros.config.model import Config
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import GeoPoint, SequenceInfo
from edgefirst_ros.model.sensors import ALIVE_S
from edgefirst_ros.model.untrusted import safe_name
from edgefirst_ros.pipeline.context import SampleContext
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.timing.align import MOST_WAITING_BYTES, Aligned, Aligner, PairingRule, Selection

ALIVE_NS = round(ALIVE_S * 1e9)


class CameraFrames:
    """Aligns what samples of one camera take, in order of time; every envelope in it is held once more.

    Where the reference's frames are selected, a picture is one of the camera's frames if it goes with one of
    those, which is known some time after it has come. What is later waits for that.

    Args:
        rules: how every configured topic but cameras pairs, by its name.
        selects: whether pictures are selected.
    """

    def __init__(self, rules: Mapping[str, PairingRule], *, selects: bool) -> None:
        # Which of several topics of a role it takes depends on what comes: none is missed before it has come.
        mild = {n: replace(r, required="auto") if r.required == "always" else r for n, r in rules.items()}
        self._aligner: Aligner[Envelope] = Aligner(mild, Selection(), ALIVE_NS)
        self._selects = selects
        self._queue: deque[Envelope] = deque()
        self._chosen: dict[int, bool] = {}
        """Whether a picture is a frame, by its arrival; without those of which that is not known yet."""
        self._is_frame: set[int] = set()
        self._passed: list[tuple[str, Envelope]] = []
        """Pictures that are none of its frames."""

    def add(self, envelope: Envelope, *, is_frame: bool) -> None:
        """Take a picture of the camera, or a companion."""
        self._queue.append(envelope)
        if is_frame:
            self._is_frame.add(envelope.arrival)
            if not self._selects:
                self._chosen[envelope.arrival] = True

    def choose(self, picture: Envelope, *, chosen: bool) -> None:
        """Whether a picture goes with a selected frame of the reference; the first answer counts."""
        if picture.arrival in self._is_frame:
            self._chosen.setdefault(picture.arrival, chosen)

    def advance(self, time_ns: int) -> Iterator[Aligned[Envelope]]:
        """Frames that are settled, as everything before this time has come."""
        while self._queue and self._queue[0].time_ns <= time_ns:
            first = self._queue[0]
            is_frame = first.arrival in self._is_frame
            if is_frame and first.arrival not in self._chosen:
                return
            self._queue.popleft()
            self._is_frame.discard(first.arrival)
            if not is_frame:
                yield from self._aligner.companion(first.route.name, first)
            elif self._chosen.pop(first.arrival):
                yield from self._aligner.reference(first)
            else:
                self._passed.append((first.route.name, first))
                yield from self._aligner.advance(first.time_ns)
        yield from self._aligner.advance(time_ns)

    def leave(self, before_ns: int) -> Iterator[Aligned[Envelope]]:
        """Frames before a time leave with what they have; see ``Aligner``."""
        yield from self.advance(before_ns - 1)
        yield from self._aligner.leave(before_ns)

    def flush(self) -> Iterator[Aligned[Envelope]]:
        """Settle all frames and expire all companions, as nothing more comes."""
        self._chosen = {arrival: self._chosen.get(arrival, False) for arrival in self._is_frame}
        yield from self.advance(1 << 63)
        yield from self._aligner.flush()

    def expired(self) -> list[tuple[str, Envelope]]:
        """Configured topic and message of what no frame can take any more, since the last call."""
        passed, self._passed = self._passed, []
        return passed + self._aligner.expired()

    def frontier_ns(self, now_ns: int) -> int:
        """Before this time no frame can leave any more."""
        waiting_ns = [each for each in (self._aligner.oldest_ns, now_ns) if each is not None]
        return min([*waiting_ns, *(each.time_ns for each in [*self._queue][:1])])


def camera_sequence(rig: SequenceInfo, sensor: str, taken: Iterable[str]) -> SequenceInfo:
    """The sequence of a camera beside the reference: ``host-sensor_date_time`` beside ``host_date_time``.

    Args:
        rig: sequence of the rig.
        sensor: the camera.
        taken: names that the rig's other cameras have.
    """
    host, camera = safe_name(rig.host, "host"), safe_name(sensor)
    is_usual = rig.name.startswith(f"{host}_")
    name = f"{host}-{camera}{rig.name.removeprefix(host)}" if is_usual else f"{rig.name}-{camera}"
    others = set(taken)
    names = (name, *(f"{name}_{number}" for number in range(2, len(others) + 3)))
    return replace(rig, name=next(each for each in names if each not in others), rig=rig.name)


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
        self._moving = Moving(config.select.distance_m, moving=config.select.moving)
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
        pose = self._context.trajectory.pose(time_ns, located=False)
        if pose.origin != self._origin:
            self._origin = pose.origin
            self._moving.restart()
        found = self._moving.refusal(pose.position_m, pose.speed_m_s, can_be=can_be)
        if can_be and self._moving.was_unknown:
            self.unmoved_ns.add(time_ns)
        return found or ""


STOPS_M_S, STARTS_M_S = 0.2, 0.6
"""Slower than the first the rig stands, until it is faster than the second. Estimates of a rig that stands
are within 0.1 m/s; a queue that creeps is faster than both."""


class Moving:
    """Chooses moments of one sequence, in order of time.

    Of a stop the first moment is taken, and no other. Where no motion is known, every moment is taken.

    Args:
        distance_m: distance in a straight line between two that are taken; 0 for any.
        moving: take one of each stop; so it is with a distance, whatever positions drift.

    Attributes:
        was_unknown: whether the last moment was taken because nothing is known of it.
    """

    def __init__(self, distance_m: float = 0.0, *, moving: bool = False) -> None:
        self._distance_m = distance_m
        self._skips = moving or distance_m > 0
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
        is_apart = place is None or self._last_m is None or math.dist(place, self._last_m) >= self._distance_m
        if self._distance_m and not is_apart:
            return Reason.TOO_NEAR
        if can_be:
            self._last_m = place or self._last_m
        return None

    def restart(self) -> None:
        """Positions are in another frame from here on."""
        self._last_m = None

    def anew(self) -> Moving:
        """Another one, for the next sequence."""
        return Moving(self._distance_m, moving=self._skips)

    def _stands_now(self, speed_m_s: float | None) -> bool:
        if speed_m_s is None:
            return False
        return speed_m_s < (STARTS_M_S if self._stands else STOPS_M_S)
