"""What a user can choose about an L5Kit dataset.

Class names of a detector to L5Kit's labels and traffic light states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from edgefirst_ros.formats.format import OptionsModel
from edgefirst_ros.formats.l5kit.store.schema import LABELS, UNKNOWN, AgentLabel, FaceStatus
from edgefirst_ros.formats.tracks.sizes import KINDS, PRIORS, Kind, Prior, Size, class_key
from edgefirst_ros.model.errors import names_of
from edgefirst_ros.model.sample import Role

__all__ = ["AgentLabel", "FaceStatus"]  # of what is imported here

DEFAULT_LABELS: Mapping[str, AgentLabel] = {name: AgentLabel(kind.value) for name, kind in KINDS.items()}
"""Labels of known class names; any other name is UNKNOWN."""

DEFAULT_LIGHTS: Mapping[str, FaceStatus] = {
    "traffic light": FaceStatus.UNKNOWN,
    "traffic light off": FaceStatus.INACTIVE,
    **{f"traffic light {color}": FaceStatus.ACTIVE for color in ("red", "yellow", "amber", "green")},
    **{f"{color} light": FaceStatus.ACTIVE for color in ("red", "yellow", "green")},
}
"""Classes that are traffic lights: they become faces, not agents. A class that names a colour is the bulb of
that colour, and it is on."""


def label_rows(
    names: Iterable[str], scores: npt.NDArray[np.float64], mapping: Mapping[str, AgentLabel]
) -> npt.NDArray[np.float32]:
    """Label probabilities (N, 17): the score for the class's label, the remainder for UNKNOWN.

    Args:
        names: class names.
        scores: (N,), taken as probabilities; outside 0..1 they are clipped.
        mapping: labels by ``class_key``.
    """
    indices = np.array([mapping.get(class_key(name), AgentLabel.UNKNOWN).index for name in names], np.intp)
    rows = np.zeros((len(indices), len(LABELS)), np.float32)
    sure = np.clip(np.nan_to_num(scores), 0.0, 1.0).astype(np.float32)
    rows[:, UNKNOWN] = 1.0 - sure
    rows[np.arange(len(indices)), indices] += sure
    return rows


def status_row(status: FaceStatus) -> npt.NDArray[np.float32]:
    """One-hot face status (3,) over ACTIVE, INACTIVE, UNKNOWN."""
    row = np.zeros(len(FaceStatus), np.float32)
    row[list(FaceStatus).index(status)] = 1.0
    return row


VELOCITY_WINDOW_NS = 500_000_000
"""Velocity is the slope of a line fitted to the positions over this time: some five at a detector's 10 Hz."""

Source = Literal["boxes3d", "model", "fusion_lidar", "fusion_radar", "radar_clusters"]

ROLES: Mapping[Source, Role] = {
    "boxes3d": Role.BOXES_3D,
    "model": Role.MODEL,
    "fusion_lidar": Role.FUSION_LIDAR,
    "fusion_radar": Role.FUSION_RADAR,
    "radar_clusters": Role.RADAR_CLUSTERS,
}

DEFAULT_SIZES_M: Mapping[AgentLabel, Size] = {
    AgentLabel(kind.value): prior.typical_m for kind, prior in PRIORS.items() if kind is not Kind.UNKNOWN
}


class L5KitOptions(OptionsModel):
    """Options of an L5Kit dataset; every field has a default that suits a Maivin or Raivin.

    Raises:
        pydantic.ValidationError: a value out of range, or a field of another name.
    """

    rate_hz: float = Field(
        default=10.0,
        ge=0.0,
        le=1000.0,
        description="Frames per second, evenly spaced from the first sample of a scene on; ego and agents "
        "are interpolated to these times. 0: one frame per sample, at its time. Where samples are more than "
        "0.3 s apart, only the times next to a sample get a frame. Set it to what your model expects; those "
        "trained on L5Kit's own data expect 10.",
    )
    append: bool = Field(
        default=False,
        description="Add the new scenes to an existing dataset of this name instead of refusing it. The "
        "existing scenes stay valid until the new ones are complete. Turn it on to collect many drives in "
        "one dataset.",
    )
    sources: tuple[Source, ...] = Field(
        default=("boxes3d", "model", "fusion_lidar", "fusion_radar", "radar_clusters"),
        description="Sources of agents, best first: an object seen by several is taken from the first. "
        "fusion_*: the topics fusion/lidar and fusion/radar, if they carry track_id. radar_clusters: the "
        "device's tracked clusters, which have no class. lidar/clusters are not tracked and never used. Take "
        "out those whose positions are too poor for you.",
    )
    labels: dict[str, AgentLabel] = Field(
        default_factory=dict,
        description="L5Kit labels by class name, without their prefix, e.g. {forklift: OTHER_VEHICLE}; added "
        "to the built-in names (COCO and common road classes). Case, blanks, - and _ are ignored. Other "
        "classes become UNKNOWN, which L5Kit leaves out. Add your detector's own classes.",
    )
    lights: dict[str, FaceStatus] = Field(
        default_factory=dict,
        description="Classes that are traffic lights, each with the state ACTIVE, INACTIVE or UNKNOWN; added "
        "to the built-in 'traffic light' (UNKNOWN), 'traffic light red' (ACTIVE) and the like. Add your "
        "detector's own classes.",
    )
    sizes_m: dict[AgentLabel, Size] = Field(
        default_factory=dict,
        description="Typical length, width, height by label, in addition to the built-in ones. Sent boxes "
        "have no length: length and width are estimated from the observed widths, the headings and these "
        "sizes. A track without a known heading gets these sizes, adjusted to the observed widths. Set those "
        "that differ where you drive.",
    )
    cut_boxes: Literal["refuse", "keep"] = Field(
        default="refuse",
        description="Model boxes cut off by the left or right edge of the picture: their centre is not the "
        "object's, by metres for a close vehicle. refuse leaves them out and counts them. Choose keep if a "
        "box that is off is better for you than none.",
    )
    track_gap_s: float = Field(
        default=0.5,
        ge=0.0,
        le=10.0,
        description="Gaps of a track up to this are interpolated; in longer ones the agent is left out. "
        "Frames are written this much later. Raise it for a detector that often misses an object.",
    )
    points: Literal["none", "lidar", "radar", "both"] = Field(
        default="both",
        description="Sensor points stored beside the arrays for the bird's-eye view, in files that L5Kit "
        "ignores. Choose none to save their space.",
    )
    points_per_frame: int = Field(
        default=2048,
        ge=1,
        le=1_000_000,
        description="Maximum points per sensor and frame, 7 bytes each. Raise it for a dense lidar, lower it "
        "to save space.",
    )

    @field_validator("labels", "lights")
    @classmethod
    def _plain_names(cls, value: dict[str, object]) -> dict[str, object]:
        return {class_key(name): meaning for name, meaning in value.items()}

    @field_validator("sizes_m")
    @classmethod
    def _positive(cls, value: dict[AgentLabel, Size]) -> dict[AgentLabel, Size]:
        for label, size in value.items():
            if not all(0.0 < edge < 1000.0 for edge in size):
                raise ValueError(f"{label}: length, width, height must be more than 0 metres, found {size}")
        return value

    @field_validator("sources", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return names_of(value)

    @field_validator("sources")
    @classmethod
    def _each_once(cls, value: tuple[Source, ...]) -> tuple[Source, ...]:
        if len(set(value)) != len(value):
            raise ValueError(f"every source once, found {', '.join(value)}")
        return value

    @property
    def roles(self) -> frozenset[Role]:
        """What the format is made of besides the pose; samples need no companions of other roles."""
        points = {"lidar": {Role.LIDAR_POINTS}, "radar": {Role.RADAR_TARGETS}, "none": set[Role]()}
        points["both"] = points["lidar"] | points["radar"]
        return frozenset({ROLES[source] for source in self.sources} | points[self.points] | {Role.MODEL})

    @property
    def ahead_s(self) -> float:
        """How much later than its time a frame is made."""
        return max(self.track_gap_s, VELOCITY_WINDOW_NS / 2e9)

    @cached_property
    def all_labels(self) -> Mapping[str, AgentLabel]:
        """Labels by class key, built-in ones included; classes that are lights are none."""
        return {**DEFAULT_LABELS, **self.labels}

    @cached_property
    def all_lights(self) -> Mapping[str, FaceStatus]:
        """Face states by class key, built-in ones included; a class in ``labels`` is not a light."""
        own = set(self.labels) - set(self.lights)
        return {name: status for name, status in {**DEFAULT_LIGHTS, **self.lights}.items() if name not in own}

    @cached_property
    def all_sizes_m(self) -> Mapping[AgentLabel, Size]:
        """Typical sizes by label; labels that are not agents have none."""
        return {**DEFAULT_SIZES_M, **self.sizes_m}

    @cached_property
    def priors(self) -> Mapping[AgentLabel, Prior]:
        """What sizes are possible by label; labels that are not agents have any."""
        known = {label: PRIORS[Kind(label.value)] for label in DEFAULT_SIZES_M}
        unknown = PRIORS[Kind.UNKNOWN]
        own = {label: known.get(label, unknown).around(size) for label, size in self.sizes_m.items()}
        return {label: own.get(label) or known.get(label, unknown) for label in AgentLabel}
