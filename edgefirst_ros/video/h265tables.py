"""Tables of H.265's arithmetic decoding: contexts and their beginnings, probabilities, orders of scanning.

Source: ITU-T H.265, clauses 9.3.2.2 (tables 9-5 to 9-37), 9.3.4.2.5, 9.3.4.3.2 (9-46 and 9-47), 6.5.3 ff.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_UNUSED = 154

# By syntax element: initial values in I, P and B slices.
# fmt: off
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
    "last_x": (
        [
            110, 110, 124, 125, 140, 153, 125, 127, 140, 109, 111, 143, 127, 111, 79, 108, 123, 63,
        ],
        [
            125, 110, 94, 110, 95, 79, 125, 111, 110, 78, 110, 111, 111, 95, 94, 108, 123, 108,
        ],
        [
            125, 110, 124, 110, 95, 94, 125, 111, 111, 79, 125, 126, 111, 111, 79, 108, 123, 93,
        ],
    ),
    "last_y": (
        [
            110, 110, 124, 125, 140, 153, 125, 127, 140, 109, 111, 143, 127, 111, 79, 108, 123, 63,
        ],
        [
            125, 110, 94, 110, 95, 79, 125, 111, 110, 78, 110, 111, 111, 95, 94, 108, 123, 108,
        ],
        [
            125, 110, 124, 110, 95, 94, 125, 111, 111, 79, 125, 126, 111, 111, 79, 108, 123, 93,
        ],
    ),
    "group": ([91, 171, 134, 141], [121, 140, 61, 154], [121, 140, 61, 154]),
    "sig": (
        [
            111, 111, 125, 110, 110, 94, 124, 108, 124, 107, 125, 141, 179, 153, 125, 107, 125, 141,
            179, 153, 125, 107, 125, 141, 179, 153, 125, 140, 139, 182, 182, 152, 136, 152, 136, 153,
            136, 139, 111, 136, 139, 111,
        ],
        [
            155, 154, 139, 153, 139, 123, 123, 63, 153, 166, 183, 140, 136, 153, 154, 166, 183, 140,
            136, 153, 154, 166, 183, 140, 136, 153, 154, 170, 153, 123, 123, 107, 121, 107, 121, 167,
            151, 183, 140, 151, 183, 140,
        ],
        [
            170, 154, 139, 153, 139, 123, 123, 63, 124, 166, 183, 140, 136, 153, 154, 166, 183, 140,
            136, 153, 154, 166, 183, 140, 136, 153, 154, 170, 153, 138, 138, 122, 121, 122, 121, 167,
            151, 183, 140, 151, 183, 140,
        ],
    ),
    "above_1": (
        [
            140, 92, 137, 138, 140, 152, 138, 139, 153, 74, 149, 92, 139, 107, 122, 152, 140, 179, 166,
            182, 140, 227, 122, 197,
        ],
        [
            154, 196, 196, 167, 154, 152, 167, 182, 182, 134, 149, 136, 153, 121, 136, 137, 169, 194,
            166, 167, 154, 167, 137, 182,
        ],
        [
            154, 196, 167, 167, 154, 152, 167, 182, 182, 134, 149, 136, 153, 121, 136, 122, 169, 208,
            166, 167, 154, 152, 167, 182,
        ],
    ),
    "above_2": (
        [138, 153, 136, 167, 152, 152],
        [107, 167, 91, 122, 107, 167],
        [107, 167, 91, 107, 107, 167],
    ),
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

LPS_RANGE: npt.NDArray[np.int64] = np.array(
    [
        [128, 176, 208, 240], [128, 167, 197, 227], [128, 158, 187, 216], [123, 150, 178, 205],
        [116, 142, 169, 195], [111, 135, 160, 185], [105, 128, 152, 175], [100, 122, 144, 166],
        [95, 116, 137, 158], [90, 110, 130, 150], [85, 104, 123, 142], [81, 99, 117, 135],
        [77, 94, 111, 128], [73, 89, 105, 122], [69, 85, 100, 116], [66, 80, 95, 110],
        [62, 76, 90, 104], [59, 72, 86, 99], [56, 69, 81, 94], [53, 65, 77, 89],
        [51, 62, 73, 85], [48, 59, 69, 80], [46, 56, 66, 76], [43, 53, 63, 72],
        [41, 50, 59, 69], [39, 48, 56, 65], [37, 45, 54, 62], [35, 43, 51, 59],
        [33, 41, 48, 56], [32, 39, 46, 53], [30, 37, 43, 50], [29, 35, 41, 48],
        [27, 33, 39, 45], [26, 31, 37, 43], [24, 30, 35, 41], [23, 28, 33, 39],
        [22, 27, 32, 37], [21, 26, 30, 35], [20, 24, 29, 33], [19, 23, 27, 31],
        [18, 22, 26, 30], [17, 21, 25, 28], [16, 20, 23, 27], [15, 19, 22, 25],
        [14, 18, 21, 24], [14, 17, 20, 23], [13, 16, 19, 22], [12, 15, 18, 21],
        [12, 14, 17, 20], [11, 14, 16, 19], [11, 13, 15, 18], [10, 12, 15, 17],
        [10, 12, 14, 16], [9, 11, 13, 15], [9, 11, 12, 14], [8, 10, 12, 14],
        [8, 9, 11, 13], [7, 9, 11, 12], [7, 9, 10, 12], [7, 8, 10, 11],
        [6, 8, 9, 11], [6, 7, 9, 10], [6, 7, 8, 9], [2, 2, 2, 2],
    ]
)  # fmt: skip
"""(64, 4): range of the less probable symbol, by state and quarter of the range."""
# fmt: off
LPS_NEXT: npt.NDArray[np.uint8] = np.array(
    [
            0, 0, 1, 2, 2, 4, 4, 5, 6, 7, 8, 9, 9, 11, 11, 12, 13, 13, 15, 15, 16, 16, 18, 18, 19, 19,
            21, 21, 22, 22, 23, 24, 24, 25, 26, 26, 27, 27, 28, 29, 29, 30, 30, 30, 31, 32, 32, 33, 33,
            33, 34, 34, 35, 35, 35, 36, 36, 36, 37, 37, 37, 38, 38, 63,
        ],
    np.uint8,
)
# fmt: on
"""(64,): the state after the less probable symbol."""

LPS_SHIFT: npt.NDArray[np.int64] = np.array([6, *[9 - (8 * i).bit_length() for i in range(1, 31)]])
"""(31,): by how much an eighth of a range is shifted to make it 256 or more again."""


def _diagonal(side: int) -> list[tuple[int, int]]:
    return sorted(((x, y) for x in range(side) for y in range(side)), key=lambda at: (at[0] + at[1], at[0]))


def _across(side: int) -> list[tuple[int, int]]:
    return [(x, y) for y in range(side) for x in range(side)]


def _down(side: int) -> list[tuple[int, int]]:
    return [(x, y) for x in range(side) for y in range(side)]


_ORDERS = [
    *(_diagonal(1 << k) for k in range(4)),
    *(_across(1 << k) for k in range(3)),
    *(_down(1 << k) for k in range(3)),
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
