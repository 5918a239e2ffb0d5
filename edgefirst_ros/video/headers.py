"""H.264 and H.265 byte streams (Annex B): NAL units, where decoding can start, the bits of headers.

Source: ITU-T H.264 and H.265; clause numbers are those of both where no standard is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError

_START = b"\x00\x00\x01"
_EMULATION = re.compile(b"\x00\x00(?=[\x00-\x03])")
_SLICE_HEADER_BYTES = 512
"""More than any slice header up to its reference picture set takes."""

H264_SLICE, H264_IDR, H264_SEI, H264_SPS, H264_PPS = 1, 5, 6, 7, 8
H265_FIRST_IRAP, H265_LAST_IRAP, H265_LAST_VCL, H265_VPS, H265_SPS, H265_PPS = 16, 23, 31, 32, 33, 34
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


def is_key_head(codec: Codec, units: list[NalUnit]) -> bool:
    """Whether decoding can start at an access unit, from the result of ``head``.

    H.264: an IDR picture, or an intra picture with a recovery point SEI of recovery_frame_cnt 0, which
    encoders send for open GOPs. Any other intra picture is none, as later pictures may refer to earlier ones.
    H.265: any intra random access point (IDR, CRA, BLA).
    """
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
