"""libavcodec on processors or with hardware, and the validator that rejects its damaged pictures."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Literal, cast

import av
from av.codec.context import Flags, ThreadType
from av.codec.hwaccel import HWAccel
from av.video.codeccontext import VideoCodecContext

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.errors import ConfigError, DecodeError
from edgefirst_ros.video.gops import AccessUnit, StartKind
from edgefirst_ros.video.pictures import Picture

GAVE_NONE = "the decoder returned no picture"
DAMAGED = "damaged in its packet or an earlier one"
UNREACHED = "decoding started too late for it"
"""No result: the picture needs a start further back."""

_NONE = -1

DecodeResult = Picture | str
"""A picture, or why there is none."""

DecoderKind = Literal["software", "v4l2m2m", "nvdec"]


@dataclass(frozen=True, slots=True)
class _Backend:
    """A way to decode.

    Attributes:
        names: libavcodec's decoders.
        device: kind of device that helps them, if any.
        parts: what the machine must have.
        held: pictures that it may hold back, besides those that wait to be shown.
    """

    names: Mapping[Codec, str]
    device: str | None
    parts: str
    held: int


_BACKENDS: dict[DecoderKind, _Backend] = {
    "software": _Backend({"h264": "h264", "h265": "hevc"}, None, "PyAV with H.264 and H.265", 0),
    "v4l2m2m": _Backend(
        {"h264": "h264_v4l2m2m", "h265": "hevc_v4l2m2m"},
        None,
        "a stateful V4L2 decoder (/dev/video*) that this user may open",
        32,
    ),
    "nvdec": _Backend(
        {"h264": "h264", "h265": "hevc"}, "cuda", "an NVIDIA GPU and its driver (libcuda, libnvcuvid)", 8
    ),
}


def decoding_context(
    codec: Codec,
    kind: DecoderKind,
    threads: int,
    flags: Flags | None = None,
    options: Mapping[str, str] | None = None,
) -> VideoCodecContext:
    """A context of libavcodec.

    Args:
        codec: of the access units.
        kind: what decodes.
        threads: pictures decoded at a time; hardware takes one.
        flags: of the context.
        options: of libavcodec.

    Raises:
        DecodeError: the machine has no such decoder, or it refuses.
    """
    backend = _BACKENDS[kind]
    try:
        accelerator = HWAccel(backend.device, allow_software_fallback=False) if backend.device else None
        created = av.CodecContext.create(backend.names[codec], "r", hwaccel=accelerator)
        context = cast("VideoCodecContext", created)
        if flags is not None:
            context.flags |= flags
        context.options = dict(options or {})
        if kind == "software":
            context.thread_type = ThreadType.FRAME
            context.thread_count = threads
        else:
            context.thread_count = 1
            context.open()
    except (av.FFmpegError, ValueError, RuntimeError, NotImplementedError) as error:
        raise DecodeError(f"{codec} cannot be decoded by {kind}: {_reason(error)}") from error
    return context


def held_pictures(kind: DecoderKind, threads: int) -> int:
    """How many pictures a decoder may hold back, besides those that wait to be shown."""
    return threads + _BACKENDS[kind].held


def require_decoder(kind: DecoderKind) -> None:
    """Find out before the first message whether the machine can decode by it.

    Raises:
        ConfigError: it cannot, for neither codec.
    """
    if kind == "software":
        return
    faults = []
    for codec in _BACKENDS[kind].names:
        try:
            decoding_context(codec, kind, 1)
        except DecodeError as error:
            faults.append(str(error))
        else:
            return
    needs = f"decoder: {kind} needs {_BACKENDS[kind].parts}"
    raise ConfigError([f"{needs}; {'; '.join(faults)}. Set decoder: software, which needs neither"])


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).rstrip(".")


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
        options: dict[str, str] = {"strict": "1"} if hidden_reorder else {}
        if start_kind == "point" or codec == "h265":
            options["err_detect"] = "explode"
        flags = Flags.output_corrupt if start_kind != "key" else None
        self._context = decoding_context(codec, kind, threads, flags, options)
        self._made_for = codec, hidden_reorder, start_kind

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

        Data that libavcodec refuses gives none.
        """
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
        with suppress(av.FFmpegError):
            frames = _numbered(self._context.decode(None))
        self._context.flush_buffers()
        return frames


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
        if frame is None or frame.is_corrupt:
            if unit.leading:
                self._leading_spoiled = number
            else:
                self._spoiled = number
        if frame is None:
            return GAVE_NONE
        spoiled = unit.start <= self._spoiled or (unit.leading and number == self._leading_spoiled)
        return DAMAGED if spoiled else Picture(frame)
