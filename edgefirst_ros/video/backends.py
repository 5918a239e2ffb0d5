"""Which part of the machine decodes video: libavcodec on its processors, or a decoder in hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Literal, cast

import av
from av.codec.context import Flags, ThreadType
from av.codec.hwaccel import HWAccel
from av.video.codeccontext import VideoCodecContext

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.errors import ConfigError, DecodeError

JudgeH265 = Literal["auto", "always", "never"]
"""Of which pictures of H.265 the bits are judged: those that nothing vouches for, all, or none."""
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


@cache
def judges_h265() -> bool:
    """Whether damaged H.265 can be found here; it takes the extra ``h265check``."""
    return all(map(find_spec, ("numba", "edgefirst_ros.video.integrity")))
