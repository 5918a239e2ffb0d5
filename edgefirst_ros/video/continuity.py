"""Which pictures are whole: follows the headers in decode order and finds what a lost one took along."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import Codec
from edgefirst_ros.video import h264, h265
from edgefirst_ros.video.annexb import (
    H264_PPS,
    H264_SPS,
    H265_PPS,
    H265_SPS,
    NalUnit,
    is_key_head,
    is_parameter_set,
    is_slice,
)

BEFORE_KEY = "before the first key frame"
AFTER_LOSS = "after a lost frame"
NO_PICTURE = "no picture in the packet"

_LONG_START = b"\x00\x00\x00\x01"


@dataclass(frozen=True, slots=True)
class Step:
    """What the next access unit in decode order turned out to be.

    Attributes:
        reason: why its picture cannot be trusted, None if it can.
        picture: it holds one at all.
        decodable: a decoder that was fed the key frame and everything decodable since may be fed this.
        key: decoding can start here.
        linked: for a key frame, that its predecessor was whole and a decoder may simply go on.
        leading: builds on pictures before its own key frame.
        poc: display order modulo ``poc_modulus``, None if the stream does not number it simply.
        poc_modulus: where ``poc`` wraps.
        prefix: parameter sets that the decoder must be given before it.
    """

    reason: str | None
    picture: bool = True
    decodable: bool = False
    key: bool = False
    linked: bool = False
    leading: bool = False
    poc: int | None = None
    poc_modulus: int = 1
    prefix: bytes = b""


class _Follower(Protocol):
    """Follows one codec's slice headers in decode order."""

    reason: str | None
    """Why pictures cannot be trusted until the next key frame, None while they can."""

    def add_sequence(self, data: bytes) -> int: ...

    def add_picture(self, data: bytes) -> int: ...

    def step(self, unit: NalUnit, time_ns: int, *, key: bool) -> Step: ...


class _H264Follower(h264.ParameterSets):
    """Counts frame_num: every reference picture raises it by one, so a lost one leaves a gap (clause 7.4.3).

    A picture that resets the count by a memory management operation looks like a gap, which costs the
    pictures up to the next key frame, and never shows a damaged one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reason: str | None = BEFORE_KEY
        self._expected = -1
        self._key_ns = 0
        self._leading_reason: str | None = None

    def step(self, unit: NalUnit, time_ns: int, *, key: bool) -> Step:
        header = self.slice_header(unit)
        whole = self.reason is None and (header.idr or header.frame_num == self._expected)
        self._expected = (header.frame_num + header.reference) % header.frame_num_modulus
        step = Step(None, decodable=True, key=key, poc=header.poc, poc_modulus=header.poc_modulus)
        if key:
            self._leading_reason = None if whole else self.reason or AFTER_LOSS
            self.reason = None
            self._key_ns = time_ns
            return replace(step, linked=whole)
        if not whole:
            self.reason = self.reason or AFTER_LOSS
            return replace(step, reason=self.reason, decodable=False)
        # Only an open GOP's pictures are shown before the key frame that they follow.
        leading = time_ns < self._key_ns
        return replace(step, reason=self._leading_reason if leading else None, leading=leading)


class _H265Follower(h265.ParameterSets):
    """Keeps the reference pictures as a decoder would: every slice names those it needs (clause 8.3.2)."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: str | None = BEFORE_KEY
        self._leading_reason: str | None = None
        self._anchor = 0
        self._present: set[int] = set()

    def step(self, unit: NalUnit, time_ns: int, *, key: bool) -> Step:
        del time_ns
        header = self.slice_header(unit)
        fresh = key and (header.kind != h265.CRA_KIND or self.reason is not None)
        poc = header.poc if fresh else h265.nearest(header.poc, self._anchor, header.poc_modulus)
        needed, kept = h265.references(header, poc)
        linked = key and self.reason is None and not header.discards
        leading = header.kind in h265.RASL_KINDS
        if key:
            self._leading_reason = None if linked else self.reason or AFTER_LOSS
            self.reason = None
        elif not needed <= self._present:
            if leading:
                self._leading_reason = self._leading_reason or AFTER_LOSS
            else:
                self.reason = self.reason or AFTER_LOSS
        reason = self.reason or (self._leading_reason if leading else None)
        self._present = set() if fresh else self._present & kept
        if reason is None:
            self._present.add(poc)
        if header.anchor:
            self._anchor = poc
        return Step(
            reason,
            decodable=reason is None,
            key=key,
            linked=linked,
            leading=leading,
            poc=header.poc,
            poc_modulus=header.poc_modulus,
        )


class Continuity:
    """Follows a topic's access units in decode order, across changes of parameters and of codec."""

    def __init__(self) -> None:
        self._codec: Codec | None = None
        self._follower: _Follower = _H264Follower()
        self._sets: dict[tuple[int, int], bytes] = {}
        self._loose: list[bytes] = []

    def step(self, codec: Codec, units: list[NalUnit], time_ns: int) -> Step:
        """Follow one access unit, as ``annexb.head`` took it apart."""
        if codec != self._codec:
            began = self._codec is not None
            self._codec = codec
            self._follower = _H264Follower() if codec == "h264" else _H265Follower()
            self._follower.reason = AFTER_LOSS if began else BEFORE_KEY
            self._sets = {}
        own = [unit for unit in units if is_parameter_set(codec, unit.kind)]
        for unit in own:
            self._take(codec, unit)
        if not units or not is_slice(codec, units[-1].kind):
            self._loose += [unit.data for unit in own]
            return Step(NO_PICTURE, picture=False)
        key = is_key_head(codec, units)
        prefix = self._prefix(codec, {unit.kind for unit in own}, key=key)
        self._loose = []
        try:
            return replace(self._follower.step(units[-1], time_ns, key=key), prefix=prefix)
        except DecodeError as error:
            reason = self._follower.reason or str(error)
            self._follower.reason = self._follower.reason or AFTER_LOSS
            return Step(reason, picture=False)

    def _take(self, codec: Codec, unit: NalUnit) -> None:
        sequence = unit.kind == (H264_SPS if codec == "h264" else H265_SPS)
        picture = unit.kind == (H264_PPS if codec == "h264" else H265_PPS)
        try:
            ident = 0
            if sequence:
                ident = self._follower.add_sequence(unit.data)
            elif picture:
                ident = self._follower.add_picture(unit.data)
        except DecodeError:
            return
        self._sets[unit.kind, ident] = unit.data

    def _prefix(self, codec: Codec, own: set[int], *, key: bool) -> bytes:
        needed = {H264_SPS, H264_PPS} if codec == "h264" else {H265_SPS, H265_PPS}
        known = [self._sets[name] for name in sorted(self._sets)]
        return b"".join(_LONG_START + data for data in (known if key and not needed <= own else self._loose))
