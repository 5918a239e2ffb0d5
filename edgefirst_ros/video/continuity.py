"""Which pictures of a stream are intact, and where decoding must start for them, by their headers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.headers import (
    H264_PPS,
    H264_SPS,
    H265_PPS,
    H265_SPS,
    NalUnit,
    RecoveryPoint,
    gradual_start,
    is_key_head,
    is_slice,
    slice_heads,
)
from edgefirst_ros.video.loss import MISCOUNTED, FrameNumbers, SliceLayouts, Step
from edgefirst_ros.video.parameters import (
    CRA_KIND,
    FRAME,
    IDR_KINDS,
    RASL_KINDS,
    ParameterSets,
    SliceHeader,
    are_paired,
    first_header,
    h264_fields,
    h265_slices,
    is_of_other_codec,
    renumbered,
)

_NOT_BEGUN = frozenset({Reason.BEFORE_KEY, Reason.NO_SETS})
_LONG_START = b"\x00\x00\x00\x01"
_EPOCH_BITS = 40
"""More than any display order has within a stretch that counts it from one picture."""
_KEPT_STARTS = 4
"""Complete starts remembered: pictures shown before the newest may need the one before it."""
_NO_LEAP = 2
"""An empty decoder expects frame_num 0 or 1. At any other, or after another, it fills in what it takes for
lost; at those it would have nothing to refer to, and refuse the picture."""


class Arrival(NamedTuple):
    """A packet, and the result of ``headers.head``."""

    time_ns: int
    packet: VideoPacket
    units: list[NalUnit]


class Assessment(NamedTuple):
    """What the headers say of one access unit.

    Attributes:
        reason: why its picture cannot be trusted, None if it can.
        picture: it contains a picture.
        decodable: a decoder that was fed the last start and everything decodable since may be fed this.
        key: decoding can start here, and its picture is correct at once.
        starts: decoding can start here, if only gradually: a group of pictures begins.
        linked: where a group begins, that a decoder fed the group before may simply go on.
        leading: shown before its own group's key frame, and refers to pictures before that.
        reference: later pictures refer to it.
        back: decoding must start this many groups before its own for its picture to be correct; None if no
            start makes it so.
        start_ns: time of the access unit where decoding must start, None for that of the last key frame.
        poc: display order modulo ``poc_modulus``, None if the stream does not number it simply.
        poc_modulus: where ``poc`` wraps.
        order: its place in display order, None if ``poc`` is.
        size: width and height of the picture in pixels, None if there is none.
        prefix: parameter sets that the decoder must be given before it.
        primer: what a decoder that starts here must be fed first to have pictures to refer to, if anything.
    """

    reason: str | None
    picture: bool = True
    decodable: bool = False
    key: bool = False
    starts: bool = False
    linked: bool = False
    leading: bool = False
    reference: bool = True
    back: int | None = 0
    start_ns: int | None = None
    poc: int | None = None
    poc_modulus: int = 1
    order: int | None = None
    size: tuple[int, int] | None = None
    prefix: bytes = b""
    primer: bytes = b""


class DisplayOrder:
    """Counts pictures in display order, across the wraps and fresh starts of the stream's own count."""

    def __init__(self) -> None:
        self._epoch = self._anchor = 0

    def place(self, header: SliceHeader, *, anew: bool) -> int | None:
        """The place of the next picture in decode order; ``anew``: everything before is shown before it."""
        if anew:
            self._epoch += 1
            self._anchor = 0
        if header.poc is None:
            return None
        ahead = (header.poc - self._anchor) % header.poc_modulus
        full = self._anchor + (ahead if ahead < header.poc_modulus // 2 else ahead - header.poc_modulus)
        if anew:
            full = header.poc
        if header.anchor:
            self._anchor = full
        return (self._epoch << _EPOCH_BITS) + full


@dataclass(slots=True)
class _Start:
    time_ns: int
    key: bool
    due: int | None
    """frame_num of the reference picture that completes it, None once it is complete."""
    since_ns: int = 0
    """Pictures shown from then on are correct, once it is complete."""


class _Starts:
    """Where decoding can start, since the last loss and in decode order: one start per group of pictures.

    A key frame is complete at once. A recovery point is complete when its last picture, known by its
    frame_num, was decoded (H.264 clause D.2.8). Until then, and for pictures shown before that one, decoding
    must start earlier.
    """

    def __init__(self) -> None:
        self.known: list[_Start] = []

    def key(self, time_ns: int) -> None:
        """Add a key frame."""
        self.known.append(_Start(time_ns, key=True, due=None, since_ns=time_ns))
        self._prune()

    def decoded(self, time_ns: int, frame_num: int) -> None:
        """Note a reference picture, which may complete recovery points."""
        for start in self.known:
            if start.due == frame_num:
                start.due, start.since_ns = None, time_ns
        self._prune()

    def reach(self, time_ns: int) -> tuple[int, int] | None:
        """The start that makes a picture correct: how many groups back, and its time. None if none does."""
        for back, start in enumerate(reversed(self.known)):
            if start.due is None and time_ns >= start.since_ns:
                return back, start.time_ns
        return None

    def is_leading(self, time_ns: int) -> bool:
        """Whether a picture is shown before the key frame that began its group."""
        return bool(self.known) and self.known[-1].key and time_ns < self.known[-1].time_ns

    def _prune(self) -> None:
        complete = [place for place, start in enumerate(self.known) if start.due is None]
        if len(complete) > _KEPT_STARTS:
            del self.known[: complete[-_KEPT_STARTS]]


class _Follower:
    """Follows the pictures of one codec.

    After a loss nothing is trusted until decoding can start again.
    """

    def __init__(self, codec: Codec, reason: str) -> None:
        self.sets = ParameterSets(codec)
        self.reason: str | None = reason
        """Why pictures cannot be trusted, None while they can."""
        self.numbers = FrameNumbers()
        self._before_start: str | None = None
        """Why pictures shown before the latest start cannot be trusted, None if they can."""
        self._starts = _Starts()
        self._order = DisplayOrder()
        self._layouts = SliceLayouts()
        self._latest: SliceHeader | None = None

    def lose(self) -> None:
        """Note that an access unit is missing or unreadable."""
        self.reason = self.reason or Reason.AFTER_LOSS
        self._starts.known.clear()

    def h264(
        self, slices: Sequence[NalUnit], time_ns: int, *, key: bool, gradual: RecoveryPoint | None
    ) -> Assessment:
        """Assess the next picture of H.264; ``gradual`` is its recovery point if it has one."""
        fields = h264_fields(slices, self.sets)
        header = fields[0][0]
        second = self._latest is not None and are_paired(self._latest, header)
        self._latest = None if second or len(fields) > 1 else header
        found = self._described(header, key=key, starts=key or gradual is not None, anew=header.idr)
        step = self.numbers.step(header)
        if step is Step.LATE:
            return found._replace(reason=self.reason or Reason.AFTER_LOSS, decodable=False)
        if step is Step.LOSS:
            self.lose()
        if self._layouts.is_cut((each for field in fields for each in field), key=key):
            return self._cut(found)
        if key:
            whole = self.reason is None
            self._before_start, self.reason = self.reason, None
            self._starts.key(time_ns)
            return found._replace(linked=whole, start_ns=time_ns)
        if gradual is not None:
            found = found._replace(linked=bool(self._starts.known))
            due = (header.frame_num + gradual.frames) % header.frame_num_modulus
            self._starts.known.append(_Start(time_ns, key=False, due=due))
            if header.frame_num < _NO_LEAP:
                found = found._replace(primer=renumbered(slices[0], header))
        return self._reached(found, header, time_ns)

    def h265(self, slices: Sequence[NalUnit], *, key: bool) -> Assessment:
        """Assess the next picture of H.265."""
        headers = h265_slices(slices, self.sets)
        header = headers[0]
        fresh = key and (header.kind != CRA_KIND or self.reason is not None)
        found = self._described(header, key=key, starts=key, anew=fresh)
        if self._layouts.is_cut(headers, key=key):
            return self._cut(found)
        leading = header.kind in RASL_KINDS
        if key:
            is_broken = header.kind != CRA_KIND and header.kind not in IDR_KINDS
            self._before_start = self.reason or (Reason.AFTER_LOSS if is_broken else None)
            linked = self.reason is None and not header.discards
            self.reason = None
            return found._replace(linked=linked)
        reason = self.reason or (self._before_start if leading else None)
        return found._replace(reason=reason, decodable=reason is None, leading=leading, back=int(leading))

    def _described(self, header: SliceHeader, *, key: bool, starts: bool, anew: bool) -> Assessment:
        return Assessment(
            None,
            decodable=True,
            key=key,
            starts=starts,
            reference=header.reference,
            poc=header.poc,
            poc_modulus=header.poc_modulus,
            order=self._order.place(header, anew=anew),
            size=header.sequence.size,
        )

    def _cut(self, found: Assessment) -> Assessment:
        self.lose()
        return found._replace(reason=self.reason, decodable=False, key=False, starts=False)

    def _reached(self, found: Assessment, header: SliceHeader, time_ns: int) -> Assessment:
        """Complete what is known of a picture of H.264 that is no key frame."""
        if not self._starts.known:
            return found._replace(reason=self.reason or Reason.AFTER_LOSS, decodable=False)
        if header.reference:
            self._starts.decoded(time_ns, header.frame_num)
        reach, leading = self._starts.reach(time_ns), self._starts.is_leading(time_ns)
        if reach is None:
            # Nothing shown after a start refers to what leads up to it, unless that itself lacks a picture.
            reason = self.reason or self._before_start or Reason.AFTER_LOSS
            return found._replace(reason=reason, leading=leading, back=None)
        if self.reason is not None:
            self.reason, self._before_start = None, self.reason
        return found._replace(leading=leading, back=reach[0], start_ns=reach[1])


class Continuity:
    """Assesses a topic's access units in decode order, across changes of parameters and of codec."""

    def __init__(self) -> None:
        self._codec: Codec | None = None
        self._follower = _Follower("h264", Reason.BEFORE_KEY)
        self._loose: list[bytes] = []

    @property
    def breach(self) -> str:
        """How the stream breaks its standard without harm, empty if it does not."""
        return MISCOUNTED if self._follower.numbers.miscounted else ""

    def learn(self, arrivals: Iterable[Arrival]) -> None:
        """See how the encoder counts, from a stream's first access units; they are assessed after that."""
        sets, headers = ParameterSets("h264"), []
        for arrival in arrivals:
            if arrival.packet.codec == "h264":
                sets.add_all(arrival.units)
                headers.append(first_header(arrival.units, sets))
        self._follower.numbers.learn(filter(None, headers))

    def field(self, packet: VideoPacket, units: list[NalUnit]) -> SliceHeader | None:
        """The header of the next access unit if it is a single field of H.264."""
        if packet.codec != "h264":
            return None
        self._follow(packet.codec, units)
        try:
            fields = h264_fields(slice_heads(packet), self._follower.sets)
        except DecodeError:
            return None
        return None if len(fields) > 1 or fields[0][0].field == FRAME else fields[0][0]

    def lose(self, *, is_reference: bool) -> str:
        """Note that half of the next access unit is missing; the reason why the other half is not used."""
        reason = self._follower.reason or Reason.AFTER_LOSS
        if is_reference:
            self._follower.lose()
        return reason

    def assess(self, packet: VideoPacket, units: list[NalUnit], time_ns: int) -> Assessment:
        """Assess the next access unit, given the result of ``headers.head``."""
        codec = packet.codec
        own = self._follow(codec, units)
        if self._follower.reason in _NOT_BEGUN and is_of_other_codec(packet):
            self._follower.reason = Reason.OTHER_CODEC
        if not units or not is_slice(codec, units[-1].kind):
            self._loose += [unit.data for unit in own]
            other = self._follower.reason == Reason.OTHER_CODEC
            return Assessment(Reason.OTHER_CODEC if other else Reason.NO_PICTURE, picture=False)
        key, gradual = is_key_head(codec, units), gradual_start(codec, units)
        prefix = self._prefix(codec, {unit.kind for unit in own}, starts=key or gradual is not None)
        self._loose = []
        try:
            slices = slice_heads(packet)
            if codec == "h264":
                found = self._follower.h264(slices, time_ns, key=key, gradual=gradual)
            else:
                found = self._follower.h265(slices, key=key)
        except DecodeError as error:
            reason, text = self._follower.reason, str(error)
            if reason in _NOT_BEGUN and key and text == Reason.NO_SETS:
                reason = self._follower.reason = Reason.NO_SETS
            self._follower.lose()
            return Assessment(Reason.MIXED if text == Reason.MIXED else reason or text, picture=False)
        primer = found.primer
        if primer:
            primer = prefix + b"".join(_LONG_START + data for data in (*(u.data for u in own), primer))
        return found._replace(prefix=prefix, primer=primer)

    def _follow(self, codec: Codec, units: list[NalUnit]) -> list[NalUnit]:
        """Take an access unit's parameter sets, of which there are others if the codec changes."""
        if codec != self._codec:
            began, numbers = self._codec is not None, self._follower.numbers
            self._codec = codec
            self._follower = _Follower(codec, Reason.AFTER_LOSS if began else Reason.BEFORE_KEY)
            if not began:
                self._follower.numbers = numbers
        return self._follower.sets.add_all(units)

    def _prefix(self, codec: Codec, own: set[int], *, starts: bool) -> bytes:
        needed = {H264_SPS, H264_PPS} if codec == "h264" else {H265_SPS, H265_PPS}
        known = [data for _, data in sorted(self._follower.sets.units.items())]
        return b"".join(
            _LONG_START + data for data in (known if starts and not needed <= own else self._loose)
        )
