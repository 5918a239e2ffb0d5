"""What sequences of datasets are drawn from: instants in order, of which those that are wanted are drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pymap3d

from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.scene import Detail, Drawable, Instant, Mark, Moment, Scene, Scenes, opened
from edgefirst_ros.model.camera import Intrinsics
from edgefirst_ros.model.detection import BoxAxes
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound
from edgefirst_ros.model.sample import Role
from edgefirst_ros.model.transform import Transform, quaternion_of_angles
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.report.models import Report, read_report
from edgefirst_ros.report.models import Sequence as ReportSequence
from edgefirst_ros.report.rerun import marks
from edgefirst_ros.report.rerun.canvas import Canvas
from edgefirst_ros.report.runs import Run

Window = Callable[[int], tuple[int, int]]
"""From the time of a sequence's first instant to begin and end of those that are wanted, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which instants are drawn; None is no limit."""

    window: Window | None = None
    rate_hz: float | None = None
    every_n: int | None = None


def drawables_of(run: Run) -> list[Drawable]:
    """The sequences of a run's datasets, of the first of its formats that has some to draw.

    Raises:
        DatasetNotFound: it has none that can be drawn.
        EdgeFirstError: one is damaged.
    """
    said = Report() if run.report is None else read_report(run.report)
    names: list[str] = []
    for of, folders in run.of_format():
        names.append(of.name)
        with refusing(folders[0], DatasetError):
            if found := [each for folder in folders for each in _drawn(of, folder, said)]:
                return found
    raise DatasetNotFound(f"no dataset is there that can be drawn; found: {', '.join(names) or 'none'}")


def _drawn(of: Format[Any], folder: Path, report: Report) -> Iterator[Drawable]:
    """The sequences of a dataset, by default what its scenes show of them."""
    own = of.drawings(folder)
    yield from own
    scenes = None if own else of.scenes(folder)
    if scenes is not None:
        together = groupby(scenes.moments(), key=lambda moment: (moment.sequence, moment.part))
        for (name, _), moments in together:
            yield SceneDrawing(scenes, list(moments), report.sequence(name))


class SceneDrawing:
    """A sequence as its scenes show it; see ``Drawable``.

    Args:
        scenes: of the dataset.
        moments: those of the sequence.
        said: what the report says of it, which has where the sensors are.
    """

    def __init__(self, scenes: Scenes, moments: Sequence[Moment], said: ReportSequence | None) -> None:
        self._scenes, self._moments = scenes, moments
        self._calibration = None if said is None else said.calibration
        self._said = said
        mounts = self._calibration.transforms if self._calibration is not None else ()
        self._mounts = [Transform(t.parent, t.child, t.translation_m, t.rotation_xyzw) for t in mounts]
        self._axes = BoxAxes.of(self._frame_of(Role.BOXES_3D), [mount.child for mount in self._mounts])
        self._origin: tuple[float, float, float] | None = None
        self._has_begun = False

    def __len__(self) -> int:
        return len(self._moments)

    def begin(self, canvas: object) -> None:
        """Sensors are drawn with the first picture, which says what size pictures have."""

    def instants(self) -> Iterator[Instant]:
        """All samples."""
        for moment in self._moments:
            timed = self._scenes.timed(moment)
            yield Instant(timed.time_ns, partial(self._draw, moment))

    def _draw(self, moment: Moment, canvas: Canvas, number: int) -> None:
        scene = self._scenes.scene(moment, Detail.ALL)
        time_ns, picture = scene.moment.time_ns, scene.picture
        with refusing(scene.name or moment.sequence, DatasetError):
            size = None if picture is None else opened(picture)[1]
            if not self._has_begun and scene.points_frame is None:
                self._has_begun = True
                self._draw_sensors(canvas, size)
            self._move(scene, canvas, number)
            canvas.at(time_ns, number)
            if picture is not None and size is not None:
                canvas.picture(Mark.CAMERA, picture, scene.boxes, size)
                if scene.masks or f"{Mark.CAMERA}/{marks.MASKS}" in canvas.seen:
                    canvas.on_picture(Mark.CAMERA, marks.MASKS, marks.masks(scene.masks, size))
            lidar = None if scene.points is None else (scene.points, None)
            for path, role, cloud in (
                (Mark.LIDAR, Role.LIDAR_POINTS, lidar),
                (Mark.RADAR, Role.RADAR_TARGETS, scene.radar),
            ):
                if cloud is not None or path in canvas.seen:
                    points, speed_m_s = cloud or (np.zeros((0, 3)), None)
                    canvas.cloud(path, points, scene.points_frame or self._frame_of(role), speed_m_s)
            if scene.solids is not None or Mark.BOXES_3D in canvas.seen:
                self._draw_boxes(scene, canvas)
            if scene.cube is not None:
                canvas.draw(marks.CUBE, marks.cube(scene.cube))

    def _frame_of(self, role: Role) -> str:
        return "" if self._said is None else self._said.frame_of(role)

    def _draw_sensors(self, canvas: Canvas, size: tuple[int, int] | None) -> None:
        canvas.mount(self._mounts)
        seen = None if self._calibration is None else self._calibration.camera
        if seen is not None and size is not None and 0 not in seen.size and 0 not in seen.focal_px:
            across, down = size[0] / seen.size[0], size[1] / seen.size[1]
            focal = seen.focal_px[0] * across, seen.focal_px[1] * down
            principal = seen.principal_px[0] * across, seen.principal_px[1] * down
            canvas.camera(Mark.CAMERA, Intrinsics(focal, principal, size), self._frame_of(Role.CAMERA))

    def _draw_boxes(self, scene: Scene, canvas: Canvas) -> None:
        boxes, axes = scene.solids or (), self._axes
        if scene.solids_frame is None:
            boxes = [
                replace(b, centre_m=axes.turned_m(b.centre_m), size_m=axes.turned_extents_m(b.size_m))
                for b in boxes
            ]
        canvas.boxes_3d(Mark.BOXES_3D, boxes, scene.solids_frame or axes.frame_id)

    def _move(self, scene: Scene, canvas: Canvas, number: int) -> None:
        time_ns, attitude_deg, position_m = scene.moment.time_ns, scene.attitude_deg, scene.position_m
        if scene.place is not None:
            canvas.place(time_ns, *scene.place, number)
            here = *scene.place, 0.0
            self._origin = self._origin or here
            if position_m is None:
                east_m, north_m, _ = map(float, pymap3d.geodetic2enu(*here, *self._origin))
                position_m = east_m, north_m, 0.0
        if time_ns is None or attitude_deg is None:
            return
        canvas.scalars(Mark.ATTITUDE, time_ns, attitude_deg)
        if position_m is not None:
            turned = quaternion_of_angles(np.radians(attitude_deg))
            canvas.pose(time_ns, position_m, tuple(turned.tolist()), number)


def draw_all(
    drawables: Iterable[Drawable],
    canvas: Canvas,
    wanted: Wanted,
    stop: threading.Event,
    passed: Callable[[int], None],
) -> int:
    """Draw sequences one after another; how many instants were drawn.

    Args:
        drawables: the sequences.
        canvas: where to.
        wanted: of what.
        stop: when set, what has been drawn stays.
        passed: called after every instant with how many there were so far.

    Raises:
        ConfigError: a part by time is wanted of samples without times.
        EdgeFirstError: a dataset is damaged.
    """
    seen = drawn = 0
    for drawable in drawables:
        canvas.begin()
        drawable.begin(canvas)
        selection = _Selection(wanted)
        for instant in drawable.instants():
            seen += 1
            if selection.takes(instant):
                instant.draw(canvas, drawn)
                drawn += 1
            passed(seen)
            if stop.is_set():
                return drawn
            if selection.is_over:
                break
    return drawn


class _Selection:
    """Which instants of one sequence are wanted."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._span: tuple[int, int] | None = None
        self._due_ns: int | None = None
        self._samples = 0
        self.is_over = False

    def takes(self, instant: Instant) -> bool:
        wanted, time_ns = self._wanted, instant.time_ns
        if time_ns is None:
            if wanted.window is not None or wanted.rate_hz is not None:
                advice = "take --every-n in place of --start, --end and --rate"
                raise ConfigError([f"samples of this dataset have no times: {advice}"])
        elif wanted.window is not None:
            self._span = self._span or wanted.window(time_ns)
            self.is_over = time_ns >= self._span[1]
            if not self._span[0] <= time_ns < self._span[1]:
                return False
        if not instant.is_sample:
            return True
        self._samples += 1
        if wanted.every_n is not None and (self._samples - 1) % wanted.every_n:
            return False
        if wanted.rate_hz is not None and time_ns is not None:
            period_ns = round(1e9 / wanted.rate_hz)
            due_ns = time_ns if self._due_ns is None else self._due_ns
            if time_ns < due_ns:
                return False
            # The grid is kept, so that the rate is met whatever that of the samples is.
            self._due_ns = max(due_ns + period_ns, time_ns + period_ns // 2)
        return True
