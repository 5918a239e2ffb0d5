"""H.264 slice headers, as far as loss detection needs them: order, references, and which pictures stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.bitstream import (
    H264_IDR,
    MIXED,
    BitReader,
    NalUnit,
    ParameterSets,
    escape,
    unescape,
)
from edgefirst_ros.video.h264 import H264PictureSet, H264SequenceSet

H264ParameterSets = ParameterSets[H264SequenceSet, H264PictureSet]

P_SLICE, B_SLICE, I_SLICE, SP_SLICE, SI_SLICE = range(5)
FRAME, TOP, BOTTOM = range(3)
_MAX_ENTRIES = 32
_MAX_COMMANDS = 66
"""Of either kind in a header: one for each field kept for reference, an end, and a margin."""


class H264SliceHeader(NamedTuple):
    """A slice header up to the marking of reference pictures (clause 7.3.3).

    Attributes:
        picture: equal in all slices of a field or frame (clause 7.4.1.2.4).
        field: ``FRAME``, ``TOP`` or ``BOTTOM``.
        poc: display order modulo ``poc_modulus``, None for a stream of pic_order_cnt_type 1.
        frame_num_left: bits of the payload after frame_num.
        first_mb: its first macroblock.
        sets: identifier of its picture parameter set.
        idr_ident: tells successive IDR pictures apart.
        lists: how many entries each of both reference lists has.
        changes: by list, how its initial order is changed: (operation, operand).
        marking: (operation, operand, operand) of each memory management command; None where the oldest
            picture leaves when there is no room.
        long_term: an IDR picture is kept as a long-term reference.
        kept: the most pictures kept for reference.
        gaps: the encoder may leave reference pictures out, and count them.
    """

    picture: tuple[int | bool | None, ...]
    idr: bool
    reference: bool
    field: int
    frame_num: int
    frame_num_modulus: int
    poc: int | None
    poc_modulus: int
    size: tuple[int, int]
    frame_num_left: int
    first_mb: int
    sets: int
    idr_ident: int | None
    kind: int
    lists: tuple[int, int]
    changes: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
    marking: tuple[tuple[int, int, int], ...] | None
    long_term: bool
    kept: int
    gaps: bool

    @property
    def resets(self) -> bool:
        """Whether it makes the count of frames begin anew (memory_management_control_operation 5)."""
        return any(command[0] == 5 for command in self.marking or ())


def slice_header(unit: NalUnit, sets: H264ParameterSets) -> H264SliceHeader:
    """Read the header of any slice; the unit may be cut behind it.

    Raises:
        DecodeError: it is malformed, or its parameter sets are unknown.
    """
    bits = BitReader(unescape(unit.data[1:]))
    first_mb, kind, ident = bits.ue(), bits.ue() % 5, bits.ue()
    sequence, picture = sets.used_by(ident)
    if sequence.separate_planes:
        bits.u(2)
    frame_num = bits.u(sequence.frame_num_bits)
    frame_num_left = bits.left
    field = FRAME
    if not sequence.frames_only and bits.flag():
        field = BOTTOM if bits.flag() else TOP
    idr = unit.kind == H264_IDR
    idr_ident = bits.ue() if idr else None
    reference = unit.data[0] >> 5 & 3 != 0
    poc: int | None = None
    poc_modulus = 1 << sequence.poc_bits
    if sequence.poc_type == 0:
        poc = bits.u(sequence.poc_bits)
        if picture.field_order and field == FRAME:
            bits.se()
    elif sequence.poc_deltas:
        for _ in range(1 + (picture.field_order and field == FRAME)):
            bits.se()
    elif sequence.poc_type == 2:
        poc_modulus = 2 << sequence.frame_num_bits
        poc = (2 * frame_num - (not reference)) % poc_modulus
    if picture.redundant:
        bits.ue()
    lists = _list_sizes(bits, kind, picture)
    changes = _changes(bits) if lists[0] else (), _changes(bits) if lists[1] else ()
    if lists[0] and picture.weighted[kind == B_SLICE]:
        _skip_weights(bits, sequence.chroma, lists)
    marking, long_term = _marking(bits, idr=idr) if reference else (None, False)
    return H264SliceHeader(
        (frame_num, field, reference, idr_ident, poc),
        idr,
        reference,
        field,
        frame_num,
        1 << sequence.frame_num_bits,
        poc,
        poc_modulus,
        sequence.size,
        frame_num_left,
        first_mb,
        ident,
        idr_ident,
        kind,
        lists,
        changes,
        marking,
        long_term,
        max(1, sequence.references),
        sequence.gaps,
    )


def are_paired(first: H264SliceHeader, second: H264SliceHeader) -> bool:
    """Whether two successive fields are of one frame."""
    return {first.field, second.field} == {TOP, BOTTOM} and first.frame_num == second.frame_num


def fields(headers: Sequence[H264SliceHeader]) -> list[list[H264SliceHeader]]:
    """The slices of an access unit by field; one group if it is a frame.

    Raises:
        DecodeError: its first slice is missing, or some are of another picture.
    """
    if headers[0].first_mb:
        raise DecodeError("the picture's first slice is missing")
    found = [[headers[0]]]
    for header in headers[1:]:
        if header.picture == found[-1][0].picture:
            found[-1].append(header)
        elif len(found) == 1 and not header.first_mb and are_paired(found[0][0], header):
            found.append([header])
        else:
            raise DecodeError(MIXED)
    return found


def _list_sizes(bits: BitReader, kind: int, picture: H264PictureSet) -> tuple[int, int]:
    if kind in (I_SLICE, SI_SLICE):
        return 0, 0
    if kind == B_SLICE:
        bits.flag()
    first, second = picture.references
    if bits.flag():
        first = bits.ue() + 1
        if kind == B_SLICE:
            second = bits.ue() + 1
    if max(first, second) > _MAX_ENTRIES:
        raise DecodeError("the H.264 slice header is malformed")
    return first, second if kind == B_SLICE else 0


def _changes(bits: BitReader) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    if bits.flag():
        while (operation := bits.ue()) != 3:
            if operation > 3 or len(found) > _MAX_COMMANDS:
                raise DecodeError("the H.264 slice header is malformed")
            found.append((operation, bits.ue()))
    return tuple(found)


def _skip_weights(bits: BitReader, chroma: int, lists: tuple[int, int]) -> None:
    bits.ue()
    if chroma:
        bits.ue()
    for _ in range(sum(lists)):
        for codes in (2, 4) if chroma else (2,):
            if bits.flag():
                for _ in range(codes):
                    bits.se()


def _marking(bits: BitReader, *, idr: bool) -> tuple[tuple[tuple[int, int, int], ...] | None, bool]:
    if idr:
        bits.flag()
        return None, bits.flag()
    if not bits.flag():
        return None, False
    found: list[tuple[int, int, int]] = []
    while operation := bits.ue():
        if operation > 6 or len(found) > _MAX_COMMANDS:
            raise DecodeError("the H.264 slice header is malformed")
        first = bits.ue() if operation != 5 else 0
        found.append((operation, first, bits.ue() if operation == 3 else 0))
    return tuple(found), False


def renumbered(unit: NalUnit, header: H264SliceHeader) -> bytes:
    """The slice, possibly cut behind its header, with its frame_num lowered by two."""
    payload = unescape(unit.data[1:])
    change = (header.frame_num - 2) % header.frame_num_modulus - header.frame_num
    changed = int.from_bytes(payload, "big") + (change << header.frame_num_left)
    return unit.data[:1] + escape(changed.to_bytes(len(payload), "big"))
