"""Pictures to the JPEG or PNG that every writer shares, and camera JPEG or PNG passed through."""

from __future__ import annotations

from typing import Literal

from edgefirst_ros.messages.camera import CompressedImage
from edgefirst_ros.sample import CameraImage
from edgefirst_ros.video.picture import Picture


def encode(picture: Picture, format: Literal["jpeg", "png"], quality: int = 90) -> CameraImage:  # noqa: A002 the dataset's word for it
    """Encode as baseline JPEG 4:2:0 of ``quality`` 1 to 100, or as lossless PNG."""
    raise NotImplementedError


def passthrough(image: CompressedImage) -> CameraImage:
    """The camera's own JPEG or PNG, its bytes untouched, its size read from the header.

    Raises:
        DecodeError: the bytes are not a whole image of the format they claim.
    """
    raise NotImplementedError
