"""Which pictures are whole: follows a topic across changes of its parameters and of its codec."""

from __future__ import annotations

from dataclasses import replace

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import Codec
from edgefirst_ros.video.annexb import (
    H264_PPS,
    H264_SPS,
    H265_PPS,
    H265_SPS,
    NalUnit,
    gradual_start,
    is_key_head,
    is_parameter_set,
    is_slice,
)
from edgefirst_ros.video.follow import Follower, H264Follower, H265Follower
from edgefirst_ros.video.step import AFTER_LOSS, BEFORE_KEY, NO_PICTURE, Step

_LONG_START = b"\x00\x00\x00\x01"


class Continuity:
    """Follows a topic's access units in decode order, across changes of parameters and of codec."""

    def __init__(self) -> None:
        self._codec: Codec | None = None
        self._follower: Follower = H264Follower()
        self._sets: dict[tuple[int, int], bytes] = {}
        self._loose: list[bytes] = []

    def step(self, codec: Codec, units: list[NalUnit], time_ns: int) -> Step:
        """Follow one access unit, as ``annexb.head`` took it apart."""
        if codec != self._codec:
            began = self._codec is not None
            self._codec = codec
            self._follower = H264Follower() if codec == "h264" else H265Follower()
            self._follower.reason = AFTER_LOSS if began else BEFORE_KEY
            self._sets = {}
        own = [unit for unit in units if is_parameter_set(codec, unit.kind)]
        for unit in own:
            self._take(codec, unit)
        if not units or not is_slice(codec, units[-1].kind):
            self._loose += [unit.data for unit in own]
            return Step(NO_PICTURE, picture=False)
        key, gradual = is_key_head(codec, units), gradual_start(codec, units)
        starts = key or gradual is not None
        prefix = self._prefix(codec, {unit.kind for unit in own}, starts=starts)
        self._loose = []
        try:
            step = self._follower.step(units[-1], time_ns, key=key, gradual=gradual)
            primer = step.primer
            if primer:
                primer = prefix + b"".join(_LONG_START + data for data in (*(u.data for u in own), primer))
            return replace(step, prefix=prefix, primer=primer)
        except DecodeError as error:
            reason = self._follower.reason or str(error)
            self._follower.lose(AFTER_LOSS)
            return Step(reason, picture=False)

    def _take(self, codec: Codec, unit: NalUnit) -> None:
        sequence = unit.kind == (H264_SPS if codec == "h264" else H265_SPS)
        picture = unit.kind == (H264_PPS if codec == "h264" else H265_PPS)
        try:
            ident = 0
            if sequence:
                ident = self._follower.add_sequence(unit.data)
            elif picture:
                ident = self._follower.add_picture(unit.data)
        except DecodeError:
            return
        self._sets[unit.kind, ident] = unit.data

    def _prefix(self, codec: Codec, own: set[int], *, starts: bool) -> bytes:
        needed = {H264_SPS, H264_PPS} if codec == "h264" else {H265_SPS, H265_PPS}
        known = [self._sets[name] for name in sorted(self._sets)]
        return b"".join(
            _LONG_START + data for data in (known if starts and not needed <= own else self._loose)
        )
