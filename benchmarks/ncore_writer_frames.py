"""The frames that both sides of ncore_writer.py write; needs numpy only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

START_US = 1_773_483_630_000_000
PERIOD_US = 100_000
IMAGE_BYTES = 200_000
LIDAR_POINTS = 60_000
RADAR_POINTS = 200
_VARIANTS = 8


def sets(count: int) -> Iterator[tuple[int, bytes, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Time in microseconds, picture, lidar cloud and radar cloud; eight different ones in turn."""
    variants = [_variant(seed) for seed in range(_VARIANTS)]
    for index in range(count):
        yield START_US + index * PERIOD_US, *variants[index % _VARIANTS]


def _variant(seed: int) -> tuple[bytes, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    random = np.random.default_rng(seed)
    image = b"\xff\xd8" + random.bytes(IMAGE_BYTES - 4) + b"\xff\xd9"
    lidar = np.zeros(LIDAR_POINTS, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("reflect", "u1")])
    azimuth = np.linspace(-np.pi, np.pi, LIDAR_POINTS)
    distance = 20 + 10 * np.sin(3 * azimuth) + random.normal(0, 0.02, LIDAR_POINTS)
    elevation = np.tile(np.linspace(-0.4, 0.4, 60), LIDAR_POINTS // 60)
    lidar["x"] = distance * np.cos(azimuth) * np.cos(elevation)
    lidar["y"] = distance * np.sin(azimuth) * np.cos(elevation)
    lidar["z"] = distance * np.sin(elevation)
    lidar["reflect"] = random.integers(0, 255, LIDAR_POINTS)
    radar = np.zeros(RADAR_POINTS, [(name, "<f4") for name in ("x", "y", "z", "speed", "power", "rcs")])
    for name in radar.dtype.names or ():
        radar[name] = random.uniform(1, 50, RADAR_POINTS)
    return image, lidar, radar
