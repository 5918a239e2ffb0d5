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
from edgefirst_ros.messages.cdr import Message, decoder_of, octets, repeated_decoder_of
from edgefirst_ros.messages.pixels import Pixels, pixels_of, quoted
from edgefirst_ros.naming import displayed

Codec = Literal["h264", "h265"]

_CODECS: dict[str, Codec] = {"h264": "h264", "avc": "h264", "h265": "h265", "hevc": "h265"}
_ENCODERS: tuple[tuple[str, Codec], ...] = (("264", "h264"), ("265", "h265"), ("hevc", "h265"))
"""Codec by part of an encoder's name in libavcodec (libx264, h264_nvenc, hevc_vaapi, …)."""
_LONGEST_SIDE_PX = 65_535
_MOST = 1e9
_LEAST_FOCAL_PX = 1e-3
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class VideoPacket:
    """One access unit as an Annex B byte stream.

    Source: foxglove_msgs/CompressedVideo or ffmpeg_image_transport_msgs/FFMPEGPacket.
    """

    codec: Codec
    data: bytes


@dataclass(frozen=True, slots=True)
class CompressedImage:
    """A JPEG or PNG file (sensor_msgs/CompressedImage or foxglove_msgs/CompressedImage)."""

    format: Literal["jpeg", "png"]
    data: bytes


@dataclass(frozen=True, slots=True)
class RawImage:
    """An uncompressed image (sensor_msgs/Image, or a compressed one that had to be decoded).

    Attributes:
        encoding: the ROS name: rgb8, bayer_rggb12, mono16, 16UC1, ...
        pixels: (height, width) or (height, width, channels), contiguous uint8, uint16 or float32 in native
            byte order. 4:2:2 has 2 channels (yuv422 is U Y V Y, yuv422_yuy2 is Y U Y V); nv12, nv21, i420 and
            yv12 are (height * 3 / 2, width), nv24 is (height * 3, width).
    """

    encoding: str
    pixels: Pixels


@dataclass(frozen=True, slots=True)
class CameraInfo:
    """Calibration of a camera at its full resolution (sensor_msgs/CameraInfo).

    ``do_rectify`` is left out: it concerns rectified pictures only.

    Attributes:
        width: of the full resolution, in pixels.
        height: of the full resolution, in pixels.
        distortion_model: its name.
        d: distortion coefficients in the order of the model.
        k: intrinsic matrix (3, 3) in pixels; the origin is the centre of the first pixel.
        r: rectification matrix (3, 3).
        p: projection matrix (3, 4) in pixels.
        binning: pixels of the full resolution that make one pixel of the picture, across and down.
        roi: the part that the picture shows: x, y, width, height at full resolution; None for everything.
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
        """Width and height of the pictures that the camera takes; 0 if unknown."""
        width, height = self.roi[2:] if self.roi else (self.width, self.height)
        return width // self.binning[0], height // self.binning[1]


@decoder_of("foxglove_msgs/CompressedVideo")
def decode_video(message: foxglove_msgs.CompressedVideo) -> VideoPacket:
    """Decode a foxglove_msgs/CompressedVideo in H.264 or H.265.

    Raises:
        DecodeError: no valid message of this type, another codec, or no Annex B byte stream.
    """
    name = str(message.format).strip().lower().replace(".", "")
    codec = _CODECS.get(name)
    if codec is None:
        raise DecodeError(f"video format {quoted(message.format)}, expected h264 or h265")
    return _access_unit(codec, octets(message.data))


@decoder_of("ffmpeg_image_transport_msgs/FFMPEGPacket")
def decode_packet(message: Message) -> VideoPacket:
    """Decode an ffmpeg_image_transport_msgs/FFMPEGPacket in H.264 or H.265, of any encoder.

    Raises:
        DecodeError: no valid message of this type, another codec, or no Annex B byte stream.
    """
    name = str(message.encoding).partition(";")[0].strip().lower()
    codec = next((codec for part, codec in _ENCODERS if part in name), None)
    if codec is None:
        raise DecodeError(f"video encoding {quoted(message.encoding)}, expected one of H.264 or H.265")
    return _access_unit(codec, octets(message.data))


@decoder_of("sensor_msgs/CompressedImage")
def decode_compressed_image(
    message: sensor_msgs.CompressedImage | foxglove_msgs.CompressedImage,
) -> CompressedImage | RawImage:
    """Decode a sensor_msgs/CompressedImage.

    JPEG and PNG files, recognised by their data, stay encoded. PNG of 16 bits is decoded to pixels, and so is
    depth of compressed_depth_image_transport, recognised by ``format``.

    Raises:
        DecodeError: no valid message of this type, neither JPEG nor PNG, or damaged.
    """
    return _compressed(message)


@decoder_of("foxglove_msgs/CompressedImage")
def decode_foxglove_image(
    message: sensor_msgs.CompressedImage | foxglove_msgs.CompressedImage,
) -> CompressedImage | RawImage:
    """Decode a foxglove_msgs/CompressedImage, as ``decode_compressed_image`` does.

    Raises:
        DecodeError: no valid message of this type, neither JPEG nor PNG, or damaged.
    """
    return _compressed(message)


@decoder_of("sensor_msgs/Image")
def decode_image(message: sensor_msgs.Image) -> RawImage:
    """Decode a sensor_msgs/Image; removes row padding and converts to native byte order.

    Raises:
        DecodeError: no valid message of this type, unknown encoding, or size, step and data contradict each
            other.
    """
    return RawImage(*pixels_of(message))


@repeated_decoder_of("sensor_msgs/CameraInfo")
def decode_camera_info(message: sensor_msgs.CameraInfo) -> CameraInfo:
    """Decode a sensor_msgs/CameraInfo; an empty region of interest means none, a binning of 0 means 1.

    Raises:
        DecodeError: no valid message of this type, width or height 0 (the camera is not calibrated), or
            numbers that are not finite or that no camera has.
    """
    info = CameraInfo(
        width=int(message.width),
        height=int(message.height),
        distortion_model=displayed(str(message.distortion_model)),
        d=tuple(map(float, message.d)),
        k=_matrix(message.k, 3),
        r=_matrix(message.r, 3),
        p=_matrix(message.p, 4),
        binning=(max(1, int(message.binning_x)), max(1, int(message.binning_y))),
        roi=_region(message.roi, int(message.width), int(message.height)),
    )
    return plausible_camera_info(info)


def plausible_camera_info(info: CameraInfo) -> CameraInfo:
    """The same.

    Raises:
        DecodeError: it is of no camera, as ``decode_camera_info`` says.
    """
    if not (all(map(math.isfinite, info.d)) and all(np.isfinite(m).all() for m in (info.k, info.r, info.p))):
        raise DecodeError("camera calibration is not finite")
    if not (info.width and info.height):
        raise DecodeError("CameraInfo: width or height 0, expected the picture's; the camera is uncalibrated")
    if max(info.width, info.height) > _LONGEST_SIDE_PX:
        raise DecodeError(f"CameraInfo: width or height beyond {_LONGEST_SIDE_PX}")
    largest = max(np.abs(m).max(initial=0.0) for m in (np.array(info.d, np.float64), info.k, info.r, info.p))
    focal_px = np.abs([info.k[0, 0], info.k[1, 1]])
    if largest > _MOST or ((focal_px > 0) & (focal_px < _LEAST_FOCAL_PX)).any():
        raise DecodeError("CameraInfo: implausible values")
    return info


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
    # Takes a moment to import, and few recordings hold such messages.
    from edgefirst_ros.messages.deepimage import compressed_depth, deep_png, png_bits  # noqa: PLC0415

    encoded, named = octets(message.data), str(message.format)
    if "compressedDepth" in named:
        return _raw(compressed_depth(encoded, named))
    if encoded.startswith(_JPEG):
        return CompressedImage("jpeg", encoded)
    if png_bits(encoded) == 16:
        return _raw(deep_png(encoded, named.partition(";")[0].strip()))
    if encoded.startswith(_PNG):
        return CompressedImage("png", encoded)
    raise DecodeError(f"neither JPEG nor PNG data, format {quoted(message.format)}")


def _raw(image: tuple[str, Pixels]) -> RawImage:
    encoding, pixels = image
    pixels.flags.writeable = False
    return RawImage(encoding, pixels)


def _region(roi: sensor_msgs.RegionOfInterest, width: int, height: int) -> tuple[int, int, int, int] | None:
    """The region of interest; None if it is empty or the whole picture."""
    found = int(roi.x_offset), int(roi.y_offset), int(roi.width), int(roi.height)
    return None if not (found[2] and found[3]) or found == (0, 0, width, height) else found


def _matrix(values: Sequence[float], columns: int) -> npt.NDArray[np.float64]:
    matrix = np.array(values, np.float64).reshape(3, columns)
    matrix.flags.writeable = False
    return matrix
