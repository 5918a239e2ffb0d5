from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, features
from valid_messages import HEADER, PACKET, STAMP_NS, VALUES
from wire_encoder import FieldValue, encode

from edgefirst_ros.model.camera import (
    CompressedImage,
    RawImage,
    VideoPacket,
    decode_camera_info,
    decode_compressed_image,
    decode_image,
    decode_packet,
    decode_video,
)
from edgefirst_ros.model.errors import DecodeError


def video(**changes: FieldValue) -> bytes:
    schema = "foxglove_msgs/CompressedVideo"
    return encode(schema, {**VALUES[schema], **changes})


@pytest.mark.parametrize(
    ("encoder", "codec"),
    [
        ("h264;yuv420p;bgr8;bgr8", "h264"),
        ("libx264", "h264"),
        ("HEVC_vaapi;nv12", "h265"),
        ("libx265", "h265"),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_packets_of_the_ffmpeg_transport_are_video(encoder: str, codec: str, order: str) -> None:
    schema = "ffmpeg_image_transport_msgs/FFMPEGPacket"
    stamp_ns, frame_id, packet = decode_packet(encode(schema, {**VALUES[schema], "encoding": encoder}, order))
    assert (stamp_ns, frame_id) == (STAMP_NS, "base_link")
    assert packet == VideoPacket(codec, PACKET)  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match=r'^video encoding "av1", expected one of H\.264 or H\.265$'):
        decode_packet(encode(schema, {**VALUES[schema], "encoding": "av1"}, order))
    with pytest.raises(DecodeError, match="not Annex-B"):
        decode_packet(encode(schema, {**VALUES[schema], "data": b"\0\0\0\x20\x65\x88"}, order))


def compressed(**changes: FieldValue) -> bytes:
    schema = "sensor_msgs/CompressedImage"
    return encode(schema, {**VALUES[schema], **changes})


def image(encoding: str, pixels: np.ndarray[Any, Any], padding: int = 0, **changes: FieldValue) -> RawImage:
    height, width = pixels.shape[:2]
    rows = [row.tobytes() + b"\xaa" * padding for row in pixels]
    values = {
        "header": HEADER,
        "height": height,
        "width": width,
        "encoding": encoding,
        "step": len(rows[0]),
        "data": b"".join(rows),
        **changes,
    }
    return decode_image(encode("sensor_msgs/Image", values)).datum


def test_video_that_cannot_be_is_refused() -> None:
    with pytest.raises(DecodeError, match=r'^video format "vp9", expected h264 or h265$'):
        decode_video(video(format="vp9"))
    with pytest.raises(DecodeError, match=r"^video format that is unreadable, "):
        decode_video(video(format="\n" * 50))
    with pytest.raises(DecodeError, match="empty video packet"):
        decode_video(video(data=b""))
    for data in (b"\0\0\0\x20\x65\x88", b"\0\1\x65", b"\0\0\0\0", b"\x65\0\0\1", b"\1"):
        with pytest.raises(DecodeError, match="not Annex-B"):
            decode_video(video(data=data))


@pytest.mark.parametrize("name", ["jpeg", "jpg", "rgb8; jpeg compressed bgr8", "png", ""])
def test_the_data_decides_what_an_image_is(name: str) -> None:
    png = io.BytesIO()
    Image.new("L", (2, 2)).save(png, "PNG")
    jpeg = io.BytesIO()
    Image.new("L", (2, 2)).save(jpeg, "JPEG")
    for expected, data in (("jpeg", jpeg.getvalue()), ("png", png.getvalue())):
        assert decode_compressed_image(compressed(format=name, data=data)).datum == CompressedImage(
            expected, data
        )  # type: ignore[arg-type]


CORNERS = np.zeros((16, 16, 3), np.uint8)
CORNERS[:8, :8, 0] = CORNERS[:8, 8:, 1] = CORNERS[8:, :8, 2] = 255
"""Red at the left top, green at the right top, blue below at the left."""


@pytest.mark.parametrize(
    ("mode", "kind", "named"),
    [
        ("RGB", "WEBP", "webp"),
        ("RGB", "TIFF", "rgb8; tiff compressed"),
        ("CMYK", "JPEG", "jpeg"),
        pytest.param(
            "RGB", "AVIF", "avif", marks=pytest.mark.skipif(not features.check("avif"), reason="no AVIF")
        ),
    ],
)
def test_other_pictures_become_pixels_of_their_colours(mode: str, kind: str, named: str) -> None:
    file = io.BytesIO()
    Image.fromarray(CORNERS).convert(mode).save(file, kind, quality=95)
    image = decode_compressed_image(compressed(format=named, data=file.getvalue())).datum
    assert isinstance(image, RawImage)
    assert image.encoding == "rgb8"
    assert np.abs(image.pixels[3::8, 3::8].astype(int) - CORNERS[3::8, 3::8]).max() < 60


def test_pictures_that_are_damaged_or_of_other_values_are_refused() -> None:
    file = io.BytesIO()
    Image.fromarray(np.zeros((16, 16), np.float32)).save(file, "TIFF")
    with pytest.raises(DecodeError, match="more than 16 bits"):
        decode_compressed_image(compressed(format="tiff", data=file.getvalue()))
    file = io.BytesIO()
    Image.fromarray(CORNERS).save(file, "WEBP")
    with pytest.raises(DecodeError, match="damaged or cut short"):
        decode_compressed_image(compressed(format="webp", data=file.getvalue()[:-20]))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_mosaic_is_one_however_it_is_compressed(kind: str) -> None:
    mosaic, file = np.full((16, 16), 128, np.uint8), io.BytesIO()
    Image.fromarray(mosaic).save(file, kind)
    image = decode_compressed_image(
        compressed(format=f"bayer_rggb8; {kind.lower()} compressed ", data=file.getvalue())
    ).datum
    assert isinstance(image, RawImage)
    assert image.encoding == "bayer_rggb8"
    assert (image.pixels == mosaic).all()


def test_video_in_a_message_for_pictures_is_video() -> None:
    unit = b"\0\0\0\1\x65\x88"
    assert decode_compressed_image(compressed(format="h264", data=unit)).datum == VideoPacket("h264", unit)
    with pytest.raises(DecodeError, match=r'none of .*WEBP.* its format is "theora"'):
        decode_compressed_image(compressed(format="theora", data=unit))


@pytest.mark.parametrize(
    ("encoding", "name", "channels", "dtype"),
    [
        ("rgb8", "rgb8", 3, np.uint8),
        ("BGR8", "bgr8", 3, np.uint8),
        ("rgba8", "rgba8", 4, np.uint8),
        ("bgra8", "bgra8", 4, np.uint8),
        ("mono8", "mono8", 1, np.uint8),
        ("8UC1", "8UC1", 1, np.uint8),
        ("8UC3", "8UC3", 3, np.uint8),
        ("mono16", "mono16", 1, np.uint16),
        ("16UC1", "16UC1", 1, np.uint16),
        ("32FC1", "32FC1", 1, np.float32),
        ("rgb16", "rgb16", 3, np.uint16),
        ("bgra16", "bgra16", 4, np.uint16),
        ("bayer_rggb8", "bayer_rggb8", 1, np.uint8),
        ("bayer_GBRG12", "bayer_gbrg12", 1, np.uint16),
        ("bayer_grbg16", "bayer_grbg16", 1, np.uint16),
        ("yuv422", "yuv422", 2, np.uint8),
        ("uyvy", "yuv422", 2, np.uint8),
        ("yuyv", "yuv422_yuy2", 2, np.uint8),
        ("yuv422_yuy2", "yuv422_yuy2", 2, np.uint8),
    ],
)
@pytest.mark.parametrize("padding", [0, 1, 5])
@pytest.mark.parametrize("order", ["<", ">"])
def test_encodings(  # noqa: PLR0917 - one argument a parameter
    encoding: str, name: str, channels: int, dtype: type[np.generic], padding: int, order: str
) -> None:
    shape = (3, 4) if channels == 1 else (3, 4, channels)
    pixels = np.arange(math.prod(shape)).reshape(shape).astype(dtype) * 5
    wire = pixels.astype(pixels.dtype.newbyteorder(order))
    made = image(encoding, wire, padding, is_bigendian=int(order == ">"))
    assert made.encoding == name
    assert made.pixels.dtype == dtype
    assert made.pixels.dtype.isnative
    assert made.pixels.flags.c_contiguous
    assert not made.pixels.flags.writeable
    np.testing.assert_array_equal(made.pixels, pixels)


@pytest.mark.parametrize("name", ["nv12", "nv21"])
def test_colours_lie_below(name: str) -> None:
    planes = np.arange(36, dtype=np.uint8).reshape(6, 6)
    made = image(name.upper(), planes, padding=2, height=4)
    assert made.encoding == name
    np.testing.assert_array_equal(made.pixels, planes)


@pytest.mark.parametrize("encoding", ["bayer_rgbg8", "bayer_rggb32", "32FC2", "yuv444", ""])
def test_other_encodings_are_refused_by_name_and_with_those_taken(encoding: str) -> None:
    with pytest.raises(
        DecodeError, match=f'^image encoding "{encoding}", expected one of bayer_.*nv21.*yv12'
    ):
        image(encoding, np.zeros((2, 2), np.uint8))


def test_sizes_that_disagree_are_refused() -> None:
    pixels = np.zeros((4, 4), np.uint8)
    with pytest.raises(DecodeError, match="rows overlap"):
        image("mono8", pixels, step=3)
    with pytest.raises(DecodeError, match="rows overlap"):
        image("mono16", pixels)
    with pytest.raises(DecodeError, match="shorter than declared"):
        image("mono8", pixels, height=5)
    with pytest.raises(DecodeError, match="shorter than declared"):
        image("mono8", pixels, height=2**32 - 1, width=2**32 - 1, step=2**32 - 1)
    with pytest.raises(DecodeError, match="without pixels"):
        image("mono8", pixels, width=0)
    for width, height, encoding in ((3, 4, "yuyv"), (3, 4, "nv12"), (4, 3, "nv21"), (3, 4, "yv12")):
        with pytest.raises(DecodeError, match="odd size"):
            image(encoding, pixels, width=width, height=height, step=8)


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 20),
    st.integers(0, 60),
    st.sampled_from(["mono8", "rgb8", "16UC1"]),
)
def test_any_size_is_read_or_refused(height: int, width: int, step: int, size: int, encoding: str) -> None:
    row = width * {"mono8": 1, "rgb8": 3, "16UC1": 2}[encoding]
    data = bytes(range(size))
    fits = step >= row and size >= step * (height - 1) + row
    try:
        made = image(encoding, np.zeros((1, 1), np.uint8), height=height, width=width, step=step, data=data)
    except DecodeError:
        assert not fits
    else:
        assert fits
        expected = [data[step * index : step * index + row] for index in range(height)]
        assert [line.tobytes() for line in made.pixels] == expected


def test_camera_info_keeps_every_number() -> None:
    schema = "sensor_msgs/CameraInfo"
    values = VALUES[schema]
    info = decode_camera_info(encode(schema, values)).datum
    assert (info.width, info.height, info.distortion_model) == (1280, 720, "plumb_bob")
    assert info.d == tuple(values["d"])
    for matrix, name, columns in ((info.k, "k", 3), (info.r, "r", 3), (info.p, "p", 4)):
        assert matrix.shape == (3, columns)
        assert matrix.ravel().tolist() == values[name]
        assert not matrix.flags.writeable


@pytest.mark.parametrize("name", ["d", "k", "r", "p"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_calibration_that_is_not_finite_is_refused(name: str, bad: float) -> None:
    schema = "sensor_msgs/CameraInfo"
    numbers = [bad, *VALUES[schema][name][1:]]
    with pytest.raises(DecodeError, match="not finite"):
        decode_camera_info(encode(schema, {**VALUES[schema], name: numbers}))
