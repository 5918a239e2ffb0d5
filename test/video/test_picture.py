"""Pixels: known colours through every matrix and range, raw encodings, tiles."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import av
import numpy as np
import numpy.typing as npt
import pytest
from clips import encode_shots, recipe

from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.pictures import Picture, picture_of, stitch
from edgefirst_ros.video.stream import VideoStream

COLOURS = [(0, 0, 0), (255, 255, 255), (200, 80, 30), (20, 160, 90), (40, 60, 210), (128, 128, 128)]
WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}
MATRIX_NAMES = {"bt601": "smpte170m", "bt709": "bt709"}


def to_yuv(rgb: tuple[int, int, int], matrix: str, *, full: bool) -> tuple[int, int, int]:
    """ITU-R BT.601 and BT.709 by their definition."""
    red, green, blue = (value / 255 for value in rgb)
    kr, kb = WEIGHTS[matrix]
    luma = kr * red + (1 - kr - kb) * green + kb * blue
    cb, cr = (blue - luma) / (2 - 2 * kb), (red - luma) / (2 - 2 * kr)
    scale = (0, 255, 255) if full else (16, 219, 224)
    return round(scale[0] + scale[1] * luma), round(128 + scale[2] * cb), round(128 + scale[2] * cr)


def plain(yuv: tuple[int, int, int], width: int = 64, height: int = 48) -> av.VideoFrame:
    planes = [np.full((height, width), yuv[0], np.uint8).reshape(-1)]
    planes += [np.full(height * width // 4, value, np.uint8) for value in yuv[1:]]
    return av.VideoFrame.from_ndarray(
        np.concatenate(planes).reshape(height * 3 // 2, width), format="yuv420p"
    )


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", WEIGHTS)
@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
def test_known_colours_survive_the_stream(encoder: str, matrix: str, full: bool) -> None:
    flags = f"colormatrix={MATRIX_NAMES[matrix]}:keyint=1"
    if encoder == "libx264":
        options = {"qp": "1", "x264-params": f"{flags}:fullrange={'on' if full else 'off'}"}
    else:
        span = "full" if full else "limited"
        options = {"x265-params": f"{flags}:qp=1:range={span}:log-level=none:pools=none:repeat-headers=1"}
    frames = [plain(to_yuv(colour, matrix, full=full)) for colour in COLOURS]
    shots = encode_shots(encoder, options, frames=len(frames), size=(64, 48), picture=frames.__getitem__)
    with VideoStream("/camera") as video:
        for shot in shots:
            video.push(shot.time_ns, shot.packet)
        futures = [video.request(video.judge(shot.time_ns)) for shot in shots]
    for colour, future in zip(COLOURS, futures, strict=True):
        rgb = future.result().rgb()
        assert (rgb.shape, rgb.dtype, rgb.flags.c_contiguous) == ((48, 64, 3), np.uint8, True)
        assert np.abs(rgb.astype(int) - colour).max() <= 3, (colour, rgb[20, 20])


def test_a_stream_that_is_silent_is_taken_as_bt601_of_limited_range() -> None:
    for colour in COLOURS:
        picture = Picture(plain(to_yuv(colour, "bt601", full=False)))
        assert np.abs(picture.rgb().astype(int) - colour).max() <= 2


@pytest.mark.parametrize("size", [(98, 62), (97, 63), (33, 17)])
def test_sizes_that_fill_no_block(size: tuple[int, int]) -> None:
    shots = encode_shots(*recipe("h264-p"), frames=1, size=(size[0] // 2 * 2, size[1] // 2 * 2))
    with VideoStream("/camera") as video:
        video.push(shots[0].time_ns, shots[0].packet)
        future = video.request(video.judge(shots[0].time_ns))
    picture = future.result()
    assert (
        picture.rgb().shape == (picture.height, picture.width, 3) == (size[1] // 2 * 2, size[0] // 2 * 2, 3)
    )


def test_one_picture_is_read_on_many_threads() -> None:
    frame = plain((120, 90, 200), 640, 480)
    picture = Picture(frame)
    with ThreadPoolExecutor(8) as pool:
        pixels = list(pool.map(lambda _: picture.rgb(), range(40)))
    assert all(np.array_equal(rgb, pixels[0]) for rgb in pixels)


def test_tiles_are_stitched_in_their_places() -> None:
    rng = np.random.default_rng(0)
    tiles = [rng.integers(0, 256, (6, 8, 3), np.uint8) for _ in range(4)]
    whole = stitch(*(Picture(tile) for tile in tiles))
    assert (whole.width, whole.height) == (16, 12)
    expected = np.vstack([np.hstack(tiles[:2]), np.hstack(tiles[2:])])
    assert np.array_equal(whole.rgb(), expected)
    assert whole.rgb().flags.c_contiguous


@pytest.mark.parametrize("odd", range(4))
def test_tiles_of_different_sizes_are_refused(odd: int) -> None:
    sizes = [(6, 8)] * 4
    sizes[odd] = (6, 10)
    tiles = [Picture(np.zeros((*size, 3), np.uint8)) for size in sizes]
    with pytest.raises(DecodeError, match=r"8x6, 10x6"):
        stitch(*tiles)


RED = (200, 80, 30)


def packed(order: str, rgb: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    luma, cb, cr = to_yuv(rgb, "bt601", full=False)
    pair = {"yuv422": (cb, luma, cr, luma), "yuv422_yuy2": (luma, cb, luma, cr)}[order]
    return np.tile(np.array(pair, np.uint8), (4, 3)).reshape(4, 6, 2)


def nv12(rgb: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    luma, cb, cr = to_yuv(rgb, "bt601", full=False)
    return np.vstack([np.full((4, 6), luma, np.uint8), np.tile(np.array((cb, cr), np.uint8), (2, 3))])


@pytest.mark.parametrize(
    ("encoding", "pixels"),
    [
        ("rgb8", np.full((4, 6, 3), RED, np.uint8)),
        ("bgr8", np.full((4, 6, 3), RED[::-1], np.uint8)),
        ("8UC3", np.full((4, 6, 3), RED[::-1], np.uint8)),
        ("rgba8", np.full((4, 6, 4), (*RED, 9), np.uint8)),
        ("bgra8", np.full((4, 6, 4), (*RED[::-1], 9), np.uint8)),
        ("8UC4", np.full((4, 6, 4), (*RED[::-1], 9), np.uint8)),
        ("yuv422", packed("yuv422", RED)),
        ("yuv422_yuy2", packed("yuv422_yuy2", RED)),
        ("nv12", nv12(RED)),
    ],
)
def test_raw_images_of_one_colour(encoding: str, pixels: npt.NDArray[np.uint8]) -> None:
    pixels.flags.writeable = False
    picture = picture_of(RawImage(encoding, pixels))
    assert (picture.width, picture.height) == (6, 4)
    rgb = picture.rgb()
    assert rgb.flags.c_contiguous
    assert np.abs(rgb.astype(int) - RED).max() <= 2


@pytest.mark.parametrize("encoding", ["mono8", "8UC1"])
def test_grey_raw_images(encoding: str) -> None:
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6)
    assert np.array_equal(picture_of(RawImage(encoding, grey)).rgb(), np.dstack([grey] * 3))


@pytest.mark.parametrize(
    ("encoding", "shape", "dtype"),
    [
        ("mono16", (4, 6), np.uint8),
        ("bayer_rggb8", (4, 6), np.uint16),
        ("bayer_rggb12", (1, 6), np.uint16),
        ("bayer_rggb8", (4, 6, 3), np.uint8),
        ("nv21", (5, 6), np.uint8),
        ("yv12", (6, 5), np.uint8),
        ("nv24", (5, 6), np.uint8),
        ("32FC1", (4, 6), np.float32),
        ("rgb8", (4, 6), np.uint8),
        ("rgb8", (4, 6, 4), np.uint8),
        ("rgb8", (4, 6, 3), np.uint16),
        ("rgb8", (0, 6, 3), np.uint8),
        ("mono8", (4, 6, 1), np.uint8),
        ("yuv422", (4, 5, 2), np.uint8),
        ("nv12", (5, 6), np.uint8),
    ],
)
def test_raw_images_that_are_no_camera_picture(encoding: str, shape: tuple[int, ...], dtype: type) -> None:
    with pytest.raises(DecodeError):
        picture_of(RawImage(encoding, np.zeros(shape, dtype)))
