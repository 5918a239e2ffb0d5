"""Cameras: pictures, labels by pixel such as segmentation and depth, and models from CameraInfo.

OpenCV's order of coefficients is taken apart, and pixel centres become pixel corners.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgefirst_ros.formats.ncore.options import AUTOLABEL, NCoreOptions, readout_of
from edgefirst_ros.formats.ncore.prepare.parts import (
    COMPRESSOR,
    ComponentEntry,
    Json,
    generic_data,
    safe_instance_name,
)
from edgefirst_ros.formats.ncore.store.base import SIZE
from edgefirst_ros.formats.zarr2 import Record, array_records, blob_records, group
from edgefirst_ros.model.camera import (
    FISHEYE_MODELS,
    PINHOLE_MODELS,
    CameraInfo,
    Intrinsics,
    RawImage,
    Tile,
    picture_intrinsics,
)
from edgefirst_ros.model.detection import Detections, Mask
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import MOST_PIXELS
from edgefirst_ros.model.sample import Observation, SixteenBits
from edgefirst_ros.model.transform import bare


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
        end_us=start_us + _readout_us(measurement.frame_id, options),
        records=(*group(""), *generic_data({}), *blob_records("image", image.data, {"format": image.format})),
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


def _readout_us(frame_id: str, options: NCoreOptions) -> int:
    """Duration of a camera's frame."""
    return round(1000 * readout_of(options.camera_readout_ms, safe_instance_name(bare(frame_id) or "camera")))


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
            _descriptor("SEGMENTATION", qualifier, "UNITLESS", AUTOLABEL, "uint8", png=True),
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
    end_us = measurement.time_ns // 1000 + _readout_us(measurement.frame_id, options)
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
    return None if size is None or not 0 < size[0] * size[1] <= MOST_PIXELS else size


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


_ANGLES = 20_000
_ASSUMED_HFOV_DEG = 80.0
"""Of a camera without a usable CameraInfo: readers refuse one without intrinsics."""


@dataclass(frozen=True, slots=True)
class CameraModel:
    """Attributes of a camera in ``intrinsics``.

    ``derived`` says how they were adapted from a CameraInfo of another picture size, ``assumed`` what was
    assumed; both may be empty.
    """

    attributes: Json
    derived: str = ""
    assumed: str = ""


def camera_info_json(info: CameraInfo) -> Json:
    """The fields of a CameraInfo that intrinsics need, as comparable JSON."""
    k, p = info.k, info.p
    baseline = {"baseline_m": -float(p[0, 3] / p[0, 0])} if p[0, 3] and p[0, 0] > 0 else {}
    return {
        "size": [info.width, info.height],
        "model": info.distortion_model.lower(),
        "d": [float(value) for value in info.d],
        "k": [float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2])],
        "binning": list(info.binning),
        "roi": None if info.roi is None else list(info.roi),
        **baseline,
    }


def camera_model(info: Json | None, size: tuple[int, int], *, rolling: bool, tile: Tile = "") -> CameraModel:
    """The model of a camera, see ``calibration.picture_intrinsics``.

    Without a usable CameraInfo (absent, uncalibrated, or a distortion that NCore has no model for) the camera
    is assumed to be an ideal pinhole.

    Args:
        info: from ``camera_info_json``.
        size: width and height of the pictures.
        rolling: the shutter rolls from top to bottom.
        tile: which quarter of the camera's picture its pictures are.
    """
    shutter = "ROLLING_TOP_TO_BOTTOM" if rolling else "GLOBAL"
    fault = _fault(info)
    found = None if info is None or fault else _intrinsics(info, size, tile)
    if info is None or found is None:
        focal = size[0] / 2 / math.tan(math.radians(_ASSUMED_HFOV_DEG) / 2)
        pinhole = _pinhole([focal, focal], [size[0] / 2, size[1] / 2], [])
        assumed = f"{fault or _NO_FOCAL}; taken to be a pinhole of {_ASSUMED_HFOV_DEG:g} degrees across"
        return CameraModel(_attributes("opencv-pinhole", pinhole, size, shutter), "", assumed)
    focal_length, centre = list(found.focal_px), list(found.principal_px)
    if info["model"] in FISHEYE_MODELS:
        kind, parameters = "opencv-fisheye", _fisheye(focal_length, centre, info["d"], size)
    else:
        kind, parameters = "opencv-pinhole", _pinhole(focal_length, centre, info["d"])
    return CameraModel(_attributes(kind, parameters, size, shutter), found.derived, found.assumed)


_CHANGED = 0.005
"""Share of the picture's width by which K changes with another zoom or focus; rounding does less."""


def described_change(first: Json | None, newest: Json | None) -> str:
    """How K changed from one ``camera_info_json`` to another of the same pictures; empty if it did not."""
    if first is None or newest is None or first["size"] != newest["size"]:
        return ""
    most_px = _CHANGED * newest["size"][0]
    named = zip(("fx", "fy", "cx", "cy"), first["k"], newest["k"], strict=True)
    return ", ".join(
        f"{name} {old:.1f} → {new:.1f} px" for name, old, new in named if abs(old - new) > most_px
    )


_NO_FOCAL = "CameraInfo without focal length"


def _intrinsics(info: Json, size: tuple[int, int], tile: Tile) -> Intrinsics | None:
    fx, fy, cx, cy = info["k"]
    x, y, width, height = info.get("roi") or (0, 0, 0, 0)
    across, down = info.get("binning") or (1, 1)
    told = CameraInfo(
        width=info["size"][0],
        height=info["size"][1],
        distortion_model=info["model"],
        d=tuple(info["d"]),
        k=np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]]),
        r=np.eye(3),
        p=np.eye(3, 4),
        binning=(across, down),
        roi=(x, y, width, height) if width else None,
    )
    return picture_intrinsics(told, size, tile)


def _fault(info: Json | None) -> str:
    """Why a CameraInfo cannot be used."""
    if info is None:
        return "no CameraInfo"
    if not all(map(math.isfinite, (*info["k"], *info["d"]))) or min(info["k"][:2]) <= 0:
        return _NO_FOCAL
    if info["model"] in FISHEYE_MODELS:
        return f"{info['model']} with {len(info['d'])} coefficients" if any(info["d"][4:]) else ""
    if info["model"] not in PINHOLE_MODELS:
        return f"distortion model {info['model']} is not supported"
    if any(info["d"][12:]):
        return "tilted sensor model is not supported"
    return ""


def _attributes(kind: str, parameters: Json, size: tuple[int, int], shutter: str) -> Json:
    common = {"resolution": list(size), "shutter_type": shutter, "external_distortion_parameters": None}
    return {"camera_model_type": kind, "camera_model_parameters": common | parameters}


def _pinhole(focal_length: list[float], principal_point: list[float], d: list[float]) -> Json:
    """ROS has k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4, as OpenCV does."""
    k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = (list(d) + [0.0] * 12)[:12]
    return {
        "focal_length": focal_length,
        "principal_point": principal_point,
        "radial_coeffs": [k1, k2, k3, k4, k5, k6],
        "tangential_coeffs": [p1, p2],
        "thin_prism_coeffs": [s1, s2, s3, s4],
    }


def _fisheye(focal_length: list[float], centre: list[float], d: list[float], size: tuple[int, int]) -> Json:
    radial = (list(d) + [0.0] * 4)[:4]
    corners = np.array([[x, y] for x in (0, size[0]) for y in (0, size[1])], np.float64)
    radius = float(np.linalg.norm((corners - centre) / focal_length, axis=1).max())
    return {
        "focal_length": focal_length,
        "principal_point": centre,
        "radial_coeffs": radial,
        "max_angle": fisheye_max_angle_rad(radial, radius),
    }


def fisheye_max_angle_rad(radial: list[float], radius: float) -> float:
    """Largest angle that the picture shows: where the projection reaches ``radius`` or stops growing.

    Args:
        radial: k1..k4 of r = θ (1 + k1 θ² + k2 θ⁴ + k3 θ⁶ + k4 θ⁸).
        radius: distance of the farthest corner from the principal point, in focal lengths.
    """
    angle = np.linspace(0.0, math.pi, _ANGLES)
    r = _project(radial, angle)
    beyond = np.flatnonzero((r >= radius) | (np.diff(r, append=np.inf) <= 0))
    if not len(beyond):
        return math.pi
    last = int(beyond[0])
    if last == 0 or r[last] < radius:
        return float(angle[max(last, 1)])
    step = (radius - r[last - 1]) / (r[last] - r[last - 1])
    return float(angle[last - 1] + step * (angle[last] - angle[last - 1]))


def _project(radial: list[float], angle: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    square = angle * angle
    factor: Any = 1.0
    power: Any = 1.0
    for k in radial:
        power = power * square
        factor = factor + k * power
    return np.asarray(angle * factor)
