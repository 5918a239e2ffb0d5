"""Every encoding of an uncompressed image against the same known picture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.video.pictures import picture_of, raw_size

HEIGHT, WIDTH = 60, 80
Y, X = np.mgrid[0:HEIGHT, 0:WIDTH]
SCENE = (
    np.stack([128 + 90 * np.sin(X / 19), 128 + 90 * np.cos(Y / 17), 128 + 60 * np.sin((X + Y) / 29)], 2)
    .round()
    .astype(np.uint8)
)
ORDERS = ("rggb", "bggr", "gbrg", "grbg")


def psnr(made: npt.NDArray[np.uint8], scene: npt.NDArray[np.uint8] = SCENE) -> float:
    return float(10 * np.log10(255**2 / max(1e-9, ((made.astype(float) - scene) ** 2).mean())))


def mosaic(order: str, scene: npt.NDArray[np.uint8] = SCENE) -> npt.NDArray[np.uint8]:
    grey = np.empty(scene.shape[:2], np.uint8)
    for place, colour in enumerate(order):
        rows, columns = slice(place // 2, None, 2), slice(place % 2, None, 2)
        grey[rows, columns] = scene[rows, columns, "rgb".index(colour)]
    return grey


def yuv() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """BT.601 of limited range, by its definition."""
    red, green, blue = (SCENE[..., c] / 255 for c in range(3))
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    planes = 16 + 219 * luma, 128 + 224 * (blue - luma) / 1.772, 128 + 224 * (red - luma) / 1.402
    y, cb, cr = (np.rint(plane).astype(np.uint8) for plane in planes)
    return y, cb, cr


def halved(plane: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.rint(plane.reshape(HEIGHT // 2, 2, WIDTH // 2, 2).mean((1, 3))).astype(np.uint8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_mosaics(order: str, bits: int) -> None:
    most = 2**bits - 1
    samples = mosaic(order) if bits == 8 else np.rint(mosaic(order) / 255.0 * most).astype(np.uint16)
    picture = picture_of(RawImage(f"bayer_{order}{bits}", samples))
    assert psnr(picture.rgb()) > 38
    others = [psnr(picture_of(RawImage(f"bayer_{o}{bits}", samples)).rgb()) for o in ORDERS if o != order]
    assert max(others) < 30, "the order matters"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [(2, 2), (3, 4), (4, 3), (5, 7), (2, 31), (59, 79)])
def test_mosaics_of_odd_sizes(order: str, size: tuple[int, int]) -> None:
    scene = SCENE[: size[0], : size[1]]
    rgb = picture_of(RawImage(f"bayer_{order}8", mosaic(order, scene))).rgb()
    assert rgb.shape == scene.shape
    assert rgb.flags.c_contiguous
    assert np.abs(rgb.astype(int) - scene).max() <= 20


@pytest.mark.parametrize("encoding", ["mono16", "16UC1", "bayer_rggb16"])
def test_twelve_bits_sent_in_sixteen(encoding: str) -> None:
    shades = np.array([[0, 1000], [4095, 60000]], np.uint16).repeat(4, 0).repeat(4, 1)
    grey = picture_of(RawImage(encoding, shades), significant_bits=12).rgb()
    assert grey[0, 0].tolist() == [0] * 3
    assert grey[0, -1].tolist() == [round(1000 * 255 / 4095)] * 3
    assert grey[-1, 0].tolist() == grey[-1, -1].tolist() == [255] * 3
    wide = picture_of(RawImage(encoding, shades)).rgb()
    assert wide[0, -1].tolist() == [round(1000 / 257)] * 3


def test_sixteen_bits_become_eight_by_the_range_of_the_type() -> None:
    shades = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    grey = picture_of(RawImage("mono16", shades)).rgb()[..., 1].ravel()
    assert np.array_equal(grey, np.rint(shades.ravel() / 257).astype(np.uint8))


@pytest.mark.parametrize(
    ("encoding", "channels"),
    [
        ("rgb16", (0, 1, 2)),
        ("bgr16", (2, 1, 0)),
        ("rgba16", (0, 1, 2, 0)),
        ("bgra16", (2, 1, 0, 0)),
        ("16UC3", (2, 1, 0)),
        ("16UC4", (2, 1, 0, 1)),
    ],
)
def test_colours_of_sixteen_bits(encoding: str, channels: tuple[int, ...]) -> None:
    samples = SCENE[:, :, list(channels)].astype(np.uint16) * 257
    assert np.array_equal(picture_of(RawImage(encoding, samples)).rgb(), SCENE)


def test_shared_colours_in_every_order() -> None:
    y, cb, cr = yuv()
    small_cb, small_cr = halved(cb), halved(cr)
    pairs = np.stack([small_cb, small_cr], 2).reshape(-1, WIDTH)
    swapped = np.stack([small_cr, small_cb], 2).reshape(-1, WIDTH)
    planes = np.concatenate([small_cb.ravel(), small_cr.ravel()]).reshape(-1, WIDTH)
    exchanged = np.concatenate([small_cr.ravel(), small_cb.ravel()]).reshape(-1, WIDTH)
    across = np.stack([cb[:, ::2], cr[:, ::2]], 2).reshape(HEIGHT, WIDTH)
    own = np.stack([cb, cr], 2).reshape(-1, WIDTH)
    images = {
        "nv12": np.vstack([y, pairs]),
        "nv21": np.vstack([y, swapped]),
        "i420": np.vstack([y, planes]),
        "yv12": np.vstack([y, exchanged]),
        "nv24": np.vstack([y, own]),
        "yuv422": np.stack([across, y], 2),
        "yuv422_yuy2": np.stack([y, across], 2),
    }
    for encoding, pixels in images.items():
        image = RawImage(encoding, pixels)
        assert raw_size(image) == (WIDTH, HEIGHT), encoding
        assert psnr(picture_of(image).rgb()) > 40, encoding
