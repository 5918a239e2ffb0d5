"""JPEG and PNG: encoded for everyone, passed through untouched, refused when broken."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import simplejpeg
from clips import paint
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from edgefirst_ros.model.camera import CompressedImage
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import SIGNATURE, chunk
from edgefirst_ros.video import stills
from edgefirst_ros.video.pictures import Picture, encode
from edgefirst_ros.video.stills import passthrough


def pillow(image_format: str, **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(paint(77, 120, 80)).save(out, image_format, **options)
    return out.getvalue()


def test_jpeg_is_baseline_4_2_0_of_the_quality_asked_for() -> None:
    rgb = paint(5, 120, 80)
    image = encode(Picture(rgb), "jpeg", 90)
    assert (image.format, image.width, image.height) == ("jpeg", 120, 80)
    assert simplejpeg.decode_jpeg_header(image.data) == (80, 120, "YCbCr", "420")
    opened = Image.open(io.BytesIO(image.data))
    reference = Image.open(io.BytesIO(_saved(rgb, quality=90)))
    assert opened.quantization == reference.quantization
    errors = [np.abs(np.asarray(one).astype(int) - rgb).mean() for one in (opened, reference)]
    assert errors[0] < 1.02 * errors[1]
    assert len(encode(Picture(rgb), "jpeg", 40).data) < len(image.data)


def _saved(rgb: np.ndarray, **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(rgb).save(out, "JPEG", subsampling="4:2:0", **options)
    return out.getvalue()


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_png_is_lossless(width: int, height: int, seed: int) -> None:
    rgb = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    image = encode(Picture(rgb), "png")
    assert (image.format, image.width, image.height) == ("png", width, height)
    opened = Image.open(io.BytesIO(image.data))
    assert opened.mode == "RGB"
    assert np.array_equal(np.asarray(opened), rgb)
    assert passthrough(CompressedImage("png", image.data)) == image


def test_png_packs_pictures_better_than_no_filter() -> None:
    rgb = np.add.outer(np.arange(64), np.arange(96))[:, :, None].repeat(3, 2).astype(np.uint8)
    assert len(encode(Picture(rgb), "png").data) < len(zlib.compress(rgb.tobytes(), 1)) * 0.6


@pytest.mark.parametrize(
    "data",
    [
        pillow("JPEG"),
        pillow("JPEG", progressive=True),
        pillow("JPEG", restart_marker_rows=1),
        pillow("JPEG", exif=Image.Exif().tobytes() or b"Exif\0\0", comment=b"hello"),
        pillow("JPEG") + bytes(37),
        pillow("JPEG").replace(b"\xff\xdb", b"\xff\xff\xff\xdb", 1),
    ],
    ids=["baseline", "progressive", "restart", "comment", "padded", "fill bytes"],
)
def test_a_whole_jpeg_is_passed_through_untouched(data: bytes) -> None:
    image = passthrough(CompressedImage("jpeg", data))
    assert image.data is data
    assert (image.format, image.width, image.height) == ("jpeg", 120, 80)


def test_a_whole_png_is_passed_through_untouched() -> None:
    data = pillow("PNG")
    image = passthrough(CompressedImage("png", data))
    assert image.data is data
    assert (image.format, image.width, image.height) == ("png", 120, 80)


def test_any_cut_of_a_jpeg_is_refused() -> None:
    data = pillow("JPEG")
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            passthrough(CompressedImage("jpeg", data[:end]))


def test_any_cut_and_any_flipped_byte_of_a_png_is_refused() -> None:
    data = pillow("PNG")
    for at in range(len(data)):
        with pytest.raises(DecodeError):
            passthrough(CompressedImage("png", data[:at]))
        if at % 7 == 0:
            flipped = data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]
            with pytest.raises(DecodeError):
                passthrough(CompressedImage("png", flipped))


def test_a_thumbnail_does_not_stand_in_for_a_cut_picture() -> None:
    thumbnail = pillow("JPEG")
    data = pillow("JPEG", exif=b"Exif\0\0MM\0*" + thumbnail)
    assert passthrough(CompressedImage("jpeg", data)).width == 120
    with pytest.raises(DecodeError, match="cut short"):
        passthrough(CompressedImage("jpeg", data[:-40]))


def test_what_claims_another_format_is_refused() -> None:
    with pytest.raises(DecodeError, match="not a PNG"):
        passthrough(CompressedImage("png", pillow("JPEG")))
    with pytest.raises(DecodeError, match="not a JPEG"):
        passthrough(CompressedImage("jpeg", pillow("PNG")))


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
def test_pictures_without_pixels_are_refused(size: tuple[int, int]) -> None:
    header = size[0].to_bytes(4, "big") + size[1].to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", b"x") + chunk(b"IEND", b"")
    with pytest.raises(DecodeError):
        passthrough(CompressedImage("png", SIGNATURE + chunks))
    data = pillow("JPEG")
    at = data.index(b"\xff\xc0") + 5
    jpeg = data[:at] + size[1].to_bytes(2, "big") + size[0].to_bytes(2, "big") + data[at + 4 :]
    with pytest.raises(DecodeError, match="without a size"):
        passthrough(CompressedImage("jpeg", jpeg))


@pytest.mark.parametrize("left_out", [b"IHDR", b"IDAT", b"IEND"])
def test_a_png_needs_its_parts(left_out: bytes) -> None:
    header = (5).to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0))
    parts = {b"IHDR": header, b"IDAT": b"x", b"IEND": b""}
    chunks = b"".join(chunk(kind, data) for kind, data in parts.items() if kind != left_out)
    with pytest.raises(DecodeError):
        passthrough(CompressedImage("png", SIGNATURE + chunks))


@given(st.sampled_from([b"\xff\xd8\xff", SIGNATURE, b""]), st.binary(max_size=200))
def test_rubbish_is_refused(start: bytes, data: bytes) -> None:
    for image_format in ("jpeg", "png"):
        with pytest.raises(DecodeError):
            passthrough(CompressedImage(image_format, start + data.replace(b"\xff\xd9", b"")))


def with_bytes(data: bytes, marker: bytes, offset: int, changed: bytes) -> bytes:
    """The JPEG with some bytes behind the first marker of a kind changed."""
    at = data.index(marker) + offset
    return data[:at] + changed + data[at + len(changed) :]


@pytest.mark.parametrize(
    "data",
    [
        with_bytes(pillow("JPEG"), b"\xff\xc0", 11, b"\x77"),
        with_bytes(pillow("JPEG"), b"\xff\xc4", 5, b"\xff" * 16),
        with_bytes(pillow("JPEG"), b"\xff\xdb", 4, b"\x07"),
        with_bytes(pillow("JPEG"), b"\xff\xda", 5, b"\x09"),
        with_bytes(pillow("JPEG"), b"\xff\xda", 200, b"\xff\xfc"),
    ],
    ids=["sampling", "Huffman", "quantisation", "scan", "marker"],
)
def test_a_jpeg_that_no_reader_opens_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="JPEG cannot be decoded"):
        passthrough(CompressedImage("jpeg", data))


def test_exif_that_is_no_exif_says_nothing_on_the_terminal() -> None:
    """Pytest turns warnings into errors; the picture is one that only Pillow reads."""
    entry = struct.pack(">HHII", 0x010F, 2, 60_000, 100)
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)
    data = with_bytes(pillow("JPEG", exif=exif), b"\xff\xda", 200, b"\xff\xfc")
    with pytest.raises(DecodeError, match="JPEG cannot be decoded"):
        passthrough(CompressedImage("jpeg", data))


def test_pictures_of_one_header_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A camera sends the same tables with every picture; times and remarks beside them may differ."""
    decoded: list[bytes] = []
    monkeypatch.setattr(stills, "_check_readable", decoded.append)
    monkeypatch.setattr(stills, "_readable", set())
    pictures = [
        pillow("JPEG", comment=b"one"),
        pillow("JPEG", comment=b"another"),
        pillow("JPEG", quality=30),
        pillow("JPEG", comment=b"a third"),
        with_bytes(pillow("JPEG"), b"\xff\xda", 200, b"\xff\xfc"),
    ]
    for data in pictures:
        passthrough(CompressedImage("jpeg", data))
    assert decoded == [pictures[0], pictures[2], pictures[4]]


def test_pictures_larger_than_their_bytes_can_be_are_refused() -> None:
    huge = with_bytes(pillow("JPEG"), b"\xff\xc0", 5, b"\xff\xff\xff\xff")
    with pytest.raises(DecodeError, match="more pixels than its bytes can hold"):
        passthrough(CompressedImage("jpeg", huge))
    header = (60_000).to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0))
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"x")) + chunk(b"IEND", b"")
    with pytest.raises(DecodeError, match="megapixels"):
        passthrough(CompressedImage("png", SIGNATURE + chunks))


def png(rows: bytes, *, colour: int = 2, interlaced: int = 0) -> CompressedImage:
    header = (4).to_bytes(4, "big") * 2 + bytes((8, colour, 0, 0, interlaced))
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return CompressedImage("png", SIGNATURE + chunks)


@pytest.mark.parametrize(
    "image",
    [
        png(b"no zlib stream"),
        png(zlib.compress(bytes(4 * 13))[:-6]),
        png(zlib.compress(bytes(4 * 13 - 1))),
        png(zlib.compress(bytes(4 * 5)), colour=3),
        png(zlib.compress(bytes(4 * 5)), colour=7),
    ],
    ids=["noise", "cut", "short", "no palette", "no colour"],
)
def test_a_png_of_sound_chunks_that_no_reader_opens_is_refused(image: CompressedImage) -> None:
    with pytest.raises(DecodeError, match="PNG cannot be decoded"):
        passthrough(image)


@pytest.mark.parametrize("held", [4 * 13, 4 * 13 + 1, 1 << 26], ids=["whole", "long", "bomb"])
def test_a_png_that_has_its_rows_is_passed_through(held: int) -> None:
    """Readers pass over what follows them."""
    assert passthrough(png(zlib.compress(bytes(held)))).width == 4
    interlaced = png(zlib.compress(bytes(4 * 13 + 5)), interlaced=1)
    assert passthrough(interlaced).data is interlaced.data
