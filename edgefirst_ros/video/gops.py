"""Compressed packets kept by group of pictures, from its key frame on, until nobody can want them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from edgefirst_ros.messages.camera import Codec


@dataclass(slots=True, eq=False)
class Unit:
    """One decodable access unit; ``number`` counts them in decode order over the whole topic."""

    number: int
    time_ns: int
    data: bytes
    leading: bool
    gop: Gop


@dataclass(slots=True, eq=False)
class Gop:
    """A key frame and what follows it in decode order.

    Attributes:
        number: counts the topic's groups.
        codec: of all its units.
        reorders_unsaid: as ``DecodeOrder.unsaid``; the decoder must be told.
        linked: a decoder that was fed all of the group before may go on with this one.
        units: in decode order; the first is the key frame, unless some were dropped.
        dropped: so many units, from the key frame on, were fed and then let go.
        requests: so many of its pictures were asked for.
        dense: more of its pictures than the key frame are expected to be asked for.
    """

    number: int
    codec: Codec
    reorders_unsaid: bool
    linked: bool
    units: list[Unit] = field(default_factory=list)
    dropped: int = 0
    requests: int = 0
    dense: bool = False


class Gops:
    """The groups of one topic that may still be wanted."""

    def __init__(self) -> None:
        self._gops: deque[Gop] = deque()
        self._units = 0
        self._begun = 0
        self.kept_bytes = 0

    @property
    def first(self) -> Gop | None:
        """The oldest group kept."""
        return self._gops[0] if self._gops else None

    def begin(self, codec: Codec, *, reorders_unsaid: bool, linked: bool) -> None:
        """Start a group; its key frame is appended next."""
        before = self._gops[-1] if self._gops else None
        linked = linked and before is not None and before.reorders_unsaid == reorders_unsaid
        self._gops.append(Gop(self._begun, codec, reorders_unsaid, linked))
        self._begun += 1

    def append(self, time_ns: int, data: bytes, *, leading: bool) -> Unit:
        """Add an access unit to the newest group."""
        gop = self._gops[-1]
        unit = Unit(self._units, time_ns, data, leading, gop)
        self._units += 1
        gop.units.append(unit)
        self.kept_bytes += len(data)
        return unit

    def numbered(self, number: int) -> Gop | None:
        """The group of that number, None if it is no longer kept or not yet begun."""
        if not self._gops or not 0 <= number - self._gops[0].number < len(self._gops):
            return None
        return self._gops[number - self._gops[0].number]

    def forget(self, time_ns: int) -> None:
        """Let go of every group that no frame after ``time_ns`` needs.

        Frames after a key frame need nothing before it, and frames before it are all earlier.
        """
        while len(self._gops) > 1 and self._gops[1].units and self._gops[1].units[0].time_ns <= time_ns:
            gop = self._gops.popleft()
            self.kept_bytes -= sum(len(unit.data) for unit in gop.units)

    def drop(self, last: Unit) -> None:
        """Let go of the oldest group's units up to ``last``; decoding cannot start in that group any more."""
        gop = self._gops[0]
        count = min(len(gop.units), max(0, last.number + 1 - gop.units[0].number)) if gop.units else 0
        self.kept_bytes -= sum(len(unit.data) for unit in gop.units[:count])
        del gop.units[:count]
        gop.dropped += count
