"""What a user can choose about NCore V4 sequences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from edgefirst_ros.formats.format import OptionsModel

StoreType = Literal["itar", "directory"]
Profile = Literal["separate-sensors", "single"]

AUTOLABEL, SYNTHETIC = "AUTOLABEL", "GT_SYNTHETIC"
"""Who labels: a model, or a simulator that knows."""
TRUTH = "truth"
"""Name of the model of simulators that send what there is."""
EVERY = "all"
"""In place of a camera's id."""
Readout = Annotated[float, Field(ge=0.0, le=1000.0)]

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"
"""Names of cameras and masks: safe in a key, a file name and a tar header."""

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
    ego_masks: dict[str, dict[str, Path]] = Field(
        default_factory=dict,
        description="PNG masks of the vehicle's own body in the picture: by camera id, then by name of the "
        "mask; files are named from the configuration's folder. Give one if the bonnet is in view, so that "
        "nobody trains on it.",
    )
    camera_readout_ms: dict[str, Readout] = Field(
        default_factory=dict,
        description="Rolling-shutter readout time, from the first row of the picture to the last, by camera "
        "id, or one number for all. A frame ends this long after its stamp; 0: global shutter. Set it from "
        "the sensor's data sheet where reconstructions must be sharp in motion.",
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
        default=False,
        description="Where there are no 3-D boxes, make cuboids of the model's 2-D boxes that have a track "
        "and a distance. Headings of what stands are guesses then. Turn it on if such cuboids are better for "
        "you than none.",
    )
    unknown_pose: Literal["mark", "cut"] = Field(
        default="mark",
        description="Measurements taken while the rig's position or rotation is unknown: mark keeps them, "
        "with placeholder poses marked as assumed; cut leaves them out and counts them as skipped. Choose "
        "cut if your reader does not look at the marks.",
    )

    @field_validator("camera_readout_ms", mode="before")
    @classmethod
    def _of_all(cls, value: object) -> object:
        return {EVERY: value} if isinstance(value, int | float) else value

    @field_validator("ego_masks")
    @classmethod
    def _safe_masks(cls, masks: dict[str, dict[str, Path]]) -> dict[str, dict[str, Path]]:
        _check_names(masks)
        for named in masks.values():
            _check_names(named)
        return masks


def readout_of(readouts_ms: Mapping[str, float], camera: str) -> float:
    """Milliseconds from a camera's first row to its last."""
    return readouts_ms.get(camera, readouts_ms.get(EVERY, 0.0))


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not re.match(ID_PATTERN, name):
            raise ValueError(
                f"{name!r} cannot name a camera or mask: use at most 64 letters, digits and _ . @ -"
            )
