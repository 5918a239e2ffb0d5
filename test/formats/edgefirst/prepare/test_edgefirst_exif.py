"""EXIF in JPEG and PNG, judged by Pillow; all other bytes stay as they were."""

from __future__ import annotations

import io
import math
import struct
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from edgefirst_samples import HEIGHT, START_NS, WIDTH, camera_info, jpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

from edgefirst_ros.formats.edgefirst.prepare.exif import CaptureInfo, build_exif, insert_exif
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.sample import CameraImage, GeoPoint

PLACE = GeoPoint(-33.8567844, 151.2152967, -12.345)


def info(**changes: object) -> CaptureInfo:
    values: dict[str, Any] = {"name": "seq_001", "time_ns": START_NS, "width": WIDTH} | changes
    return CaptureInfo(**values)


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), (10, 20, 30)).save(out, "PNG")
    return out.getvalue()


def picture(data: bytes, kind: str = "jpeg") -> CameraImage:
    return CameraImage(kind, data, WIDTH, HEIGHT)


def tags(data: bytes) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any]]:
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        exif = image.getexif()
        return dict(exif), dict(exif.get_ifd(IFD.Exif)), dict(exif.get_ifd(IFD.GPSInfo))


@pytest.mark.parametrize(("data", "kind"), [(jpeg(), "jpeg"), (png(), "png")], ids=["jpeg", "png"])
def test_what_was_written_is_read_back(data: bytes, kind: str) -> None:
    described = info(make="Au-Zone Technologies", model="Maivin", location=PLACE, fix_time_ns=START_NS)
    written = insert_exif(picture(data, kind), build_exif(described))
    main, exif, gps = tags(written)
    assert (main[Base.Make], main[Base.Model]) == ("Au-Zone Technologies", "Maivin")
    assert exif[Base.DateTimeOriginal] == "2026:03:14 10:20:30"
    assert exif[Base.SubsecTimeOriginal] == "123456789"
    assert exif[Base.OffsetTimeOriginal] == "+00:00"
    assert exif[Base.ImageUniqueID] == "seq_001"
    assert (gps[GPS.GPSLatitudeRef], gps[GPS.GPSLongitudeRef]) == ("S", "E")
    assert (gps[GPS.GPSAltitudeRef], float(gps[GPS.GPSAltitude])) == (b"\x01", 12.345)
    assert gps[GPS.GPSDateStamp] == "2026:03:14"
    hours, minutes, seconds = gps[GPS.GPSTimeStamp]
    assert (hours, minutes, Fraction(float(seconds)).limit_denominator(10**6)) == (
        10,
        20,
        Fraction("30.123456"),
    )
    with Image.open(io.BytesIO(written)) as after, Image.open(io.BytesIO(data)) as before:
        assert after.tobytes() == before.tobytes()


def angle(values: tuple[Any, Any, Any], ref: str) -> float:
    degrees, minutes, seconds = map(float, values)
    assert degrees == int(degrees)
    assert minutes == int(minutes) < 60
    assert seconds < 60
    return (degrees + minutes / 60 + seconds / 3600) * (-1 if ref in "SW" else 1)


@given(st.floats(-90, 90), st.floats(-180, 180), st.floats(-400, 9000))
def test_any_place_on_earth_to_a_tenth_of_a_millimetre(
    latitude: float, longitude: float, altitude: float
) -> None:
    place = GeoPoint(latitude, longitude, altitude)
    _, _, gps = tags(insert_exif(picture(jpeg()), build_exif(info(location=place))))
    assert angle(gps[GPS.GPSLatitude], gps[GPS.GPSLatitudeRef]) == pytest.approx(latitude, abs=1e-9)
    assert angle(gps[GPS.GPSLongitude], gps[GPS.GPSLongitudeRef]) == pytest.approx(longitude, abs=1e-9)
    sign = -1 if gps[GPS.GPSAltitudeRef] == b"\x01" else 1
    assert float(gps[GPS.GPSAltitude]) * sign == pytest.approx(altitude, abs=5.1e-4)


@given(st.integers(0, 253_402_300_799 * 10**9))
def test_any_time_to_the_nanosecond(time_ns: int) -> None:
    _, exif, _ = tags(insert_exif(picture(jpeg()), build_exif(info(time_ns=time_ns))))
    whole = datetime.strptime(exif[Base.DateTimeOriginal], "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
    assert int(whole.timestamp()) * 10**9 + int(exif[Base.SubsecTimeOriginal]) == time_ns


def test_what_is_not_known_is_not_written() -> None:
    main, exif, gps = tags(insert_exif(picture(jpeg()), build_exif(info())))
    assert not {Base.Make, Base.Model} & main.keys()
    assert not {Base.FocalLength, Base.FocalLengthIn35mmFilm, Base.FocalPlaneXResolution} & exif.keys()
    assert gps == {}
    nowhere = GeoPoint(1.0, 2.0, math.nan)
    _, _, gps = tags(insert_exif(picture(jpeg()), build_exif(info(location=nowhere))))
    assert GPS.GPSLatitude in gps
    assert not {GPS.GPSAltitude, GPS.GPSTimeStamp, GPS.GPSDateStamp} & gps.keys()


def test_focal_length_by_angle_of_view() -> None:
    # a 36 × 24 mm sensor of 3600 × 2400 pixels: 1 mm is 100 pixels
    camera = camera_info(3600, 2400, 5000.0)
    _, exif, _ = tags(insert_exif(picture(jpeg()), build_exif(info(camera_info=camera))))
    assert exif[Base.FocalLengthIn35mmFilm] == 50


def test_pixels_that_are_not_square_count_by_their_width() -> None:
    camera = camera_info(3600, 2400, 5000.0)
    camera.k[1, 1] = 4000.0  # 2400 of its rows are as high as 3000 columns are wide
    _, exif, _ = tags(insert_exif(picture(jpeg()), build_exif(info(camera_info=camera))))
    diagonal_mm = math.hypot(36.0, 30.0)
    assert exif[Base.FocalLengthIn35mmFilm] == round(50.0 * math.hypot(36.0, 24.0) / diagonal_mm)


@pytest.mark.parametrize("fx", [0.0, -1.0, math.nan])
def test_cameras_that_are_not_calibrated_have_no_focal_length(fx: float) -> None:
    described = info(camera_info=camera_info(fx=fx))
    _, exif, _ = tags(insert_exif(picture(jpeg()), build_exif(described)))
    assert Base.FocalLengthIn35mmFilm not in exif


def test_a_jpeg_keeps_every_other_byte() -> None:
    data = jpeg()
    tiff = build_exif(info())
    app1 = b"\xff\xe1" + struct.pack(">H", 8 + len(tiff)) + b"Exif\0\0" + tiff
    assert data[2:4] == b"\xff\xe0", "JFIF"
    assert insert_exif(picture(data), tiff) == data[:2] + app1 + data[2:]


def test_exif_that_was_there_is_replaced_and_xmp_stays() -> None:
    data = jpeg()
    xmp = b"\xff\xe1\x00\x0ahttp://\0"
    marked = data[:2] + xmp + data[2:]
    once = insert_exif(picture(marked), build_exif(info(name="first")))
    twice = insert_exif(picture(once), build_exif(info(name="again")))
    assert twice == insert_exif(picture(marked), build_exif(info(name="again")))
    assert twice.count(b"Exif\0\0") == 1
    assert xmp in twice


def test_a_png_keeps_every_other_chunk_and_one_exif() -> None:
    data = png()
    once = insert_exif(picture(data, "png"), build_exif(info(name="first")))
    twice = insert_exif(picture(once, "png"), build_exif(info(name="again")))
    assert twice.count(b"eXIf") == 1
    assert twice[:33] == data[:33], "signature and IHDR"
    assert twice.endswith(data[33:])
    Image.open(io.BytesIO(twice)).verify()
    padded = insert_exif(picture(data + bytes(5), "png"), build_exif(info(name="again")))
    assert padded == twice + bytes(5)


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"", "jpeg", "not a JPEG"),
        (png(), "jpeg", "not a JPEG"),
        (b"\xff\xd8\xff\xe0\x00\x10JF", "jpeg", "damaged"),
        (b"\xff\xd8\x00\x00\x00\x00", "jpeg", "damaged"),
        (jpeg(), "png", "not a PNG"),
        (png()[:40], "png", "PNG ends"),
    ],
)
def test_pictures_that_are_none_are_refused(data: bytes, kind: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        insert_exif(picture(data, kind), build_exif(info()))
