"""Cameras beside the reference, for formats with one camera a sample: the frames and companions of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from edgefirst_ros.model.sample import SequenceInfo
from edgefirst_ros.model.sensors import ALIVE_S
from edgefirst_ros.model.untrusted import safe_name
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.timing.align import Aligned, Aligner, PairingRule, Selection

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
