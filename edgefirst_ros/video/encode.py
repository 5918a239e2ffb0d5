"""Pictures to the JPEG or PNG that every writer shares."""

from __future__ import annotations

from typing import Literal

import simplejpeg

from edgefirst_ros.codecs.png import encode_rgb
from edgefirst_ros.messages.camera import CompressedImage
from edgefirst_ros.sample import CameraImage
from edgefirst_ros.video.picture import Picture
from edgefirst_ros.video.still import jpeg_size, png_size


def encode(picture: Picture, format: Literal["jpeg", "png"], quality: int = 90) -> CameraImage:  # noqa: A002 the dataset's word for it
    """Encode a picture; pure, releases the GIL, safe in any thread.

    Args:
        picture: what to encode.
        format: "jpeg" is baseline JFIF, 4:2:0; "png" is lossless, 8-bit RGB.
        quality: of JPEG, 1 to 100.
    """
    rgb = picture.rgb()
    if format == "jpeg":
        data = simplejpeg.encode_jpeg(rgb, quality, "RGB", "420", fastdct=False)
    else:
        data = encode_rgb(rgb)
    return CameraImage(format, bytes(data), picture.width, picture.height)


def passthrough(image: CompressedImage) -> CameraImage:
    """The camera's own JPEG or PNG, its bytes untouched, its size read from the header.

    Raises:
        DecodeError: the bytes are not a whole image of the format they claim.
    """
    width, height = jpeg_size(image.data) if image.format == "jpeg" else png_size(image.data)
    return CameraImage(image.format, image.data, width, height)
