"""libavcodec, and the validator that rejects the damaged ones of its pictures."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import av
from av.codec.context import Flags

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.video.backends import DecoderKind, decoding_context, judges_h265
from edgefirst_ros.video.gops import AccessUnit, StartKind
from edgefirst_ros.video.h264ends import H264Ends
from edgefirst_ros.video.pictures import Picture

if TYPE_CHECKING:
    from edgefirst_ros.video.integrity import H265Syntax

_STRICT = "1"

GAVE_NONE = "the decoder returned no picture"
DAMAGED = "damaged in its packet or an earlier one"
UNREACHED = "decoding started too late for it"
"""No result: the picture needs a start further back."""

_NONE = -1

DecodeResult = Picture | str
"""A picture, or why there is none."""


class VideoDecoder:
    """One decoding context, for use by one thread; it must be drained before it is deleted.

    Args:
        codec: of the access units.
        threads: pictures decoded at a time; the decoder holds back one less.
        hidden_reorder: the stream reorders pictures without saying how far. A decoder that is not told
            loses some of them; one that is holds back as many as the standard allows.
        start_kind: where decoding starts. After a recovery point, pictures that are not correct yet are
            returned, marked as corrupt, so that nobody waits for them. Damaged ones are not, unless the
            stream reorders pictures.
        kind: what decodes.

    Raises:
        DecodeError: the hardware is not there, or it refuses.
    """

    def __init__(
        self,
        codec: Codec,
        threads: int,
        *,
        hidden_reorder: bool,
        start_kind: StartKind = "key",
        kind: DecoderKind = "software",
    ) -> None:
        options: dict[str, str] = {"strict": _STRICT} if hidden_reorder else {}
        if start_kind == "point":
            options["err_detect"] = "explode"
        flags = Flags.output_corrupt if start_kind != "key" else None
        self._context = decoding_context(codec, kind, threads, flags, options)
        self._made_for = codec, hidden_reorder, start_kind
        self._options = options
        self._is_empty = True
        self._syntax: H265Syntax | None = None
        if codec == "h265" and judges_h265():
            from edgefirst_ros.video.integrity import H265Syntax  # noqa: PLC0415 - an extra

            self._syntax = H265Syntax()
        self._ends: H264Ends | None = None

    def fits(self, codec: Codec, *, hidden_reorder: bool, start_kind: StartKind = "key") -> bool:
        """Whether the decoder was made with these arguments."""
        return self._made_for == (codec, hidden_reorder, start_kind)

    def prime(self, data: bytes) -> None:
        """Feed data whose picture is not wanted; errors are ignored."""
        packet = av.Packet(len(data))
        packet.update(data)
        with suppress(av.FFmpegError):
            self._context.decode(packet)

    def feed(self, unit: AccessUnit) -> list[tuple[int, av.VideoFrame]]:
        """Decode an access unit: the pictures that are ready now, possibly of earlier ones.

        Whether it is damaged is known when its picture is. Data that libavcodec refuses gives none.
        """
        self._judge(unit)
        # A packet that borrows Python's memory needs the interpreter to be freed, which a decoder
        # thread may have to wait for while the interpreter waits for it.
        packet = av.Packet(len(unit.data))
        packet.update(unit.data)
        packet.pts = unit.number
        with suppress(av.FFmpegError):
            return _numbered(self._context.decode(packet))
        return []

    def drain(self) -> list[tuple[int, av.VideoFrame]]:
        """The pictures held back so far; decoding must then start again at a key frame."""
        frames = []
        if self._ends is not None:
            self._ends.drain()
        with suppress(av.FFmpegError):
            frames = _numbered(self._context.decode(None))
        self._context.flush_buffers()
        self._is_empty = True
        return frames

    def _judge(self, unit: AccessUnit) -> None:
        codec, _, start_kind = self._made_for
        if self._syntax is not None:
            unit.damaged = self._syntax.is_damaged(unit)
        elif codec == "h264" and start_kind == "key":
            if self._is_empty:
                # All from the start on is judged, or nothing, as pictures refer to earlier ones.
                self._ends = (self._ends or H264Ends(self._options)) if unit.doubtful else None
            if self._ends is not None:
                self._ends.feed(unit)
        self._is_empty = False


def _numbered(frames: list[av.VideoFrame]) -> list[tuple[int, av.VideoFrame]]:
    return [(frame.pts, frame) for frame in frames if frame.pts is not None]


class FrameValidator:
    """Decides for each access unit whether its picture is undamaged, in decode order.

    A decoder conceals what it cannot read and continues with the result, which depends on its number of
    threads. So a picture passes only after all those decoded before it, and only if none was damaged since
    its own start.

    Args:
        patience: a unit without a picture is given up when more than this many have been fed that are
            shown later. Those shown earlier do not count: of a pyramid, the first picture decoded may be the
            last one shown.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._inside: deque[AccessUnit] = deque()
        self._shown: dict[int, av.VideoFrame] = {}
        self._forget_damage()

    def feed(self, unit: AccessUnit) -> None:
        """Note that a unit is being fed."""
        self._inside.append(unit)

    def show(self, frames: Iterable[tuple[int, av.VideoFrame]]) -> list[tuple[AccessUnit, DecodeResult]]:
        """Take decoded frames by unit number; the units whose result is now certain."""
        for number, frame in frames:
            self._shown.setdefault(number, frame)
        certain = []
        while self._inside:
            unit = self._inside[0]
            if unit.number not in self._shown:
                later = len(self._inside) - 1
                if later > self._patience:
                    later = sum(unit.precedes(other) for other in islice(self._inside, 1, None))
                if later <= self._patience:
                    break
            certain.append((unit, self._result(self._inside.popleft())))
        return certain

    def drain(self, frames: Iterable[tuple[int, av.VideoFrame]]) -> list[tuple[AccessUnit, DecodeResult]]:
        """As ``show``, with the last frames before the decoder starts again."""
        certain = self.show(frames)
        certain += [(unit, self._result(unit)) for unit in self._inside]
        self._inside.clear()
        self._shown.clear()
        self._forget_damage()
        return certain

    def _forget_damage(self) -> None:
        self._first: int | None = None
        """Number of the group at which the decoder started."""
        self._spoiled = self._leading_spoiled = _NONE
        """Numbers of the latest groups with damage: in pictures that later ones refer to, in leading ones."""

    def _result(self, unit: AccessUnit) -> DecodeResult:
        number = unit.gop.number
        self._first = number if self._first is None else self._first
        frame = self._shown.pop(unit.number, None)
        if unit.start is None or unit.start < self._first:
            # The decoder calls all of them damaged; it gives none where a packet is.
            if frame is None and unit.reference and not unit.leading:
                self._spoiled = number
            return UNREACHED
        if frame is None or frame.is_corrupt or unit.damaged:
            if unit.leading:
                self._leading_spoiled = number
            else:
                self._spoiled = number
        if frame is None:
            return GAVE_NONE
        spoiled = unit.start <= self._spoiled or (unit.leading and number == self._leading_spoiled)
        return DAMAGED if spoiled else Picture(frame)
