"""What there is to see in an NCore sequence: the pictures of a camera, and the points of a lidar."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.store.base import FLAT_BOXES
from edgefirst_ros.formats.ncore.store.files import MOST_RAY_BYTES, Reading
from edgefirst_ros.formats.scene import Box2d, Detail, Moment, Scene, Scenes, opened
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.untrusted import parse_json, refusing

Get = Callable[[str], bytes]
_FRAMES = re.compile(r"((?:cameras|lidars|radars)/[^/]+/frames)/\.zattrs")
_SENSOR = re.compile(r"(cameras/[^/]+)/\.zattrs")


class NCoreScenes(Scenes):
    """Pictures of a sequence's first camera, one in colour if there is one; without, frames of the lidar.

    Raises:
        DatasetNotFound: there is no finished store.
        DatasetError: a store is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._name = folder.name
        stores = [p for p in folder.glob("*.ncore4*") if p.name.endswith((".zarr", ".zarr.itar"))]
        if not stores:
            raise DatasetNotFound(f"{folder}: holds no finished store")
        self._groups: dict[str, tuple[Path, npt.NDArray[np.int64]]] = {}
        deep: set[str] = set()  # whose values are no colours
        for path in sorted(stores):
            with refusing(path, DatasetError), Reading(path) as reading:
                for key in reading.store:
                    if (found := _SENSOR.fullmatch(key)) is not None:
                        meta = parse_json(reading.store.get(key)).get("generic_meta_data", {})
                        deep.update([f"{found[1]}/frames"] * ("pixel_values" in meta))
                    if (found := _FRAMES.fullmatch(key)) is not None:
                        times = parse_json(reading.store.get(key)).get("frames_timestamps_us", [])
                        self._groups[found[1]] = path, np.array(times, np.int64).reshape(-1, 2)
        there = sorted(group for group, (_, times) in self._groups.items() if len(times))
        there.sort(key=deep.__contains__)
        self._cameras, self._lidars = (
            [group for group in there if group.startswith(kind)] for kind in ("cameras", "lidars")
        )

    def moments(self) -> list[Moment]:
        """All frames of the first camera, else of the first lidar."""
        groups = (self._cameras or self._lidars)[:1]
        return [
            Moment(self._name, None, int(start_us) * 1000)
            for group in groups
            for start_us in self._groups[group][1][:, 0]
        ]

    def scene(self, moment: Moment, detail: Detail = Detail.PICTURE) -> Scene:  # noqa: ARG002
        """The picture that is nearest in time, its boxes, and the nearest returns of the first lidar."""
        scene = Scene(moment)
        with refusing(self._name, DatasetError, "a frame cannot be read"):
            for group in self._cameras[:1]:
                self._at(group, moment, partial(_look, scene))
            for group in self._lidars[:1]:
                self._at(group, moment, partial(_range, scene))
        return scene

    def _at(self, group: str, moment: Moment, look: Callable[[Get, str], None]) -> None:
        path, times = self._groups[group]
        nearest = int(np.abs(times[:, 0] - (moment.time_ns or 0) // 1000).argmin())
        with Reading(path) as reading:
            look(reading.store.get, f"{group}/{int(times[nearest, 1])}")


def _look(scene: Scene, get: Get, where: str) -> None:
    """A frame's picture and its boxes."""
    scene.picture = data = read_array(get, f"{where}/image").item()
    across, down = opened(data)[1]
    try:
        corners = read_array(get, f"{where}/generic_data/{FLAT_BOXES}").reshape(-1, 4).tolist()
        labels = read_array(get, f"{where}/generic_data/{FLAT_BOXES}_label").tolist()
    except KeyError:  # no model looked at it
        return
    for (left, top, right, bottom), label in zip(corners, labels, strict=False):
        middle = (left + right) / 2 / across, (top + bottom) / 2 / down
        scene.boxes.append(Box2d(*middle, (right - left) / across, (bottom - top) / down, str(label)))


def _range(scene: Scene, get: Get, where: str) -> None:
    """The first returns of a sweep, in metres in the lidar's frame."""
    direction = read_array(get, f"{where}/ray_bundle/direction", "f", MOST_RAY_BYTES).astype(float)
    distance = read_array(get, f"{where}/ray_bundle_returns/distance_m", "f", MOST_RAY_BYTES).astype(float)
    met = ~np.isnan(distance[0])
    scene.points = direction[met] * distance[0][met][:, None]
