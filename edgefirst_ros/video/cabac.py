"""Context-adaptive binary arithmetic coding (H.264 and H.265, clause 9.3): its tables, and an encoder."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
LPS_NEXT: npt.NDArray[np.uint8] = np.array([
    0, 0, 1, 2, 2, 4, 4, 5, 6, 7, 8, 9, 9, 11, 11, 12, 13, 13, 15, 15, 16, 16, 18, 18, 19, 19,
    21, 21, 22, 22, 23, 24, 24, 25, 26, 26, 27, 27, 28, 29, 29, 30, 30, 30, 31, 32, 32, 33, 33,
    33, 34, 34, 35, 35, 35, 36, 36, 36, 37, 37, 37, 38, 38, 63,
], np.uint8)
# fmt: on
"""(64,): the state after the less probable symbol."""
_LAST_STATE = 62


class CabacEncoder:
    """Encodes the bins of one slice of H.264.

    Args:
        slopes: (m, n) of each context (table 9-12 ff.).
        qp: the slice's quantiser, from which the contexts begin.
    """

    def __init__(self, slopes: dict[int, tuple[int, int]], qp: int) -> None:
        self._states: dict[int, tuple[int, int]] = {}
        for context, (slope, base) in slopes.items():
            state = min(126, max(1, (slope * qp >> 4) + base))
            self._states[context] = (state - 64, 1) if state > 63 else (63 - state, 0)
        self._low, self._range = 0, 510
        self._pending = 0
        self._bits: list[str] = []

    def put(self, context: int, value: int) -> None:
        """A bin with a context."""
        state, likely = self._states[context]
        less = int(LPS_RANGE[state, self._range >> 6 & 3])
        self._range -= less
        if value == likely:
            self._states[context] = min(state + 1, _LAST_STATE), likely
        else:
            self._low += self._range
            self._range = less
            self._states[context] = int(LPS_NEXT[state]), likely ^ (state == 0)
        self._renormalise()

    def end(self, *, last: bool) -> None:
        """The bin that says whether the slice ends (end_of_slice_flag), or another that terminates."""
        self._range -= 2
        if last:
            self._low += self._range
            self._range = 2
        self._renormalise()

    def finish(self) -> str:
        """The bits of all bins, of which the last one ended the slice; its one is the stop bit."""
        self._emit(self._low >> 9 & 1)
        return "".join(self._bits)[1:] + f"{self._low >> 7 & 3 | 1:02b}"

    def _renormalise(self) -> None:
        while self._range < 256:
            if self._low < 256:
                self._emit(0)
            elif self._low >= 512:
                self._low -= 512
                self._emit(1)
            else:
                self._low -= 256
                self._pending += 1
            self._range <<= 1
            self._low <<= 1

    def _emit(self, bit: int) -> None:
        self._bits.append(str(bit) + str(1 - bit) * self._pending)
        self._pending = 0
