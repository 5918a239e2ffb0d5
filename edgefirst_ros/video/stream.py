"""One video topic of one sequence: which packets are usable, and their pictures on demand."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.camera import VideoPacket
from edgefirst_ros.video.annexb import head, is_key_head, is_slice
from edgefirst_ros.video.continuity import Continuity
from edgefirst_ros.video.decoder import Entry
from edgefirst_ros.video.gops import Unit
from edgefirst_ros.video.order import Arrival, DecodeOrder
from edgefirst_ros.video.picture import Picture
from edgefirst_ros.video.step import NO_PICTURE
from edgefirst_ros.video.timeline import Mark, Timeline
from edgefirst_ros.video.worker import Worker

TOO_LATE = "arrived too late"
BEHIND = 8
"""More pictures than so many being asked for and not decoded, decoding is slow; threads hold back fewer."""
UNKNOWN = "no packet of that time"


@dataclass(slots=True)
class _Frame:
    """What became of one packet; ``unit`` once a decoder may be fed it."""

    picture: bool
    reason: str | None = None
    unit: Unit | None = None
    size: tuple[int, int] | None = None
    prefix: bytes = b""


class VideoStream:
    """Decodes what is asked for, and says of every packet whether its picture can be trusted.

    Packets are pushed in order of arrival; ``verdict`` and ``request`` follow in order of time, each when
    packets up to ``lookahead_ns`` after its time have been pushed. A quarter of that is for the decoder,
    which holds pictures back; in the other three a packet may be late without anybody noticing, unless the
    stream reorders pictures (``order.DecodeOrder``). All methods belong to one calling thread; decoding
    runs on the stream's own, which starts with the first request.

    Packets stay compressed, by group of pictures, until ``release`` lets them go. A group of which no
    picture is asked for is never decoded, others no further than their last wanted picture and what the
    decoder holds back; where only key frames are asked for, only they are decoded. When more than 64 MiB are
    kept of released packets that later frames still build on, ``push`` waits while they are decoded
    ahead and let go.

    A frame is usable if the decoder can rebuild it exactly: from the first key frame on, and after
    a loss from the next one; in a stream without them, when a recovery point has kept its promise. Losses
    show in the headers (frame_num, reference picture sets), which tell which pictures a lost one took along,
    also earlier ones, and in the stamps (``timeline.Timeline``).

    Args:
        topic: names the decoding thread.
        workers: pictures decoded at a time, at most; the pictures are the same for any number. They lag by as
            many, so a quarter of the look-ahead limits them, too.
        lookahead_ns: how far past a frame packets have been pushed when its verdict is asked for.
    """

    def __init__(self, topic: str, *, workers: int = 1, lookahead_ns: int = 1_000_000_000) -> None:
        self._workers = workers
        self._margin_ns = lookahead_ns // 4
        self._order = DecodeOrder()
        self._continuity = Continuity()
        self._timeline = Timeline(self._margin_ns)
        self._frames: dict[int, _Frame] = {}
        self._worker = Worker(f"video {topic}", self._threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def push(self, key: int, time_ns: int, packet: VideoPacket) -> bool:
        """Take one packet in order of arrival; True if it is a key frame.

        ``key`` is the message's running number. A packet with the time of an earlier one is a repetition and
        is left out; one without a picture (parameter sets sent apart) may share a picture's time.
        """
        del key
        units = head(packet)
        picture = bool(units) and is_slice(packet.codec, units[-1].kind)
        known = self._frames.get(time_ns)
        if known is None or picture > known.picture:
            self._frames[time_ns] = _Frame(picture, None if picture else NO_PICTURE)
        if not (picture and known is not None and known.picture):
            walked_ns = self._timeline.walked_ns
            passed = walked_ns is not None and time_ns <= walked_ns
            late = passed or not self._order.push(Arrival(time_ns, packet, units))
            if late and picture:
                self._frames[time_ns].reason = TOO_LATE
        self._worker.make_room()
        return is_key_head(packet.codec, units)

    def join(self, time_ns: int, packet: VideoPacket) -> bool:
        """Take a further part of a picture that was pushed; False if that has been given to the decoder."""
        return self._order.join(time_ns, packet)

    def verdict(self, time_ns: int) -> str | None:
        """None if the packet of that time is usable, else a short countable reason; in order of time."""
        self._settle(time_ns + self._margin_ns)
        self._walk(time_ns)
        frame = self._frames.get(time_ns)
        return UNKNOWN if frame is None else frame.reason

    def size(self, time_ns: int) -> tuple[int, int] | None:
        """Width and height of a packet's picture after its verdict, None if its headers do not tell."""
        frame = self._frames.get(time_ns)
        return None if frame is None else frame.size

    def prefix(self, time_ns: int) -> bytes:
        """The parameter sets that a decoder starting at a packet needs, and that are not in it."""
        frame = self._frames.get(time_ns)
        return b"" if frame is None else frame.prefix

    def request(self, time_ns: int) -> Future[Picture]:
        """The picture of a usable packet; in order of time, the same time twice gives the same future.

        The future fails with a DecodeError if the packet is not usable or the decoder gives no picture.
        """
        reason = self.verdict(time_ns)
        frame = self._frames.get(time_ns)
        if reason is not None or frame is None or frame.unit is None:
            refused: Future[Picture] = Future()
            refused.set_exception(DecodeError(reason or NO_PICTURE))
            return refused
        return self._worker.request(frame.unit)

    @property
    def is_behind(self) -> bool:
        """Whether decoding does not keep pace with what is asked for."""
        return self._worker.waiting > BEHIND

    def release(self, time_ns: int) -> None:
        """No frame at or before this time will be asked for any more."""
        self._settle(time_ns)
        self._walk(time_ns)
        for passed_ns in [known_ns for known_ns in self._frames if known_ns <= time_ns]:
            del self._frames[passed_ns]
        self._worker.release(time_ns)

    def close(self) -> None:
        """Decode what is still requested and stop; every future is resolved."""
        self._settle(None)
        self._worker.close()

    def _settle(self, horizon_ns: int | None) -> None:
        for arrival in self._order.settle(horizon_ns):
            self._place(arrival)

    def _place(self, arrival: Arrival) -> None:
        codec, time_ns = arrival.packet.codec, arrival.time_ns
        step = self._continuity.step(codec, arrival.units, time_ns)
        frame = self._frames.get(time_ns)
        if step.picture:
            self._timeline.add(Mark(time_ns, step.key, step.poc, step.poc_modulus, step.start_ns))
        picture = bool(arrival.units) and is_slice(codec, arrival.units[-1].kind)
        if frame is not None and picture:
            frame.reason, frame.size, frame.prefix = step.reason, step.size, step.prefix
        if not step.decodable:
            return
        with self._worker.changed:
            gops = self._worker.gops
            if step.starts:
                order = self._order
                point: Entry = "reordered point" if order.reorders else "point"
                entry = "key" if step.key else point
                unsaid, linked = order.unsaid, step.linked
                gops.begin(codec, reorders_unsaid=unsaid, linked=linked, entry=entry, primer=step.primer)
            data = step.prefix + arrival.packet.data
            unit = gops.append(time_ns, data, leading=step.leading, reference=step.reference, back=step.back)
            self._worker.changed.notify_all()
        if frame is not None and (picture or not frame.picture):
            frame.unit = unit

    def _walk(self, time_ns: int) -> None:
        for passed_ns, reason in self._timeline.walk(time_ns):
            frame = self._frames.get(passed_ns)
            if frame is not None:
                frame.reason = frame.reason or reason

    def _threads(self) -> int:
        """Threads hold pictures back: no more of them than the packets at hand are sure to push out."""
        interval_ns = self._timeline.interval_ns()
        return 1 if not interval_ns else max(1, min(self._workers, self._margin_ns // interval_ns))
