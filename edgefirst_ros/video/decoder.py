"""libavcodec, one access unit in, any number of pictures out, each known by its number."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, cast

import av
from av.codec.context import Flags, ThreadType
from av.video.codeccontext import VideoCodecContext

from edgefirst_ros.messages.camera import Codec

_NAMES = {"h264": "h264", "h265": "hevc"}
_STRICT = "1"

Entry = Literal["key", "point", "reordered point"]
"""A key frame, a recovery point, or one of a stream that reorders pictures.

Where pictures are reordered, some refer past a recovery point though nothing needs them, and a decoder that
is to refuse damage refuses them, and with several threads whatever follows.
"""


class Decoder:
    """One decoding context; belongs to one thread, and is drained before it is dropped.

    Args:
        codec: of the access units.
        threads: pictures decoded at a time; the decoder holds back one less.
        reorders_unsaid: the stream reorders pictures without saying how far. The decoder would learn
            it by losing pictures; told so, it holds back as many as the standard allows.
        entry: where decoding starts. After a recovery point pictures that are not right yet are given as
            well, marked as damaged, so that nobody waits for them; what is damaged in truth gives none,
            unless the stream reorders pictures.
    """

    def __init__(self, codec: Codec, threads: int, *, reorders_unsaid: bool, entry: Entry = "key") -> None:
        context = cast("VideoCodecContext", av.CodecContext.create(_NAMES[codec], "r"))
        context.thread_type = ThreadType.FRAME
        context.thread_count = threads
        options = {"strict": _STRICT} if reorders_unsaid else {}
        if entry != "key":
            context.flags |= Flags.output_corrupt
        if entry == "point":
            options["err_detect"] = "explode"
        context.options = options
        self._context = context
        self._made_for = codec, reorders_unsaid, entry

    def fits(self, codec: Codec, *, reorders_unsaid: bool, entry: Entry = "key") -> bool:
        """Whether it was made for such a stream."""
        return self._made_for == (codec, reorders_unsaid, entry)

    def prime(self, data: bytes) -> None:
        """Give the decoder something of which no picture is wanted, and which may be refused."""
        packet = av.Packet(len(data))
        packet.update(data)
        with suppress(av.FFmpegError):
            self._context.decode(packet)

    def feed(self, number: int, data: bytes) -> list[tuple[int, av.VideoFrame]]:
        """Decode an access unit; the pictures that became ready, which may be of earlier ones.

        What libavcodec refuses yields nothing.
        """
        # A packet that borrows Python's memory needs the interpreter to be freed, which a decoder
        # thread may have to wait for while the interpreter waits for it.
        packet = av.Packet(len(data))
        packet.update(data)
        packet.pts = number
        with suppress(av.FFmpegError):
            return _numbered(self._context.decode(packet))
        return []

    def drain(self) -> list[tuple[int, av.VideoFrame]]:
        """The pictures still held back; afterwards decoding must start anew."""
        frames = []
        with suppress(av.FFmpegError):
            frames = _numbered(self._context.decode(None))
        self._context.flush_buffers()
        return frames


def _numbered(frames: list[av.VideoFrame]) -> list[tuple[int, av.VideoFrame]]:
    return [(frame.pts, frame) for frame in frames if frame.pts is not None]
