"""Class names of a detector to L5Kit's labels and traffic light states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.l5kit.store.schema import LABELS, UNKNOWN, AgentLabel, FaceStatus
from edgefirst_ros.formats.tracks.classes import KINDS, class_key

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
