"""One video topic of one sequence: which packets are usable, and their pictures on request."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Self

from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.video.batches import BatchingWorker, Elsewhere
from edgefirst_ros.video.continuity import Arrival, Continuity
from edgefirst_ros.video.decoder import DecoderKind
from edgefirst_ros.video.gops import AccessUnit, DecodeOrder, DisplayTimes
from edgefirst_ros.video.headers import head, is_key_head, is_slice
from edgefirst_ros.video.loss import FrameMark, GapDetector
from edgefirst_ros.video.parameters import SliceHeader, are_paired
from edgefirst_ros.video.pictures import Picture
from edgefirst_ros.video.worker import Worker

TOO_LATE = "arrived too late"
BEHIND = 8
"""With more requested pictures than this waiting, decoding is too slow; its threads hold back fewer."""
UNKNOWN = "no packet of that time"
_NEVER_NS, _LAST_NS = -(1 << 63), 1 << 63


@dataclass(slots=True)
class PictureVerdict:
    """What is known of one packet.

    Attributes:
        picture: whether it holds one.
        reason: why it is not usable, short and countable; None if it is.
        unit: what the decoder is fed of it, once that may be.
        size: width and height of its picture, None if its headers do not tell.
        prefix: the parameter sets that a decoder starting at it needs and that it does not contain.
    """

    picture: bool
    reason: str | None = None
    unit: AccessUnit | None = None
    size: tuple[int, int] | None = None
    prefix: bytes = b""


class Remarks:
    """What the report says of cameras' topics: of all sequences, and without any effect on pictures."""

    def __init__(self) -> None:
        self._breaches: dict[tuple[str, str], None] = {}
        self._late: Counter[str] = Counter()
        self._far: Counter[str] = Counter()

    def breach(self, topic: str, breach: str) -> None:
        """Note how a stream breaks its standard, if it does."""
        if breach:
            self._breaches[topic, breach] = None

    def late(self, topic: str, pictures: int) -> None:
        """Note how many pictures of a video came stamped in order of decoding."""
        self._late[topic] += pictures

    def far(self, topic: str, pixels: int) -> None:
        """Note how many pixels of a depth camera's picture are farther than its values say."""
        self._far[topic] += pixels

    def clear(self) -> None:
        """What is noted from now on is another dataset's."""
        self._far.clear()
        self._breaches.clear()
        self._late.clear()

    @property
    def notes(self) -> list[str]:
        """A sentence each."""
        said = [f"{topic}: {text}; decoders accept that" for topic, text in self._breaches]
        for topic, count in (+self._late).items():
            said.append(f"{topic}: {count:,} pictures were stamped as decoded, not as shown; now sorted")
        for topic, count in (+self._far).items():
            said.append(
                f"{topic}: {count:,} pixels are farther than 65.535 m, which is what they are written as"
            )
        return said


class VideoStream:
    """Decodes on request, and says of every packet whether its picture is correct.

    Packets are pushed in order of arrival. ``judge``, once for each, and ``request`` with its verdict follow
    in order of time, when packets up to ``lookahead_ns`` later have been pushed. The decoder, which holds
    pictures back, takes a quarter of the look-ahead; in the rest a packet may be late without effect, unless
    the stream reorders pictures (``gops.DecodeOrder``). All methods are for one thread; decoding runs in
    another, started by the first request.

    Packets stay compressed, by group of pictures, until they are released. A group of which no picture is
    requested is never decoded, others no further than their last requested picture and what the decoder holds
    back. If only key frames are requested, only they are decoded. When more than 64 MiB are kept of released
    packets that later frames depend on, ``push`` waits until they are decoded and deleted.

    A frame is usable if the decoder can reconstruct it exactly: from the first key frame on, and after a loss
    from the next one; in a stream without key frames, from the end of a recovery point. Losses show in the
    headers of H.264 (frame_num), in the slices, in libavcodec's errors for H.265, and in the time stamps
    (``loss``).

    Args:
        topic: names the decoding thread.
        workers: most pictures decoded at a time; the result does not depend on it. They lag by as many, so a
            quarter of the look-ahead limits them, too.
        lookahead_ns: how far past a frame packets have been pushed when it is judged.
        elsewhere: decodes and encodes whole groups, see ``BatchingWorker``; None for a thread here.
        decoder: what decodes.
        remarks: takes what there is to say.
    """

    def __init__(
        self,
        topic: str,
        *,
        workers: int = 1,
        lookahead_ns: int = 1_000_000_000,
        elsewhere: Elsewhere | None = None,
        decoder: DecoderKind = "software",
        remarks: Remarks | None = None,
    ) -> None:
        self._workers = workers
        self._lookahead_ns, self._margin_ns = lookahead_ns, lookahead_ns // 4
        self._order = DecodeOrder()
        self._times = DisplayTimes()
        self._continuity = Continuity()
        self._is_learned = False
        """The first packets were looked at for how the encoder counts."""
        self._gaps = GapDetector(self._margin_ns)
        self._field: tuple[Arrival, SliceHeader] | None = None
        """A field whose other one is to come in a packet of its own."""
        self._first_parity = 0
        """Which field of a picture comes first, as in its latest key frame; 0 while that is not known."""
        self._topic = topic
        self._remarks = remarks or Remarks()
        self._frames: dict[int, PictureVerdict] = {}
        self._oldest_ns = _LAST_NS
        """Time of the first of them."""
        name = f"video {topic}"
        self._worker = (
            Worker(name, self._threads, decoder)
            if elsewhere is None
            else BatchingWorker(name, self._threads, elsewhere)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def push(self, time_ns: int, packet: VideoPacket) -> bool:
        """Take one packet in order of arrival; True if it is a key frame.

        A packet with the time of an earlier one is a repetition and is ignored; one without a picture
        (separate parameter sets) may share a picture's time.
        """
        units = head(packet)
        picture = bool(units) and is_slice(packet.codec, units[-1].kind)
        known = self._frames.get(time_ns)
        if known is None or picture > known.picture:
            self._frames[time_ns] = PictureVerdict(picture, None if picture else Reason.NO_PICTURE)
            self._oldest_ns = min(self._oldest_ns, time_ns)
        if not (picture and known is not None and known.picture):
            walked_ns = self._gaps.walked_ns
            passed = walked_ns is not None and time_ns <= walked_ns
            late = passed or not self._order.push(Arrival(time_ns, packet, units))
            if late and picture:
                self._frames[time_ns].reason = TOO_LATE
        self._worker.make_room()
        return is_key_head(packet.codec, units)

    def learns_from(self, packet: VideoPacket) -> bool:
        """Whether pushing a packet may change how earlier ones are judged, which else it does not."""
        return self._order.learns_from(packet.codec, head(packet))

    def join(self, time_ns: int, packet: VideoPacket) -> bool:
        """Append a further part to a picture that was pushed; False if that is already decoded."""
        return self._order.join(time_ns, packet)

    def judge(self, time_ns: int, released_ns: int = _NEVER_NS) -> PictureVerdict:
        """Whether a packet is usable; no frame before ``released_ns`` will be requested any more."""
        self._settle(time_ns + self._margin_ns, time_ns)
        self._walk(time_ns)
        verdict = self.known(time_ns)
        if released_ns > self._oldest_ns:
            self.release(released_ns - 1)
        return verdict

    def known(self, time_ns: int) -> PictureVerdict:
        """What is known of the packet of that time before it is judged."""
        return self._frames.get(time_ns) or PictureVerdict(False, UNKNOWN)

    def request(self, verdict: PictureVerdict) -> Future[Picture]:
        """The picture of a packet, in order of time; requested twice in a row, it is the same future.

        The future fails with a DecodeError if the packet is not usable or the decoder gives no picture.
        """
        if verdict.reason is not None or verdict.unit is None:
            refused: Future[Picture] = Future()
            refused.set_exception(DecodeError(verdict.reason or Reason.NO_PICTURE))
            return refused
        return self._worker.request(verdict.unit)

    @property
    def is_behind(self) -> bool:
        """Whether decoding falls behind the requests."""
        return self._worker.waiting > BEHIND

    @property
    def is_gathering(self) -> bool:
        """Whether pictures were requested that are decoded together with others to come."""
        return self._worker.is_gathering

    def flush(self) -> None:
        """Begin to decode everything that was requested, as the caller is about to wait for it."""
        self._worker.flush()

    def release(self, time_ns: int) -> None:
        """No frame at or before this time will be requested any more; all of them have been judged."""
        for passed_ns in [known_ns for known_ns in self._frames if known_ns <= time_ns]:
            del self._frames[passed_ns]
        self._oldest_ns = min(self._frames, default=_LAST_NS)
        self._worker.release(time_ns)

    def close(self) -> None:
        """Decode what was requested and stop; every future is resolved."""
        self._settle(None)
        self._worker.close()

    def _settle(self, horizon_ns: int | None, due_ns: int = _LAST_NS) -> None:
        waiting = self._order.waiting
        if not self._is_learned and waiting:
            # What is later may have come or not.
            until_ns = min(each.time_ns for each in waiting) + self._lookahead_ns
            self._continuity.learn(each for each in waiting if each.time_ns <= until_ns)
            self._is_learned = True
        settled, moved = self._times.place(
            self._order.settle(horizon_ns), due_ns, reorders=self._order.reorders
        )
        self._remarks.late(self._topic, moved)
        for arrival in settled:
            header = None
            if self._order.may_have_fields:
                header = self._continuity.field(arrival.packet, arrival.units)
            if header is None:
                self._give_up_field()
                self._place(arrival)
            else:
                self._place_field(arrival, header)
        if self._field is not None:
            due_ns = self._field[0].time_ns + self._margin_ns
            if horizon_ns is None or horizon_ns >= due_ns:
                self._give_up_field()

    def _place_field(self, arrival: Arrival, header: SliceHeader) -> None:
        """Keep a first field, and place it when its second one comes."""
        if header.idr:
            self._first_parity = header.field
        if self._field is not None and are_paired(self._field[1], header):
            first, self._field = self._field[0], None
            packet = replace(first.packet, data=first.packet.data + arrival.packet.data)
            self._place(first._replace(packet=packet))
            frame = self._frames.get(arrival.time_ns)
            if frame is not None:
                frame.reason = Reason.SECOND_FIELD
            return
        self._give_up_field()
        self._field = arrival, header
        if self._first_parity not in (0, header.field):
            self._give_up_field()

    def _give_up_field(self) -> None:
        """The other field of one that was kept is lost."""
        if self._field is None:
            return
        (arrival, header), self._field = self._field, None
        reason = self._continuity.lose(is_reference=header.reference)
        frame = self._frames.get(arrival.time_ns)
        if frame is not None:
            frame.reason = reason

    def _place(self, arrival: Arrival) -> None:
        codec, time_ns = arrival.packet.codec, arrival.time_ns
        found = self._continuity.assess(arrival.packet, arrival.units, time_ns)
        frame = self._frames.get(time_ns)
        if found.picture:
            self._gaps.add(FrameMark(time_ns, found.key, found.poc, found.poc_modulus, found.start_ns))
        picture = bool(arrival.units) and is_slice(codec, arrival.units[-1].kind)
        if frame is not None and picture >= frame.picture:
            frame.reason, frame.size, frame.prefix = found.reason, found.size, found.prefix
        self._remarks.breach(self._topic, self._continuity.breach)
        if not found.decodable:
            return
        with self._worker.changed:
            gops = self._worker.gops
            if found.starts:
                gops.begin(codec, found, self._order)
            unit = gops.append(time_ns, arrival.packet.data, found)
            self._worker.appended()
        if frame is not None and (picture or not frame.picture):
            frame.unit = unit

    def _walk(self, time_ns: int) -> None:
        for passed_ns, reason in self._gaps.walk(time_ns):
            frame = self._frames.get(passed_ns)
            if frame is not None:
                frame.reason = frame.reason or reason

    def _threads(self) -> int:
        """Threads, each of which holds a picture back: no more than the look-ahead's packets push out."""
        interval_ns = self._gaps.interval_ns()
        return 1 if not interval_ns else max(1, min(self._workers, self._margin_ns // interval_ns))
