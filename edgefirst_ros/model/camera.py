"""Cameras: video packets, still images and calibration.

Intrinsics of a picture, also from a CameraInfo of another size; tiles of a picture by frame name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from edgefirst.schemas import foxglove_msgs, sensor_msgs

from edgefirst_ros.model.cdr import Message, decoder_of, octets, repeated_decoder_of
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pixels import Pixels, pixels_of, quoted
from edgefirst_ros.model.untrusted import displayed

Codec = Literal["h264", "h265"]

_CODECS: dict[str, Codec] = {"h264": "h264", "avc": "h264", "h265": "h265", "hevc": "h265"}
_ENCODERS: tuple[tuple[str, Codec], ...] = (("264", "h264"), ("265", "h265"), ("hevc", "h265"))
"""Codec by part of an encoder's name in libavcodec (libx264, h264_nvenc, hevc_vaapi, …)."""
_LONGEST_SIDE_PX = 65_535
_MOST = 1e9
_LEAST_FOCAL_PX = 1e-3
LOOKS_UP = 0.8
"""Cosine to the zenith of an axis that looks up, within 37°: pictures look ahead, so the frame is another."""


FISHEYE_MODELS = frozenset({"equidistant", "fisheye", "kannala_brandt"})
"""Names of the distortion model whose distance from the middle grows with the angle."""
PINHOLE_MODELS = frozenset({"", "plumb_bob", "rational_polynomial", "thin_prism", "radtan", "none"})
"""Names of those whose distance grows with the angle's tangent."""


_OTHER_NAMES = {
    **dict.fromkeys(("radtan", "radial_tangential", "brown_conrady"), "plumb_bob"),
    **dict.fromkeys(("equi", "kannala_brandt4"), "equidistant"),
}
"""ROS's names of models that Kalibr and librealsense call so, with the same coefficients in order."""


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


MAX_MM = 0xFFFF


def depth_mm(image: RawImage, *, infinite_mm: int = MAX_MM) -> npt.NDArray[np.uint16]:
    """Depth in millimetres (height, width); 0 is unknown, 65535 is 65.535 m or more.

    16-bit images are in millimetres, float images in metres, where NaN is unknown. Source: REP 118.

    Args:
        image: as decoded.
        infinite_mm: what infinity becomes, at which nothing was measured.

    Raises:
        DecodeError: the image has another type.
    """
    pixels = single_channel(image)
    if pixels.dtype == np.uint16:
        return pixels.astype(np.uint16, copy=False)
    if pixels.dtype == np.float32:
        millimetres = np.nan_to_num(
            pixels.astype(np.float64) * 1000.0, nan=0.0, posinf=infinite_mm, neginf=0.0
        )
        return np.rint(millimetres).clip(0, MAX_MM).astype(np.uint16)
    raise DecodeError(f"depth image of encoding {image.encoding[:40]}")


def single_channel(image: RawImage) -> Pixels:
    """The pixels (height, width).

    Raises:
        DecodeError: there are several channels.
    """
    pixels = image.pixels
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        return pixels[:, :, 0]
    if pixels.ndim != 2:
        raise DecodeError(f"image of encoding {image.encoding[:40]} where one channel is expected")
    return pixels


@dataclass(frozen=True, slots=True)
class CameraInfo:
    """Calibration of a camera at its full resolution (sensor_msgs/CameraInfo).

    It is of pictures as the camera takes them; ``rectified`` makes it one of rectified pictures.

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


def rectified(info: CameraInfo) -> CameraInfo:
    """The calibration of rectified pictures: P counts in place of K, and they have no distortion.

    The same if it has no P, or says so itself. Source: sensor_msgs/CameraInfo.
    """
    k = info.p[:, :3]
    if k[0, 0] <= 0 or (not any(info.d) and np.array_equal(k, info.k)):
        return info
    return replace(info, distortion_model="", d=(), k=k)


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
) -> CompressedImage | RawImage | VideoPacket:
    """Decode a sensor_msgs/CompressedImage.

    JPEG and PNG files, recognised by their data, stay encoded. Those of 16 bits, in CMYK or of a mosaic
    become pixels, as do WebP, TIFF and AVIF, and depth of compressed_depth_image_transport, recognised by
    ``format``.

    Raises:
        DecodeError: no valid message of this type, no picture, or damaged.
    """
    return _compressed(message)


@decoder_of("foxglove_msgs/CompressedImage")
def decode_foxglove_image(
    message: sensor_msgs.CompressedImage | foxglove_msgs.CompressedImage,
) -> CompressedImage | RawImage | VideoPacket:
    """Decode a foxglove_msgs/CompressedImage, as ``decode_compressed_image`` does.

    Raises:
        DecodeError: no valid message of this type, no picture, or damaged.
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
    model = displayed(str(message.distortion_model))
    info = CameraInfo(
        width=int(message.width),
        height=int(message.height),
        distortion_model=_OTHER_NAMES.get(model.lower().replace(" ", "_").replace("-", "_"), model),
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
) -> CompressedImage | RawImage | VideoPacket:
    # Takes a moment to import, and few recordings hold such messages.
    from edgefirst_ros.model import pictures  # noqa: PLC0415

    encoded, named = octets(message.data), str(message.format)
    if "compressedDepth" in named:
        return _raw(pictures.compressed_depth(encoded, named))
    # As image_transport writes it: "bayer_rggb8; jpeg compressed", of which the first is what was compressed.
    encoding = named.partition(";")[0].strip()
    if pictures.png_bits(encoded) == 16:
        return _raw(pictures.deep_png(encoded, encoding))
    if pictures.is_plain(encoded, encoding.lower()):
        return CompressedImage("jpeg" if encoded.startswith(pictures.JPEG) else "png", encoded)
    codec = next((codec for part, codec in _ENCODERS if part in encoding.lower()), None)
    if codec is not None and encoded.startswith((b"\0\0\1", b"\0\0\0\1")):
        return _access_unit(codec, encoded)
    return _raw(pictures.unpacked(encoded, encoding.lower()))


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


_SAME_ASPECT = 0.01
_MIDDLE = (0.25, 0.75)
_HALF_PIXEL = 0.5


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """Focal length and principal point of a picture.

    Attributes:
        focal_px: along x and y.
        principal_px: x and y from the top left corner of the first pixel. ROS counts from that pixel's
            centre, which gives half a pixel less.
        size: width and height of the picture.
        derived: how these were computed from a CameraInfo of other pictures; empty if it is of this picture.
        assumed: what was assumed in doing so; empty if nothing.
        distortion: coefficients in the order of OpenCV: k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4, of a fisheye
            lens k1 to k4; fewer if the others are 0. Only who projects points sets them.
        is_fisheye: whether the distance from the middle grows with the angle.
    """

    focal_px: tuple[float, float]
    principal_px: tuple[float, float]
    size: tuple[int, int]
    derived: str = ""
    assumed: str = ""
    distortion: tuple[float, ...] = ()
    is_fisheye: bool = False


def picture_intrinsics(
    info: CameraInfo, size: tuple[int, int] | None = None, tile: Tile = ""
) -> Intrinsics | None:
    """The intrinsics of a picture; None if the CameraInfo has no focal length, or no size is known.

    ``k`` applies to the sensor's full resolution; region of interest and binning convert it to the picture
    that the camera takes. A picture of another size is a scaled one, or a tile.

    Args:
        info: the calibration in force.
        size: width and height of the picture; by default those of the picture that the camera takes.
        tile: which quarter of the camera's picture it is. Whether the CameraInfo is of the whole picture or
            of the tile shows in its principal point, which is near the middle or near a corner.
    """
    fx, fy, cx, cy = (float(info.k[at]) for at in ((0, 0), (1, 1), (0, 2), (1, 2)))
    if not (all(map(math.isfinite, (fx, fy, cx, cy))) and fx > 0 and fy > 0):
        return None
    taken, assumed = info.picture_size, ""
    if 0 in taken:
        if size is None or 0 in size:
            return None
        taken, assumed = size, "CameraInfo without a picture size, taken to be of this picture"
    size = size or taken
    (left, top), (across, down) = (info.roi or (0, 0))[:2], info.binning
    focal = (fx / across, fy / down)
    centre = ((cx + _HALF_PIXEL - left) / across, (cy + _HALF_PIXEL - top) / down)
    derived = []
    if info.roi or info.binning != (1, 1):
        if size == (info.width, info.height) != taken:
            taken, focal, centre = size, (fx, fy), (cx + _HALF_PIXEL, cy + _HALF_PIXEL)
            derived.append("its region of interest and binning are not of these pictures")
        else:
            derived.append("cut to its region of interest and binned")
    whole, offset = size, (0, 0)
    if tile and _in_middle(centre, taken):
        column, row = TILES[tile]
        whole, offset = (2 * size[0], 2 * size[1]), (column * size[0], row * size[1])
        derived.append(f"the quarter {tile} of the camera's picture")
    scale = (whole[0] / taken[0], whole[1] / taken[1])
    if whole != taken:
        derived.append(f"scaled from {taken[0]}x{taken[1]}")
        if abs(scale[0] / scale[1] - 1) > _SAME_ASPECT:
            assumed = (
                f"CameraInfo is of {taken[0]}x{taken[1]}, another aspect ratio than {whole[0]}x{whole[1]}; "
                "taken to be stretched"
            )
    return Intrinsics(
        (focal[0] * scale[0], focal[1] * scale[1]),
        (centre[0] * scale[0] - offset[0], centre[1] * scale[1] - offset[1]),
        size,
        ", ".join(derived),
        assumed,
    )


def _in_middle(centre: tuple[float, float], size: tuple[int, int]) -> bool:
    return all(_MIDDLE[0] < at / extent < _MIDDLE[1] for at, extent in zip(centre, size, strict=True))


Tile = Literal["", "tl", "tr", "bl", "br"]

TILES: dict[Tile, tuple[int, int]] = {"tl": (0, 0), "tr": (1, 0), "bl": (0, 1), "br": (1, 1)}
"""Column and row of each quarter."""

_SUFFIX = re.compile(
    r"[_./-](?:tile[_./-]?)?(?:(top|upper|bottom|lower)[_./-]?(left|right)|([tb])[_./-]?([lr]))$",
    re.IGNORECASE,
)


def split_tile(frame_id: str) -> tuple[str, Tile]:
    """Split a frame name into the camera's frame and the tile; the tile is empty if the name has none.

    The device sends ``camera_optical_topleft``; ``_top_left``, ``_tl``, ``-tile-tl`` and the like are
    understood as well. Such a suffix may also tell where on the vehicle a camera is mounted: call this for
    unknown frames only.
    """
    found = _SUFFIX.search(frame_id)
    if found is None or not found.start():
        return frame_id, ""
    down, across = (found[1] or found[3]).lower(), (found[2] or found[4]).lower()
    name = ("t" if down[0] in "tu" else "b") + across[0]
    return frame_id[: found.start()], next(tile for tile in TILES if tile == name)
