"""Whether an H.265 access unit is damaged, as far as its syntax tells; libavcodec finds that for H.264 only.

The parser is compiled by numba, once per machine, and loaded from its cache from then on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.bitstream import (
    H265_LAST_VCL,
    H265_PPS,
    H265_SPS,
    NalUnit,
    head,
    nal_units,
    unescape,
)
from edgefirst_ros.video.gops import AccessUnit
from edgefirst_ros.video.h265sets import H265PictureSet, H265SequenceSet, parameter_sets
from edgefirst_ros.video.h265slices import H265Segment, SegmentReader

COMMAND = (sys.executable, "-m", "edgefirst_ros.video.integrity")

_Numbers = npt.NDArray[np.int64]


@cache
def _parser() -> ModuleType:
    """What parses, compiled by then. Importing numba is slow, and most streams do without.

    Unless it was compiled on this machine before, a process of its own does that: in this one it would hold
    the interpreter lock for most of some 20 s while messages arrive.
    """
    from edgefirst_ros.video import h265ctu  # noqa: PLC0415

    if not h265ctu.is_cached():
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        silent = subprocess.DEVNULL
        with suppress(OSError):  # it is then compiled here
            subprocess.run(COMMAND, stdin=silent, stdout=silent, stderr=silent, env=environment, check=False)
    return h265ctu


class H265Syntax:
    """Parses all slices of every access unit in decode order; for use by one thread.

    Access units that it cannot parse (a profile with range extensions, raw samples) count as sound.
    """

    def __init__(self) -> None:
        self._sets = parameter_sets()
        self._reader = SegmentReader(self._sets)
        self._shape: tuple[H265SequenceSet, H265PictureSet] | None = None
        self._order = self._tile = self._tile_left = self._owner = np.zeros(0, np.int64)
        self._depths = self._skipped = self._intra_modes = self._saved = np.zeros((0, 0), np.uint8)
        self._slice = 0

    def is_damaged(self, unit: AccessUnit) -> bool:
        """Whether a doubtful access unit is damaged; of others only the parameter sets are read."""
        if unit.doubtful:
            return not self.is_sound(unit.data)
        for each in head(VideoPacket("h265", unit.data)):
            with suppress(DecodeError):
                self._take(each)
        return False

    def is_sound(self, data: bytes) -> bool:
        """Whether the slices of the access unit cover its picture and each ends where its bytes end."""
        try:
            return self._covers(data)
        except DecodeError:
            return False

    def _covers(self, data: bytes) -> bool:
        done = judged = 0
        for unit in nal_units("h265", data):
            self._take(unit)
            if unit.kind <= H265_LAST_VCL:
                payload = unescape(unit.data[2:]).rstrip(b"\x00")
                read = self._reader.read(unit.kind, payload)
                if read is None or read[0].pcm:
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

    def _take(self, unit: NalUnit) -> None:
        if unit.kind == H265_SPS:
            self._sets.add_sequence(unit.data)
        elif unit.kind == H265_PPS:
            self._sets.add_picture(unit.data)

    def _begin(self, sequence: H265SequenceSet, picture: H265PictureSet) -> None:
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
        self,
        sequence: H265SequenceSet,
        picture: H265PictureSet,
        segment: H265Segment,
        payload: bytes,
        done: int,
    ) -> int:
        if not segment.first and (done >= len(self._order) or self._order[done] != segment.address):
            return -1
        if not segment.dependent:
            self._slice = segment.address
        parser = _parser()
        if not len(self._saved):
            self._saved = np.zeros((2, parser.CONTEXTS), np.uint8)
        parameters = parser.parameters(sequence, picture, segment, self._slice)
        bytes_of = np.frombuffer(payload, np.uint8)
        tables = self._order, self._tile, self._tile_left, self._owner
        grids = self._depths, self._skipped, self._intra_modes, self._saved
        return int(parser.segment(parameters, bytes_of, segment.data_at, segment.address, *tables, *grids))


def _tiles(s: H265SequenceSet, p: H265PictureSet) -> tuple[_Numbers, _Numbers, _Numbers]:
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


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Wait until no other process compiles for this installation; the cache then has what it compiled."""
    with Path(__file__).open("rb") as file:
        if fcntl is not None:
            with suppress(OSError):  # some network file systems lock only what is open for writing
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Compile the parser unless it is compiled already."""
    with _one_at_a_time():
        from edgefirst_ros.video.h265ctu import compile_parser  # noqa: PLC0415 - only this process pays for it

        compile_parser()


if __name__ == "__main__":
    main()
