"""Radar cubes to 16-bit PNG, as a grid of range-Doppler matrices, and back."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import check_size, encode_gray, read_header
from edgefirst_ros.model.radar import Axis, RadarCube
from edgefirst_ros.model.untrusted import refusing

OFFSET = 32768
"""Added to int16 values, as the pixels of a PNG are unsigned."""

ORDER = (
    Axis.SEQUENCE,
    Axis.RANGE,
    Axis.RXCHANNEL,
    Axis.AZIMUTH,
    Axis.ELEVATION,
    Axis.UNDEFINED,
    Axis.DOPPLER,
)
"""The axes of the grid, slowest first: two of rows, then those of columns."""
ROW_AXES = ORDER[:2]
_MOST_PIXELS = 1 << 24
"""Of a cube, twenty times the device's."""
PUBLISHED = (2, 4)
"""Sequences and receivers in the grid of the vendor's article."""
_TEXTS = frozenset({"shape", "layout", "lengths", "scales", "is_complex", "offset", "radar_time_us"})


def encode_cube(cube: RadarCube) -> bytes:
    """Encode a cube as radar.png: rows sequence × range, columns rx × doppler × (re, im), value + 32768.

    The layout [SEQUENCE, RANGE, RXCHANNEL, DOPPLER] is reshaped, others are transposed first. Missing axes
    have length 1; azimuth, elevation and undefined axes are treated like receive channels. Real cubes get
    imaginary parts of 0.

    The PNG has these texts, with which ``read_cube`` restores the cube exactly:
        shape: sequence, rx, range and doppler bins of the grid.
        layout: names of the cube's axes, slowest first.
        lengths: shape of the cube.
        scales: scale of each axis, see ``RadarCube``.
        is_complex: true or false.
        offset: 32768.
        radar_time_us: see ``RadarCube``.

    Raises:
        DecodeError: layout and shape do not match, or the cube has no values.
    """
    lengths = cube.cube.shape
    if len(cube.layout) != len(lengths):
        raise DecodeError(f"cube layout has {len(cube.layout)} axes, shape {len(lengths)}")
    if cube.is_complex and (not lengths or lengths[-1] % 2):
        raise DecodeError("complex cube whose last axis does not hold (re, im) pairs")
    if not cube.cube.size:
        raise DecodeError("cube without values")
    bins = _bins(lengths, cube.is_complex)
    order = _canonical(cube.layout)
    if cube.is_complex:
        grid = cube.cube.reshape(*bins, 2).transpose(*order, len(bins))
    else:
        grid = np.zeros((*(bins[axis] for axis in order), 2), np.int16)
        grid[..., 0] = cube.cube.transpose(order)
    rows = math.prod(bins[axis] for axis in order if cube.layout[axis] in ROW_AXES)
    pixels = np.ascontiguousarray(grid, dtype=np.int16).view(np.uint16).reshape(rows, -1) ^ np.uint16(OFFSET)
    text = {
        "shape": ",".join(map(str, _grid_shape(cube.layout, bins))),
        "layout": ",".join(axis.name for axis in cube.layout),
        "lengths": ",".join(map(str, lengths)),
        "scales": ",".join(repr(float(scale)) for scale in cube.scales),
        "is_complex": "true" if cube.is_complex else "false",
        "offset": str(OFFSET),
        "radar_time_us": str(cube.radar_time_us),
    }
    return encode_gray(pixels, text)


def read_cube(png: bytes) -> RadarCube:
    """Decode a radar.png of ``encode_cube``, or one without texts, as others write them.

    Of the latter the vendor's article says the layout: 2 sequences × range in rows, 4 receivers × Doppler ×
    (re, im) in columns. Its scales are NaN, as nothing says them, and its time is 0.

    Raises:
        DecodeError: it is not a 16-bit gray PNG with the texts of ``encode_cube``, nor one of that layout.
    """
    with refusing("radar.png", DecodeError, "not a radar.png of this package"):
        check_size(*(read_header(png) or (0, 0))[:2], _MOST_PIXELS)
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            pixels = np.asarray(image)
            text = dict(getattr(image, "text", {}))
        if not _TEXTS & text.keys():
            return _published(pixels)
        layout = tuple(Axis[name] for name in text["layout"].split(",") if name)
        lengths = tuple(int(length) for length in text["lengths"].split(",") if length)
        scales = tuple(float(scale) for scale in text["scales"].split(",") if scale)
        is_complex = {"true": True, "false": False}[text["is_complex"]]
        bins = _bins(lengths, is_complex)
        order = _canonical(layout)
        values = (pixels.astype(np.uint16) ^ np.uint16(OFFSET)).view(np.int16)
        grid = values.reshape(*(bins[axis] for axis in order), 2)
        back = [order.index(axis) for axis in range(len(order))]
        wire = grid.transpose(*back, len(order)) if is_complex else grid[..., 0].transpose(back)
        return RadarCube(
            cube=np.ascontiguousarray(wire).reshape(lengths),
            layout=layout,
            scales=scales,
            is_complex=is_complex,
            radar_time_us=int(text["radar_time_us"]),
        )


def _published(pixels: npt.NDArray[Any]) -> RadarCube:
    rows, columns = pixels.shape
    sequences, receivers = PUBLISHED
    if (
        pixels.dtype.kind not in "ui"
        or pixels.dtype.itemsize != 2
        or rows % sequences
        or columns % (receivers * 2)
    ):
        raise ValueError("it has no texts, nor 16 bits and rows and columns for 2 sequences and 4 receivers")
    values = (pixels.astype(np.uint16) ^ np.uint16(OFFSET)).view(np.int16)
    return RadarCube(
        cube=values.reshape(sequences, rows // sequences, receivers, columns // receivers),
        layout=(Axis.SEQUENCE, Axis.RANGE, Axis.RXCHANNEL, Axis.DOPPLER),
        scales=(math.nan,) * 4,
        is_complex=True,
        radar_time_us=0,
    )


def _bins(lengths: tuple[int, ...], is_complex: bool) -> tuple[int, ...]:
    return (*lengths[:-1], lengths[-1] // 2) if is_complex else lengths


def _canonical(layout: tuple[Axis, ...]) -> list[int]:
    return sorted(range(len(layout)), key=lambda axis: ORDER.index(layout[axis]))


def _grid_shape(layout: tuple[Axis, ...], bins: tuple[int, ...]) -> tuple[int, int, int, int]:
    def product(*axes: Axis) -> int:
        return math.prod(length for axis, length in zip(layout, bins, strict=True) if axis in axes)

    return product(Axis.SEQUENCE), product(*ORDER[2:-1]), product(Axis.RANGE), product(Axis.DOPPLER)
