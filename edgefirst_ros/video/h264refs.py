"""Which pictures of an H.264 stream a decoder keeps for reference, and whether one refers to a lost one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
