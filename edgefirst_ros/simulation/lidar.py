"""A simulated lidar: sweeps of the world in the point layout of a maker."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgefirst_ros.simulation import rays
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.world import FloatArray, World

Points = npt.NDArray[np.void]

REACH_M = 80.0
ROWS = 32
_XYZI = [(name, "<f4") for name in ("x", "y", "z", "intensity")]
LAYOUTS = {
    "maivin": np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("reflect", "u1")]),
    # ouster_ros, "original": padded behind z and behind ring.
    "ouster": np.dtype(
        {
            "names": ["x", "y", "z", "intensity", "t", "reflectivity", "ring", "ambient", "range"],
            "formats": ["<f4", "<f4", "<f4", "<f4", "<u4", "<u2", "<u2", "<u2", "<u4"],
            "offsets": [0, 4, 8, 16, 20, 24, 26, 28, 32],
            "itemsize": 48,
        }
    ),
    # rslidar_sdk, XYZIRT: packed.
    "robosense": np.dtype([*_XYZI, ("ring", "<u2"), ("timestamp", "<f8")]),
    # hesai_ros_driver: packed.
    "hesai": np.dtype([*_XYZI, ("ring", "<u2"), ("timestamp", "<f8")]),
    # velodyne_pointcloud: packed, time relative to the stamp.
    "velodyne": np.dtype([*_XYZI, ("ring", "<u2"), ("time", "<f4")]),
}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Points of one sweep in the lidar frame; ``height`` rows of equal length, 1 for a list."""

    points: Points
    height: int
    is_dense: bool


class Lidar:
    """A lidar that measures a whole sweep at one instant: 32 rows from -24° to +6°, 360° around."""

    def __init__(self, world: World, options: DriveOptions) -> None:
        columns = options.lidar_points // ROWS
        circle = np.arange(columns) * 2 * math.pi / columns
        self._angles = np.meshgrid(np.radians(np.linspace(-24, 6, ROWS)), circle, indexing="ij")
        self._rings = np.repeat(np.arange(ROWS), columns)
        self._world = world
        self._options = options

    def sweep(self, time_s: float, stamp_ns: int, rng: np.random.Generator) -> Sweep:
        """One sweep; intensity or reflectivity is 40 + 15·(index of the box, or -1), in its field's scale."""
        local = self._rays(rng)
        T_lidar_world = self._world.sensor("lidar", time_s)
        directions = local @ T_lidar_world[:3, :3].T
        distance, hit = rays.cast(self._world, time_s, T_lidar_world[:3, 3], directions, REACH_M)
        met = hit != rays.NOTHING
        missing = self._options.lidar_missing
        if missing == "left out":
            return Sweep(self._points(local, distance, hit, stamp_ns, met), 1, is_dense=True)
        points = self._points(local, distance, hit, stamp_ns, np.full(len(hit), True))
        for axis in "xyz":
            points[axis][~met] = 0 if missing == "zero" else np.nan
        height = ROWS if self._options.lidar_organised else 1
        return Sweep(points, height, is_dense=missing == "zero")

    def _rays(self, rng: np.random.Generator) -> FloatArray:
        """Unit directions (N, 3) in the lidar frame, row by row."""
        elevation, azimuth = self._angles
        if self._options.lidar_jitter_deg:
            sigma_rad = math.radians(self._options.lidar_jitter_deg)
            elevation = elevation + rng.normal(0, sigma_rad, elevation.shape)
            azimuth = azimuth + rng.normal(0, sigma_rad, azimuth.shape[1])
        plane = np.cos(elevation)
        axes = [plane * np.cos(azimuth), plane * np.sin(azimuth), np.sin(elevation)]
        return np.stack(axes, axis=-1).reshape(-1, 3)

    def _points(
        self,
        local: FloatArray,
        distance_m: FloatArray,
        hit: npt.NDArray[np.int64],
        stamp_ns: int,
        kept: npt.NDArray[np.bool_],
    ) -> Points:
        layout = LAYOUTS[self._options.lidar_model]
        met = (hit != rays.NOTHING)[kept]
        points = np.zeros(int(kept.sum()), layout)
        away = np.where(met, distance_m[kept], 0.0)
        points["x"], points["y"], points["z"] = (local[kept] * away[:, None]).T
        level = np.where(met, 40 + 15 * hit[kept], 0)
        ring = self._rings[kept]
        values = {
            "reflect": level,
            "intensity": level,
            "reflectivity": level * 256,
            "ambient": np.full(len(level), 300),
            "range": np.rint(away * 1000),
            "ring": ring,
            "timestamp": np.full(len(level), stamp_ns / 1e9),
        }
        for name in values.keys() & set(layout.names or ()):
            points[name] = values[name]
        return points
