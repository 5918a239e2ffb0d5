"""The pictures of one sequence: decoded on demand, encoded once, all of one size; tiles are joined."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from edgefirst_ros.model.camera import TILES, CompressedImage, RawImage, VideoPacket, split_tile
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.sample import Calibration, CameraImage, Look
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.executor import chain, gather
from edgefirst_ros.pipeline.ledger import Stage
from edgefirst_ros.video.batches import Elsewhere, EncodedPicture, Send
from edgefirst_ros.video.decoder import DecoderKind
from edgefirst_ros.video.headers import Content
from edgefirst_ros.video.pictures import (
    Picture,
    beyond_depth,
    encode,
    encode_deep,
    has_open_depth,
    picture_of,
    raw_size,
    stitch,
)
from edgefirst_ros.video.stills import passthrough, still_size
from edgefirst_ros.video.stream import Remarks, VideoStream

_DEPTHS = (10, 12, 14, 16)
"""Bits of a sample as sensors have them; a dark scene may leave the upper ones empty, so no finer steps."""


class SampleBits:
    """How many of their 16 bits the samples of each camera fill, where the configuration does not say it.

    The largest sample of a camera's first pictures tells, which are those pushed before one is requested. It
    then holds for the rest of a dataset, so that brightness can be compared between pictures.

    Args:
        say: takes a sentence for the user.
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self._say = say
        self._largest: dict[str, int] = {}
        self._found: dict[str, int] = {}
        self._clipped: set[str] = set()

    def see(self, envelope: Envelope) -> None:
        """Take a camera message in order of arrival."""
        datum = envelope.measurement.datum
        given = envelope.route.rule.significant_bits
        if (
            given
            or envelope.route.rule.sixteen_bits
            or not (isinstance(datum, RawImage) and has_open_depth(datum))
        ):
            return
        camera, largest = _camera(envelope), int(datum.pixels.max(initial=0))
        bits = self._found.get(camera)
        if bits is None:
            self._largest[camera] = max(self._largest.get(camera, 0), largest)
        elif largest >> bits and camera not in self._clipped:
            self._clipped.add(camera)
            self._say(
                f"{envelope.topic}: pictures became brighter than the {bits} bits that the first ones fill, "
                f"and are clipped: set topics.{envelope.route.name}.significant_bits"
            )

    def of(self, envelope: Envelope) -> int:
        """For the picture of a message that was seen, or of a tile of it."""
        given, camera = envelope.route.rule.significant_bits, _camera(envelope)
        if given or camera not in self._largest:
            return given or _DEPTHS[-1]
        bits = self._found.get(camera)
        if bits is None:
            bits = next(depth for depth in _DEPTHS if not self._largest[camera] >> depth)
            self._found[camera] = bits
            entry = f"topics.{envelope.route.name}"
            self._say(
                f"{envelope.topic}: pictures become ones of 8 bits; the first fill {bits} of 16, so "
                f"{(1 << bits) - 1} is white, which {entry}.significant_bits sets; {entry}.sixteen_bits "
                "keeps gray ones as they are"
            )
        return bits


def _camera(envelope: Envelope) -> str:
    """Name of what has one scale: a topic, or the four tiles of a picture."""
    return "" if envelope.route.rule.tile else envelope.topic


class Images:
    """The video streams of one sequence, and encoded pictures on request.

    Args:
        pool: encodes.
        workers: threads of the pool.
        image_format: of pictures that are not stored as the camera encoded them.
        quality: of JPEG, 1 to 100.
        lookahead_ns: how far past a message others were pushed when it is judged.
        send: has groups of pictures decoded and encoded elsewhere; None where the pool is to do it.
        sent: called after each of them; may wait until there is room for more.
        decoder: what decodes video.
        bits: of wide samples, in all sequences.
        remarks: on the video of all sequences.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        workers: int,
        image_format: Literal["jpeg", "png"],
        quality: int,
        *,
        lookahead_ns: int,
        send: Send | None = None,
        sent: Callable[[], None] = lambda: None,
        decoder: DecoderKind = "software",
        bits: SampleBits | None = None,
        remarks: Remarks | None = None,
    ) -> None:
        self._pool = pool
        self._workers = workers
        self._format: Literal["jpeg", "png"] = image_format
        self._quality = quality
        self._lookahead_ns = lookahead_ns
        self._decoder = decoder
        self._bits = bits or SampleBits()
        self._remarks = remarks
        self._elsewhere, self._repeatable = (
            Elsewhere(way, sent, image_format, quality) if way and decoder == "software" else None
            for way in (send, send or pool.submit)
        )
        self._streams: dict[str, VideoStream] = {}
        self._released_ns = 0
        self._sizes: dict[str, tuple[int, int]] = {}
        """Size of every camera's first picture, which is that of the whole sequence."""
        self.key_ns: dict[str, int] = {}
        """Time of the last key frame by topic."""

    def learns_from(self, envelope: Envelope) -> bool:
        """Whether a camera message may change what becomes of those before it."""
        datum, stream = envelope.measurement.datum, self._streams.get(envelope.topic)
        if not isinstance(datum, VideoPacket) or stream is None or envelope.content is Content.PART:
            return True
        return stream.learns_from(datum)

    def push(self, envelope: Envelope) -> None:
        """Take a camera message in order of arrival, which is a video's order of decoding."""
        datum = envelope.measurement.datum
        self._bits.see(envelope)
        if isinstance(datum, RawImage) and envelope.route.rule.sixteen_bits == "depth" and self._remarks:
            self._remarks.far(envelope.topic, beyond_depth(datum))
        if isinstance(datum, VideoPacket):
            topic = envelope.topic
            stream = self._streams.get(topic)
            if stream is None:
                # Of H.265, libavcodec shows what was in memory where damage ends a picture too early. That
                # is the same only if whole groups are decoded from their start, one picture at a time.
                is_doubtful = datum.codec == "h265" and not envelope.checksummed
                elsewhere = self._repeatable if is_doubtful else self._elsewhere
                stream = self._streams[topic] = VideoStream(
                    topic,
                    workers=1 if is_doubtful else self._workers,
                    lookahead_ns=self._lookahead_ns,
                    # The pictures of tiles are joined before they are encoded.
                    elsewhere=None if envelope.route.rule.tile else elsewhere,
                    decoder=self._decoder,
                    remarks=self._remarks,
                )
            envelope.keyframe = stream.push(envelope.time_ns, datum)

    def join(self, first: Envelope, part: Envelope) -> bool:
        """Add a further slice to a picture that was pushed; False if that has gone to the decoder already."""
        datum, more = first.measurement.datum, part.measurement.datum
        if not (isinstance(datum, VideoPacket) and isinstance(more, VideoPacket)):
            return False
        if not self._streams[first.topic].join(first.time_ns, more):
            return False
        whole = replace(datum, data=datum.data + more.data)
        first.measurement = first.measurement._replace(datum=whole)
        first.slices = (*first.slices, part)
        return True

    def judge(self, envelope: Envelope) -> None:
        """Set ``unusable`` and ``size``, in order of time, once the look-ahead's messages were pushed."""
        datum = envelope.measurement.datum
        if envelope.keyframe:
            self.key_ns[envelope.topic] = envelope.time_ns
        if isinstance(datum, VideoPacket):
            verdict = self._streams[envelope.topic].judge(envelope.time_ns, self._released_ns)
            envelope.verdict, envelope.unusable, envelope.size = verdict, verdict.reason, verdict.size
            envelope.ticket.account.unchecked += not (verdict.reason or envelope.checksummed)
            if envelope.unusable == Reason.SECOND_FIELD:
                envelope.unshown = Stage.DECODED, Reason.SECOND_FIELD
        elif isinstance(datum, CompressedImage):
            envelope.size = still_size(datum)
        elif isinstance(datum, RawImage):
            envelope.size = raw_size(datum)

    def size_before(self, envelope: Envelope) -> tuple[int, int] | None:
        """The size of its camera's pictures so far if this picture has another; in order of time."""
        if envelope.size is None or envelope.unusable is not None:
            return None
        known = self._sizes.setdefault(envelope.topic, envelope.size)
        return None if known == envelope.size else known

    def independent(self, envelope: Envelope) -> Envelope:
        """The message as the first of another sequence: with the parameter sets that were sent before it."""
        datum, topic = envelope.measurement.datum, envelope.topic
        if not isinstance(datum, VideoPacket) or not envelope.keyframe:
            return envelope
        data = self._streams[topic].known(envelope.time_ns).prefix + datum.data
        other = copy(envelope)
        other.measurement = envelope.measurement._replace(datum=VideoPacket(datum.codec, data))
        return other

    def request(self, envelope: Envelope, content: StreamContent | None = None) -> Future[CameraImage]:
        """The encoded picture of a judged message or of its tiles; requested twice, it is encoded once.

        ``content`` says whether the picture is to be looked at, and takes what is seen.
        """
        if envelope.image is None:
            datum = envelope.measurement.datum
            looks = content is not None and (
                not isinstance(datum, CompressedImage) or content.is_due(envelope.time_ns, len(datum.data))
            )
            whole = bool(envelope.parts)
            image = envelope.image = (
                self._stitched(envelope) if whole else self._single(envelope, looked_at=looks)
            )
            if content is not None and looks:
                slot, moving = content.expect(envelope.time_ns), isinstance(datum, VideoPacket)
                image.add_done_callback(lambda done: content.look(slot, _look_of(done), moving=moving))
        return envelope.image

    def is_behind(self, envelope: Envelope) -> bool:
        """Whether decoding of a message's video does not keep pace with the requests."""
        parts = envelope.parts or (envelope,)
        streams = (self._streams.get(part.topic) for part in parts)
        return any(stream is not None and stream.is_behind for stream in streams)

    def pass_over(self, envelope: Envelope) -> None:
        """Decode a picture that nobody requests, so that requests for later ones of its video wait less.

        Where decoding is slow, that is left until a later one before the next key frame is requested, if any.
        """
        if envelope.image is None and not self.is_behind(envelope):
            for part in envelope.parts or (envelope,):
                if part.verdict is not None:
                    self._streams[part.topic].request(part.verdict)

    def release(self, before_ns: int) -> None:
        """No picture before this time will be requested any more; videos delete it with their next one."""
        self._released_ns = max(self._released_ns, before_ns)

    @property
    def is_gathering(self) -> bool:
        """Whether pictures were requested that are decoded together with others to come."""
        return any(stream.is_gathering for stream in self._streams.values())

    def flush(self) -> None:
        """Begin to make everything that was requested, as the caller is about to wait for it."""
        for stream in self._streams.values():
            stream.flush()

    def close(self) -> None:
        """Decode what is still requested and end the decoders."""
        for stream in self._streams.values():
            stream.close()

    def _encode(self, picture: Picture) -> CameraImage:
        if isinstance(picture, EncodedPicture):
            return picture.image
        return encode(picture, self._format, self._quality)

    def _encode_raw(self, image: RawImage, significant_bits: int) -> CameraImage:
        return self._encode(picture_of(image, significant_bits))

    def _single(self, envelope: Envelope, *, looked_at: bool) -> Future[CameraImage]:
        datum = envelope.measurement.datum
        if isinstance(datum, CompressedImage):
            return self._pool.submit(passthrough, datum, looked_at=looked_at)
        if isinstance(datum, RawImage) and (values := envelope.route.rule.sixteen_bits):
            return self._pool.submit(encode_deep, datum, values)
        if isinstance(datum, RawImage):
            # At once, since pictures that wait to be encoded take as much memory as the messages.
            return self._pool.submit(self._encode_raw, datum, self._bits.of(envelope))
        return chain(self._pool, self._decoded(envelope), self._encode)

    def _stitched(self, envelope: Envelope) -> Future[CameraImage]:
        by_tile = {part.route.rule.tile: part for part in envelope.parts}
        decoded = gather([self._decoded(by_tile[tile]) for tile in TILES])
        return chain(self._pool, decoded, lambda tiles: self._encode(stitch(*tiles)))

    def _decoded(self, envelope: Envelope) -> Future[Picture]:
        datum = envelope.measurement.datum
        if isinstance(datum, RawImage):
            return self._pool.submit(picture_of, datum, self._bits.of(envelope))
        verdict, envelope.verdict = envelope.verdict, None  # which keeps all packets of its group
        if verdict is None:
            raise RuntimeError("a picture is requested that was not judged")
        return self._streams[envelope.topic].request(verdict)


def _look_of(done: Future[CameraImage]) -> Look | None:
    """The look of a picture, None if it could not be made."""
    return None if done.cancelled() or done.exception() is not None else done.result().look


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A camera's pictures have another size from one on.

    Attributes:
        first: message of the new size.
        before: size of its topic's pictures until then.
        rest: that message and all later ones that have arrived, in order of arrival.
        known: calibration in force then.
    """

    first: Envelope
    before: tuple[int, int]
    rest: tuple[Envelope, ...]
    known: Calibration

    @property
    def reason(self) -> str:
        """What happened, for the report."""
        sizes = " to ".join("{}x{}".format(*size) for size in (self.before, self.first.size or ()))
        when = datetime.fromtimestamp(self.first.time_ns // 1_000_000_000, UTC)
        milli = self.first.time_ns // 1_000_000 % 1000
        topic = self.first.topic
        return f"the picture of {topic} changed from {sizes} at {when:%Y-%m-%d %H:%M:%S}.{milli:03d} UTC"


class TileGrouper:
    """Joins tiles of equal time into one picture; fed in order of time."""

    def __init__(self) -> None:
        self._group: list[Envelope] = []

    def add(self, tile: Envelope) -> Envelope | None:
        """Take the next tile; the previous picture if this tile is of a later time."""
        done = self.advance(tile.time_ns)
        self._group.append(tile)
        return done

    def advance(self, time_ns: int) -> Envelope | None:
        """The picture under way if it is of an earlier time, so that no further tile of it can come."""
        return self.flush() if self._group and self._group[0].time_ns < time_ns else None

    def flush(self) -> Envelope | None:
        """The picture under way, complete or not."""
        group, self._group = self._group, []
        if not group:
            return None
        by_tile = {tile.route.rule.tile: tile for tile in group}
        whole = copy(by_tile.get("tl", group[0]))
        # The picture is the camera's, and the tiles' frames are its own under other names.
        frame_id = split_tile(whole.measurement.frame_id)[0]
        whole.measurement = whole.measurement._replace(frame_id=frame_id)
        whole.keyframe = all(tile.keyframe for tile in group)
        whole.unusable = next((tile.unusable for tile in group if tile.unusable is not None), None)
        if len(by_tile) < 4 or len(group) > 4:
            whole.unusable = Reason.TILE_MISSING
        whole.parts, whole.image = tuple(group), None
        return whole
