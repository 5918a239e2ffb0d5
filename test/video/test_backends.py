"""Decoders in hardware: what there is of them here refuses, and says what is missing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import av
import pytest
from clips import make_clip

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.model.errors import ConfigError, DecodeError
from edgefirst_ros.pipeline.job import Job
from edgefirst_ros.video import decoder
from edgefirst_ros.video.decoder import DecoderKind, decoding_context, held_pictures, require_decoder
from edgefirst_ros.video.stream import VideoStream

HARDWARE: list[DecoderKind] = ["v4l2m2m", "nvdec"]


class FakeContext(SimpleNamespace):
    """A context of a device that opens or refuses."""

    def __init__(self, refusal: OSError | None) -> None:
        super().__init__(flags=0, options={}, thread_count=0, opened=False)
        self._refusal = refusal

    def open(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.opened = True


def devices(
    monkeypatch: pytest.MonkeyPatch, refusals: dict[str, OSError | None]
) -> list[tuple[str, str | None]]:
    """What is asked for, of devices that there are instead of this machine's."""
    asked = []

    def create(name: str, _: str, hwaccel: str | None = None) -> FakeContext:
        asked.append((name, hwaccel))
        return FakeContext(refusals.get(name, av.ArgumentError(22, "No such device")))

    monkeypatch.setattr(decoder, "HWAccel", lambda device, **_: device)
    monkeypatch.setattr(decoder.av.CodecContext, "create", create, raising=False)
    return asked


def test_every_decoder_of_the_configuration_is_known() -> None:
    assert get_args(Config.model_fields["decoder"].annotation) == get_args(DecoderKind)
    assert Config.model_fields["decoder"].default == "software"
    for kind in get_args(DecoderKind):
        assert held_pictures(kind, 2) >= 2


@pytest.mark.parametrize("kind", HARDWARE)
def test_libavcodec_has_the_decoders_that_are_asked_for(kind: DecoderKind) -> None:
    for name in decoder._BACKENDS[kind].names.values():
        assert name in av.codecs_available
        av.Codec(name, "r")


def test_a_gpu_is_asked_for_what_libavcodec_offers_and_never_replaced_by_software(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "cuda" in av.codec.hwaccel.hwdevices_available()
    asked: list[tuple[str, bool]] = []

    def accelerator(device: str, *, allow_software_fallback: bool) -> None:
        asked.append((device, allow_software_fallback))

    monkeypatch.setattr(decoder, "HWAccel", accelerator)
    decoding_context("h264", "nvdec", 4)
    assert asked == [("cuda", False)]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("v4l2m2m", r"needs a stateful V4L2 decoder \(/dev/video\*\)"),
        ("nvdec", r"needs an NVIDIA GPU and its driver"),
    ],
)
def test_a_run_does_not_start_where_every_decoder_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: DecoderKind, said: str
) -> None:
    busy = av.PermissionError(16, "Device or resource busy")
    devices(monkeypatch, dict.fromkeys(("h264", "hevc", "h264_v4l2m2m", "hevc_v4l2m2m"), busy))
    with pytest.raises(ConfigError, match=rf"^decoder: {kind} {said}.*h265 cannot.*Set decoder: software"):
        Job(build_config({"decoder": kind}), tmp_path / "out", "d")
    assert not (tmp_path / "out").exists()


def test_hardware_for_one_codec_is_enough_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = devices(monkeypatch, {"hevc_v4l2m2m": None})
    require_decoder("v4l2m2m")
    assert [name for name, _ in asked] == ["h264_v4l2m2m", "hevc_v4l2m2m"]
    with pytest.raises(DecodeError, match="h264 cannot be decoded by v4l2m2m: No such device"):
        decoding_context("h264", "v4l2m2m", 1)


def test_the_stream_of_a_codec_that_the_hardware_lacks_says_so_for_every_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clip = make_clip("h264-p")
    devices(monkeypatch, {})
    with VideoStream("/camera/h264", decoder="v4l2m2m") as video:
        for shot in clip.shots:
            video.push(shot.time_ns, shot.packet)
        pictures = [video.request(video.judge(shot.time_ns)) for shot in clip.shots[:3]]
        for picture in pictures:
            with pytest.raises(DecodeError, match="h264 cannot be decoded by v4l2m2m"):
                picture.result(30)


def test_hardware_decodes_in_order_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, {"h264_v4l2m2m": None})
    context: Any = decoding_context("h264", "v4l2m2m", 4, options={"err_detect": "explode"})
    assert context.opened
    assert (context.thread_count, context.options) == (1, {"err_detect": "explode"})
