"""EXIF of camera pictures: time, location and camera.

Source: EXIF 2.32 (CIPA DC-008-2019), table 4 ff.; PNG third edition, clause 11.3.2.3 (eXIf).
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from PIL import Image
from PIL.ExifTags import GPS, IFD, Base
from PIL.TiffImagePlugin import IFDRational

from edgefirst_ros.formats.edgefirst.options import AUTO, EdgeFirstOptions
from edgefirst_ros.model.camera import CameraInfo, picture_intrinsics
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import SOS, chunk, chunks, jpeg_segments
from edgefirst_ros.model.sample import CameraImage, GeoPoint

EXIF_HEADER = b"Exif\0\0"
FULL_FRAME_DIAGONAL_MM = math.hypot(36.0, 24.0)
CENTIMETRE = 3
SOI, APP1 = b"\xff\xd8", 0xE1

DEVICE = ("Au-Zone Technologies", "Maivin")
"""Make and Model of the device."""
_OWN_CAMERA = re.compile(r"([^/]+/)?camera/(h26[45](/[tb][lr])?|jpeg)")
"""The device's camera topics, with or without a prefix."""


@dataclass(frozen=True, slots=True)
class CaptureInfo:
    """What the EXIF of a picture says; parts that are None or empty are unknown.

    Attributes:
        name: name of the sample, for ImageUniqueID.
        time_ns: acquisition, in nanoseconds since 1970 UTC.
        width: width of the picture in pixels.
        location: location of the rig at that time.
        fix_time_ns: time of the fix that the location is based on.
        camera_info: the calibration in force.
        make: manufacturer of the camera.
        model: model of the camera.
    """

    name: str
    time_ns: int
    width: int
    location: GeoPoint | None = None
    fix_time_ns: int | None = None
    camera_info: CameraInfo | None = None
    make: str = ""
    model: str = ""


def camera_maker(options: EdgeFirstOptions, topic: str) -> tuple[str, str]:
    """Make and Model for pictures of a topic; an empty one is omitted."""
    device = DEVICE if _OWN_CAMERA.fullmatch(topic.strip("/")) else ("", "")
    (make, own_make), (model, own_model) = zip(options.exif_camera, device, strict=True)
    return own_make if make == AUTO else make, own_model if model == AUTO else model


def build_exif(info: CaptureInfo) -> bytes:
    """EXIF as TIFF bytes, without the header ``Exif`` that only JPEG has.

    Times are UTC, with nine digits in SubSecTimeOriginal. GPS angles have seconds with six decimals; altitude
    is above the ellipsoid, in steps of a millimetre. FocalLengthIn35mmFilm is the focal length in pixels ×
    full frame diagonal ÷ picture diagonal (CIPA DCG-001).
    """
    exif = Image.Exif()
    for tag, value in ((Base.Make, info.make), (Base.Model, info.model)):
        if value:
            exif[tag] = value
    seconds, nanoseconds = divmod(info.time_ns, 10**9)
    exif[IFD.Exif] = {
        Base.ExifVersion: b"0232",
        Base.DateTimeOriginal: datetime.fromtimestamp(seconds, UTC).strftime("%Y:%m:%d %H:%M:%S"),
        Base.OffsetTimeOriginal: "+00:00",
        Base.SubsecTimeOriginal: f"{nanoseconds:09d}",
        Base.ImageUniqueID: info.name.encode("ascii", "replace").decode(),
        **_focal_tags(info),
    }
    if info.location is not None:
        exif[IFD.GPSInfo] = _gps_tags(info.location, info.fix_time_ns)
    return exif.tobytes().removeprefix(EXIF_HEADER)


def insert_exif(image: CameraImage, tiff: bytes) -> bytes:
    """Replace the EXIF of an encoded picture; all other bytes are unchanged.

    Raises:
        DecodeError: the data are damaged, or not of the picture's format.
    """
    return _into_jpeg(image.data, tiff) if image.format == "jpeg" else _into_png(image.data, tiff)


def _into_jpeg(data: bytes, tiff: bytes) -> bytes:
    """Insert APP1 right after SOI, as EXIF requires; APP0 of JFIF follows."""
    if data[:2] != SOI:
        raise DecodeError("camera image is not a JPEG")
    payload = EXIF_HEADER + tiff
    parts = [SOI, struct.pack(">BBH", 0xFF, APP1, 2 + len(payload)), payload]
    for marker, start, end in jpeg_segments(data):
        if marker == SOS:
            return b"".join((*parts, data[start:]))
        if marker != APP1 or not data.startswith(EXIF_HEADER, start + 4):
            parts.append(data[start:end])
    raise DecodeError("camera JPEG is damaged before its scan")


def _into_png(data: bytes, tiff: bytes) -> bytes:
    """Insert an eXIf chunk right after IHDR."""
    parts, kept = [], 0
    for kind, start, end in chunks(data, verify=False):
        if kind == b"IHDR":
            parts += [data[kept : end + 4], chunk(b"eXIf", tiff)]
            kept = end + 4
        elif kind == b"eXIf":
            parts.append(data[kept : start - 8])
            kept = end + 4
    return b"".join((*parts, data[kept:]))


def _focal_tags(info: CaptureInfo) -> dict[int, Any]:
    found = None if info.camera_info is None else picture_intrinsics(info.camera_info)
    if found is None:
        return {}
    (fx, fy), (width, height) = found.focal_px, found.size
    diagonal_px = math.hypot(width, height * fx / fy)
    tags: dict[int, Any] = {}
    if 1 <= (film_mm := round(fx * FULL_FRAME_DIAGONAL_MM / diagonal_px)) <= 0xFFFF:
        tags[Base.FocalLengthIn35mmFilm] = film_mm
    return tags


def _gps_tags(location: GeoPoint, fix_time_ns: int | None) -> dict[int, Any]:
    tags: dict[int, Any] = {
        GPS.GPSVersionID: b"\x02\x03\x00\x00",
        GPS.GPSLatitudeRef: "S" if location.latitude_deg < 0.0 else "N",
        GPS.GPSLatitude: _angle(location.latitude_deg),
        GPS.GPSLongitudeRef: "W" if location.longitude_deg < 0.0 else "E",
        GPS.GPSLongitude: _angle(location.longitude_deg),
        GPS.GPSMapDatum: "WGS-84",
    }
    if math.isfinite(location.altitude_m):
        tags[GPS.GPSAltitudeRef] = b"\x01" if location.altitude_m < 0.0 else b"\x00"
        up_mm = min(round(abs(location.altitude_m) * 1000), 0xFFFFFFFF)
        tags[GPS.GPSAltitude] = IFDRational(up_mm, 1000)
    if fix_time_ns is not None:
        fix = datetime.fromtimestamp(fix_time_ns // 10**9, UTC)
        millionths = fix_time_ns % (60 * 10**9) // 1000
        tags[GPS.GPSDateStamp] = fix.strftime("%Y:%m:%d")
        tags[GPS.GPSTimeStamp] = (
            IFDRational(fix.hour),
            IFDRational(fix.minute),
            IFDRational(millionths, 1_000_000),
        )
    return tags


def _angle(degrees: float) -> tuple[IFDRational, IFDRational, IFDRational]:
    millionths = round(abs(degrees) * 3600 * 1_000_000)
    minutes, millionths = divmod(millionths, 60 * 1_000_000)
    whole, minutes = divmod(minutes, 60)
    return IFDRational(whole), IFDRational(minutes), IFDRational(millionths, 1_000_000)
