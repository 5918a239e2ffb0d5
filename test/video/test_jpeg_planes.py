"""JPEGs of video are made of its own planes: when, and their colours against definition and libswscale."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import av
import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from clips import encode_shots, recipe
from test_picture import plain, to_yuv

from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.video.pictures import Picture, Planes, encode, picture_of, stitch
from edgefirst_ros.video.stream import VideoStream

# The 24 patches of the ColorChecker in sRGB.
PATCHES = [
    *((115, 82, 68), (194, 150, 130), (98, 122, 157), (87, 108, 67), (133, 128, 177), (103, 189, 170)),
    *((214, 126, 44), (80, 91, 166), (193, 90, 99), (94, 60, 108), (157, 188, 64), (224, 163, 46)),
    *((56, 61, 150), (70, 148, 73), (175, 54, 60), (231, 199, 31), (187, 86, 149), (8, 133, 161)),
    *((243, 243, 242), (200, 200, 200), (160, 160, 160), (122, 122, 121), (85, 85, 85), (52, 52, 52)),
]
CELL = 64
SPACES = {"bt601": Colorspace.ITU601, "bt709": Colorspace.ITU709}
COLOURS = pytest.mark.parametrize(("matrix", "full"), [(m, f) for m in SPACES for f in (False, True)])


def joined(luma: npt.NDArray[np.uint8], *colours: npt.NDArray[np.uint8]) -> av.VideoFrame:
    whole = np.concatenate([luma.ravel(), *(plane.ravel() for plane in colours)])
    return av.VideoFrame.from_ndarray(whole.reshape(-1, luma.shape[1]), format="yuv420p")


def chart(matrix: str, *, full: bool) -> av.VideoFrame:
    """The patches as a stream of this matrix and range has them."""
    yuv = np.array([to_yuv(colour, matrix, full=full) for colour in PATCHES], np.uint8).reshape(4, 6, 3)
    sizes = (CELL, CELL // 2, CELL // 2)
    frame = joined(*(np.kron(yuv[..., n], np.ones((s, s), np.uint8)) for n, s in enumerate(sizes)))
    frame.colorspace = SPACES[matrix]
    frame.color_range = ColorRange.JPEG if full else ColorRange.MPEG
    return frame


def planes_of(frame: av.VideoFrame) -> Planes:
    planes = Picture(frame).planes()
    assert planes is not None
    return planes


@COLOURS
def test_the_planes_have_no_bias_over_the_standard_patches(matrix: str, full: bool) -> None:
    planes = planes_of(chart(matrix, full=full))
    sizes = (CELL, CELL // 2, CELL // 2)
    found = np.dstack([p[s // 2 :: s, s // 2 :: s] for p, s in zip(planes, sizes, strict=True)]).astype(int)
    wanted = np.array([to_yuv(colour, "bt601", full=True) for colour in PATCHES]).reshape(4, 6, 3)
    off = found - wanted
    assert np.abs(off).max() <= 1  # each side rounds
    assert np.abs(off.mean((0, 1))).max() <= 0.25


@COLOURS
def test_the_planes_are_those_of_ffmpegs_own_conversion(matrix: str, full: bool) -> None:
    frame = chart(matrix, full=full)
    careful = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
    theirs = VideoReformatter().reformat(
        frame,
        format="yuvj420p",
        dst_colorspace=Colorspace.ITU601,
        dst_color_range=ColorRange.JPEG,
        interpolation=careful | Interpolation.FULL_CHR_H_INP,
    )
    for ours, plane in zip(planes_of(frame), theirs.planes, strict=True):
        there = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        assert np.abs(ours.astype(int) - there).mean() < 1


@COLOURS
def test_the_jpeg_shows_the_standard_patches_without_bias(matrix: str, full: bool) -> None:
    image = encode(Picture(chart(matrix, full=full)), "jpeg", 95)
    rgb = simplejpeg.decode_jpeg(image.data).reshape(4, CELL, 6, CELL, 3)
    inside = rgb[:, 16:-16, :, 16:-16].astype(float).mean((1, 3))
    # A screen's colours need not be in the video's range.
    off = inside - np.array(PATCHES, float).reshape(4, 6, 3)
    assert np.abs(off).max() < 3
    assert np.abs(off.mean((0, 1))).max() < 0.6


@COLOURS
def test_the_jpeg_of_a_stream_is_made_without_rgb(matrix: str, full: bool) -> None:
    names = {"bt601": "smpte170m", "bt709": "bt709"}
    flags = f"colormatrix={names[matrix]}:fullrange={'on' if full else 'off'}:keyint=1"
    picture = joined(*planes_of(chart(matrix, full=full)))
    options = {"qp": "1", "x264-params": flags}
    shot, *_ = encode_shots("libx264", options, frames=1, size=(384, 256), picture=lambda _: picture)
    with VideoStream("/camera") as video:
        video.push(shot.time_ns, shot.packet)
        future = video.request(video.judge(shot.time_ns))
    decoded = future.result()
    straight = simplejpeg.decode_jpeg(simplejpeg.encode_jpeg(decoded.rgb(), 95, "RGB", "420")).astype(int)
    with patch.object(Picture, "rgb", side_effect=AssertionError):
        image = encode(decoded, "jpeg", 95)
    assert (image.width, image.height) == (384, 256)
    assert np.abs(simplejpeg.decode_jpeg(image.data) - straight).mean() < 2


def test_a_stream_that_states_nothing_is_bt601_of_limited_range() -> None:
    stated = chart("bt601", full=False)
    silent = joined(*(np.array(p) for p in _raw_planes(stated)))
    assert all(map(np.array_equal, planes_of(silent), planes_of(stated)))


def _raw_planes(frame: av.VideoFrame) -> list[npt.NDArray[np.uint8]]:
    return [
        np.frombuffer(p, np.uint8).reshape(p.height, p.line_size)[:, : p.width].copy() for p in frame.planes
    ]


@pytest.mark.parametrize("width", [62, 64, 98])
def test_rows_with_padding_are_encoded_as_those_without(width: int) -> None:
    rng = np.random.default_rng(1)
    sizes = ((48, width), (24, width // 2), (24, width // 2))
    picture = Picture(joined(*(rng.integers(16, 236, size, np.uint8) for size in sizes)))
    planes = picture.planes()
    assert planes is not None
    packed = [np.ascontiguousarray(plane) for plane in planes]
    assert [plane.shape for plane in packed] == list(sizes)
    made = simplejpeg.encode_jpeg_yuv_planes(*packed, 90, fastdct=False)
    assert encode(picture, "jpeg", 90).data == made


@pytest.mark.parametrize(
    ("name", "size"),
    [("yuv420p", (97, 63)), ("yuv422p", (98, 63)), ("yuv444p", (97, 63)), ("yuv420p10le", (98, 62))],
)
def test_other_video_is_encoded_through_rgb(name: str, size: tuple[int, int]) -> None:
    colour = np.full((size[1], size[0], 3), (200, 80, 30), np.uint8)
    frame = VideoReformatter().reformat(av.VideoFrame.from_ndarray(colour), format=name)
    picture = Picture(frame)
    assert picture.planes() is None
    image = encode(picture, "jpeg", 90)
    assert (image.width, image.height) == size
    assert image.data == simplejpeg.encode_jpeg(picture.rgb(), 90, "RGB", "420", fastdct=False)
    assert np.abs(simplejpeg.decode_jpeg(image.data).astype(int) - (200, 80, 30)).mean() < 3


def test_a_matrix_that_is_not_known_goes_through_rgb() -> None:
    frame = plain((120, 90, 200))
    frame.colorspace = 8  # YCgCo
    assert Picture(frame).planes() is None


@pytest.mark.parametrize("encoding", ["nv12", "i420"])
def test_uncompressed_images_stay_as_they_were(encoding: str) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (96, 64), np.uint8)
    picture = picture_of(RawImage(encoding, pixels))
    assert picture.planes() is None
    rgb = simplejpeg.encode_jpeg(picture.rgb(), 90, "RGB", "420", fastdct=False)
    assert encode(picture, "jpeg", 90).data == rgb


def test_png_is_made_of_rgb() -> None:
    frame = chart("bt709", full=False)
    with patch.object(Picture, "planes", side_effect=AssertionError):
        assert encode(Picture(frame), "png").format == "png"


def test_tiles_are_joined_plane_by_plane() -> None:
    rng = np.random.default_rng(3)
    whole = [rng.integers(16, 236, size, np.uint8) for size in ((64, 96), (32, 48), (32, 48))]
    quarters = [
        joined(*(np.split(np.split(plane, 2)[row], 2, axis=1)[column] for plane in whole))
        for row in range(2)
        for column in range(2)
    ]
    tl, tr, bl, br = map(Picture, quarters)
    made = encode(stitch(tl, tr, bl, br), "jpeg", 90)
    assert made == encode(Picture(joined(*whole)), "jpeg", 90)
    mixed = stitch(tl, tr, bl, Picture(np.zeros((32, 48, 3), np.uint8)))
    assert mixed.planes() is None
    assert encode(mixed, "jpeg", 90).width == 96


def test_one_picture_is_converted_on_many_threads_and_sizes_in_turn() -> None:
    pictures = [Picture(plain((120, 90, 200), width, 480)) for width in (640, 320)]
    first = [planes_of(plain((120, 90, 200), width, 480)) for width in (640, 320)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: (n, pictures[n].planes()), [n % 2 for n in range(80)]))
    for n, planes in found:
        assert planes is not None
        assert all(map(np.array_equal, planes, first[n]))


@pytest.mark.parametrize("codec", ["h264-p", "h265-p"])
def test_video_of_the_device_is_converted(codec: str) -> None:
    shot, *_ = encode_shots(*recipe(codec), frames=1, size=(96, 64))
    with VideoStream("/camera") as video:
        video.push(shot.time_ns, shot.packet)
        future = video.request(video.judge(shot.time_ns))
    assert future.result().planes() is not None
