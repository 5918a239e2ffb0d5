"""From order of arrival to order of decoding, whatever the network or the recorder shuffled."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, replace

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.video import h264, h265
from edgefirst_ros.video.annexb import H264_SLICE, H264_SPS, H265_SPS, NalUnit, h264_slice_type, is_slice

_WHOLE = 4
"""A stream whose first so many packets are whole pictures sends no parts of pictures."""
_BIDIRECTIONAL = frozenset({1, 6})


@dataclass(frozen=True, slots=True)
class Arrival:
    """One packet as it came, already taken apart by ``annexb.head``."""

    time_ns: int
    packet: VideoPacket
    units: list[NalUnit]


class DecodeOrder:
    """Holds packets back until their place is certain.

    Where display order is decode order, packets are sorted by time, so disorder within the look-ahead
    changes nothing. A stream that reorders (its sequence parameter set says so or, where an H.264 one is
    silent, a B slice was seen) carries display times, which do not tell the order of decoding: there the
    order of arrival is taken, and disorder shows as loss.

    Attributes:
        reorders: arrival is the order of decoding.
        unsaid: it reorders although the stream's parameters do not say so.
    """

    def __init__(self) -> None:
        self.reorders = False
        self.unsaid = False
        self._silent = False
        self._last_set: tuple[str, bytes] | None = None
        self._waiting: list[Arrival] = []
        self._last_ns: int | None = None
        self._in_parts = False
        self._count = 0

    def push(self, arrival: Arrival) -> bool:
        """Take a packet; False if its place has already been passed, so that it counts as lost."""
        self._learn(arrival)
        self._count += 1
        if self.reorders:
            self._waiting.append(arrival)
            return True
        if self._last_ns is not None and arrival.time_ns < self._last_ns:
            return False
        insort(self._waiting, arrival, key=lambda other: other.time_ns)
        return True

    def join(self, time_ns: int, packet: VideoPacket) -> bool:
        """Put a further part to the picture that waits with its time; False if there is none."""
        for index, arrival in enumerate(self._waiting):
            if (
                arrival.time_ns == time_ns
                and arrival.units
                and is_slice(packet.codec, arrival.units[-1].kind)
            ):
                whole = replace(arrival.packet, data=arrival.packet.data + packet.data)
                self._waiting[index] = replace(arrival, packet=whole)
                self._in_parts = True
                return True
        return False

    def settle(self, horizon_ns: int | None) -> list[Arrival]:
        """The packets that nothing still to come can precede, in order of decoding.

        Args:
            horizon_ns: everything up to this time has arrived; None: everything has.
        """
        if self.reorders or horizon_ns is None:
            settled, self._waiting = self._waiting, []
            if settled and horizon_ns is not None and settled[-1].time_ns > horizon_ns and self._may_grow():
                self._waiting.append(settled.pop())
        else:
            count = sum(arrival.time_ns <= horizon_ns for arrival in self._waiting)
            settled, self._waiting = self._waiting[:count], self._waiting[count:]
        if settled:
            self._last_ns = settled[-1].time_ns
        return settled

    def _may_grow(self) -> bool:
        """Whether a further part of the newest picture may come: told by what the first pictures did."""
        return self._in_parts or self._count <= _WHOLE

    def _learn(self, arrival: Arrival) -> None:
        codec = arrival.packet.codec
        for unit in arrival.units:
            if unit.kind == (H264_SPS if codec == "h264" else H265_SPS):
                self._learn_set(codec, unit.data)
        last = arrival.units[-1] if arrival.units else None
        if self._silent and codec == "h264" and last is not None and last.kind == H264_SLICE:
            self.unsaid = self.unsaid or h264_slice_type(last.data) in _BIDIRECTIONAL
        self.reorders = self.reorders or self.unsaid

    def _learn_set(self, codec: str, data: bytes) -> None:
        if self._last_set == (codec, data):
            return
        self._last_set = codec, data
        try:
            found = h264.sequence_set(data) if codec == "h264" else h265.sequence_set(data)
        except DecodeError:
            return
        self._silent = found.reorder is None
        self.reorders = self.reorders or bool(found.reorder)
