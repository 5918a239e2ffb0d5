"""Lidar sweeps to frames of ``lidars``.

Row models of spinning lidars: one elevation a row, one azimuth a column, found in organised clouds.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.prepare.parts import (
    ComponentEntry,
    Intensity,
    Json,
    Rays,
    generic_data,
    other_fields,
    ray_records,
    rays_of,
)
from edgefirst_ros.formats.ncore.store.base import EntryTimes
from edgefirst_ros.formats.zarr2.metadata import group
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pointcloud import PointCloud, as_type, point_offsets_ns, type_scale
from edgefirst_ros.model.sample import Observation

Angles = npt.NDArray[np.float64]

_FEWEST_COLUMNS = 8
_FEWEST_ROWS = 2
_SHARE = 0.95
_DEFAULT_HZ = 10.0
_MOST = 65535
_RINGS = ("ring", "channel", "row", "line")
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class CloudGrid:
    """The grid of an organised cloud, and which of its cells have a ray.

    Attributes:
        shape: height and width of the cloud.
        rings: the axis along which the rings follow each other, 0 or 1; None if no field says so.
        kept: which points have a ray, packed bits, deflated; empty for all.
    """

    shape: tuple[int, int]
    rings: int | None
    kept: bytes

    def cells(self) -> npt.NDArray[np.intp]:
        """Index of every ray's point in the cloud."""
        size = self.shape[0] * self.shape[1]
        if not self.kept:
            return np.arange(size)
        bits = np.frombuffer(zlib.decompress(self.kept), np.uint8)
        return np.flatnonzero(np.unpackbits(bits, count=size))


@dataclass(frozen=True, slots=True)
class RowModel:
    """A lidar's row model, and how the rows and columns of clouds of ``shape`` map to it.

    Attributes:
        shape: height and width of the clouds.
        transposed: the clouds' rows are the model's columns.
        order: the model's row of every row of the clouds.
        elevations_rad: by row of the model, descending.
        azimuths_rad: by column, one way round.
        offsets_rad: by row of the model, added to the column's azimuth.
    """

    shape: tuple[int, int]
    transposed: bool
    order: npt.NDArray[np.intp]
    elevations_rad: Angles
    azimuths_rad: Angles
    offsets_rad: Angles

    def elements(self, cells: npt.NDArray[np.intp]) -> npt.NDArray[np.uint16]:
        """Row and column in the model, (N, 2), of points of a cloud."""
        row, column = _places(cells, self.shape, transposed=self.transposed)
        return np.stack([self.order[row], column], axis=1).astype(np.uint16)

    def rows(self, cells: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The ring of points of a cloud, as the cloud numbers them."""
        return _places(cells, self.shape, transposed=self.transposed)[0]

    def follows(self, direction: npt.NDArray[Any], element: npt.NDArray[np.uint16]) -> bool:
        """Whether nearly all rays are within half a step of the model's directions."""
        row, column = element.T.astype(np.intp)
        azimuth = np.arctan2(direction[:, 1], direction[:, 0]).astype(np.float64)
        aside = azimuth - self.azimuths_rad[column] - self.offsets_rad[row]
        above = np.arcsin(np.clip(direction[:, 2], -1.0, 1.0)) - self.elevations_rad[row]
        near = (np.abs(above) < _least_gaps(self.elevations_rad)[row] / 2) & (
            np.abs(np.angle(np.exp(1j * aside))) < float(np.median(np.abs(np.diff(self.azimuths_rad)))) / 2
        )
        return bool(near.mean() >= _SHARE) if len(near) else True

    def attributes(self, times: EntryTimes) -> Json:
        """Attributes of a lidar in ``intrinsics``; its spin rate is the rate of its sweeps."""
        gaps_us = np.diff(np.array(times.ends, np.int64))
        parameters = {
            "n_rows": len(self.elevations_rad),
            "n_columns": len(self.azimuths_rad),
            "spinning_direction": "ccw" if self.azimuths_rad[-1] > self.azimuths_rad[0] else "cw",
            "spinning_frequency_hz": 1e6 / float(np.median(gaps_us)) if len(gaps_us) else _DEFAULT_HZ,
            "row_elevations_rad": self.elevations_rad.tolist(),
            "column_azimuths_rad": self.azimuths_rad.tolist(),
            "row_azimuth_offsets_rad": self.offsets_rad.tolist(),
        }
        return {"lidar_model_type": "row-offset-spinning", "lidar_model_parameters": parameters}


def grid_of(cloud: PointCloud, rays: Rays) -> CloudGrid | None:
    """The grid of an organised cloud, None for any other; a solid-state lidar may have no rows."""
    shape = (cloud.height, cloud.width)
    if min(shape) < _FEWEST_ROWS or max(shape) < _FEWEST_COLUMNS or max(shape) > _MOST:
        return None
    kept = b"" if rays.kept is None else zlib.compress(np.packbits(rays.kept).tobytes(), 1)
    return CloudGrid(shape, _ring_axis(cloud, rays), kept)


def _ring_axis(cloud: PointCloud, rays: Rays) -> int | None:
    """The axis along which the ring number changes; points without a ray are ignored."""
    names = cloud.points.dtype.names or ()
    field = next((name for name in _RINGS if name in names), None)
    if field is None or cloud.points.dtype[field].kind not in "iuf":
        return None
    lost = np.zeros(len(cloud.points), np.bool_) if rays.kept is None else ~rays.kept
    numbers = as_type(cloud.points[field], np.float64)
    ring = np.ma.masked_array(numbers, lost).reshape(cloud.height, cloud.width)
    constant = [bool(np.ma.allequal(ring.min(axis=1 - axis), ring.max(axis=1 - axis))) for axis in (0, 1)]
    return constant.index(True) if sum(constant) == 1 else None


class Sweeps:
    """The mean direction of every point of clouds of one shape that are numbered alike.

    Attributes:
        shape: height and width of the clouds.
        count: of the clouds so far.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.count = 0
        self.shape = shape
        self._sums = np.zeros((shape[0] * shape[1], 3))
        self._counts = np.zeros(shape[0] * shape[1], np.int64)
        self._dark: npt.NDArray[np.bool_] | None = None
        """Points of rows and columns that returned nothing yet; None if that has to be looked up."""

    def add(self, direction: npt.NDArray[Any], cells: npt.NDArray[np.intp]) -> None:
        """One sweep: the directions of its rays and the points that these are."""
        self.count += 1
        self._sums[cells] += direction
        self._counts[cells] += 1
        self._dark = None

    def sees_more(self, cells: npt.NDArray[np.intp]) -> bool:
        """Whether some of these points are in a row or column that had none before."""
        if self._dark is None:
            seen = self._counts.reshape(self.shape) > 0
            rows, columns = ~seen.any(axis=1, keepdims=True), ~seen.any(axis=0, keepdims=True)
            self._dark = np.asarray(rows | columns).ravel()
        return bool(self._dark.any() and self._dark[cells].any())

    def unplaced(self, model: RowModel) -> npt.NDArray[np.intp]:
        """Rings, as the clouds number them, that could be anywhere: unseen, and the others in no order."""
        steps = np.diff(model.order)
        if (steps == 1).all() or (steps == -1).all():
            return np.zeros(0, np.intp)
        heard = (self._counts.reshape(self.shape) > 0).any(axis=0 if model.transposed else 1)
        return np.flatnonzero(~heard)

    def agrees(self, direction: npt.NDArray[Any], cells: npt.NDArray[np.intp]) -> bool:
        """Whether most points that a sweep has in common with the others lie in the same direction."""
        sums = self._sums[cells]
        length = np.linalg.norm(sums, axis=1)
        if not length.any():
            return False
        common = length > 0
        cosine = (sums[common] * direction[common]).sum(axis=1) / length[common]
        return bool(np.median(np.arccos(np.clip(cosine, -1.0, 1.0))) < np.pi / max(self.shape))

    def fit(self, rings: int | None) -> RowModel | None:
        """The model that the clouds follow, None if they follow none.

        Rows must have distinct elevations, and columns turn one way. Rows and columns that never returned
        anything are put between their neighbours, or a step beyond the last; no ray is of them.

        Args:
            rings: the axis of the rings; None tries both.
        """
        seen = np.flatnonzero(self._counts)
        if not len(seen):
            return None
        mean = self._sums[seen] / np.linalg.norm(self._sums[seen], axis=1, keepdims=True)
        for axis in (0, 1) if rings is None else (rings,):
            model = _fit(self.shape, mean, seen, transposed=axis == 1)
            if model is not None and model.follows(mean, model.elements(seen)):
                return model
        return None


def _places(
    cells: npt.NDArray[np.intp], shape: tuple[int, int], *, transposed: bool
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    row, column = np.divmod(cells, shape[1])
    return (column, row) if transposed else (row, column)


def _fit(
    shape: tuple[int, int], direction: Angles, cells: npt.NDArray[np.intp], *, transposed: bool
) -> RowModel | None:
    rows, columns = shape[::-1] if transposed else shape
    if rows < _FEWEST_ROWS or columns < _FEWEST_COLUMNS:
        return None
    row, column = _places(cells, shape, transposed=transposed)
    ordered = _elevations(np.arcsin(np.clip(direction[:, 2], -1.0, 1.0)), row, rows)
    found = _azimuths(np.arctan2(direction[:, 1], direction[:, 0]), row, column, (rows, columns))
    if ordered is None or found is None:
        return None
    elevations, order = ordered
    azimuths, offsets = found
    return RowModel(shape, transposed, order, elevations, azimuths, offsets[np.argsort(order)])


def _elevations(
    elevation: Angles, row: npt.NDArray[np.intp], rows: int
) -> tuple[Angles, npt.NDArray[np.intp]] | None:
    """Elevations in descending order, and the place of every row among them."""
    counts = np.bincount(row, minlength=rows)
    seen = np.flatnonzero(counts)
    if len(seen) < _FEWEST_ROWS:
        return None
    means = np.bincount(row, elevation, rows)[seen] / counts[seen]
    steps = np.diff(means)
    if (steps > 0).all() or (steps < 0).all():
        whole = _extended(seen, means, rows)
    else:  # rings are numbered in some other order, which says nothing of rows that were never seen
        unseen = np.setdiff1d(np.arange(rows), seen)
        whole = np.empty(rows)
        whole[seen] = means
        step = float(np.median(np.diff(np.sort(means))))
        whole[unseen] = means.min() - step * np.arange(1, len(unseen) + 1)
    falling = np.argsort(-whole, kind="stable")
    order = np.empty(rows, np.intp)
    order[falling] = np.arange(rows)
    elevations = whole[falling]
    return (elevations, order) if (np.diff(elevations.astype(np.float32)) < 0).all() else None


def _azimuths(
    azimuth: Angles, row: npt.NDArray[np.intp], column: npt.NDArray[np.intp], shape: tuple[int, int]
) -> tuple[Angles, Angles] | None:
    """Azimuth by column and its offset by row, from rays that are their sum plus noise."""
    rows, columns = shape
    offsets, heard = np.zeros(rows), np.bincount(row, minlength=rows) > 0
    seen = np.flatnonzero(np.bincount(column, minlength=columns))
    if len(seen) < _FEWEST_COLUMNS:
        return None
    for _ in range(_ROUNDS):
        by_column = _mean_angle(azimuth - offsets[row], column, columns)
        offsets = _mean_angle(azimuth - by_column[column], row, rows)
        offsets[heard] -= offsets[heard].mean()
    azimuths = _extended(seen, np.unwrap(by_column[seen]), columns)
    steps = np.diff(azimuths.astype(np.float32))
    one_way = (steps > 0).all() or (steps < 0).all()
    return (azimuths, offsets) if one_way and abs(azimuths[-1] - azimuths[0]) < 2 * np.pi else None


def _extended(at: npt.NDArray[np.intp], values: Angles, size: int) -> Angles:
    """Values at 0..size: interpolated between known ones, extrapolated by the median step."""
    everywhere = np.arange(size)
    step = float(np.median(np.diff(values) / np.diff(at)))
    whole = np.interp(everywhere, at, values)
    whole += step * (np.minimum(everywhere - at[0], 0) + np.maximum(everywhere - at[-1], 0))
    return np.asarray(whole, np.float64)


def _mean_angle(angle: Angles, index: npt.NDArray[np.intp], size: int) -> Angles:
    """Mean direction of the angles of each index."""
    sine = np.bincount(index, np.sin(angle), size)
    cosine = np.bincount(index, np.cos(angle), size)
    return np.asarray(np.arctan2(sine, cosine))


def _least_gaps(values: Angles) -> Angles:
    """Distance of every value to its nearer neighbour."""
    gaps = np.abs(np.diff(values))
    return np.asarray(np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf)))


_INTENSITY = ("reflect", "reflectivity", "intensity", "signal")


def lidar_entry(observation: Observation, options: NCoreOptions) -> ComponentEntry:
    """A sweep: unit directions, times, distance and intensity of every point, other fields as they are.

    Raises:
        DecodeError: not a cloud, or one without x, y and z.
    """
    measurement = observation.measurement
    cloud = measurement.datum
    if not isinstance(cloud, PointCloud):
        raise DecodeError(f"lidar message is {type(cloud).__name__}, not a point cloud")
    rays = rays_of(cloud)
    time_us = measurement.time_ns // 1000
    clock, offset_ns = ray_offsets_ns(cloud, measurement.stamp_ns, options)
    times_us = np.full(len(rays), time_us, np.int64)
    if offset_ns is not None:
        times_us += rays.keep(offset_ns) // 1000
    found = _intensity(cloud, rays, options)
    field = found.field if found else ""
    others = other_fields(cloud, rays, {"x", "y", "z", field, clock}, {})
    returns = {}
    if found is None:
        returns = {"intensity": np.zeros(len(rays), np.float32)}
    elif found.scale is not None:
        returns = {"intensity": scaled_intensity(found.values, found.scale)}
        found = replace(found, values=b"")
    grid = grid_of(cloud, rays)
    return ComponentEntry(
        component="lidars",
        collection="frames",
        name="lidar",
        frame_id=measurement.frame_id,
        start_us=int(times_us.min()) if len(rays) else time_us,
        end_us=int(times_us.max()) if len(rays) else time_us,
        records=(
            *group(""),
            *generic_data(others),
            *ray_records(rays, times_us.astype(np.uint64), returns),
        ),
        meta={"intensity_field": field or "none, written as 0", "ray_times": clock, **_scale_meta(found)},
        grid=None if grid is None else (grid.shape, grid.rings, grid.kept),
        directions=None if grid is None else rays.direction,
        cells=None if grid is None else rays.cells(),
        intensity=found,
    )


def ray_offsets_ns(
    cloud: PointCloud, stamp_ns: int, options: NCoreOptions
) -> tuple[str, npt.NDArray[np.int64] | None]:
    """Where the times of the points come from, and the points' times after the message's.

    Without a field that says so, they are spread over ``lidar_spread_ms``.
    """
    if (told := point_offsets_ns(cloud, stamp_ns)) is not None:
        return told
    if not options.lidar_spread_ms or not len(cloud.points):
        return "constant", None
    steps = cloud.width if cloud.height > 1 else len(cloud.points)
    sweep_ns = round(options.lidar_spread_ms * 1e6)
    line = np.arange(steps, dtype=np.int64) * sweep_ns // max(1, steps - 1)
    return "spread", np.tile(line, cloud.height) if cloud.height > 1 else line


def _intensity(cloud: PointCloud, rays: Rays, options: NCoreOptions) -> Intensity | None:
    """The field that intensity comes from, and its values as sent; None where there is none."""
    names = cloud.points.dtype.names or ()
    field = next((name for name in _INTENSITY if name in names), "")
    if not field or cloud.points.dtype[field].kind not in "iuf" or cloud.points.dtype[field].shape:
        return None
    column = rays.keep(cloud.points[field])
    scale = options.lidar_intensity_max or type_scale(column.dtype)
    values = np.nan_to_num(as_type(column, np.float32), posinf=0.0, neginf=0.0)
    outside = int(np.count_nonzero((values < 0) | (values > (scale or np.inf))))
    largest = float(values.max(initial=0.0))
    return Intensity(field, str(column.dtype), scale, largest, outside, values.tobytes())


def scaled_intensity(values: bytes, scale: float) -> npt.NDArray[np.float32]:
    """Values as sent, float32, to 0..1."""
    shares: npt.NDArray[np.float32] = np.clip(np.frombuffer(values, np.float32) / np.float32(scale), 0.0, 1.0)
    return shares


def _scale_meta(intensity: Intensity | None) -> Json:
    """Metadata of a scale that is known from the field's type or the configuration."""
    if intensity is None or intensity.scale is None:
        return {}
    by_type = intensity.scale == type_scale(np.dtype(intensity.dtype))
    return {
        "intensity_max": intensity.scale,
        "intensity_scale": f"the largest value of {intensity.dtype}" if by_type else "as configured",
    }
