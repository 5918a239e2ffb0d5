"""Tells that two publishers send one topic, by what alternates in its messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from edgefirst_ros.config.topics import CONTEXT_ROLES
from edgefirst_ros.model.camera import CompressedImage, RawImage, VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Datum, Role
from edgefirst_ros.pipeline.envelope import Envelope, Sender
from edgefirst_ros.video.headers import H264_SPS, H265_SPS, head
from edgefirst_ros.video.parameters import sequence_set
from edgefirst_ros.video.pictures import raw_size
from edgefirst_ros.video.stills import still_size

WINDOW_NS = 10_000_000_000
"""By receipt. A publisher that was not heard for so long is gone, and nobody switches a camera to and fro
within it as often as ``RETURNS`` says."""
RETURNS = 2
"""How often each of two publishers comes back after the other: a user who switches to another size, and back,
does it once."""
MOST_SENDERS = 8
"""A frame id that is different in every message, as a number is, tells no publishers apart."""
OTHER_CLOCK_NS = 60_000_000_000
"""No transport holds a message for so long and sends newer ones meanwhile."""
STAMPS, JUDGED_EVERY = 100, 25
GO_BACK = 0.1
"""Share of a topic's messages whose stamps go back, so that they are worth a closer look."""
EVEN, MOSTLY = 0.2, 0.9
"""Messages come evenly if this share of the intervals is within so much of the usual one."""


class _Alternation:
    """One kind of sign of a topic's messages, such as the frame id: a sender for each value of it.

    Two alternate if both come back, again and again, after the other: later by their stamps as well, for
    messages that were late or out of order around a single change are older than what they come between.
    The one that was there first is kept, for as long as it sends.
    """

    def __init__(self, says: Callable[[Any], str] = str) -> None:
        self._says = says
        self._senders: dict[object, Sender] = {}
        """Those that sent lately, in the order in which they began."""
        self._last: Sender | None = None
        self._now_ns = 0
        self.are_two = False

    def see(self, value: object, shown: object, time_ns: int, receive_ns: int) -> Sender | None:
        """Take the next message, whose value is ``shown`` as text; its sender, None for the only one.

        That is kept whoever comes after it.
        """
        senders, last = self._senders, self._last
        if len(senders) == 1 and senders.get(value) is last is not None and receive_ns >= self._now_ns:
            last.newest_ns = self._now_ns = receive_ns
            return None
        if receive_ns < self._now_ns - WINDOW_NS:  # the receiver's clock was set back
            self._senders.clear()
            self._now_ns = 0
        self._now_ns = max(self._now_ns, receive_ns)
        sender = self._senders.get(value)
        if sender is None:
            if len(self._senders) == MOST_SENDERS:
                self._senders.clear()
            sender = self._senders[value] = Sender(self._says(shown), time_ns)
        elif sender is not self._last and any(
            time_ns > other.first_ns for other in self._senders.values() if other is not sender
        ):
            sender.returns = (*sender.returns[1 - RETURNS :], receive_ns)
        sender.newest_ns, self._last = self._now_ns, sender
        self._judge()
        return sender

    def _judge(self) -> None:
        since_ns = self._now_ns - WINDOW_NS
        if any(each.newest_ns < since_ns for each in self._senders.values()):
            self._senders = {v: each for v, each in self._senders.items() if each.newest_ns >= since_ns}
        if len(self._senders) < 2:
            self.are_two = False
        elif not self.are_two:
            back = (r for each in self._senders.values() if len(r := each.returns) == RETURNS)
            self.are_two = sum(returns[0] >= since_ns for returns in back) > 1
        kept = None
        for each in self._senders.values():
            each.is_other = kept is not None
            # One that is not heard any more may have been there before those that alternate.
            if self.are_two and kept is None and each.returns and each.returns[-1] >= since_ns:
                kept = each

    @property
    def values(self) -> list[str]:
        """Of the senders that alternate now, the one that is kept first; none without."""
        return [each.text for each in self._senders.values() if each.returns] if self.are_two else []


class _Clocks(_Alternation):
    """The senders of a topic by their clocks, where these are farther apart than latencies are."""

    def __init__(self) -> None:
        super().__init__(lambda apart_ns: f"{apart_ns / 1e9:,.0f} s")
        self._apart_ns: dict[int, int] = {}
        """The newest receive − stamp of each clock."""
        self._count = 0

    def see_stamp(self, stamp_ns: int, receive_ns: int) -> Sender | None:
        """Take the next message; see ``see``."""
        apart_ns = receive_ns - stamp_ns
        near = [n for n, ns in self._apart_ns.items() if abs(ns - apart_ns) < OTHER_CLOCK_NS]
        if not near:
            if len(self._apart_ns) == MOST_SENDERS:
                self._apart_ns.clear()
            self._count += 1
        clock = near[0] if near else self._count
        self._apart_ns[clock] = apart_ns
        return self.see(clock, apart_ns, receive_ns, receive_ns)


class _Stamps:
    """Stamps of two publishers that are less apart, by what no transport does to those of one.

    Messages out of order leave holes where they belong. Of two publishers' messages either's come evenly, and
    all of them together do not. So they are found, but which message is whose is not told for certain.
    """

    def __init__(self) -> None:
        self._stamps: deque[int] = deque(maxlen=STAMPS)
        self._newest_ns = self._count = 0
        self.values: list[str] = []

    def see(self, stamp_ns: int) -> None:
        """Take the next message."""
        if stamp_ns > self._newest_ns:
            self._newest_ns = stamp_ns
        elif stamp_ns in self._stamps:  # it comes twice, or several are of one time
            return
        self._stamps.append(stamp_ns)
        self._count += 1
        if self._count % JUDGED_EVERY or len(self._stamps) < STAMPS:
            return
        stamps = list(self._stamps)
        back = [a - b for a, b in pairwise(stamps) if b < a]
        if len(back) < GO_BACK * STAMPS:
            return
        chains: list[list[int]] = [[], []]
        for each in stamps:
            fitting = [chain for chain in chains if not chain or chain[-1] < each]
            if not fitting:
                return
            max(fitting, key=lambda chain: chain[-1] if chain else -1).append(each)
        if all(len(c) >= GO_BACK * STAMPS and _is_even(c) for c in chains) and not _is_even(sorted(stamps)):
            self.values = [f"{median(back) / 1e6:,.1f} ms"]


def _is_even(times_ns: list[int]) -> bool:
    intervals = [b - a for a, b in pairwise(times_ns)]
    usual = median(intervals)
    return sum(abs(each - usual) <= EVEN * usual for each in intervals) >= MOSTLY * len(intervals)


@dataclass(slots=True)
class _Topic:
    frames: _Alternation = field(default_factory=lambda: _Alternation(lambda frame_id: frame_id or "(none)"))
    layouts: _Alternation = field(default_factory=_Alternation)
    clocks: _Clocks = field(default_factory=_Clocks)
    stamps: _Stamps = field(default_factory=_Stamps)

    @property
    def sign(self) -> dict[str, Any] | None:
        """What tells that there are two now, and its values."""
        if self.frames.are_two or self.layouts.are_two or self.clocks.are_two or self.stamps.values:
            for name in ("frames", "layouts", "clocks", "stamps"):
                if values := getattr(self, name).values:
                    return {"sign": name, "values": values}
        return None


class Publishers:
    """Watches every topic for a second publisher; fed in order of arrival.

    Frame id, kind of payload and clock say of a message which publisher it is of, see ``Envelope.senders``.
    Exempt are transforms and calibration, which many nodes send by design.

    Attributes:
        several: topics whose next message may change what is known of those before.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self.several: set[str] = set()
        self._found: dict[str, dict[str, Any]] = {}
        self._announced: dict[str, dict[str, Any]] = {}

    def see(self, envelope: Envelope) -> None:
        """Take a message and set its senders."""
        role = envelope.route.rule.role
        if role in CONTEXT_ROLES:
            return
        topic = self._topics.get(envelope.topic)
        if topic is None:
            topic = self._topics[envelope.topic] = _Topic()
        stamp_ns, frame_id, datum = envelope.decoded
        receive_ns = envelope.receive_ns
        time_ns = stamp_ns or receive_ns
        senders = [topic.frames.see(frame_id, frame_id, time_ns, receive_ns)]
        layout = layout_of(datum)
        if layout is not None:
            senders.append(topic.layouts.see(*layout, time_ns, receive_ns))
        if stamp_ns:
            senders.append(topic.clocks.see_stamp(stamp_ns, receive_ns))
            # Packets of video are in order of decoding; a receiver sends each epoch twice.
            if not isinstance(datum, VideoPacket) and role is not Role.GPS:
                topic.stamps.see(stamp_ns)
        envelope.senders = tuple(filter(None, senders))
        if envelope.senders:
            self.several.add(envelope.topic)
        else:
            self.several.discard(envelope.topic)
        if (sign := topic.sign) is not None:
            self._found.setdefault(envelope.topic, sign)

    def announced(self, topic: str, publishers: list[str]) -> None:
        """Note that the middleware knows several publishers of a topic; any thread.

        Recordings do not say it, so no message is refused for it.
        """
        self._announced[topic] = {"sign": "announced", "values": publishers}

    @property
    def found(self) -> Mapping[str, Mapping[str, Any]]:
        """By topic with several publishers, what tells it; any thread."""
        return dict(sorted({**self._announced.copy(), **self._found.copy()}.items()))

    def begin(self) -> None:
        """Another session goes on: what is found from now on is of it as well."""
        self._announced, self._found = {}, {}


def layout_of(datum: Datum) -> tuple[object, str] | None:
    """What a publisher does not change from message to message, as a value and a text; None if not told."""
    if isinstance(datum, VideoPacket):
        return _sequence_sets(datum)
    if isinstance(datum, CompressedImage):
        size = still_size(datum)
        return None if size is None else ((datum.format, size), f"{_by(size)} ({datum.format})")
    if isinstance(datum, RawImage):
        return (datum.encoding, raw_size(datum)), f"{_by(raw_size(datum))} ({datum.encoding})"
    if isinstance(datum, PointCloud) and len(datum.points):
        names = datum.points.dtype.names or ()
        return names, " ".join(names)
    return None


def _sequence_sets(packet: VideoPacket) -> tuple[object, str] | None:
    """The sequence parameter sets of a packet that has some, as those of key frames."""
    kind = H264_SPS if packet.codec == "h264" else H265_SPS
    sets = tuple(unit.data for unit in head(packet) if unit.kind == kind)
    if not sets:
        return None
    try:
        return sets, f"{_by(sequence_set(packet.codec, sets[0]).size)} ({packet.codec})"
    except DecodeError:
        return sets, packet.codec


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"
