"""What reconstructions start from: every picture with its camera's pose and lens, and the lidar's points.

A format that draws its sensors' own frames (``Format.drawings``) says where they were. Of others (``scenes``)
the samples say where the rig was, and the report of the run what is mounted where and how cameras see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pymap3d

from edgefirst_ros.formats.datasets import find
from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.scene import Box2d, Detail, Drawable, Frame, Mark, Moment, Points, Scenes, Vector
from edgefirst_ros.model.camera import FISHEYE_MODELS, PINHOLE_MODELS, Intrinsics, split_tile
from edgefirst_ros.model.errors import DatasetError, DatasetNotFound
from edgefirst_ros.model.pictures import open_picture, png_bits
from edgefirst_ros.model.sample import Role
from edgefirst_ros.model.transform import (
    Transform,
    bare,
    frame_in_base,
    interpolated,
    matrix_of,
    quaternion_of_angles,
    rigid,
)
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.report.models import Camera, Report, read_report
from edgefirst_ros.report.models import Sequence as ReportSequence
from edgefirst_ros.report.runs import Run, find_run

Pose = npt.NDArray[np.float64]
"""(4, 4), maps points of the source frame to the target frame."""

BEYOND_NS = 50_000_000
"""A pose is held so long before the first and after the last one: 1.5 m at 30 m/s is no pose any more."""
_PLAIN = "camera"


class View(NamedTuple):
    """A picture, where its camera was, and how that sees.

    Attributes:
        camera: its name.
        name: of the picture; no other of the camera has it.
        time_ns: nanoseconds since 1970, None if unknown.
        data: JPEG or PNG.
        lens: of a picture of this size.
        T_camera_world: pose of the camera (x right, y down, z forward), metres.
    """

    camera: str
    name: str
    time_ns: int | None
    data: bytes
    lens: Intrinsics
    T_camera_world: Pose


class Survey:
    """One sequence: views and clouds (N, 3) in its world (z up, metres), in order of time.

    Attributes:
        name: of the sequence.
        masks: PNGs of the vehicle itself (not 0) by camera; known once iteration has begun.
        unplaced: pictures that were left out, as nobody knows where the rig was.
    """

    name: str
    masks: dict[str, list[bytes]]
    unplaced: int

    def __iter__(self) -> Iterator[View | Points]:
        raise NotImplementedError


def surveys(sources: Iterable[Path]) -> Iterator[Survey]:
    """The sequences of the datasets at or below paths; of a run in several formats those of one.

    That is the first that has its sensors' own frames, else the first that has pictures.

    Raises:
        DatasetNotFound: there is none.
        DatasetError: one is damaged, or nothing says where its cameras are.
    """
    for source in sources:
        runs: dict[Path | None, Run] = {}
        for _, dataset in find(source):
            run = find_run(dataset)
            before = runs.get(run.report)
            runs[run.report] = (
                run if before is None else replace(before, datasets=[*before.datasets, *run.datasets])
            )
        for run in runs.values():
            yield from _of_run(run, source)


def _of_run(run: Run, source: Path) -> Iterator[Survey]:
    given = [
        (of, folder) for of, folders in run.of_format() for folder in folders if _is_within(folder, source)
    ]
    for of, folder in given:
        for drawable in of.drawings(folder):
            yield _DrawnSurvey(folder.name, drawable)
    if any(of.drawings(folder) for of, folder in given):
        return
    report = None if run.report is None else read_report(run.report)
    yielded = False
    for of, folder in given:
        for survey in _of_scenes(of, folder, report):
            yielded = True
            yield survey
        if yielded:
            return
    raise DatasetNotFound(f"{source}: holds no pictures that could be exported")


def _is_within(folder: Path, source: Path) -> bool:
    mine, given = folder.resolve(), source.resolve()
    return given in (mine, *mine.parents) or mine in given.parents


class _DrawnSurvey(Survey):
    """Of a sequence that draws itself; a ``Canvas``."""

    def __init__(self, name: str, drawable: Drawable) -> None:
        self.name, self.masks, self.unplaced = name, {}, 0
        self._drawable = drawable
        self._lenses: dict[str, tuple[Intrinsics, str]] = {}
        self._mounts: dict[str, Pose] = {Frame.RIG: np.eye(4)}
        self._way: list[tuple[int, Vector, tuple[float, ...]]] = []
        self._time_ns: int | None = None
        self._taken: list[View | Points] = []
        self._has_begun = False

    def __iter__(self) -> Iterator[View | Points]:
        if not self._has_begun:
            self._has_begun = True
            self._drawable.begin(self)
            self._times = np.array([time_ns for time_ns, *_ in self._way], np.int64)
            self._places = np.array([place for _, place, _ in self._way], float).reshape(-1, 3)
            self._turns = np.array([turn for *_, turn in self._way], float).reshape(-1, 4)
        for number, instant in enumerate(self._drawable.instants()):
            instant.draw(self, number)
            yield from self._taken
            self._taken.clear()

    def _rig(self, times_ns: npt.NDArray[np.int64]) -> tuple[Pose, Points, npt.NDArray[np.bool_]]:
        """Rotations (N, 3, 3), positions (N, 3) of the rig in the world, and where they are known (N,)."""
        known = (times_ns >= self._times[0] - BEYOND_NS) & (times_ns <= self._times[-1] + BEYOND_NS)
        wanted_s = (np.clip(times_ns, self._times[0], self._times[-1]) - self._times[0]) / 1e9
        told_s = (self._times - self._times[0]) / 1e9
        turned = matrix_of(interpolated(told_s, self._turns, wanted_s))
        columns = [np.interp(wanted_s, told_s, column) for column in self._places.T]
        return turned, np.stack(columns, axis=-1), known

    def picture(self, camera: str, data: bytes, boxes: Iterable[Box2d], size: tuple[int, int]) -> None:  # noqa: ARG002
        """Take a picture, if it has colours and a pose."""
        lens, frame = self._lenses.get(camera, (None, camera))
        if lens is None or self._time_ns is None or png_bits(data) == 16:
            return
        mount = self._mounts.get(frame)
        if len(self._times) < 2 or mount is None:
            self.unplaced += 1
            return
        turned, place, known = self._rig(np.array([self._time_ns]))
        if not known[0]:
            self.unplaced += 1
            return
        pose = rigid(turned[0], tuple(place[0].tolist())) @ mount
        self._taken.append(View(frame, str(self._time_ns), self._time_ns, data, scaled(lens, size), pose))

    def cloud(
        self,
        path: str,
        points: Points,
        frame: str,
        speed_m_s: Points | None = None,  # noqa: ARG002
        times_ns: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Take a lidar's points, each where the rig was when it was measured."""
        mount = self._mounts.get(frame)
        if not path.startswith(Mark.LIDAR) or mount is None or self._time_ns is None or len(self._times) < 2:
            return
        when = np.array([self._time_ns]) if times_ns is None else times_ns
        turned, place, known = self._rig(when)
        points = points @ mount[:3, :3].T + mount[:3, 3]
        placed = (turned @ points[..., None])[..., 0] + place
        self._taken.append(placed[np.broadcast_to(known, len(placed))])

    def at(self, time_ns: int | None, sample: int | None = None) -> None:  # noqa: ARG002
        """What follows is of this time."""
        self._time_ns = time_ns

    def mount(self, mounts: Iterable[Transform]) -> None:
        """Keep where sensors are in the rig."""
        for each in mounts:
            self._mounts[each.child] = rigid(matrix_of(each.rotation_xyzw), each.translation_m)

    def camera(self, path: str, intrinsics: Intrinsics, frame: str) -> None:
        """Keep how a camera sees."""
        self._lenses[path] = intrinsics, frame

    def mask(self, camera: str, name: str, png: bytes) -> None:  # noqa: ARG002
        """Keep a mask of the vehicle."""
        self.masks.setdefault(camera, []).append(png)

    def pose(self, time_ns: int, position_m: Vector, rotation_xyzw: Any) -> None:  # noqa: ANN401
        """Keep the rig's way."""
        self._way.append((time_ns, position_m, rotation_xyzw))

    def boxes_3d(self, path: str, boxes: Iterable[Any], frame: str) -> None: ...
    def place(self, time_ns: int | None, latitude_deg: float, longitude_deg: float) -> None: ...
    def scalars(self, path: str, time_ns: int, values: tuple[float, ...]) -> None: ...


def scaled(lens: Intrinsics, size: tuple[int, int]) -> Intrinsics:
    """How the camera sees in pictures of another size."""
    if size == lens.size or 0 in lens.size:
        return lens
    across, down = size[0] / lens.size[0], size[1] / lens.size[1]
    (fx, fy), (cx, cy) = lens.focal_px, lens.principal_px
    return replace(lens, focal_px=(fx * across, fy * down), principal_px=(cx * across, cy * down), size=size)


def _of_scenes(of: Format[Any], folder: Path, report: Report | None) -> Iterator[Survey]:
    """The sequences of a dataset whose samples say where the rig was; cameras of one drive together."""
    scenes = of.scenes(folder)
    moments = [] if scenes is None else scenes.moments()
    if scenes is None or not moments or scenes.scene(moments[0]).picture is None:
        return
    if report is None:
        raise DatasetError(f"{folder}: capture_report.json is missing, which says where the cameras are")
    merged = any(
        isinstance(each, Mapping) and each.get("merge_lidars") for each in report.configuration.values()
    )

    def sequence_of(moment: Moment) -> tuple[str, int]:
        found = report.frames(moment.sequence)
        return moment.sequence if found is None else found[0].name, moment.part

    together = groupby(sorted(moments, key=sequence_of), key=sequence_of)
    for (name, _), several in together:
        said = report.sequence(name)
        if said is None or said.calibration is None:
            raise DatasetError(f"{folder}: its report does not say where the cameras of {name} are")
        yield _SceneSurvey(name, scenes, list(several), said, report, merged_lidars=merged)


class _Seen(NamedTuple):
    """A camera of the samples of a sequence: name, lens, poses of it and of the lidar in the rig."""

    name: str
    lens: Intrinsics
    T_camera_rig: Pose
    T_lidar_rig: Pose | None


class _SceneSurvey(Survey):
    """Of samples; the lidar's points are those of the reference's, and taken to be of the picture's time.

    Args:
        name: of the sequence.
        scenes: of the dataset.
        moments: of the sequence and of its other cameras.
        said: what the report says of the sequence.
        report: that report.
        merged_lidars: clouds are in the rig's frame.
    """

    def __init__(
        self,
        name: str,
        scenes: Scenes,
        moments: Sequence[Moment],
        said: ReportSequence,
        report: Report,
        *,
        merged_lidars: bool,
    ) -> None:
        self.name, self.masks, self.unplaced = name, {}, 0
        self._scenes, self._moments, self._said, self._report = scenes, moments, said, report
        self._merged = merged_lidars
        of = {moment.sequence for moment in moments}
        self._own = name if name in of else min(of)
        self._origin: Vector | None = None
        self._seen: dict[str, _Seen] = {}

    def __iter__(self) -> Iterator[View | Points]:
        for moment in self._in_order():
            scene = self._scenes.scene(moment, Detail.ALL)
            if scene.picture is None:
                continue
            seen = self._camera(moment.sequence)
            rig = self._rig(scene.moment.time_ns, scene.geodetic, scene.attitude_deg)
            if rig is None:
                self.unplaced += 1
                continue
            with refusing(scene.name, DatasetError), open_picture(scene.picture) as picture:
                lens = scaled(seen.lens, picture.size)
            yield View(
                seen.name, scene.name, scene.moment.time_ns, scene.picture, lens, rig @ seen.T_camera_rig
            )
            is_own = moment.sequence == self._own
            if is_own and scene.points is not None and seen.T_lidar_rig is not None:
                pose = rig @ seen.T_lidar_rig
                yield scene.points @ pose[:3, :3].T + pose[:3, 3]

    def _in_order(self) -> Sequence[Moment]:
        """By time, where there are several cameras: a cloud has the colours of the last pictures."""
        if len({moment.sequence for moment in self._moments}) == 1:
            return self._moments
        return sorted(self._moments, key=lambda moment: self._scenes.timed(moment).time_ns or 0)

    def _rig(self, time_ns: int | None, geodetic: Vector | None, attitude: Vector | None) -> Pose | None:
        """Where the rig is: by the place that the picture says, else by the report's track."""
        place: Vector | None = None
        if geodetic is not None:
            self._origin = self._origin or geodetic
            east, north, up = pymap3d.geodetic2enu(*geodetic, *self._origin)
            place = float(east), float(north), float(up)
        elif self._origin is None and time_ns is not None and self._said.track is not None:
            points = [point for point in self._said.track.points if point[4] == 0]
            times = [point[0] for point in points]
            if times and times[0] - BEYOND_NS <= time_ns <= times[-1] + BEYOND_NS:
                columns = zip(*(point[1:4] for point in points), strict=True)
                x, y, z = (float(np.interp(time_ns, times, column)) for column in columns)
                place = x, y, z
        if place is None or attitude is None:
            return None
        return rigid(matrix_of(quaternion_of_angles(np.radians(attitude))), place)

    def _camera(self, sequence: str) -> _Seen:
        """What is known of the camera of a sequence's samples.

        Raises:
            DatasetError: how it sees, or where it is, is not known.
        """
        if sequence not in self._seen:
            _, own = self._report.frames(sequence) or (self._said, self._said)
            stream = self._said.stream_of(Role.CAMERA, own)
            camera = None if stream is None else self._said.intrinsics_of(stream)
            lidar = self._said.stream_of(Role.LIDAR_POINTS, own)
            if stream is None or camera is None:
                raise DatasetError(
                    f"{sequence}: the report does not say how its camera sees: record camera_info"
                )
            T_camera_rig = self._mount(stream.frame_id, is_camera=True)
            if T_camera_rig is None:
                raise DatasetError(f"{sequence}: the report does not say where {stream.frame_id} is mounted")
            T_lidar_rig = None if lidar is None else self._mount(lidar.frame_id)
            self._seen[sequence] = _Seen(
                bare(stream.frame_id) or stream.sensor or _PLAIN,
                lens_of(camera, sequence),
                T_camera_rig,
                np.eye(4) if self._merged else T_lidar_rig,
            )
        return self._seen[sequence]

    def _mount(self, frame_id: str, *, is_camera: bool = False) -> Pose | None:
        known = self._said.calibration
        if known is None:
            return None
        mounts = {
            bare(t.child): Transform(t.parent, t.child, t.translation_m, t.rotation_xyzw)
            for t in known.transforms
        }
        frame = bare(frame_id)
        frame = split_tile(frame)[0] if is_camera and frame not in mounts else frame
        return frame_in_base(mounts, frame, known.rig)


def lens_of(camera: Camera, where: str) -> Intrinsics:
    """How a camera of a report sees.

    Raises:
        DatasetError: its model is none that OpenCV has.
    """
    is_fisheye = camera.distortion_model.lower() in FISHEYE_MODELS
    if not is_fisheye and camera.distortion_model.lower() not in PINHOLE_MODELS and any(camera.distortion):
        raise DatasetError(f"{where}: the distortion model {camera.distortion_model} cannot be exported")
    if 0 in camera.size or 0 in camera.focal_px:
        raise DatasetError(f"{where}: its camera_info has no focal length")
    return Intrinsics(
        camera.focal_px,
        camera.principal_px,
        camera.size,
        distortion=tuple(camera.distortion),
        is_fisheye=is_fisheye,
    )
