"""Row models of organised lidars: one elevation a row, one azimuth a column, found in the cloud itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.entry import Json
from edgefirst_ros.formats.ncore.marks import Times
from edgefirst_ros.formats.ncore.rays import Rays
from edgefirst_ros.messages.pointcloud import PointCloud

Angles = npt.NDArray[np.float64]

_FEWEST_COLUMNS = 8
_PERCENTILE = 95.0
_DEFAULT_HZ = 10.0
_MOST = 65535


def row_model(cloud: PointCloud, rays: Rays) -> tuple[Json, npt.NDArray[np.uint16]] | None:
    """The model that an organised cloud follows, and row and column of every ray in it.

    A cloud follows a model if its rows have elevations in order, its columns turn one way, and nearly all
    rays are within half a step of where the model has them. None for any other cloud.
    """
    rows, columns = cloud.height, cloud.width
    if rows < 2 or columns < _FEWEST_COLUMNS or max(rows, columns) > _MOST or not len(rays):
        return None
    element = np.indices((rows, columns), np.uint16).reshape(2, -1).T
    element = element if rays.kept is None else element[rays.kept]
    row, column = element[:, 0].astype(np.intp), element[:, 1].astype(np.intp)
    x, y, z = rays.direction.T
    elevations = _row_elevations(np.arcsin(np.clip(z, -1.0, 1.0)), row, rows)
    if elevations is None:
        return None
    turned = np.arctan2(y, x).astype(np.float64)
    found = _azimuths(turned, row, column, (rows, columns))
    if found is None:
        return None
    azimuths, offsets = found
    flipped = bool(elevations[0] < elevations[-1])
    if flipped:
        elevations, offsets = elevations[::-1], offsets[::-1]
        element = element.copy()
        element[:, 0] = rows - 1 - element[:, 0]
    model: Json = {
        "n_rows": rows,
        "n_columns": columns,
        "spinning_direction": "ccw" if azimuths[-1] > azimuths[0] else "cw",
        "flipped": flipped,
        "row_elevations_rad": elevations.tolist(),
        "column_azimuths_rad": azimuths.tolist(),
        "row_azimuth_offsets_rad": offsets.tolist(),
    }
    return model, element


def attributes(model: Json, times: Times) -> Json:
    """Attributes of a lidar in ``intrinsics``; how fast it spins is the rate of its sweeps."""
    gaps_us = np.diff(np.array(times.ends, np.int64))
    parameters = {key: value for key, value in model.items() if key != "flipped"}
    parameters["spinning_frequency_hz"] = 1e6 / float(np.median(gaps_us)) if len(gaps_us) else _DEFAULT_HZ
    return {"lidar_model_type": "row-offset-spinning", "lidar_model_parameters": parameters}


def _row_elevations(elevation: npt.NDArray[Any], row: npt.NDArray[np.intp], rows: int) -> Angles | None:
    counts = np.bincount(row, minlength=rows)
    if counts.min() == 0:
        return None
    means = np.bincount(row, elevation, rows) / counts
    steps = np.diff(means.astype(np.float32))
    if not ((steps > 0).all() or (steps < 0).all()):
        return None
    return means if _close(elevation - means[row], np.abs(steps).min()) else None


def _azimuths(
    azimuth: Angles, row: npt.NDArray[np.intp], column: npt.NDArray[np.intp], shape: tuple[int, int]
) -> tuple[Angles, Angles] | None:
    """Azimuth by column and its offset by row, from rays that are their sum but for noise."""
    rows, columns = shape
    offsets = np.zeros(rows)
    seen = np.bincount(column, minlength=columns) > 0
    if seen.sum() < _FEWEST_COLUMNS:
        return None
    for _ in range(3):
        by_column = _mean_angle(azimuth - offsets[row], column, columns)
        residual = azimuth - by_column[column]
        offsets = _mean_angle(residual, row, rows)
        offsets -= offsets.mean()
    unwrapped = np.unwrap(by_column[seen])
    azimuths = np.interp(np.arange(columns), np.flatnonzero(seen), unwrapped)
    steps = np.diff(unwrapped.astype(np.float32))
    one_way = (steps > 0).all() or (steps < 0).all()
    if not one_way or not seen[[0, -1]].all() or abs(unwrapped[-1] - unwrapped[0]) >= 2 * np.pi:
        return None
    residual = np.angle(np.exp(1j * (azimuth - azimuths[column] - offsets[row])))
    return (azimuths, offsets) if _close(residual, float(np.median(np.abs(np.diff(azimuths))))) else None


def _mean_angle(angle: Angles, index: npt.NDArray[np.intp], size: int) -> Angles:
    """Mean direction of the angles of each index."""
    sine = np.bincount(index, np.sin(angle), size)
    cosine = np.bincount(index, np.cos(angle), size)
    return np.arctan2(sine, cosine)


def _close(residual: npt.NDArray[Any], step: float) -> bool:
    return bool(np.percentile(np.abs(residual), _PERCENTILE) < step / 2)
