"""Compressed access units by group of pictures, and what to feed the decoder next to reach a picture."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from edgefirst_ros.messages.camera import Codec

StartKind = Literal["key", "point", "reordered point"]
"""A key frame, a recovery point, or a recovery point of a stream that reorders pictures.

In the last, some pictures that nobody needs refer past the recovery point. A decoder set to refuse damage
refuses them and, with several threads, whatever follows.
"""


@dataclass(slots=True, eq=False)
class AccessUnit:
    """One decodable access unit.

    Attributes:
        number: counts the topic's access units in decode order.
        leading: as in ``assessment.Assessment``, like ``reference``, ``back`` and ``order``.
        doubtful: nothing vouches for its bytes, or some may be missing.
        damaged: its bytes were changed since the encoder wrote them; known once it was fed.
        start: number of the group at which decoding must start, None if no start makes its picture correct.
    """

    number: int
    time_ns: int
    data: bytes
    gop: Gop
    leading: bool = False
    reference: bool = True
    back: int | None = 0
    order: int | None = None
    doubtful: bool = True
    damaged: bool = False
    start: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.start = None if self.back is None else self.gop.number - self.back

    def precedes(self, later: AccessUnit) -> bool:
        """Whether it is shown before a unit that is decoded later."""
        return self.order is None or later.order is None or self.order < later.order


@dataclass(slots=True, eq=False)
class Gop:
    """A key frame or recovery point, and what follows it in decode order.

    Attributes:
        number: counts the topic's groups.
        codec: of all its units.
        hidden_reorder: as ``DecodeOrder.hidden_reorder``.
        linked: a decoder that was fed all of the group before may go on with this one.
        start_kind: what it begins with.
        primer: as in ``assessment.Assessment``.
        units: in decode order; the first is where decoding starts, unless some were dropped.
        since_ns: from then on pictures need nothing before this group, None if not known yet.
        dropped: how many units, from the first on, were fed and then deleted.
        requests: how many of its pictures were requested.
        dense: more of its pictures than the key frame are expected to be requested.
    """

    number: int
    codec: Codec
    hidden_reorder: bool
    linked: bool
    start_kind: StartKind = "key"
    primer: bytes = b""
    since_ns: int | None = None
    units: list[AccessUnit] = field(default_factory=list)
    dropped: int = 0
    requests: int = 0
    dense: bool = False


class Gops:
    """The groups of one topic that may still be needed."""

    def __init__(self) -> None:
        self._gops: deque[Gop] = deque()
        self._units = 0
        self._begun = 0
        self.kept_bytes = 0

    @property
    def first(self) -> Gop | None:
        """The oldest group kept."""
        return self._gops[0] if self._gops else None

    def begin(
        self, codec: Codec, *, hidden_reorder: bool, linked: bool, start_kind: StartKind, primer: bytes
    ) -> None:
        """Start a group; the access unit that begins it is appended next."""
        before = self._gops[-1] if self._gops else None
        linked = linked and before is not None and before.hidden_reorder == hidden_reorder
        self._gops.append(Gop(self._begun, codec, hidden_reorder, linked, start_kind, primer))
        self._begun += 1

    def append(
        self,
        time_ns: int,
        data: bytes,
        *,
        leading: bool,
        reference: bool,
        back: int | None,
        order: int | None,
        doubtful: bool,
    ) -> AccessUnit:
        """Add an access unit to the newest group."""
        gop = self._gops[-1]
        unit = AccessUnit(self._units, time_ns, data, gop, leading, reference, back, order, doubtful)
        start = None if unit.start is None else self.numbered(unit.start)
        if start is not None and start.since_ns is None:
            start.since_ns = time_ns
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
        """Delete every group that no frame after ``time_ns`` needs."""
        enough = [gop.number for gop in self._gops if gop.since_ns is not None and gop.since_ns <= time_ns]
        while enough and self._gops[0].number < enough[-1]:
            gop = self._gops.popleft()
            self.kept_bytes -= sum(len(unit.data) for unit in gop.units)

    def drop(self, last: AccessUnit) -> None:
        """Delete the oldest group's units up to ``last``; decoding cannot start in that group any more."""
        gop = self._gops[0]
        count = min(len(gop.units), max(0, last.number + 1 - gop.units[0].number)) if gop.units else 0
        self.kept_bytes -= sum(len(unit.data) for unit in gop.units[:count])
        del gop.units[:count]
        gop.dropped += count


class Playback:
    """What the decoder was fed since it was last drained: from a key frame on, without a gap.

    Attributes:
        first: the unit fed first, None if the decoder is empty.
        last: the unit fed last.
    """

    def __init__(self, gops: Gops) -> None:
        self._gops = gops
        self.first: AccessUnit | None = None
        self.last: AccessUnit | None = None

    def feed(self, unit: AccessUnit) -> None:
        """Note that a unit is being fed."""
        self.first = self.first or unit
        self.last = unit

    def drain(self) -> None:
        """Note that the decoder was drained."""
        self.first = self.last = None

    def has_fed(self, unit: AccessUnit) -> bool:
        """Whether the decoder was fed a unit since it was drained, and all that it depends on."""
        if self.first is None or self.last is None:
            return False
        if unit.start is None or unit.start < self.first.gop.number:
            return False
        return self.first.number <= unit.number <= self.last.number

    def start(self, target: AccessUnit) -> AccessUnit | None:
        """The unit to start at to reach another, None if that is no longer kept."""
        if target.start is None:
            return None
        way = [self._gops.numbered(number) for number in range(target.start, target.gop.number + 1)]
        if not all(gop is not None and (gop.linked or place == 0) for place, gop in enumerate(way)):
            return None
        return None if way[0] is None or way[0].dropped else way[0].units[0]

    def reaches(self, target: AccessUnit) -> bool:
        """Whether feeding on from where the decoder stands reaches a unit, decoding no group in between."""
        if self.first is None or self.last is None or self.last.number >= target.number:
            return False
        start = target.start
        if start is None or self.first.gop.number > start:
            return False
        following = self.following()
        return following is not None and following.gop.number >= start

    def following(self) -> AccessUnit | None:
        """The unit after the one fed last, None if unknown yet or not to be reached without a new start."""
        if self.last is None:
            return None
        gop = self.last.gop
        place = self.last.number + 1 - gop.units[0].number if gop.units else 0
        if place < len(gop.units):
            return gop.units[place]
        successor = self._gops.numbered(gop.number + 1)
        if successor is None or not successor.units or not successor.linked:
            return None
        return successor.units[0]
