"""Batches of samples as tensors, for torch's DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.recfunctions import structured_to_unstructured

from edgefirst_ros.formats.edgefirst.read.dataset import Sample
from edgefirst_ros.model.errors import ExtraNotInstalled

_CLOUDS = ("lidar", "radar")
_GRIDS = ("image", "cube", "depth", "lidar_depth", "lidar_reflect")
_LISTS = (
    "boxes2d", "labels2d", "scores2d", "ignore2d", "boxes3d", "labels3d", "scores3d", "ignore3d",
    "labels_masks", "ignore_masks",
)  # fmt: skip
_ANGLES = {"location": 2, "pose": 3}
_UNKNOWN_NS = -1


def collate(samples: Sequence[Sample]) -> dict[str, Any]:
    """Make a batch of samples, as ``collate_fn`` of torch's DataLoader; runs in its workers.

    What every sample has in one size becomes one tensor, with the batch as its first dimension: ``image``
    (B, 3, H, W) uint8, ``cube`` complex64, ``depth`` and the lidar's images int32. If sizes differ, or a
    sample lacks it, it is a list of B tensors or None. ``lidar`` and ``radar`` are lists of (N, F) float32
    tensors or None, with x, y, z first; ``lidar_fields`` and ``radar_fields`` name the columns. Boxes,
    labels, scores and what is to be ignored are lists of B tensors, or None where nobody looked for them.
    Where unknown, ``location`` (B, 2) and
    ``pose`` (B, 3) float64 are NaN, and ``time_ns`` and ``frame`` (B,) int64 are -1. Others are lists of what
    the samples have.

    Raises:
        ExtraNotInstalled: torch is missing.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled("torch is not installed: pip install torch", name="torch") from error
    tensor = torch.from_numpy
    batch: dict[str, Any] = {}
    for key in samples[0]:
        values = [sample[key] for sample in samples]
        if key in _GRIDS:
            batch[key] = _stacked([None if v is None else tensor(_grid(key, v)) for v in values], torch.stack)
        elif key in _CLOUDS:
            fields = _fields_of(values)
            batch[key] = [None if v is None else tensor(_matrix_of(v, fields)) for v in values]
            batch[f"{key}_fields"] = fields
        elif key in _LISTS:
            batch[key] = [None if value is None else tensor(value) for value in values]
        elif key in _ANGLES:
            unknown = np.full(_ANGLES[key], np.nan)
            batch[key] = tensor(np.stack([unknown if value is None else value for value in values]))
        elif key in {"frame", "time_ns"}:
            batch[key] = torch.tensor([_UNKNOWN_NS if v is None else v for v in values], dtype=torch.int64)
        else:
            batch[key] = values
    return batch


def _grid(key: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if key == "image" and value.ndim == 3:
        return value.transpose(2, 0, 1)
    return value if key == "cube" else value.astype(np.int32)


def _stacked(tensors: list[Any], stack: Callable[[list[Any]], Any]) -> Any:  # noqa: ANN401 - torch has no types
    shapes = {None if each is None else (each.shape, each.dtype) for each in tensors}
    return stack(tensors) if len(shapes) == 1 and None not in shapes else tensors


def _fields_of(clouds: Sequence[npt.NDArray[np.void] | None]) -> tuple[str, ...]:
    """Fields that all clouds have and that are one number a point: x, y, z, then the others in order."""
    there = [cloud.dtype for cloud in clouds if cloud is not None]
    plain = [
        name
        for name in (there[0].names or () if there else ())
        if all(name in (dtype.names or ()) and not dtype[name].shape for dtype in there)
    ]
    return tuple(sorted(plain, key=lambda name: (name not in {"x", "y", "z"}, plain.index(name))))


def _matrix_of(cloud: npt.NDArray[np.void], fields: Sequence[str]) -> npt.NDArray[np.float32]:
    """The columns (N, F) of a cloud."""
    return np.array(structured_to_unstructured(cloud[list(fields)], np.float32))
