"""Samples of an NCore sequence as dictionaries of numpy arrays: a picture with what was near it in time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.poses import RIG, WORLD, edge_of
from edgefirst_ros.formats.ncore.scenes import Frames, cuboids_of, picture_of, rays_of
from edgefirst_ros.formats.ncore.store.files import Reading
from edgefirst_ros.model.errors import ConfigError, DatasetError
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.transform import interpolated, matrix_of, quaternion_of
from edgefirst_ros.model.untrusted import parse_json, refusing

Pose = npt.NDArray[np.float64]
_POSES = "poses/default/{}/.zattrs"
_CUBOIDS = "cuboids/default/cuboids/.zattrs"
_NEAR_US = 100_000
"""Boxes in space that are farther from a picture are of another moment: models look at 10 Hz at least."""


class NCoreSequence:
    """The frames of a camera of an NCore sequence; ``sequence[i]`` reads one, ``sequence[10:20]`` has these.

    What a sample lacks is None; boxes without any are empty. Poses map points of the first frame to the
    second, as in NCore.

    ============== ==================== ==============================================================
    key            shape, dtype         what
    ============== ==================== ==============================================================
    sequence       str                  its name
    camera         str                  the camera's name
    time_ns        int                  middle of the exposure, nanoseconds since 1970
    image          (H, W, 3) uint8      RGB
    boxes2d        (N, 4) float32       centre x, y, width, height as fractions of the picture
    labels2d       list of str          their classes
    lidar          (N, 3) float32       the first lidar's nearest frame: x, y, z in metres, in its frame
    lidar_time_ns  int                  end of that frame
    radar          (N, 3) float32       as lidar
    radar_time_ns  int                  as lidar_time_ns
    boxes3d        (N, 6) float32       the nearest: centre x, y, z, and extents along their axes in metres
    rotations3d    (N, 4) float64       their quaternions x, y, z, w
    labels3d       list of str          their classes
    frames3d       list of str          frames of reference: names of sensors, rig or drive (the world)
    T_rig_world    (4, 4) float64       where the rig was, interpolated
    T_sensor_rig   dict of (4, 4)       where sensors are, by their names
    ============== ==================== ==============================================================

    It can be pickled, and read by any number of threads and processes.

    Args:
        folder: of the sequence.
        camera: its name; by default the first one, one in colour if there is any.

    Attributes:
        path: the folder.
        cameras: names of all cameras.
        camera: the one whose frames are the samples.
        intrinsics: of each camera, NCore's ``camera_model_parameters``.

    Raises:
        DatasetNotFound: there is no finished store.
        DatasetError: a store is damaged.
        ConfigError: there is no such camera.
    """

    def __init__(self, folder: Path, camera: str = "") -> None:
        self.path = folder.absolute()
        frames = Frames(self.path)
        self._groups = frames.groups
        there = sorted(group for group, (_, times) in self._groups.items() if len(times))
        there.sort(key=frames.deep.__contains__)
        self.cameras = tuple(group.split("/")[1] for group in there if group.startswith("cameras/"))
        if camera and camera not in self.cameras:
            raise ConfigError([f"camera: {self.path} has no {camera}; it has {', '.join(self.cameras)}"])
        self.camera = camera or next(iter(self.cameras), "")
        self._nearest = {
            key: next((group for group in there if group.startswith(f"{key}s/")), None)
            for key in ("lidar", "radar")
        }
        self.intrinsics: dict[str, Any] = {}
        self._static: dict[str, Pose] = {}
        self._way: tuple[npt.NDArray[np.int64], Pose] | None = None
        self._boxes: dict[int, list[Any]] | None = None
        self._local = threading.local()
        for store in frames.stores:
            with refusing(store, DatasetError):
                self._look(store)
        times = (
            self._groups[f"cameras/{self.camera}/frames"][1] if self.camera else np.empty((0, 2), np.int64)
        )
        self._frames = [(int(begin), int(end)) for begin, end in times]

    def __repr__(self) -> str:
        return f"<NCoreSequence {self.path.name}, {self.camera}: {len(self):,} samples>"

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | Self:
        """Read a sample; for a slice, a sequence of these samples.

        Raises:
            IndexError: there are fewer.
            DatasetError: it is damaged.
        """
        if isinstance(index, slice):
            other = copy(self)
            other._frames, other._local = self._frames[index], threading.local()  # noqa: SLF001 - its own
            return other
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        with refusing(self.path, DatasetError, f"frame {index} cannot be read"):
            return self._read(*self._frames[index])

    def _read(self, begin_us: int, end_us: int) -> dict[str, Any]:
        middle_us = (begin_us + end_us) // 2
        group = f"cameras/{self.camera}/frames"
        data, boxes, _ = picture_of(self._get(group), f"{group}/{end_us}")
        with open_picture(data) as picture:
            image = np.array(picture if picture.mode.startswith("I") else picture.convert("RGB"))
        sample: dict[str, Any] = {
            "sequence": self.path.name,
            "camera": self.camera,
            "time_ns": middle_us * 1000,
            "image": image,
            "boxes2d": None
            if boxes is None
            else np.array([box[:4] for box in boxes], np.float32).reshape(-1, 4),
            "labels2d": None if boxes is None else [box.label for box in boxes],
        }
        for key, nearest in self._nearest.items():
            sample[key] = sample[f"{key}_time_ns"] = None
            if nearest is not None:
                ends = self._groups[nearest][1][:, 1]
                at_us = int(ends[np.abs(ends - middle_us).argmin()])
                sample[key] = rays_of(self._get(nearest), f"{nearest}/{at_us}").astype(np.float32)
                sample[f"{key}_time_ns"] = at_us * 1000
        found = self._boxes_at(middle_us)
        sample["boxes3d"] = sample["rotations3d"] = sample["labels3d"] = sample["frames3d"] = None
        if found is not None:
            solids = [cuboid.box for cuboid in found]
            sample["boxes3d"] = np.array([[*s.centre_m, *s.size_m] for s in solids], np.float32).reshape(
                -1, 6
            )
            sample["rotations3d"] = np.array([s.rotation_xyzw for s in solids], np.float64).reshape(-1, 4)
            sample["labels3d"] = [s.label for s in solids]
            sample["frames3d"] = [str(cuboid.frame) for cuboid in found]
        sample["T_rig_world"] = self._pose_at(middle_us)
        sample["T_sensor_rig"] = dict(self._static)
        return sample

    def _boxes_at(self, time_us: int) -> list[Any] | None:
        if self._boxes is None:
            return None
        nearest = min(self._boxes, key=lambda at: abs(at - time_us), default=None)
        return self._boxes[nearest] if nearest is not None and abs(nearest - time_us) <= _NEAR_US else []

    def _pose_at(self, time_us: int) -> Pose | None:
        """The pose at a time, None outside of the trajectory."""
        if self._way is None:
            return None
        times, poses = self._way
        if not times[0] <= time_us <= times[-1]:
            return None
        known, wanted = (times - times[0]) / 1e6, np.array([(time_us - times[0]) / 1e6])
        pose = np.eye(4)
        pose[:3, :3] = matrix_of(interpolated(known, quaternion_of(poses[:, :3, :3]), wanted)[0])
        pose[:3, 3] = [np.interp(wanted[0], known, poses[:, axis, 3]) for axis in range(3)]
        return pose

    def _look(self, path: Path) -> None:
        """Take from a store what is of the whole sequence."""
        with Reading(path) as reading:
            get, keys = reading.store.get, frozenset(reading.store)
            if (key := _POSES.format("static_poses")) in keys:
                edges = ((edge_of(names), value) for names, value in parse_json(get(key)).items())
                self._static |= {
                    str(child): np.array(value["pose"], np.float64)
                    for (child, parent), value in edges
                    if parent == RIG
                }
            if (key := _POSES.format("dynamic_poses")) in keys:
                self._way = _way(parse_json(get(key))) or self._way
            if _CUBOIDS in keys:
                self._boxes = self._boxes or {}
                observations = parse_json(get(_CUBOIDS))["cuboid_track_observations"]
                for cuboid in cuboids_of(observations) if observations else ():
                    self._boxes.setdefault(cuboid.time_us, []).append(cuboid)
            for name in self.cameras:
                if (key := f"intrinsics/default/cameras/{name}/.zattrs") in keys:
                    self.intrinsics[name] = parse_json(get(key))["camera_model_parameters"]

    def _get(self, group: str) -> Callable[[str], bytes]:
        """What reads the store of a group, which each thread and each process opens for itself."""
        path, local = self._groups[group][0], self._local
        if getattr(local, "process", None) != os.getpid():
            local.process, local.open = os.getpid(), {}
        if path not in local.open:
            local.open[path] = Reading(path)
        get: Callable[[str], bytes] = local.open[path].store.get
        return get

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())


def _way(dynamic: dict[str, Any]) -> tuple[npt.NDArray[np.int64], Pose] | None:
    """Times in microseconds and poses of the rig in the world (N, 4, 4), if there are any."""
    for names, value in dynamic.items():
        if edge_of(names) == (RIG, WORLD) and value["timestamps_us"]:
            times = np.array(value["timestamps_us"], np.int64)
            return times, np.array(value["poses"], np.float64).reshape(-1, 4, 4)
    return None
