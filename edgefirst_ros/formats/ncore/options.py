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
        description="One indexed tar file (itar) per component group, or a directory. Choose directory to "
        "look at single records with other tools.",
    )
    profile: Profile = Field(
        default="separate-sensors",
        description="A component group for each sensor, or one for everything. Choose single to have one "
        "file to move.",
    )
    ego_masks: dict[str, dict[str, Path]] = Field(
        default_factory=dict,
        description="PNG masks of the vehicle's own body in the picture: by camera, then by name. Give "
        "one called ego if the bonnet is in view.",
    )
    camera_readout_ms: dict[str, Readout] = Field(
        default_factory=dict,
        description="Time from a picture's first row to its last, by camera or one number for all; 0: "
        "global shutter. Set it from the data sheet where reconstructions must be sharp in "
        "motion.",
    )
    radar_speed_receding_positive: bool = Field(
        default=True,
        description="Whether the radar's speed is positive for what moves away. Set false if it is "
        "positive for what comes closer.",
    )
    radar_cube: bool = Field(
        default=False,
        description="Store each radar cube with the scan nearest in time, at about 1 MB. Turn it on if "
        "you train on raw radar.",
    )
    cuboids_of_boxes2d: bool = Field(
        default=False,
        description="Make cuboids of tracked 2-D boxes with a distance, where there are no 3-D boxes. "
        "Turn it on if guessed headings are better for you than none.",
    )
    unknown_pose: Literal["mark", "cut"] = Field(
        default="mark",
        description="Measurements at an unknown place are kept and marked, or cut. Choose cut if your "
        "reader does not look at the marks.",
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
