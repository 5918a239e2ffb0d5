"""Compressed packets kept by group of pictures, from where decoding can start, until nobody can want them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from edgefirst_ros.messages.camera import Codec
from edgefirst_ros.video.decoder import Entry


@dataclass(slots=True, eq=False)
class Unit:
    """One decodable access unit; ``number`` counts them in decode order over the whole topic.

    ``leading``, ``reference`` and ``back`` are as in ``step.Step``. ``damaged``: its bytes are not as the
    encoder made them, which is known once it has been fed.
    """

    number: int
    time_ns: int
    data: bytes
    gop: Gop
    leading: bool = False
    reference: bool = True
    back: int | None = 0
    damaged: bool = False

    @property
    def start(self) -> int | None:
        """Number of the group at which decoding must start, None if no start makes its picture right."""
        return None if self.back is None else self.gop.number - self.back


@dataclass(slots=True, eq=False)
class Gop:
    """A key frame or recovery point, and what follows it in decode order.

    Attributes:
        number: counts the topic's groups.
        codec: of all its units.
        reorders_unsaid: as ``DecodeOrder.unsaid``; the decoder must be told.
        linked: a decoder that was fed all of the group before may go on with this one.
        entry: where it begins; after a recovery point its first pictures are not right by themselves.
        primer: as in ``step.Step``.
        units: in decode order; the first is where decoding starts, unless some were dropped.
        since_ns: from then on pictures need nothing before this group, None if not known yet.
        dropped: so many units, from the first on, were fed and then let go.
        requests: so many of its pictures were asked for.
        dense: more of its pictures than the key frame are expected to be asked for.
    """

    number: int
    codec: Codec
    reorders_unsaid: bool
    linked: bool
    entry: Entry = "key"
    primer: bytes = b""
    since_ns: int | None = None
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

    def begin(
        self, codec: Codec, *, reorders_unsaid: bool, linked: bool, entry: Entry, primer: bytes
    ) -> None:
        """Start a group; the access unit that begins it is appended next."""
        before = self._gops[-1] if self._gops else None
        linked = linked and before is not None and before.reorders_unsaid == reorders_unsaid
        self._gops.append(Gop(self._begun, codec, reorders_unsaid, linked, entry, primer))
        self._begun += 1

    def append(self, time_ns: int, data: bytes, *, leading: bool, reference: bool, back: int | None) -> Unit:
        """Add an access unit to the newest group."""
        gop = self._gops[-1]
        unit = Unit(self._units, time_ns, data, gop, leading, reference, back)
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
        """Let go of every group that no frame after ``time_ns`` needs."""
        enough = [gop.number for gop in self._gops if gop.since_ns is not None and gop.since_ns <= time_ns]
        while enough and self._gops[0].number < enough[-1]:
            gop = self._gops.popleft()
            self.kept_bytes -= sum(len(unit.data) for unit in gop.units)

    def drop(self, last: Unit) -> None:
        """Let go of the oldest group's units up to ``last``; decoding cannot start in that group any more."""
        gop = self._gops[0]
        count = min(len(gop.units), max(0, last.number + 1 - gop.units[0].number)) if gop.units else 0
        self.kept_bytes -= sum(len(unit.data) for unit in gop.units[:count])
        del gop.units[:count]
        gop.dropped += count
