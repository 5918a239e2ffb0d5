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
from edgefirst_ros.formats.tracks.sizes import KINDS, PRIORS, Kind, Prior, class_key
from edgefirst_ros.model.errors import names_of
from edgefirst_ros.model.sample import Role

__all__ = ["AgentLabel", "FaceStatus"]  # of what is imported here

DEFAULT_LABELS: Mapping[str, AgentLabel] = {name: AgentLabel(kind.value) for name, kind in KINDS.items()}
"""Labels of known class names; any other name is UNKNOWN."""

LIGHTS: Mapping[str, FaceStatus] = {
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


Source = Literal["boxes3d", "model"]

ROLES: Mapping[Source, Role] = {"boxes3d": Role.BOXES_3D, "model": Role.MODEL}

TRACK_GAP_NS = 500_000_000
"""Gaps of a track up to this are interpolated, in longer ones the agent is left out; frames wait so long."""

_LABELS_OF_KINDS = {kind.value: PRIORS[kind] for kind in Kind if kind is not Kind.UNKNOWN}
PRIORS_OF_LABELS: Mapping[AgentLabel, Prior] = {
    label: _LABELS_OF_KINDS.get(label.value, PRIORS[Kind.UNKNOWN]) for label in AgentLabel
}
"""What sizes are possible by label; labels that are not agents have any."""


class L5KitOptions(OptionsModel):
    """Options of an L5Kit dataset; every field has a default that suits a Maivin or Raivin.

    Raises:
        pydantic.ValidationError: a value out of range, or a field of another name.
    """

    rate_hz: float = Field(
        default=10.0,
        ge=0.0,
        le=1000.0,
        description="Frames per second, to which ego and agents are interpolated; 0: one per sample. Set "
        "it to what your model expects: L5Kit's own have 10.",
    )
    sources: tuple[Source, ...] = Field(
        default=("boxes3d", "model"),
        description="Sources of agents, best first: 3-D boxes, or 2-D boxes with a distance. Take out the "
        "one whose positions are too poor for you.",
    )
    labels: dict[str, AgentLabel] = Field(
        default_factory=dict,
        description="L5Kit labels by class name, such as {forklift: OTHER_VEHICLE}; the usual names are "
        "known. Add your detector's own classes.",
    )

    @field_validator("labels")
    @classmethod
    def _plain_names(cls, value: dict[str, object]) -> dict[str, object]:
        return {class_key(name): meaning for name, meaning in value.items()}

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

    @cached_property
    def roles(self) -> frozenset[Role]:
        """What the format is made of besides the pose; samples need no companions of other roles."""
        return frozenset({Role.MODEL, *(ROLES[source] for source in self.sources)})

    @cached_property
    def all_labels(self) -> Mapping[str, AgentLabel]:
        """Labels by class key, built-in ones included; classes that are lights are none."""
        return {**DEFAULT_LABELS, **self.labels}

    @cached_property
    def all_lights(self) -> Mapping[str, FaceStatus]:
        """Face states by class key; a class in ``labels`` is not a light."""
        return {name: status for name, status in LIGHTS.items() if name not in self.labels}
