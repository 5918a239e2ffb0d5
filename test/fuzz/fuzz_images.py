"""JPEG and PNG: sizes, EXIF that is put in, what ``check`` makes of them, and 16-bit PNG and depth."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import simplejpeg
from fuzzing import Target, mutate_bytes
from PIL import Image

from edgefirst_ros.formats.edgefirst.check.dataset import check_files
from edgefirst_ros.formats.edgefirst.prepare.exif import CaptureInfo, build_exif, insert_exif
from edgefirst_ros.formats.format import Findings
from edgefirst_ros.model.camera import CompressedImage, RawImage
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import (
    SIGNATURE,
    chunk,
    chunks,
    compressed_depth,
    deep_png,
    encode_gray,
    encode_rgb,
    png_bits,
)
from edgefirst_ros.model.sample import CameraImage, GeoPoint
from edgefirst_ros.video.pictures import picture_of
from edgefirst_ros.video.stills import passthrough, still_size

RVL = struct.pack("<iff", 0, 1.0, 0.5)
KINDS = ("camera.png", "depth.png", "radar.png", "lidar.png")
_HEAD = struct.Struct(">II")


def _pixels() -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(1).integers(0, 256, (24, 32, 3), np.uint8)


def _exif() -> bytes:
    place = GeoPoint(48.1, 11.5, 500.0)
    return build_exif(CaptureInfo("seq_001", 1_773_483_630_123_456_789, 32, place, 1_773_483_630 * 10**9))


def jpegs() -> list[bytes]:
    plain = simplejpeg.encode_jpeg(_pixels(), 80, "RGB", "420")
    progressive = io.BytesIO()
    Image.fromarray(_pixels()).save(progressive, "JPEG", progressive=True, comment=b"x")
    tagged = insert_exif(CameraImage("jpeg", plain, 32, 24), _exif())
    return [plain, progressive.getvalue(), tagged]


def pngs() -> list[bytes]:
    rgb, gray = _pixels(), _pixels()[:, :, 0]
    deep = gray.astype(np.uint16) * 257
    palette = io.BytesIO()
    Image.fromarray(rgb).quantize(16).save(palette, "PNG")
    deep_png_file = encode_gray(deep, {"Bins": "1,2"})
    return [
        encode_rgb(rgb),
        encode_gray(gray, {"range": "0.1", "Title": "x"}),
        encode_gray(gray > 128),
        deep_png_file,
        insert_exif(CameraImage("png", encode_rgb(rgb), 32, 24), _exif()),
        palette.getvalue(),
        RVL + deep_png_file,
        RVL + struct.pack("<II", 4, 2) + struct.pack("<III", 0x18111111, 0x21212121, 0x0F8F8F80),
    ]


def mutate_jpeg(rng: random.Random, data: bytes) -> bytes:
    """Change what is before the first scan, mostly: lengths, markers, EXIF."""
    head = data.find(b"\xff\xda") + 14
    if rng.random() < 0.7:
        return data[:2] + mutate_bytes(rng, data[2:head]) + data[head:]
    return mutate_bytes(rng, data)


def mutate_png(rng: random.Random, data: bytes) -> bytes:
    """Change chunks under a right checksum, mostly."""
    begin = data.find(SIGNATURE)
    if begin < 0 or rng.random() < 0.2:
        return mutate_bytes(rng, data)
    file = data[begin:]
    parts = [(kind, file[start:end]) for kind, start, end in chunks(file)]
    chosen = rng.randrange(len(parts))
    kind, content = parts[chosen]
    way = rng.random()
    if kind == b"IDAT" and way < 0.5:
        raw = zlib.decompress(content)
        raw = rng.choice((mutate_bytes(rng, raw), raw * rng.choice((2, 5000)), raw[: len(raw) // 2]))
        parts[chosen] = kind, zlib.compress(raw)
    elif way < 0.8:
        parts[chosen] = kind, mutate_bytes(rng, content)
    elif way < 0.9:
        parts[chosen] = rng.choice(parts)[0], content
    else:
        parts.insert(rng.randrange(len(parts)), (kind, content))
    if rng.random() < 0.2:
        _, header = parts[0]
        sides = (0, 1, 31, 65_535, 0x7FFFFFFF, 0xFFFFFFFF)
        parts[0] = parts[0][0], _HEAD.pack(rng.choice(sides), rng.choice(sides)) + header[8:]
    return data[:begin] + SIGNATURE + b"".join(chunk(name, content) for name, content in parts)


def run(data: bytes, folder: Path) -> str:
    del folder
    kind = "jpeg" if data[:2] == b"\xff\xd8" else "png"
    image = CompressedImage("jpeg" if kind == "jpeg" else "png", data)
    still_size(image)
    kinds = KINDS if kind == "png" else ("camera.jpeg",)
    check_files(((f"s/s_001.{name}", data) for name in kinds), "here", Findings())
    said = "refused"
    if kind == "png":
        said = _deep(data, said)
    try:
        taken = passthrough(image)
        tagged = insert_exif(taken, _exif())
    except DecodeError:
        return said
    check_files([(f"s/s_001.camera.{kind}", tagged)], "here", Findings())
    return "taken"


def _deep(data: bytes, said: str) -> str:
    for make in (
        lambda: deep_png(data, "16UC1"),
        lambda: compressed_depth(data, "16UC1; compressedDepth png"),
        lambda: compressed_depth(data, "32FC1; compressedDepth png"),
        lambda: compressed_depth(data, "32FC1; compressedDepth rvl"),
    ):
        png_bits(data)
        try:
            encoding, pixels = make()
            said = "depth"
            if encoding != "32FC1":
                picture_of(RawImage(encoding, pixels)).rgb()
        except DecodeError:
            pass
    return said


JPEG = Target("jpeg", jpegs, run, mutate_jpeg)
PNG = Target("png", pngs, run, mutate_png)
