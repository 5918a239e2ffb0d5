"""Depth as image transports pack it, and PNG of 16 bits, against writers of other hands."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from valid_messages import VALUES
from wire_encoder import encode

from edgefirst_ros.model.camera import CompressedImage, RawImage, decode_compressed_image
from edgefirst_ros.model.errors import DecodeError

DEPTH = np.random.default_rng(3).integers(400, 9000, (12, 16)).astype(np.uint16)
DEPTH[2:5, 3:9] = 0
DEPTH[0, 0] = 65535


def png(pixels: npt.NDArray[Any]) -> bytes:
    """A PNG of 16 bits, by the specification alone: every row unfiltered."""
    height, width = pixels.shape[:2]
    colour = {2: 0, 3: 2, 4: 6}[pixels.ndim if pixels.ndim == 2 else pixels.shape[2]]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)),)
    chunks = (*parts, (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def rvl(pixels: npt.NDArray[np.uint16]) -> bytes:
    """RVL as its paper has it, one nibble after the other."""
    nibbles: list[int] = []

    def number(value: int) -> None:
        while value > 7:
            nibbles.append(value & 7 | 8)
            value >>= 3
        nibbles.append(value)

    flat = pixels.ravel().tolist()
    at = previous = 0
    while at < len(flat):
        start = at
        while at < len(flat) and flat[at] == 0:
            at += 1
        number(at - start)
        run = at
        while run < len(flat) and flat[run] != 0:
            run += 1
        number(run - at)
        for level in flat[at:run]:
            delta = level - previous
            number(2 * delta if delta >= 0 else -2 * delta - 1)
            previous = level
        at = run
    nibbles += [0] * (-len(nibbles) % 8)
    words = [int("".join(f"{n:x}" for n in nibbles[i : i + 8]), 16) for i in range(0, len(nibbles), 8)]
    return struct.pack("<II", pixels.shape[1], pixels.shape[0]) + struct.pack(f"<{len(words)}I", *words)


def decoded(data: bytes, form: str) -> RawImage | CompressedImage:
    schema = "sensor_msgs/CompressedImage"
    return decode_compressed_image(encode(schema, {**VALUES[schema], "data": data, "format": form})).datum


def packed(body: bytes, scale: float = 0.0, offset: float = 0.0) -> bytes:
    return struct.pack("<iff", 0, scale, offset) + body


@pytest.mark.parametrize(
    "form", ["16UC1; compressedDepth png", "16UC1; compressedDepth", "mono16;compressedDepth"]
)
def test_depth_as_png(form: str) -> None:
    image = decoded(packed(png(DEPTH)), form)
    assert isinstance(image, RawImage)
    assert (image.encoding, image.pixels.dtype) == ("16UC1", np.uint16)
    assert not image.pixels.flags.writeable
    np.testing.assert_array_equal(image.pixels, DEPTH)


@settings(max_examples=40)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([9, 4000, 65535]),
)
def test_depth_as_rvl(height: int, width: int, seed: int, holes: float, most: int) -> None:
    rng = np.random.default_rng(seed)
    depth = rng.integers(1, most, (height, width), endpoint=True).astype(np.uint16)
    depth[rng.random((height, width)) < holes] = 0
    image = decoded(packed(rvl(depth)), "16UC1; compressedDepth rvl")
    assert isinstance(image, RawImage)
    np.testing.assert_array_equal(image.pixels, depth)


@pytest.mark.parametrize("pack", [png, rvl])
def test_metres_come_back_from_their_quantised_inverse(pack: Any) -> None:  # noqa: ANN401 - either writer
    metres = np.linspace(0.3, 9.5, 60, dtype=np.float32).reshape(6, 10)
    metres[1, 2] = np.nan
    most, step = 10.0, 100.0  # the transport's depth_max and depth_quantization
    scale = step * (step + 1)
    offset = 1 - scale / most
    with np.errstate(invalid="ignore"):
        inverse = np.where(metres < most, scale / metres + offset, 0).astype(np.uint16)
    image = decoded(packed(pack(inverse), scale, offset), "32FC1; compressedDepth " + pack.__name__)
    assert isinstance(image, RawImage)
    assert (image.encoding, image.pixels.dtype) == ("32FC1", np.float32)
    assert np.isnan(image.pixels[1, 2])
    known = ~np.isnan(metres)
    np.testing.assert_allclose(image.pixels[known], metres[known], atol=0.01)


def test_a_png_of_16_bits_is_unpacked_and_one_of_8_is_not() -> None:
    rgb = np.random.default_rng(0).integers(0, 65536, (5, 7, 3)).astype(np.uint16)
    colour = decoded(png(rgb), "rgb16; png compressed bgr16")
    assert isinstance(colour, RawImage)
    assert colour.encoding == "rgb16"
    np.testing.assert_array_equal(colour.pixels, rgb)
    for form, encoding in (
        ("16UC1; png compressed", "16UC1"),
        ("mono16; png compressed", "mono16"),
        ("", "mono16"),
    ):
        grey = decoded(png(DEPTH), form)
        assert isinstance(grey, RawImage)
        assert grey.encoding == encoding
        np.testing.assert_array_equal(grey.pixels, DEPTH)
    with io.BytesIO() as file:
        Image.new("RGB", (3, 2)).save(file, "PNG")
        assert decoded(file.getvalue(), "png") == CompressedImage("png", file.getvalue())


def test_what_cannot_be_unpacked_is_refused_by_name() -> None:
    with pytest.raises(
        DecodeError, match=r'format "32FC4; compressedDepth png", expected 16UC1, mono16 or 32FC1'
    ):
        decoded(packed(png(DEPTH)), "32FC4; compressedDepth png")
    with pytest.raises(DecodeError, match=r'format "16UC1; compressedDepth zstd", .* as png or rvl'):
        decoded(packed(png(DEPTH)), "16UC1; compressedDepth zstd")
    with io.BytesIO() as file:
        Image.new("L", (3, 2)).save(file, "PNG")
        with pytest.raises(DecodeError, match="without a 16-bit PNG"):
            decoded(packed(file.getvalue()), "16UC1; compressedDepth png")
    for size, said in (
        ((60000, 60000), "more pixels than its bytes can hold"),
        ((0, 12), "PNG is damaged"),
        ((16, 0), "PNG is damaged"),
    ):
        bomb = bytearray(png(DEPTH))
        bomb[16:24] = struct.pack(">II", *size)
        bomb[29:33] = struct.pack(">I", zlib.crc32(bytes(bomb[12:29])))
        with pytest.raises(DecodeError, match=said):
            decoded(packed(bytes(bomb)), "16UC1; compressedDepth png")
    large = bytearray(png(DEPTH) + bytes(1 << 20))
    large[16:26] = struct.pack(">IIBB", 7000, 7000, 16, 6)  # its bytes could hold so many
    with pytest.raises(DecodeError, match="declares more pixels"):
        decoded(bytes(large), "png")
    with pytest.raises(DecodeError, match="absurd size"):
        decoded(packed(struct.pack("<II", 2**32 - 1, 2**32 - 1)), "16UC1; compressedDepth rvl")
    with pytest.raises(DecodeError, match="cut short"):
        decoded(packed(bytes(7)), "16UC1; compressedDepth rvl")


@settings(max_examples=150)
@given(st.data())
def test_damage_is_refused_or_keeps_the_size(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(["16UC1; compressedDepth png", "32FC1; compressedDepth rvl", "png"]))
    body = rvl(DEPTH) if "rvl" in form else png(DEPTH)
    whole = bytearray(body if form == "png" else packed(body, 1.0, 0.0))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        image = decoded(bytes(whole), form)
    except DecodeError:
        return
    assert isinstance(image, RawImage)
    if "rvl" not in form:  # RVL has no checksum
        assert image.pixels.shape == DEPTH.shape
