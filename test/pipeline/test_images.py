"""Pictures are encoded once, passed through where the camera encoded them, joined from tiles, of one size."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from envelopes import Post
from PIL import Image

from edgefirst_ros.config.model import build_config
from edgefirst_ros.model.camera import CompressedImage, RawImage
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.pipeline.content import StreamContent
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.images import Images, TileGrouper

COLOURS = {"tl": (255, 0, 0), "tr": (0, 255, 0), "bl": (0, 0, 255), "br": (255, 255, 0)}


@pytest.fixture
def images() -> Iterator[Images]:
    with ThreadPoolExecutor(2) as pool:
        found = Images(pool, 2, "png", 90, lookahead_ns=1_000_000_000)
        yield found
        found.close()


@pytest.fixture
def post() -> Post:
    tiles = {
        f"camera_{tile}": {"role": "camera", "topic": f"camera/{tile}", "tile": tile} for tile in COLOURS
    }
    return Post(build_config({"topics": tiles}))


def still(width: int, height: int, format: str = "png") -> CompressedImage:  # noqa: A002 the message's word
    data = io.BytesIO()
    Image.new("RGB", (width, height), (10, 200, 30)).save(data, format)
    return CompressedImage("png" if format == "png" else "jpeg", data.getvalue())


def raw(colour: tuple[int, int, int], width: int = 6, height: int = 4) -> RawImage:
    return RawImage("rgb8", np.full((height, width, 3), colour, np.uint8))


def judged(images: Images, envelope: Envelope) -> Envelope:
    images.push(envelope)
    images.judge(envelope)
    return envelope


@pytest.mark.parametrize("format", ["png", "jpeg"])
def test_the_cameras_own_encoding_stays_byte_for_byte(images: Images, post: Post, format: str) -> None:  # noqa: A002
    picture = still(6, 4, format)
    envelope = judged(images, post.envelope("camera", 0, picture))
    image = images.request(envelope).result(timeout=30)
    assert (image.data, image.width, image.height) == (picture.data, 6, 4)
    assert envelope.size == (6, 4)


def test_pictures_that_cannot_be_made_hide_no_later_one(post: Post) -> None:
    content, go_on = StreamContent(), threading.Event()
    pictures = [still(6, 4, "jpeg"), CompressedImage("jpeg", b"nothing"), *[still(6, 4, "jpeg")] * 2]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(go_on.wait)
        images = Images(pool, 1, "jpeg", 90, lookahead_ns=1_000_000_000)
        given = [judged(images, post.envelope("camera", 2000 * n, each)) for n, each in enumerate(pictures)]
        made = [images.request(envelope, content) for envelope in given]
        assert made[2].cancel()
        go_on.set()
        images.close()
    assert content.summary()["spells"] == {}
    assert [each.exception() is None for each in (made[0], made[3])] == [True, True]


def test_a_change_of_size_is_told_once_a_size_is_known(images: Images, post: Post) -> None:
    found = [
        images.size_before(judged(images, post.envelope("camera", 100 * n, still(*size))))
        for n, size in enumerate([(6, 4), (6, 4), (8, 4), (6, 4)])
    ]
    assert found == [None, None, (6, 4), None]


def test_four_tiles_are_one_picture_with_each_in_its_place(images: Images, post: Post) -> None:
    grouper = TileGrouper()
    for tile in ("br", "tl", "bl", "tr"):
        assert grouper.add(judged(images, post.envelope(f"camera_{tile}", 0, raw(COLOURS[tile])))) is None
    whole = grouper.advance(post.envelope("camera_tl", 100, raw((0, 0, 0))).time_ns)
    assert whole is not None
    assert whole.unusable is None
    assert len(whole.all_parts) == 4
    assert whole.whole_size == (12, 8)
    image = images.request(whole).result(timeout=30)
    pixels = np.asarray(Image.open(io.BytesIO(image.data)))
    corners = {"tl": pixels[:4, :6], "tr": pixels[:4, 6:], "bl": pixels[4:, :6], "br": pixels[4:, 6:]}
    assert {
        tile: tuple(np.unique(part.reshape(-1, 3), axis=0)[0]) for tile, part in corners.items()
    } == COLOURS
    assert all(len(np.unique(part.reshape(-1, 3), axis=0)) == 1 for part in corners.values())


@pytest.mark.parametrize("tiles", [("tl", "tr", "bl"), ("tl", "tr", "bl", "br", "br"), ("br",)])
def test_a_picture_with_a_tile_too_few_or_too_many_is_unusable(post: Post, tiles: tuple[str, ...]) -> None:
    grouper = TileGrouper()
    for tile in tiles:
        grouper.add(post.envelope(f"camera_{tile}", 0, raw(COLOURS[tile])))
    whole = grouper.add(post.envelope("camera_tl", 100, raw(COLOURS["tl"])))
    assert whole is not None
    assert whole.unusable == Reason.TILE_MISSING
    assert len(whole.parts) == len(tiles)
    rest = grouper.flush()
    assert rest is not None
    assert len(rest.parts) == 1
