"""What samples are to look like, in the layout of L5Kit's own configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from edgefirst_ros.errors import ConfigError
from edgefirst_ros.faults import sentences

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
