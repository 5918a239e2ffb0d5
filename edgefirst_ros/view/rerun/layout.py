"""How the viewer opens: camera, 3-D view, map, radar cube and time series, those of them that there are."""

from __future__ import annotations

from typing import Any

import rerun as rr
import rerun.blueprint as rrb

from edgefirst_ros.formats.scene import Mark
from edgefirst_ros.view.rerun import marks

EYE_M, LOOK_AT_M = (-14.0, 0.0, 9.0), (10.0, 0.0, 0.0)
"""Behind the rig and above it, in the rig's frame."""
_BACKGROUND = (22, 24, 28)
_SERIES = (
    (marks.SPEED, "speed, m/s"),
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
    cameras = sorted(path.rpartition("/")[0] for path in seen if path.endswith(f"/{marks.PICTURE}"))
    solid = sorted(path for path in seen if _head(path) in marks.SOLID)
    left: list[Any] = []
    if cameras:
        left.append(_several([_camera(path, solid) for path in cameras]))
    cubes = sorted(path for path in seen if _head(path) == marks.CUBE)
    below: list[Any] = []
    if any(path.startswith(f"{marks.PLACE}/") for path in seen):
        below.append(rrb.MapView(origin=marks.PLACE, name="map"))
    below += [_cube(path) for path in cubes[:1]]
    if below:
        left.append(rrb.Horizontal(*below) if len(below) > 1 else below[0])
    right: list[Any] = []
    if solid or marks.TRACK in seen or not left:
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
        contents=["+ /**", f"- /{marks.PLACE}/**", f"- /{marks.CUBE}/**"],
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
