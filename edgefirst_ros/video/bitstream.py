"""H.264 and H.265 byte streams (Annex B): NAL units, key frames, the bits of headers, parameter sets.

Source: ITU-T H.264 and H.265; clause numbers are those of both where no standard is named.

What is told about an access unit, and by what: a module for each codec follows its headers.

Context-adaptive binary arithmetic coding (H.264 and H.265, clause 9.3): its tables, and an encoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError

MIXED = "slices of several pictures in one packet"
_START = b"\x00\x00\x01"
_EMULATION = re.compile(b"\x00\x00(?=[\x00-\x03])")
_SLICE_HEADER_BYTES = 512
"""More than any slice header up to its reference picture set takes."""

H264_SLICE, H264_PARTITION_C, H264_IDR, H264_SEI, H264_SPS, H264_PPS = 1, 4, 5, 6, 7, 8
H265_FIRST_IRAP, H265_LAST_IRAP, H265_LAST_VCL, H265_VPS, H265_SPS, H265_PPS = 16, 23, 31, 32, 33, 34
H264_PARTITIONS = frozenset({3, 4})
"""Further data of a slice, whose header is in another unit."""
_SEI_RECOVERY_POINT = 6
_INTRA_SLICE_TYPES = frozenset({2, 7})


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """A recovery point SEI message (H.264 clause D.2.8).

    Attributes:
        frames: the first correct picture is the reference picture whose frame_num is higher by this number.
        exact: from there on the pictures equal those of a decoder that started earlier.
    """

    frames: int
    exact: bool


class Content(Enum):
    """What a packet carries."""

    PICTURE = "a picture, or its first part"
    PART = "a further part of a picture"
    SETS = "no picture: parameter sets and the like"


class NalUnit(NamedTuple):
    """A NAL unit without its start code. ``head`` cuts a slice behind its header."""

    kind: int
    data: bytes


def is_slice(codec: Codec, kind: int) -> bool:
    """Whether a NAL unit of this type is a slice."""
    return H264_SLICE <= kind <= H264_IDR if codec == "h264" else kind <= H265_LAST_VCL


def is_parameter_set(codec: Codec, kind: int) -> bool:
    """Whether a NAL unit of this type is a video, sequence or picture parameter set."""
    return kind in (H264_SPS, H264_PPS) if codec == "h264" else H265_VPS <= kind <= H265_PPS


def head(packet: VideoPacket) -> list[NalUnit]:
    """The NAL units of an access unit up to and including its first slice.

    Leaves out enhancement layers (H.265 nuh_layer_id above 0) and bytes before the first start code.
    """
    data, codec = packet.data, packet.codec
    units = []
    at = data.find(_START)
    while 0 <= at < len(data) - len(_START):
        start = at + len(_START)
        kind = _kind(codec, data[start : start + 2])
        if kind is not None and is_slice(codec, kind):
            units.append(NalUnit(kind, data[start : start + _SLICE_HEADER_BYTES]))
            break
        at = data.find(_START, start)
        if kind is not None:
            units.append(NalUnit(kind, data[start : at if at >= 0 else len(data)].rstrip(b"\x00")))
    return units


def slice_heads(packet: VideoPacket) -> list[NalUnit]:
    """All slices of an access unit, cut behind their headers, without those of enhancement layers."""
    data, codec = packet.data, packet.codec
    found = []
    at = data.find(_START)
    while 0 <= at < len(data) - len(_START):
        start = at + len(_START)
        kind = _kind(codec, data[start : start + 2])
        at = data.find(_START, start)
        if kind is not None and is_slice(codec, kind):
            end = start + _SLICE_HEADER_BYTES
            found.append(NalUnit(kind, data[start : min(end, at) if at >= 0 else end]))
    return found


def nal_units(codec: Codec, data: bytes) -> Iterator[NalUnit]:
    """All NAL units of an access unit, uncut, without those of enhancement layers."""
    at = data.find(_START)
    while 0 <= at < len(data) - len(_START):
        start = at + len(_START)
        at = data.find(_START, start)
        kind = _kind(codec, data[start : start + 2])
        if kind is not None:
            yield NalUnit(kind, data[start : at if at >= 0 else len(data)])


def _kind(codec: Codec, header: bytes) -> int | None:
    if header[0] & 0x80:
        return None
    if codec == "h264":
        return header[0] & 0x1F
    base_layer = len(header) == 2 and not header[0] & 1 and not header[1] >> 3
    return header[0] >> 1 if base_layer else None


def content_of(packet: VideoPacket) -> Content:
    """What a packet carries, by its first slice. One without any NAL unit counts as a damaged picture."""
    units = head(packet)
    if not units:
        return Content.PICTURE
    last = units[-1]
    if not is_slice(packet.codec, last.kind):
        return Content.SETS
    # first_mb_in_slice is 0, of which Exp-Golomb makes a one; or first_slice_segment_in_pic_flag.
    at = 1 if packet.codec == "h264" else 2
    return Content.PICTURE if last.data[at : at + 1] >= b"\x80" else Content.PART


def unescape(data: bytes) -> bytes:
    """The payload without its emulation prevention bytes (clause 7.4.1)."""
    return data.replace(b"\x00\x00\x03", b"\x00\x00")


def escape(payload: bytes) -> bytes:
    """The payload with emulation prevention bytes inserted (clause 7.4.1)."""
    return _EMULATION.sub(b"\\g<0>\x03", payload)


def is_keyframe(packet: VideoPacket) -> bool:
    """Whether decoding can start at this access unit.

    H.264: an IDR picture, or an intra picture with a recovery point SEI of recovery_frame_cnt 0, which
    encoders send for open GOPs. Any other intra picture is none, as later pictures may refer to earlier ones.
    H.265: any intra random access point (IDR, CRA, BLA).
    """
    return is_key_head(packet.codec, head(packet))


def is_key_head(codec: Codec, units: list[NalUnit]) -> bool:
    """``is_keyframe`` for the result of ``head``."""
    if not units:
        return False
    last = units[-1]
    if codec == "h265":
        return H265_FIRST_IRAP <= last.kind <= H265_LAST_IRAP
    if last.kind == H264_IDR:
        return True
    return (
        last.kind == H264_SLICE
        and any(_recovers_at_once(unit.data) for unit in units if unit.kind == H264_SEI)
        and h264_slice_type(last.data) in _INTRA_SLICE_TYPES
    )


def can_start(packet: VideoPacket) -> bool:
    """Whether decoding can start at this access unit, even if its own picture is not correct yet.

    True for a key frame, and for an H.264 recovery point (gradual decoder refresh).
    """
    units = head(packet)
    return is_key_head(packet.codec, units) or gradual_start(packet.codec, units) is not None


def gradual_start(codec: Codec, units: list[NalUnit]) -> RecoveryPoint | None:
    """The exact recovery point of an access unit that is no key frame, from the result of ``head``."""
    if codec != "h264" or not units or units[-1].kind != H264_SLICE or is_key_head(codec, units):
        return None
    found = (_recovery_point(unit.data) for unit in units if unit.kind == H264_SEI)
    return next((point for point in found if point is not None and point.exact), None)


def h264_slice_type(data: bytes) -> int | None:
    """The slice_type of an H.264 slice (clause 7.4.3), None if the header is malformed."""
    bits = BitReader(unescape(data[1:32]))
    try:
        bits.ue()
        return bits.ue()
    except DecodeError:
        return None


def _recovers_at_once(data: bytes) -> bool:
    point = _recovery_point(data)
    return point is not None and point.frames == 0


def _recovery_point(data: bytes) -> RecoveryPoint | None:
    payload = unescape(data[1:])
    at = 0
    while at + 2 <= len(payload):
        kind, at = _sei_number(payload, at)
        size, at = _sei_number(payload, at)
        if kind == _SEI_RECOVERY_POINT:
            bits = BitReader(payload[at : at + size])
            try:
                return RecoveryPoint(bits.ue(), bits.flag())
            except DecodeError:
                return None
        at += size
    return None


def _sei_number(payload: bytes, at: int) -> tuple[int, int]:
    number = 0
    while at < len(payload) and payload[at] == 0xFF:
        number += 0xFF
        at += 1
    return number + (payload[at] if at < len(payload) else 0), at + 1


class BitReader:
    """Reads the fixed-length and Exp-Golomb codes of a header (clauses 7.2 and 9.1).

    Args:
        data: the raw byte sequence payload, emulation prevention already removed.

    Raises:
        DecodeError: on reading past the end, or an Exp-Golomb code longer than any a header has.
    """

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self.left = 8 * len(data)
        """How many bits have not been read."""

    def u(self, bits: int) -> int:
        """An unsigned number of that many bits."""
        if bits > self.left:
            raise DecodeError("the video header ends too early")
        self.left -= bits
        return (self._value >> self.left) & ((1 << bits) - 1)

    def flag(self) -> bool:
        """One bit."""
        return self.u(1) == 1

    def ue(self) -> int:
        """An unsigned Exp-Golomb code."""
        left = self.left
        rest = self._value & ((1 << left) - 1)
        zeros = left - rest.bit_length()
        if zeros > 32:
            raise DecodeError("the video header is malformed: a code of more than 65 bits")
        self.left = left - 2 * zeros - 1
        if self.left < 0:
            self.left = left
            raise DecodeError("the video header ends too early")
        return (rest >> self.left) - 1

    def se(self) -> int:
        """A signed Exp-Golomb code."""
        code = self.ue()
        return (code + 1) // 2 if code & 1 else -(code // 2)


class _Identified(Protocol):
    @property
    def ident(self) -> int: ...


class _OfSequence(_Identified, Protocol):
    @property
    def sequence(self) -> int: ...


_SequenceSet = TypeVar("_SequenceSet", bound=_Identified)
_PictureSet = TypeVar("_PictureSet", bound=_OfSequence)


class ParameterSets(Generic[_SequenceSet, _PictureSet]):
    """The sequence and picture parameter sets in force, by identifier.

    ``add_sequence`` and ``add_picture`` take a whole NAL unit and return the identifier of its set.

    Args:
        read_sequence: parses a sequence parameter set.
        read_picture: parses a picture parameter set.
    """

    def __init__(
        self, read_sequence: Callable[[bytes], _SequenceSet], read_picture: Callable[[bytes], _PictureSet]
    ) -> None:
        self._read_sequence, self._read_picture = read_sequence, read_picture
        self._sequences: dict[int, _SequenceSet] = {}
        self._pictures: dict[int, _PictureSet] = {}

    def add_sequence(self, data: bytes) -> int:
        """Take a sequence parameter set.

        Raises:
            DecodeError: it is malformed.
        """
        found = self._read_sequence(data)
        self._sequences[found.ident] = found
        return found.ident

    def add_picture(self, data: bytes) -> int:
        """Take a picture parameter set.

        Raises:
            DecodeError: it is malformed.
        """
        found = self._read_picture(data)
        self._pictures[found.ident] = found
        return found.ident

    def used_by(self, picture: int) -> tuple[_SequenceSet, _PictureSet]:
        """The sets of a slice that names a picture parameter set.

        Raises:
            DecodeError: one of them has not come.
        """
        found = self._pictures.get(picture)
        sequence = self._sequences.get(found.sequence) if found else None
        if found is None or sequence is None:
            raise DecodeError("the picture's parameter sets are missing")
        return sequence, found


EPOCH_BITS = 40
"""More than any display order has within a stretch that counts it from one picture."""


class Assessment(NamedTuple):
    """What the headers tell about one access unit.

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
        fewer_slices: its slices begin where some of another picture's do, so that the rest may be lost.
        judgeable: the profile of H.265 is one that ``H265Syntax`` parses.
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
    fewer_slices: bool = False
    judgeable: bool = True
    size: tuple[int, int] | None = None
    prefix: bytes = b""
    primer: bytes = b""


class Follower(Protocol):
    """Follows one codec's slice headers in decode order."""

    reason: str | None
    """Why pictures cannot be trusted until decoding has started again, None while they can."""
    breach: str
    """How the stream breaks its standard without harm, empty if it does not."""

    @property
    def sets(self) -> ParameterSets[Any, Any]:
        """The parameter sets in force."""

    def assess(
        self, slices: Sequence[NalUnit], time_ns: int, *, key: bool, gradual: RecoveryPoint | None
    ) -> Assessment:
        """Assess the next picture by its slices; ``gradual`` is its recovery point if it has one."""

    def lose(self, reason: str) -> None:
        """Note that an access unit is missing or unreadable."""


LPS_RANGE: npt.NDArray[np.int64] = np.array(
    [
        [128, 176, 208, 240], [128, 167, 197, 227], [128, 158, 187, 216], [123, 150, 178, 205],
        [116, 142, 169, 195], [111, 135, 160, 185], [105, 128, 152, 175], [100, 122, 144, 166],
        [95, 116, 137, 158], [90, 110, 130, 150], [85, 104, 123, 142], [81, 99, 117, 135],
        [77, 94, 111, 128], [73, 89, 105, 122], [69, 85, 100, 116], [66, 80, 95, 110],
        [62, 76, 90, 104], [59, 72, 86, 99], [56, 69, 81, 94], [53, 65, 77, 89],
        [51, 62, 73, 85], [48, 59, 69, 80], [46, 56, 66, 76], [43, 53, 63, 72],
        [41, 50, 59, 69], [39, 48, 56, 65], [37, 45, 54, 62], [35, 43, 51, 59],
        [33, 41, 48, 56], [32, 39, 46, 53], [30, 37, 43, 50], [29, 35, 41, 48],
        [27, 33, 39, 45], [26, 31, 37, 43], [24, 30, 35, 41], [23, 28, 33, 39],
        [22, 27, 32, 37], [21, 26, 30, 35], [20, 24, 29, 33], [19, 23, 27, 31],
        [18, 22, 26, 30], [17, 21, 25, 28], [16, 20, 23, 27], [15, 19, 22, 25],
        [14, 18, 21, 24], [14, 17, 20, 23], [13, 16, 19, 22], [12, 15, 18, 21],
        [12, 14, 17, 20], [11, 14, 16, 19], [11, 13, 15, 18], [10, 12, 15, 17],
        [10, 12, 14, 16], [9, 11, 13, 15], [9, 11, 12, 14], [8, 10, 12, 14],
        [8, 9, 11, 13], [7, 9, 11, 12], [7, 9, 10, 12], [7, 8, 10, 11],
        [6, 8, 9, 11], [6, 7, 9, 10], [6, 7, 8, 9], [2, 2, 2, 2],
    ]
)  # fmt: skip
"""(64, 4): range of the less probable symbol, by state and quarter of the range."""
# fmt: off
LPS_NEXT: npt.NDArray[np.uint8] = np.array([
    0, 0, 1, 2, 2, 4, 4, 5, 6, 7, 8, 9, 9, 11, 11, 12, 13, 13, 15, 15, 16, 16, 18, 18, 19, 19,
    21, 21, 22, 22, 23, 24, 24, 25, 26, 26, 27, 27, 28, 29, 29, 30, 30, 30, 31, 32, 32, 33, 33,
    33, 34, 34, 35, 35, 35, 36, 36, 36, 37, 37, 37, 38, 38, 63,
], np.uint8)
# fmt: on
"""(64,): the state after the less probable symbol."""
_LAST_STATE = 62


class CabacEncoder:
    """Encodes the bins of one slice of H.264.

    Args:
        slopes: (m, n) of each context (table 9-12 ff.).
        qp: the slice's quantiser, from which the contexts begin.
    """

    def __init__(self, slopes: dict[int, tuple[int, int]], qp: int) -> None:
        self._states: dict[int, tuple[int, int]] = {}
        for context, (slope, base) in slopes.items():
            state = min(126, max(1, (slope * qp >> 4) + base))
            self._states[context] = (state - 64, 1) if state > 63 else (63 - state, 0)
        self._low, self._range = 0, 510
        self._pending = 0
        self._bits: list[str] = []

    def put(self, context: int, value: int) -> None:
        """A bin with a context."""
        state, likely = self._states[context]
        less = int(LPS_RANGE[state, self._range >> 6 & 3])
        self._range -= less
        if value == likely:
            self._states[context] = min(state + 1, _LAST_STATE), likely
        else:
            self._low += self._range
            self._range = less
            self._states[context] = int(LPS_NEXT[state]), likely ^ (state == 0)
        self._renormalise()

    def end(self, *, last: bool) -> None:
        """The bin that says whether the slice ends (end_of_slice_flag), or another that terminates."""
        self._range -= 2
        if last:
            self._low += self._range
            self._range = 2
        self._renormalise()

    def finish(self) -> str:
        """The bits of all bins, of which the last one ended the slice; its one is the stop bit."""
        self._emit(self._low >> 9 & 1)
        return "".join(self._bits)[1:] + f"{self._low >> 7 & 3 | 1:02b}"

    def _renormalise(self) -> None:
        while self._range < 256:
            if self._low < 256:
                self._emit(0)
            elif self._low >= 512:
                self._low -= 512
                self._emit(1)
            else:
                self._low -= 256
                self._pending += 1
            self._range <<= 1
            self._low <<= 1

    def _emit(self, bit: int) -> None:
        self._bits.append(str(bit) + str(1 - bit) * self._pending)
        self._pending = 0
