"""What a user can choose about NCore V4 sequences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from edgefirst_ros.formats.format import OptionsModel

StoreType = Literal["itar", "directory"]
Profile = Literal["separate-sensors", "single"]

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"
"""Names of sensors, masks and component instances: safe in a key, a file name and a tar header."""

SAME_PICTURE_MS = 16.0
"""What is farther off than half of 1/30 s may be of a neighbouring picture."""
SAME_SCAN_MS = 50.0
"""A radar cube belongs to a scan that is not farther off; radars scan some 18 times a second."""
POSE_GAP_MS = 50.0
"""Poses that come more often are thinned to this: between them a car's way is a line within a millimetre."""


class NCoreOptions(OptionsModel):
    """Options of NCore V4 output; every field has a default that suits a Maivin or Raivin.

    Raises:
        pydantic.ValidationError: a value out of range, or a field of another name.
    """

    store: StoreType = Field(
        default="itar",
        description="One indexed tar file (itar) per component group, or a directory with one file per "
        "record. Choose directory to look at single records with other tools.",
    )
    profile: Profile = Field(
        default="separate-sensors",
        description="separate-sensors: a component group for each sensor, point cloud and label, and one for "
        "poses, calibration and cuboids; otherwise everything in a single group. Choose single to have one "
        "file to move.",
    )
    split_s: float = Field(
        default=300.0,
        gt=0.0,
        description="Begin another sequence after this time. Readers go through every key of a sequence when "
        "they open it, so long sequences open slowly. Raise it if your reader must not see a drive cut.",
    )
    sensor_ids: dict[str, str] = Field(
        default_factory=dict,
        description="Sensor ids by topic. Default: the frame_id of the messages, or the role if they have "
        "none. Set them if your code looks sensors up by names of its own.",
    )
    ego_masks: dict[str, dict[str, Path]] = Field(
        default_factory=dict,
        description="PNG masks of the vehicle's own body in the picture: by camera id, then by name of the "
        "mask; files are named from the configuration's folder. Give one if the bonnet is in view, so that "
        "nobody trains on it.",
    )
    stereo_pairs: dict[str, str] = Field(
        default_factory=dict,
        description="Pairs of cameras side by side: the right one's id by the left one's, or a list of pairs "
        "[[left, right]]. Pairs whose CameraInfo has their baseline are found. Name yours if stereo matching "
        "is to use them.",
    )
    source: Literal["real", "simulation"] = Field(
        default="real",
        description="Where the data are from. Set simulation where a simulator made them, so that readers "
        "do not take them for the world's.",
    )
    camera_readout_ms: float = Field(
        default=0.0,
        ge=0.0,
        le=1000.0,
        description="Rolling-shutter readout time, from the first row of the picture to the last. A frame "
        "ends this long after its stamp; 0: global shutter. Set it from the sensor's data sheet where "
        "reconstructions must be sharp in motion.",
    )
    assumed_camera_hfov_deg: float = Field(
        default=80.0,
        gt=0.0,
        lt=180.0,
        description="Horizontal field of view written for a camera without a usable CameraInfo, because "
        "readers refuse a camera without intrinsics; the metadata marks it as assumed. Set it to your lens's "
        "if you cannot calibrate.",
    )
    at_picture_size: tuple[Literal["masks", "depth"], ...] = Field(
        default=("masks",),
        description="Labels of the camera that are scaled to its picture's size, as image-aligned labels "
        "should be; each pixel takes the nearest value. Add depth if your reader wants depth so, and take "
        "masks out to keep the size that the model sent.",
    )
    lidar_spread_ms: float = Field(
        default=0.0,
        ge=0.0,
        le=10_000.0,
        description="Ray times of clouds without a time field: spread evenly over this time after the "
        "message's, by column if the cloud is organised; 0: all are the message's. Set it for a spinning "
        "lidar whose stamp is the sweep's begin, slightly less than the period, so that sweeps do not "
        "overlap.",
    )
    lidar_intensity_max: float | None = Field(
        default=None,
        gt=0.0,
        description="Value of the lidar's intensity field that is stored as 1. Default: the largest value of "
        "an integer type; for floating point, the smallest of 1, 255 and 65535 that covers the first sweep. "
        "Set it where the driver's range is another.",
    )
    radar_speed_receding_positive: bool = Field(
        default=True,
        description="Whether the radar's speed field is positive for receding targets, as in NCore. Set "
        "false if the driver's is positive for approaching ones; the sign is then inverted.",
    )
    radar_cube: bool = Field(
        default=False,
        description="Store each radar cube with the radar scan nearest in time: 0.8 to 1.6 MB per cube. Turn "
        "it on if you train on raw radar.",
    )
    cuboids_of_boxes2d: bool = Field(
        default=True,
        description="Where there are no 3-D boxes, cuboids are made of the model's 2-D boxes that have a "
        "track and a distance. Turn it off if their places are too poor for you.",
    )
    unknown_pose: Literal["mark", "cut"] = Field(
        default="mark",
        description="Measurements taken while the rig's position or rotation is unknown: mark keeps them, "
        "with placeholder poses marked as assumed; cut leaves them out and counts them as skipped. Choose "
        "cut if your reader does not look at the marks.",
    )

    @field_validator("sensor_ids")
    @classmethod
    def _safe_ids(cls, ids: dict[str, str]) -> dict[str, str]:
        _check_names(ids.values())
        if len(set(ids.values())) != len(ids):
            raise ValueError(f"two topics have the same sensor id: {sorted(ids.values())}")
        return ids

    @field_validator("stereo_pairs", mode="before")
    @classmethod
    def _by_left(cls, pairs: object) -> object:
        if not isinstance(pairs, list | tuple):
            return pairs
        if any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs):
            raise ValueError("expected pairs of a left and a right camera")
        return {str(left): str(right) for left, right in pairs}

    @field_validator("stereo_pairs")
    @classmethod
    def _two_cameras(cls, pairs: dict[str, str]) -> dict[str, str]:
        _check_names([*pairs, *pairs.values()])
        if same := sorted(left for left, right in pairs.items() if left == right):
            raise ValueError(f"{', '.join(same)} cannot be a pair by itself")
        return pairs

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
                f"{name!r} cannot name a sensor or mask: use at most 64 letters, digits and _ . @ -"
            )
