"""Annex-B byte streams: NAL units and key frames, told from the headers alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import Codec, VideoPacket
from edgefirst_ros.video.bits import BitReader

_START = b"\x00\x00\x01"
_EMULATION = re.compile(b"\x00\x00(?=[\x00-\x03])")
_SLICE_HEADER_BYTES = 512
"""More than any slice header up to its reference picture set takes."""

H264_SLICE, H264_PARTITION_C, H264_IDR, H264_SEI, H264_SPS, H264_PPS = 1, 4, 5, 6, 7, 8
H265_FIRST_IRAP, H265_LAST_VCL, H265_VPS, H265_SPS, H265_PPS = 16, 31, 32, 33, 34
_H265_LAST_IRAP = 23
_SEI_RECOVERY_POINT = 6
_INTRA_SLICE_TYPES = frozenset({2, 7})


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """A recovery point SEI message of H.264 (clause D.2.8).

    ``frames``: pictures are right from the reference picture on whose frame_num is so much higher than that
    of the message's own. ``exact``: they are then those of a decoder that saw everything.
    """

    frames: int
    exact: bool


class Content(Enum):
    """What a packet is to the pictures of its stream."""

    PICTURE = "a picture, or its first part"
    PART = "a further part of a picture"
    SETS = "no picture: parameter sets and the like"


@dataclass(frozen=True, slots=True)
class NalUnit:
    """One NAL unit without its start code; of a slice only as much as its header can take."""

    kind: int
    data: bytes


def is_slice(codec: Codec, kind: int) -> bool:
    """Whether a NAL unit type carries a part of the picture."""
    return H264_SLICE <= kind <= H264_IDR if codec == "h264" else kind <= H265_LAST_VCL


def is_parameter_set(codec: Codec, kind: int) -> bool:
    """Whether a NAL unit type is a video, sequence or picture parameter set."""
    return kind in (H264_SPS, H264_PPS) if codec == "h264" else H265_VPS <= kind <= H265_PPS


def head(packet: VideoPacket) -> list[NalUnit]:
    """The NAL units of an access unit up to its first slice, which comes last if there is one.

    Units of enhancement layers (H.265 nuh_layer_id above 0) are left out. Bytes before the first start
    code are ignored.
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


def nal_units(codec: Codec, data: bytes) -> Iterator[NalUnit]:
    """All NAL units of an access unit, whole; those of enhancement layers are left out."""
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
    """What a packet is, told by its first slice; one without any NAL unit passes for a damaged picture."""
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
    """A NAL unit's payload with the emulation prevention bytes taken out (clause 7.4.1)."""
    return data.replace(b"\x00\x00\x03", b"\x00\x00")


def escape(payload: bytes) -> bytes:
    """A payload with emulation prevention bytes put in (clause 7.4.1)."""
    return _EMULATION.sub(b"\\g<0>\x03", payload)


def is_keyframe(packet: VideoPacket) -> bool:
    """Whether decoding can start at this access unit.

    H.264: an IDR picture, or an intra picture whose recovery point SEI says that it is exact at once
    (recovery_frame_cnt 0), as encoders with open GOPs send. An intra picture without that promise is not one:
    later pictures may refer past it. H.265: any intra random access point (IDR, CRA, BLA).
    """
    return is_key_head(packet.codec, head(packet))


def is_key_head(codec: Codec, units: list[NalUnit]) -> bool:
    """``is_keyframe`` of an access unit already taken apart by ``head``."""
    if not units:
        return False
    last = units[-1]
    if codec == "h265":
        return H265_FIRST_IRAP <= last.kind <= _H265_LAST_IRAP
    if last.kind == H264_IDR:
        return True
    return (
        last.kind == H264_SLICE
        and any(_recovers_at_once(unit.data) for unit in units if unit.kind == H264_SEI)
        and h264_slice_type(last.data) in _INTRA_SLICE_TYPES
    )


def can_start(packet: VideoPacket) -> bool:
    """Whether decoding can start at this access unit, though its own picture may not be right yet.

    A key frame, or an H.264 recovery point from which the stream becomes exact picture by picture.
    """
    units = head(packet)
    return is_key_head(packet.codec, units) or gradual_start(packet.codec, units) is not None


def gradual_start(codec: Codec, units: list[NalUnit]) -> RecoveryPoint | None:
    """The recovery point of an access unit that is no key frame and has an exact one, as ``head`` took it."""
    if codec != "h264" or not units or units[-1].kind != H264_SLICE or is_key_head(codec, units):
        return None
    found = (_recovery_point(unit.data) for unit in units if unit.kind == H264_SEI)
    return next((point for point in found if point is not None and point.exact), None)


def h264_slice_type(data: bytes) -> int | None:
    """slice_type of an H.264 slice (clause 7.4.3), None if the header is malformed."""
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
