"""Headers of pictures that are made to be gone over for long: they are refused before a library does."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from PIL import Image

from edgefirst_ros.model.camera import CompressedImage
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import MOST_CHUNKS, SOS, chunk, jpeg_segments, open_picture
from edgefirst_ros.video.stills import passthrough

MB = 1 << 20


def encoded(kind: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (32, 20), (10, 200, 30)).save(stream, kind)
    return stream.getvalue()


JPEG, PNG = encoded("JPEG"), encoded("PNG")
FILLING = {
    "fill bytes": b"\xff" * MB,
    "junk": b"\x01" * MB,
    "remarks of nothing": b"\xff\xe1\x00\x02" * (MB // 4),
    "markers without a length": b"\xff\xd0" * (MB // 2),
    "an Exif of many parts": (b"\xff\xe1\xff\xff" + b"Exif\0\0".ljust(65533, b"\0")) * 300,
}


@pytest.mark.parametrize("filling", FILLING.values(), ids=FILLING)
def test_a_header_without_end_is_refused(filling: bytes) -> None:
    data = JPEG[:2] + filling + JPEG[2:]
    with pytest.raises(ValueError, match="JPEG"):
        open_picture(data)
    with pytest.raises(DecodeError):
        passthrough(CompressedImage("jpeg", data))
    with pytest.raises(ValueError, match="JPEG"):
        open_picture(JPEG[:2] + filling)


def test_segments_are_those_up_to_the_first_scan() -> None:
    found = list(jpeg_segments(JPEG))
    assert found[0][1] == 2
    assert all(end == start for (_, _, end), (_, start, _) in pairwise(found))
    assert [marker for marker, _, _ in found if marker == SOS] == [found[-1][0]]
    assert JPEG[found[-1][1] :].startswith(b"\xff\xda")


def test_a_png_of_chunks_without_end_is_refused() -> None:
    head, empty = 33, chunk(b"teXt", b"")
    with open_picture(PNG[:head] + empty * 1000 + PNG[head:]) as picture:
        assert picture.size == (32, 20)
    with pytest.raises(DecodeError, match="chunks"):
        open_picture(PNG[:head] + empty * MOST_CHUNKS + PNG[head:])
