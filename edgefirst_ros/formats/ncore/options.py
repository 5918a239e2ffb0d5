"""What a user can choose about NCore V4 sequences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

StoreType = Literal["itar", "directory"]
Profile = Literal["separate-sensors", "single"]

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"
"""Names of sensors, masks and component instances: safe in a key, a file name and a tar header."""


SAME_PICTURE_MS = 16.0
"""What is farther off than half of 1/30 s may be of a neighbouring picture."""


class NCoreOptions(BaseModel):
    """Options of NCore V4 output; every field has a default that suits a Maivin or Raivin.

    Raises:
        pydantic.ValidationError: a value out of range, or a field of another name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    store: StoreType = Field(
        default="itar",
        description="One indexed tar file a component group, or a directory of one file a record.",
    )
    profile: Profile = Field(
        default="separate-sensors",
        description="Every sensor, point cloud and label in a component group of its own beside the group of "
        "poses, calibration and cuboids, or everything in a single group.",
    )
    split_s: float = Field(
        default=300.0,
        gt=0.0,
        description="A sequence that lasts this long is finished and another one begun: readers look at "
        "every key of a sequence when they open it.",
    )
    rig_frame: str = Field(
        default="base_link", description="Coordinate frame of the vehicle in tf; NCore calls it rig."
    )
    sensor_ids: dict[str, str] = Field(
        default_factory=dict,
        description="Topic to sensor id. By default a sensor is called as its coordinate frame, or as its "
        "role where messages carry none.",
    )
    ego_masks: dict[str, dict[str, Path]] = Field(
        default_factory=dict,
        description="Camera id to mask name to PNG file: what of the picture is the vehicle itself.",
    )
    camera_readout_ms: float = Field(
        default=0.0,
        ge=0.0,
        le=1000.0,
        description="Time from the first row of a picture to its last, top to bottom. A frame then ends that "
        "much after its time stamp; 0 is a global shutter.",
    )
    assumed_camera_hfov_deg: float = Field(
        default=80.0,
        gt=0.0,
        lt=180.0,
        description="Horizontal field of view written for a camera that never sent a usable CameraInfo, as "
        "readers refuse a camera without; the metadata says that it is assumed.",
    )
    boxes2d_tolerance_ms: float | None = Field(
        default=None,
        ge=0.0,
        le=10_000.0,
        description="2-D boxes farther from any picture than this are of none, and kept apart. Unset: what "
        "topics have for the model's messages, 16 ms by default, as a neighbouring picture's boxes are wrong "
        "labels; 16 ms also where the reference is no camera.",
    )
    depth_size: Literal["as_sent", "picture"] = Field(
        default="as_sent",
        description="Depth images as they were sent, or at the size of the picture: every pixel takes the "
        "nearest depth, none are mixed.",
    )
    labels_at_camera_size: bool = Field(
        default=True,
        description="Enlarge segmentation masks to the size of the picture (nearest neighbour), as "
        "image-aligned labels should be. False stores them as the model made them.",
    )
    lidar_ray_times: Literal["constant", "spread"] = Field(
        default="constant",
        description="Times of the rays of a cloud that has no time field: all that of the message, or spread "
        "evenly from it over lidar_sweep_ms, by column where the cloud is organised.",
    )
    lidar_sweep_ms: float = Field(
        default=95.0,
        gt=0.0,
        le=10_000.0,
        description="Duration of a sweep for lidar_ray_times: spread. A little less than the period, so that "
        "sweeps do not overlap.",
    )
    lidar_intensity_max: float | None = Field(
        default=None,
        gt=0.0,
        description="Value of the lidar's intensity field that becomes 1. By default the largest value of an "
        "integer field's type; 1, 255 or 65535 for a floating point field, the least that holds the first "
        "sweep.",
    )
    radar_speed_receding_positive: bool = Field(
        default=True,
        description="The radar's speed field is positive for targets that move away, as NCore has it. False "
        "changes the sign.",
    )
    radar_cube: bool = Field(
        default=False,
        description="Store radar cubes with the scan nearest in time. Large: 0.8 to 1.6 MB each.",
    )
    radar_cube_tolerance_ms: float = Field(
        default=50.0,
        ge=0.0,
        le=10_000.0,
        description="A cube farther from any scan than this gets a frame of its own, without detections.",
    )
    unknown_pose: Literal["mark", "cut"] = Field(
        default="mark",
        description="What is measured while the rig's position or rotation is unknown: kept, with poses that "
        "are placeholders and marked as assumed, or left out and counted as skipped.",
    )
    pose_gap_ms: float = Field(
        default=50.0,
        ge=1.0,
        le=200.0,
        description="Poses are thinned to gaps of at most this where they come more often.",
    )

    @field_validator("sensor_ids")
    @classmethod
    def _safe_ids(cls, ids: dict[str, str]) -> dict[str, str]:
        _check_names(ids.values())
        if len(set(ids.values())) != len(ids):
            raise ValueError(f"two topics have the same sensor id: {sorted(ids.values())}")
        return ids

    @field_validator("ego_masks")
    @classmethod
    def _safe_masks(cls, masks: dict[str, dict[str, Path]]) -> dict[str, dict[str, Path]]:
        _check_names(masks)
        for named in masks.values():
            _check_names(named)
        return masks


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not re.match(ID_PATTERN, name):
            raise ValueError(
                f"{name!r} is no name for a sensor or mask: letters, digits and _ . @ -, at most 64"
            )
