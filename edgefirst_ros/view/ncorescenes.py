"""What can be seen of an NCore sequence: pictures with 2-D boxes, and the lidar's returns."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import DatasetError, DatasetNotFound
from edgefirst_ros.formats.ncore.store.marks import FLAT_BOXES
from edgefirst_ros.formats.ncore.store.reading import MOST_RAY_BYTES, Reading
from edgefirst_ros.formats.zarr2.array import read_array
from edgefirst_ros.model.untrusted import parse_json, refusing
from edgefirst_ros.view.scene import MOST_POINTS, Box2d, Moment, Points, Scene, opened, shown

_FRAMES = re.compile(r"((?:cameras|lidars)/[^/]+/frames)/\.zattrs")


class NCoreScenes:
    """The pictures of the first camera of a sequence, see ``Scenes``; without a camera, the lidar's frames.

    Raises:
        DatasetNotFound: there is no finished store.
        DatasetError: a store is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._name = folder.name
        self._times_us: dict[str, npt.NDArray[np.int64]] = {}
        self._stores: dict[str, Path] = {}
        stores = sorted(p for p in folder.glob("*.ncore4*") if p.name.endswith((".zarr", ".zarr.itar")))
        if not stores:
            raise DatasetNotFound(f"{folder}: holds no finished store")
        for path in stores:
            with refusing(path, DatasetError), Reading(path) as reading:
                for key in reading.store:
                    if (found := _FRAMES.fullmatch(key)) is not None:
                        times = parse_json(reading.store.get(key)).get("frames_timestamps_us", [])
                        self._times_us[found[1]] = np.array(times, np.int64).reshape(-1, 2)
                        self._stores[found[1]] = path
        self._cameras = sorted(g for g, times in self._times_us.items() if g[:3] == "cam" and len(times))
        self._lidars = sorted(g for g, times in self._times_us.items() if g[:3] == "lid" and len(times))

    def moments(self) -> list[Moment]:
        """All frames of the first camera, else of the first lidar."""
        groups = (self._cameras or self._lidars)[:1]
        return [
            Moment(self._name, None, int(start_us) * 1000)
            for group in groups
            for start_us in self._times_us[group][:, 0]
        ]

    def scene(self, moment: Moment) -> Scene:
        """The picture that is nearest in time, its boxes, and the nearest returns of the first lidar."""
        scene = Scene(moment)
        with refusing(self._name, DatasetError, "a frame cannot be read"):
            for group in self._cameras[:1]:
                self._at(group, moment, lambda get, name: _look(get, name, scene))
            for group in self._lidars[:1]:
                self._at(group, moment, lambda get, name: _range(get, name, scene))
        return scene

    def _at(self, group: str, moment: Moment, look: Callable[[Callable[[str], bytes], str], None]) -> None:
        times = self._times_us[group]
        nearest = int(np.abs(times[:, 0] - (moment.time_ns or 0) // 1000).argmin())
        with Reading(self._stores[group]) as reading:
            look(reading.store.get, f"{group}/{int(times[nearest, 1])}")


def _look(get: Callable[[str], bytes], name: str, scene: Scene) -> None:
    data = read_array(get, f"{name}/image").item()
    picture, (width, height) = opened(data)
    scene.picture = shown(picture)
    try:
        corners = read_array(get, f"{name}/generic_data/{FLAT_BOXES}").reshape(-1, 4)
        labels: list[Any] = read_array(get, f"{name}/generic_data/{FLAT_BOXES}_label").tolist()
    except KeyError:
        return
    for (left, top, right, bottom), label in zip(corners.tolist(), labels, strict=False):
        middle = (left + right) / 2 / width, (top + bottom) / 2 / height
        scene.boxes.append(Box2d(*middle, (right - left) / width, (bottom - top) / height, str(label)))


def _range(get: Callable[[str], bytes], name: str, scene: Scene) -> None:
    direction = read_array(get, f"{name}/ray_bundle/direction", "f", MOST_RAY_BYTES)[:MOST_POINTS]
    distance = read_array(get, f"{name}/ray_bundle_returns/distance_m", "f", MOST_RAY_BYTES)[0, :MOST_POINTS]
    points: Points = direction.astype(float) * distance.astype(float)[:, None]
    scene.points = points
