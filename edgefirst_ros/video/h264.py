"""H.264 sequence and picture parameter sets, as far as loss detection needs them."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.bitstream import BitReader, unescape

_HIGH_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_BASELINE = 66
_EXTENDED_SAR = 255
_MAX_PICTURES = 16


@dataclass(frozen=True, slots=True)
class H264SequenceSet:
    """A sequence parameter set (clause 7.3.2.1.1).

    Attributes:
        chroma: chroma_format_idc, 0 where the colour planes are coded apart.
        poc_deltas: whether slices of pic_order_cnt_type 1 carry differences.
        references: the most pictures kept for reference.
        gaps: the encoder may leave reference pictures out, and count them.
        reorder: how many pictures may precede another in decode order and follow it on display, None if the
            stream does not say.
        size: width and height in pixels, cropped.
        columns: macroblocks in a row.
        rows: of macroblocks, in a frame.
        rows_at: where the code of their number begins in the set's bits, and where it ends.
    """

    ident: int
    separate_planes: bool
    chroma: int
    frame_num_bits: int
    poc_type: int
    poc_bits: int
    poc_deltas: bool
    references: int
    gaps: bool
    frames_only: bool
    reorder: int | None
    size: tuple[int, int]
    columns: int
    rows: int
    rows_at: tuple[int, int]


@dataclass(frozen=True, slots=True)
class H264PictureSet:
    """A picture parameter set (clause 7.3.2.2).

    Attributes:
        field_order: slices of frames say how far apart the two fields are shown.
        references: default numbers of entries of both lists.
        weighted: for P slices and, explicitly, for B slices.
        redundant: slices may say that they are copies.
        cabac: slices are coded by CABAC.
        init_qp: the quantiser that slices are relative to.
        deblocking: slices say whether they are deblocked.
    """

    ident: int
    sequence: int
    field_order: bool
    references: tuple[int, int]
    weighted: tuple[bool, bool]
    redundant: bool
    cabac: bool
    init_qp: int
    deblocking: bool


def sequence_set(data: bytes) -> H264SequenceSet:
    """Read a sequence parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[1:]))
    total = bits.left
    profile = bits.u(8)
    bits.u(16)
    ident = bits.ue()
    chroma = _skip_chroma(bits) if profile in _HIGH_PROFILES else 1
    separate_planes = chroma < 0
    frame_num_bits = bits.ue() + 4
    poc_type = bits.ue()
    poc_bits = bits.ue() + 4 if poc_type == 0 else 0
    poc_deltas = poc_type == 1 and not bits.flag()
    if poc_type == 1:
        for _ in range(2):
            bits.se()
        for _ in range(bits.ue()):
            bits.se()
    if max(frame_num_bits, poc_bits) > 16 or poc_type > 2:
        raise DecodeError("the H.264 sequence parameter set is malformed")
    references = min(bits.ue(), _MAX_PICTURES)
    gaps = bits.flag()
    columns = bits.ue() + 1
    rows_from = total - bits.left
    rows = bits.ue() + 1
    rows_at = rows_from, total - bits.left
    frames_only = bits.flag()
    if not frames_only:
        bits.flag()
    bits.flag()
    left, right, top, bottom = [bits.ue() for _ in range(4)] if bits.flag() else (0, 0, 0, 0)
    unit_x, unit_y = 2 if chroma in (1, 2) else 1, 2 if chroma == 1 else 1
    height = (2 - frames_only) * (16 * rows - unit_y * (top + bottom))
    size = (16 * columns - unit_x * (left + right), height)
    stated = _stated_reorder(bits) if bits.flag() else None
    reorder = 0 if poc_type == 2 or profile == _BASELINE else stated
    return H264SequenceSet(
        ident, separate_planes, max(chroma, 0), frame_num_bits, poc_type, poc_bits, poc_deltas, references,
        gaps, frames_only, reorder, size, columns, rows, rows_at,
    )  # fmt: skip


def picture_set(data: bytes) -> H264PictureSet:
    """Read a picture parameter set.

    Raises:
        DecodeError: it is malformed.
    """
    bits = BitReader(unescape(data[1:]))
    ident, sequence = bits.ue(), bits.ue()
    cabac, field_order = bits.flag(), bits.flag()
    if groups := bits.ue():
        _skip_groups(bits, groups)
    references = bits.ue() + 1, bits.ue() + 1
    weighted = bits.flag(), bits.u(2) == 1
    init_qp = 26 + bits.se()
    bits.se()
    bits.se()
    deblocking, _, redundant = bits.flag(), bits.flag(), bits.flag()
    return H264PictureSet(
        ident, sequence, field_order, references, weighted, redundant, cabac, init_qp, deblocking
    )


def _skip_groups(bits: BitReader, groups: int) -> None:
    """A slice group map. One that changes from slice to slice adds bits to headers, but behind all else."""
    kind = bits.ue()
    if kind == 0:
        for _ in range(groups + 1):
            bits.ue()
    elif kind == 2:
        for _ in range(2 * groups):
            bits.ue()
    elif kind in (3, 4, 5):
        bits.flag()
        bits.ue()
    elif kind == 6:
        bits.u((bits.ue() + 1) * groups.bit_length())


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
