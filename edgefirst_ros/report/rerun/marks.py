"""What is drawn of each kind of data, as Rerun's archetypes; pure, so that any thread may make them.

How the viewer opens: camera, 3-D view, map, radar cube and time series, those of them that there are.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import rerun as rr
import rerun.blueprint as rrb
from PIL import Image, ImageChops, ImageDraw

from edgefirst_ros.formats.scene import Box2d, Box3d, Mark, Points, Ring
from edgefirst_ros.model.radar import Axis, RadarCube
from edgefirst_ros.model.untrusted import displayed
from edgefirst_ros.report.scene import power_db, range_colours

CUBE = "radar_cube"
PICTURE, BOXES_2D, MASKS = "picture", "boxes2d", "masks"
SOLID = frozenset({Mark.LIDAR, Mark.RADAR, Mark.BOXES_3D})
"""First parts of the paths of what is in space."""
PLACE, TRACK = "place", "track"
SPEED = "speed"

MOST_POINTS = 500_000
"""Of a cloud; the others are left out."""
FAST_M_S = 15.0
"""Speed towards or from the radar that has the full colour."""
LOUD_DB = 25.0
"""Above the noise, least that has the brightest colour: a cube without targets stays dark."""
LIDAR_RADIUS, RADAR_RADIUS = -1.5, -4.0
"""Negative: in points of the screen."""
MASK_OPACITY = 110
_AWAY, _STILL, _TOWARDS = np.array([255, 80, 60]), np.array([190, 190, 190]), np.array([70, 140, 255])
_CLASSES = (
    (255, 214, 0), (80, 200, 255), (255, 120, 80), (120, 230, 120), (230, 120, 255), (255, 170, 200),
    (120, 160, 255), (200, 220, 80), (80, 230, 200), (255, 180, 90),
)  # fmt: skip
AXES = ((235, 80, 70), (90, 200, 90), (90, 140, 255))
"""Of x, y and z."""
_PALETTE = [0, 0, 0, *(channel for colour in _CLASSES for channel in colour)]
_TRANSPARENCY = bytes([0, *[MASK_OPACITY] * len(_CLASSES)])


def colour_of(label: str) -> tuple[int, int, int]:
    """The same colour wherever a class appears."""
    return _CLASSES[crc32(label.encode("utf-8", "replace")) % len(_CLASSES)] if label else _CLASSES[0]


def picture(data: bytes) -> Any:  # noqa: ANN401 - Rerun is an extra
    """A JPEG or PNG as it is."""
    media = "jpeg" if data.startswith(b"\xff\xd8") else "png"
    return rr.EncodedImage(contents=data, media_type=f"image/{media}", draw_order=-10.0)


def boxes_2d(boxes: Iterable[Box2d], size: tuple[int, int]) -> Any:  # noqa: ANN401
    """Boxes on a picture of ``size`` pixels; none clears those before."""
    known = [box for box in boxes if all(map(math.isfinite, box[:4]))]
    scale = np.array(size, np.float32)
    centres = np.array([(box.x, box.y) for box in known], np.float32).reshape(-1, 2) * scale
    sizes = np.array([(box.width, box.height) for box in known], np.float32).reshape(-1, 2) * scale
    return rr.Boxes2D(
        centers=centres,
        sizes=np.abs(sizes),
        labels=[displayed(box.label) for box in known],
        colors=[colour_of(box.label) for box in known],
        draw_order=20.0,
    )


def masks(outlines: Iterable[tuple[str, Sequence[Ring]]], size: tuple[int, int]) -> Any:  # noqa: ANN401
    """Filled outlines on a picture of ``size`` pixels: label and rings, whose holes are rings within.

    They become a PNG, which takes little memory however long the drive is, and all with one palette, because
    the viewer takes the pictures of an entity for a video, whose pictures are all of a kind.
    """
    raster = Image.new("P", size, 0)
    for label, rings in outlines:
        area = Image.new("1", size, 0)
        for ring in rings:
            _turn_over(area, np.asarray(ring, np.float64).reshape(-1, 2) * size)
        raster.paste(1 + _CLASSES.index(colour_of(label)), mask=area)
    raster.putpalette(_PALETTE)
    buffer = io.BytesIO()
    raster.save(buffer, "PNG", transparency=_TRANSPARENCY, compress_level=1, bits=8)
    return rr.EncodedImage(contents=buffer.getvalue(), media_type="image/png", draw_order=10.0)


def _turn_over(area: Image.Image, corners: Points) -> None:
    """Turn what is within a polygon into what is not, so that a ring within a ring is a hole."""
    if len(corners) < 3 or not np.isfinite(corners).all():
        return
    corners = corners.clip(0, area.size)
    left, top = (int(edge) for edge in corners.min(axis=0))
    right, bottom = (
        min(int(edge) + 1, limit) for edge, limit in zip(corners.max(axis=0), area.size, strict=True)
    )
    if right <= left or bottom <= top:
        return
    within = Image.new("1", (right - left, bottom - top), 0)
    ImageDraw.Draw(within).polygon([tuple(c) for c in (corners - (left, top)).tolist()], fill=1)
    area.paste(ImageChops.logical_xor(area.crop((left, top, right, bottom)), within), (left, top))


def by_range(points: Points) -> Any:  # noqa: ANN401
    """A cloud (N, 3) in metres: red is near, violet is far."""
    points = _finite(points)[0]
    return rr.Points3D(
        points.astype(np.float32), colors=range_colours(np.linalg.norm(points, axis=1)), radii=LIDAR_RADIUS
    )


def by_speed(points: Points, speed_m_s: npt.NDArray[np.float64]) -> Any:  # noqa: ANN401
    """A radar's cloud (N, 3) by speeds (N,) from it: blue comes nearer, gray stands, red goes away."""
    points, known = _finite(points)
    speed = np.nan_to_num(speed_m_s[:MOST_POINTS][known])
    share = np.clip(speed / FAST_M_S, -1, 1)[:, None]
    ends = np.where(share > 0, _AWAY, _TOWARDS)
    colours = (_STILL + np.sqrt(np.abs(share)) * (ends - _STILL)).astype(np.uint8)
    return rr.Points3D(points.astype(np.float32), colors=colours, radii=RADAR_RADIUS)


def _finite(points: Points) -> tuple[Points, npt.NDArray[np.bool_]]:
    points = points[:MOST_POINTS]
    known = np.asarray(np.isfinite(points).all(axis=1), np.bool_)
    return points[known], known


def cube(radar: RadarCube) -> Any:  # noqa: ANN401
    """Power in decibels above the noise by range and Doppler, as a tensor whose axes name their bins.

    A bin shows the strongest of its neighbours: a target may be a single one, which is smaller than a pixel.
    """
    near = np.pad(power_db(radar), 1, mode="edge")
    power = np.lib.stride_tricks.sliding_window_view(near, (3, 3)).max(axis=(2, 3))
    shown = np.maximum(power - float(np.median(power)), 0.0).astype(np.float16)
    return rr.Tensor(shown, dim_names=axis_names(radar), value_range=(0.0, max(LOUD_DB, float(shown.max()))))


def axis_names(radar: RadarCube) -> tuple[str, str]:
    """Names of a cube's rows and columns with the length of a bin."""
    scales = dict(zip(radar.layout, radar.scales, strict=True))
    names = []
    for axis, name, unit in ((Axis.RANGE, "range", "m"), (Axis.DOPPLER, "doppler", "m/s")):
        scale = scales.get(axis, 1.0)
        names.append(
            f"{name} ({scale:.3g} {unit})" if scale not in {0.0, 1.0} and math.isfinite(scale) else name
        )
    return names[0], names[1]


def boxes_3d(boxes: Iterable[Box3d]) -> Any:  # noqa: ANN401
    """Boxes in the frame of their entity; none clears those before."""
    known = [b for b in boxes if all(map(math.isfinite, (*b.centre_m, *b.size_m, *b.rotation_xyzw)))]
    return rr.Boxes3D(
        centers=np.array([box.centre_m for box in known], np.float32).reshape(-1, 3),
        sizes=np.abs(np.array([box.size_m for box in known], np.float32).reshape(-1, 3)),
        quaternions=[box.rotation_xyzw for box in known],
        labels=[displayed(box.label) for box in known],
        colors=[colour_of(box.label) for box in known],
    )


EYE_M, LOOK_AT_M = (-14.0, 0.0, 9.0), (10.0, 0.0, 0.0)
"""Behind the rig and above it, in the rig's frame."""
_BACKGROUND = (22, 24, 28)
_SERIES = (
    (SPEED, "speed, m/s"),
    (Mark.FORCE, "acceleration, m/s²"),
    (Mark.TURN, "rotation, rad/s"),
    (Mark.ATTITUDE, "attitude, deg"),
    (Mark.ALTITUDE, "altitude, m"),
)
MOST_SERIES = 3
"""Beside one another; the others are behind tabs of the last one."""


def blueprint(seen: frozenset[str], rig: str, timeline: str) -> rrb.Blueprint:
    """The layout for what has been drawn.

    Args:
        seen: entities by path.
        rig: frame that the 3-D view moves with.
        timeline: that the time panel shows.
    """
    cameras = sorted(path.rpartition("/")[0] for path in seen if path.endswith(f"/{PICTURE}"))
    solid = sorted(path for path in seen if _head(path) in SOLID)
    left: list[Any] = []
    if cameras:
        left.append(_several([_camera(path, solid) for path in cameras]))
    cubes = sorted(path for path in seen if _head(path) == CUBE)
    below: list[Any] = []
    if any(path.startswith(f"{PLACE}/") for path in seen):
        below.append(rrb.MapView(origin=PLACE, name="map"))
    below += [_cube(path) for path in cubes[:1]]
    if below:
        left.append(rrb.Horizontal(*below) if len(below) > 1 else below[0])
    right: list[Any] = []
    if solid or TRACK in seen or not left:
        right.append(_space(rig))
    series = [_plot(path, name) for path, name in _SERIES if path in seen]
    if series:
        right.append(_row(series))
    columns = [_column(views) for views in (left, right) if views]
    return rrb.Blueprint(
        rrb.Horizontal(*columns, column_shares=[5, 6][: len(columns)]),
        rrb.BlueprintPanel(state="collapsed"),
        rrb.SelectionPanel(state="collapsed"),
        rrb.TimePanel(state="collapsed", timeline=timeline),
        auto_views=False,
        auto_layout=False,
    )


def _head(path: str) -> str:
    return path.partition("/")[0]


def _column(views: list[Any]) -> Any:  # noqa: ANN401 - Rerun is an extra
    return rrb.Vertical(*views, row_shares=[2, 1]) if len(views) > 1 else views[0]


def _several(views: list[Any]) -> Any:  # noqa: ANN401
    return rrb.Tabs(*views) if len(views) > 1 else views[0]


def _camera(path: str, solid: list[str]) -> Any:  # noqa: ANN401
    """The picture with what is drawn on it; points and boxes of space are projected onto it behind a tab."""
    plain = rrb.Spatial2DView(origin=path, contents=[f"+ /{path}/**"], name=path)
    if not solid:
        return plain
    both = [f"+ /{path}/**", *(f"+ /{each}/**" for each in solid)]
    return rrb.Tabs(plain, rrb.Spatial2DView(origin=path, contents=both, name=f"{path} + 3-D"), name=path)


def _cube(path: str) -> Any:  # noqa: ANN401
    return rrb.TensorView(
        origin=path,
        name="radar cube",
        scalar_mapping=rrb.TensorScalarMapping(colormap="inferno", gamma=0.7, mag_filter="nearest"),
        slice_selection=rrb.TensorSliceSelection(
            width=1, height=rr.TensorDimensionSelection(dimension=0, invert=True)
        ),
        view_fit="fill",
    )


def _space(rig: str) -> Any:  # noqa: ANN401
    return rrb.Spatial3DView(
        origin="/",
        contents=["+ /**", f"- /{PLACE}/**", f"- /{CUBE}/**"],
        name="3-D",
        background=_BACKGROUND,
        spatial_information=rrb.SpatialInformation(target_frame=rig, axes=rr.ViewCoordinates.FLU),
        eye_controls=rrb.EyeControls3D(position=EYE_M, look_target=LOOK_AT_M, eye_up=(0.0, 0.0, 1.0)),
    )


def _plot(path: str, name: str) -> Any:  # noqa: ANN401
    return rrb.TimeSeriesView(
        origin=path, name=name, plot_legend=rrb.PlotLegend(corner="LeftTop", visible=True)
    )


def _row(series: list[Any]) -> Any:  # noqa: ANN401
    if len(series) <= MOST_SERIES:
        return rrb.Horizontal(*series) if len(series) > 1 else series[0]
    first, rest = series[: MOST_SERIES - 1], series[MOST_SERIES - 1 :]
    return rrb.Horizontal(*first, rrb.Tabs(*rest))
