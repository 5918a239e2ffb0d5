"""Which pictures of H.264 are intact: follows frame_num, recovery points and the pictures kept.

Which pictures of an H.264 stream a decoder keeps for reference, and whether one refers to a lost one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video import h264, h264slices, h265slices
from edgefirst_ros.video.bitstream import EPOCH_BITS, Assessment, NalUnit, ParameterSets, RecoveryPoint
from edgefirst_ros.video.h264slices import B_SLICE, BOTTOM, FRAME, TOP, H264SliceHeader

_BOTH = TOP | BOTTOM


@dataclass(slots=True)
class _Kept:
    """A frame, or a pair of fields, kept for reference.

    Attributes:
        order: its place in display order, None if unknown.
        sound: it was decoded without loss.
        absent: it never came.
        marks: the fields that are still marked.
        long: its long-term index, None for a short-term reference.
    """

    frame_num: int
    order: int | None
    sound: bool
    absent: bool = False
    marks: int = _BOTH
    long: int | None = None


_LOST = _Kept(-1, None, sound=False)


class KeptPictures:
    """The decoded picture buffer by the marking process (clause 8.2.5), and lists of it (clause 8.2.4)."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._own_long: int | None = None
        """Long-term index that the picture being decoded gives itself."""

    def trust(self) -> None:
        """All that is kept is sound: decoding recovered."""
        for kept in self._kept:
            kept.sound = True

    @property
    def sound(self) -> bool:
        """Whether nothing kept was lost or refers to a lost picture."""
        return all(kept.sound for kept in self._kept)

    def skip(self, frame_num: int, count: int, header: H264SliceHeader) -> None:
        """Note that ``count`` reference pictures from ``frame_num`` on are missing."""
        for missing in range(max(0, count - header.kept), count):
            self._slide(header.kept)
            absent = (frame_num + missing) % header.frame_num_modulus
            self._kept.append(_Kept(absent, None, sound=False, absent=True))

    def suffice(self, headers: Iterable[H264SliceHeader], order: int | None) -> bool:
        """Whether every picture that these slices of one picture may refer to is sound."""
        return self.sound or all(self._suffice(header, order) for header in headers)

    def _suffice(self, header: H264SliceHeader, order: int | None) -> bool:
        lists = [number for number in (0, 1) if header.lists[number]]
        if header.field != FRAME:
            return not lists
        for number in lists:
            for place, kept in enumerate(self._list(header, number, order)):
                # Blocks without any data refer to the first entry, so no encoder has it be one left out.
                left_out = header.gaps and place > 0 and kept.absent
                if not (kept.sound or left_out):
                    return False
        return True

    def _list(self, header: H264SliceHeader, number: int, order: int | None) -> list[_Kept]:
        size, modulus = header.lists[number], header.frame_num_modulus
        frames = [kept for kept in self._kept if kept.marks == _BOTH]
        short = {self._number(kept, header): kept for kept in frames if kept.long is None}
        long = {kept.long: kept for kept in frames if kept.long is not None}
        last = [long[index] for index in sorted(long)]
        found = self._initial(short, number if header.kind == B_SLICE else None, order) + last
        if number and len(found) > 1 and found == self._initial(short, 0, order) + last:
            found[:2] = found[1::-1]
        found = found[:size]
        predicted = header.frame_num
        for place, (operation, operand) in enumerate(header.changes[number][:size]):
            if operation == 2:
                named = long.get(operand, _LOST)
            else:
                predicted = (predicted + (operand + 1) * (1 if operation else -1)) % modulus
                named = short.get(predicted - modulus if predicted > header.frame_num else predicted, _LOST)
            rest = [kept for kept in found[place:] if kept is not named]
            found = [*found[:place], named, *rest][:size]
        return found

    @staticmethod
    def _initial(short: dict[int, _Kept], number: int | None, order: int | None) -> list[_Kept]:
        latest_first = [short[at] for at in sorted(short, reverse=True)]
        if number is None:
            return latest_first
        if order is None or any(kept.order is None for kept in latest_first):
            # Where a lost picture would have been shown is unknown, so it may be any of the list.
            return sorted(latest_first, key=lambda kept: kept.sound)
        by_order = sorted(latest_first, key=lambda kept: kept.order or 0)
        before = [kept for kept in reversed(by_order) if (kept.order or 0) <= order]
        after = [kept for kept in by_order if (kept.order or 0) > order]
        return after + before if number else before + after

    @staticmethod
    def _number(kept: _Kept, header: H264SliceHeader) -> int:
        """FrameNumWrap: numbers above the current one are of the round before."""
        wrapped = kept.frame_num > header.frame_num
        return kept.frame_num - header.frame_num_modulus if wrapped else kept.frame_num

    def decoded(self, header: H264SliceHeader, order: int | None, *, sound: bool, second: bool) -> None:
        """Note a decoded reference picture; ``second``: it is the second field of the one before."""
        if header.idr:
            self._kept = []
        latest = self._kept[-1] if second and self._kept else None
        if header.marking is not None:
            for command in header.marking:
                self._command(header, *command)
        elif latest is None:
            self._slide(header.kept)
        if latest is not None:
            latest.marks |= header.field
            latest.sound = latest.sound and sound
            return
        frame_num = 0 if header.resets else header.frame_num
        self._kept = [kept for kept in self._kept if kept.long is not None or kept.frame_num != frame_num]
        long = 0 if header.long_term else self._own_long
        self._kept.append(_Kept(frame_num, order, sound, marks=header.field or _BOTH, long=long))
        self._own_long = None

    def _slide(self, most: int) -> None:
        while len(self._kept) >= most:
            oldest = next((kept for kept in self._kept if kept.long is None), None)
            if oldest is None:
                return
            self._kept.remove(oldest)

    def _command(self, header: H264SliceHeader, operation: int, first: int, second: int) -> None:
        """One memory management control operation (clause 8.2.5.4)."""
        if operation == 5:
            self._kept = []
        elif operation == 6:
            self._free(first)
            self._own_long = first
        elif operation == 4:
            self._kept = [kept for kept in self._kept if kept.long is None or kept.long < first]
        else:
            self._mark(header, operation, first, second)
        self._kept = [kept for kept in self._kept if kept.marks]

    def _mark(self, header: H264SliceHeader, operation: int, first: int, second: int) -> None:
        is_field = header.field != FRAME
        if operation == 2:
            # Long-term picture numbers of fields: 2 i + 1 of the same parity, 2 i of the other.
            index, fields = (first >> 1, self._parity(header, first)) if is_field else (first, _BOTH)
            for kept in self._kept:
                if kept.long == index:
                    kept.marks &= ~fields
            return
        number = header.frame_num - first - 1
        fields = _BOTH
        if is_field:
            number = 2 * header.frame_num + 1 - first - 1
            number, fields = number >> 1, self._parity(header, number)
        named = next((k for k in self._kept if k.long is None and self._number(k, header) == number), None)
        if named is None:
            return
        if operation == 1:
            named.marks &= ~fields
            return
        if named.marks == fields or not is_field:
            self._free(second)
            named.long = second
        else:
            # The other field follows by a command of its own; until then it stays a short-term one.
            twin = next((kept for kept in self._kept if kept.long == second), None)
            if twin is not None and twin.frame_num == named.frame_num:
                twin.marks |= fields
            else:
                self._free(second)
                self._kept.insert(0, replace(named, marks=fields, long=second))
            named.marks &= ~fields

    def _free(self, index: int) -> None:
        self._kept = [kept for kept in self._kept if kept.long != index]

    @staticmethod
    def _parity(header: H264SliceHeader, number: int) -> int:
        return header.field if number & 1 else _BOTH - header.field


REPEATED = "frame_num does not count up after some pictures"
OVERCOUNTED = "frame_num counts pictures that nothing refers to"

_NEVER_DUE = -1
_LATE = -1
_KEPT_STARTS = 4
"""Complete starts remembered: pictures shown before the newest may need the one before it."""
_OVERCOUNTS = 3
"""Pictures in a row counted without need that show an encoder's habit where display order does not."""
_NO_LEAP = 2
"""An empty decoder expects frame_num 0 or 1. At any other, or after another, it fills in what it takes for
lost; at those it would have nothing to refer to, and refuse the picture."""


@dataclass(slots=True)
class _StartPoint:
    time_ns: int
    key: bool
    due: int | None
    """frame_num of the reference picture that completes it, None once it is complete."""
    since_ns: int = 0
    """Pictures shown from then on are correct, once it is complete."""


class _DisplayOrder:
    """Counts pictures in display order, across the wraps and fresh starts of the stream's own count."""

    def __init__(self) -> None:
        self._epoch = 0
        self._anchor = 0

    def place(self, poc: int | None, modulus: int, *, anew: bool, anchors: bool) -> int | None:
        """The place of the next picture in decode order, None if ``poc`` is.

        Args:
            poc: its display order modulo ``modulus``.
            modulus: where that wraps.
            anew: everything before is shown before it.
            anchors: later ones count from it.
        """
        if anew:
            self._epoch += 1
            self._anchor = 0
        if poc is None:
            return None
        full = 0 if anew else h265slices.nearest(poc, self._anchor, modulus)
        if anchors:
            self._anchor = full
        return (self._epoch << EPOCH_BITS) + full


class _StartPoints:
    """Where decoding can start, since the last loss and in decode order: one point per group of pictures.

    A key frame is complete at once. A recovery point is complete when its last picture, known by its
    frame_num, was decoded (H.264 clause D.2.8). Until then, and for pictures shown before that one, decoding
    must start earlier.
    """

    def __init__(self) -> None:
        self._starts: list[_StartPoint] = []

    @property
    def any(self) -> bool:
        """Whether decoding can start anywhere."""
        return bool(self._starts)

    def lose(self) -> None:
        """Forget all points: a picture was lost, and no earlier start gives correct pictures any more."""
        self._starts.clear()

    def key(self, time_ns: int) -> None:
        """Add a key frame."""
        self._starts.append(_StartPoint(time_ns, key=True, due=None, since_ns=time_ns))
        self._prune()

    def gradual(self, time_ns: int, due: int) -> None:
        """Add a recovery point that the reference picture of frame_num ``due`` completes."""
        self._starts.append(_StartPoint(time_ns, key=False, due=due))

    def decoded(self, time_ns: int, frame_num: int) -> None:
        """Note a reference picture, which may complete recovery points."""
        for start in self._starts:
            if start.due == frame_num:
                start.due, start.since_ns = None, time_ns
        self._prune()

    def spoil(self) -> None:
        """A picture was lost: the points that are not complete never will be."""
        for start in self._starts:
            start.due = None if start.due is None else _NEVER_DUE

    def reach(self, time_ns: int) -> tuple[int, int] | None:
        """The start that makes a picture correct: how many groups back, and its time. None if none does."""
        for back, start in enumerate(reversed(self._starts)):
            if start.due is None and time_ns >= start.since_ns:
                return back, start.time_ns
        return None

    def is_leading(self, time_ns: int) -> bool:
        """Whether a picture is shown before the key frame that began its group."""
        return bool(self._starts) and self._starts[-1].key and time_ns < self._starts[-1].time_ns

    def _prune(self) -> None:
        complete = [place for place, start in enumerate(self._starts) if start.due is None]
        if len(complete) > _KEPT_STARTS:
            del self._starts[: complete[-_KEPT_STARTS]]


class H264Follower:
    """Counts frame_num, which each reference picture increments (clause 7.4.3), and the pictures kept.

    A gap in the count is a loss. What refers to a lost picture, or to one that does, cannot be trusted. A
    count that does not move, or moves at every picture, breaks the standard, but nothing is lost.

    Decoding starts at key frames and, in a stream without them, at recovery points. What follows a recovery
    point is decoded, but not trusted until the point is complete.
    """

    def __init__(self) -> None:
        self.sets = ParameterSets(h264.sequence_set, h264.picture_set)
        self.reason: str | None = Reason.BEFORE_KEY
        self.breach = ""
        self._starts = _StartPoints()
        self._earlier_reason: str | None = None
        """Why pictures shown before the start cannot be trusted, None if they can."""
        self._kept = KeptPictures()
        self._recovering = False
        self._latest: H264SliceHeader | None = None
        self._reference_num = -1
        """frame_num of the latest reference picture."""
        self._reference_orders: deque[int | None] = deque((None, None), maxlen=2)
        """Places in display order of the latest two, and of the latest picture."""
        self._latest_order: int | None = None
        self._counts_all: bool | None = None
        """Whether other pictures increment frame_num, too; None while that is not known."""
        self._overcounts = 0
        self._repeats: bool | None = None
        """Whether other pictures have the frame_num of the reference picture before, not the next one's."""
        self._order = _DisplayOrder()

    def lose(self, reason: str) -> None:
        """Note that an access unit is missing or unreadable."""
        self.reason = self.reason or reason
        self._starts.lose()

    def assess(
        self, slices: Sequence[NalUnit], time_ns: int, *, key: bool, gradual: RecoveryPoint | None
    ) -> Assessment:
        """Assess the next picture."""
        fields = h264slices.fields([h264slices.slice_header(unit, self.sets) for unit in slices])
        header = fields[0][0]
        second = self._latest is not None and h264slices.are_paired(self._latest, header)
        order = self._order.place(
            header.poc, header.poc_modulus, anew=header.idr or header.resets, anchors=header.reference
        )
        missing = 0 if header.idr or second else self._missing(header, order)
        found = Assessment(
            None,
            decodable=True,
            key=key,
            starts=key or gradual is not None,
            reference=header.reference,
            poc=header.poc,
            poc_modulus=header.poc_modulus,
            order=order,
            size=header.size,
        )
        if missing == _LATE:
            return found._replace(reason=self.reason or Reason.AFTER_LOSS, decodable=False)
        if missing:
            self._kept.skip(self._reference_num + 1, missing, header)
            if self._recovering or not header.gaps:
                # Which pictures the lost ones had removed is unknown.
                self.lose(Reason.AFTER_LOSS)
        if key:
            found, sound = self._key(found, time_ns), True
        else:
            suffice = all(self._kept.suffice(field, order) for field in fields)
            if gradual is not None:
                found = self._gradual(found, slices[0], header, time_ns, gradual)
            found, sound = self._other(found, header, time_ns, suffice=suffice)
        for place, field in enumerate(fields):
            if field[0].reference:
                self._kept.decoded(field[0], order, sound=sound, second=second or place > 0)
                self._reference_num = 0 if field[0].resets else field[0].frame_num
        if header.reference and not second:
            self._reference_orders.append(order)
        self._latest = None if second or len(fields) > 1 else header
        self._latest_order = order
        return found

    def _missing(self, header: H264SliceHeader, order: int | None) -> int:
        """How many reference pictures are missing before one, by frame_num; ``_LATE`` if itself is."""
        steps = (header.frame_num - self._reference_num) % header.frame_num_modulus
        if not header.reference and self._reference_num >= 0:
            if steps == 1:
                self._repeats = False
            elif steps == 0:
                # A picture that arrives behind the next reference picture looks the same.
                if self._repeats is None and not self._is_overtaken(order):
                    self._repeats = True
                if not self._repeats:
                    return _LATE
                self.breach = REPEATED
                return 0
        latest = self._latest
        if latest is not None and not latest.reference:
            counts = (header.frame_num - latest.frame_num) % header.frame_num_modulus == 1
            if steps == 1:
                self._counts_all = False
            elif counts and self._counts_all is None:
                # A reference picture that is lost right behind the first other one looks the same.
                self._overcounts += 1
                sure = self._overcounts >= _OVERCOUNTS or self._is_next(header, order)
                self._counts_all = True if sure else None
            if counts and self._counts_all:
                self.breach = OVERCOUNTED
                return 0
        return (steps - 1) % header.frame_num_modulus

    def _is_overtaken(self, order: int | None) -> bool:
        """Whether display order suggests that a picture belongs before the latest reference picture."""
        before, reference = self._reference_orders
        if order is None or before is None or reference is None:
            return False
        return order < before < reference

    def _is_next(self, header: H264SliceHeader, order: int | None) -> bool:
        """Whether display order shows that no picture is missing between the latest one and this one."""
        before, reference = self._reference_orders
        latest = self._latest_order
        if order is None or latest is None or reference is None:
            return False
        if latest > reference:
            return order - latest == latest - reference
        if header.reference:
            return before is not None and order - reference == reference - before
        # No encoder codes another one between those that are shown just before and after the same one.
        return order < reference or order - reference == reference - latest

    def _key(self, found: Assessment, time_ns: int) -> Assessment:
        whole = self._kept.sound and self.reason is None
        self._earlier_reason = None if whole else self.reason or Reason.AFTER_LOSS
        if not whole:
            self._starts.lose()
            self._kept.trust()
        self.reason = None
        self._recovering = False
        self._starts.key(time_ns)
        return found._replace(linked=whole, start_ns=time_ns)

    def _gradual(
        self, found: Assessment, unit: NalUnit, header: H264SliceHeader, time_ns: int, point: RecoveryPoint
    ) -> Assessment:
        if not self._recovering and not self._kept.sound:
            self.lose(Reason.AFTER_LOSS)
        linked = self._starts.any
        self._recovering = self._recovering or not linked
        self._starts.gradual(time_ns, (header.frame_num + point.frames) % header.frame_num_modulus)
        primer = h264slices.renumbered(unit, header) if header.frame_num < _NO_LEAP else b""
        return found._replace(linked=linked, primer=primer)

    def _other(
        self, found: Assessment, header: H264SliceHeader, time_ns: int, *, suffice: bool
    ) -> tuple[Assessment, bool]:
        """Assess a picture that is no key frame; also whether pictures that refer to it may be trusted."""
        if not self._starts.any:
            return found._replace(reason=self.reason or Reason.AFTER_LOSS, decodable=False), False
        if header.reference and (suffice or self._recovering):
            self._starts.decoded(time_ns, header.frame_num)
        reach = self._starts.reach(time_ns)
        leading = self._starts.is_leading(time_ns)
        if reach is None:
            # Nothing shown after a start refers to what leads up to it, unless that itself lacks a picture.
            reason = self.reason or self._earlier_reason or Reason.AFTER_LOSS
            return found._replace(reason=reason, leading=leading, back=None), leading or suffice
        back, start_ns = reach
        found = found._replace(leading=leading, back=back, start_ns=start_ns)
        if self._recovering:
            self._recovering = False
            self._kept.trust()
        elif not suffice:
            self._starts.spoil()
            return found._replace(reason=Reason.AFTER_LOSS, decodable=False), False
        if self.reason is not None:
            self.reason, self._earlier_reason = None, self.reason
        return found, True
