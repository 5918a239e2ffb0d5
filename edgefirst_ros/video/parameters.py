"""Parameter sets and slice headers of H.264 and H.265, as far as they tell pictures apart.

Source: ITU-T H.264, clauses 7.3.2.1, 7.3.2.2 and 7.3.3; ITU-T H.265, clauses 7.3.2.2, 7.3.2.3 and 7.3.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from edgefirst_ros.model.camera import Codec, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.headers import (
    H264_IDR,
    H264_PPS,
    H264_SPS,
    H265_FIRST_IRAP,
    H265_LAST_IRAP,
    H265_PPS,
    H265_SPS,
    BitReader,
    NalUnit,
    escape,
    is_parameter_set,
    is_slice,
    unescape,
)

NO_FIRST = "the picture's first slice is missing"
FRAME, TOP, BOTTOM = range(3)
IDR_KINDS, RADL_KINDS, RASL_KINDS = frozenset({19, 20}), frozenset({6, 7}), frozenset({8, 9})
CRA_KIND = 21
_SUB_LAYER_NON_REFERENCE = frozenset(range(0, 16, 2))
_HIGH_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_BASELINE = 66
_EXTENDED_SAR = 255
_SEQUENCE_SETS = {"h264": re.compile(b"\0\0\x01[\x27\x47\x67]"), "h265": re.compile(b"\0\0\x01\x42\x01")}


@dataclass(frozen=True, slots=True)
class SequenceSet:
    """A sequence parameter set.

    Attributes:
        size: width and height in pixels, cropped.
        reorder: how many pictures may precede another in decode order and follow it on display, None if the
            stream does not say.
        poc_type: how H.264 codes the display order; H.265 does it as its type 0.
        gaps: the encoder of H.264 may leave reference pictures out, and count them.
        frames_only: no picture is coded as two fields.
        address_bits: of the address of a slice of H.265.
    """

    ident: int
    size: tuple[int, int]
    reorder: int | None
    separate_planes: bool
    poc_bits: int
    poc_type: int = 0
    frame_num_bits: int = 0
    gaps: bool = False
    frames_only: bool = True
    address_bits: int = 0


class PictureSet(NamedTuple):
    """A picture parameter set; what follows ``sequence`` is H.265's."""

    ident: int
    sequence: int
    dependent_slices: bool = False
    output_flag: bool = False
    extra_bits: int = 0


class SliceHeader(NamedTuple):
    """The beginning of a slice's header.

    Attributes:
        picture: equal in all slices of a field or frame.
        address: of its first block.
        poc: display order modulo ``poc_modulus``, None for H.264 of pic_order_cnt_type 1.
        reference: later pictures may refer to it.
        anchor: later pictures count their display order from this one.
        field: ``FRAME``, ``TOP`` or ``BOTTOM``.
        frame_num_left: bits of the payload after frame_num.
        discards: H.265 asks to discard earlier pictures that were not shown yet.
    """

    kind: int
    picture: tuple[int | bool | None, ...]
    address: int
    sequence: SequenceSet
    poc: int | None
    poc_modulus: int
    idr: bool
    reference: bool
    anchor: bool
    field: int = FRAME
    frame_num: int = 0
    frame_num_modulus: int = 1
    frame_num_left: int = 0
    discards: bool = False


class ParameterSets:
    """The parameter sets in force, by identifier.

    Attributes:
        codec: of the stream.
        units: their NAL units by type and identifier.
    """

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._sequences: dict[int, SequenceSet] = {}
        self._pictures: dict[int, PictureSet] = {}
        self.units: dict[tuple[int, int], bytes] = {}

    def add_all(self, units: Iterable[NalUnit]) -> list[NalUnit]:
        """Take those among the units of an access unit; malformed ones are ignored."""
        own = [unit for unit in units if is_parameter_set(self.codec, unit.kind)]
        for unit in own:
            with suppress(DecodeError):
                self.units[unit.kind, self._add(unit)] = unit.data
        return own

    def _add(self, unit: NalUnit) -> int:
        if unit.kind in (H264_SPS, H265_SPS):
            sequence = sequence_set(self.codec, unit.data)
            self._sequences[sequence.ident] = sequence
            return sequence.ident
        if unit.kind in (H264_PPS, H265_PPS):
            picture = picture_set(self.codec, unit.data)
            self._pictures[picture.ident] = picture
            return picture.ident
        return 0

    def used_by(self, picture: int) -> tuple[SequenceSet, PictureSet]:
        """The sets of a slice that names a picture parameter set.

        Raises:
            DecodeError: one of them has not come.
        """
        found = self._pictures.get(picture)
        sequence = self._sequences.get(found.sequence) if found else None
        if found is None or sequence is None:
            raise DecodeError(Reason.NO_SETS)
        return sequence, found


def is_of_other_codec(packet: VideoPacket) -> bool:
    """Whether a packet has a sequence parameter set of the other codec than it names."""
    other: Codec = "h265" if packet.codec == "h264" else "h264"
    for found in _SEQUENCE_SETS[other].finditer(packet.data):
        with suppress(DecodeError):
            return bool(sequence_set(other, packet.data[found.start() + 3 :]))
    return False


def sequence_set(codec: Codec, data: bytes) -> SequenceSet:
    """Read a sequence parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    return _h264_sequence(data) if codec == "h264" else _h265_sequence(data)


def picture_set(codec: Codec, data: bytes) -> PictureSet:
    """Read a picture parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[1 if codec == "h264" else 2 :]))
    ident, sequence = bits.ue(), bits.ue()
    if codec == "h264":
        return PictureSet(ident, sequence)
    return PictureSet(ident, sequence, bits.flag(), bits.flag(), bits.u(3))


def _h264_sequence(data: bytes) -> SequenceSet:
    bits = BitReader(unescape(data[1:]))
    profile = bits.u(8)
    bits.u(16)
    ident = bits.ue()
    chroma, separate_planes = _h264_chroma(bits) if profile in _HIGH_PROFILES else (1, False)
    frame_num_bits = bits.ue() + 4
    poc_type = bits.ue()
    poc_bits = bits.ue() + 4 if poc_type == 0 else 0
    if poc_type == 1:
        bits.flag()
        for _ in range(2):
            bits.se()
        for _ in range(bits.ue()):
            bits.se()
    if max(frame_num_bits, poc_bits) > 16 or poc_type > 2:
        raise DecodeError("the H.264 sequence parameter set is malformed")
    bits.ue()
    gaps = bits.flag()
    columns, rows = bits.ue() + 1, bits.ue() + 1
    frames_only = bits.flag()
    if not frames_only:
        bits.flag()
    bits.flag()
    rows *= 2 - frames_only
    size = _cropped(bits, chroma, separate_planes, 16 * columns, 16 * rows, fields=2 - frames_only)
    stated = _h264_reorder(bits) if bits.flag() else None
    reorder = 0 if poc_type == 2 or profile == _BASELINE else stated
    return SequenceSet(
        ident, size, reorder, separate_planes, poc_bits, poc_type, frame_num_bits, gaps, frames_only
    )


def _cropped(
    bits: BitReader, chroma: int, separate_planes: bool, width: int, height: int, *, fields: int = 1
) -> tuple[int, int]:
    left, right, top, bottom = [bits.ue() for _ in range(4)] if bits.flag() else (0, 0, 0, 0)
    chroma = 0 if separate_planes else chroma
    unit_x, unit_y = 2 if chroma in (1, 2) else 1, (2 if chroma == 1 else 1) * fields
    return width - unit_x * (left + right), height - unit_y * (top + bottom)


def _h264_chroma(bits: BitReader) -> tuple[int, bool]:
    """chroma_format_idc, and whether the colour planes are coded by themselves."""
    chroma = bits.ue()
    separate_planes = chroma == 3 and bits.flag()
    for _ in range(2):
        bits.ue()
    bits.flag()
    if bits.flag():
        for index in range(8 if chroma != 3 else 12):
            if bits.flag():
                _skip_scaling_list(bits, 16 if index < 6 else 64)
    return chroma, separate_planes


def _skip_scaling_list(bits: BitReader, size: int) -> None:
    scale = 8
    for _ in range(size):
        scale = (scale + bits.se()) % 256
        if scale == 0:
            return


def _h264_reorder(bits: BitReader) -> int | None:
    """max_num_reorder_frames of the VUI (clause E.1.1)."""
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


def _h265_sequence(data: bytes) -> SequenceSet:
    bits = BitReader(unescape(data[2:]))
    bits.u(4)
    sub_layers = bits.u(3)
    bits.u(97)
    present = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.u(2 * (8 - sub_layers))
    for has_profile, has_level in present:
        bits.u(88 * has_profile + 8 * has_level)
    ident, chroma = bits.ue(), bits.ue()
    separate_planes = chroma == 3 and bits.flag()
    width, height = bits.ue(), bits.ue()
    size = _cropped(bits, chroma, separate_planes, width, height)
    bits.ue()
    bits.ue()
    poc_bits = bits.ue() + 4
    reorder = 0
    for _ in range(sub_layers + 1 if bits.flag() else 1):
        bits.ue()
        reorder = bits.ue()
        bits.ue()
    block_bits = bits.ue() + 3 + bits.ue()
    if poc_bits > 16 or not 4 <= block_bits <= 6:
        raise DecodeError("the H.265 sequence parameter set is malformed")
    blocks = (-(-width >> block_bits)) * (-(-height >> block_bits))
    return SequenceSet(
        ident, size, reorder, separate_planes, poc_bits, address_bits=max(0, blocks - 1).bit_length()
    )


def h264_fields(units: Sequence[NalUnit], sets: ParameterSets) -> list[list[SliceHeader]]:
    """The slices of an access unit of H.264 by field, one group if it is a frame; they may be cut.

    Raises:
        DecodeError: one is malformed, its parameter sets are unknown, the first is missing, or some are of
            another picture.
    """
    headers = [_h264_slice(unit, sets) for unit in units if is_slice("h264", unit.kind)]
    if not headers or headers[0].address:
        raise DecodeError(NO_FIRST)
    found = [[headers[0]]]
    for header in headers[1:]:
        if header.picture == found[-1][0].picture:
            found[-1].append(header)
        elif len(found) == 1 and not header.address and are_paired(found[0][0], header):
            found.append([header])
        else:
            raise DecodeError(Reason.MIXED)
    return found


def first_header(units: Sequence[NalUnit], sets: ParameterSets) -> SliceHeader | None:
    """The header that the result of ``headers.head`` ends with, None if there is none or it is malformed."""
    with suppress(DecodeError):
        if units and is_slice(sets.codec, units[-1].kind):
            first = units[-1:]
            return h264_fields(first, sets)[0][0] if sets.codec == "h264" else h265_slices(first, sets)[0]
    return None


def are_paired(first: SliceHeader, second: SliceHeader) -> bool:
    """Whether two successive fields are of one frame."""
    return {first.field, second.field} == {TOP, BOTTOM} and first.frame_num == second.frame_num


def _h264_slice(unit: NalUnit, sets: ParameterSets) -> SliceHeader:
    bits = BitReader(unescape(unit.data[1:]))
    address, _, ident = bits.ue(), bits.ue(), bits.ue()
    sequence, _ = sets.used_by(ident)
    if sequence.separate_planes:
        bits.u(2)
    frame_num = bits.u(sequence.frame_num_bits)
    frame_num_left = bits.left
    field = FRAME
    if not sequence.frames_only and bits.flag():
        field = BOTTOM if bits.flag() else TOP
    idr, reference = unit.kind == H264_IDR, unit.data[0] >> 5 & 3 != 0
    idr_ident = bits.ue() if idr else None
    poc: int | None = None
    poc_modulus = 1 << sequence.poc_bits
    if sequence.poc_type == 0:
        poc = bits.u(sequence.poc_bits)
    elif sequence.poc_type == 2:
        poc_modulus = 2 << sequence.frame_num_bits
        poc = (2 * frame_num - (not reference)) % poc_modulus
    picture = frame_num, field, reference, idr_ident, poc
    return SliceHeader(
        unit.kind, picture, address, sequence, poc, poc_modulus, idr, reference, reference, field, frame_num,
        1 << sequence.frame_num_bits, frame_num_left,
    )  # fmt: skip


def renumbered(unit: NalUnit, header: SliceHeader) -> bytes:
    """The slice of H.264, possibly cut behind its header, with its frame_num lowered by two."""
    payload = unescape(unit.data[1:])
    change = (header.frame_num - 2) % header.frame_num_modulus - header.frame_num
    changed = int.from_bytes(payload, "big") + (change << header.frame_num_left)
    return unit.data[:1] + escape(changed.to_bytes(len(payload), "big"))


def h265_slices(units: Sequence[NalUnit], sets: ParameterSets) -> list[SliceHeader]:
    """The slice segments of a picture of H.265; they may be cut.

    Raises:
        DecodeError: one is malformed, its parameter sets are unknown, the first is missing, or some are of
            another picture.
    """
    found = [_h265_slice(units[0], sets, None)]
    for unit in units[1:]:
        header = _h265_slice(unit, sets, found[0])
        if header.picture != found[0].picture or any(header.address == other.address for other in found):
            raise DecodeError(Reason.MIXED)
        found.append(header)
    return found


def _h265_slice(unit: NalUnit, sets: ParameterSets, first: SliceHeader | None) -> SliceHeader:
    kind = unit.kind
    bits = BitReader(unescape(unit.data[2:]))
    if bits.flag() is not (first is None):
        raise DecodeError(NO_FIRST if first is None else Reason.MIXED)
    discards = H265_FIRST_IRAP <= kind <= H265_LAST_IRAP and bits.flag()
    sequence, picture = sets.used_by(bits.ue())
    dependent, address = False, 0
    if first is not None:
        dependent = picture.dependent_slices and bits.flag()
        address = bits.u(sequence.address_bits)
    poc = 0
    if dependent and first is not None:
        poc = first.poc or 0
    elif kind not in IDR_KINDS:
        bits.u(picture.extra_bits)
        bits.ue()
        bits.u(picture.output_flag + 2 * sequence.separate_planes)
        poc = bits.u(sequence.poc_bits)
    reference = kind not in _SUB_LAYER_NON_REFERENCE
    anchor = unit.data[1] & 7 == 1 and reference and kind not in RADL_KINDS | RASL_KINDS
    return SliceHeader(
        kind, (kind, poc), address, sequence, poc, 1 << sequence.poc_bits, kind in IDR_KINDS, reference,
        anchor, discards=discards,
    )  # fmt: skip
