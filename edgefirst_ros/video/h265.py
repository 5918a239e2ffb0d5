"""H.265 parameter sets and slice headers: as much of them as tells what a picture builds on."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.video.annexb import H265_FIRST_IRAP, NalUnit, unescape
from edgefirst_ros.video.bits import BitReader

IDR_KINDS = frozenset({19, 20})
CRA_KIND = 21
RADL_KINDS = frozenset({6, 7})
RASL_KINDS = frozenset({8, 9})
_LAST_IRAP = 23
_LAST_SUB_LAYER_NON_REFERENCE = 14
_MAX_SETS = 64
_MAX_PICTURES = 16

ReferenceSet = tuple[tuple[int, bool], ...]
"""A short-term reference picture set in the order of clause 7.4.8: (display order minus the
picture's own, whether the picture itself refers to it)."""


@dataclass(frozen=True, slots=True)
class SequenceSet:
    """A sequence parameter set (clause 7.3.2.2); ``reorder`` and ``size`` as in ``h264.SequenceSet``."""

    ident: int
    separate_planes: bool
    poc_bits: int
    reorder: int
    reference_sets: tuple[ReferenceSet, ...]
    long_term: bool
    long_term_sets: tuple[tuple[int, bool], ...]
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PictureSet:
    """A picture parameter set (clause 7.3.2.3)."""

    sequence: int
    output_flag: bool
    extra_bits: int


@dataclass(frozen=True, slots=True)
class LongTerm:
    """A long-term reference: display order modulo ``modulus``, or, with ``cycles``, cycles further back."""

    poc: int
    used: bool
    cycles: int | None


@dataclass(frozen=True, slots=True)
class SliceHeader:
    """What the first slice says of its picture (clause 7.3.6); ``poc`` modulo ``poc_modulus``.

    ``anchor``: later pictures count their display order from this one (clause 8.3.1). ``discards``: the
    encoder asks for earlier pictures not yet shown to be thrown away.
    """

    kind: int
    poc: int
    poc_modulus: int
    references: ReferenceSet
    long_term: tuple[LongTerm, ...]
    anchor: bool
    discards: bool
    size: tuple[int, int]


def sequence_set(data: bytes) -> SequenceSet:
    """Read a sequence parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[2:]))
    bits.u(4)
    sub_layers = bits.u(3)
    bits.flag()
    _skip_profile(bits, sub_layers)
    ident = bits.ue()
    chroma = bits.ue()
    separate_planes = chroma == 3 and bits.flag()
    width, height = bits.ue(), bits.ue()
    left, right, top, bottom = [bits.ue() for _ in range(4)] if bits.flag() else (0, 0, 0, 0)
    unit_x, unit_y = 2 if chroma in (1, 2) else 1, 2 if chroma == 1 else 1
    size = (width - unit_x * (left + right), height - unit_y * (top + bottom))
    for _ in range(2):
        bits.ue()
    poc_bits = bits.ue() + 4
    if poc_bits > 16:
        raise DecodeError("the H.265 sequence parameter set is malformed")
    reorder = 0
    for _ in range(sub_layers + 1 if bits.flag() else 1):
        bits.ue()
        reorder = bits.ue()
        bits.ue()
    _skip_coding_tools(bits)
    sets: list[ReferenceSet] = []
    for _ in range(min(bits.ue(), _MAX_SETS)):
        sets.append(reference_set(bits, sets, in_slice=False))
    long_term = bits.flag()
    long_terms = [(bits.u(poc_bits), bits.flag()) for _ in range(bits.ue())] if long_term else []
    long = long_term, tuple(long_terms)
    return SequenceSet(ident, separate_planes, poc_bits, reorder, tuple(sets), *long, size)


def _skip_profile(bits: BitReader, sub_layers: int) -> None:
    bits.u(96)
    present = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.u(2 * (8 - sub_layers))
    for profile, level in present:
        bits.u(88 * profile + 8 * level)


def _skip_coding_tools(bits: BitReader) -> None:
    for _ in range(6):
        bits.ue()
    if bits.flag() and bits.flag():
        skip_scaling_lists(bits)
    bits.u(2)
    if bits.flag():
        bits.u(8)
        for _ in range(2):
            bits.ue()
        bits.flag()


def skip_scaling_lists(bits: BitReader) -> None:
    """Pass over scaling list data (clause 7.3.4)."""
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.flag():
                bits.ue()
                continue
            for _ in range(min(64, 1 << (4 + 2 * size)) + (size > 1)):
                bits.se()


def reference_set(bits: BitReader, known: list[ReferenceSet], *, in_slice: bool) -> ReferenceSet:
    """Read a short-term reference picture set (clause 7.3.7)."""
    if known and bits.flag():
        return _predicted_set(bits, known, in_slice=in_slice)
    counts = [bits.ue(), bits.ue()]
    if max(counts) > _MAX_PICTURES:
        raise DecodeError("the H.265 reference picture set is malformed")
    found = []
    for sign, count in zip((-1, 1), counts, strict=True):
        delta = 0
        for _ in range(count):
            delta += sign * (bits.ue() + 1)
            found.append((delta, bits.flag()))
    return tuple(found)


def _predicted_set(bits: BitReader, known: list[ReferenceSet], *, in_slice: bool) -> ReferenceSet:
    back = bits.ue() + 1 if in_slice else 1
    if back > len(known):
        raise DecodeError("the H.265 reference picture set is malformed")
    sign = -1 if bits.flag() else 1
    shift = sign * (bits.ue() + 1)
    found = []
    for delta in [*(delta for delta, _ in known[-back]), 0]:
        used = bits.flag()
        kept = used or bits.flag()
        if kept and delta + shift:
            found.append((delta + shift, used))
    # Clause 7.4.8 lists earlier pictures before later ones, the nearest first.
    return tuple(sorted(found, key=lambda entry: (entry[0] > 0, abs(entry[0]))))


def nearest(poc: int, anchor: int, modulus: int) -> int:
    """The display order nearest to ``anchor`` that is ``poc`` modulo ``modulus`` (clause 8.3.1)."""
    ahead = (poc - anchor) % modulus
    return anchor + (ahead if ahead < modulus // 2 else ahead - modulus)


def references(header: SliceHeader, poc: int) -> tuple[set[int], set[int]]:
    """The display orders that a picture refers to, and those that later pictures may (clause 8.3.2)."""
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


class ParameterSets:
    """The parameter sets in force, by their identifiers."""

    def __init__(self) -> None:
        self._sequence: dict[int, SequenceSet] = {}
        self._picture: dict[int, PictureSet] = {}

    def add_sequence(self, data: bytes) -> int:
        """Take a sequence parameter set; its identifier.

        Raises:
            DecodeError: it is malformed.
        """
        found = sequence_set(data)
        self._sequence[found.ident] = found
        return found.ident

    def add_picture(self, data: bytes) -> int:
        """Take a picture parameter set; its identifier.

        Raises:
            DecodeError: it is malformed.
        """
        bits = BitReader(unescape(data[2:64]))
        ident, sequence = bits.ue(), bits.ue()
        bits.flag()
        self._picture[ident] = PictureSet(sequence, bits.flag(), bits.u(3))
        return ident

    def slice_header(self, unit: NalUnit) -> SliceHeader:
        """Read the header of a picture's first slice.

        Raises:
            DecodeError: it is malformed, starts amid a picture, or its parameter sets are unknown.
        """
        bits = BitReader(unescape(unit.data[2:]))
        if not bits.flag():
            raise DecodeError("the picture's first slice is missing")
        discards = H265_FIRST_IRAP <= unit.kind <= _LAST_IRAP and bits.flag()
        picture = self._picture.get(bits.ue())
        sequence = self._sequence.get(picture.sequence) if picture else None
        if picture is None or sequence is None:
            raise DecodeError("the picture's parameter sets are missing")
        bits.u(picture.extra_bits)
        bits.ue()
        bits.u(picture.output_flag + 2 * sequence.separate_planes)
        poc = 0
        references: ReferenceSet = ()
        long_term: tuple[LongTerm, ...] = ()
        if unit.kind not in IDR_KINDS:
            poc = bits.u(sequence.poc_bits)
            references = slice_references(bits, sequence)
            long_term = long_terms(bits, sequence) if sequence.long_term else ()
        base_sub_layer = unit.data[1] & 7 == 1
        sub_layer_reference = unit.kind > _LAST_SUB_LAYER_NON_REFERENCE or unit.kind % 2 == 1
        anchor = base_sub_layer and sub_layer_reference and unit.kind not in RADL_KINDS | RASL_KINDS
        modulus, size = 1 << sequence.poc_bits, sequence.size
        return SliceHeader(unit.kind, poc, modulus, references, long_term, anchor, discards, size)


def slice_references(bits: BitReader, sequence: SequenceSet) -> ReferenceSet:
    """The short-term references of a slice, its own or some that its sequence parameter set lists."""
    known = sequence.reference_sets
    if not bits.flag():
        return reference_set(bits, list(known), in_slice=True)
    index = bits.u((len(known) - 1).bit_length()) if len(known) > 1 else 0
    if index >= len(known):
        raise DecodeError("the H.265 slice names an unknown reference picture set")
    return known[index]


def long_terms(bits: BitReader, sequence: SequenceSet) -> tuple[LongTerm, ...]:
    """The long-term references of a slice."""
    listed = sequence.long_term_sets
    from_sequence = bits.ue() if listed else 0
    count = from_sequence + bits.ue()
    if count > 2 * _MAX_PICTURES:
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
