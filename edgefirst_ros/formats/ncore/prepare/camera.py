"""Camera pictures to ``cameras``; segmentation masks and depth images to ``camera_labels``."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, ComponentEntry, Json, generic_data
from edgefirst_ros.formats.ncore.store.base import SIZE
from edgefirst_ros.formats.zarr2.array import array_records, blob_records
from edgefirst_ros.formats.zarr2.metadata import Record, group
from edgefirst_ros.model.camera import RawImage
from edgefirst_ros.model.detection import Detections, Mask
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.sample import Observation, SixteenBits


def camera_entry(observation: Observation, options: NCoreOptions) -> ComponentEntry:
    """A frame that starts at the picture's time and ends after the readout.

    Raises:
        DecodeError: the packet gave no picture.
    """
    measurement, image = observation.measurement, observation.image
    if image is None or not image.data:
        raise DecodeError("no picture")
    start_us = measurement.time_ns // 1000
    return ComponentEntry(
        component="cameras",
        collection="frames",
        name="camera",
        frame_id=measurement.frame_id,
        start_us=start_us,
        end_us=start_us + readout_us(options),
        records=(
            *group(""),
            *generic_data({}),
            *blob_records("image", image.data, {"format": image.format}),
        ),
        attributes={SIZE: [image.width, image.height]},
        meta=_VALUES[image.values],
        size=(image.width, image.height),
    )


_MILLIMETRE_M = 0.001
_VALUES: Mapping[SixteenBits, Json] = {
    "": {},
    "as_sent": {"pixel_values": {"dtype": "uint16", "quantity": "as sent"}},
    "depth": {
        "pixel_values": {
            "dtype": "uint16",
            "quantity": "depth along the optical axis",
            "unit": "METERS",
            "scale": _MILLIMETRE_M,
            "offset": 0.0,
            "unknown": 0,
        }
    },
}
"""What a camera's metadata say of pictures of 16 bits."""


def readout_us(options: NCoreOptions) -> int:
    """Duration of a camera frame."""
    return round(options.camera_readout_ms * 1000)


Pixel = TypeVar("Pixel", bound=np.generic)

_PNG_LEVEL = 3


def mask_entries(observation: Observation, options: NCoreOptions) -> Iterator[ComponentEntry]:
    """Semantic classes as PNG, one byte a pixel; of a mask with one layer a class, the strongest.

    Raises:
        DecodeError: an empty mask, or masks of single boxes, which are no label of a whole picture.
    """
    datum = observation.measurement.datum
    masks = (datum,) if isinstance(datum, Mask) else datum.masks if isinstance(datum, Detections) else ()
    for index, mask in enumerate(masks):
        if mask.boxed:
            raise DecodeError("mask of a single box")
        if not mask.mask.size:
            raise DecodeError("empty mask")
        layers = mask.mask if mask.mask.ndim == 3 else mask.mask[..., None]
        classes = layers.argmax(axis=2).astype(np.uint8) if layers.shape[2] > 1 else layers[..., 0]
        png = _png(_resized(classes, _picture(observation)))
        data = np.frombuffer(png, np.uint8)
        qualifier = "semantic" if index == 0 else f"semantic{index}"
        yield _label(
            observation,
            options,
            _descriptor("SEGMENTATION", qualifier, "UNITLESS", "AUTOLABEL", "uint8", png=True),
            array_records("data", data, None, attributes={"format": "png"}),
        )


def depth_entry(observation: Observation, options: NCoreOptions) -> ComponentEntry:
    """Depth along the optical axis in metres; millimetres stay millimetres on disk (quantised).

    Raises:
        DecodeError: not a depth image.
    """
    image = observation.measurement.datum
    if not isinstance(image, RawImage) or image.pixels.ndim != 2 or image.pixels.dtype not in _DEPTH_TYPES:
        what = image.encoding if isinstance(image, RawImage) else type(image).__name__
        raise DecodeError(f"{what} is not a depth image; expected 16UC1 in millimetres or 32FC1 in metres")
    quantisation = None
    if image.pixels.dtype == np.uint16:
        quantisation = {"quantized_dtype": "uint16", "scale": _MILLIMETRE_M, "offset": 0.0}
    descriptor = _descriptor("DEPTH", "z", "METERS", "EXTERNAL", "float32", quantisation=quantisation)
    pixels = np.ascontiguousarray(image.pixels)
    return _label(observation, options, descriptor, array_records("data", pixels, COMPRESSOR))


_DEPTH_TYPES = (np.dtype(np.uint16), np.dtype(np.float32))


def _descriptor(
    category: str,
    qualifier: str,
    unit: str,
    source: str,
    dtype: str,
    *,
    png: bool = False,
    quantisation: Json | None = None,
) -> Json:
    """A label's descriptor without the camera, which the writer knows."""
    return {
        "label_type": {"category": category, "qualifier": qualifier, "unit": unit},
        "label_source": source,
        "label_schema": {
            "dtype": dtype,
            "shape_suffix": [],
            "encoding": "IMAGE_ENCODED" if png else "RAW",
            "encoded_format": "png" if png else None,
            "quantization": quantisation,
        },
    }


def _label(
    observation: Observation, options: NCoreOptions, descriptor: Json, data: list[Record]
) -> ComponentEntry:
    measurement, kind = observation.measurement, descriptor["label_type"]
    end_us = measurement.time_ns // 1000 + readout_us(options)
    return ComponentEntry(
        component="camera_labels",
        collection="labels",
        name=f"{kind['category'].lower()}.{kind['qualifier']}",
        frame_id=measurement.frame_id,
        start_us=end_us,
        end_us=end_us,
        records=(*group(""), *data),
        attributes={"generic_meta_data": {}},
        shared={"descriptor": descriptor},
        camera_frame=measurement.frame_id,
    )


def _picture(observation: Observation) -> tuple[int, int] | None:
    """Width and height of the camera's pictures, or what its calibration says of them; None if unknown."""
    info = observation.calibration.camera_info
    size = observation.picture or (None if info is None else info.picture_size)
    return None if size is None or 0 in size else size


def _resized(pixels: npt.NDArray[Pixel], size: tuple[int, int] | None) -> npt.NDArray[Pixel]:
    """Every pixel of the new size is the one that its middle falls on; as it is if that is not known."""
    if size is None or size == pixels.shape[::-1] or not pixels.size:
        return pixels
    width, height = size
    rows = (np.arange(height) * 2 + 1) * pixels.shape[0] // (2 * height)
    columns = (np.arange(width) * 2 + 1) * pixels.shape[1] // (2 * width)
    chosen: npt.NDArray[Pixel] = pixels[rows[:, None], columns]
    return chosen


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    with io.BytesIO() as buffer:
        Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "png", compress_level=_PNG_LEVEL)
        return buffer.getvalue()
