"""Compressed access units in decode order and by group, and what to feed the decoder to reach a picture."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.continuity import Arrival, Assessment, DisplayOrder
from edgefirst_ros.video.headers import H264_SLICE, H264_SPS, H265_SPS, NalUnit, h264_slice_type, is_slice
from edgefirst_ros.video.parameters import ParameterSets, first_header, sequence_set

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
        leading: as in ``continuity.Assessment``, like ``reference``, ``back`` and ``order``.
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
        primer: as in ``continuity.Assessment``.
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

    def begin(self, codec: Codec, found: Assessment, order: DecodeOrder) -> None:
        """Start a group; the access unit that begins it is appended next."""
        before, hidden = self._gops[-1] if self._gops else None, order.hidden_reorder
        linked = found.linked and before is not None and before.hidden_reorder == hidden
        kind: StartKind = "key" if found.key else "reordered point" if order.reorders else "point"
        self._gops.append(Gop(self._begun, codec, hidden, linked, kind, found.primer))
        self._begun += 1

    def append(self, time_ns: int, data: bytes, found: Assessment) -> AccessUnit:
        """Add an access unit to the newest group."""
        gop = self._gops[-1]
        place = found.leading, found.reference, found.back, found.order
        unit = AccessUnit(self._units, time_ns, found.prefix + data, gop, *place)
        start = None if unit.start is None else self.numbered(unit.start)
        if start is not None and start.since_ns is None:
            start.since_ns = time_ns
        self._units += 1
        gop.units.append(unit)
        self.kept_bytes += len(unit.data)
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


_WHOLE = 4
"""If this many first packets are whole pictures, the stream does not send parts of pictures."""
_BIDIRECTIONAL = frozenset({1, 6})


class DecodeOrder:
    """Puts packets into decode order.

    Where display order is decode order, packets are sorted by time, so disorder within the look-ahead has no
    effect. A stream that reorders pictures (its sequence parameter set says so or, if an H.264 one says
    nothing, a B slice was seen) carries display times. Then the order of arrival is taken as decode order,
    and disorder shows as loss.

    Attributes:
        reorders: the stream reorders pictures.
        hidden_reorder: it does although its parameters do not say so.
        may_have_fields: pictures of it may be coded as two fields.
        waiting: packets that a later one may precede.
    """

    def __init__(self) -> None:
        self.reorders = False
        self.hidden_reorder = False
        self.may_have_fields = False
        self._silent = False
        self._last_set: tuple[str, bytes] | None = None
        self.waiting: list[Arrival] = []
        self._last_ns: int | None = None
        self._in_parts = False
        self._count = 0

    def learns_from(self, codec: Codec, units: Sequence[NalUnit]) -> bool:
        """Whether a packet, by the result of ``headers.head``, may change what is known of the order."""
        kind = H264_SPS if codec == "h264" else H265_SPS
        is_open = self._silent and not self.reorders
        return is_open or any(u.kind == kind and (codec, u.data) != self._last_set for u in units)

    def push(self, arrival: Arrival) -> bool:
        """Take a packet; False if it came too late and counts as lost."""
        self._learn(arrival)
        self._count += 1
        if self.reorders:
            self.waiting.append(arrival)
            return True
        if self._last_ns is not None and arrival.time_ns < self._last_ns:
            return False
        if not self.waiting or arrival.time_ns >= self.waiting[-1].time_ns:
            self.waiting.append(arrival)
        else:
            insort(self.waiting, arrival, key=lambda other: other.time_ns)
        return True

    def join(self, time_ns: int, packet: VideoPacket) -> bool:
        """Append a further part to the waiting picture of that time; False if none waits."""
        for index, arrival in enumerate(self.waiting):
            if (
                arrival.time_ns == time_ns
                and arrival.units
                and is_slice(packet.codec, arrival.units[-1].kind)
            ):
                whole = replace(arrival.packet, data=arrival.packet.data + packet.data)
                self.waiting[index] = arrival._replace(packet=whole)
                self._in_parts = True
                return True
        return False

    @property
    def _may_grow(self) -> bool:
        """Whether, judging by the first pictures, a further part of the newest one may come."""
        return self._in_parts or self._count <= _WHOLE

    def settle(self, horizon_ns: int | None) -> list[Arrival]:
        """The packets that no later one can precede, in decode order.

        Args:
            horizon_ns: everything up to this time has arrived; None: everything has.
        """
        if self.reorders or horizon_ns is None:
            settled, self.waiting = self.waiting, []
            if settled and horizon_ns is not None and settled[-1].time_ns > horizon_ns and self._may_grow:
                self.waiting.append(settled.pop())
        elif not self.waiting or self.waiting[0].time_ns > horizon_ns:
            return []
        else:
            count = bisect_right(self.waiting, horizon_ns, key=lambda arrival: arrival.time_ns)
            settled, self.waiting = self.waiting[:count], self.waiting[count:]
        if settled:
            self._last_ns = settled[-1].time_ns
        return settled

    def _learn(self, arrival: Arrival) -> None:
        codec = arrival.packet.codec
        for unit in arrival.units:
            if unit.kind == (H264_SPS if codec == "h264" else H265_SPS):
                self._learn_set(codec, unit.data)
        last = arrival.units[-1] if arrival.units else None
        if self._silent and codec == "h264" and last is not None and last.kind == H264_SLICE:
            self.hidden_reorder = self.hidden_reorder or h264_slice_type(last.data) in _BIDIRECTIONAL
        self.reorders = self.reorders or self.hidden_reorder

    def _learn_set(self, codec: Codec, data: bytes) -> None:
        if self._last_set == (codec, data):
            return
        self._last_set = codec, data
        try:
            found = sequence_set(codec, data)
        except DecodeError:
            return
        self.may_have_fields = self.may_have_fields or not found.frames_only
        self._silent = found.reorder is None
        self.reorders = self.reorders or bool(found.reorder)


class DisplayTimes:
    """Gives pictures times in order of display, where an encoder stamps packets in order of decoding.

    What is decoded from one picture that follows all before it on display until the next such one is a group.
    If its pictures are shown in another order, but stamped in that of decoding, its stamps change places.
    Once a group is stamped as shown, none waits for its end any more.
    """

    def __init__(self) -> None:
        self._sets = ParameterSets("h264")
        self._display = DisplayOrder()
        self._group: list[tuple[Arrival, int | None]] = []
        self._as_shown = False

    def place(self, arrivals: Iterable[Arrival], due_ns: int, *, reorders: bool) -> tuple[list[Arrival], int]:
        """Those in order of decoding whose time is certain, and how many of them got another.

        Args:
            arrivals: the next in that order.
            due_ns: groups that begin up to then do not wait for their end.
            reorders: the stream may be shown in another order than it is decoded in.
        """
        settled: list[Arrival] = []
        moved = 0
        for arrival in arrivals:
            place = self._place(arrival)
            known = [at for _, at in self._group if at is not None]
            if place is not None and known and place > max(known):
                moved += self._close(settled)
            self._group.append((arrival, place))
        waits = reorders and not self._as_shown
        if self._group and not (waits and self._group[0][0].time_ns > due_ns):
            moved += self._close(settled)
        return settled, moved

    def _place(self, arrival: Arrival) -> int | None:
        codec = arrival.packet.codec
        if codec != self._sets.codec:
            self._sets = ParameterSets(codec)
        self._sets.add_all(arrival.units)
        header = first_header(arrival.units, self._sets)
        return None if header is None else self._display.place(header, anew=header.idr)

    def _close(self, settled: list[Arrival]) -> int:
        """End the group, and say how many of its times changed."""
        group, self._group = self._group, []
        shown = sorted((place, at) for at, (_, place) in enumerate(group) if place is not None)
        ats = [at for _, at in shown]
        times_ns = [group[at][0].time_ns for at in sorted(ats)]
        if ats == sorted(ats):
            times_ns = []
        elif times_ns != sorted(times_ns):
            self._as_shown, times_ns = True, []
        elif shown[-1][0] - shown[0][0] >= 4 * len(shown):
            times_ns = []  # no neighbours on display: a key frame between them is lost
        new_ns = dict(zip(ats, times_ns, strict=False))
        settled += [each._replace(time_ns=new_ns.get(at, each.time_ns)) for at, (each, _) in enumerate(group)]
        return sum(time_ns != group[at][0].time_ns for at, time_ns in new_ns.items())
