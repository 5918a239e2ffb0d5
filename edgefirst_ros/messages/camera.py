"""Cameras: video packets, still images and calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import foxglove_msgs, sensor_msgs

from edgefirst_ros.errors import DecodeError
from edgefirst_ros.messages.cdr import Message, Stamped, decode_as, octets
from edgefirst_ros.messages.deepimage import compressed_depth, deep_png, png_bits
from edgefirst_ros.messages.pixels import Pixels, pixels_of, quoted

Codec = Literal["h264", "h265"]

_CODECS: dict[str, Codec] = {"h264": "h264", "avc": "h264", "h265": "h265", "hevc": "h265"}
_ENCODERS: tuple[tuple[str, Codec], ...] = (("264", "h264"), ("265", "h265"), ("hevc", "h265"))
"""Part of an encoder's name in libavcodec (libx264, h264_nvenc, hevc_vaapi, …), and its codec."""
_LONGEST_SIDE_PX = 65_535
_MOST = 1e9
_LEAST_FOCAL_PX = 1e-3
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class VideoPacket:
    """One Annex-B access unit (foxglove_msgs/CompressedVideo, ffmpeg_image_transport_msgs/FFMPEGPacket)."""

    codec: Codec
    data: bytes


@dataclass(frozen=True, slots=True)
class CompressedImage:
    """An encoded still image (sensor_msgs/CompressedImage); ``format`` is "jpeg" or "png"."""

    format: Literal["jpeg", "png"]
    data: bytes


@dataclass(frozen=True, slots=True)
class RawImage:
    """Uncompressed pixels (sensor_msgs/Image).

    ``pixels`` is (height, width) or (height, width, channels), contiguous, uint8, uint16 or float32 in
    native byte order; ``encoding`` is the ROS name (rgb8, bayer_rggb12, mono16, 16UC1, ...). Packed 4:2:2
    (yuv422 is U Y V Y, yuv422_yuy2 is Y U Y V) has 2 channels; nv12, nv21, i420 and yv12 are
    (height * 3 / 2, width), nv24 is (height * 3, width).
    """

    encoding: str
    pixels: Pixels


@dataclass(frozen=True, slots=True)
class CameraInfo:
    """Camera calibration (sensor_msgs/CameraInfo).

    ``k`` is (3, 3), ``r`` (3, 3), ``p`` (3, 4), float64, pixels with pixel-centred origin; ``d`` in the
    order of ``distortion_model``. All of them are of the full resolution, ``width`` by ``height``.

    ``binning`` is how many pixels became one, across and down. ``roi`` is what the picture shows: x and y of
    its first pixel, width and height, in pixels of the full resolution; None for everything. ``do_rectify``
    is not kept: it says how to cut a rectified picture, and changes nothing of one as it was taken.
    """

    width: int
    height: int
    distortion_model: str
    d: tuple[float, ...]
    k: npt.NDArray[np.float64]
    r: npt.NDArray[np.float64]
    p: npt.NDArray[np.float64]
    binning: tuple[int, int] = (1, 1)
    roi: tuple[int, int, int, int] | None = None

    @property
    def picture_size(self) -> tuple[int, int]:
        """Width and height of the pictures that it describes; 0 if unknown."""
        width, height = self.roi[2:] if self.roi else (self.width, self.height)
        return width // self.binning[0], height // self.binning[1]


def decode_video(data: bytes, definition: str = "") -> Stamped[VideoPacket]:
    """Decode a foxglove_msgs/CompressedVideo in H.264 or H.265.

    Raises:
        DecodeError: the bytes are no such message, or hold no Annex-B packet of a known codec.
    """
    return decode_as("foxglove_msgs/CompressedVideo", data, definition, _video)


def decode_packet(data: bytes, definition: str = "") -> Stamped[VideoPacket]:
    """Decode an ffmpeg_image_transport_msgs/FFMPEGPacket in H.264 or H.265, whatever encoder it names.

    Raises:
        DecodeError: the bytes are no such message, or hold no Annex-B packet of a known codec.
    """
    return decode_as("ffmpeg_image_transport_msgs/FFMPEGPacket", data, definition, _packet)


def decode_compressed_image(data: bytes, definition: str = "") -> Stamped[CompressedImage | RawImage]:
    """Decode a sensor_msgs/CompressedImage; the data decide on its type, not ``format``.

    JPEG and PNG stay as they are. A PNG with 16 bits a sample, and depth as compressed_depth_image_transport
    packs it (only ``format`` tells that), are unpacked.

    Raises:
        DecodeError: the bytes are no such message, hold neither JPEG nor PNG, or are damaged.
    """
    return decode_as("sensor_msgs/CompressedImage", data, definition, _compressed)


def decode_foxglove_image(data: bytes, definition: str = "") -> Stamped[CompressedImage | RawImage]:
    """Decode a foxglove_msgs/CompressedImage, as ``decode_compressed_image`` does.

    Raises:
        DecodeError: the bytes are no such message, or hold neither JPEG nor PNG.
    """
    return decode_as("foxglove_msgs/CompressedImage", data, definition, _compressed)


def decode_image(data: bytes, definition: str = "") -> Stamped[RawImage]:
    """Decode a sensor_msgs/Image; row padding is removed and big-endian samples are swapped.

    Raises:
        DecodeError: the bytes are no such message, its encoding is not known, or its sizes disagree.
    """
    return decode_as("sensor_msgs/Image", data, definition, _image)


def decode_camera_info(data: bytes, definition: str = "") -> Stamped[CameraInfo]:
    """Decode a sensor_msgs/CameraInfo; an empty region of interest means none, a binning of 0 means 1.

    Raises:
        DecodeError: the bytes are no such message, its picture has no size (an uncalibrated camera's), or its
            numbers are not finite or none that a camera has.
    """
    return decode_as("sensor_msgs/CameraInfo", data, definition, _camera_info)


def _video(message: foxglove_msgs.CompressedVideo) -> VideoPacket:
    name = str(message.format).strip().lower().replace(".", "")
    codec = _CODECS.get(name)
    if codec is None:
        raise DecodeError(f"video format {quoted(message.format)}, expected h264 or h265")
    return _access_unit(codec, octets(message.data))


def _packet(message: Message) -> VideoPacket:
    name = str(message.encoding).partition(";")[0].strip().lower()
    codec = next((codec for part, codec in _ENCODERS if part in name), None)
    if codec is None:
        raise DecodeError(f"video encoding {quoted(message.encoding)}, expected one of H.264 or H.265")
    return _access_unit(codec, octets(message.data))


def _access_unit(codec: Codec, packet: bytes) -> VideoPacket:
    if not packet:
        raise DecodeError("empty video packet")
    zeros = len(packet) - len(packet.lstrip(b"\x00"))
    if zeros < 2 or packet[zeros : zeros + 1] != b"\x01":
        raise DecodeError("video packet is not Annex-B")
    return VideoPacket(codec, packet)


def _compressed(
    message: sensor_msgs.CompressedImage | foxglove_msgs.CompressedImage,
) -> CompressedImage | RawImage:
    encoded, said = octets(message.data), str(message.format)
    if "compressedDepth" in said:
        return _unpacked(compressed_depth(encoded, said))
    if encoded.startswith(_JPEG):
        return CompressedImage("jpeg", encoded)
    if png_bits(encoded) == 16:
        return _unpacked(deep_png(encoded, said.partition(";")[0].strip()))
    if encoded.startswith(_PNG):
        return CompressedImage("png", encoded)
    raise DecodeError(f"neither JPEG nor PNG data, format {quoted(message.format)}")


def _unpacked(image: tuple[str, Pixels]) -> RawImage:
    encoding, pixels = image
    pixels.flags.writeable = False
    return RawImage(encoding, pixels)


def _image(message: sensor_msgs.Image) -> RawImage:
    return RawImage(*pixels_of(message))


def _camera_info(message: sensor_msgs.CameraInfo) -> CameraInfo:
    info = CameraInfo(
        width=int(message.width),
        height=int(message.height),
        distortion_model=str(message.distortion_model),
        d=tuple(map(float, message.d)),
        k=_matrix(message.k, 3),
        r=_matrix(message.r, 3),
        p=_matrix(message.p, 4),
        binning=(max(1, int(message.binning_x)), max(1, int(message.binning_y))),
        roi=_region(message.roi, int(message.width), int(message.height)),
    )
    if not (all(map(math.isfinite, info.d)) and all(np.isfinite(m).all() for m in (info.k, info.r, info.p))):
        raise DecodeError("camera calibration is not finite")
    if not (info.width and info.height):
        raise DecodeError("CameraInfo: width or height 0, expected the picture's; the camera is uncalibrated")
    if max(info.width, info.height) > _LONGEST_SIDE_PX:
        raise DecodeError(f"CameraInfo: width or height beyond {_LONGEST_SIDE_PX}")
    largest = max(np.abs(m).max(initial=0.0) for m in (np.array(info.d, np.float64), info.k, info.r, info.p))
    focal_px = np.abs([info.k[0, 0], info.k[1, 1]])
    if largest > _MOST or ((focal_px > 0) & (focal_px < _LEAST_FOCAL_PX)).any():
        raise DecodeError("CameraInfo: numbers that no camera has")
    return info


def _region(roi: sensor_msgs.RegionOfInterest, width: int, height: int) -> tuple[int, int, int, int] | None:
    """The region of interest; None if it is empty or the whole picture."""
    found = int(roi.x_offset), int(roi.y_offset), int(roi.width), int(roi.height)
    return None if not (found[2] and found[3]) or found == (0, 0, width, height) else found


def _matrix(values: Sequence[float], columns: int) -> npt.NDArray[np.float64]:
    matrix = np.array(values, np.float64).reshape(3, columns)
    matrix.flags.writeable = False
    return matrix
