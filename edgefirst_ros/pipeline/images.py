"""Encoded pictures of camera envelopes: video decoded on demand, stills passed through, tiles stitched."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Literal

from edgefirst_ros.messages.camera import CompressedImage, RawImage, VideoPacket
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.executor import chain, gather
from edgefirst_ros.sample import CameraImage
from edgefirst_ros.video.pictures import Picture, picture_of, raw_size, stitch
from edgefirst_ros.video.stills import encode, passthrough, still_size
from edgefirst_ros.video.stream import VideoStream

TILES: tuple[Literal["tl", "tr", "bl", "br"], ...] = ("tl", "tr", "bl", "br")


class Images:
    """The video streams of one sequence, and the encoding of what is asked for."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        workers: int,
        image_format: Literal["jpeg", "png"],
        quality: int,
        *,
        lookahead_ns: int,
    ) -> None:
        self._pool = pool
        self._workers = workers
        self._format: Literal["jpeg", "png"] = image_format
        self._quality = quality
        self._lookahead_ns = lookahead_ns
        self._streams: dict[str, VideoStream] = {}
        self._released_ns: int | None = None

    def arrive(self, envelope: Envelope) -> None:
        """Take a camera envelope in order of arrival, which is a video's order of decoding."""
        datum = envelope.measurement.datum
        if isinstance(datum, VideoPacket):
            topic = envelope.route.topic
            stream = self._streams.get(topic)
            if stream is None:
                stream = self._streams[topic] = VideoStream(
                    topic, workers=self._workers, lookahead_ns=self._lookahead_ns
                )
            envelope.keyframe = stream.push(envelope.measurement.arrival, envelope.time_ns, datum)

    def join(self, first: Envelope, part: Envelope) -> bool:
        """Put a further part to the picture that began with ``first``; False if that is decoded already."""
        datum, more = first.measurement.datum, part.measurement.datum
        if not (isinstance(datum, VideoPacket) and isinstance(more, VideoPacket)):
            return False
        if not self._streams[first.route.topic].join(first.time_ns, more):
            return False
        whole = replace(datum, data=datum.data + more.data)
        first.measurement = replace(first.measurement, datum=whole)
        first.slices = (*first.slices, part)
        return True

    def judge(self, envelope: Envelope) -> None:
        """Say whether the picture can be had, and its size, in order of time, after what follows arrived."""
        datum = envelope.measurement.datum
        if isinstance(datum, VideoPacket):
            stream = self._streams[envelope.route.topic]
            envelope.unusable = stream.verdict(envelope.time_ns)
            envelope.size = stream.size(envelope.time_ns)
        elif isinstance(datum, CompressedImage):
            envelope.size = still_size(datum)
        elif isinstance(datum, RawImage):
            envelope.size = raw_size(datum)

    def independent(self, envelope: Envelope) -> Envelope:
        """The envelope as another sequence can begin with it: with the parameter sets that came before it."""
        datum, topic = envelope.measurement.datum, envelope.route.topic
        if not isinstance(datum, VideoPacket) or not envelope.keyframe:
            return envelope
        data = self._streams[topic].prefix(envelope.time_ns) + datum.data
        return replace(
            envelope, measurement=replace(envelope.measurement, datum=VideoPacket(datum.codec, data))
        )

    def request(self, envelope: Envelope) -> Future[CameraImage]:
        """The encoded picture of an envelope or of its tiles; asked for twice it is encoded once."""
        if envelope.image is None:
            envelope.image = self._stitched(envelope) if envelope.parts else self._single(envelope)
        return envelope.image

    def is_behind(self, envelope: Envelope) -> bool:
        """Whether decoding of an envelope's video does not keep pace with what is asked for."""
        parts = envelope.parts or (envelope,)
        streams = (self._streams.get(part.route.topic) for part in parts)
        return any(stream is not None and stream.is_behind for stream in streams)

    def pass_over(self, envelope: Envelope) -> None:
        """Nobody wants this picture of a video, but others after it: decode it now, so that those wait less.

        Where decoding is slow it is left until then, and spared if none is wanted up to the next key frame.
        """
        if envelope.image is None and not self.is_behind(envelope):
            for part in envelope.parts or (envelope,):
                if isinstance(part.measurement.datum, VideoPacket):
                    self._streams[part.route.topic].request(part.time_ns)

    def release(self, before_ns: int) -> None:
        """No picture before this time will be asked for."""
        if self._released_ns is not None and before_ns <= self._released_ns:
            return
        self._released_ns = before_ns
        for stream in self._streams.values():
            stream.release(before_ns - 1)

    def close(self) -> None:
        """Decode what is still asked for and end the decoders."""
        for stream in self._streams.values():
            stream.close()

    def _encode(self, picture: Picture) -> CameraImage:
        return encode(picture, self._format, self._quality)

    def _single(self, envelope: Envelope) -> Future[CameraImage]:
        datum = envelope.measurement.datum
        if isinstance(datum, CompressedImage):
            return self._pool.submit(passthrough, datum)
        return chain(self._pool, self._decoded(envelope), self._encode)

    def _stitched(self, envelope: Envelope) -> Future[CameraImage]:
        by_tile = {part.route.rule.tile: part for part in envelope.parts}
        decoded = gather([self._decoded(by_tile[tile]) for tile in TILES])
        return chain(self._pool, decoded, lambda tiles: self._encode(stitch(*tiles)))

    def _decoded(self, envelope: Envelope) -> Future[Picture]:
        datum = envelope.measurement.datum
        if isinstance(datum, RawImage):
            return self._pool.submit(picture_of, datum, envelope.route.rule.significant_bits)
        return self._streams[envelope.route.topic].request(envelope.time_ns)
