"""Which pictures are intact: follows the headers of a stream and finds what a lost packet took along."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video import h264slices, h265slices
from edgefirst_ros.video.bitstream import (
    EPOCH_BITS,
    H264_PPS,
    H264_SPS,
    H265_PPS,
    H265_SPS,
    Assessment,
    Follower,
    NalUnit,
    RecoveryPoint,
    gradual_start,
    is_key_head,
    is_parameter_set,
    is_slice,
    slice_heads,
)
from edgefirst_ros.video.h264follower import H264Follower
from edgefirst_ros.video.h264slices import H264SliceHeader
from edgefirst_ros.video.h265sets import parameter_sets

_LONG_START = b"\x00\x00\x00\x01"
_LAYOUTS = 32
"""Pictures whose slices are remembered: about a second, as one of them may have been lost with its slices."""


class _H265Follower:
    """Tracks the reference pictures like a decoder: every slice names those it needs (clause 8.3.2)."""

    def __init__(self) -> None:
        self.sets = parameter_sets()
        self.reason: str | None = Reason.BEFORE_KEY
        self.breach = ""
        self._leading_reason: str | None = None
        self._anchor = 0
        self._epoch = 0
        self._layouts: deque[frozenset[int]] = deque(maxlen=_LAYOUTS)
        self._present: set[int] = set()

    def lose(self, reason: str) -> None:
        """Note that an access unit is missing or unreadable."""
        self.reason = self.reason or reason

    def assess(
        self, slices: Sequence[NalUnit], time_ns: int, *, key: bool, gradual: RecoveryPoint | None
    ) -> Assessment:
        """Assess the next picture."""
        del time_ns, gradual
        header = h265slices.slice_header(slices[0], self.sets)
        addresses = h265slices.addresses(slices, header, self.sets)
        fewer = any(addresses < known for known in self._layouts)
        self._layouts.append(addresses)
        fresh = key and (header.kind != h265slices.CRA_KIND or self.reason is not None)
        poc = header.poc if fresh else h265slices.nearest(header.poc, self._anchor, header.poc_modulus)
        self._epoch += fresh
        needed, kept = h265slices.referenced(header, poc)
        linked = key and self.reason is None and not header.discards
        leading = header.kind in h265slices.RASL_KINDS
        if key:
            self._leading_reason = None if linked else self.reason or Reason.AFTER_LOSS
            self.reason = None
        elif not needed <= self._present:
            if leading:
                self._leading_reason = self._leading_reason or Reason.AFTER_LOSS
            else:
                self.reason = self.reason or Reason.AFTER_LOSS
        reason = self.reason or (self._leading_reason if leading else None)
        self._present = set() if fresh else self._present & kept
        if reason is None:
            self._present.add(poc)
        if header.anchor:
            self._anchor = poc
        return Assessment(
            reason,
            decodable=reason is None,
            key=key,
            starts=key,
            linked=linked,
            leading=leading,
            back=1 if leading else 0,
            poc=header.poc,
            poc_modulus=header.poc_modulus,
            order=(self._epoch << EPOCH_BITS) + poc,
            fewer_slices=fewer,
            judgeable=header.judgeable,
            size=header.size,
        )


class Continuity:
    """Assesses a topic's access units in decode order, across changes of parameters and of codec."""

    def __init__(self) -> None:
        self._codec: Codec | None = None
        self._follower: Follower = H264Follower()
        self._sets: dict[tuple[int, int], bytes] = {}
        self._loose: list[bytes] = []

    @property
    def breach(self) -> str:
        """How the stream breaks its standard without harm, empty if it does not."""
        return self._follower.breach

    def field(self, packet: VideoPacket, units: list[NalUnit]) -> H264SliceHeader | None:
        """The header of the next access unit if it is a single field of H.264."""
        if packet.codec != "h264":
            return None
        self._follow(packet.codec)
        for unit in units:
            if is_parameter_set(packet.codec, unit.kind):
                self._take(packet.codec, unit)
        try:
            fields = h264slices.fields(
                [h264slices.slice_header(unit, self._follower.sets) for unit in slice_heads(packet)]
            )
        except DecodeError:
            return None
        return None if len(fields) > 1 or fields[0][0].field == h264slices.FRAME else fields[0][0]

    def lose(self, *, is_reference: bool) -> str:
        """Note that half of the next access unit is missing; the reason why the other half is not used."""
        reason = self._follower.reason or Reason.AFTER_LOSS
        if is_reference:
            self._follower.lose(Reason.AFTER_LOSS)
        return reason

    def assess(self, packet: VideoPacket, units: list[NalUnit], time_ns: int) -> Assessment:
        """Assess the next access unit, given the result of ``bitstream.head``."""
        codec = packet.codec
        self._follow(codec)
        own = [unit for unit in units if is_parameter_set(codec, unit.kind)]
        for unit in own:
            self._take(codec, unit)
        if not units or not is_slice(codec, units[-1].kind):
            self._loose += [unit.data for unit in own]
            return Assessment(Reason.NO_PICTURE, picture=False)
        key, gradual = is_key_head(codec, units), gradual_start(codec, units)
        starts = key or gradual is not None
        prefix = self._prefix(codec, {unit.kind for unit in own}, starts=starts)
        self._loose = []
        try:
            slices = slice_heads(packet)
            found = self._follower.assess(slices, time_ns, key=key, gradual=gradual)
            primer = found.primer
            if not (primer or prefix):
                return found
            if primer:
                primer = prefix + b"".join(_LONG_START + data for data in (*(u.data for u in own), primer))
            return found._replace(prefix=prefix, primer=primer)
        except DecodeError as error:
            reason = self._follower.reason or str(error)
            self._follower.lose(Reason.AFTER_LOSS)
            return Assessment(reason, picture=False)

    def _follow(self, codec: Codec) -> None:
        if codec != self._codec:
            began = self._codec is not None
            self._codec = codec
            self._follower = H264Follower() if codec == "h264" else _H265Follower()
            self._follower.reason = Reason.AFTER_LOSS if began else Reason.BEFORE_KEY
            self._sets = {}

    def _take(self, codec: Codec, unit: NalUnit) -> None:
        sequence = unit.kind == (H264_SPS if codec == "h264" else H265_SPS)
        picture = unit.kind == (H264_PPS if codec == "h264" else H265_PPS)
        try:
            ident = 0
            if sequence:
                ident = self._follower.sets.add_sequence(unit.data)
            elif picture:
                ident = self._follower.sets.add_picture(unit.data)
        except DecodeError:
            return
        self._sets[unit.kind, ident] = unit.data

    def _prefix(self, codec: Codec, own: set[int], *, starts: bool) -> bytes:
        needed = {H264_SPS, H264_PPS} if codec == "h264" else {H265_SPS, H265_PPS}
        known = [self._sets[name] for name in sorted(self._sets)]
        return b"".join(
            _LONG_START + data for data in (known if starts and not needed <= own else self._loose)
        )
