"""What is drawn goes through here: entities, coordinate frames, the rig's way, and time series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import rerun as rr

from edgefirst_ros.formats.scene import Box2d, Box3d, Frame, Mark, Points
from edgefirst_ros.model.camera import Intrinsics
from edgefirst_ros.model.transform import Transform
from edgefirst_ros.model.untrusted import displayed
from edgefirst_ros.report.rerun import marks
from edgefirst_ros.report.rerun.marks import blueprint

DRIVE, RIG = Frame
TIME, SAMPLE = "time", "sample"
"""Timelines: nanoseconds since 1970 of the recording's clock; running number of the sample."""
ROWS = 128
"""Of a time series that are sent together."""
MOST_CORNERS = 20_000
"""Of the rig's way; of a longer one every other is left out, again and again."""
LEAST_STEP_M, LEAST_STEP_DEG = 0.2, 2e-6
WAY = (80, 160, 255)
AXES_M, PLANE_M = 1.0, 2.0
SPEED_OVER_NS = 400_000_000
"""A speed is that between two poses at least so far apart: nearer ones show their noise."""
BODY_M = (4.5, 1.9, 1.5)
"""Of a vehicle around the rig's origin, which shows directions and distances; it is no measured one."""
_NAMES: dict[str, tuple[str, ...]] = {
    marks.SPEED: ("speed",),
    Mark.ALTITUDE: ("altitude",),
    Mark.ATTITUDE: ("roll", "pitch", "yaw"),
    Mark.TURN: ("x", "y", "z"),
    Mark.FORCE: ("x", "y", "z"),
}


class Canvas:
    """Draws into a Rerun recording, see ``formats.scene.Canvas``; to be used by one thread at a time.

    Args:
        stream: of Rerun.
        live: a viewer is watching, so it gets another layout as soon as there is more to show.

    Attributes:
        seen: what has been drawn, by path.
    """

    def __init__(self, stream: rr.RecordingStream, *, live: bool) -> None:
        self._stream = stream
        self._live = live
        self.seen: set[str] = set()
        self._series: dict[str, list[tuple[int, tuple[float, ...]]]] = {}
        self._frames: dict[str, str] = {}
        self._mounts: dict[str, Transform] = {}
        self._cameras: dict[str, tuple[Intrinsics, str]] = {}
        self._way = _Way()
        self._is_timed = False
        self._suffix = ""
        body = rr.Boxes3D(centers=[(0, 0, BODY_M[2] / 2)], sizes=[BODY_M], colors=[(110, 120, 140)])
        stream.log("rig/body", rr.CoordinateFrame(RIG), body, rr.TransformAxes3D(AXES_M), static=True)

    def at(self, time_ns: int | None, sample: int | None = None) -> None:
        """What is drawn from now on is of this time, of this sample, or both."""
        self._stream.reset_time()
        if time_ns is not None:
            self._is_timed = True
            self._stream.set_time(TIME, timestamp=np.datetime64(time_ns, "ns"))
        if sample is not None:
            self._stream.set_time(SAMPLE, sequence=sample)

    def of(self, name: str) -> None:
        """What is drawn from now on is of another sensor of its kind, of this name; empty: of the first."""
        self._suffix = f"_{name}" if name else ""

    def _of_sensor(self, path: str) -> str:
        kind, slash, rest = path.partition("/")
        return f"{kind}{self._suffix}{slash}{rest}"

    def draw(self, path: str, what: Any, *, frame: str | None = None) -> None:  # noqa: ANN401 - Rerun's
        """Draw at a path; ``frame`` is that of its coordinates, of whichever transforms there are."""
        path = self._of_sensor(path)
        if frame is not None:
            self._put_into(path, self._frame(frame))
        self._log(path, what)

    def on_picture(self, camera: str, name: str, what: Any) -> None:  # noqa: ANN401 - Rerun's
        """Draw something that has a camera's pixels as coordinates."""
        camera = self._of_sensor(camera)
        self._put_into(camera, _image_frame(camera))
        self._put_into(f"{camera}/{name}", _image_frame(camera))
        self._log(f"{camera}/{name}", what)

    def picture(self, camera: str, data: bytes, boxes: Iterable[Box2d], size: tuple[int, int]) -> None:
        """Draw a camera's JPEG or PNG of that size, and what was found on it."""
        self.on_picture(camera, marks.PICTURE, marks.picture(data))
        self.on_picture(camera, marks.BOXES_2D, marks.boxes_2d(boxes, size))

    def mask(self, camera: str, name: str, png: bytes) -> None:
        """Masks of the vehicle are not drawn."""

    def cloud(
        self,
        path: str,
        points: Points,
        frame: str,
        speed_m_s: Points | None = None,
        times_ns: Any = None,  # noqa: ANN401, ARG002 - a sweep is drawn at its end
    ) -> None:
        """Draw points, those of a radar by their speeds."""
        what = marks.by_range(points) if speed_m_s is None else marks.by_speed(points, speed_m_s)
        self.draw(path, what, frame=frame)

    def boxes_3d(self, path: str, boxes: Iterable[Box3d], frame: str) -> None:
        """Draw boxes in a frame; none clears those before."""
        self.draw(path, marks.boxes_3d(boxes), frame=frame)

    def camera(self, path: str, intrinsics: Intrinsics, frame: str) -> None:
        """How a camera sees; its frame has z forward and x right."""
        path, found = self._of_sensor(path), (intrinsics, self._frame(frame))
        if self._cameras.get(path) == found:
            return
        self._cameras[path] = found
        pinhole = rr.Pinhole(
            focal_length=intrinsics.focal_px,
            principal_point=intrinsics.principal_px,
            resolution=intrinsics.size,
            camera_xyz=rr.ViewCoordinates.RDF,
            parent_frame=found[1],
            child_frame=_image_frame(path),
            image_plane_distance=PLANE_M,
        )
        self._stream.log(path, pinhole, static=True)

    def mount(self, mounts: Iterable[Transform]) -> None:
        """Where sensors are; a mount that changes holds for all of the drive, which has one place for it."""
        for mount in mounts:
            parent, child = _own(mount.parent), _own(mount.child)
            if child == RIG or self._mounts.get(child) == mount:
                continue
            self._mounts[child] = mount
            self._transform(parent, child, mount.translation_m, mount.rotation_xyzw)
            if parent not in self._mounts:
                self._frame(mount.parent)

    def pose(
        self,
        time_ns: int,
        position_m: tuple[float, float, float],
        rotation_xyzw: tuple[float, float, float, float],
        sample: int | None = None,
    ) -> None:
        """Where the rig is in the local frame."""
        self._begin_way(time_ns, sample)
        speed_m_s = self._way.go(time_ns, position_m)
        if speed_m_s is not None:
            self.scalars(marks.SPEED, time_ns, (speed_m_s,))
        self.at(time_ns, sample)
        turned = rr.Quaternion(xyzw=rotation_xyzw)
        self._log(
            "rig",
            rr.Transform3D(translation=position_m, quaternion=turned, parent_frame=DRIVE, child_frame=RIG),
        )

    def place(
        self, time_ns: int | None, latitude_deg: float, longitude_deg: float, sample: int | None = None
    ) -> None:
        """Where the rig is on earth."""
        if not (abs(latitude_deg) <= 90 and abs(longitude_deg) <= 360):
            return
        self._begin_way(time_ns, sample)
        self._way.globe.add((latitude_deg, longitude_deg))
        self.at(time_ns, sample)
        here = [(latitude_deg, longitude_deg)]
        self._log(f"{marks.PLACE}/now", rr.GeoPoints(lat_lon=here, radii=-7.0, colors=[(255, 90, 60)]))

    def scalars(self, path: str, time_ns: int, values: tuple[float, ...]) -> None:
        """A row of a time series."""
        rows = self._series.setdefault(path, [])
        if not rows and path not in self.seen:
            self._note(path)
            names = _NAMES[path]
            self._stream.log(path, rr.SeriesLines(names=names, colors=marks.AXES[: len(names)]), static=True)
        rows.append((time_ns, values))
        if len(rows) >= ROWS:
            self._send(path)

    def begin(self) -> None:
        """Another sequence begins, whose local frame may be another one."""
        self._send_way()
        self._way = _Way()

    def finish(self) -> None:
        """Send what is left, and the layout."""
        for path in self._series:
            self._send(path)
        self._send_way()
        self._send_layout()
        self._stream.flush()

    def _log(self, path: str, what: Any) -> None:  # noqa: ANN401 - Rerun's
        path = displayed(path)
        self._note(path)
        self._stream.log(path, what)

    def _note(self, path: str) -> None:
        if path not in self.seen:
            self.seen.add(path)
            if self._live:
                self._send_layout()

    def _send_layout(self) -> None:
        timeline = TIME if self._is_timed else SAMPLE
        self._stream.send_blueprint(blueprint(frozenset(self.seen), RIG, timeline))

    def _send(self, path: str) -> None:
        rows = self._series[path]
        if rows:
            times = np.array([time_ns for time_ns, _ in rows], "datetime64[ns]")
            values = np.array([row for _, row in rows], np.float64)
            self._stream.send_columns(
                path, [rr.TimeColumn(TIME, timestamp=times)], rr.Scalars.columns(scalars=values)
            )
            rows.clear()

    def _begin_way(self, time_ns: int | None, sample: int | None) -> None:
        if self._way.begin is None:
            self._way.begin = time_ns, sample

    def _send_way(self) -> None:
        way = self._way
        if way.begin is None:
            return
        self.at(*way.begin)
        local, globe = np.array(way.local.corners), np.array(way.globe.corners)
        if len(local) > 1:
            self._put_into(marks.TRACK, DRIVE)
            self._log(marks.TRACK, rr.LineStrips3D([local], colors=[WAY], radii=-1.5))
        if len(globe) > 1:
            self._log(f"{marks.PLACE}/way", rr.GeoLineStrings(lat_lon=[globe], colors=[WAY], radii=-2.5))

    def _frame(self, name: str) -> str:
        """A frame of the recording; one that no transform has is taken to be the rig's."""
        frame = _own(name)
        if frame not in {DRIVE, RIG} and frame not in self._mounts:
            self._mounts[frame] = Transform(RIG, frame, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
            self._transform(RIG, frame, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
        return frame

    def _transform(
        self, parent: str, child: str, translation_m: Sequence[float], rotation_xyzw: Sequence[float]
    ) -> None:
        path = f"mounts/{rr.escape_entity_path_part(child)}"
        transform = rr.Transform3D(
            translation=translation_m,
            quaternion=rr.Quaternion(xyzw=rotation_xyzw),
            parent_frame=parent,
            child_frame=child,
        )
        self._stream.log(path, transform, static=True)
        self._stream.log(
            f"{path}/axes", rr.CoordinateFrame(child), rr.TransformAxes3D(AXES_M / 3), static=True
        )

    def _put_into(self, path: str, frame: str) -> None:
        path = displayed(path)
        if self._frames.get(path) != frame:
            self._frames[path] = frame
            self._stream.log(path, rr.CoordinateFrame(frame), static=True)


def _own(frame: str) -> str:
    """The name of a recording's frame, which cannot be taken for one of ours."""
    if isinstance(frame, Frame):
        return frame
    name = displayed(frame.strip().lstrip("/"))
    if not name:
        return RIG
    return f"/{name}" if name in {DRIVE, RIG} or name.startswith("tf#") else name


def _image_frame(camera: str) -> str:
    return f"{camera} picture"


class _Line:
    """Corners of a line that are some distance apart, which grows as the line does."""

    def __init__(self, apart: float) -> None:
        self.corners: list[tuple[float, ...]] = []
        self._apart = apart

    def add(self, corner: tuple[float, ...]) -> None:
        if self.corners and math.dist(self.corners[-1], corner) < self._apart:
            return
        self.corners.append(corner)
        if len(self.corners) > MOST_CORNERS:
            del self.corners[1::2]
            self._apart *= 2


class _Way:
    """Where the rig went in one sequence."""

    def __init__(self) -> None:
        self.begin: tuple[int | None, int | None] | None = None
        self.local = _Line(LEAST_STEP_M)
        self.globe = _Line(LEAST_STEP_DEG)
        self._before: tuple[int, tuple[float, float, float]] | None = None

    def go(self, time_ns: int, position_m: tuple[float, float, float]) -> float | None:
        """Add a position; the speed since an earlier one, where that is long enough ago."""
        self.local.add(position_m)
        before = self._before
        if before is not None and time_ns - before[0] < SPEED_OVER_NS:
            return None
        self._before = time_ns, position_m
        return None if before is None else math.dist(before[1], position_m) / ((time_ns - before[0]) / 1e9)
