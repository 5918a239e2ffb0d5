"""H.265 sequence and picture parameter sets, for loss detection and for parsing slice data."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.bitstream import BitReader, ParameterSets, unescape

MAX_PICTURES = 16
_MAX_SETS = 64
_MAX_TILES = 64
_MAX_SIZE = 1 << 15
_PARSED_PROFILES = frozenset({1, 2, 3})
"""Main, Main 10 and Main Still Picture. Later profiles have extensions that change the syntax of slices."""

ReferenceSet = tuple[tuple[int, bool], ...]
"""A short-term reference picture set in the order of clause 7.4.8: (display order minus the
picture's own, whether the picture itself refers to it)."""


@dataclass(frozen=True, slots=True)
class H265SequenceSet:
    """A sequence parameter set without its VUI (clause 7.3.2.2).

    Attributes:
        parsed: ``h265ctu`` can parse its slices.
        width: luma samples before cropping, like ``height``.
        min_cb: base-2 logarithm of the smallest coding block, like ``ctb``, ``min_tb`` and ``max_tb`` of
            coding tree block, smallest and largest transform block.
        pcm: whether blocks may hold raw samples.
        reorder: how many pictures may precede another in decode order and follow it on display.
        size: width and height in pixels, cropped.
    """

    ident: int
    parsed: bool
    chroma: int
    separate_planes: bool
    width: int
    height: int
    size: tuple[int, int]
    bit_depth: int
    bit_depth_chroma: int
    poc_bits: int
    reorder: int
    min_cb: int
    ctb: int
    min_tb: int
    max_tb: int
    depth_inter: int
    depth_intra: int
    amp: bool
    sao: bool
    pcm: bool
    reference_sets: tuple[ReferenceSet, ...]
    long_term: bool
    long_term_sets: tuple[tuple[int, bool], ...]
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
class H265PictureSet:
    """A picture parameter set (clause 7.3.2.3).

    Attributes:
        tiles: widths of the tile columns but the last and heights of the rows but the last. Empty tuples:
            uniform tiles. None: no tiles.
    """

    ident: int
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
    tile_counts: tuple[int, int]
    sync: bool
    across_slices: bool
    deblocking_override: bool
    deblocking_off: bool
    list_modification: bool
    header_extension: bool


H265ParameterSets = ParameterSets[H265SequenceSet, H265PictureSet]


def parameter_sets() -> H265ParameterSets:
    """An empty collection of H.265 parameter sets."""
    return ParameterSets(sequence_set, picture_set)


def sequence_set(data: bytes) -> H265SequenceSet:
    """Read a sequence parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[2:]))
    bits.u(4)
    sub_layers = bits.u(3)
    profile = _profile(bits, sub_layers)
    ident = bits.ue()
    chroma = bits.ue()
    separate_planes = chroma == 3 and bits.flag()
    width, height = bits.ue(), bits.ue()
    left, right, top, bottom = [bits.ue() for _ in range(4)] if bits.flag() else (0, 0, 0, 0)
    unit_x, unit_y = 2 if chroma in (1, 2) else 1, 2 if chroma == 1 else 1
    size = (width - unit_x * (left + right), height - unit_y * (top + bottom))
    depth, depth_chroma = bits.ue() + 8, bits.ue() + 8
    poc_bits = bits.ue() + 4
    reorder = 0
    for _ in range(sub_layers + 1 if bits.flag() else 1):
        bits.ue()
        reorder = bits.ue()
        bits.ue()
    min_cb = bits.ue() + 3
    ctb = min_cb + bits.ue()
    min_tb = bits.ue() + 2
    max_tb = min_tb + bits.ue()
    inter, intra = bits.ue(), bits.ue()
    if poc_bits > 16 or not (4 <= ctb <= 6 and min_tb < min_cb and max_tb <= min(ctb, 5)):
        raise DecodeError("the H.265 sequence parameter set is malformed")
    if max(depth, depth_chroma) > 16 or any(
        not 0 < side <= _MAX_SIZE or side % (1 << min_cb) for side in (width, height)
    ):
        raise DecodeError("the H.265 sequence parameter set is malformed")
    if bits.flag() and bits.flag():
        _skip_scaling_lists(bits)
    amp, sao, pcm = bits.flag(), bits.flag(), bits.flag()
    if pcm:
        bits.u(8)
        for _ in range(2):
            bits.ue()
        bits.flag()
    sets: list[ReferenceSet] = []
    for _ in range(min(bits.ue(), _MAX_SETS)):
        sets.append(reference_set(bits, sets, in_slice=False))
    long_term = bits.flag()
    long_terms = [(bits.u(poc_bits), bits.flag()) for _ in range(bits.ue())] if long_term else []
    return H265SequenceSet(
        ident, profile in _PARSED_PROFILES and chroma <= 1, chroma, separate_planes, width, height, size,
        depth, depth_chroma, poc_bits, reorder, min_cb, ctb, min_tb, max_tb, inter, intra, amp, sao, pcm,
        tuple(sets), long_term, tuple(long_terms), bits.flag(),
    )  # fmt: skip


def _profile(bits: BitReader, sub_layers: int) -> int:
    bits.u(4)
    profile = bits.u(5)
    bits.u(88)
    present = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.u(2 * (8 - sub_layers))
    for has_profile, has_level in present:
        bits.u(88 * has_profile + 8 * has_level)
    return profile


def picture_set(data: bytes) -> H265PictureSet:
    """Read a picture parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[2:]))
    ident, sequence = bits.ue(), bits.ue()
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
        if max(counts) > _MAX_TILES:
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
        _skip_scaling_lists(bits)
    modification = bits.flag()
    bits.ue()
    return H265PictureSet(
        ident, sequence, dependent, output, extra, hiding, init, references, qp, skip, delta, delta_depth,
        chroma_qp, weighted, bypass, tiles, counts, sync, across, override, off, modification, bits.flag(),
    )  # fmt: skip


def _skip_scaling_lists(bits: BitReader) -> None:
    """Scaling list data (clause 7.3.4)."""
    for size in range(4):
        for _ in range(0, 6, 3 if size == 3 else 1):
            if not bits.flag():
                bits.ue()
                continue
            for _ in range(min(64, 1 << (4 + 2 * size)) + (size > 1)):
                bits.se()


def reference_set(bits: BitReader, known: list[ReferenceSet], *, in_slice: bool) -> ReferenceSet:
    """A short-term reference picture set (clause 7.3.7)."""
    if known and bits.flag():
        return _predicted_set(bits, known, in_slice=in_slice)
    counts = [bits.ue(), bits.ue()]
    if max(counts) > MAX_PICTURES:
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
