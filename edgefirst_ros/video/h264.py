"""H.264 parameter sets and slice headers, as far as loss detection needs them."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.video.bitstream import H264_IDR, BitReader, NalUnit, ParameterSets, escape, unescape

_HIGH_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_BASELINE = 66
_EXTENDED_SAR = 255
_HEADER_BYTES = 64
"""More than a slice header takes up to its display order: eight codes, the longest of 65 bits."""


@dataclass(frozen=True, slots=True)
class H264SequenceSet:
    """A sequence parameter set (clause 7.3.2.1.1).

    Attributes:
        reorder: how many pictures may precede another in decode order and follow it on display, None if the
            stream does not say.
        size: width and height in pixels, cropped.
    """

    ident: int
    separate_planes: bool
    frame_num_bits: int
    poc_type: int
    poc_bits: int
    frames_only: bool
    reorder: int | None
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class H264PictureSet:
    """A picture parameter set (clause 7.3.2.2): its identifier and its sequence parameter set's."""

    ident: int
    sequence: int


@dataclass(frozen=True, slots=True)
class H264SliceHeader:
    """The header of a picture's first slice (clause 7.3.3).

    Attributes:
        poc: display order modulo ``poc_modulus``, None for a stream of pic_order_cnt_type 1.
        frame_num_left: bits of the payload after frame_num.
    """

    idr: bool
    reference: bool
    frame_num: int
    frame_num_modulus: int
    poc: int | None
    poc_modulus: int
    size: tuple[int, int]
    frame_num_left: int


def sequence_set(data: bytes) -> H264SequenceSet:
    """Read a sequence parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[1:]))
    profile = bits.u(8)
    bits.u(16)
    ident = bits.ue()
    chroma = _skip_chroma(bits) if profile in _HIGH_PROFILES else 1
    separate_planes = chroma < 0
    frame_num_bits = bits.ue() + 4
    poc_type = bits.ue()
    poc_bits = 0
    if poc_type == 0:
        poc_bits = bits.ue() + 4
    elif poc_type == 1:
        bits.flag()
        for _ in range(2):
            bits.se()
        for _ in range(bits.ue()):
            bits.se()
    if max(frame_num_bits, poc_bits) > 16 or poc_type > 2:
        raise DecodeError("the H.264 sequence parameter set is malformed")
    bits.ue()
    bits.flag()
    width, height = (16 * (bits.ue() + 1) for _ in range(2))
    frames_only = bits.flag()
    if not frames_only:
        bits.flag()
    bits.flag()
    left, right, top, bottom = [bits.ue() for _ in range(4)] if bits.flag() else (0, 0, 0, 0)
    unit_x, unit_y = 2 if chroma in (1, 2) else 1, 2 if chroma == 1 else 1
    size = (width - unit_x * (left + right), (2 - frames_only) * (height - unit_y * (top + bottom)))
    stated = _stated_reorder(bits) if bits.flag() else None
    reorder = 0 if poc_type == 2 or profile == _BASELINE else stated
    return H264SequenceSet(
        ident, separate_planes, frame_num_bits, poc_type, poc_bits, frames_only, reorder, size
    )


def picture_set(data: bytes) -> H264PictureSet:
    """Read a picture parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[1:64]))
    return H264PictureSet(bits.ue(), bits.ue())


def _skip_chroma(bits: BitReader) -> int:
    """chroma_format_idc, -1 where the colour planes are coded apart."""
    chroma = bits.ue()
    separate_planes = chroma == 3 and bits.flag()
    for _ in range(2):
        bits.ue()
    bits.flag()
    if bits.flag():
        for index in range(8 if chroma != 3 else 12):
            if bits.flag():
                _skip_scaling_list(bits, 16 if index < 6 else 64)
    return -1 if separate_planes else chroma


def _skip_scaling_list(bits: BitReader, size: int) -> None:
    scale = 8
    for _ in range(size):
        scale = (scale + bits.se()) % 256
        if scale == 0:
            return


def _stated_reorder(bits: BitReader) -> int | None:
    _skip_appearance(bits)
    if bits.flag():
        bits.u(65)
    reference_decoder = [_skip_reference_decoder(bits) for _ in range(2)]
    if any(reference_decoder):
        bits.flag()
    bits.flag()
    if not bits.flag():
        return None
    bits.flag()
    for _ in range(4):
        bits.ue()
    return bits.ue()


def _skip_appearance(bits: BitReader) -> None:
    if bits.flag() and bits.u(8) == _EXTENDED_SAR:
        bits.u(32)
    if bits.flag():
        bits.flag()
    if bits.flag():
        bits.u(4)
        if bits.flag():
            bits.u(24)
    if bits.flag():
        for _ in range(2):
            bits.ue()


def _skip_reference_decoder(bits: BitReader) -> bool:
    if not bits.flag():
        return False
    count = bits.ue() + 1
    bits.u(8)
    for _ in range(count):
        bits.ue()
        bits.ue()
        bits.flag()
    bits.u(20)
    return True


def renumbered(unit: NalUnit, header: H264SliceHeader) -> bytes:
    """The slice, possibly cut behind its header, with its frame_num lowered by two."""
    payload = unescape(unit.data[1:])
    change = (header.frame_num - 2) % header.frame_num_modulus - header.frame_num
    changed = int.from_bytes(payload, "big") + (change << header.frame_num_left)
    return unit.data[:1] + escape(changed.to_bytes(len(payload), "big"))


def slice_header(unit: NalUnit, sets: ParameterSets[H264SequenceSet, H264PictureSet]) -> H264SliceHeader:
    """Read the header of a picture's first slice.

    Raises:
        DecodeError: it is malformed, no first slice, or its parameter sets are unknown.
    """
    payload = unescape(unit.data[1:])
    bits = BitReader(payload[:_HEADER_BYTES])
    if bits.ue():
        raise DecodeError("the picture's first slice is missing")
    bits.ue()
    sequence, _ = sets.used_by(bits.ue())
    if sequence.separate_planes:
        bits.u(2)
    frame_num = bits.u(sequence.frame_num_bits)
    frame_num_left = bits.left + 8 * len(payload[_HEADER_BYTES:])
    if not sequence.frames_only and bits.flag():
        bits.flag()
    idr = unit.kind == H264_IDR
    if idr:
        bits.ue()
    reference = unit.data[0] >> 5 & 3 != 0
    poc: int | None = None
    poc_modulus = 1 << sequence.poc_bits
    if sequence.poc_type == 0:
        poc = bits.u(sequence.poc_bits)
    elif sequence.poc_type == 2:
        poc_modulus = 2 << sequence.frame_num_bits
        poc = (2 * frame_num - (not reference)) % poc_modulus
    modulus, size = 1 << sequence.frame_num_bits, sequence.size
    return H264SliceHeader(idr, reference, frame_num, modulus, poc, poc_modulus, size, frame_num_left)
