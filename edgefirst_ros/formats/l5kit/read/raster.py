"""The bird's eye view of a sample: boxes that fade into the past, and sensor points; and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from edgefirst_ros.formats.l5kit.geometry import Floats, moved
from edgefirst_ros.formats.l5kit.read.sampling import SceneWindow, Subject, counts_as_agent, ego_poses
from edgefirst_ros.formats.l5kit.store.schema import LIDAR, POINT, RADAR, Records
from edgefirst_ros.model.errors import ConfigError, sentences
from edgefirst_ros.model.transform import rigid

MapType = Literal["py_box", "box_debug", "lidar", "stub_debug"]

# L5Kit's files say more than samples need (training, satellite maps), so other keys are passed over.
_LENIENT = ConfigDict(frozen=True, extra="ignore")


class ModelParams(BaseModel):
    """How much of the past and the future a sample holds, in frames."""

    model_config = _LENIENT

    history_num_frames: int = Field(default=0, ge=0, description="Frames before the current one.")
    future_num_frames: int = Field(default=50, ge=0, description="Frames after the current one.")
    step_time: float = Field(
        default=0.1, gt=0, description="Seconds from frame to frame, which velocities are differences over."
    )
    render_ego_history: bool = Field(default=True, description="Draw where the sample's own agent was.")


class RasterParams(BaseModel):
    """The bird's eye view, which is centred on the sample's agent and turned with it."""

    model_config = _LENIENT

    raster_size: tuple[int, int] = Field(default=(224, 224), description="Width and height in pixels.")
    pixel_size: tuple[float, float] = Field(default=(0.5, 0.5), description="Metres a pixel, x and y.")
    ego_center: tuple[float, float] = Field(
        default=(0.25, 0.5), description="Where the agent is, as a share of width and height."
    )
    map_type: MapType = Field(
        default="py_box",
        description="py_box, which L5Kit calls box_debug: agents and ego. lidar: these and the sensor points "
        "that this package keeps beside its datasets. stub_debug: three black channels.",
    )
    set_origin_to_bottom: bool = Field(
        default=True, description="y of the world is up in the picture; False mirrors it, as L5Kit did first."
    )
    filter_agents_threshold: float = Field(
        default=0.5, description="Draw and choose agents whose labels CAR to ANIMAL add up to more."
    )
    disable_traffic_light_faces: bool = Field(default=False, description="Accepted, nothing draws them.")

    @field_validator("raster_size", "pixel_size")
    @classmethod
    def _positive(cls, value: tuple[float, float]) -> tuple[float, float]:
        if min(value) <= 0:
            raise ValueError(f"must be more than 0, found {value}")
        return value


class ReaderConfig(BaseModel):
    """Configuration of EgoDataset and AgentDataset; every field has L5Kit's default."""

    model_config = _LENIENT

    model_params: ModelParams = ModelParams()
    raster_params: RasterParams = RasterParams()
    ego_extent_m: tuple[float, float, float] = Field(
        default=(4.87, 1.85, 1.8), description="Length, width, height of the ego vehicle, which no array has."
    )


def reader_config(values: ReaderConfig | Mapping[str, Any]) -> ReaderConfig:
    """A configuration from plain values, such as one of L5Kit's YAML files.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    if isinstance(values, ReaderConfig):
        return values
    try:
        return ReaderConfig.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(sentences(error, ReaderConfig)) from error


_CORNERS = np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, 0.5], [0.5, -0.5]])


def box_corners(centroid: Floats, extent: Floats, yaw: Floats) -> Floats:
    """Corners (N, 4, 2) of upright boxes seen from above, in order around each.

    Args:
        centroid: (N, 2).
        extent: (N, 2), length along and width across the heading.
        yaw: (N,).
    """
    c, s = np.cos(yaw), np.sin(yaw)
    local = _CORNERS * extent[:, None]
    turned = [c[:, None] * local[..., 0] - s[:, None] * local[..., 1]]
    turned.append(s[:, None] * local[..., 0] + c[:, None] * local[..., 1])
    corners: Floats = np.stack(turned, axis=-1) + centroid[:, None]
    return corners


def fill_quads(corners: Floats, layer: npt.NDArray[np.intp], shape: tuple[int, int, int]) -> Image:
    """Draw convex quadrilaterals: every pixel whose centre, a whole number, is not outside.

    On every row a convex outline covers one span, whose ends are where the row crosses its edges; the
    spans of all quadrilaterals and rows are found, and set, together.

    Args:
        corners: (N, 4, 2) in pixels, x then y, in order around each.
        layer: (N,), which layer each is drawn into.
        shape: layers, height, width.

    Returns:
        (layers, height, width), 0 and 1.
    """
    _, height, width = shape
    near = (corners.max(axis=1) >= 0).all(axis=1) & (corners.min(axis=1) <= [width - 1, height - 1]).all(
        axis=1
    )
    start, layer = corners[near], layer[near]
    end = np.roll(start, -1, axis=1)
    rows = np.arange(height)
    low, high = (pick(start[..., 1], end[..., 1])[..., None] for pick in (np.minimum, np.maximum))
    crossed = (low <= rows) & (rows <= high)
    rise = (end - start)[..., 1, None]
    share = np.divide(rows - start[..., 1, None], rise, out=np.zeros(crossed.shape), where=rise != 0)
    at = start[..., 0, None] + share * (end - start)[..., 0, None]
    first = np.ceil(np.where(crossed, at, np.inf).min(axis=1))
    last = np.floor(np.where(crossed, at, -np.inf).max(axis=1))
    quad, row = np.nonzero((first <= last) & (first < width) & (last >= 0))
    left = np.maximum(first[quad, row], 0).astype(np.intp)
    right = np.minimum(last[quad, row], width - 1).astype(np.intp)
    count = right - left + 1
    first_pixel = (layer[quad] * height + row) * width + left
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    image = np.zeros(shape, np.float32)
    image.reshape(-1)[np.repeat(first_pixel, count) + within] = 1.0
    return image


def mark_points(pixels: Floats, value: Floats, shape: tuple[int, int]) -> Image:
    """An image (height, width) with the greatest value of the points on each pixel; 0 where there is none.

    Args:
        pixels: (N, 2), x then y; whole numbers are centres of pixels.
        value: (N,), not negative.
        shape: height, width.
    """
    height, width = shape
    column, row = np.rint(pixels).astype(np.intp).T
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    image = np.zeros(height * width, np.float32)
    np.maximum.at(image, row[inside] * width + column[inside], value[inside].astype(np.float32))
    return image.reshape(height, width)


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
