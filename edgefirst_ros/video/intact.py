"""Whether the bytes of an H.265 access unit are as its encoder made them, as far as syntax can tell."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.video import h265ctu as ctu
from edgefirst_ros.video.annexb import H265_LAST_VCL, H265_PPS, H265_SPS, nal_units, unescape
from edgefirst_ros.video.h265slice import (
    I_SLICE,
    P_SLICE,
    Headers,
    Picture,
    Segment,
    Sequence,
    picture_set,
    sequence_set,
)
from edgefirst_ros.video.h265tables import CONTEXTS

_Numbers = npt.NDArray[np.int64]


class H265Syntax:
    """Parses all slices of every access unit in decode order; belongs to one thread.

    What cannot be judged (a profile with range extensions, blocks of raw samples) counts as sound.
    """

    def __init__(self) -> None:
        self._headers = Headers()
        self._shape: tuple[Sequence, Picture] | None = None
        self._order = self._tile = self._tile_left = self._owner = np.zeros(0, np.int64)
        self._depths = self._skipped = self._intra_modes = np.zeros((0, 0), np.uint8)
        self._saved = np.zeros((2, CONTEXTS), np.uint8)
        self._slice = 0

    def is_sound(self, data: bytes) -> bool:
        """Whether the slices of the access unit cover its picture and each ends where its bytes end."""
        try:
            return self._covers(data)
        except DecodeError:
            return False

    def _covers(self, data: bytes) -> bool:
        done = judged = 0
        for unit in nal_units("h265", data):
            if unit.kind == H265_SPS:
                ident, known = sequence_set(unit.data)
                self._headers.sequences[ident] = known
            elif unit.kind == H265_PPS:
                ident, shape = picture_set(unit.data)
                self._headers.pictures[ident] = shape
            elif unit.kind <= H265_LAST_VCL:
                payload = unescape(unit.data[2:]).rstrip(b"\x00")
                read = self._headers.read(unit.kind, payload)
                if read is None or read[0].pcm is not None:
                    return True
                sequence, picture, segment = read
                if segment.first:
                    self._begin(sequence, picture)
                    done = judged = 0
                judged += 1
                done = self._parse(sequence, picture, segment, payload, done)
                if done < 0:
                    return False
        return not judged or done == len(self._order)

    def _begin(self, sequence: Sequence, picture: Picture) -> None:
        if self._shape is None or self._shape != (sequence, picture):
            self._shape = sequence, picture
            self._order, self._tile, self._tile_left = _tiles(sequence, picture)
            self._owner = np.zeros(len(self._order), np.int64)
            self._depths, self._skipped, self._intra_modes = (
                np.zeros(
                    (sequence.rows << sequence.ctb - size, sequence.columns << sequence.ctb - size), np.uint8
                )
                for size in (sequence.min_cb, sequence.min_cb, 2)
            )
        self._owner.fill(-1)
        self._slice = 0

    def _parse(
        self, sequence: Sequence, picture: Picture, segment: Segment, payload: bytes, done: int
    ) -> int:
        if not segment.first and (done >= len(self._order) or self._order[done] != segment.address):
            return -1
        if not segment.dependent:
            self._slice = segment.address
        parameters = _parameters(sequence, picture, segment, self._slice)
        bytes_of = np.frombuffer(payload, np.uint8)
        tables = self._order, self._tile, self._tile_left, self._owner
        grids = self._depths, self._skipped, self._intra_modes, self._saved
        return int(ctu.segment(parameters, bytes_of, segment.data_at, segment.address, *tables, *grids))


def compile_parser() -> None:
    """Compile for the arguments that ``H265Syntax`` has, or take it from numba's cache."""
    numbers, grid = np.zeros(0, np.int64), np.zeros((0, 0), np.uint8)
    parameters, payload = np.zeros(ctu.PARAMETERS, np.int64), np.frombuffer(b"\0", np.uint8)
    places: tuple[object, ...] = (parameters, payload, 0, 0, *(numbers,) * 4, *(grid,) * 4)
    ctu.segment.compile(tuple(numba.typeof(each) for each in places))  # type: ignore[attr-defined,no-untyped-call]


def _tiles(s: Sequence, p: Picture) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Blocks in order of coding; by raster address, the tile of each and its first column (clause 6.5.1)."""
    columns, rows = (
        _bounds(total, count, None if p.tiles is None or not any(p.tiles) else p.tiles[axis])
        for axis, (total, count) in enumerate(((s.columns, p.tile_counts[0]), (s.rows, p.tile_counts[1])))
    )
    column = np.searchsorted(columns, np.arange(s.columns), side="right") - 1
    row = np.searchsorted(rows, np.arange(s.rows), side="right") - 1
    tile = (row[:, None] * p.tile_counts[0] + column).ravel().astype(np.int64)
    left = np.tile(np.array(columns, np.int64)[column], s.rows)
    return np.argsort(tile, kind="stable").astype(np.int64), tile, left


def _bounds(total: int, count: int, sizes: tuple[int, ...] | None) -> list[int]:
    if count > total or (sizes is not None and sum(sizes) >= total):
        raise DecodeError("the H.265 picture parameter set is malformed")
    if sizes is None:
        return [total * index // count for index in range(count)]
    return [0, *np.cumsum(sizes).tolist()]


def _parameters(s: Sequence, p: Picture, h: Segment, slice_address: int) -> npt.NDArray[np.int64]:
    values = np.zeros(ctu.PARAMETERS, np.int64)
    init = 0 if h.kind == I_SLICE else 1 if (h.kind == P_SLICE) != h.init_flag else 2
    offset = 6 * (s.bit_depth - 8) // 2
    values[[ctu.WIDTH, ctu.HEIGHT, ctu.COLUMNS, ctu.CHROMA]] = s.width, s.height, s.columns, s.chroma
    values[[ctu.MIN_CB, ctu.CTB, ctu.MIN_TB, ctu.MAX_TB]] = s.min_cb, s.ctb, s.min_tb, s.max_tb
    values[[ctu.DEPTH_INTER, ctu.DEPTH_INTRA, ctu.AMP]] = s.depth_inter, s.depth_intra, s.amp
    values[[ctu.SAO, ctu.SAO_LUMA, ctu.SAO_CHROMA]] = s.sao and any(h.sao), *h.sao
    values[[ctu.SAO_BITS, ctu.SAO_BITS_C]] = s.bit_depth, s.bit_depth_chroma
    values[[ctu.HIDING, ctu.TSKIP, ctu.BYPASS_ON, ctu.SYNC]] = (
        p.sign_hiding,
        p.transform_skip,
        p.bypass,
        p.sync,
    )
    values[[ctu.QP_DELTA_ON, ctu.QP_GROUP, ctu.QP]] = p.qp_delta, p.qp_delta_depth, h.qp
    values[[ctu.QP_LOW, ctu.QP_HIGH]] = -(26 + offset), 25 + offset
    values[[ctu.KIND, ctu.INIT_TYPE, ctu.MERGES]] = h.kind, init, h.merges
    values[[ctu.REFS_0, ctu.REFS_1, ctu.ZERO_MVD]] = *h.references, h.zero_mvd
    values[[ctu.SLICE, ctu.DEPENDENT]] = slice_address, h.dependent
    return values
