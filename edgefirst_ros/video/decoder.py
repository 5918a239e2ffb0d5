"""libavcodec, one access unit in, any number of pictures out, each known by its number."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import av
from av.codec.context import ThreadType
from av.video.codeccontext import VideoCodecContext

from edgefirst_ros.messages.camera import Codec

_NAMES = {"h264": "h264", "h265": "hevc"}
_STRICT = "1"


class Decoder:
    """One decoding context; belongs to one thread, and is drained before it is dropped.

    Args:
        codec: of the access units.
        threads: pictures decoded at a time; the decoder holds back one less.
        reorders_unsaid: the stream reorders pictures without saying how far. The decoder would learn
            it by losing pictures; told so, it holds back as many as the standard allows.
    """

    def __init__(self, codec: Codec, threads: int, *, reorders_unsaid: bool) -> None:
        context = cast("VideoCodecContext", av.CodecContext.create(_NAMES[codec], "r"))
        context.thread_type = ThreadType.FRAME
        context.thread_count = threads
        if reorders_unsaid:
            context.options = {"strict": _STRICT}
        self._context = context
        self._made_for = codec, reorders_unsaid

    def fits(self, codec: Codec, *, reorders_unsaid: bool) -> bool:
        """Whether it was made for such a stream."""
        return self._made_for == (codec, reorders_unsaid)

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
        """The pictures still held back; afterwards only a key frame may be fed."""
        frames = []
        with suppress(av.FFmpegError):
            frames = _numbered(self._context.decode(None))
        self._context.flush_buffers()
        return frames


def _numbered(frames: list[av.VideoFrame]) -> list[tuple[int, av.VideoFrame]]:
    return [(frame.pts, frame) for frame in frames if frame.pts is not None]
