"""H.265 parameter sets and slice segment headers in full: all that parsing the slice data rests on."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.video import h265
from edgefirst_ros.video.annexb import H265_FIRST_IRAP, unescape
from edgefirst_ros.video.bits import BitReader

_LAST_IRAP = 23
_PLAIN_PROFILES = frozenset({1, 2, 3})
"""Main, Main 10 and Main Still Picture: the later ones have extensions that change how slices are coded."""
_MOST_REFERENCES = 15
B_SLICE, P_SLICE, I_SLICE = range(3)


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence parameter set (clause 7.3.2.2), without its VUI; sizes as base-2 logarithms."""

    plain: h265.SequenceSet
    chroma: int
    width: int
    height: int
    bit_depth: int
    bit_depth_chroma: int
    min_cb: int
    ctb: int
    min_tb: int
    max_tb: int
    depth_inter: int
    depth_intra: int
    amp: bool
    sao: bool
    pcm: tuple[int, int, int, int] | None
    temporal_mvp: bool

    @property
    def columns(self) -> int:
        """Width in coding tree blocks."""
        return -(-self.width >> self.ctb)

    @property
    def rows(self) -> int:
        """Height in coding tree blocks."""
        return -(-self.height >> self.ctb)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture parameter set (clause 7.3.2.3)."""

    sequence: int
    dependent_slices: bool
    output_flag: bool
    extra_bits: int
    sign_hiding: bool
    cabac_init: bool
    references: tuple[int, int]
    init_qp: int
    transform_skip: bool
    qp_delta: bool
    qp_delta_depth: int
    slice_chroma_qp: bool
    weighted: tuple[bool, bool]
    bypass: bool
    tiles: tuple[tuple[int, ...], tuple[int, ...]] | None
    """Widths of the columns but the last and heights of the rows but the last; empty tuples: uniform."""
    tile_counts: tuple[int, int]
    sync: bool
    across_slices: bool
    deblocking_override: bool
    deblocking_off: bool
    list_modification: bool
    header_extension: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A slice segment header (clause 7.3.6); ``data_at`` is where its data begins in the unescaped payload.

    ``entries`` are the sizes of its substreams but the last, in escaped bytes.
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
    entries: tuple[int, ...]
    data_at: int


def sequence_set(data: bytes) -> tuple[int, Sequence | None]:
    """Read a sequence parameter set: its identifier, and None if slices of its profile are coded otherwise.

    Raises:
        DecodeError: it is malformed.
    """
    plain = h265.sequence_set(data)
    bits = BitReader(unescape(data[2:]))
    bits.u(4)
    sub_layers = bits.u(3)
    bits.u(4)
    profile = bits.u(5)
    if profile not in _PLAIN_PROFILES:
        return plain.ident, None
    bits.u(88)
    present = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.u(2 * (8 - sub_layers))
    for one, other in present:
        bits.u(88 * one + 8 * other)
    bits.ue()
    chroma = bits.ue()
    if chroma > 1:
        return plain.ident, None
    width, height = bits.ue(), bits.ue()
    for _ in range(4 if bits.flag() else 0):
        bits.ue()
    depth, depth_chroma = bits.ue() + 8, bits.ue() + 8
    bits.ue()
    for _ in range(3 * (sub_layers + 1 if bits.flag() else 1)):
        bits.ue()
    min_cb = bits.ue() + 3
    ctb = min_cb + bits.ue()
    min_tb = bits.ue() + 2
    max_tb = min_tb + bits.ue()
    inter, intra = bits.ue(), bits.ue()
    if bits.flag() and bits.flag():
        h265.skip_scaling_lists(bits)
    amp, sao = bits.flag(), bits.flag()
    pcm = None
    if bits.flag():
        pcm = bits.u(4) + 1, bits.u(4) + 1, bits.ue(), bits.ue()
        bits.flag()
    sets: list[h265.ReferenceSet] = []
    for _ in range(min(bits.ue(), 64)):
        sets.append(h265.reference_set(bits, sets, in_slice=False))
    if bits.flag():
        for _ in range(bits.ue()):
            bits.u(plain.poc_bits + 1)
    fits = 4 <= ctb <= 6 and min_tb < min_cb and max_tb <= min(ctb, 5) and max(depth, depth_chroma) <= 16
    if not (fits and 0 < width <= 1 << 15 and 0 < height <= 1 << 15):
        raise DecodeError("the H.265 sequence parameter set is malformed")
    if width % (1 << min_cb) or height % (1 << min_cb):
        raise DecodeError("the H.265 sequence parameter set is malformed")
    blocks = min_cb, ctb, min_tb, max_tb, inter, intra
    samples = chroma, width, height, depth, depth_chroma
    return plain.ident, Sequence(plain, *samples, *blocks, amp, sao, pcm, bits.flag())


def picture_set(data: bytes) -> tuple[int, Picture]:
    """Read a picture parameter set; its identifier comes first.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[2:]))
    ident, sequence_ident = bits.ue(), bits.ue()
    dependent, output, extra = bits.flag(), bits.flag(), bits.u(3)
    hiding, init = bits.flag(), bits.flag()
    references = bits.ue() + 1, bits.ue() + 1
    qp = 26 + bits.se()
    bits.flag()
    skip, delta = bits.flag(), bits.flag()
    delta_depth = bits.ue() if delta else 0
    bits.se()
    bits.se()
    chroma_qp = bits.flag()
    weighted = bits.flag(), bits.flag()
    bypass, tiled, sync = bits.flag(), bits.flag(), bits.flag()
    tiles: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    counts = 1, 1
    if tiled:
        counts = bits.ue() + 1, bits.ue() + 1
        if max(counts) > 64:
            raise DecodeError("the H.265 picture parameter set is malformed")
        tiles = (), ()
        if not bits.flag():
            columns = tuple(bits.ue() + 1 for _ in range(counts[0] - 1))
            tiles = columns, tuple(bits.ue() + 1 for _ in range(counts[1] - 1))
        bits.flag()
    across = bits.flag()
    override = off = False
    if bits.flag():
        override, off = bits.flag(), bits.flag()
        if not off:
            bits.se()
            bits.se()
    if bits.flag():
        h265.skip_scaling_lists(bits)
    modification = bits.flag()
    bits.ue()
    found = Picture(
        sequence_ident, dependent, output, extra, hiding, init, references, qp, skip, delta, delta_depth,
        chroma_qp, weighted, bypass, tiles, counts, sync, across, override, off, modification, bits.flag(),
    )  # fmt: skip
    return ident, found


class Headers:
    """Reads slice segment headers by the parameter sets in force; a dependent one continues one before."""

    def __init__(self) -> None:
        self.sequences: dict[int, Sequence | None] = {}
        self.pictures: dict[int, Picture] = {}
        self._before: Segment | None = None

    def read(self, kind: int, payload: bytes) -> tuple[Sequence, Picture, Segment] | None:
        """The sets and header of a slice segment; None if its profile is not understood.

        Args:
            kind: its NAL unit type.
            payload: without the two bytes of NAL unit header, unescaped.

        Raises:
            DecodeError: it is malformed, or its parameter sets are missing.
        """
        bits = BitReader(payload[:4096])
        total = bits.left
        first = bits.flag()
        if H265_FIRST_IRAP <= kind <= _LAST_IRAP:
            bits.flag()
        pps = self.pictures.get(bits.ue())
        if pps is None or pps.sequence not in self.sequences:
            raise DecodeError("the picture's parameter sets are missing")
        sps = self.sequences[pps.sequence]
        if sps is None:
            return None
        dependent, address = False, 0
        if not first:
            dependent = pps.dependent_slices and bits.flag()
            address = bits.u((sps.columns * sps.rows - 1).bit_length())
        if dependent:
            if self._before is None:
                raise DecodeError("a slice segment before it is missing")
            found = self._before
        else:
            found = self._independent(bits, kind, sps, pps)
        entries: tuple[int, ...] = ()
        if pps.tiles is not None or pps.sync:
            count = bits.ue()
            if count > sps.columns * sps.rows:
                raise DecodeError("the H.265 slice header is malformed")
            size = bits.ue() + 1 if count else 0
            if size > 32:
                raise DecodeError("the H.265 slice header is malformed")
            entries = tuple(bits.u(size) + 1 for _ in range(count))
        if pps.header_extension:
            bits.u(8 * bits.ue())
        if not bits.flag() or bits.u((bits.left) % 8):
            raise DecodeError("the H.265 slice header is malformed")
        segment = Segment(
            first, dependent, address, found.kind, found.qp, found.init_flag, found.sao, found.references,
            found.zero_mvd, found.merges, entries, (total - bits.left) // 8,
        )  # fmt: skip
        self._before = segment
        return sps, pps, segment

    @staticmethod
    def _independent(bits: BitReader, kind: int, sps: Sequence, pps: Picture) -> Segment:
        bits.u(pps.extra_bits)
        slice_kind = bits.ue()
        if slice_kind > I_SLICE:
            raise DecodeError("the H.265 slice header is malformed")
        bits.u(pps.output_flag)
        used, temporal = 0, False
        if kind not in h265.IDR_KINDS:
            bits.u(sps.plain.poc_bits)
            used = sum(used for _, used in h265.slice_references(bits, sps.plain))
            if sps.plain.long_term:
                used += sum(entry.used for entry in h265.long_terms(bits, sps.plain))
            temporal = sps.temporal_mvp and bits.flag()
        sao = (False, False)
        if sps.sao:
            luma = bits.flag()
            sao = luma, sps.chroma != 0 and bits.flag()
        references, zero_mvd, init_flag, merges = (0, 0), False, False, 1
        if slice_kind != I_SLICE:
            references = pps.references
            if bits.flag():
                references = bits.ue() + 1, bits.ue() + 1 if slice_kind == B_SLICE else 1
            if slice_kind == P_SLICE:
                references = references[0], 0
            if max(references) > _MOST_REFERENCES:
                raise DecodeError("the H.265 slice header is malformed")
            if pps.list_modification and used > 1:
                for count in references[: 2 if slice_kind == B_SLICE else 1]:
                    if bits.flag():
                        bits.u(count * (used - 1).bit_length())
            if slice_kind == B_SLICE:
                zero_mvd = bits.flag()
            if pps.cabac_init:
                init_flag = bits.flag()
            if temporal:
                from_first = bits.flag() if slice_kind == B_SLICE else True
                if references[0 if from_first else 1] > 1:
                    bits.ue()
            if pps.weighted[slice_kind == B_SLICE]:
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
        return Segment(False, False, 0, slice_kind, qp, init_flag, sao, references, zero_mvd, merges, (), 0)


def _skip_weights(bits: BitReader, sps: Sequence, references: tuple[int, int]) -> None:
    bits.ue()
    if sps.chroma:
        bits.se()
    for count in references:
        luma = [bits.flag() for _ in range(count)]
        chroma = [bits.flag() if sps.chroma else False for _ in range(count)]
        for has_luma, has_chroma in zip(luma, chroma, strict=True):
            for _ in range(2 * has_luma + 4 * has_chroma):
                bits.se()
