"""What there is to see in an NCore sequence: frames of all sensors, cuboids, poses, IMU, GPS."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.ncore.poses import edge_of
from edgefirst_ros.formats.ncore.store.base import FLAT_BOXES, REFERENCE
from edgefirst_ros.formats.ncore.store.files import MOST_RAY_BYTES, Reading
from edgefirst_ros.formats.scene import (
    Box2d,
    Box3d,
    Canvas,
    Detail,
    Frame,
    Instant,
    Mark,
    Moment,
    Points,
    Scene,
    Scenes,
    opened,
)
from edgefirst_ros.formats.zarr2.array import read_array
from edgefirst_ros.model.camera import Intrinsics
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.transform import Transform, angles_of, quaternion_of, quaternion_of_angles
from edgefirst_ros.model.untrusted import parse_json, refusing

Get = Callable[[str], bytes]
_FRAMES = re.compile(r"((?:cameras|lidars|radars)/[^/]+/frames)/\.zattrs")
_SENSOR = re.compile(r"(cameras/[^/]+)/\.zattrs")
_INTRINSICS = re.compile(r"intrinsics/default/cameras/([^/]+)/\.zattrs")
_MASK = re.compile(r"masks/default/cameras/([^/]+)/([^/]+)/\.zarray")
_SERIES = "poses/default/generic_data"
_ENTITIES = {"cameras": Mark.CAMERA, "lidars": Mark.LIDAR, "radars": Mark.RADAR}
_NUMBER = "radial_velocity_m_s"
_BOX = ("centroid", "dim", "rot")
_NODES = {"rig": Frame.RIG, "world": Frame.DRIVE}
"""Nodes of the pose graph that every drawing has."""


class Frames:
    """The stores of a sequence, and the times of their frames.

    Attributes:
        stores: all of them.
        groups: by the frames of a sensor, their store, and begin and end (N, 2) of each in microseconds.
        deep: those of cameras whose values are no colours, such as depth.

    Raises:
        DatasetNotFound: there is no finished store.
        DatasetError: a store is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.stores = sorted(p for p in folder.glob("*.ncore4*") if p.name.endswith((".zarr", ".zarr.itar")))
        if not self.stores:
            raise DatasetNotFound(f"{folder}: holds no finished store")
        self.groups: dict[str, tuple[Path, npt.NDArray[np.int64]]] = {}
        self.deep: set[str] = set()
        for path in self.stores:
            with refusing(path, DatasetError), Reading(path) as reading:
                for key in reading.store:
                    if (found := _SENSOR.fullmatch(key)) is not None:
                        meta = parse_json(reading.store.get(key)).get("generic_meta_data", {})
                        self.deep.update([f"{found[1]}/frames"] * ("pixel_values" in meta))
                    if (found := _FRAMES.fullmatch(key)) is not None:
                        times = parse_json(reading.store.get(key)).get("frames_timestamps_us", [])
                        self.groups[found[1]] = path, np.array(times, np.int64).reshape(-1, 2)


class NCoreScenes(Scenes):
    """Pictures of a sequence's first camera, one in colour if there is one; without, frames of the lidar.

    Raises:
        DatasetNotFound: there is no finished store.
        DatasetError: a store is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._name = folder.name
        frames = Frames(folder)
        self._groups = frames.groups
        there = sorted(group for group, (_, times) in self._groups.items() if len(times))
        there.sort(key=frames.deep.__contains__)
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
    scene.picture, boxes, _ = picture_of(get, where)
    scene.boxes = boxes or []


def _range(scene: Scene, get: Get, where: str) -> None:
    scene.points = rays_of(get, where)


class NCoreDrawing:
    """See ``Drawable``; the first camera, lidar and radar by name have short paths, others their own names.

    Raises:
        DatasetNotFound: there is no finished store.
        DatasetError: a store is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        frames = Frames(folder)
        self._stores, self._groups = frames.stores, frames.groups
        self._paths: dict[str, str] = {}
        for group in self._groups:
            kind, name, _ = group.split("/")
            entity = _ENTITIES[kind]
            self._paths[group] = f"{entity}_{name}" if entity in self._paths.values() else entity
        self._cuboids: list[_Cuboid] = []
        for path in self._stores:
            self._guarded(partial(self._look, path), path)

    def __len__(self) -> int:
        return sum(len(times) for _, times in self._groups.values())

    def begin(self, canvas: Canvas) -> None:
        """Draw where sensors are, the rig's way, and the series."""
        for path in self._stores:
            self._guarded(partial(self._draw_facts, path, canvas), path)

    def instants(self) -> Iterator[Instant]:
        """All frames and groups of cuboids in order of time."""
        with ExitStack() as stack:
            streams: list[Iterator[tuple[int, int, Instant]]] = []
            for order, (group, (path, times)) in enumerate(sorted(self._groups.items())):
                reading = stack.enter_context(Reading(path))
                streams.append(self._of_group(order, group, reading.store.get, times.tolist()))
            streams.append(self._of_cuboids(len(self._groups)))
            for _, _, instant in heapq.merge(*streams, key=lambda each: each[:2]):
                yield instant

    def _of_group(
        self, order: int, group: str, get: Get, times: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int, Instant]]:
        kind, name, _ = group.split("/")
        look = {"cameras": _picture, "lidars": _lidar, "radars": _radar}[kind]
        for begin_us, end_us in times:
            where = f"{group}/{end_us}"
            # A picture has the time of its middle line, a sweep that of its end.
            time_ns = (begin_us + end_us) // 2 * 1000 if kind == "cameras" else end_us * 1000
            work = partial(look, get, where, name, self._paths[group])
            draw = partial(self._draw, work, time_ns, kind == "cameras")
            yield time_ns, order, Instant(time_ns, draw, is_sample=kind == "cameras")

    def _of_cuboids(self, order: int) -> Iterator[tuple[int, int, Instant]]:
        # An entity has one frame.
        frames = dict.fromkeys(each.frame for each in self._cuboids)
        paths = {frame: f"{Mark.BOXES_3D}/{frame}" if n else Mark.BOXES_3D for n, frame in enumerate(frames)}
        together = sorted(self._cuboids, key=_time_and_frame)
        for (time_us, frame), group in groupby(together, key=_time_and_frame):
            draw = partial(_draw_boxes, list(group), paths[frame])
            yield time_us * 1000, order, Instant(time_us * 1000, draw, is_sample=False)

    def _draw(
        self, work: Callable[[Canvas], None], time_ns: int, is_sample: bool, canvas: Canvas, number: int
    ) -> None:
        canvas.at(time_ns, number if is_sample else None)
        self._guarded(partial(work, canvas), time_ns)

    def _look(self, path: Path) -> None:
        with Reading(path) as reading:
            if (key := "cuboids/default/cuboids/.zattrs") in set(reading.store):
                self._cuboids += cuboids_of(parse_json(reading.store.get(key))["cuboid_track_observations"])

    def _draw_facts(self, path: Path, canvas: Canvas) -> None:
        with Reading(path) as reading:
            get, keys = reading.store.get, frozenset(reading.store)
            if "poses/default/static_poses/.zattrs" in keys:
                canvas.mount(_mounts(parse_json(get("poses/default/static_poses/.zattrs"))))
            for key in sorted(keys):
                found = _INTRINSICS.fullmatch(key)
                entity = None if found is None else self._paths.get(f"cameras/{found[1]}/frames")
                if found is not None and entity is not None:
                    model = parse_json(get(key))["camera_model_parameters"]
                    if "focal_length" in model:
                        canvas.camera(entity, _lens(model), found[1])
                if (mask := _MASK.fullmatch(key)) is not None:
                    canvas.mask(mask[1], mask[2], read_array(get, key.removesuffix("/.zarray")).item())
            if f"{_SERIES}/gps_timestamps_us/.zarray" in keys:
                _draw_fixes(get, canvas)
            if f"{_SERIES}/imu_timestamps_us/.zarray" in keys:
                _draw_imu(get, canvas)
            if "poses/default/dynamic_poses/.zattrs" in keys:
                dynamic = parse_json(get("poses/default/dynamic_poses/.zattrs"))
                canvas.mount(_mounts({names: {"pose": v["poses"][-1]} for names, v in dynamic.items()}))
                _draw_way(dynamic, canvas)

    def _guarded(self, work: Callable[[], None], where: object) -> None:
        with refusing(self._folder, DatasetError, f"{where} cannot be read"):
            work()


def _lens(model: dict[str, Any]) -> Intrinsics:
    """How a camera sees, with its coefficients in the order of OpenCV."""
    seen = (model[part] for part in ("focal_length", "principal_point", "resolution"))
    focal, principal, size = (tuple(each) for each in seen)
    radial = [float(value) for value in model.get("radial_coeffs", ())]
    if "max_angle" in model:
        return Intrinsics(focal, principal, size, distortion=tuple(radial), is_fisheye=True)
    across = map(float, model.get("tangential_coeffs", (0.0, 0.0)))
    thin = map(float, model.get("thin_prism_coeffs", ()))
    return Intrinsics(focal, principal, size, distortion=(*radial[:2], *across, *radial[2:], *thin))


def _mounts(static: dict[str, Any]) -> Iterator[Transform]:
    for names, value in static.items():
        child, parent = edge_of(names)
        if parent == Frame.RIG:
            pose = np.array(value["pose"], float)
            turned = quaternion_of(pose[:3, :3]).tolist()
            yield Transform("", str(child), tuple(pose[:3, 3].tolist()), tuple(turned))


def _draw_way(dynamic: dict[str, Any], canvas: Canvas) -> None:
    value = dynamic.get("('rig', 'world')")
    if value is None:
        return
    poses = np.array(value["poses"], float).reshape(-1, 4, 4)
    turned = poses[:, :3, :3]
    attitudes = np.degrees(angles_of(turned))
    rows = zip(value["timestamps_us"], poses[:, :3, 3], quaternion_of(turned), attitudes, strict=True)
    for time_us, position, xyzw, attitude in rows:
        canvas.pose(time_us * 1000, tuple(position.tolist()), tuple(xyzw.tolist()))
        canvas.scalars(Mark.ATTITUDE, time_us * 1000, tuple(attitude.tolist()))


def _draw_fixes(get: Get, canvas: Canvas) -> None:
    names = ("timestamps_us", "latitude_deg", "longitude_deg", "altitude_m")
    columns = [read_array(get, f"{_SERIES}/gps_{name}") for name in names]
    for time_us, latitude, longitude, altitude in zip(*columns, strict=True):
        if latitude or longitude:
            canvas.place(int(time_us) * 1000, float(latitude), float(longitude))
            canvas.scalars(Mark.ALTITUDE, int(time_us) * 1000, (float(altitude),))


def _draw_imu(get: Get, canvas: Canvas) -> None:
    times = read_array(get, f"{_SERIES}/imu_timestamps_us").tolist()
    for path, name in ((Mark.TURN, "angular_velocity_rad_s"), (Mark.FORCE, "linear_acceleration_m_s2")):
        for time_us, values in zip(times, read_array(get, f"{_SERIES}/imu_{name}").tolist(), strict=True):
            canvas.scalars(path, time_us * 1000, tuple(values))


def picture_of(get: Get, where: str) -> tuple[bytes, list[Box2d] | None, tuple[int, int]]:
    """A frame's picture, its boxes, None if no model looked at it, and its size."""
    data: bytes = read_array(get, f"{where}/image").item()
    across, down = size = opened(data)[1]
    try:
        corners = read_array(get, f"{where}/generic_data/{FLAT_BOXES}").reshape(-1, 4).tolist()
        labels = read_array(get, f"{where}/generic_data/{FLAT_BOXES}_label").tolist()
    except KeyError:
        return data, None, size
    boxes = []
    for (left, top, right, bottom), label in zip(corners, labels, strict=False):
        middle = (left + right) / 2 / across, (top + bottom) / 2 / down
        boxes.append(Box2d(*middle, (right - left) / across, (bottom - top) / down, str(label)))
    return data, boxes, size


def _picture(get: Get, where: str, name: str, path: str, canvas: Canvas) -> None:  # noqa: ARG001 - as others
    data, boxes, size = picture_of(get, where)
    canvas.picture(path, data, boxes or [], size)


def rays_of(get: Get, where: str) -> Points:
    """The first returns of a frame of a lidar or radar (N, 3), in metres in its own frame."""
    direction = read_array(get, f"{where}/ray_bundle/direction", "f", MOST_RAY_BYTES).astype(float)
    distance = read_array(get, f"{where}/ray_bundle_returns/distance_m", "f", MOST_RAY_BYTES).astype(float)
    points: Points = direction * distance[0][:, None]
    return points


def _lidar(get: Get, where: str, name: str, path: str, canvas: Canvas) -> None:
    times_us = read_array(get, f"{where}/ray_bundle/timestamp_us", "iu", MOST_RAY_BYTES)
    canvas.cloud(path, rays_of(get, where), name, times_ns=times_us.astype(np.int64) * 1000)


def _radar(get: Get, where: str, name: str, path: str, canvas: Canvas) -> None:
    try:
        speed = read_array(get, f"{where}/generic_data/{_NUMBER}", "f", MOST_RAY_BYTES).astype(float)
    except KeyError:
        speed = None
    canvas.cloud(path, rays_of(get, where), name, speed)


class _Cuboid(NamedTuple):
    time_us: int
    frame: str
    box: Box3d


def _time_and_frame(cuboid: _Cuboid) -> tuple[int, str]:
    return cuboid.time_us, cuboid.frame


def cuboids_of(observations: list[dict[str, Any]]) -> Iterator[_Cuboid]:
    """Boxes in their frames of reference, in which they are turned by Euler angles about fixed x, y and z."""
    places = np.array([[each["bbox3"][part] for part in _BOX] for each in observations], float)
    centres, sizes, angles = places.reshape(-1, 3, 3).transpose(1, 0, 2)
    turned = quaternion_of_angles(np.nan_to_num(angles))
    columns = (part.tolist() for part in (centres, sizes, turned))
    for each, centre, size, xyzw in zip(observations, *columns, strict=True):
        frame = _NODES.get(each[REFERENCE], str(each[REFERENCE]))
        box = Box3d(tuple(centre), tuple(size), str(each.get("class_id", "")), tuple(xyzw))
        yield _Cuboid(int(each["timestamp_us"]), frame, box)


def _draw_boxes(together: list[_Cuboid], path: str, canvas: Canvas, number: int) -> None:  # noqa: ARG001
    """Boxes of one time and frame."""
    canvas.at(together[0].time_us * 1000)
    canvas.boxes_3d(path, (each.box for each in together), together[0].frame)
