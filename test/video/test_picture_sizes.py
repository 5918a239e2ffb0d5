"""How large a picture is, told from its headers: as large as the decoder makes it."""

from __future__ import annotations

from typing import Literal

import av
import numpy as np
import pytest
from clips import decode_plainly, encode_shots, make_clip, paint, recipe
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.model.camera import CompressedImage, RawImage, VideoPacket
from edgefirst_ros.video.continuity import Continuity
from edgefirst_ros.video.headers import head
from edgefirst_ros.video.pictures import Picture, encode, picture_of, raw_size
from edgefirst_ros.video.stills import still_size
from edgefirst_ros.video.stream import VideoStream


def size_said(packet: VideoPacket) -> tuple[int, int] | None:
    return Continuity().assess(packet, head(packet), 0).size


SIZES = [
    *(("yuv420p", size) for size in ((96, 64), (98, 66), (1280, 720), (1920, 1080))),
    *((pix_fmt, (130, 82)) for pix_fmt in ("yuv420p", "yuv422p", "yuv444p", "gray")),
]


@pytest.mark.parametrize(("pix_fmt", "size"), SIZES)
@pytest.mark.parametrize("name", ["h264-p", "h265-p"])
def test_a_video_says_its_size_with_the_cropping(name: str, pix_fmt: str, size: tuple[int, int]) -> None:
    def setup(context: av.VideoCodecContext) -> None:
        context.pix_fmt = pix_fmt

    picture = av.VideoFrame.from_ndarray(np.zeros((size[1], size[0], 3), np.uint8))
    shots = encode_shots(*recipe(name), frames=1, size=size, setup=setup, picture=lambda _: picture)
    assert size_said(shots[0].packet) == size
    (rgb,) = decode_plainly(shots).values()
    assert rgb.shape == (size[1], size[0], 3)


@pytest.mark.parametrize("height", [64, 68, 100])
def test_interlaced_video_says_its_size(height: int) -> None:
    shots = encode_shots(*recipe("h264-p", **{"x264-params": "interlaced=1"}), frames=1, size=(96, height))
    assert size_said(shots[0].packet) == (96, height)


def test_a_stream_knows_the_size_of_each_picture() -> None:
    small, large = (
        make_clip("h264-pyramid"),
        encode_shots(*recipe("h264-pyramid"), frames=14, first=44, size=(98, 66)),
    )
    video = VideoStream("/camera/h264")
    for shot in (*small.shots, *large):
        video.push(shot.time_ns, shot.packet)
    found = {}
    for shot in sorted((*small.shots, *large), key=lambda shot: shot.number):
        verdict = video.judge(shot.time_ns)
        assert verdict.reason is None
        found[shot.number] = verdict.size
    assert found == {n: (96, 64) if n < 44 else (98, 66) for n in range(58)}
    assert video.known(0).size is None
    video.close()


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_still_says_its_size(kind: Literal["jpeg", "png"]) -> None:
    image = encode(Picture(paint(1, 70, 50)), kind)
    assert still_size(CompressedImage(kind, image.data)) == (70, 50)
    other: Literal["jpeg", "png"] = "png" if kind == "jpeg" else "jpeg"
    assert still_size(CompressedImage(other, image.data)) is None
    if kind == "jpeg":
        assert still_size(CompressedImage(kind, image.data[:-100])) is None


@given(data=st.binary(max_size=60), kind=st.sampled_from(["jpeg", "png"]))
def test_rubbish_has_no_size_or_one(data: bytes, kind: Literal["jpeg", "png"]) -> None:
    start = b"\x89PNG\r\n\x1a\n" if kind == "png" else b"\xff\xd8\xff"
    for content in (data, start + data):
        found = still_size(CompressedImage(kind, content))
        assert found is None or all(found)


@pytest.mark.parametrize(
    ("encoding", "shape"),
    [("rgb8", (6, 8, 3)), ("mono8", (6, 8)), ("nv12", (9, 8)), ("yuv422_yuy2", (6, 8, 2))],
)
def test_an_uncompressed_image_says_its_size(encoding: str, shape: tuple[int, ...]) -> None:
    image = RawImage(encoding, np.zeros(shape, np.uint8))
    picture = picture_of(image)
    assert raw_size(image) == (picture.width, picture.height) == (8, 6)
