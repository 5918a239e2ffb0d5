"""The bird's eye view of a sample: boxes that fade into the past, and sensor points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.geometry import Floats, moved, rigid
from edgefirst_ros.formats.l5kit.read.config import RasterParams, ReaderConfig, reader_config
from edgefirst_ros.formats.l5kit.read.fill import box_corners, fill_quads, mark_points
from edgefirst_ros.formats.l5kit.read.window import SceneWindow, Subject, counts_as_agent, ego_poses
from edgefirst_ros.formats.l5kit.store.schema import LIDAR, POINT, RADAR, Records

Image = npt.NDArray[np.float32]
"""(height, width, channels), 0..1."""

_FADE = 0.85
_EGO, _AGENT, _RADAR = (0.0, 1.0, 0.0), (0.0, 0.4, 1.0), (1.0, 0.5, 0.0)
_LEAST_PX = 2**0.5
"""A box of this size covers at least one pixel however it lies."""

_FLOOR_M, _CEILING_M = -0.5, 3.5
_FAINTEST = 0.1


class Rasterizer(Protocol):
    """Draws samples; as L5Kit's rasterizers it knows how many channels it gives, and how to show them."""

    raster_from_agent: Floats
    """(3, 3): metres in the subject's frame to pixels, whole numbers being centres."""
    wanted: str
    """What of the window it draws: "poses", "agents" or "points"."""

    def rasterize(self, window: SceneWindow, subject: Subject) -> Image:
        """The image of a sample."""

    def to_rgb(self, image: Image) -> npt.NDArray[np.uint8]:
        """The image as people like to see it, (height, width, 3)."""

    def num_channels(self) -> int:
        """Channels of the image."""


def build_rasterizer(config: ReaderConfig | Mapping[str, Any]) -> Rasterizer:
    """The rasterizer of the configuration's ``map_type``.

    Raises:
        ConfigError: the configuration is invalid.
    """
    config = reader_config(config)
    kinds: dict[str, type[StubRasterizer | BoxRasterizer | PointRasterizer]] = {
        "stub_debug": StubRasterizer,
        "py_box": BoxRasterizer,
        "box_debug": BoxRasterizer,
        "lidar": PointRasterizer,
    }
    return kinds[config.raster_params.map_type](config)


def raster_from_agent(params: RasterParams) -> Floats:
    """Metres in the subject's frame to pixels (3, 3), as L5Kit places them.

    With ``set_origin_to_bottom`` y is mirrored, so that left of the subject is up in the picture.
    """
    (width, height), (x_m, y_m), (x, y) = params.raster_size, params.pixel_size, params.ego_center
    matrix = np.array([[1 / x_m, 0.0, x * width], [0.0, 1 / y_m, y * height], [0.0, 0.0, 1.0]])
    if params.set_origin_to_bottom:
        matrix = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, height], [0.0, 0.0, 1.0]]) @ matrix
    return matrix


class StubRasterizer:
    """Three black channels, for whoever wants none."""

    wanted = "poses"

    def __init__(self, config: ReaderConfig) -> None:
        self.raster_from_agent = raster_from_agent(config.raster_params)
        self._width, self._height = config.raster_params.raster_size

    def rasterize(self, window: SceneWindow, subject: Subject) -> Image:  # noqa: ARG002 - the protocol's
        """Black."""
        return np.zeros((self._height, self._width, 3), np.float32)

    def to_rgb(self, image: Image) -> npt.NDArray[np.uint8]:
        """Black."""
        return np.zeros((*image.shape[:2], 3), np.uint8)

    def num_channels(self) -> int:
        """3."""
        return 3


class BoxRasterizer:
    """Boxes of all others, then of the subject; a channel a frame, the current one first, then backwards.

    Others are agents that count as such, and the ego vehicle where it is not the subject. Boxes smaller
    than a pixel's diagonal are drawn as large as that, so that none falls between the pixels.
    """

    wanted = "agents"

    def __init__(self, config: ReaderConfig) -> None:
        params = config.raster_params
        self.raster_from_agent = raster_from_agent(params)
        self._width, self._height = params.raster_size
        self._least_m = _LEAST_PX * max(params.pixel_size)
        self._threshold = params.filter_agents_threshold
        self._ego_extent_m = config.ego_extent_m
        self._frames = config.model_params.history_num_frames + 1
        self._own_history = config.model_params.render_ego_history

    def rasterize(self, window: SceneWindow, subject: Subject) -> Image:
        """Channels 0..H others, H+1..2H+1 the subject, for H frames of history."""
        past = slice(max(window.now + 1 - self._frames, 0), window.now + 1)
        ego_position, ego_yaw = ego_poses(window.frames[past])
        ego_layer = np.arange(len(ego_yaw))[::-1]
        shown = counts_as_agent(window.agents, self._threshold)
        shown &= (window.agent_frame >= past.start) & (window.agent_frame < past.stop)
        agents = window.agents[shown]
        layer = window.now - window.agent_frame[shown]
        own = agents["track_id"] == (-1 if subject.track_id is None else subject.track_id)
        own &= subject.track_id is not None
        layer = layer + np.where(own, self._frames, 0)
        if subject.track_id is None:
            ego_layer = ego_layer + self._frames
        extent = np.concatenate([agents["extent"][:, :2], np.tile(self._ego_extent_m[:2], (len(ego_yaw), 1))])
        corners = box_corners(
            np.concatenate([agents["centroid"], ego_position]),
            np.maximum(extent, self._least_m),
            np.concatenate([agents["yaw"], ego_yaw]),
        )
        layers = np.concatenate([layer, ego_layer])
        kept = (layers <= self._frames) | self._own_history
        raster = self.raster_from_agent @ subject.agent_from_world()
        pixels = corners[kept] @ raster[:2, :2].T + raster[:2, 2]
        filled = fill_quads(pixels, layers[kept], (2 * self._frames, self._height, self._width))
        return filled.transpose(1, 2, 0)

    def to_rgb(self, image: Image) -> npt.NDArray[np.uint8]:
        """Others blue, the subject green, the past fading."""
        others, own = image[..., : self._frames], image[..., self._frames : 2 * self._frames]
        canvas = _faded(others, _AGENT)
        mine = _faded(own, _EGO)
        covered = mine.max(axis=2) > 0
        canvas[covered] = mine[covered]
        return (np.clip(canvas, 0, 1) * 255).astype(np.uint8)

    def num_channels(self) -> int:
        """Two a frame."""
        return 2 * self._frames


class PointRasterizer(BoxRasterizer):
    """The boxes of BoxRasterizer, then three channels of the current frame's points.

    Lidar points are 1, their height (0.1 at half a metre below the ground, 1 from 3.5 m up), radar points 1.
    Empty in datasets without points. They are where the sensor saw them, at the time of the frame.
    """

    wanted = "points"

    def rasterize(self, window: SceneWindow, subject: Subject) -> Image:
        """Channels of the boxes, then lidar, lidar height, radar."""
        boxes = super().rasterize(window, subject).transpose(2, 0, 1)
        points = np.zeros(0, POINT) if window.points is None else window.points
        frame = window.frames[window.now]
        pixels, height_m = self._seen(points, frame, subject)
        share = np.clip((height_m - _FLOOR_M) / (_CEILING_M - _FLOOR_M), 0.0, 1.0)
        level = _FAINTEST + (1 - _FAINTEST) * share
        lidar, radar = points["sensor"] == LIDAR, points["sensor"] == RADAR
        shape = (self._height, self._width)
        channels = [
            mark_points(pixels[lidar], np.ones(int(lidar.sum())), shape),
            mark_points(pixels[lidar], level[lidar], shape),
            mark_points(pixels[radar], np.ones(int(radar.sum())), shape),
        ]
        return np.concatenate([boxes, np.stack(channels)]).transpose(1, 2, 0)

    def to_rgb(self, image: Image) -> npt.NDArray[np.uint8]:
        """Boxes, and over them lidar in grey by height and radar in orange."""
        canvas = super().to_rgb(image)
        height, radar = image[..., -2], image[..., -1]
        canvas = np.maximum(canvas, (height * 255).astype(np.uint8)[..., None])
        canvas[radar > 0] = (np.array(_RADAR) * 255).astype(np.uint8)
        return canvas

    def num_channels(self) -> int:
        """Two a frame and three."""
        return super().num_channels() + 3

    def _seen(self, points: Records, frame: np.void, subject: Subject) -> tuple[Floats, Floats]:
        """Pixels (N, 2) of points, and their heights (N,) above the rig's origin."""
        local = points["position_cm"] / 100.0
        world = moved(rigid(frame["ego_rotation"], frame["ego_translation"]), local)
        raster = self.raster_from_agent @ subject.agent_from_world()
        return world[:, :2] @ raster[:2, :2].T + raster[:2, 2], local[:, 2]


def _faded(history: Image, color: tuple[float, float, float]) -> npt.NDArray[np.float64]:
    """Frames over one another, the newest on top and brightest."""
    canvas = np.zeros((*history.shape[:2], 3))
    for channel in np.moveaxis(history, 2, 0)[::-1]:
        canvas *= _FADE
        canvas[channel > 0] = color
    return canvas
