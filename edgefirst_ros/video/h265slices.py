"""H.265 slice headers: the start of one for loss detection, all of it for parsing slice data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.bitstream import (
    H265_FIRST_IRAP,
    H265_LAST_IRAP,
    MIXED,
    BitReader,
    NalUnit,
    unescape,
)
from edgefirst_ros.video.h265sets import (
    MAX_PICTURES,
    H265ParameterSets,
    H265PictureSet,
    H265SequenceSet,
    ReferenceSet,
    reference_set,
)

IDR_KINDS = frozenset({19, 20})
CRA_KIND = 21
RADL_KINDS = frozenset({6, 7})
RASL_KINDS = frozenset({8, 9})
B_SLICE, P_SLICE, I_SLICE = range(3)
_LAST_SUB_LAYER_NON_REFERENCE = 14
_MAX_REFERENCES = 15
_MAX_HEADER_BYTES = 4096
_SHORT_BYTES = 64
"""More than a header takes up to its display order."""


@dataclass(frozen=True, slots=True)
class LongTerm:
    """A long-term reference: its display order modulo the stream's, and how many cycles back if stated."""

    poc: int
    used: bool
    cycles: int | None


@dataclass(frozen=True, slots=True)
class H265SliceHeader:
    """The header of a picture's first slice up to its references (clause 7.3.6).

    Attributes:
        poc: display order modulo ``poc_modulus``.
        anchor: later pictures count their display order from this one (clause 8.3.1).
        discards: the encoder asks to discard earlier pictures that were not shown yet.
        judgeable: ``H265Syntax`` can parse its slices.
        size: of the picture, width and height in pixels.
    """

    kind: int
    poc: int
    poc_modulus: int
    references: ReferenceSet
    long_term: tuple[LongTerm, ...]
    anchor: bool
    discards: bool
    judgeable: bool
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class H265Segment:
    """A complete slice segment header (clause 7.3.6).

    Attributes:
        address: of its first coding tree block, in raster order.
        data_at: where its data begins in the unescaped payload.
    """

    first: bool
    dependent: bool
    address: int
    kind: int
    qp: int
    init_flag: bool
    sao: tuple[bool, bool]
    references: tuple[int, int]
    zero_mvd: bool
    merges: int
    data_at: int


def nearest(poc: int, anchor: int, modulus: int) -> int:
    """The full display order nearest to ``anchor`` whose remainder is ``poc`` (clause 8.3.1)."""
    ahead = (poc - anchor) % modulus
    return anchor + (ahead if ahead < modulus // 2 else ahead - modulus)


def referenced(header: H265SliceHeader, poc: int) -> tuple[set[int], set[int]]:
    """Display orders of the pictures that one refers to, and of those that later ones may (clause 8.3.2)."""
    needed = {poc + delta for delta, used in header.references if used}
    kept = {poc + delta for delta, _ in header.references}
    for entry in header.long_term:
        if entry.cycles is None:
            full = poc - ((poc - entry.poc) % header.poc_modulus or header.poc_modulus)
        else:
            full = poc - entry.cycles * header.poc_modulus - poc % header.poc_modulus + entry.poc
        kept.add(full)
        if entry.used:
            needed.add(full)
    return needed, kept


def slice_header(unit: NalUnit, sets: H265ParameterSets) -> H265SliceHeader:
    """Read the header of a picture's first slice.

    Raises:
        DecodeError: it is malformed, no first slice, or its parameter sets are unknown.
    """
    bits = BitReader(unescape(unit.data[2:]))
    if not bits.flag():
        raise DecodeError("the picture's first slice is missing")
    discards = H265_FIRST_IRAP <= unit.kind <= H265_LAST_IRAP and bits.flag()
    sequence, picture = sets.used_by(bits.ue())
    _, poc, references, long_term = _references(bits, unit.kind, sequence, picture)
    base_sub_layer = unit.data[1] & 7 == 1
    sub_layer_reference = unit.kind > _LAST_SUB_LAYER_NON_REFERENCE or unit.kind % 2 == 1
    anchor = base_sub_layer and sub_layer_reference and unit.kind not in RADL_KINDS | RASL_KINDS
    return H265SliceHeader(
        unit.kind,
        poc,
        1 << sequence.poc_bits,
        references,
        long_term,
        anchor,
        discards,
        sequence.parsed and not sequence.pcm,
        sequence.size,
    )


def addresses(slices: Sequence[NalUnit], header: H265SliceHeader, sets: H265ParameterSets) -> frozenset[int]:
    """Where a picture's slice segments begin, given all of them and the header of the first.

    Raises:
        DecodeError: a header is malformed, or some are of another picture.
    """
    found = {0}
    for unit in slices[1:]:
        bits = BitReader(unescape(unit.data[2:_SHORT_BYTES]))
        if bits.flag():
            raise DecodeError(MIXED)
        if H265_FIRST_IRAP <= unit.kind <= H265_LAST_IRAP:
            bits.flag()
        sequence, picture = sets.used_by(bits.ue())
        dependent = picture.dependent_slices and bits.flag()
        address = bits.u((sequence.columns * sequence.rows - 1).bit_length())
        poc = header.poc
        if not dependent and unit.kind not in IDR_KINDS:
            bits.u(picture.extra_bits)
            bits.ue()
            bits.u(picture.output_flag + 2 * sequence.separate_planes)
            poc = bits.u(sequence.poc_bits)
        if address in found or (unit.kind, poc) != (header.kind, header.poc):
            raise DecodeError(MIXED)
        found.add(address)
    return frozenset(found)


def _references(
    bits: BitReader, kind: int, sequence: H265SequenceSet, picture: H265PictureSet
) -> tuple[int, int, ReferenceSet, tuple[LongTerm, ...]]:
    """The part of a slice header that both readers need: slice type, display order, references."""
    bits.u(picture.extra_bits)
    slice_type = bits.ue()
    bits.u(picture.output_flag + 2 * sequence.separate_planes)
    if kind in IDR_KINDS:
        return slice_type, 0, (), ()
    poc = bits.u(sequence.poc_bits)
    short_term = _short_terms(bits, sequence)
    return slice_type, poc, short_term, _long_terms(bits, sequence) if sequence.long_term else ()


def _short_terms(bits: BitReader, sequence: H265SequenceSet) -> ReferenceSet:
    known = sequence.reference_sets
    if not bits.flag():
        return reference_set(bits, list(known), in_slice=True)
    index = bits.u((len(known) - 1).bit_length())
    if index >= len(known):
        raise DecodeError("the H.265 slice names an unknown reference picture set")
    return known[index]


def _long_terms(bits: BitReader, sequence: H265SequenceSet) -> tuple[LongTerm, ...]:
    listed = sequence.long_term_sets
    from_sequence = bits.ue() if listed else 0
    count = from_sequence + bits.ue()
    if count > 2 * MAX_PICTURES:
        raise DecodeError("the H.265 slice header is malformed")
    found: list[LongTerm] = []
    cycles = 0
    for index in range(count):
        if index < from_sequence:
            place = bits.u((len(listed) - 1).bit_length()) if len(listed) > 1 else 0
            if place >= len(listed):
                raise DecodeError("the H.265 slice names an unknown long-term picture")
            poc, used = listed[place]
        else:
            poc, used = bits.u(sequence.poc_bits), bits.flag()
        if index in (0, from_sequence):
            cycles = 0
        exact = bits.flag()
        # Clause 7.4.7.1: the cycles of one entry count on from those of the entry before it.
        cycles += bits.ue() if exact else 0
        found.append(LongTerm(poc, used, cycles if exact else None))
    return tuple(found)


class SegmentReader:
    """Reads complete slice segment headers; a dependent one continues the one read before it.

    Args:
        sets: the parameter sets in force.
    """

    def __init__(self, sets: H265ParameterSets) -> None:
        self._sets = sets
        self._before: H265Segment | None = None

    def read(self, kind: int, payload: bytes) -> tuple[H265SequenceSet, H265PictureSet, H265Segment] | None:
        """The header of a slice segment with its parameter sets, None if its profile is not supported.

        Args:
            kind: its NAL unit type.
            payload: without the two bytes of NAL unit header, unescaped.

        Raises:
            DecodeError: it is malformed, or its parameter sets are missing.
        """
        bits = BitReader(payload[:_MAX_HEADER_BYTES])
        total = bits.left
        first = bits.flag()
        if H265_FIRST_IRAP <= kind <= H265_LAST_IRAP:
            bits.flag()
        sps, pps = self._sets.used_by(bits.ue())
        if not sps.parsed:
            return None
        dependent, address = False, 0
        if not first:
            dependent = pps.dependent_slices and bits.flag()
            address = bits.u((sps.columns * sps.rows - 1).bit_length())
        found = self._before if dependent else _independent(bits, kind, sps, pps)
        if found is None:
            raise DecodeError("a slice segment before it is missing")
        if pps.tiles is not None or pps.sync:
            count = bits.ue()
            size = bits.ue() + 1 if count else 0
            if count > sps.columns * sps.rows or size > 32:
                raise DecodeError("the H.265 slice header is malformed")
            bits.u(count * size)
        if pps.header_extension:
            bits.u(8 * bits.ue())
        if not bits.flag() or bits.u(bits.left % 8):
            raise DecodeError("the H.265 slice header is malformed")
        data_at = (total - bits.left) // 8
        self._before = replace(found, first=first, dependent=dependent, address=address, data_at=data_at)
        return sps, pps, self._before


def _independent(bits: BitReader, kind: int, sps: H265SequenceSet, pps: H265PictureSet) -> H265Segment:
    slice_type, _, short_term, long_term = _references(bits, kind, sps, pps)
    if slice_type > I_SLICE:
        raise DecodeError("the H.265 slice header is malformed")
    used = sum(used for _, used in short_term) + sum(entry.used for entry in long_term)
    temporal = kind not in IDR_KINDS and sps.temporal_mvp and bits.flag()
    sao = (False, False)
    if sps.sao:
        luma = bits.flag()
        sao = luma, sps.chroma != 0 and bits.flag()
    references, zero_mvd, init_flag, merges = (0, 0), False, False, 1
    if slice_type != I_SLICE:
        references = pps.references
        if bits.flag():
            references = bits.ue() + 1, bits.ue() + 1 if slice_type == B_SLICE else 1
        if slice_type == P_SLICE:
            references = references[0], 0
        if max(references) > _MAX_REFERENCES:
            raise DecodeError("the H.265 slice header is malformed")
        if pps.list_modification and used > 1:
            for count in references[: 2 if slice_type == B_SLICE else 1]:
                if bits.flag():
                    bits.u(count * (used - 1).bit_length())
        if slice_type == B_SLICE:
            zero_mvd = bits.flag()
        if pps.cabac_init:
            init_flag = bits.flag()
        if temporal:
            from_first = bits.flag() if slice_type == B_SLICE else True
            if references[0 if from_first else 1] > 1:
                bits.ue()
        if pps.weighted[slice_type == B_SLICE]:
            _skip_weights(bits, sps, references)
        merges = 5 - bits.ue()
        if not 1 <= merges <= 5:
            raise DecodeError("the H.265 slice header is malformed")
    qp = pps.init_qp + bits.se()
    if not -6 * (sps.bit_depth - 8) <= qp <= 51:
        raise DecodeError("the H.265 slice header is malformed")
    if pps.slice_chroma_qp:
        bits.se()
        bits.se()
    off = pps.deblocking_off
    if pps.deblocking_override and bits.flag():
        off = bits.flag()
        if not off:
            bits.se()
            bits.se()
    if pps.across_slices and (any(sao) or not off):
        bits.flag()
    return H265Segment(False, False, 0, slice_type, qp, init_flag, sao, references, zero_mvd, merges, 0)


def _skip_weights(bits: BitReader, sps: H265SequenceSet, references: tuple[int, int]) -> None:
    bits.ue()
    if sps.chroma:
        bits.se()
    for count in references:
        luma = [bits.flag() for _ in range(count)]
        chroma = [bits.flag() if sps.chroma else False for _ in range(count)]
        for has_luma, has_chroma in zip(luma, chroma, strict=True):
            for _ in range(2 * has_luma + 4 * has_chroma):
                bits.se()
