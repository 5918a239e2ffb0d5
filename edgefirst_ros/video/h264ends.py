"""Whether the slices of an H.264 access unit end where their bytes do, which libavcodec does not check.

A damaged slice is decoded to other blocks, until its bits make no sense, or end, or the picture is full. In
the last case libavcodec looks at no further bit, and nothing is wrong for it. So it decodes each picture once
more with a row of blocks below, in a slice of its own: it does say when a slice does not end right before the
next one. The blocks below are grey and change nothing above, except through motion vectors that point there,
so that these pictures are looked at no further.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import av
from av.codec.context import Flags

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.backends import decoding_context
from edgefirst_ros.video.bitstream import (
    H264_PPS,
    H264_SPS,
    CabacEncoder,
    NalUnit,
    ParameterSets,
    escape,
    is_slice,
    nal_units,
    unescape,
)
from edgefirst_ros.video.gops import AccessUnit
from edgefirst_ros.video.h264 import H264PictureSet, H264SequenceSet, picture_set, sequence_set
from edgefirst_ros.video.h264slices import H264SliceHeader, slice_header

_START = b"\x00\x00\x00\x01"
_HEADER_BYTES = 512
_QP = 26
_MB_TYPE, _CHROMA_MODE, _QP_DELTA, _DC = 3, 64, 60, 85
_SLOPES = {
    3: (20, -15), 4: (2, 54), 6: (-28, 127), 7: (-23, 104), 9: (-1, 54), 10: (7, 51),
    60: (0, 41), 64: (-9, 83), 87: (-16, 122), 88: (-11, 115),
}  # fmt: skip
"""Of the contexts that grey blocks in I slices use (tables 9-12, 9-17 and 9-18)."""


class H264Ends:
    """Looks at access units in decode order, from a key frame on; for use by one thread.

    Args:
        options: of libavcodec, as the other decoder has them.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._sets = ParameterSets(sequence_set, picture_set)
        self._options = {**options, "skip_loop_filter": "all"}
        self._context = decoding_context("h264", "software", 1, Flags.output_corrupt, self._options)
        self._waiting: dict[int, AccessUnit] = {}
        self._is_able = False
        """A row can be added: the stream has frames only, and no chroma or less of it than luma."""

    def feed(self, unit: AccessUnit) -> None:
        """Look at the next unit; whether it is ``damaged`` is known when its picture is."""
        data = self._with_row(unit.data)
        if not self._is_able:
            return
        packet = av.Packet(len(data))
        packet.update(data)
        packet.pts = unit.number
        unit.damaged = True
        self._waiting[unit.number] = unit
        try:
            self._take(self._context.decode(packet))
        except av.FFmpegError:
            return  # its picture does not come

    def drain(self) -> None:
        """Decide on all units; decoding then starts again at a key frame."""
        with suppress(av.FFmpegError):
            self._take(self._context.decode(None))
        self._context.flush_buffers()
        self._waiting.clear()

    def _take(self, frames: list[av.VideoFrame]) -> None:
        for frame in frames:
            unit = self._waiting.pop(frame.pts, None) if frame.pts is not None else None
            if unit is not None:
                unit.damaged = frame.is_corrupt

    def _with_row(self, data: bytes) -> bytes:
        made: list[bytes] = []
        last: tuple[int, NalUnit] | None = None
        for unit in nal_units("h264", data):
            made.append(unit.data)
            try:
                if unit.kind == H264_SPS:
                    sequence = sequence_set(unit.data)
                    self._is_able = sequence.frames_only and sequence.chroma < 3
                    self._is_able = self._is_able and not sequence.separate_planes
                    made[-1] = _taller(unit.data, sequence)
                    self._sets.add_sequence(unit.data)
                elif unit.kind == H264_PPS:
                    self._sets.add_picture(unit.data)
            except DecodeError:
                continue
            if is_slice("h264", unit.kind):
                last = len(made), unit
        if last is not None:
            try:
                header = slice_header(NalUnit(last[1].kind, last[1].data[:_HEADER_BYTES]), self._sets)
                made.insert(last[0], _row(last[1].data[:1], header, *self._sets.used_by(header.sets)))
            except DecodeError:
                pass
        return b"".join(_START + each for each in made)


def _taller(data: bytes, sequence: H264SequenceSet) -> bytes:
    bits = _bits_of(unescape(data[1:]))
    begin, end = sequence.rows_at
    return data[:1] + _bytes_of(bits[:begin] + _ue(sequence.rows) + bits[end:].rstrip("0")[:-1])


def _row(head: bytes, header: H264SliceHeader, sequence: H264SequenceSet, picture: H264PictureSet) -> bytes:
    """A slice of grey blocks below a picture (clauses 7.3.3 to 7.3.5)."""
    bits = _ue(sequence.columns * sequence.rows) + _ue(2) + _ue(header.sets)
    bits += f"{header.frame_num:0{sequence.frame_num_bits}b}"
    if header.idr_ident is not None:
        bits += _ue(header.idr_ident)
    if sequence.poc_type == 0:
        bits += f"{header.poc:0{sequence.poc_bits}b}" + "1" * picture.field_order
    elif sequence.poc_deltas:
        bits += "1" * (1 + picture.field_order)
    bits += "1" * picture.redundant
    if header.reference:
        bits += f"0{header.long_term:d}" if header.idr else "0"
    change = _QP - picture.init_qp
    bits += _ue(2 * change - 1 if change > 0 else -2 * change)
    if picture.deblocking:
        bits += _ue(1)
    has_chroma = sequence.chroma > 0
    if not picture.cabac:
        return head + _bytes_of(bits + (_ue(3) + "1" * has_chroma + "11") * sequence.columns)
    bits += "1" * (-len(bits) % 8)
    return head + _bytes_of(bits + _blocks(sequence.columns, has_chroma=has_chroma))


@cache
def _blocks(count: int, *, has_chroma: bool) -> str:
    """Blocks predicted by their mean (Intra16x16, mode 2), without a coefficient."""
    coder = CabacEncoder(_SLOPES, _QP)
    for place in range(count):
        coder.put(_MB_TYPE + (place > 0), 1)
        coder.end(last=False)
        for context, value in ((3, 0), (4, 0), (6, 1), (7, 0)):
            coder.put(_MB_TYPE + context, value)
        if has_chroma:
            coder.put(_CHROMA_MODE, 0)
        coder.put(_QP_DELTA, 0)
        coder.put(_DC + (3 if place == 0 else 2), 0)
        coder.end(last=place == count - 1)
    return coder.finish()[:-1]


def _ue(number: int) -> str:
    code = f"{number + 1:b}"
    return "0" * (len(code) - 1) + code


def _bits_of(payload: bytes) -> str:
    return f"{int.from_bytes(payload, 'big'):0{8 * len(payload)}b}"


def _bytes_of(bits: str) -> bytes:
    """A payload with its trailing bits (clause 7.3.2.11), escaped."""
    bits += "1"
    bits += "0" * (-len(bits) % 8)
    return escape(int(bits, 2).to_bytes(len(bits) // 8, "big"))
