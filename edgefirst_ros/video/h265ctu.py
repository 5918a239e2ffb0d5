"""H.265 slice data, parsed bin by bin and discarded: does it end where its bytes end?

Arithmetic decoding of damaged data does not fail: any bits decode to some picture. But it hardly ever
reaches the end of its slice exactly at the last coding tree block and the last bit. Nothing here predicts or
transforms, so no other picture is needed.

Compiled code and tables are in one file, as numba compiles again only when the file of a function changes.

Source: ITU-T H.265, clauses 7.3.8 (syntax) and 9.3 (parsing, tables 9-5 to 9-37, 9-46 and 9-47), 6.5.3 ff.
(scans), of the profiles without range extensions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit, typeof

from edgefirst_ros.video.bitstream import LPS_NEXT, LPS_RANGE
from edgefirst_ros.video.h265sets import H265PictureSet, H265SequenceSet
from edgefirst_ros.video.h265slices import I_SLICE, P_SLICE, H265Segment

_UNUSED = 154

# fmt: off
_LAST = (
    [110, 110, 124, 125, 140, 153, 125, 127, 140, 109, 111, 143, 127, 111, 79, 108, 123, 63],
    [125, 110, 94, 110, 95, 79, 125, 111, 110, 78, 110, 111, 111, 95, 94, 108, 123, 108],
    [125, 110, 124, 110, 95, 94, 125, 111, 111, 79, 125, 126, 111, 111, 79, 108, 123, 93],
)
# By syntax element: initial values in I, P and B slices.
_VALUES: dict[str, tuple[list[int], list[int], list[int]]] = {
    "sao_merge": ([153], [153], [153]),
    "sao_type": ([200], [185], [160]),
    "split_cu": ([139, 141, 157], [107, 139, 126], [107, 139, 126]),
    "bypass_flag": ([154], [154], [154]),
    "skip": ([_UNUSED] * 3, [197, 185, 201], [197, 185, 201]),
    "qp_delta": ([154] * 2, [154] * 2, [154] * 2),
    "pred_mode": ([_UNUSED], [149], [134]),
    "part": ([184, _UNUSED, _UNUSED, _UNUSED], [154, 139, 154, 154], [154, 139, 154, 154]),
    "prev_intra": ([184], [154], [183]),
    "intra_chroma": ([63], [152], [152]),
    "merge_flag": ([_UNUSED], [110], [154]),
    "merge_idx": ([_UNUSED], [122], [137]),
    "pred_idc": ([_UNUSED] * 5, [95, 79, 63, 31, 31], [95, 79, 63, 31, 31]),
    "ref_idx": ([_UNUSED] * 2, [153, 153], [153, 153]),
    "mvd_0": ([_UNUSED], [140], [169]),
    "mvd_1": ([_UNUSED], [198], [198]),
    "mvp": ([_UNUSED], [168], [168]),
    "root_cbf": ([_UNUSED], [79], [79]),
    "split_tu": ([153, 138, 138], [124, 138, 94], [224, 167, 122]),
    "cbf_luma": ([111, 141], [153, 111], [153, 111]),
    "cbf_chroma": ([94, 138, 182, 154, 154], [149, 107, 167, 154, 154], [149, 92, 167, 154, 154]),
    "transform_skip": ([139, 139], [139, 139], [139, 139]),
    "last_x": _LAST,
    "last_y": _LAST,
    "group": ([91, 171, 134, 141], [121, 140, 61, 154], [121, 140, 61, 154]),
    "sig": (
        [111, 111, 125, 110, 110, 94, 124, 108, 124, 107, 125, 141, 179, 153, 125, 107, 125, 141, 179, 153,
         125, 107, 125, 141, 179, 153, 125, 140, 139, 182, 182, 152, 136, 152, 136, 153, 136, 139, 111, 136,
         139, 111],
        [155, 154, 139, 153, 139, 123, 123, 63, 153, 166, 183, 140, 136, 153, 154, 166, 183, 140, 136, 153,
         154, 166, 183, 140, 136, 153, 154, 170, 153, 123, 123, 107, 121, 107, 121, 167, 151, 183, 140, 151,
         183, 140],
        [170, 154, 139, 153, 139, 123, 123, 63, 124, 166, 183, 140, 136, 153, 154, 166, 183, 140, 136, 153,
         154, 166, 183, 140, 136, 153, 154, 170, 153, 138, 138, 122, 121, 122, 121, 167, 151, 183, 140, 151,
         183, 140],
    ),
    "above_1": (
        [140, 92, 137, 138, 140, 152, 138, 139, 153, 74, 149, 92, 139, 107, 122, 152, 140, 179, 166, 182,
         140, 227, 122, 197],
        [154, 196, 196, 167, 154, 152, 167, 182, 182, 134, 149, 136, 153, 121, 136, 137, 169, 194, 166, 167,
         154, 167, 137, 182],
        [154, 196, 167, 167, 154, 152, 167, 182, 182, 134, 149, 136, 153, 121, 136, 122, 169, 208, 166, 167,
         154, 152, 167, 182],
    ),
    "above_2": ([138, 153, 136, 167, 152, 152], [107, 167, 91, 122, 107, 167], [107, 167, 91, 107, 107, 167]),
}
# fmt: on
_STARTS: dict[str, int] = {}
for _name in _VALUES:
    _STARTS[_name] = sum(len(_VALUES[other][0]) for other in _STARTS)

CONTEXTS = sum(len(rows[0]) for rows in _VALUES.values())
SAO_MERGE, SAO_TYPE, SPLIT_CU, BYPASS_FLAG = (
    _STARTS[n] for n in ("sao_merge", "sao_type", "split_cu", "bypass_flag")
)
SKIP, QP_DELTA, PRED_MODE, PART = (_STARTS[n] for n in ("skip", "qp_delta", "pred_mode", "part"))
PREV_INTRA, INTRA_CHROMA = _STARTS["prev_intra"], _STARTS["intra_chroma"]
MERGE_FLAG, MERGE_IDX, PRED_IDC, REF_IDX = (
    _STARTS[n] for n in ("merge_flag", "merge_idx", "pred_idc", "ref_idx")
)
MVD_0, MVD_1, MVP, ROOT_CBF = (_STARTS[n] for n in ("mvd_0", "mvd_1", "mvp", "root_cbf"))
SPLIT_TU, CBF_LUMA, CBF_CHROMA = (_STARTS[n] for n in ("split_tu", "cbf_luma", "cbf_chroma"))
TRANSFORM_SKIP, LAST_X, LAST_Y = (_STARTS[n] for n in ("transform_skip", "last_x", "last_y"))
GROUP, SIG, ABOVE_1, ABOVE_2 = (_STARTS[n] for n in ("group", "sig", "above_1", "above_2"))

INIT: npt.NDArray[np.uint8] = np.array(
    [[value for rows in _VALUES.values() for value in rows[kind]] for kind in range(3)], np.uint8
)
"""(3, CONTEXTS): by initType."""

LPS_SHIFT: npt.NDArray[np.int64] = np.array([6, *[9 - (8 * i).bit_length() for i in range(1, 31)]])
"""(31,): by how much an eighth of a range is shifted to make it 256 or more again."""


_SQUARES = [list(product(range(1 << k), repeat=2)) for k in range(4)]
_ORDERS = [
    *(sorted(square, key=lambda at: (at[0] + at[1], at[0])) for square in _SQUARES),
    *(sorted(square, key=lambda at: (at[1], at[0])) for square in _SQUARES[:3]),
    *_SQUARES[:3],
]
SCAN_X: npt.NDArray[np.int64] = np.zeros((10, 64), np.int64)
SCAN_Y: npt.NDArray[np.int64] = np.zeros((10, 64), np.int64)
"""(10, 64): up-right diagonal of 1, 2, 4 and 8; horizontal of 1, 2 and 4; vertical of 1, 2 and 4."""
for _row, _order in enumerate(_ORDERS):
    SCAN_X[_row, : len(_order)], SCAN_Y[_row, : len(_order)] = zip(*_order, strict=True)

SIG_MAP: npt.NDArray[np.int64] = np.array(
    [
        [0, 1, 4, 5, 2, 3, 4, 5, 6, 6, 8, 8, 7, 7, 8, 8],
        [2, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        [2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        [2, 1, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0],
        [2] * 16,
    ]
)
"""(5, 16): sigCtx of a 4x4 block, then within a group whose right (1), lower (2) or both neighbours (3) hold
coefficients, or neither (0)."""

(
    WIDTH, HEIGHT, MIN_CB, CTB, MIN_TB, MAX_TB, DEPTH_INTER, DEPTH_INTRA, AMP, SAO, SAO_BITS, SAO_BITS_C,
    CHROMA, HIDING, TSKIP, QP_DELTA_ON, QP_GROUP, BYPASS_ON, SYNC, KIND, QP, INIT_TYPE, SAO_LUMA,
    SAO_CHROMA, REFS_0, REFS_1, ZERO_MVD, MERGES, SLICE, DEPENDENT, QP_LOW, QP_HIGH, COLUMNS, PARAMETERS,
) = range(34)  # fmt: skip
"""Indices of the parameters; SLICE is the address of the slice that the segment belongs to."""

_RANGE, _VALUE, _BITS, _AT, _END, _OVER, _QP_CODED, _BAD, _ENGINE = range(9)
"""Indices of the arithmetic decoder's state; _OVER counts bytes read beyond the end."""

_INTRA_DC = 1
_MOST_OVER = 8
_Array = Any
_Function = TypeVar("_Function", bound=Callable[..., object])


def _compiled(function: _Function) -> _Function:
    """Compile with numba; cached beside this file or in the user's cache if one of them is writable."""
    try:
        return cast("_Function", njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:
        return cast("_Function", njit(nogil=True, error_model="numpy")(function))


@_compiled
def _start(e: _Array, data: _Array) -> None:
    e[_RANGE] = 510
    e[_BITS] = -8
    e[_VALUE] = 0
    for _ in range(2):
        e[_VALUE] = e[_VALUE] << 8 | _byte(e, data)


@_compiled
def _byte(e: _Array, data: _Array) -> int:
    at = e[_AT]
    e[_AT] = at + 1
    if at < e[_END]:
        return int(data[at])
    e[_OVER] += 1
    return 0


@_compiled
def _bin(e: _Array, data: _Array, contexts: _Array, index: int) -> int:
    """A bin by its context (clause 9.3.4.3.2)."""
    state = contexts[index]
    shade = state >> 1
    low = LPS_RANGE[shade, (e[_RANGE] >> 6) & 3]
    width = e[_RANGE] - low
    scaled = width << 7
    value = e[_VALUE]
    if value < scaled:
        found = state & 1
        if shade < 62:
            contexts[index] = state + 2
        if scaled < 256 << 7:
            width = scaled >> 6
            value += value
            e[_BITS] += 1
            if e[_BITS] == 0:
                e[_BITS] = -8
                value += _byte(e, data)
        e[_RANGE] = width
        e[_VALUE] = value
        return int(found)
    found = 1 - (state & 1)
    shift = LPS_SHIFT[low >> 3]
    value = (value - scaled) << shift
    e[_RANGE] = low << shift
    e[_BITS] += shift
    if e[_BITS] >= 0:
        value += _byte(e, data) << e[_BITS]
        e[_BITS] -= 8
    e[_VALUE] = value
    contexts[index] = found | LPS_NEXT[shade] << 1 if shade == 0 else (state & 1) | LPS_NEXT[shade] << 1
    return int(found)


@_compiled
def _even(e: _Array, data: _Array) -> int:
    """A bin of even odds (clause 9.3.4.3.4)."""
    value = e[_VALUE] + e[_VALUE]
    e[_BITS] += 1
    if e[_BITS] >= 0:
        e[_BITS] = -8
        value += _byte(e, data)
    scaled = e[_RANGE] << 7
    found = 1 if value >= scaled else 0
    e[_VALUE] = value - scaled * found
    return found


@_compiled
def _evens(e: _Array, data: _Array, count: int) -> int:
    value = 0
    for _ in range(count):
        value = value << 1 | _even(e, data)
    return value


@_compiled
def _ends(e: _Array, data: _Array) -> int:
    """A terminating bin (clause 9.3.4.3.5)."""
    e[_RANGE] -= 2
    scaled = e[_RANGE] << 7
    if e[_VALUE] >= scaled:
        return 1
    if scaled < 256 << 7:
        e[_RANGE] = scaled >> 6
        e[_VALUE] += e[_VALUE]
        e[_BITS] += 1
        if e[_BITS] == 0:
            e[_BITS] = -8
            e[_VALUE] += _byte(e, data)
    return 0


@_compiled
def _stops(e: _Array, data: _Array) -> bool:
    """Whether the byte read last ends with the stop bit, as it must after a terminating bin."""
    at = e[_AT] - 1
    return bool(e[_OVER] == 0 and (int(data[at]) << (8 + e[_BITS])) & 0xFF == 0x80)


@_compiled
def _init(contexts: _Array, kind: int, qp: int) -> None:
    clipped = min(max(qp, 0), 51)
    for index in range(CONTEXTS):
        value = int(INIT[kind, index])
        slope, offset = (value >> 4) * 5 - 45, ((value & 15) << 3) - 16
        state = min(max(((slope * clipped) >> 4) + offset, 1), 126)
        most = 1 if state > 63 else 0
        contexts[index] = ((state - 64 if most else 63 - state) << 1) | most


@_compiled
def _sao(p: _Array, e: _Array, data: _Array, c: _Array, left: bool, up: bool) -> None:
    if left and _bin(e, data, c, SAO_MERGE):
        return
    if up and _bin(e, data, c, SAO_MERGE):
        return
    kind = 0
    for plane in range(3 if p[CHROMA] else 1):
        if not (p[SAO_LUMA] if plane == 0 else p[SAO_CHROMA]):
            continue
        if plane < 2:
            kind = 0
            if _bin(e, data, c, SAO_TYPE):
                kind = 1 + _even(e, data)
        if not kind:
            continue
        most = (1 << (min(p[SAO_BITS] if plane == 0 else p[SAO_BITS_C], 10) - 5)) - 1
        signs = 0
        for _ in range(4):
            size = 0
            while size < most and _even(e, data):
                size += 1
            signs += size > 0
        if kind == 1:
            _evens(e, data, signs + 5)
        elif plane < 2:
            _evens(e, data, 2)


@_compiled
def _golomb(e: _Array, data: _Array, order: int) -> int:
    value, k = 0, order
    while _even(e, data):
        value += 1 << k
        k += 1
        if k > 31:
            e[_BAD] = 1
            return 0
    return value + _evens(e, data, k)


@_compiled
def _mvd(e: _Array, data: _Array, c: _Array) -> None:
    more_x = _bin(e, data, c, MVD_0)
    more_y = _bin(e, data, c, MVD_0)
    great_x = _bin(e, data, c, MVD_1) if more_x else 0
    great_y = _bin(e, data, c, MVD_1) if more_y else 0
    for more, great in ((more_x, great_x), (more_y, great_y)):
        if more:
            if great and _golomb(e, data, 1) > 1 << 15:
                e[_BAD] = 1
            _even(e, data)


@_compiled
def _reference(e: _Array, data: _Array, c: _Array, count: int) -> None:
    index = 0
    while index < count - 1:
        more = _bin(e, data, c, REF_IDX + index) if index < 2 else _even(e, data)
        if not more:
            break
        index += 1


@_compiled
def _merge_index(p: _Array, e: _Array, data: _Array, c: _Array) -> None:
    if p[MERGES] > 1 and _bin(e, data, c, MERGE_IDX):
        index = 1
        while index < p[MERGES] - 1 and _even(e, data):
            index += 1


@_compiled
def _prediction(p: _Array, e: _Array, data: _Array, c: _Array, width: int, height: int, depth: int) -> int:
    """A prediction unit; whether it was merged."""
    if _bin(e, data, c, MERGE_FLAG):
        _merge_index(p, e, data, c)
        return 1
    both, second = 0, 0
    if p[KIND] == 0:
        if width + height != 12:
            both = _bin(e, data, c, PRED_IDC + depth)
        if not both:
            second = _bin(e, data, c, PRED_IDC + 4)
    if both or not second:
        _reference(e, data, c, p[REFS_0])
        _mvd(e, data, c)
        _bin(e, data, c, MVP)
    if both or second:
        _reference(e, data, c, p[REFS_1])
        if not (p[ZERO_MVD] and both):
            _mvd(e, data, c)
        _bin(e, data, c, MVP)
    return 0


@_compiled
def _remaining(e: _Array, data: _Array, rice: int) -> int:
    prefix = 0
    while _even(e, data):
        prefix += 1
        if prefix > 32:
            e[_BAD] = 1
            return 0
    if prefix <= 3:
        return (prefix << rice) + _evens(e, data, rice)
    if prefix - 3 + rice > 28:
        e[_BAD] = 1
        return 0
    return (((1 << (prefix - 3)) + 3 - 1) << rice) + _evens(e, data, prefix - 3 + rice)


@_compiled
def _last(e: _Array, data: _Array, c: _Array, base: int, log2: int, plane: int) -> int:
    if plane == 0:
        offset, shift = 3 * (log2 - 2) + ((log2 - 1) >> 2), (log2 + 1) >> 2
    else:
        offset, shift = 15, log2 - 2
    prefix = 0
    while prefix < 2 * log2 - 1 and _bin(e, data, c, base + offset + (prefix >> shift)):
        prefix += 1
    return prefix


@_compiled
def _residual(
    p: _Array, e: _Array, data: _Array, c: _Array, log2: int, plane: int, scan: int, bypassed: int,
    flags: _Array, places: _Array,
) -> None:  # fmt: skip
    """residual_coding (clause 7.3.8.11)."""
    if p[TSKIP] and not bypassed and log2 == 2:
        _bin(e, data, c, TRANSFORM_SKIP + (plane > 0))
    last_x = _last(e, data, c, LAST_X, log2, plane)
    last_y = _last(e, data, c, LAST_Y, log2, plane)
    if last_x > 3:
        last_x = (2 + (last_x & 1) << (last_x >> 1) - 1) + _evens(e, data, (last_x >> 1) - 1)
    if last_y > 3:
        last_y = (2 + (last_y & 1) << (last_y >> 1) - 1) + _evens(e, data, (last_y >> 1) - 1)
    if scan == 2:
        last_x, last_y = last_y, last_x
    side = 1 << (log2 - 2)
    group_scan = log2 - 2 + (0, 4, 7)[scan]
    inner = (2, 6, 9)[scan]
    count = side * side
    group = 0
    while SCAN_X[group_scan, group] != last_x >> 2 or SCAN_Y[group_scan, group] != last_y >> 2:
        group += 1
        if group >= count:
            e[_BAD] = 1
            return
    position = 0
    while SCAN_X[inner, position] != last_x & 3 or SCAN_Y[inner, position] != last_y & 3:
        position += 1
    flags[:] = 0
    greater_before = 1
    last_group = group
    for number in range(last_group, -1, -1):
        group_x, group_y = SCAN_X[group_scan, number], SCAN_Y[group_scan, number]
        right = flags[group_y, group_x + 1]
        below = flags[group_y + 1, group_x]
        inferred = False
        if number in (last_group, 0):
            flags[group_y, group_x] = 1
        else:
            flags[group_y, group_x] = _bin(e, data, c, GROUP + min(right + below, 1) + 2 * (plane > 0))
            inferred = True
        if not flags[group_y, group_x]:
            continue
        found = 0
        start = 15
        if number == last_group:
            places[0] = position
            found = 1
            start = position - 1
        near = right + 2 * below
        for place in range(start, -1, -1):
            if place == 0 and inferred and found == 0:
                places[found] = 0
                found += 1
                break
            x, y = SCAN_X[inner, place], SCAN_Y[inner, place]
            if log2 == 2:
                context = SIG_MAP[0, 4 * y + x]
            elif place == 0 and number == 0:
                context = 0
            else:
                context = SIG_MAP[1 + near, 4 * y + x]
                if plane == 0:
                    if number:
                        context += 3
                    context += (9 if scan == 0 else 15) if log2 == 3 else 21
                else:
                    context += 9 if log2 == 3 else 12
            if _bin(e, data, c, SIG + context + (27 if plane else 0)):
                places[found] = place
                found += 1
        if not found:
            continue
        ctx_set = 2 if number and plane == 0 else 0
        if number != last_group and greater_before == 0:
            ctx_set += 1
        greater = 1
        marked = -1
        above = 0
        for index in range(min(found, 8)):
            if _bin(e, data, c, ABOVE_1 + 4 * ctx_set + greater + (16 if plane else 0)):
                greater = 0
                above |= 1 << index
                if marked < 0:
                    marked = index
            elif 0 < greater < 3:
                greater += 1
        greater_before = greater
        twice = 0
        if marked >= 0:
            twice = _bin(e, data, c, ABOVE_2 + ctx_set + (4 if plane else 0))
        hidden = p[HIDING] and not bypassed and places[0] - places[found - 1] > 3
        _evens(e, data, found - (1 if hidden else 0))
        rice = 0
        for index in range(found):
            base = 1
            if index < 8:
                base += above >> index & 1
                if index == marked:
                    base += twice
            expected = (3 if index == marked else 2) if index < 8 else 1
            if base == expected:
                level = base + _remaining(e, data, rice)
                if level > 3 << rice:
                    rice = min(rice + 1, 4)
        if e[_BAD] or e[_OVER] > _MOST_OVER:
            e[_BAD] = 1
            return


@_compiled
def _scan(mode: int) -> int:
    """ScanIdx of an intra prediction mode: 2 is vertical, 1 horizontal."""
    if 6 <= mode <= 14:
        return 2
    return 1 if 22 <= mode <= 30 else 0


@_compiled
def _unit(
    p: _Array, e: _Array, data: _Array, c: _Array, log2: int, block: int, cbf: int, mode: int, mode_c: int,
    bypassed: int, flags: _Array, places: _Array,
) -> None:  # fmt: skip
    """transform_unit (clause 7.3.8.10); ``cbf``: luma, Cb, Cr from the lowest bit on; inter modes are -1."""
    if not cbf:
        return
    if p[QP_DELTA_ON] and not e[_QP_CODED]:
        e[_QP_CODED] = 1
        size = 0
        while size < 5 and _bin(e, data, c, QP_DELTA + (size > 0)):
            size += 1
        if size == 5:
            size += _golomb(e, data, 0)
        if size:
            change = -size if _even(e, data) else size
            if not p[QP_LOW] <= change <= p[QP_HIGH]:
                e[_BAD] = 1
                return
    scan = _scan(mode) if log2 < 4 else 0
    scan_c = _scan(mode_c) if log2 < 4 else 0
    if cbf & 1:
        _residual(p, e, data, c, log2, 0, scan, bypassed, flags, places)
    if log2 > 2 or block == 3:
        for plane in range(1, 3):
            if cbf >> plane & 1:
                _residual(p, e, data, c, max(2, log2 - 1), plane, scan_c, bypassed, flags, places)


@_compiled
def _tree(
    p: _Array, e: _Array, data: _Array, c: _Array, whole: int, quarters: int, most: int, inter_split: int,
    modes: _Array, bypassed: int, flags: _Array, places: _Array, nodes: _Array,
) -> None:  # fmt: skip
    """transform_tree (clause 7.3.8.8) of a coding unit; on a stack, as what calls itself cannot be kept.

    A node is its size, depth, place among four, part of the intra unit, and the coded block flags of Cb and
    Cr above it.
    """
    nodes[0, 0], nodes[0, 1], nodes[0, 2], nodes[0, 3], nodes[0, 4] = whole, 0, 0, 0, 6
    waiting = 1
    while waiting and not e[_BAD]:
        waiting -= 1
        log2, depth, block = nodes[waiting, 0], nodes[waiting, 1], nodes[waiting, 2]
        part, parent = nodes[waiting, 3], nodes[waiting, 4]
        if log2 <= p[MAX_TB] and log2 > p[MIN_TB] and depth < most and not (quarters and depth == 0):
            split = _bin(e, data, c, SPLIT_TU + 5 - log2)
        else:
            split = 1 if log2 > p[MAX_TB] or ((quarters or inter_split) and depth == 0) else 0
        chroma = 0
        if p[CHROMA]:
            if log2 > 2:
                for plane in range(1, 3):
                    if (depth == 0 or parent >> plane & 1) and _bin(e, data, c, CBF_CHROMA + depth):
                        chroma |= 1 << plane
            elif depth > 0:
                chroma = parent
        if split:
            for quarter in range(3, -1, -1):
                nodes[waiting, 0], nodes[waiting, 1], nodes[waiting, 2] = log2 - 1, depth + 1, quarter
                nodes[waiting, 3] = quarter if quarters and depth == 0 else part
                nodes[waiting, 4] = chroma
                waiting += 1
            continue
        luma = 1
        if modes[0] >= 0 or depth or chroma:
            luma = _bin(e, data, c, CBF_LUMA + (depth == 0))
        _unit(p, e, data, c, log2, block, luma | chroma, modes[part], modes[4], bypassed, flags, places)


@_compiled
def _fill(grid: _Array, x: int, y: int, side: int, value: int) -> None:
    for row in range(y, y + side):
        for column in range(x, x + side):
            grid[row, column] = value


@_compiled
def _intra(
    p: _Array, e: _Array, data: _Array, c: _Array, x: int, y: int, log2: int, parts: int, left: bool,
    modes: _Array, intra_modes: _Array,
) -> None:  # fmt: skip
    """The modes of an intra coding unit, which the order of scanning needs (clause 8.4.2)."""
    split = 2 if parts == 4 else 1
    side = (1 << log2) // split
    listed = 0
    for part in range(parts):
        listed |= _bin(e, data, c, PREV_INTRA) << part
    for part in range(parts):
        number = 0
        if listed >> part & 1:
            while number < 2 and _even(e, data):
                number += 1
        else:
            number = _evens(e, data, 5)
        at_x, at_y = x + side * (part % 2), y + side * (part // 2)
        near_x, near_y = at_x >> 2, at_y >> 2
        one = two = _INTRA_DC
        if part % 2 or left:
            one = intra_modes[near_y, near_x - 1]
        if at_y & ((1 << p[CTB]) - 1):
            two = intra_modes[near_y - 1, near_x]
        if one == two:
            if one < 2:
                first, second, third = 0, 1, 26
            else:
                first, second, third = one, 2 + (one + 29) % 32, 2 + (one - 1) % 32
        else:
            first, second = one, two
            third = 0 if one and two else 1 if one != 1 and two != 1 else 26
        if listed >> part & 1:
            mode = (first, second, third)[number]
        else:
            low, high = min(first, second, third), max(first, second, third)
            mode = number
            mode += mode >= low
            mode += mode >= first + second + third - low - high
            mode += mode >= high
        modes[part] = mode
        _fill(intra_modes, near_x, near_y, max(1, side >> 2), mode)
    if parts == 1:
        modes[1:4] = modes[0]
    if p[CHROMA]:
        modes[4] = modes[0]
        if _bin(e, data, c, INTRA_CHROMA):
            chosen = (0, 26, 10, 1)[_evens(e, data, 2)]
            modes[4] = 34 if chosen == modes[0] else chosen


@_compiled
def _part(p: _Array, e: _Array, data: _Array, c: _Array, log2: int, intra: bool) -> int:
    """part_mode: 0 2Nx2N, 1 2NxN, 2 Nx2N, 3 NxN, 4 2NxnU, 5 2NxnD, 6 nLx2N, 7 nRx2N."""
    if _bin(e, data, c, PART):
        return 0
    if intra:
        return 3
    lying = _bin(e, data, c, PART + 1)
    if log2 == p[MIN_CB]:
        if lying:
            return 1
        if log2 == 3 or _bin(e, data, c, PART + 2):
            return 2
        return 3
    if not p[AMP] or _bin(e, data, c, PART + 3):
        return 1 if lying else 2
    return (4 if lying else 6) + _even(e, data)


@_compiled
def _coding_unit(
    p: _Array, e: _Array, data: _Array, c: _Array, x: int, y: int, log2: int, depth: int, left: bool,
    up: bool, skipped: _Array, intra_modes: _Array, modes: _Array, flags: _Array, places: _Array,
    nodes: _Array,
) -> None:  # fmt: skip
    """coding_unit (clause 7.3.8.5)."""
    at_x, at_y, cells = x >> p[MIN_CB], y >> p[MIN_CB], 1 << (log2 - p[MIN_CB])
    bypassed = _bin(e, data, c, BYPASS_FLAG) if p[BYPASS_ON] else 0
    skip = 0
    if p[KIND] != 2:
        near = 0
        if left:
            near += skipped[at_y, at_x - 1]
        if up:
            near += skipped[at_y - 1, at_x]
        skip = _bin(e, data, c, SKIP + near)
    _fill(skipped, at_x, at_y, cells, skip)
    modes[:] = -1
    if skip:
        _fill(intra_modes, x >> 2, y >> 2, 1 << (log2 - 2), _INTRA_DC)
        _merge_index(p, e, data, c)
        return
    intra = p[KIND] == 2 or _bin(e, data, c, PRED_MODE) == 1
    part, merged = 0, 0
    if not intra or log2 == p[MIN_CB]:
        part = _part(p, e, data, c, log2, intra)
    if intra:
        _intra(p, e, data, c, x, y, log2, 4 if part == 3 else 1, left, modes, intra_modes)
    else:
        _fill(intra_modes, x >> 2, y >> 2, 1 << (log2 - 2), _INTRA_DC)
        side = 1 << log2
        if part == 0:
            merged = _prediction(p, e, data, c, side, side, depth)
        elif part == 3:
            for _ in range(4):
                _prediction(p, e, data, c, side // 2, side // 2, depth)
        else:
            for second in range(2):
                share = side // 2
                if part > 3:
                    share = side // 4 if (part % 2 == 0) == (second == 0) else side - side // 4
                lying = part in (1, 4, 5)
                _prediction(p, e, data, c, side if lying else share, share if lying else side, depth)
        if not (part == 0 and merged) and not _bin(e, data, c, ROOT_CBF):
            return
    quarters = 1 if intra and part == 3 else 0
    most = p[DEPTH_INTRA] + quarters if intra else p[DEPTH_INTER]
    inter_split = 1 if not intra and part and p[DEPTH_INTER] == 0 else 0
    _tree(p, e, data, c, log2, quarters, most, inter_split, modes, bypassed, flags, places, nodes)


@_compiled
def _quadtree(
    p: _Array, e: _Array, data: _Array, c: _Array, block_x: int, block_y: int, left: bool, up: bool,
    depths: _Array, skipped: _Array, intra_modes: _Array, modes: _Array, flags: _Array, places: _Array,
    nodes: _Array, units: _Array,
) -> None:  # fmt: skip
    """coding_quadtree (clause 7.3.8.4); ``left``, ``up``: the tree blocks beside and above can be used."""
    mask = (1 << p[CTB]) - 1
    units[0, 0], units[0, 1], units[0, 2] = block_x << p[CTB], block_y << p[CTB], p[CTB]
    waiting = 1
    while waiting and not e[_BAD]:
        waiting -= 1
        x, y, log2 = units[waiting, 0], units[waiting, 1], units[waiting, 2]
        depth, side = p[CTB] - log2, 1 << log2
        left_here, up_here = left or (x & mask) != 0, up or (y & mask) != 0
        at_x, at_y = x >> p[MIN_CB], y >> p[MIN_CB]
        split = 1 if log2 > p[MIN_CB] else 0
        if split and x + side <= p[WIDTH] and y + side <= p[HEIGHT]:
            deeper = 0
            if left_here and depths[at_y, at_x - 1] > depth:
                deeper += 1
            if up_here and depths[at_y - 1, at_x] > depth:
                deeper += 1
            split = _bin(e, data, c, SPLIT_CU + deeper)
        if p[QP_DELTA_ON] and log2 >= p[CTB] - p[QP_GROUP]:
            e[_QP_CODED] = 0
        if split:
            half = side // 2
            for quarter in range(3, -1, -1):
                to_x, to_y = x + half * (quarter % 2), y + half * (quarter // 2)
                if to_x < p[WIDTH] and to_y < p[HEIGHT]:
                    units[waiting, 0], units[waiting, 1], units[waiting, 2] = to_x, to_y, log2 - 1
                    waiting += 1
            continue
        _fill(depths, at_x, at_y, 1 << (log2 - p[MIN_CB]), depth)
        _coding_unit(
            p,
            e,
            data,
            c,
            x,
            y,
            log2,
            depth,
            left_here,
            up_here,
            skipped,
            intra_modes,
            modes,
            flags,
            places,
            nodes,
        )


@_compiled
def segment(
    p: _Array, data: _Array, at: int, address: int, order: _Array, tile: _Array, tile_left: _Array,
    owner: _Array, depths: _Array, skipped: _Array, intra_modes: _Array, saved: _Array,
) -> int:  # fmt: skip
    """Parse one slice segment's data.

    Args:
        p: the parameters by the names above, (PARAMETERS,) int64.
        data: the unescaped payload, uint8, without zeros at its end.
        at: where its data begins.
        address: its first coding tree block in raster order.
        order: raster address by number in order of coding, (blocks,) int64.
        tile: the tile that a block of raster address is in, (blocks,).
        tile_left: the first column of that tile, (blocks,).
        owner: by raster address the slice that a block belongs to, -1 if none yet; filled in.
        depths: depth of coding units by smallest block, (rows, columns) uint8, kept within a picture.
        skipped: whether they were skipped, likewise.
        intra_modes: intra prediction modes by 4x4 samples, likewise.
        saved: contexts after the segment before and after the second block of a row, (2, CONTEXTS) uint8.

    Returns:
        The number, in order of coding, of the block after its last; -1 if it does not end where it should.
    """
    e = np.zeros(_ENGINE, np.int64)
    e[_AT], e[_END] = at, len(data)
    c = np.zeros(CONTEXTS, np.uint8)
    flags, places, modes = np.zeros((9, 9), np.int64), np.zeros(17, np.int64), np.zeros(5, np.int64)
    nodes, units = np.zeros((24, 5), np.int64), np.zeros((24, 3), np.int64)
    columns, blocks = p[COLUMNS], len(order)
    number = 0
    while number < blocks and order[number] != address:
        number += 1
    fresh = True
    _start(e, data)
    while number < blocks:
        here = order[number]
        x, y = here % columns, here // columns
        owner[here] = p[SLICE]
        new_tile = number == 0 or tile[here] != tile[order[number - 1]]
        new_row = p[SYNC] and x == tile_left[here]
        if fresh and p[DEPENDENT] and not new_tile and not new_row:
            c[:] = saved[0]
        elif fresh or new_tile or new_row:
            above = here - columns + 1
            follows = y > 0 and x + 1 < columns and owner[above] == p[SLICE] and tile[above] == tile[here]
            if new_row and not new_tile and follows:
                c[:] = saved[1]
            else:
                _init(c, p[INIT_TYPE], p[QP])
        fresh = False
        left = x > 0 and owner[here - 1] == p[SLICE] and tile[here - 1] == tile[here]
        up = y > 0 and owner[here - columns] == p[SLICE] and tile[here - columns] == tile[here]
        if p[SAO]:
            _sao(p, e, data, c, left, up)
        _quadtree(
            p, e, data, c, x, y, left, up, depths, skipped, intra_modes, modes, flags, places, nodes, units
        )
        if e[_BAD] or e[_OVER] > _MOST_OVER:
            return -1
        if p[SYNC] and x == tile_left[here] + 1:
            saved[1] = c
        number += 1
        if _ends(e, data):
            saved[0] = c
            return number if _stops(e, data) and e[_AT] == e[_END] else -1
        if number == blocks:
            return -1
        then = order[number]
        if tile[then] != tile[here] or (p[SYNC] and then % columns == tile_left[then]):
            if not _ends(e, data) or not _stops(e, data):
                return -1
            _start(e, data)
    return -1


def parameters(
    s: H265SequenceSet, p: H265PictureSet, h: H265Segment, slice_address: int
) -> npt.NDArray[np.int64]:
    """The first argument of ``segment``; ``slice_address`` is the slice that the segment belongs to."""
    values = np.zeros(PARAMETERS, np.int64)
    init = 0 if h.kind == I_SLICE else 1 if (h.kind == P_SLICE) != h.init_flag else 2
    offset = 6 * (s.bit_depth - 8) // 2
    values[[WIDTH, HEIGHT, COLUMNS, CHROMA]] = s.width, s.height, s.columns, s.chroma
    values[[MIN_CB, CTB, MIN_TB, MAX_TB]] = s.min_cb, s.ctb, s.min_tb, s.max_tb
    values[[DEPTH_INTER, DEPTH_INTRA, AMP]] = s.depth_inter, s.depth_intra, s.amp
    values[[SAO, SAO_LUMA, SAO_CHROMA]] = s.sao and any(h.sao), *h.sao
    values[[SAO_BITS, SAO_BITS_C]] = s.bit_depth, s.bit_depth_chroma
    values[[HIDING, TSKIP, BYPASS_ON, SYNC]] = (
        p.sign_hiding,
        p.transform_skip,
        p.bypass,
        p.sync,
    )
    values[[QP_DELTA_ON, QP_GROUP, QP]] = p.qp_delta, p.qp_delta_depth, h.qp
    values[[QP_LOW, QP_HIGH]] = -(26 + offset), 25 + offset
    values[[KIND, INIT_TYPE, MERGES]] = h.kind, init, h.merges
    values[[REFS_0, REFS_1, ZERO_MVD]] = *h.references, h.zero_mvd
    values[[SLICE, DEPENDENT]] = slice_address, h.dependent
    return values


def compile_parser() -> None:
    """Compile ``segment`` for the arguments that it gets, or load it from numba's cache."""
    numbers, grid = np.zeros(0, np.int64), np.zeros((0, 0), np.uint8)
    places: tuple[object, ...] = (
        np.zeros(PARAMETERS, np.int64), np.frombuffer(b"\0", np.uint8), 0, 0, *(numbers,) * 4, *(grid,) * 4,
    )  # fmt: skip
    segment.compile(tuple(typeof(each) for each in places))  # type: ignore[attr-defined,no-untyped-call]


def is_cached() -> bool:
    """Whether numba has what it compiled of this file before; True where it keeps nothing, too."""
    place = segment.stats.cache_path if hasattr(segment, "stats") else None
    made_s = Path(__file__).stat().st_mtime
    kept = Path(place).glob("h265ctu.segment-*.nbi") if place else ()
    return not place or any(each.stat().st_mtime >= made_s for each in kept)
